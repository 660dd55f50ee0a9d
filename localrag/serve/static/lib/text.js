// A document's text as it was read, a window of it at a time, with a passage marked. Text nodes only; nothing is cut by character offsets,
// which browsers count in another way than the server.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "./api.js";
import { t } from "./i18n.js";
import { Failure, Waiting } from "./parts.js";

const STRETCH = 1500; // characters that are laid out together, at least

/** `mark` is "START-END" or empty; `onLoaded(window)` is given the first window: its entities, parts, length. */
export function DocumentText({ id, mark = "", onLoaded = () => {} }) {
  const [windows, setWindows] = useState([]);
  const [error, setError] = useState(null);
  const [from, setFrom] = useState(null); // where a reader jumped to
  const busy = useRef(false);
  const marked = useRef(null);
  const box = useRef(null);
  const path = `/api/documents/${encodeURIComponent(id)}`;

  useEffect(() => {
    const leaving = new AbortController();
    const query = [from !== null && `from=${from}`, mark && `mark=${mark}`].filter(Boolean).join("&");
    setWindows([]);
    setError(null);
    get(query ? `${path}?${query}` : path, leaving.signal).then(
      (found) => {
        setWindows([found]);
        onLoaded(found);
      },
      (failed) => failed.name === "AbortError" || setError(failed),
    );
    return () => leaving.abort();
  }, [id, mark, from]);

  useLayoutEffect(() => {
    if (windows.length === 1) revealed(marked.current) || box.current?.scrollTo?.(0, 0);
  }, [windows]);

  const [first, last] = [windows[0], windows.at(-1)];
  const more = async (earlier) => {
    if (busy.current) return;
    busy.current = true;
    try {
      const [a, b] = earlier ? [Math.max(0, first.from - (first.to - first.from || 1)), first.from] : [last.to, last.to + 65_536];
      const found = await get(`${path}?from=${a}&to=${b}`);
      setWindows((all) => (all[0] !== first || all.at(-1) !== last ? all : earlier ? [found, ...all] : [...all, found]));
    } catch (failed) {
      setError(failed);
    }
    busy.current = false;
  };
  return html`<div class="document-text">
    ${first?.parts.length > 1 && html`<${Parts} parts=${first.parts} jump=${setFrom} />`}
    ${error && html`<${Failure} error=${error} />`}
    ${!first && !error && html`<${Waiting} />`}
    ${first && html`<div class="scroller text" ref=${box} tabindex="0" role="group" aria-label=${t("text.label")}>
      ${first.from > 0 && html`<${More} key="before" label=${t("text.earlier")} more=${() => more(true)} />`}
      ${windows.map((window) => html`<${Window} key=${window.from} window=${window} marked=${marked} />`)}
      ${last.to < last.length && html`<${More} key="after" label=${t("text.later")} more=${() => more(false)} />`}
    </div>`}
  </div>`;
}

/** Bring an element into view within the box that scrolls, or the page where none does. Returns whether there is one. */
export function revealed(element) {
  if (!element) return false;
  const box = element.closest(".scroller");
  const centre = () => {
    if (!element.isConnected) return;
    const own = box && box.scrollHeight > box.clientHeight + 1 && getComputedStyle(box).overflowY !== "visible";
    if (!own) return element.scrollIntoView({ block: "center" });
    const [outer, inner] = [box.getBoundingClientRect(), element.getBoundingClientRect()];
    box.scrollTop += inner.top - outer.top - Math.max(24, (outer.height - inner.height) / 3);
  };
  centre();
  // What comes near is laid out only then, and its height was a guess before.
  requestAnimationFrame(() => {
    centre();
    requestAnimationFrame(centre);
  });
  return true;
}

/** A window's text in stretches, which are laid out when they come near. */
function Window({ window, marked }) {
  const stretches = stretched(window.segments);
  const lastMark = stretches.flat().findLast((piece) => piece.mark);
  let begun = false;
  return stretches.map((pieces, i) => html`<div class="stretch" key=${i} lang="">${pieces.map((piece) => {
    if (!piece.mark) return piece.text;
    const opening = !begun;
    begun = true;
    return html`<mark ref=${opening ? marked : null}>${opening && html`<span class="offscreen">${t("text.begins")} </span>`}${piece.text}${
      piece === lastMark && html`<span class="offscreen"> ${t("text.ends")}</span>`
    }</mark>`;
  })}</div>`);
}

/** The segments cut at line ends into stretches of pieces {text, mark}. */
export function stretched(segments) {
  const found = [[]];
  let length = 0;
  for (const { text, mark } of segments) {
    let piece = "";
    const end = () => {
      if (piece) found.at(-1).push({ text: piece, mark });
      piece = "";
    };
    for (const line of text.split(/(?<=\n)/)) {
      piece += line;
      length += line.length;
      if (length >= STRETCH && line.endsWith("\n")) {
        end();
        found.push([]);
        length = 0;
      }
    }
    end();
  }
  return found.filter((pieces) => pieces.length > 0);
}

/** A button for more of the text, which presses itself when a reader scrolls to it. */
function More({ label, more }) {
  const button = useRef(null);
  const press = useRef(more);
  press.current = more;
  useEffect(() => {
    const box = button.current.closest(".scroller");
    let scrolled = false;
    const moved = () => (scrolled = true);
    box.addEventListener("wheel", moved, { passive: true });
    box.addEventListener("keydown", moved);
    box.addEventListener("touchmove", moved, { passive: true });
    const seen = new IntersectionObserver((entries) => scrolled && entries.some((entry) => entry.isIntersecting) && press.current());
    seen.observe(button.current);
    return () => {
      seen.disconnect();
      for (const name of ["wheel", "keydown", "touchmove"]) box.removeEventListener(name, moved);
    };
  }, []);
  return html`<p class="more"><button type="button" ref=${button} onClick=${more}>${label}</button></p>`;
}

/** A way to a page, a slide, a sheet. */
function Parts({ parts, jump }) {
  const chosen = (event) => event.target.value !== "" && jump(Number(event.target.value));
  return html`<label class="parts">${t("text.part")}
    <select onChange=${chosen}><option value="">${t("text.part.choose")}</option>
      ${parts.map((part) => html`<option key=${part.start} value=${part.start}>${part.label}</option>`)}
    </select>
  </label>`;
}
