// Small parts that several views use.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { t } from "./i18n.js";

/** What went wrong, and what mends it. */
export function Failure({ error, again = null }) {
  return html`<div class="failure" role="alert">
    <p><strong>${error.message || String(error)}</strong></p>
    ${error.hint && html`<p>${error.hint}</p>`}
    ${again && html`<button type="button" onClick=${again}>${t("again")}</button>`}
  </div>`;
}

/** A button that copies a text and says so. */
export function Copy({ text, label = t("copy"), small = false }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => copied(typeof text === "function" ? text() : text).then(setDone);
  return html`<button type="button" class=${small ? "quiet tiny" : "quiet"} onClick=${copy}>
    <span aria-live="polite">${done ? t("copied") : label}</span>
  </button>`;
}

/** Asks before something is done that cannot be undone. `what` is it done to, `label` the button's, `act` does it and may throw. */
export function Sure({ title, what, label, act, close, children }) {
  const box = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const over = useRef(false);
  useEffect(() => box.current.showModal(), []);
  // The close event comes a task later: whoever opens the dialog again before it must not have it taken away.
  const ended = () => {
    if (!over.current) close();
    over.current = true;
  };
  const leave = () => {
    box.current?.close();
    ended();
  };
  const sure = async () => {
    setBusy(true);
    setError(null);
    try {
      await act();
      leave();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return html`<dialog ref=${box} class="removal" aria-labelledby="removal-title" onClose=${ended}>
    <h2 id="removal-title">${title}</h2>
    <p class="path" dir="auto">${what}</p>
    ${children}
    ${error && html`<${Failure} error=${error} />`}
    <p class="choices">
      <button type="button" autofocus onClick=${leave}>${t("cancel")}</button>
      <button type="button" class="danger" disabled=${busy} onClick=${sure}>${label}</button>
    </p>
  </dialog>`;
}

/** Something is being read. Shown only after a moment, so that quick answers do not flicker. */
export function Waiting({ label = t("waiting") }) {
  return html`<p class="waiting" role="status">${label}</p>`;
}

/** Load data for a component: {data, error, again}. `make(signal)` returns a promise; it is called anew when `inputs` change. */
export function useData(make, inputs) {
  const [state, setState] = useState({ data: null, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const leaving = new AbortController();
    setState({ data: null, error: null });
    make(leaving.signal).then(
      (data) => leaving.signal.aborted || setState({ data, error: null }),
      (error) => leaving.signal.aborted || setState({ data: null, error }),
    );
    return () => leaving.abort();
  }, [...inputs, round]);
  return { ...state, again: () => setRound(round + 1) };
}

/** A path's last name. */
export const fileName = (path) => path.split(/[\\/]/).at(-1) || path;

/** Where a citation stands: `minutes.pdf, page 3`. */
export const placeName = ({ path, part }, name = fileName(path)) => (part ? `${name}, ${part}` : name);

/** Where a citation stands, with the headings above it: `minutes.pdf, page 3 › Costs`. */
export const sourceName = (citation, name) => [placeName(citation, name), ...(citation.headings ?? [])].join(" › ");

/** A stage's name in the page's language; one that is not known keeps its own. */
export function stageName(stage) {
  const name = t(`run.stage.${stage}`);
  return name.startsWith("run.stage.") ? stage : name;
}

/** The page's title in the browser's tab. */
export function useTitle(text) {
  useEffect(() => {
    document.title = text ? `${text} – localrag` : "localrag";
  }, [text]);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Under another name than localhost there is no clipboard: the old way.
    const area = Object.assign(document.createElement("textarea"), { value: text, className: "offscreen" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
