// The files of the index: what was read and what was not, more of them, fewer of them.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { del, get } from "../lib/api.js";
import { number, t, when } from "../lib/i18n.js";
import { refresh, status } from "../lib/live.js";
import { Failure, fileName, Sure, useTitle, Waiting } from "../lib/parts.js";
import { go, to } from "../lib/route.js";
import { Run } from "./run.js";
import { add, begun, dropped, index, look, refused, size, Uploads } from "./uploads.js";

const PAGE = 50;
const STATES = ["indexed", "skipped", "failed"];
const AFTER = 200; // milliseconds without a key before the list is searched

export default function Documents({ route }) {
  useTitle(t("nav.documents"));
  const [removal, setRemoval] = useState(null); // the document that the dialog asks about
  const [leaving, setLeaving] = useState([]); // ids of documents that are being removed
  const now = status.value;
  const { list, error, again } = useList(route.query, now);
  useEffect(() => {
    refresh();
  }, []);
  useEffect(() => {
    if (leaving.length && now?.run?.state !== "running" && list) setLeaving(leaving.filter((id) => list.documents.some((one) => one.id === id)));
  }, [list]);
  const change = now && !now.read_only;
  const files = list ? Object.values(list.states).reduce((sum, n) => sum + n, 0) : null;
  const remove = async (one) => {
    const before = now.run?.started_at;
    await del(`/api/documents/${encodeURIComponent(one.id)}`);
    setLeaving([...leaving, one.id]);
    await look();
    begun(before);
  };
  return html`<div class="page documents">
    <header class="title"><h1>${t("nav.documents")}</h1>
      ${change && files > 0 && html`<button type="button" onClick=${index} disabled=${now.run?.state === "running"}>${t("documents.again")}</button>`}
    </header>
    <${Run} removing=${leaving.length > 0} />
    ${refused.value && html`<${Failure} error=${refused.value} />`}
    ${change && html`<${Drop} most=${now.most_bytes} />`}
    <${Uploads} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${!list && !error && html`<${Waiting} />`}
    ${files === 0 && html`<${Empty} change=${change} />`}
    ${files > 0 && html`<${Listed} query=${route.query} list=${list} leaving=${leaving} ask=${change ? setRemoval : null} />`}
    ${removal && html`<${Removal} one=${removal} remove=${remove} close=${() => setRemoval(null)} />`}
  </div>`;
}

/** One page of the list. It is read again when files came or went, and the old one stays until the new one is there. */
function useList({ state = "indexed", q = "", from = "0" }, now) {
  const [found, setFound] = useState({ list: null, error: null });
  const [round, setRound] = useState(0);
  const changed = now && JSON.stringify([now.files, now.counts.documents, now.run?.state === "running"]);
  useEffect(() => {
    const leaving = new AbortController();
    const query = new URLSearchParams({ state, q, offset: from, limit: PAGE });
    get(`/api/documents?${query}`, leaving.signal).then(
      (list) => leaving.signal.aborted || setFound({ list: { ...list, from: Number(from) }, error: null }),
      (error) => leaving.signal.aborted || setFound({ list: null, error }),
    );
    return () => leaving.abort();
  }, [state, q, from, changed, round]);
  return { ...found, again: () => setRound(round + 1) };
}

/** Where files are dragged to, and a button that asks for them; a file that is let go beside it does not replace the page. */
function Drop({ most }) {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    const drag = (event) => {
      if (!carries(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event) => event.relatedTarget === null && setOver(false);
    const drop = (event) => {
      setOver(false);
      if (!carries(event)) return;
      event.preventDefault();
      dropped(event.dataTransfer);
    };
    const all = { dragover: drag, dragleave: leave, drop };
    for (const [name, handler] of Object.entries(all)) addEventListener(name, handler);
    return () => Object.entries(all).forEach(([name, handler]) => removeEventListener(name, handler));
  }, []);
  const chosen = (event) => {
    add(event.target.files);
    event.target.value = ""; // the same file can be chosen again
  };
  return html`<label class=${over ? "drop over" : "drop"}>
    <input class="offscreen" type="file" multiple aria-describedby="drop-kinds" onChange=${chosen} />
    <strong>${t("documents.drop")}</strong>
    <span class="button" aria-hidden="true">${t("documents.choose")}</span>
    <span class="soft" id="drop-kinds">${t("documents.kinds", { most: size(most) })}</span>
  </label>`;
}

function Empty({ change }) {
  return html`<div class="empty-index">
    <h2>${t("documents.empty")}</h2>
    <p>${change ? t("documents.empty.add") : t("documents.empty.read_only")}</p>
    <p class="soft">${t("documents.empty.terminal")}</p>
    <pre><code>localrag index ~/Documents</code></pre>
  </div>`;
}

const hashOf = (query, more) => to("documents", Object.fromEntries(Object.entries({ ...query, ...more }).filter(([, value]) => value)));

/** The list with its tabs, its field and its pages. */
function Listed({ query, list, leaving, ask }) {
  const state = STATES.includes(query.state) ? query.state : "indexed";
  const heading = useRef(null);
  useLayoutEffect(() => {
    if (document.activeElement === document.body && heading.current?.dataset.had) heading.current.focus();
    if (heading.current) heading.current.dataset.had = String(list.documents.length);
  }, [list.documents.length]);
  return html`<div class="listed">
    <div class="over-list">
      <nav class="tabs" aria-label=${t("documents.states")}>
        ${STATES.map((name) => html`<a key=${name} href=${hashOf({ q: query.q }, { state: name === "indexed" ? "" : name })} aria-current=${name === state ? "true" : null}>
          ${t(`documents.state.${name}`)} <span class="count">${number(list.states[name] ?? 0)}</span></a>`)}
      </nav>
      <${Filter} query=${query} />
    </div>
    <p class="offscreen" role="status" tabindex="-1" ref=${heading}>${t("documents.found", { n: list.total })}</p>
    ${list.total === 0 && html`<p class="soft none">${query.q ? t("documents.none", { q: query.q }) : t(`documents.none.${state}`)}</p>`}
    <ul class="files">${list.documents.map((one) => html`<${File} key=${one.path} one=${one} leaving=${leaving.includes(one.id)} ask=${ask} />`)}</ul>
    ${list.total > PAGE && html`<${Pages} query=${query} from=${list.from} total=${list.total} />`}
  </div>`;
}

function Filter({ query }) {
  const [text, setText] = useState(query.q ?? "");
  useEffect(() => {
    if (text === (query.q ?? "")) return;
    const timer = setTimeout(() => go(hashOf({ state: query.state }, { q: text.trim() }), true), AFTER);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<search><label class="offscreen" for="filter">${t("documents.filter")}</label>
    <input id="filter" type="search" placeholder=${t("documents.filter")} value=${text} onInput=${(event) => setText(event.target.value)} /></search>`;
}

function File({ one, leaving, ask }) {
  const name = fileName(one.path);
  const title = one.title && one.title !== one.path ? one.title : name;
  const facts = [
    one.path !== title && one.path,
    one.characters > 0 && t("documents.characters", { n: one.characters }),
    one.added_at && when(one.added_at),
  ].filter(Boolean);
  return html`<li class=${leaving ? "leaving" : ""}>
    <div>
      ${one.id ? html`<a href=${to("document", one.id)} dir="auto">${title}</a>` : html`<span class="name" dir="auto">${title}</span>`}
      ${one.reason && html`<p class="reason"><span class=${`badge-${one.state}`}>${t(`documents.one.${one.state}`)}</span> <span lang="en">${one.reason}</span></p>`}
      <p class="soft">${leaving ? t("run.removing") : facts.join(" · ")}</p>
    </div>
    ${one.id && ask && !leaving && html`<button type="button" class="quiet" aria-label=${t("documents.remove.of", { name })} onClick=${() => ask(one)}>${t("documents.remove")}</button>`}
  </li>`;
}

function Pages({ query, from, total }) {
  const last = Math.min(total, from + PAGE);
  const step = (to_, label) =>
    to_ === null ? html`<span class="button" aria-disabled="true">${label}</span>` : html`<a class="button" href=${hashOf(query, { from: to_ ? String(to_) : "" })}>${label}</a>`;
  return html`<nav class="pages-of" aria-label=${t("pages")}>
    ${step(from > 0 ? Math.max(0, from - PAGE) : null, t("pages.previous"))}
    <span class="soft">${t("pages.of", { from: from + 1, to: last, n: total })}</span>
    ${step(last < total ? from + PAGE : null, t("pages.next"))}
  </nav>`;
}

/** Asks before a document is removed. */
function Removal({ one, remove, close }) {
  return html`<${Sure} title=${t("documents.remove.title")} what=${one.path} label=${t("documents.remove")} act=${() => remove(one)} close=${close}>
    <p>${t("documents.remove.what")}</p>
    <p class="soft">${t("documents.remove.file")}</p>
  <//>`;
}
