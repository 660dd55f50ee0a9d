// The same graph for those who do not see the picture: a tree of communities with their entities, and what an entity is related to.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { t } from "../lib/i18n.js";
import { listed, relatedTo } from "./load.js";

const PAGE = 30; // lines that are added at once

/** A tree of communities, opened line by line with the keys of such trees. `choose(kind, number)` is what Enter and a click do. */
export function Tree({ scene, choose }) {
  const { picture } = scene;
  const [open, setOpen] = useState(() => new Set());
  const [lengths, setLengths] = useState(() => new Map());
  const [at, setAt] = useState(null);
  const box = useRef(null);
  const lines = linesOf(picture, open, lengths);
  useNames(scene, lines);
  const current = lines.some((line) => line.key === at) ? at : lines[0]?.key;

  const toggle = (line, wanted) => {
    const next = new Set(open);
    if (wanted) next.add(line.number);
    else next.delete(line.number);
    setOpen(next);
  };
  const more = (line) => setLengths(new Map(lengths).set(line.owner, (lengths.get(line.owner) ?? PAGE) + PAGE));
  const use = (line) => (line.kind === "more" ? more(line) : choose(line.kind, line.number));
  const move = (to) => {
    if (!to) return;
    setAt(to.key);
    requestAnimationFrame(() => box.current?.querySelector(`[data-key="${to.key}"]`)?.focus());
  };
  const keys = (event) => {
    const n = lines.findIndex((line) => line.key === current);
    const line = lines[n];
    if (!line) return;
    const done = {
      ArrowDown: () => move(lines[n + 1]),
      ArrowUp: () => move(lines[n - 1]),
      Home: () => move(lines[0]),
      End: () => move(lines.at(-1)),
      ArrowRight: () => (line.kind === "community" && !open.has(line.number) ? toggle(line, true) : move(lines[n + 1])),
      ArrowLeft: () => (open.has(line.number) && line.kind === "community" ? toggle(line, false) : move(lines.find((one) => one.key === line.above))),
      Enter: () => use(line),
      " ": () => use(line),
    }[event.key];
    if (!done || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    done();
  };
  return html`<ul class="graph-tree" role="tree" aria-label=${t("graph.tree")} ref=${box} onKeyDown=${keys}>
    ${lines.map((line) => html`<${Line} key=${line.key} line=${line} scene=${scene} open=${open} toggle=${toggle} use=${use}
      tab=${line.key === current} onFocus=${() => setAt(line.key)} />`)}
  </ul>`;
}

function Line({ line, scene, open, toggle, use, tab, onFocus }) {
  const expanded = line.kind === "community" ? open.has(line.number) : null;
  const text = line.kind === "more" ? t("graph.more", { n: line.left }) : scene.names.text(line.kind, line.number) ?? "…";
  const press = (event) => {
    if (event.target.closest(".twist")) toggle(line, !expanded);
    else use(line);
  };
  return html`<li role="treeitem" aria-level=${line.depth + 1} aria-setsize=${line.of} aria-posinset=${line.nth} aria-expanded=${expanded}
    data-key=${line.key} data-depth=${Math.min(line.depth, 6)} tabindex=${tab ? 0 : -1} onClick=${press} onFocus=${onFocus}>
    <span class="twist" aria-hidden="true">${expanded === null ? "" : expanded ? "▾" : "▸"}</span>
    <span>${text}</span>
    ${line.kind === "community" && html` <span class="soft">${t("graph.entities", { n: scene.picture.size[line.number] })}</span>`}
  </li>`;
}

/** The lines of the tree as far as it is open. */
function linesOf(picture, open, lengths) {
  const lines = [];
  const add = (kind, numbers, depth, owner, above) => {
    const most = lengths.get(owner) ?? PAGE;
    const some = [...numbers.slice(0, most)];
    const of = numbers.length > most ? some.length + 1 : some.length;
    some.forEach((n, k) => {
      const key = `${kind}-${n}`;
      lines.push({ kind, number: n, key, depth, above, nth: k + 1, of });
      if (kind === "community" && open.has(n)) below(n, depth + 1, key);
    });
    if (numbers.length > most) lines.push({ kind: "more", key: `more-${owner}`, owner, left: numbers.length - most, depth, above, nth: of, of });
  };
  const below = (n, depth, key) => {
    const inner = listed(picture.children, n);
    if (inner.length) add("community", inner, depth, n, key);
    else add("entity", listed(picture.members, n), depth, n, key);
  };
  add("community", picture.roots, 0, "top", null);
  return lines;
}

/** What an entity is related to, the heaviest first, each a button. */
export function Neighbours({ scene, entity, choose }) {
  const [most, setMost] = useState(PAGE);
  const related = relatedTo(scene.picture, entity);
  const some = related.slice(0, most).map((one) => ({ kind: "entity", number: one.node }));
  useNames(scene, some);
  if (!related.length) return html`<p class="soft">${t("graph.alone")}</p>`;
  return html`<ul class="neighbours">
    ${some.map((one) => html`<li key=${one.number}>
      <button type="button" class="quiet" onClick=${() => choose("entity", one.number)}>${scene.names.text("entity", one.number) ?? "…"}</button>
    </li>`)}
  </ul>
  ${related.length > most && html`<button type="button" onClick=${() => setMost(most + PAGE)}>${t("graph.more", { n: related.length - most })}</button>`}`;
}

/** Ask for the names of some lines; the component is drawn again when they are there. */
function useNames(scene, lines) {
  const [, again] = useState(0);
  const wanted = lines.filter((line) => line.kind !== "more" && scene.names.of(line.kind, line.number) === undefined);
  useEffect(() => {
    let here = true;
    const of = (kind) => wanted.filter((line) => line.kind === kind).map((line) => line.number);
    if (wanted.length) {
      Promise.all([scene.names.want("entity", of("entity")), scene.names.want("community", of("community"))]).then(
        () => here && again((n) => n + 1),
      );
    }
    return () => (here = false);
  }, [wanted.map((line) => line.key ?? line.number).join()]);
}
