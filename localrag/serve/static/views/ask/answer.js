// One question with its answer: what is checked in black, the sentence under way in grey, then its sources and how it came about.

import { html, useRef } from "../../vendor/preact.js";
import { lasting, number, percent, t } from "../../lib/i18n.js";
import { Markdown } from "../../lib/markdown.js";
import { Copy, Failure, fileName, sourceName } from "../../lib/parts.js";
import { live } from "./talk.js";

/** `opened` is the citation whose source is shown, if it is one of this answer's; `again(question)` asks once more. */
export function Turn({ turn, opened, again }) {
  const now = turn.now.value;
  const number = String(now.answer?.id || 0);
  const chip = (n) => html`<${Chip} answer=${number} n=${n} citations=${now.citations} current=${opened === `${number}/${n}`} />`;
  const running = now.state === "running";
  const segments = now.draft ? [...now.segments, { draft: now.draft }] : now.segments;
  const passages = (!running && now.answer?.passages) || [];
  const fresh = useRef(live.value?.turn === turn).current;
  return html`<article class=${`turn ${fresh ? "fresh" : ""}`} aria-busy=${running} data-state=${now.state}>
    <h2 dir="auto">${turn.question}</h2>
    <${Lead} answer=${now.answer} question=${turn.question} segments=${now.segments} />
    ${passages.length > 0 && html`<div class="answer" dir="auto"><${Passages} passages=${passages} chip=${chip} /></div>`}
    ${!passages.length && segments.length > 0 && html`<div class="answer" dir="auto"><${Markdown} segments=${segments} chip=${chip} /></div>`}
    ${running && html`<${Status} now=${now} />`}
    ${now.state === "stopped" && html`<p class="badge">${t(segments.length ? "ask.stopped" : "ask.stopped.empty")}</p>`}
    ${now.state === "failed" && html`<${Failure} error=${now.error} again=${() => again(turn.question)} />`}
    ${!running && now.citations.length > 0 && html`<${Sources} answer=${number} citations=${now.citations} opened=${opened} />`}
    ${!running && html`<${Foot} turn=${turn} now=${now} again=${again} />`}
  </article>`;
}

/** Passages of the documents with their lines as they stand, each below its file and headings, the short answer marked. */
function Passages({ passages, chip }) {
  return passages.map(({ n, path, headings, text, marked }) => {
    const signs = [...text]; // places count characters, not halves of pairs
    const part = (start, end) => signs.slice(start, end).join("");
    const shown = marked ? html`${part(0, marked[0])}<strong>${part(...marked)}</strong>${part(marked[1])}` : text;
    return html`<section key=${n} class="passage">
      <h3 dir="auto">${[fileName(path), ...headings].join(" › ")} ${chip(n)}</h3>
      <pre lang="" dir="auto">${shown}</pre>
    </section>`;
  });
}

/** The mark of a citation, which opens its source. */
function Chip({ answer, n, citations, current }) {
  const found = citations.find((citation) => citation.n === n);
  const label = found ? t("ask.chip.of", { n, place: sourceName(found) }) : t("ask.chip", { n });
  return html`<a class="chip" href=${`#/source/${answer}/${n}`} aria-label=${label} title=${found ? `${sourceName(found)}\n“${found.quote}”` : null}
    aria-current=${current ? "true" : null}>${n}</a>`;
}

function Status({ now }) {
  return html`<p class="doing"><span class="pulse" aria-hidden="true"></span>
    <span class="what">${now.status || t(now.segments.length ? "ask.writing" : "ask.reading")}</span></p>`;
}

/** What the reader should know before the answer. */
function Lead({ answer, question, segments }) {
  if (!answer) return null;
  const short = answer.short_answer;
  const standalone = answer.standalone_question;
  const said = !answer.passages?.length && segments[0]?.text?.includes(short); // the text begins with it already
  const asked = standalone && standalone !== question;
  return html`
    ${asked && html`<p class="soft">${t("ask.understood", { question: standalone })}</p>`}
    ${answer.is_answerable === false && html`<p class="notice">${t("ask.unanswerable")}</p>`}
    ${short && !said && html`<p class="short" dir="auto">${short}</p>`}`;
}

const STATED = new Set(["related", "contradicted"]); // of sources that prove nothing

function Sources({ answer, citations, opened }) {
  return html`<details class="sources" open>
    <summary>${t("ask.sources", { n: citations.length })}</summary>
    <ol>
      ${citations.map((citation) => {
        const here = opened === `${answer}/${citation.n}`;
        return html`<li key=${citation.n} value=${citation.n}>
          <a href=${`#/source/${answer}/${citation.n}`} aria-current=${here ? "true" : null}>
            <span class="place"><span class="number">${citation.n}</span><b>${fileName(citation.path)}</b>${citation.part && html`<span>${citation.part}</span>`}${
              citation.headings?.length > 0 && html`<span dir="auto">› ${citation.headings.join(" › ")}</span>`}
              ${STATED.has(citation.state) && html`<span class=${`mark ${citation.state}`} title=${t(`ask.${citation.state}.why`)}>${t(`ask.${citation.state}.mark`)}</span>`}</span>
            <q lang="" dir="auto">${citation.quote}</q>
          </a>
        </li>`;
      })}
    </ol>
  </details>`;
}

/** How the answer came about and what it cost. */
function Foot({ turn, now, again }) {
  const { answer } = now;
  const facts = answer ? factsOf(answer) : [];
  return html`
    ${answer?.note && html`<p class="note">${answer.note}</p>`}
    <footer class="foot">
      ${facts.map(([name, text, title]) => html`<span key=${name} data-fact=${name} title=${title}>${text}</span>`)}
      <span class="tools">
        ${now.segments.length > 0 && html`<${Copy} text=${() => written(turn.question, now)} label=${t("ask.copy")} />`}
        ${now.state === "stopped" && html`<button type="button" class="quiet" onClick=${() => again(turn.question)}>${t("ask.again")}</button>`}
      </span>
    </footer>`;
}

function factsOf(answer) {
  const tokens = answer.prompt_tokens + answer.output_tokens;
  const unsupported = answer.unsupported_sentences;
  const level = answer.level === null || answer.level === undefined ? "" : `, ${t("ask.level.of", { n: answer.level })}`;
  return [
    answer.mode && ["mode", `${modeName(answer.mode)}${level}`, answer.reason || null],
    typeof answer.confidence === "number" && ["confidence", t("ask.confidence", { share: percent(Math.min(answer.confidence, 0.99)) }), t("ask.confidence.why")],
    answer.related > 0 && ["related", t("ask.related", { n: answer.related }), t("ask.related.why")],
    answer.contradicted > 0 && ["contradicted", t("ask.contradicted", { n: answer.contradicted }), t("ask.contradicted.why")],
    unsupported > 0 && ["unsupported", t("ask.unsupported", { n: unsupported }), t("ask.unsupported.why")],
    ["seconds", lasting(answer.seconds ?? 0), null],
    answer.calls > 0 && ["cost", t("ask.cost", { n: answer.calls, tokens: number(tokens) }), null],
  ].filter(Boolean);
}

/** A mode's name in the page's language; one that is not known keeps its own. */
export function modeName(mode) {
  const name = t(`ask.mode.${mode}`);
  return name.startsWith("ask.mode.") ? mode : name;
}

/** The answer as text to take along, its sources below it. */
function written(question, now) {
  const text = now.segments.map((segment) => segment.text ?? `[${segment.n}]`).join("");
  const sources = now.citations.map((citation) => `[${citation.n}] ${sourceName(citation, citation.path)}: “${citation.quote}”`);
  return [question, text.trim(), sources.join("\n")].filter(Boolean).join("\n\n");
}
