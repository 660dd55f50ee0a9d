// Parts of tables: quotes that lead to their words, what a cell is, what stands above and below a table.

import { html, useState } from "../vendor/preact.js";
import { blob } from "../lib/api.js";
import { lasting, number, percent, t } from "../lib/i18n.js";
import { Failure, sourceName } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { making, stop } from "./made.js";

const FORMATS = ["xlsx", "csv", "docx", "md", "json"];

/** A quote, which leads to its words in the document; `children` stand instead of its text. */
export function Quote({ citation, children = null }) {
  const shown = html`<q lang="" dir="auto">${children ?? citation.quote}</q><span class="soft" dir="auto">${sourceName(citation)}</span>`;
  if (!citation.document) return html`<span class="quoted">${shown}</span>`; // the document was removed
  return html`<a class="quoted" href=${to("document", citation.document, { mark: `${citation.start}-${citation.end}` })}>${shown}</a>`;
}

/** What a cell is, in words: not stated, contradictory, corrected, approved; and how sure that is. */
export function State({ cell }) {
  return html`${cell.state !== "found" && html`<span class=${`state ${cell.state.replace(" ", "-")}`}>${t(`tables.state.${cell.state}`)}</span> `}${
    typeof cell.confidence === "number" && html`<span class="sure" title=${t("tables.sure")}>${percent(cell.confidence)}<span class="offscreen"> ${t("tables.sure")}</span></span>`}`;
}

/** The title of a column, which is a question of the reader or one of a few names. */
export const columnName = (column) => named(`tables.column.${column.title}`, column.title);

/** The text of a key that the server's word completes, or the word itself. */
export function named(key, word) {
  const text = t(key);
  return text === key ? word : text;
}

/** What the server says of a table, and how much of it is shown. */
export function Notes({ table }) {
  return html`${table.note && html`<p class="table-note" lang="en">${table.note}</p>`}
    ${table.rows.length < table.total_rows && html`<p class="table-note">${t("tables.cut", { n: table.rows.length, all: table.total_rows })}</p>`}`;
}

/** A table as files. */
export function Downloads({ id, kind }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState("");
  const save = async (format) => {
    setBusy(format);
    setError(null);
    try {
      const address = URL.createObjectURL(await blob(`/api/tables/${encodeURIComponent(id)}/file.${format}`));
      Object.assign(document.createElement("a"), { href: address, download: `${kind}.${format}` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } catch (failed) {
      setError(failed);
    }
    setBusy("");
  };
  return html`<div class="downloads" role="group" aria-labelledby="downloads">
    <span id="downloads">${t("tables.save")}</span>
    ${FORMATS.map((format) => html`<button key=${format} type="button" disabled=${busy !== ""} onClick=${() => save(format)}>
      ${t(`tables.format.${format}`)}</button>`)}
    ${error && html`<${Failure} error=${error} />`}
  </div>`;
}

/** How far the table is that is being made, with what stops it. */
export function Making() {
  const now = making.value;
  if (!now) return null;
  const { kind, done, total, waiting, since, stopping } = now;
  const spent = (Date.now() - since) / 1000;
  const left = done > 1 && done < total && spent > 3 ? t("shell.left", { time: lasting((spent / done) * (total - done)) }) : "";
  const where = waiting > 0 ? t("tables.waiting", { n: waiting }) : [total > 0 && `${number(done)} / ${number(total)}`, left].filter(Boolean).join(" · ");
  return html`<div class="run-panel" data-state="running">
    <div class="bar">
      <p><strong>${t(`tables.making.${kind}`)}</strong> <span class="soft">${where}</span></p>
      <progress aria-label=${t(`tables.making.${kind}`)} max=${total || 1} value=${total ? done : null}></progress>
    </div>
    <button type="button" onClick=${stop} disabled=${stopping}>${t(stopping ? "run.stopping" : "ask.stop")}</button>
  </div>`;
}

/** One page of rows: [first, last, the part that chooses another]. */
export function usePages(n, size) {
  const [page, setPage] = useState(0);
  const last = Math.max(0, Math.ceil(n / size) - 1);
  const at = Math.min(page, last);
  const from = at * size;
  const end = Math.min(n, from + size);
  const pages = n > size && html`<nav class="pages-of" aria-label=${t("pages")}>
    <button type="button" disabled=${at === 0} onClick=${() => setPage(at - 1)}>${t("pages.previous")}</button>
    <span class="soft" role="status">${t("pages.of", { from: from + 1, to: end, n })}</span>
    <button type="button" disabled=${at === last} onClick=${() => setPage(at + 1)}>${t("pages.next")}</button>
  </nav>`;
  return [from, end, pages];
}
