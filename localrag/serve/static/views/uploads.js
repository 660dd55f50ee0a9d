// Files on their way into the inbox, one after the other, and the run that follows. They go on while another view is open.

import { effect, html, signal } from "../vendor/preact.js";
import { get, post, put } from "../lib/api.js";
import { number, percent, t } from "../lib/i18n.js";
import { refresh, status } from "../lib/live.js";

/** {key, file, name, state: "waiting" | "sending" | "sent" | "failed", share, error, leave} of each, in order. */
export const uploads = signal([]);
/** Why the last run could not be started. */
export const refused = signal(null);

const SAID = { 400: "name", 409: "exists", 413: "large", 415: "kind", 507: "disk" };
const BEGINS_WITHIN = 30_000; // milliseconds until a run that was started is in the index
let sending = false;
let again = false; // files came while a run was under way
let count = 0;

/** Send files; those that the server would not take are told at once. */
export function add(files) {
  const most = status.value?.most_bytes ?? Infinity;
  const taken = [...files].map((file) => {
    const error = file.size > most ? { message: t("upload.large", { most: size(most) }), hint: "" } : null;
    return { key: (count += 1), file, name: file.name, state: error ? "failed" : "waiting", share: 0, error, leave: new AbortController() };
  });
  uploads.value = [...uploads.value.filter((one) => one.state !== "sent"), ...taken];
  send();
}

/** What was dropped as files; a folder is told to be none. */
export function dropped(transfer) {
  const entries = [...(transfer.items ?? [])].map((item) => item.webkitGetAsEntry?.());
  const files = [...transfer.files];
  const folders = files.filter((_, i) => entries[i]?.isDirectory);
  add(files.filter((file) => !folders.includes(file)));
  const error = { message: t("upload.folder"), hint: t("upload.folder.hint") };
  uploads.value = [...uploads.value, ...folders.map((file) => ({ key: (count += 1), name: file.name, state: "failed", share: 0, error }))];
}

function change(key, more) {
  uploads.value = uploads.value.map((one) => (one.key === key ? { ...one, ...more } : one));
}

const forget = (key) => (uploads.value = uploads.value.filter((one) => one.key !== key));

async function send() {
  if (sending) return;
  sending = true;
  let sent = 0;
  for (let one; (one = uploads.value.find(({ state }) => state === "waiting")); ) {
    const { key, name, file, leave } = one;
    change(key, { state: "sending" });
    try {
      await put(`/api/files/${encodeURIComponent(name)}`, file, (share) => change(key, { share }), leave.signal);
      change(key, { state: "sent", share: 1 });
      sent += 1;
    } catch (failed) {
      if (failed.name === "AbortError") forget(key);
      else change(key, { state: "failed", error: told(failed) });
    }
  }
  sending = false;
  if (sent) await index();
}

/** A refusal in the page's language, as far as it is one of those that are known. */
function told(failed) {
  const known = SAID[failed.status];
  if (!known) return failed;
  const hint = { exists: t("upload.exists.hint"), name: failed.message }[known] ?? failed.hint; // the server says what is wrong with a name
  return { message: t(`upload.${known}`, { most: size(status.value?.most_bytes ?? 0) }), hint };
}

/** Start a run over the folders and the inbox; one that is under way is waited for. */
export async function index() {
  refused.value = null;
  try {
    await look();
    const { run } = status.value;
    if (run?.state !== "running") {
      await post("/api/index");
      return await begun(run?.started_at);
    }
    again = true;
    refresh();
  } catch (failed) {
    refused.value = failed;
  }
}

/** Follow a run from its beginning, which is a moment after it was asked for. */
export async function begun(before) {
  for (const until = Date.now() + BEGINS_WITHIN; Date.now() < until; ) {
    await refresh();
    const run = status.value?.run;
    if (run && run.started_at !== before) return;
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
}

/** The state as it is now, without waiting for a change. */
export async function look() {
  status.value = await get("/api/status");
}

let running = false;
effect(() => {
  const now = status.value?.run?.state === "running";
  if (running && !now && again) {
    again = false;
    index();
  }
  running = now;
});

/** A number of bytes as people write it. */
export function size(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(bytes || 1) / 10)));
  return number(bytes / 1024 ** power, { style: "unit", unit: units[power], unitDisplay: power ? "short" : "long", maximumFractionDigits: 1 });
}

/** The files that are being sent, or could not be. */
export function Uploads() {
  const all = uploads.value;
  if (all.length === 0) return null;
  const over = all.every((one) => one.state === "sent" || one.state === "failed");
  return html`<section class="uploads" aria-labelledby="uploads-title">
    <h2 id="uploads-title">${t("upload.title")}</h2>
    <ul>${all.map((one) => html`<${Upload} key=${one.key} one=${one} />`)}</ul>
    ${over && html`<button type="button" class="quiet" onClick=${() => (uploads.value = [])}>${t("upload.clear")}</button>`}
    <p class="offscreen" role="status">${over ? t("upload.over", { n: all.filter((one) => one.state === "sent").length }) : ""}</p>
  </section>`;
}

function Upload({ one }) {
  const named = { name: one.name };
  return html`<li class=${one.state}>
    <span class="name" dir="auto">${one.name}</span>
    ${one.state === "waiting" && html`<span class="soft">${t("upload.waiting")}</span>`}
    ${one.state === "sending" && html`<progress max="1" value=${one.share} aria-label=${t("upload.of", named)}></progress><span class="soft">${percent(one.share)}</span>`}
    ${one.state === "sent" && html`<span class="soft">${t("upload.sent")}</span>`}
    ${["waiting", "sending"].includes(one.state) && html`<button type="button" class="quiet tiny" aria-label=${t("upload.cancel.of", named)}
      onClick=${() => (one.state === "waiting" ? forget(one.key) : one.leave.abort())}>${t("cancel")}</button>`}
    ${one.state === "failed" && html`<div class="failure" role="alert"><p><strong>${one.error.message}</strong></p>${one.error.hint && html`<p>${one.error.hint}</p>`}</div>
      <button type="button" class="quiet tiny" aria-label=${t("upload.clear.of", named)} onClick=${() => forget(one.key)}>✕</button>`}
  </li>`;
}
