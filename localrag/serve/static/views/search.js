// What the index has on some words: entities, themes, and the passages that are nearest in meaning.

import { html, useRef, useState } from "../vendor/preact.js";
import { names, passages } from "../lib/find.js";
import { t } from "../lib/i18n.js";
import { Failure, placeName, useData, useTitle, Waiting } from "../lib/parts.js";
import { go, to } from "../lib/route.js";
import { Entities, Section } from "./library.js";

const PASSAGES = 20;

export default function Search({ route }) {
  const query = (route.query.q ?? "").trim();
  const [text, setText] = useState(query);
  useTitle(query || t("find.title"));
  const shown = useRef(query);
  if (shown.current !== query) {
    shown.current = query; // not in an effect, which would come after the first key and take it back
    setText(query);
  }
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) go(to("search", { q: text.trim() }));
  };
  return html`<div class="page search-page">
    <h1>${t("find.title")}</h1>
    <search><form class="search-form" onSubmit=${submit}>
      <label class="offscreen" for="words">${t("find.label")}</label>
      <input id="words" type="search" dir="auto" maxlength="2000" placeholder=${t("find.placeholder")} value=${text} onInput=${(event) => setText(event.target.value)} />
      <button type="submit" class="main">${t("find.go")}</button>
    </form></search>
    ${query && html`<${Found} query=${query} />`}
  </div>`;
}

function Found({ query }) {
  const known = useData((signal) => names(query, signal), [query]);
  const near = useData((signal) => passages(query, PASSAGES, signal), [query]);
  const none = known.data && near.data && known.data.entities.length + known.data.reports.length + near.data.length === 0;
  const error = near.error ?? known.error;
  return html`
    <${Section} title=${t("find.entities")} when=${known.data?.entities.length > 0}><${Entities} entities=${known.data?.entities ?? []} /></${Section}>
    <${Section} title=${t("find.reports")} when=${known.data?.reports.length > 0}>
      <ul class="plain">${known.data?.reports.map((one) => html`<li key=${one.id}><a href=${to("report", one.id)} dir="auto">${one.title}</a> <span class="soft">${one.number}</span></li>`)}</ul>
    </${Section}>
    <${Section} title=${t("find.passages")} when=${near.data?.length > 0}>
      <ul class="quotes">${near.data?.map((one) => html`<li key=${`${one.document}-${one.start}`}><${Passage} one=${one} /></li>`)}</ul>
    </${Section}>
    ${!near.data && !error && html`<${Waiting} />`}
    ${error && html`<${Failure} error=${error} again=${near.error ? near.again : known.again} />`}
    ${none && html`<p role="status">${t("find.none", { q: query })}</p>`}
    ${(near.data || error) && html`<p class="links-row"><a href=${to("ask", { q: query })}>${t("find.ask")}</a></p>`}`;
}

/** The sentence that is nearest, which leads to the passage; the whole passage on demand. */
function Passage({ one }) {
  return html`<a class="quoted" href=${to("document", one.document, { mark: `${one.start}-${one.end}` })}>
      <span lang="" dir="auto">${one.snippet}</span><span class="soft">${placeName(one)}</span>
    </a>
    ${one.text.trim() !== one.snippet && html`<details class="whole"><summary>${t("find.whole")}</summary><p lang="" dir="auto">${one.text}</p></details>`}`;
}
