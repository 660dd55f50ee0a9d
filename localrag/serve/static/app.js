// The shell: header, navigation, and the view that the address names, each loaded when it is first wanted.

import { effect, html, render, signal, useEffect, useLayoutEffect, useState } from "./vendor/preact.js";
import { access, enter, unlock } from "./lib/api.js";
import { Find } from "./lib/find.js";
import { LANGUAGES, language, lasting, number, speak, t } from "./lib/i18n.js";
import { refresh, status } from "./lib/live.js";
import { Failure, stageName, useTitle } from "./lib/parts.js";
import { parse, route } from "./lib/route.js";
import { load, save } from "./lib/storage.js";

const VIEWS = ["ask", "documents", "work", "graph", "reports", "status"]; // in the navigation
const WITHIN = { source: "ask", document: "documents", report: "graph", entity: "graph", search: "search" }; // the others, below which of them
const theme = signal(load("theme", "auto"));

function Shell() {
  const at = route.value;
  const known = VIEWS.includes(at.view) || at.view in WITHIN;
  const ready = access.value === "ready";
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("shell.skip")}</a>
    <header class="top">
      <a class="brand" href="#/ask"><img src="static/icon.svg" alt="" width="22" height="22" />localrag</a>
      ${ready && html`<${Navigation} at=${at.view} />`}
      ${ready && html`<${Progress} />`}
      ${ready && html`<${Find} />`}
      <${Settings} />
    </header>
    <main id="main" tabindex="-1">
      ${access.value === "needed" && html`<${Access} />`}
      ${ready && (known ? html`<${View} at=${at} />` : html`<${Missing} />`)}
    </main>`;
}

/** The skip link moves the focus without touching the address, which names the view. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Navigation({ at }) {
  const here = WITHIN[at] ?? at;
  return html`<nav aria-label=${t("shell.navigation")}>
    ${VIEWS.map((name) => html`<a key=${name} href=${`#/${name}`} aria-current=${name === here ? "page" : null}>${t(`nav.${name}`)}</a>`)}
  </nav>`;
}

/** A run over the documents, wherever one is on the page. */
function Progress() {
  const run = status.value?.run;
  if (run?.state !== "running") return null;
  const secondsLeft = run.seconds_left;
  const fraction = run.fraction;
  const left = secondsLeft === null || secondsLeft === undefined ? "" : t("shell.left", { time: lasting(secondsLeft) });
  return html`<a class="run" href="#/status">
    <span>${stageName(run.stage)} ${run.total > 0 ? `${number(run.done)} / ${number(run.total)}` : ""} ${left}</span>
    ${run.total > 0 && html`<progress max=${typeof fraction === "number" ? 1 : run.total} value=${fraction ?? run.done} aria-label=${stageName(run.stage)}></progress>`}
  </a>`;
}

function Settings() {
  return html`<details class="menu settings" onKeyDown=${closeOnEscape} onFocusOut=${closeOnLeave}>
    <summary aria-label=${t("shell.settings")} title=${t("shell.settings")}>
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8">
        <path d="M4 7h9M19 7h1M4 17h1M11 17h9" stroke-linecap="round" /><circle cx="16" cy="7" r="2.6" /><circle cx="8" cy="17" r="2.6" />
      </svg>
    </summary>
    <div class="panel">
      <label>${t("shell.language")}
        <select value=${language.value} onChange=${(event) => speak(event.target.value)}>
          ${Object.entries(LANGUAGES).map(([tag, name]) => html`<option key=${tag} value=${tag} lang=${tag}>${name}</option>`)}
        </select>
      </label>
      <label>${t("shell.theme")}
        <select value=${theme.value} onChange=${(event) => (theme.value = event.target.value)}>
          ${["auto", "light", "dark"].map((name) => html`<option key=${name} value=${name}>${t(`shell.theme.${name}`)}</option>`)}
        </select>
      </label>
    </div>
  </details>`;
}

function closeOnEscape(event) {
  if (event.key !== "Escape") return;
  event.preventDefault();
  event.currentTarget.open = false;
  event.currentTarget.querySelector("summary").focus();
}

function closeOnLeave(event) {
  if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) event.currentTarget.open = false;
}

/** The view, once its module is there; a view that is missing or broken leaves the rest of the page alone. */
function View({ at }) {
  const name = at.view === "source" ? "ask" : at.view;
  const [found, setFound] = useState({ name: "", view: null, error: null });
  useEffect(() => {
    let wanted = true;
    const told = (view, error) => wanted && setFound({ name, view, error });
    import(`./views/${name}.js`).then((module) => told(module.default, null), (error) => told(null, error));
    return () => (wanted = false);
  }, [name]);
  const place = ["ask", "graph"].includes(name) ? name : [name, ...at.args].join("/"); // these two keep what they show
  useFocus(found.name === name && !found.error ? place : "");
  if (found.name !== name) return null;
  if (found.error) return html`<div class="page"><h1>${t(`nav.${WITHIN[name] ?? name}`)}</h1><${Failure} error=${found.error} /></div>`;
  return html`<${found.view} key=${place} route=${at} />`;
}

let before = "";

/** After a change of view the heading has the focus, so that a screen reader begins there; not when the page is opened. */
function useFocus(place) {
  useLayoutEffect(() => {
    if (!place || place === before) return;
    const first = before === "";
    before = place;
    if (first) return;
    scrollTo(0, 0);
    const heading = document.querySelector("main h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }, [place]);
}

function Missing() {
  useTitle(t("shell.missing"));
  return html`<div class="page"><h1>${t("shell.missing")}</h1><p><a href="#/ask">${t("shell.home")}</a></p></div>`;
}

/** The page has no token: the link that the server printed brings one, and so does its key. */
function Access() {
  const [error, setError] = useState(null);
  useTitle(t("access.title"));
  const given = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("key").trim();
    unlock(/#k=(.+)$/.exec(text)?.[1] ?? text).catch(setError);
  };
  return html`<div class="page access">
    <h1>${t("access.title")}</h1>
    <p>${t("access.why")}</p>
    <form onSubmit=${given}>
      <label for="key">${t("access.key")}</label>
      <input id="key" name="key" type="password" autocomplete="current-password" spellcheck=${false} required />
      <button type="submit" class="main">${t("access.open")}</button>
    </form>
    ${error && html`<${Failure} error=${error} />`}
  </div>`;
}

/** A link of the server that is opened in this tab again brings a new code. */
addEventListener("hashchange", () => location.hash.startsWith("#k=") && begin());

async function begin() {
  await enter();
  route.value = parse(location.hash);
}

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  save("theme", theme.value);
});
effect(() => {
  if (access.value === "ready") refresh();
});

await Promise.all([speak(), begin()]);
render(html`<${Shell} />`, document.getElementById("app"));
