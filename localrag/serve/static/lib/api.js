// The server's addresses: JSON in, JSON out, with the token of this browser. Paths begin with "/api/".

import { signal } from "../vendor/preact.js";
import { t } from "./i18n.js";
import { load, save } from "./storage.js";

/** "checking" until the page has tried, then "ready", or "needed" where there is no token that the server knows. */
export const access = signal("checking");

/** What went wrong, in the server's words; `hint` says what mends it. `status` is 0 where the server did not answer. */
export class ApiError extends Error {
  constructor(message, hint = "", status = 0) {
    super(message);
    this.name = "ApiError";
    this.hint = hint;
    this.status = status;
  }
}

export const get = (path, signal) => json("GET", path, undefined, signal);
export const post = (path, body = {}, signal) => json("POST", path, body, signal);
export const del = (path) => json("DELETE", path);
export const putJson = (path, body) => json("PUT", path, body);

/** Bytes, for a picture or a download; the address needs the token, so a plain link will not do. */
export async function blob(path, signal) {
  return (await ask("GET", path, undefined, signal)).blob();
}

/** The bytes as an ArrayBuffer, with the answer's headers. */
export async function bytes(path, signal) {
  const answer = await ask("GET", path, undefined, signal);
  return { data: await answer.arrayBuffer(), headers: answer.headers };
}

/** Send a file; `onProgress` is told the share that has been sent, 0 to 1. Returns the server's JSON. */
export function put(path, file, onProgress = () => {}, signal = null) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not tell how far a body is
    request.open("PUT", address(path));
    request.setRequestHeader("Authorization", `Bearer ${load("token", "")}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => (request.status < 400 ? resolve(request.response) : reject(refused(request.status, request.response)));
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(new DOMException("", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** POST, and hand each line of the answer to `onEvent` as it comes. Ends when the stream ends; throws where it breaks off. */
export async function stream(path, body, onEvent, signal) {
  const answer = await ask("POST", path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await read(reader);
    rest += value ?? "";
    if (!done && !value.includes("\n")) continue; // a line may be long
    const lines = rest.split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) if (line.trim()) onEvent(JSON.parse(line));
    if (done) return;
  }
}

/** Trade the code of the link for a token, if the address has one, and take it out of the address. */
export async function enter() {
  const code = /^#k=(.+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    await unlock(decodeURIComponent(code)).catch(() => {});
  }
  if (access.value === "checking") access.value = load("token") ? "ready" : "needed";
}

/** Trade a code or key for a token. Throws ApiError where the server knows neither. */
export async function unlock(code) {
  const { token } = await json("POST", "/api/session", { code });
  save("token", token);
  access.value = "ready";
}

async function json(method, path, body, signal) {
  const answer = await ask(method, path, body, signal);
  return answer.status === 204 ? null : answer.json();
}

async function ask(method, path, body, signal) {
  const headers = { Authorization: `Bearer ${load("token", "")}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (failed) {
    if (failed.name === "AbortError") throw failed;
    throw unreachable();
  }
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => null);
  if (answer.status === 401 && !path.startsWith("/api/session")) {
    save("token", null);
    access.value = "needed";
  }
  throw refused(answer.status, found);
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (failed) {
    if (failed.name === "AbortError") throw failed;
    throw unreachable();
  }
}

// Relative, so that the page also works below another path.
const address = (path) => path.replace(/^\//, "");
const unreachable = () => new ApiError(t("error.unreachable"), t("error.unreachable.hint"));

function refused(status, body) {
  const { message, hint } = body?.error ?? {};
  return new ApiError(message || t("error.status", { status: String(status) }), hint || "", status);
}
