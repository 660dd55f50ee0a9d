// A name is looked for, and shown; a second one makes it the path between the two.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { t } from "../lib/i18n.js";

const PAUSE = 120; // milliseconds after a key before the server is asked

/** Two fields: what is looked for, and, while an entity stands out, where a path from it is to lead. */
export function Search({ scene, box, choose, said, change, stage }) {
  const show = async (kind, id) => {
    const { number: n } = await get(`/api/graph/number?${kind}=${encodeURIComponent(id)}`);
    choose(kind, n);
    stage.current?.focus();
  };
  const follow = async (_kind, id) => {
    const from = scene.names.of("entity", scene.focus)?.id;
    try {
      const found = await get(`/api/path?from=${encodeURIComponent(from)}&to=${encodeURIComponent(id)}`);
      const ids = found.entities.map((one) => one.id);
      const { numbers } = await get(`/api/graph/number?${ids.map((one) => `entity=${encodeURIComponent(one)}`).join("&")}`);
      await scene.names.want("entity", numbers);
      scene.focusOn(null);
      scene.follow(numbers);
      said(t("graph.path.found", { n: numbers.length - 1 }));
    } catch (failed) {
      said(failed.message);
    }
    change();
  };
  return html`<div class="graph-search">
    <${Names} label=${t("graph.search")} own=${box} reports=${true} choose=${show} id="graph-search" />
    ${scene.focus !== null && html`<${Names} label=${t("graph.path.to")} reports=${false} choose=${follow} id="graph-to" />`}
  </div>`;
}

/** A field with the names that begin with what is typed. */
function Names({ label, own = null, reports, choose, id }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState([]);
  const [at, setAt] = useState(-1);
  const [failed, setFailed] = useState(false);
  const field = useRef(null);
  useEffect(() => {
    const leaving = new AbortController();
    setAt(-1);
    if (!text.trim()) {
      setFound([]);
      return undefined;
    }
    const timer = setTimeout(() => get(`/api/names?q=${encodeURIComponent(text)}`, leaving.signal).then(
      ({ entities, reports: others }) => {
        setFailed(false);
        setFound([
          ...entities.map((one) => ({ kind: "entity", id: one.id, text: one.name, more: one.type })),
          ...(reports ? others.map((one) => ({ kind: "community", id: one.id, text: one.title, more: one.number })) : []),
        ]);
      },
      (error) => error.name === "AbortError" || setFailed(true),
    ), PAUSE);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [text]);
  const take = (one) => {
    if (!one) return;
    setText("");
    setFound([]);
    Promise.resolve(choose(one.kind, one.id)).catch(() => setFailed(true));
  };
  const keys = (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.isComposing || (!move && event.key !== "Enter" && event.key !== "Escape")) return;
    event.preventDefault();
    if (move) setAt((at + move + found.length + (at < 0 && move < 0 ? 1 : 0)) % Math.max(1, found.length));
    else if (event.key === "Enter") take(found[Math.max(0, at)]);
    else setText("");
  };
  const ref = own ?? field;
  const open = found.length > 0;
  return html`<div class="graph-field">
    <label for=${id}>${label}</label>
    <input id=${id} ref=${ref} value=${text} autocomplete="off" spellcheck=${false} role="combobox" aria-expanded=${open} aria-controls=${`${id}-list`}
      aria-autocomplete="list" aria-activedescendant=${at >= 0 ? `${id}-${at}` : null} onInput=${(event) => setText(event.target.value)} onKeyDown=${keys} />
    <ul id=${`${id}-list`} role="listbox" aria-label=${label} hidden=${!open}>
      ${found.map((one, k) => html`<li key=${one.id} id=${`${id}-${k}`} role="option" aria-selected=${k === at}
        onPointerDown=${(event) => event.preventDefault()} onClick=${() => take(one)}>${one.text} <span class="soft">${one.more}</span></li>`)}
    </ul>
    <p class="soft graph-none" role="status">${failed ? t("graph.search.failed") : text.trim() && !open ? t("graph.search.none") : ""}</p>
  </div>`;
}
