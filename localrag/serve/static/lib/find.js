// A field that offers what it finds while one types: a combobox with a list, as ARIA describes it. And the one that searches everything.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "./api.js";
import { t } from "./i18n.js";
import { useKeys } from "./keys.js";
import { placeName } from "./parts.js";
import { go, route, to } from "./route.js";

const AFTER = 120; // milliseconds without a key before the first look
const PASSAGES_AFTER = 200; // and more before passages are searched, which costs a vector
const SHOWN = 5;

/**
 * `load(text, signal, show)` calls `show(groups)` once or more, a group being {label, options: [{key, title, note}]};
 * `choose(option)` is called with the one that was taken, `submit(text)` for Enter without one. `box` is a ref to the field.
 */
export function Combobox({ id, label, placeholder = "", load, choose, submit = () => {}, text, write, box = useRef(null), hidden = true }) {
  const [groups, setGroups] = useState([]);
  const [active, setActive] = useState(-1);
  const [open, setOpen] = useState(false);
  const typed = useRef(false);
  useEffect(() => {
    if (!typed.current || !text.trim()) return setGroups([]);
    const leaving = new AbortController();
    const show = (found) => {
      if (leaving.signal.aborted) return;
      setGroups(found.filter((group) => group.options.length > 0));
      setOpen(true);
    };
    const timer = setTimeout(() => load(text.trim(), leaving.signal, show).catch(() => {}), AFTER); // the page of results says what failed
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [text]);
  const options = groups.flatMap((group) => group.options);
  const shown = open && options.length > 0;
  const current = active < options.length ? active : -1;
  const close = () => {
    setOpen(false);
    setActive(-1);
  };
  const take = (option) => {
    close();
    choose(option);
  };
  const step = (by) => {
    setOpen(true);
    const next = current + by; // -1 is the field itself
    setActive(next >= options.length ? -1 : next < -1 ? options.length - 1 : next);
  };
  const pressed = (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Enter" && shown && current >= 0) take(options[current]);
    else if (event.key === "Enter" && text.trim()) {
      close();
      submit(text.trim());
    } else if (event.key === "Escape" && shown) close();
    else return;
    event.preventDefault();
  };
  const typing = (event) => {
    typed.current = true;
    setActive(-1);
    write(event.target.value);
  };
  return html`<div class="find">
    <label class=${hidden ? "offscreen" : ""} for=${id}>${label}</label>
    <input id=${id} ref=${box} type="search" role="combobox" autocomplete="off" spellcheck=${false} dir="auto" maxlength="200"
      placeholder=${placeholder} aria-expanded=${shown ? "true" : "false"} aria-controls=${`${id}-list`} aria-autocomplete="list"
      aria-activedescendant=${shown && current >= 0 ? `${id}-${current}` : null}
      value=${text} onInput=${typing} onKeyDown=${pressed} onBlur=${close} onFocus=${() => setOpen(true)} />
    <div id=${`${id}-list`} class="options" role="listbox" aria-label=${label} hidden=${!shown} onMouseDown=${(event) => event.preventDefault()}>
      ${shown && groups.map((group, g) => html`<div key=${group.label} role="group" aria-labelledby=${`${id}-group-${g}`}>
        <div class="label" id=${`${id}-group-${g}`} role="presentation">${group.label}</div>
        ${group.options.map((option) => {
          const i = options.indexOf(option);
          return html`<div key=${option.key} id=${`${id}-${i}`} role="option" aria-selected=${i === current ? "true" : "false"}
            ref=${i === current ? (element) => element?.scrollIntoView({ block: "nearest" }) : null} onClick=${() => take(option)}>
            <span dir="auto">${option.title}</span>${option.note && html`<span class="soft">${option.note}</span>`}
          </div>`;
        })}
      </div>`)}
    </div>
    <span class="offscreen" role="status">${shown ? t("find.offered", { n: options.length }) : ""}</span>
  </div>`;
}

/** Entities with a name, as a group of options. */
export const entityGroup = (found) => ({
  label: t("find.entities"),
  options: found.slice(0, SHOWN).map((one) => ({ key: `e${one.id}`, id: one.id, title: one.name, note: one.type === "name" ? "" : one.type, hash: to("entity", one.id) })),
});

/** The names that a text may mean. */
export const names = (text, signal) => get(`/api/names?q=${encodeURIComponent(text)}`, signal);

/** Passages that are about a text. */
export const passages = async (text, k, signal) => (await get(`/api/search?q=${encodeURIComponent(text)}&k=${k}`, signal)).passages;

async function everything(text, signal, show) {
  const found = await names(text, signal);
  const reports = found.reports.slice(0, SHOWN).map((one) => ({ key: `r${one.id}`, title: one.title, note: one.number, hash: to("report", one.id) }));
  const groups = [entityGroup(found.entities), { label: t("find.reports"), options: reports }];
  show(groups);
  await new Promise((resolve) => setTimeout(resolve, PASSAGES_AFTER));
  if (signal.aborted) return;
  const options = (await passages(text, 3, signal)).map((one) => ({
    key: `p${one.document}-${one.start}`,
    title: one.snippet,
    note: placeName(one),
    hash: to("document", one.document, { mark: `${one.start}-${one.end}` }),
  }));
  show([...groups, { label: t("find.passages"), options }]);
}

/** The field in the header. "/" leads to it from every page but the one for questions, whose own field that is. */
export function Find() {
  const [text, write] = useState("");
  const box = useRef(null);
  useKeys({
    "/": (event) => {
      if (["ask", "source", "graph"].includes(route.value.view) || box.current.offsetParent === null) return;
      event.preventDefault();
      box.current.focus();
    },
  });
  const leave = (hash) => {
    write("");
    go(hash);
  };
  return html`<search class="find-top">
    <${Combobox} id="find" label=${t("find.label")} placeholder=${t("find.placeholder")} text=${text} write=${write} box=${box}
      load=${everything} choose=${(option) => leave(option.hash)} submit=${(query) => leave(to("search", { q: query }))} />
    <a class="find-link" href="#/search" aria-label=${t("find.label")} title=${t("find.label")}>
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round">
        <circle cx="10.5" cy="10.5" r="6" /><path d="m15 15 5 5" />
      </svg>
    </a>
  </search>`;
}
