// The conversations that are kept.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { t, when } from "../../lib/i18n.js";
import { status } from "../../lib/live.js";
import { Sure } from "../../lib/parts.js";
import { conversations, erase, list, live, programs, talk } from "./talk.js";

const AT_FIRST = 30;

/** A list of links, the newest conversation first. */
export function History() {
  const [most, setMost] = useState(AT_FIRST);
  const [leaving, setLeaving] = useState(null); // the conversation that the dialog asks about
  const first = useRef(null);
  useEffect(() => {
    list();
    const shown = () => document.visibilityState === "visible" && list(); // another tab may have asked meanwhile
    document.addEventListener("visibilitychange", shown);
    window.addEventListener("focus", shown);
    return () => {
      document.removeEventListener("visibilitychange", shown);
      window.removeEventListener("focus", shown);
    };
  }, []);
  const all = conversations.value;
  const change = status.value && !status.value.read_only;
  const closed = () => {
    if (![...all, ...programs.value].some((one) => one.id === leaving.id)) first.current.focus(); // its button is gone
    setLeaving(null);
  };
  const row = (one) => html`<li key=${one.id}>
    <a href=${`#/ask/${one.id}`} aria-current=${one.id === talk.value.id ? "page" : null}>
      <span class="title" dir="auto">${one.title}</span>
      <span class="at">${when(one.at)}${one.answers > 1 && ` · ${t("ask.answers", { n: one.answers })}`}</span>
    </a>
    ${change && html`<button type="button" class="quiet tiny" aria-label=${t("ask.delete.of", { title: one.title })} title=${t("ask.delete")}
      disabled=${live.value !== null} onClick=${() => setLeaving(one)}>✕</button>`}
  </li>`;
  return html`<nav class="history" aria-label=${t("ask.history")}>
    <a class="button new" ref=${first} href="#/ask/new"><span aria-hidden="true">+</span> ${t("ask.new")}</a>
    <ul>
      ${(all ?? []).slice(0, most).map(row)}
    </ul>
    ${all?.length > most && html`<button type="button" class="quiet" onClick=${() => setMost(most * 4)}>${t("ask.history.more")}</button>`}
    ${leaving && html`<${Sure} title=${t("ask.delete.title")} what=${leaving.title} label=${t("ask.delete")} act=${() => erase(leaving.id)} close=${closed}>
      <p>${t("ask.delete.what")}</p>
    <//>`}
    ${all?.length === 0 && html`<p class="soft">${t("ask.history.none")}</p>`}
    ${programs.value.length > 0 && html`<details>
      <summary>${t("ask.programs")}</summary>
      <ul>${programs.value.map(row)}</ul>
    </details>`}
  </nav>`;
}
