// Parts that the views of documents, themes and entities share.

import { html } from "../vendor/preact.js";
import { t } from "../lib/i18n.js";
import { placeName } from "../lib/parts.js";
import { to } from "../lib/route.js";

/** Words of a document, which lead to their place in it. */
export function Quoted({ place, text }) {
  return html`<a class="quoted" href=${to("document", place.document, { mark: `${place.start}-${place.end}` })}>
    <q lang="" dir="auto">${text}</q>
    <span class="soft">${placeName(place)}</span>
  </a>`;
}

/** What kind of entity it is; "name" is that of those nobody knows more of. */
export const kindOf = (one) => (one.type === "name" ? "" : one.type);

/** Entities, each a way to its page. */
export function Entities({ entities }) {
  return html`<ul class="names">
    ${entities.map((one) => html`<li key=${one.id}><a href=${to("entity", one.id)}><span dir="auto">${one.name}</span>${kindOf(one) && html` <span class="soft">${kindOf(one)}</span>`}</a></li>`)}
  </ul>`;
}

/** A part of a page with its heading; nothing where there is nothing in it. `note` stands behind the heading. */
export function Section({ title, note = "", when = true, children }) {
  if (!when) return null;
  return html`<section class="section"><h2>${title}${note && html` <span class="count">${note}</span>`}</h2>${children}</section>`;
}

/** Where one is among the themes: the number and the level. */
export const communityPlace = (one) => `${one.number} · ${t("reports.level", { n: one.level })}`;
