// The report of a community: what it is about, what was found, and the words of the documents that say so.

import { html } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { number, percent, t } from "../lib/i18n.js";
import { Markdown } from "../lib/markdown.js";
import { Failure, useData, useTitle, Waiting } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { communityPlace, Entities, Quoted, Section } from "./library.js";

const BEST = 10; // the highest rating

export default function Report({ route }) {
  const id = route.args[0] ?? "";
  const { data, error, again } = useData((signal) => get(`/api/reports/${encodeURIComponent(id)}`, signal), [id]);
  useTitle(data?.title ?? t("report.title"));
  return html`<div class="page report">
    <p class="way"><a href="#/graph">${t("nav.graph")}</a>${data?.parent && html` › <a href=${to("report", data.parent.id)}>${data.parent.title}</a>`}</p>
    <h1 dir="auto">${data?.title ?? t("report.title")}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${!data && !error && html`<${Waiting} />`}
    ${data && html`<${Written} found=${data} />`}
  </div>`;
}

function Written({ found }) {
  const facts = [communityPlace(found), t("reports.entities", { n: found.entities.length }), t("reports.coverage", { share: percent(found.coverage) })];
  return html`
    <p class="soft">${facts.join(" · ")}</p>
    <p class="links-row"><a href=${to("graph", "community", found.id)}>${t("report.graph")}</a></p>
    <div class="lead" dir="auto"><${Markdown} text=${found.summary} level=${2} /></div>
    ${found.rating !== null && html`<${Rating} found=${found} />`}
    <${Section} title=${t("report.findings")} note=${number(found.findings.length)} when=${found.findings.length > 0}>
      <ol class="findings">${found.findings.map((one, i) => html`<li key=${i}><${Finding} one=${one} /></li>`)}</ol>
    </${Section}>
    <${Section} title=${t("report.children")} when=${found.children.length > 0}>
      <ul class="plain">${found.children.map((one) => html`<li key=${one.id}><a href=${to("report", one.id)} dir="auto">${one.title}</a></li>`)}</ul>
    </${Section}>
    <${Section} title=${t("report.entities")} note=${number(found.entities.length)} when=${found.entities.length > 0}><${Entities} entities=${found.entities} /></${Section}>`;
}

function Rating({ found }) {
  return html`<div class="rating">
    <p><strong>${t("report.rating", { n: number(found.rating, { maximumFractionDigits: 1 }), most: BEST })}</strong></p>
    ${found.rating_explanation && html`<p class="soft" dir="auto">${found.rating_explanation}</p>`}
  </div>`;
}

function Finding({ one }) {
  return html`<h3 dir="auto">${one.summary}</h3>
    ${one.explanation && html`<div dir="auto"><${Markdown} text=${one.explanation} level=${4} /></div>`}
    ${one.quotes.length > 0 && html`<ul class="quotes">${one.quotes.map((quote, i) => html`<li key=${i}><${Quoted} place=${quote} text=${quote.text} /></li>`)}</ul>`}`;
}
