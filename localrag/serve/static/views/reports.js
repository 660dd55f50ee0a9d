// The themes: communities as a tree, the coarsest outside, each with the title of its report.

import { html, signal, useEffect, useLayoutEffect, useMemo, useRef } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { number, percent, t } from "../lib/i18n.js";
import { status } from "../lib/live.js";
import { Failure, useData, useTitle, Waiting } from "../lib/parts.js";
import { go, to } from "../lib/route.js";
import { communityName } from "./library.js";

const opened = signal(null); // ids that are unfolded; null: not touched yet. It holds while other views are open.
const active = signal(null); // the id that the keyboard is at

export default function Reports() {
  useTitle(t("nav.reports"));
  const { data, error, again } = useData((signal) => get("/api/communities", signal), [status.value?.counts.reports, status.value?.counts.communities]);
  const tree = useMemo(() => (data ? grown(data.communities) : null), [data]);
  return html`<div class="page reports">
    <h1>${t("nav.reports")}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${!tree && !error && html`<${Waiting} />`}
    ${tree?.tops.length === 0 && html`<p>${t("reports.none")}</p><p><a href="#/documents">${t("reports.none.add")}</a></p>`}
    ${tree?.tops.length > 0 && html`<p class="soft">${t("reports.what")}</p><${Levels} tree=${tree} /><${Tree} tree=${tree} />`}
  </div>`;
}

/** The communities by id, those below each, and those on top; one whose parent is not there is on top. */
export function grown(communities) {
  const byId = new Map(communities.map((one) => [one.id, one]));
  const below = Map.groupBy(communities, (one) => (byId.has(one.parent) ? one.parent : null));
  return { byId, below, tops: below.get(null) ?? [], levels: [...new Set(communities.map((one) => one.level))].sort((a, b) => a - b) };
}

const isOpen = (id) => opened.value?.has(id) ?? false;

function set(id, open) {
  const next = new Set(opened.value ?? []);
  if (open) next.add(id);
  else next.delete(id);
  opened.value = next;
}

/** Unfold down to a level. */
function Levels({ tree }) {
  if (tree.levels.length < 2) return null;
  const down = (level) => (opened.value = new Set([...tree.byId.values()].filter((one) => one.level < level && tree.below.has(one.id)).map((one) => one.id)));
  return html`<div class="levels" role="group" aria-label=${t("reports.levels")}>
    <span class="soft" aria-hidden="true">${t("reports.levels")}</span>
    ${tree.levels.map((level) => html`<button key=${level} type="button" onClick=${() => down(level)}>${t("reports.level", { n: level })}</button>`)}
  </div>`;
}

function Tree({ tree }) {
  const box = useRef(null);
  const moved = useRef(false);
  const rows = visible(tree, tree.tops);
  const at = rows.find((row) => row.one.id === active.value) ?? rows[0];
  useEffect(() => {
    if (opened.value === null && tree.tops.length === 1) set(tree.tops[0].id, true);
  }, [tree]);
  useLayoutEffect(() => {
    if (moved.current) box.current.querySelector('[role="treeitem"][tabindex="0"]')?.focus();
    moved.current = false;
  }, [at.one.id]);
  const move = (row) => {
    if (!row || row === at) return;
    moved.current = true;
    active.value = row.one.id;
  };
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = document.dir === "rtl" ? { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[event.key] ?? event.key : event.key;
    const done = keyed(key, { tree, rows, at, move });
    if (done) event.preventDefault();
  };
  const focused = (event) => {
    const id = event.target.closest('[role="treeitem"]')?.dataset.id;
    if (id) active.value = id;
  };
  return html`<ul class="tree" role="tree" aria-label=${t("nav.reports")} ref=${box} onKeyDown=${pressed} onFocusIn=${focused}>
    ${tree.tops.map((one, i) => html`<${Branch} key=${one.id} tree=${tree} one=${one} depth=${1} at=${at.one.id} place=${i + 1} of=${tree.tops.length} />`)}
  </ul>`;
}

/** The rows that are seen, from top to bottom, each with what it is below. */
function visible(tree, list, parent = null) {
  return list.flatMap((one) => {
    const row = { one, parent };
    return isOpen(one.id) ? [row, ...visible(tree, tree.below.get(one.id) ?? [], row)] : [row];
  });
}

/** What a key does in the tree; false for a key that does nothing. */
function keyed(key, { tree, rows, at, move }) {
  const i = rows.indexOf(at);
  const folded = tree.below.has(at.one.id) && !isOpen(at.one.id);
  const acts = {
    ArrowDown: () => move(rows[i + 1]),
    ArrowUp: () => move(rows[i - 1]),
    Home: () => move(rows[0]),
    End: () => move(rows.at(-1)),
    ArrowRight: () => (folded ? set(at.one.id, true) : tree.below.has(at.one.id) && move(rows[i + 1])),
    ArrowLeft: () => (isOpen(at.one.id) ? set(at.one.id, false) : move(at.parent)),
    Enter: () => at.one.title && go(to("report", at.one.id)),
    " ": () => tree.below.has(at.one.id) && set(at.one.id, folded),
    "*": () => rows.filter((row) => row.parent === at.parent && tree.below.has(row.one.id)).forEach((row) => set(row.one.id, true)),
  };
  if (acts[key]) {
    acts[key]();
    return true;
  }
  if (key.length !== 1) return false;
  const starts = (row) => communityName(row.one).toLocaleLowerCase().startsWith(key.toLocaleLowerCase());
  move([...rows.slice(i + 1), ...rows.slice(0, i)].find(starts));
  return true;
}

function Branch({ tree, one, depth, at, place, of }) {
  const below = tree.below.get(one.id) ?? [];
  const open = below.length > 0 && isOpen(one.id);
  const label = `community-${one.id}`;
  return html`<li role="treeitem" data-id=${one.id} tabindex=${one.id === at ? 0 : -1} aria-level=${depth} aria-posinset=${place} aria-setsize=${of}
    aria-expanded=${below.length ? String(open) : null} aria-labelledby=${label}>
    <div class="row">
      ${below.length
        ? html`<span class=${open ? "fold open" : "fold"} aria-hidden="true" onClick=${() => set(one.id, !open)}>
            <svg viewBox="0 0 12 12" width="12" height="12"><path d="M4 2l4 4-4 4" fill="none" stroke="currentColor" stroke-width="1.6" /></svg></span>`
        : html`<span class="fold" aria-hidden="true"></span>`}
      <span class="what" id=${label}>
        ${one.title ? html`<a tabindex="-1" href=${to("report", one.id)} dir="auto">${one.title}</a>` : html`<span class="soft">${communityName(one)}</span>`}
        <span class="soft facts">${t("reports.entities", { n: one.entities })}${
          one.coverage === null ? ` · ${t("reports.unwritten")}` : ` · ${t("reports.coverage", { share: percent(one.coverage) })}`}</span>
      </span>
      <span class="soft number" aria-hidden="true">${one.number}</span>
    </div>
    ${open && html`<ul role="group">${below.map((child, i) => html`<${Branch} key=${child.id} tree=${tree} one=${child} depth=${depth + 1} at=${at} place=${i + 1} of=${below.length} />`)}</ul>`}
  </li>`;
}
