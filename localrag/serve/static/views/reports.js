// The themes of the documents, the broadest first, each with sentences about it and the themes that it divides into.

import { html } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { status } from "../lib/live.js";
import { Failure, useData, useTitle, Waiting } from "../lib/parts.js";
import { Quoted } from "./library.js";

export default function Themes() {
  useTitle(t("nav.reports"));
  const { data, error, again } = useData((signal) => get("/api/themes", signal), [status.value?.counts.reports, status.value?.counts.chunks]);
  return html`<div class="page themes">
    <h1>${t("nav.reports")}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${!data && !error && html`<${Waiting} />`}
    ${data?.themes.length === 0 && html`<p>${t("reports.none")}</p><p><a href="#/documents">${t("reports.none.add")}</a></p>`}
    ${data?.themes.length > 0 && html`<p class="soft">${t("reports.what")}</p>${data.themes.map((one) => html`<${Theme} key=${one.number} one=${one} />`)}`}
  </div>`;
}

function Theme({ one }) {
  const breadth = one.of_documents > 1 ? t("reports.documents", { n: one.documents, total: one.of_documents }) : t("reports.passages", { n: one.passages });
  return html`<details class="theme">
    <summary><span dir="auto">${one.label}</span> <span class="soft" dir="auto">${[...one.phrases, breadth].join(" · ")}</span></summary>
    <ul class="quotes">${one.quotes.map((quote, i) => html`<li key=${i}><${Quoted} place=${quote} text=${quote.text} /></li>`)}</ul>
    ${one.parts.map((part) => html`<${Theme} key=${part.number} one=${part} />`)}
  </details>`;
}
