// Conversations and the question that is being answered. It lives outside the view, so that an answer goes on while another view is open.

import { computed, signal } from "../../vendor/preact.js";
import { del, get, stream } from "../../lib/api.js";
import { t } from "../../lib/i18n.js";
import { go, route } from "../../lib/route.js";

const STOPS_WITHIN = 4000; // ms that the server has to end an answer before the page hangs up

/** What is on the page: {id, turns, error}; id is null until the first answer of a new conversation is kept. */
export const talk = signal({ id: null, turns: [], error: null });
/** The conversations that are kept, or null until they are read. */
export const conversations = signal(null);
/** Those of programs, which are listed apart. */
export const programs = signal([]);
/** The question being answered: {turn, name, hangUp}, or null. */
export const live = signal(null);
/** What a screen reader is told: sentences of the answer that are finished, and how it stands. */
export const spoken = signal([]);
export const told = signal("");

/** Every citation on the page by the answer's number and its own, "0" being the answer under way. */
export const citations = computed(() => {
  const found = new Map();
  for (const turn of talk.value.turns) {
    const { answer, citations: list } = turn.now.value;
    found.set(String(answer?.id || 0), list);
  }
  return found;
});

let turns = 0;
const turnOf = (question, conversation, now) => ({ key: (turns += 1), question, conversation, now: signal(now) });
const BEGUN = { state: "running", segments: [], citations: [], status: "", draft: "", answer: null, error: null };
const kept = (answer) =>
  turnOf(answer.question, answer.conversation, { ...BEGUN, state: "done", segments: answer.segments, citations: answer.citations, answer });

/** Read the list of conversations anew. */
export async function list() {
  try {
    const found = await get("/api/conversations");
    [conversations.value, programs.value] = [found.conversations, found.programs];
  } catch {
    conversations.value ??= [];
  }
}

/** Delete a conversation for good; one that was on the page leaves it. Throws ApiError. */
export async function erase(id) {
  try {
    await del(`/api/conversations/${encodeURIComponent(id)}`);
  } finally {
    await list(); // an error may be about copies of what is gone
    if (talk.value.id === id && ![...conversations.value, ...programs.value].some((one) => one.id === id)) {
      clear();
      go("#/ask");
    }
  }
  told.value = t("ask.delete.done");
}

/** An empty page for a new conversation. */
export function clear() {
  talk.value = { id: null, turns: [], error: null };
}

/** Show a conversation that is kept. */
export async function open(id) {
  if (talk.value.id === id && !talk.value.error) return;
  try {
    const found = await get(`/api/conversations/${encodeURIComponent(id)}`);
    const under = live.value?.turn.conversation === id ? [live.value.turn] : [];
    talk.value = { id, turns: [...found.answers.map(kept), ...under], error: null };
  } catch (error) {
    talk.value = { id, turns: [], error };
  }
}

/** Show the conversation that an answer belongs to. */
export async function openWith(number) {
  if (citations.value.has(String(number))) return;
  try {
    const found = await get(`/api/answers/${encodeURIComponent(number)}`);
    if (found.conversation) await open(found.conversation);
    else talk.value = { id: null, turns: [kept(found)], error: null };
  } catch (error) {
    talk.value = { id: null, turns: [], error };
  }
}

/** Ask, and follow the answer to its end. */
export async function ask(question, options) {
  if (live.value) return;
  const turn = turnOf(question, talk.value.id, BEGUN);
  talk.value = { ...talk.value, turns: [...talk.value.turns, turn], error: null };
  const leaving = new AbortController();
  live.value = { turn, name: "", hangUp: () => leaving.abort() };
  spoken.value = [];
  told.value = t("ask.told.begun");
  try {
    await stream("/api/ask", { question, conversation: turn.conversation, ...options }, (event) => heard(turn, event), leaving.signal);
    if (turn.now.value.state === "running") ended(turn, "failed", { error: { message: t("ask.broken"), hint: "" } });
  } catch (error) {
    if (error.name === "AbortError") ended(turn, "stopped");
    else ended(turn, "failed", { error });
  }
  live.value = null;
  await list();
}

/** End the answer; what there is of it stays. */
export async function stop() {
  const { name, hangUp } = live.value ?? {};
  if (!hangUp) return;
  told.value = t("ask.told.stopping");
  const timer = setTimeout(hangUp, name ? STOPS_WITHIN : 0);
  try {
    if (name) await del(`/api/ask/${encodeURIComponent(name)}`);
  } catch {
    clearTimeout(timer);
    hangUp();
  }
}

/** One line of the stream. */
function heard(turn, event) {
  const now = turn.now.value;
  const change = (more) => (turn.now.value = { ...now, ...more });
  if (event.event === "started") live.value = { ...live.value, name: event.id };
  else if (event.event === "status") {
    change({ status: event.text });
    told.value = event.text;
  } else if (event.event === "draft") change({ draft: event.text });
  else if (event.event === "citation") change({ citations: [...now.citations, event.citation] });
  else if (event.event === "text") {
    const segments = event.segments ?? [{ text: event.text }];
    change({ segments: [...now.segments, ...segments], draft: "", status: "" });
    spoken.value = [...spoken.value, aloud(segments)];
  } else if (event.event === "done") finished(turn, event);
  else if (event.event === "error") ended(turn, "failed", { error: event.error });
}

function finished(turn, { answer, stopped }) {
  const now = turn.now.value;
  // An answer that was stopped before it could be kept has no text: what was on the page stays.
  const text = answer.segments.length || !now.segments.length ? { segments: answer.segments, citations: answer.citations } : {};
  ended(turn, stopped ? "stopped" : "done", { ...text, answer });
  if (!answer.conversation) return;
  turn.conversation = answer.conversation;
  if (!talk.value.turns.includes(turn)) return;
  talk.value = { ...talk.value, id: answer.conversation };
  const { view, args } = route.value;
  if (view === "ask") go(`#/ask/${answer.conversation}`, true);
  else if (view === "source" && args[0] === "0") go(answer.id ? `#/source/${answer.id}/${args[1]}` : `#/ask/${answer.conversation}`, true);
}

function ended(turn, state, more = {}) {
  turn.now.value = { ...turn.now.value, draft: "", status: "", ...more, state };
  const { citations: list, error } = turn.now.value;
  if (state === "failed") told.value = error.message;
  else told.value = t(state === "done" ? "ask.told.done" : "ask.told.stopped", { n: list.length });
}

/** A stretch as it is read out: without signs, its marks in words. */
function aloud(segments) {
  return segments.map(({ text, n }) => (n === undefined ? text.replace(/[*#`|\\]+/g, "") : ` (${t("ask.chip", { n })})`)).join("");
}
