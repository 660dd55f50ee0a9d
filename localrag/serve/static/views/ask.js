import { html } from "../vendor/preact.js";
import { t } from "../lib/i18n.js";

export default function Ask() {
  return html`<div class="page"><h1>${t("nav.ask")}</h1></div>`;
}
