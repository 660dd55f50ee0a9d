// The page for questions: conversations, the questions and answers of one, and the source of a citation beside them.

import { html, useLayoutEffect, useRef } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { status } from "../lib/live.js";
import { Failure, useData, useTitle } from "../lib/parts.js";
import { go, route as place } from "../lib/route.js";
import { Turn } from "./ask/answer.js";
import { Composer, options } from "./ask/composer.js";
import { History } from "./ask/history.js";
import { ask, citations, clear, live, open, openWith, spoken, talk, told } from "./ask/talk.js";
import Source from "./source.js";

export default function Ask({ route }) {
  const shown = useConversation(route);
  const opened = route.view === "source" ? route.args.join("/") : "";
  const { turns, error } = talk.value;
  const empty = turns.length === 0 && !error && !opened;
  const chip = useOpener();
  const send = (question, wanted) => {
    if (opened) close(chip, false);
    ask(question, wanted);
  };
  useTitle(turns[0]?.question ?? t("nav.ask"));
  return html`<div class=${`ask ${opened ? "with-source" : ""} ${empty ? "empty" : ""}`}>
    <aside><${Conversations} /></aside>
    <section class="talk" onClick=${chip.remember}>
      <h1 class=${empty ? "" : "offscreen"}>${empty ? t("ask.title") : (turns[0]?.question ?? t("nav.ask"))}</h1>
      ${error && html`<${Failure} error=${error} again=${shown.again} />`}
      <div class="turns">${turns.map((turn) => html`<${Turn} key=${turn.key} turn=${turn} opened=${opened} again=${(q) => send(q, options())} />`)}</div>
      <${Composer} send=${send} given=${route.query.q} />
      ${empty && html`<${Beginning} send=${send} />`}
    </section>
    ${opened && html`<${Source} answer=${route.args[0]} n=${Number(route.args[1])} citations=${citations.value.get(route.args[0]) ?? []}
      close=${() => close(chip)} />`}
    <div class="offscreen" role="log" aria-label=${t("ask.log")}>${spoken.value.map((sentence, i) => html`<p key=${i}>${sentence}</p>`)}</div>
    <div class="offscreen" role="status">${told.value}</div>
  </div>`;
}

/** Show the conversation that the address names; `#/ask` is the one that was open, `#/ask/new` an empty one. */
function useConversation(route) {
  const [first] = route.args;
  const show = () => {
    if (route.view === "source") {
      if (first !== "0") openWith(first);
    } else if (first === "new") {
      clear();
      go("#/ask", true);
    } else if (first) open(Number(first) || first);
    else if (talk.value.id !== null) go(`#/ask/${talk.value.id}`, true);
  };
  useLayoutEffect(show, [route.view, first]); // before the answers can be seen: who reloads then finds them again
  const count = talk.value.turns.length;
  useLayoutEffect(() => {
    if (place.value.view !== "source") document.querySelector(".turn:last-child:not(:first-child), .turn.fresh:last-child")?.scrollIntoView();
  }, [talk.value.id, count]);
  return { again: show };
}

/** The link that opened a source, which has the focus again when the source is closed. */
function useOpener() {
  const last = useRef(null);
  const remember = (event) => {
    const link = event.target.closest?.('a[href^="#/source/"]');
    if (link) last.current = link;
  };
  return { remember, last };
}

function close({ last }, focus = true) {
  const [answer, n] = place.value.args;
  go(talk.value.id === null ? "#/ask" : `#/ask/${talk.value.id}`);
  if (!focus) return;
  const same = last.current?.isConnected && last.current.hash === `#/source/${answer}/${n}` ? last.current : null;
  (same ?? document.querySelector(`a[href="#/source/${CSS.escape(answer)}/${CSS.escape(n)}"]`) ?? document.getElementById("question"))?.focus();
}

/** Beside the questions where there is room, else folded away above them. */
function Conversations() {
  return html`<div class="wide"><${History} /></div>
    <details class="narrow"><summary>${t("ask.history")}</summary><${History} /></details>`;
}

/** What one may ask to begin with. */
function Beginning({ send }) {
  const { data } = useData((signal) => get("/api/questions", signal), []);
  const counts = status.value?.counts;
  if (counts?.documents === 0) return html`<p class="soft">${t("ask.nothing")} <a href="#/documents">${t("ask.nothing.add")}</a></p>`;
  return html`<div class="beginning">
    ${counts && html`<p class="soft">${t("ask.over", { n: counts.documents })}</p>`}
    ${data?.questions.length > 0 && html`<h2>${t("ask.starters")}</h2>
      <ul>${data.questions.map((question) => html`<li key=${question}>
        <button type="button" dir="auto" disabled=${live.value !== null} onClick=${() => send(question, options())}>${question}</button>
      </li>`)}</ul>`}
  </div>`;
}
