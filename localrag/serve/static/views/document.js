// One document: what it is, its text or its page with a passage marked, and what the passage names.

import { html, useEffect, useState } from "../vendor/preact.js";
import { blob } from "../lib/api.js";
import { number, t } from "../lib/i18n.js";
import { Failure, fileName, useTitle } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { DocumentText } from "../lib/text.js";
import { Entities } from "./library.js";
import { Passage } from "./source.js";

export default function Document({ route }) {
  const id = route.args[0] ?? "";
  const mark = /^\d+-\d+$/.test(route.query.mark ?? "") ? route.query.mark : "";
  const [found, setFound] = useState(null);
  const [start, end] = mark.split("-").map(Number);
  const title = found ? found.title || fileName(found.path) : t("document.title");
  useTitle(title);
  return html`<div class="page document">
    <p class="way"><a href="#/documents">${t("nav.documents")}</a></p>
    <h1 dir="auto">${title}</h1>
    ${found && html`<${About} found=${found} />`}
    ${mark && found?.entities.length > 0 && html`<div class="named-here"><h2>${t("source.named")}</h2><${Entities} entities=${found.entities} /></div>`}
    ${mark && html`<p class="soft">${t("document.marked")} <a href=${to("document", id)}>${t("document.unmark")}</a></p>`}
    <${Body} id=${id} mark=${mark} start=${start} end=${end} found=${found} setFound=${setFound} />
  </div>`;
}

/** A passage of a PDF as the picture of its page, anything else as text. What a passage is in is known after the first look. */
function Body({ id, mark, start, end, found, setFound }) {
  if (mark && (found?.kind === "pdf" || found?.kind === "image")) return html`<${Passage} key=${mark} id=${id} start=${start} end=${end} path=${found.path} onLoaded=${setFound} />`;
  return html`<${DocumentText} id=${id} mark=${mark} onLoaded=${setFound} />`;
}

function About({ found }) {
  const facts = Object.entries(found.metadata).filter(([, value]) => value !== "" && value !== null);
  return html`<div class="about">
    <p class="soft"><span dir="auto">${found.path}</span> · ${t("documents.characters", { n: found.length })}${
      found.parts.length > 1 ? ` · ${t("document.parts", { n: found.parts.length })}` : ""}</p>
    <div class="links-row"><${Original} id=${found.id} name=${fileName(found.file)} /> <a class="button" href=${to("work", "compare", { first: found.path })}>${t("tables.compare.with")}</a></div>
    ${facts.length > 0 && html`<details><summary>${t("document.metadata")}</summary>
      <dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd dir="auto">${shown(value)}</dd></div>`)}</dl>
    </details>`}
  </div>`;
}

const shown = (value) => (typeof value === "number" ? number(value) : Array.isArray(value) ? value.join(", ") : String(value));

/** The file itself. It needs the token, so it is fetched and then given to the browser. */
function Original({ id, name }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => setError(null), [id]);
  const download = async () => {
    setBusy(true);
    setError(null);
    try {
      const address = URL.createObjectURL(await blob(`/api/documents/${encodeURIComponent(id)}/original`));
      Object.assign(document.createElement("a"), { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return html`<button type="button" onClick=${download} disabled=${busy}>${t("document.original")}</button>${error && html`<${Failure} error=${error} />`}`;
}
