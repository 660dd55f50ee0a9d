// Where a question is written, and how it is to be answered.

import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { get, post } from "../../lib/api.js";
import { t } from "../../lib/i18n.js";
import { useKeys } from "../../lib/keys.js";
import { refresh, status } from "../../lib/live.js";
import { useData } from "../../lib/parts.js";
import { load, save } from "../../lib/storage.js";
import { modeName } from "./answer.js";
import { live, stop } from "./talk.js";

const LONGEST = 10_000; // characters of a question
const WITH_LEVEL = ["auto", "global", "drift", "mix"]; // modes that read reports
const text = signal(load("question", ""));
const how = signal({ mode: "auto", level: null, strict: false, ...load("how", {}) });

/** `send(question, options)` asks; `given` is a question to begin with. */
export function Composer({ send, given = "" }) {
  const box = useRef(null);
  const running = live.value !== null;
  useEffect(() => {
    if (given) write(given);
  }, [given]);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) box.current.focus({ preventScroll: true }); // on a phone the keyboard would cover the page
  }, []);
  useLayoutEffect(() => fit(box.current), [text.value]);
  useKeys({
    "/": (event) => {
      event.preventDefault();
      box.current.focus();
    },
  });
  const submit = (event) => {
    event?.preventDefault();
    const question = text.value.trim();
    if (!question || running) return;
    write("");
    send(question, options());
  };
  const pressed = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return html`<form class="composer" onSubmit=${submit}>
    <label class="offscreen" for="question">${t("ask.question")}</label>
    <div class="box"><textarea id="question" ref=${box} rows="1" maxlength=${LONGEST} dir="auto" placeholder=${t("ask.placeholder")} enterkeyhint="send"
      value=${text.value} onInput=${(event) => write(event.target.value)} onKeyDown=${pressed}></textarea>
    <div class="row">
      <${How} />
      ${running
        ? html`<button type="button" class="stop" onClick=${stop}><span class="square" aria-hidden="true"></span>${t("ask.stop")}</button>`
        : html`<button type="submit" class="main" disabled=${!text.value.trim()}>${t("ask.send")}</button>`}
    </div></div>
  </form>`;
}

/** The models on this machine, where there are several: whose turn it is counts for everyone who asks this server. */
function Models() {
  const { data } = useData((signal) => get("/api/models", signal), []);
  const [refused, setRefused] = useState(null);
  const now = status.value?.answers_with || data?.answers_with;
  const names = [...new Set([...(now ? [now] : []), ...(data?.models ?? [])])];
  if (names.length < 2 || status.value?.read_only) return null;
  const choose = (event) => post(`/api/models/${encodeURIComponent(event.target.value)}`).then(() => setRefused(null), setRefused).finally(refresh);
  return html`<label><span class="offscreen">${t("ask.model")}</span>
    <select value=${now} title=${refused?.message ?? t("ask.model")} aria-invalid=${refused ? "true" : null} onChange=${choose}>
      ${names.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
  </label>`;
}

/** The menus of models, modes and levels, and whether only supported sentences are wanted. */
function How() {
  const { mode, level, strict } = how.value;
  const modes = status.value?.modes ?? ["auto"];
  const levels = status.value?.levels ?? [];
  const set = (more) => save("how", (how.value = { ...how.value, ...more }));
  return html`<div class="how">
    <label><span class="offscreen">${t("ask.mode")}</span>
      <select value=${modes.includes(mode) ? mode : "auto"} title=${t("ask.mode")} onChange=${(event) => set({ mode: event.target.value })}>
        ${modes.map((name) => html`<option key=${name} value=${name}>${modeName(name)}</option>`)}
      </select>
    </label>
    ${levels.length > 1 && WITH_LEVEL.includes(mode) && html`<label><span class="offscreen">${t("ask.level")}</span>
      <select value=${levels.includes(level) ? String(level) : ""} title=${t("ask.level")}
        onChange=${(event) => set({ level: event.target.value === "" ? null : Number(event.target.value) })}>
        <option value="">${t("ask.level.fits")}</option>
        ${levels.map((n) => html`<option key=${n} value=${n}>${t("ask.level.of", { n })}</option>`)}
      </select>
    </label>`}
    <${Models} />
    <label class="check" title=${t("ask.strict.why")}>
      <input type="checkbox" checked=${strict} onChange=${(event) => set({ strict: event.target.checked })} />${t("ask.strict")}
    </label>
  </div>`;
}

/** What is sent with a question; a choice that this index does not have is left out. */
export function options() {
  const { mode, level, strict } = how.value;
  const known = status.value ?? { modes: [mode], levels: [level] };
  const chosen = known.modes.includes(mode) ? mode : "auto";
  return { mode: chosen, strict, level: WITH_LEVEL.includes(chosen) && known.levels.includes(level) ? level : null };
}

function write(value) {
  text.value = value;
  save("question", value || null);
}

/** As high as its text, up to a third of the window. */
function fit(box) {
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, innerHeight / 3)}px`;
}
