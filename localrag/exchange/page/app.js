// The page of an exported graph: the picture, and beside it what the documents say of what was chosen.

import { html, render, useEffect, useRef } from "../vendor/preact.js";
import { known, use } from "../lib/api.js";
import { number, speak, t } from "../lib/i18n.js";
import { placeName } from "../lib/parts.js";
import { route, to } from "../lib/route.js";
import { read, relatedTo } from "../graph/load.js";
import Graph from "../views/graph.js";

const MOST = 100; // relationships that are listed

function Page() {
  const { view, args } = route.value;
  const [kind, id] = view === "graph" ? args : [view, args[0]];
  const chosen = kind && id ? known(kind, id) : null;
  return html`<main class="export">
    <${Graph} route=${{ view: "graph", args: chosen ? [kind, id] : [] }} />
    ${chosen && html`<${About} key=${id} one=${chosen} wanted=${view === "entity"} />`}
  </main>`;
}

function About({ one, wanted }) {
  const heading = useRef(null);
  useEffect(() => {
    if (wanted) heading.current?.focus();
  }, [wanted]);
  return html`<article class="export-about">
    <h2 ref=${heading} tabindex="-1" dir="auto">${one.name || one.title || t("graph.community", { label: one.label })}</h2>
    ${one.kind === "entity" ? html`<${Entity} one=${one} />` : html`<p dir="auto">${one.summary}</p>`}
  </article>`;
}

function Entity({ one }) {
  const others = one.names.filter((name) => name !== one.name);
  return html`
    <p class="soft">${one.type}${others.length > 0 && html` · ${t("entity.names")} <span dir="auto">${others.join(", ")}</span>`}</p>
    ${one.description && html`<p dir="auto">${one.description}</p>`}
    ${one.quotes.length > 0 && html`<h3>${t("entity.mentions")}</h3>`}
    ${one.quotes.map((place, k) => html`<blockquote key=${k}><p dir="auto">${place.quote}</p><p class="soft">${placeName(place)}</p></blockquote>`)}
    ${one.related.length > 0 && html`<h3>${t("entity.relationships")} <span class="soft">${number(one.related.length)}</span></h3>`}
    <ul class="plain">${one.related.slice(0, MOST).map((other) => html`<li key=${other.id}>
      <a href=${to("graph", "entity", other.id)} dir="auto">${other.name}</a> <span class="soft">${number(other.weight, { maximumFractionDigits: 1 })}</span>
      ${other.how && html`<p dir="auto">${other.how}</p>`}</li>`)}</ul>
    ${one.related.length > MOST && html`<p class="soft">${t("graph.more", { n: one.related.length - MOST })}</p>`}`;
}

use({ read, relatedTo });
await speak();
render(html`<${Page} />`, document.getElementById("app"));
