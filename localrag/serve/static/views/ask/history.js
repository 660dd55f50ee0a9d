// The conversations that are kept.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { t, when } from "../../lib/i18n.js";
import { conversations, list, talk } from "./talk.js";

const AT_FIRST = 30;

/** A list of links, the newest conversation first. */
export function History() {
  const [most, setMost] = useState(AT_FIRST);
  useEffect(() => {
    list();
  }, []);
  const all = conversations.value;
  return html`<nav class="history" aria-label=${t("ask.history")}>
    <a class="button new" href="#/ask/new"><span aria-hidden="true">+</span> ${t("ask.new")}</a>
    <ul>
      ${(all ?? []).slice(0, most).map(
        (one) => html`<li key=${one.id}>
          <a href=${`#/ask/${one.id}`} aria-current=${one.id === talk.value.id ? "page" : null}>
            <span class="title" dir="auto">${one.title}</span>
            <span class="at">${when(one.at)}${one.answers > 1 && ` · ${t("ask.answers", { n: one.answers })}`}</span>
          </a>
        </li>`,
      )}
    </ul>
    ${all?.length > most && html`<button type="button" class="quiet" onClick=${() => setMost(most * 4)}>${t("ask.history.more")}</button>`}
    ${all?.length === 0 && html`<p class="soft">${t("ask.history.none")}</p>`}
  </nav>`;
}
