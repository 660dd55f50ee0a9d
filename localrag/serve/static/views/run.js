// How far a run over the documents is, with what stops it.

import { html, useRef, useState } from "../vendor/preact.js";
import { del } from "../lib/api.js";
import { lasting, number, t, when } from "../lib/i18n.js";
import { refresh, status } from "../lib/live.js";
import { Failure, stageName } from "../lib/parts.js";

/** The run that goes on, or how the last one ended. `removing`: it takes a document out. */
export function Run({ removing = false }) {
  const [error, setError] = useState(null);
  const [stopping, setStopping] = useState(false);
  const run = status.value?.run;
  const before = useRef(null);
  const running = run?.state === "running";
  const seen = before.current === "running" || running; // what ended before the page was opened is no news
  before.current = run?.state === undefined ? before.current : running || before.current === "running" ? "running" : run.state;
  if (!run) return null;
  const stop = async () => {
    setStopping(true);
    setError(null);
    try {
      await del("/api/index");
    } catch (failed) {
      setError(failed);
    }
    refresh();
  };
  if (!running && stopping) setStopping(false);
  return html`<div class="run-panel" data-state=${run.state}>
    <p class="offscreen" role="status">${seen ? t(`run.${run.state}`) : ""}</p>
    ${running && html`<${Bar} run=${run} removing=${removing} />`}
    ${running && run.ours !== false && !status.value.read_only && !removing && html`<button type="button" onClick=${stop} disabled=${stopping}>
      ${t(stopping ? "run.stopping" : "run.stop")}</button>`}
    ${!running && run.state !== "failed" && html`<p class="soft">${t(`run.${run.state}`)}${run.ended_at ? ` · ${when(run.ended_at)}` : ""}</p>`}
    ${run.state === "failed" && html`<${Failure} error=${{ message: t("run.failed"), hint: run.message }} />`}
    ${error && html`<${Failure} error=${error} />`}
  </div>`;
}

function Bar({ run, removing }) {
  const name = removing ? t("run.removing") : stageName(run.stage);
  const secondsLeft = run.seconds_left;
  const fraction = run.fraction;
  const left = secondsLeft === null || secondsLeft === undefined ? "" : t("shell.left", { time: lasting(secondsLeft) });
  const known = run.total > 0 && !removing;
  const whole = known && typeof fraction === "number"; // of the run, not of the stage
  const percent = whole ? `${Math.min(99, Math.floor(100 * fraction))} %` : "";
  return html`<div class="bar">
    <p><strong>${name}</strong> <span class="soft">${[percent, known && `${number(run.done)} / ${number(run.total)}`, left].filter(Boolean).join(" · ")}</span></p>
    <progress aria-label=${name} max=${known && !whole ? run.total : 1} value=${whole ? fraction : known ? run.done : null}></progress>
  </div>`;
}
