// The source of a citation beside the answer: the cited words in their document, as text or on the picture of their page.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { blob, get } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useKeys } from "../lib/keys.js";
import { Failure, fileName, useData, Waiting } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { DocumentText, revealed } from "../lib/text.js";

/** `answer` and `n` name the citation, `citations` are those of the answer, `close` is called when the reader is done. */
export default function Source({ answer, n, citations, close }) {
  const pending = answer === "0"; // the answer is being written: its citations cannot be asked for yet
  const { data, error, again } = useData(
    async (signal) => (pending ? null : get(`/api/answers/${encodeURIComponent(answer)}/citations/${n}`, signal)),
    [answer, n],
  );
  const citation = data?.citation ?? citations.find((one) => one.n === n);
  const heading = useRef(null);
  useEffect(() => heading.current.focus({ preventScroll: true }), [answer, n]);
  useEffect(() => {
    if (matchMedia("(max-width: 899px)").matches) heading.current.closest(".source").scrollIntoView();
  }, [answer, n, citations.length > 0, data !== null]); // what comes above it moves it
  useKeys({
    Escape: (event) => {
      event.preventDefault();
      close();
    },
  });
  return html`<section class="source" aria-labelledby="source-title">
    <header>
      <div>
        <h2 id="source-title" ref=${heading} tabindex="-1">
          <span class="chip" aria-hidden="true">${n}</span><span class="offscreen">${t("ask.chip", { n })}: </span>
          ${citation ? fileName(citation.path) : t("source.title")}
        </h2>
        <p class="soft">${citation && [citation.part, citation.path, citation.headings?.join(" › ")].filter(Boolean).join(" · ")}</p>
      </div>
      <${Steps} answer=${answer} n=${n} citations=${citations} />
      <button type="button" class="quiet" onClick=${close} aria-label=${t("source.close")} title=${t("source.close")}>✕</button>
    </header>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${!data && !error && !pending && html`<${Waiting} />`}
    ${pending && citation && html`<p class="state">${t("source.pending")}</p><${Quote} text=${citation.quote} />`}
    ${data && html`<${Cited} key=${`${answer}/${n}`} found=${data} />`}
  </section>`;
}

/** To the source before and the one after. */
function Steps({ answer, n, citations }) {
  const at = citations.findIndex((one) => one.n === n);
  if (at < 0 || citations.length < 2) return null;
  const step = (other, label, sign) =>
    other
      ? html`<a class="button step" href=${to("source", answer, other.n)} aria-label=${label} title=${label}>${sign}</a>`
      : html`<span class="button step" aria-hidden="true">${sign}</span>`;
  return html`<nav class="steps" aria-label=${t("source.others")}>
    ${step(citations[at - 1], t("source.previous"), "‹")}
    <span class="soft">${t("source.of", { at: at + 1, n: citations.length })}</span>
    ${step(citations[at + 1], t("source.next"), "›")}
  </nav>`;
}

const Quote = ({ text }) => html`<blockquote class="quote" lang="" dir="auto">${text}</blockquote>`;
const STATES = { exact: "source.exact", moved: "source.moved", changed: "source.changed", gone: "source.gone" };

function Cited({ found }) {
  const { document: id, start, end, state, citation } = found;
  const there = state === "exact" || state === "moved";
  const [entities, setEntities] = useState([]);
  const said = html`<p class=${`state ${state}`}>${t(STATES[state])}</p>`;
  if (!there) {
    return html`${said}<${Quote} text=${citation.quote} />
      ${id && html`<p><a href=${to("document", id)}>${t("source.open")}</a></p>`}`;
  }
  return html`${said}
    <${Passage} id=${id} start=${start} end=${end} path=${citation.path} onLoaded=${(window) => setEntities(window.entities)} />
    ${entities.length > 0 && html`<${Named} entities=${entities} />`}
    <p class="links"><a href=${to("document", id, { mark: `${start}-${end}` })}>${t("source.open")}</a></p>`;
}

const SHOWN = /\.(pdf|png|jpe?g|tiff?|webp|bmp|gif)$/i; // what has pages that look like something

/** The passage: the page of a PDF or a picture as it looks, with a switch to its text; anything else as text. */
export function Passage({ id, start, end, path, onLoaded }) {
  const looks = SHOWN.test(path);
  const [choice, setChoice] = useState("page");
  const { data, error } = useData(
    async (signal) => (looks ? (await get(`/api/documents/${encodeURIComponent(id)}/boxes?start=${start}&end=${end}`, signal)).pages : []),
    [id, start, end],
  );
  const pages = (data ?? []).filter((page) => page.boxes.length > 0);
  const asPage = looks && choice === "page" && !error && (data === null || pages.length > 0);
  return html`
    ${looks && pages.length > 0 && html`<div class="switch" role="group" aria-label=${t("source.as")}>
      ${["page", "text"].map((name) => html`<button key=${name} type="button" aria-pressed=${choice === name} onClick=${() => setChoice(name)}>${t(`source.as.${name}`)}</button>`)}
    </div>`}
    ${asPage && html`<div class="scroller pages" tabindex="0" role="group" aria-label=${t("source.as.page")}>
      ${pages.map((page) => html`<${Page} key=${page.n} id=${id} page=${page} first=${page === pages[0]} />`)}
    </div>`}
    <div hidden=${asPage}><${DocumentText} id=${id} mark=${`${start}-${end}`} onLoaded=${onLoaded} key=${asPage} /></div>`;
}

/** The picture of a page with the cited words marked. */
function Page({ id, page, first }) {
  const frame = useRef(null);
  const [address, setAddress] = useState("");
  const [error, setError] = useState(null);
  useEffect(() => {
    const leaving = new AbortController();
    const wide = Math.ceil((frame.current.clientWidth * Math.min(2, devicePixelRatio)) / 100) * 100;
    let made = "";
    blob(`/api/documents/${encodeURIComponent(id)}/pages/${page.n}.png?width=${wide || 800}`, leaving.signal).then(
      (data) => setAddress((made = URL.createObjectURL(data))),
      (failed) => failed.name === "AbortError" || setError(failed),
    );
    return () => {
      leaving.abort();
      URL.revokeObjectURL(made);
    };
  }, [id, page.n]);
  const box = useRef(null);
  useLayoutEffect(() => {
    if (first && address) revealed(box.current);
  }, [address]);
  return html`<figure class="sheet" ref=${frame}>
    ${error && html`<${Failure} error=${error} />`}
    <div class="paper"><svg class="frame" viewBox=${`0 0 ${page.width} ${page.height}`} aria-hidden="true"></svg>
    ${address && html`<img src=${address} alt=${t("source.page", { n: page.n })} onLoad=${() => first && revealed(box.current)} />`}
    <svg class="over" viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">
      ${page.boxes.map(([left, top, right, bottom], i) => html`<rect key=${i} ref=${i ? null : box} x=${left} y=${top} width=${right - left} height=${bottom - top} />`)}
    </svg></div>
    <figcaption class="soft">${t("source.page", { n: page.n })}</figcaption>
  </figure>`;
}

/** The entities that the passage names, each with a way to the graph. */
function Named({ entities }) {
  return html`<div class="named">
    <h3>${t("source.named")}</h3>
    <ul>${entities.map((one) => html`<li key=${one.id}>
      <a href=${to("entity", one.id)}>${one.name}</a>
      <a class="soft" href=${to("graph", "entity", one.id)} aria-label=${t("source.graph.of", { name: one.name })}>${t("source.graph")}</a>
    </li>`)}</ul>
  </div>`;
}
