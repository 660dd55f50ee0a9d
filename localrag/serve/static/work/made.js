// The tables that were made, and the one that is being made. They live outside the view, so that a table goes on while another view is open.

import { signal } from "../vendor/preact.js";
import { del, get, post, putJson, stream } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { go, route, to } from "../lib/route.js";

export const KINDS = ["review", "timeline", "list", "compare"];
const KEPT = 8; // tables
const STOPS_WITHIN = 15_000; // ms that the server has to end a table before the page hangs up

/** Tables by their key: {id, table}. */
export const made = signal(new Map());
/** What is being made: {key, kind, id, done, total, waiting, since, stopping, hangUp}, or null. */
export const making = signal(null);
/** Why the last table of a key was not made: {key, error}; without an error it was stopped. */
export const ended = signal(null);
/** What a screen reader is told. */
export const told = signal("");

/** The arguments of a kind of table in an address: what its form has, without what is empty. */
export function argumentsOf(kind, query) {
  const names = { review: ["q", "rows"], timeline: ["about", "limit"], list: ["request"], compare: ["first", "second", "same"] }[kind];
  const all = kind === "compare" ? names : [...names, "filter", "collections"];
  return Object.fromEntries(all.filter((name) => query[name]).map((name) => [name, query[name]]));
}

/** What names a table in the page. */
export const keyOf = (kind, given) => JSON.stringify([kind, Object.entries(given).sort()]);

/** The body of the request for a table. */
export function bodyOf(kind, given) {
  const { q, rows, same, limit, ...rest } = given;
  const own = { ...rest, ...(limit ? { limit: Number(limit) } : {}) };
  if (kind === "review") return { ...own, questions: (q ?? "").split("\n"), rows: rows || "document" };
  return kind === "compare" ? { ...own, include_same: same === "1" } : own;
}

/** What a review would read. Throws ApiError. */
export const plan = (given) => post("/api/tables/review/plan", bodyOf("review", given));

/** Make a table and follow it to its end; the address then names it, as long as it names these arguments. */
export async function make(kind, given) {
  if (making.value) return;
  const key = keyOf(kind, given);
  const leaving = new AbortController();
  making.value = { key, kind, id: "", done: 0, total: 0, waiting: 0, since: Date.now(), stopping: false, hangUp: () => leaving.abort() };
  ended.value = null;
  told.value = t("tables.told.begun");
  try {
    await stream(`/api/tables/${kind}`, bodyOf(kind, given), (event) => heard(kind, given, event), leaving.signal);
    if (making.value) failed(key, { message: t("ask.broken"), hint: "" });
  } catch (error) {
    failed(key, error.name === "AbortError" ? null : error);
  }
}

function heard(kind, given, event) {
  const now = making.value;
  if (!now) return;
  if (event.event === "started") making.value = { ...now, id: event.id };
  else if (event.event === "progress") {
    const since = now.done || !event.done ? now.since : Date.now(); // waiting and loading models do not count
    making.value = { ...now, done: event.done, total: event.total, waiting: event.waiting, since };
  } else if (event.event === "error") failed(now.key, event.error);
  else if (event.event === "done" && event.table) {
    making.value = null;
    keep(now.key, event.id, event.table);
    told.value = t(event.stopped ? "tables.stopped" : "tables.told.done", { n: event.table.total_rows });
    if (event.stopped) ended.value = { key: now.key, error: null };
    named(kind, given, event.id);
  } else if (event.event === "done") failed(now.key, null);
}

function failed(key, error) {
  making.value = null;
  ended.value = { key, error };
  told.value = error ? error.message : t("tables.stopped");
}

function keep(key, id, table) {
  const all = new Map(made.value);
  all.delete(key);
  all.set(key, { id, table: wholeTable(table) });
  while (all.size > KEPT) all.delete(all.keys().next().value);
  made.value = all;
}

/** The cells of a table with their citations instead of the numbers of these. */
function wholeTable(table) {
  const cited = new Map(table.citations.map((one) => [one.n, one]));
  const rows = table.rows.map((row) => ({ ...row, cells: row.cells.map((cell) => ({ ...cell, citations: cell.citations.map((n) => cited.get(n)) })) }));
  return { ...table, rows };
}

/** Put the id of a table into the address of its arguments, so that it is found again when the page is loaded anew. */
function named(kind, given, id) {
  const { view, args, query } = route.value;
  if (view !== "work" || (args[0] ?? KINDS[0]) !== kind || keyOf(kind, argumentsOf(kind, query)) !== keyOf(kind, given)) return;
  go(to("work", kind, { ...query, table: id }), true); // with the cell that is open
}

/** Show the table that an address names, if the server still has it. */
export async function recall(kind, given, id) {
  try {
    const found = await get(`/api/tables/${encodeURIComponent(id)}`);
    if (found.table.kind === kind) keep(keyOf(kind, given), id, found.table);
  } catch {
    // It is made anew when somebody asks for it.
  }
}

/** Stop what is being made; of a review there is what was read. */
export async function stop() {
  const { id, hangUp } = making.value ?? {};
  if (!hangUp) return;
  making.value = { ...making.value, stopping: true };
  const timer = setTimeout(() => making.value?.hangUp === hangUp && hangUp(), id ? STOPS_WITHIN : 0);
  try {
    if (id) await del(`/api/tables/${encodeURIComponent(id)}`);
  } catch {
    clearTimeout(timer);
    hangUp();
  }
}

/** Approve a cell of a review, or correct it where there is a text. Throws ApiError. */
export async function decide(key, r, c, text) {
  const { table } = made.value.get(key);
  const { path, section } = table.rows[r];
  const rows = JSON.parse(key)[1].find(([name]) => name === "rows")?.[1] ?? "document";
  put(key, r, c, (await putJson("/api/review/cell", { path, section, rows, question: table.questions[c - 1], text })).cell);
}

/** Forget what a person decided about a cell. Throws ApiError. */
export async function reopen(key, r, c) {
  const { table } = made.value.get(key);
  const { path, section } = table.rows[r];
  put(key, r, c, (await del(`/api/review/cell?${new URLSearchParams({ path, section, question: table.questions[c - 1] })}`)).cell);
}

function put(key, r, c, cell) {
  const found = made.value.get(key);
  const cells = found.table.rows[r].cells.with(c, cell);
  const rows = found.table.rows.with(r, { ...found.table.rows[r], cells });
  made.value = new Map(made.value).set(key, { ...found, table: { ...found.table, rows } });
}

/** Whether a cell of a review has not been read. */
export const isUnread = (cell) => cell.state === "found" && !cell.text && cell.citations.length === 0;
