// Tables made from the documents: reviews, timelines, complete lists, comparisons.

import { html, useEffect, useLayoutEffect } from "../vendor/preact.js";
import { t } from "../lib/i18n.js";
import { Failure, useTitle } from "../lib/parts.js";
import { go, to } from "../lib/route.js";
import { Downloads, Making, Notes } from "../work/cells.js";
import { Compare } from "../work/compare.js";
import { Form } from "../work/forms.js";
import { Review } from "../work/grid.js";
import { argumentsOf, ended, keyOf, KINDS, made, recall, told } from "../work/made.js";
import { List } from "../work/statements.js";
import { Timeline } from "../work/timeline.js";

const SHOWN = { review: Review, timeline: Timeline, list: List, compare: Compare };
const before = new Map(); // the arguments of each kind when it was left, the last one at the end

await styled();

export default function Work({ route }) {
  const isNamed = KINDS.includes(route.args[0]);
  useLayoutEffect(() => {
    if (isNamed) return;
    const last = Object.keys(route.query).length ? KINDS[0] : ([...before.keys()].at(-1) ?? KINDS[0]);
    go(to("work", last, { ...(before.get(last) ?? {}), ...route.query }), true);
  }, [isNamed]);
  return isNamed && html`<${Kind} route=${route} />`;
}

function Kind({ route }) {
  const kind = route.args[0];
  const given = argumentsOf(kind, route.query);
  const key = keyOf(kind, given);
  const found = made.value.get(key);
  const failed = ended.value?.key === key ? ended.value : null;
  before.delete(kind);
  before.set(kind, { ...given, ...(route.query.table ? { table: route.query.table } : {}) });
  useTitle(t(`tables.${kind}`));
  useEffect(() => {
    if (!found && route.query.table) recall(kind, given, route.query.table);
  }, [key]);
  return html`<div class="page work">
    <h1>${t("nav.work")}</h1>
    <nav class="tabs" aria-label=${t("tables.which")}>${KINDS.map((name) => html`<a key=${name} href=${to("work", name, before.get(name) ?? {})} aria-current=${name === kind ? "true" : null}>${t(`tables.${name}`)}</a>`)}</nav>
    <p class="lead-in">${t(`tables.${kind}.why`)}</p>
    <${Form} key=${kind} kind=${kind} given=${given} />
    <${Making} />
    <p class="offscreen" role="status">${told.value}</p>
    ${failed?.error && html`<${Failure} error=${failed.error} />`}
    ${failed && !failed.error && html`<p class="table-note">${t("tables.stopped")}</p>`}
    ${found && html`<${Made} key=${key} found=${found} tableKey=${key} kind=${kind} />`}
  </div>`;
}

function Made({ found, tableKey, kind }) {
  const Shown = SHOWN[kind];
  const { id, table } = found;
  return html`<section class="made" aria-labelledby="made-title">
    <h2 id="made-title" dir="auto">${kind === "review" ? t("tables.review") : table.title}</h2>
    <${Notes} table=${table} />
    ${table.rows.length > 0 ? html`<${Shown} found=${found} tableKey=${tableKey} /><${Downloads} id=${id} kind=${kind} />` : !table.note && html`<p class="table-note">${t("tables.none")}</p>`}
  </section>`;
}

/** The style of tables, which is loaded with this view. */
function styled() {
  return new Promise((loaded) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "static/work/tables.css" });
    link.onload = link.onerror = loaded;
    document.head.append(link);
  });
}
