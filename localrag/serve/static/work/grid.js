// The table of a review: a grid that arrow keys move in, and the dialog that a cell opens.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { language, t } from "../lib/i18n.js";
import { status } from "../lib/live.js";
import { Failure, fileName } from "../lib/parts.js";
import { go, route, to } from "../lib/route.js";
import { columnName, named, Quote, State, usePages } from "./cells.js";
import { argumentsOf, decide, isUnread, make, making, reopen, told } from "./made.js";

const CELLS_PER_PAGE = 5_000; // more would be slow to lay out
const PAGE_ROWS = 10; // that PageDown moves by
const LONGEST = 10_000; // characters of a correction

export function Review({ found, tableKey }) {
  const { table } = found;
  const [from, end, pages] = usePages(table.rows.length, Math.max(20, Math.floor(CELLS_PER_PAGE / table.columns.length)));
  const box = useRef(null);
  const opened = openedCell(table);
  const show = (r, c) => go(addressOf({ cell: `${r}.${c}` }), true);
  const close = () => {
    go(addressOf({ cell: "" }), true);
    requestAnimationFrame(() => opened && reach(box.current, box.current.querySelector(`[data-cell="${opened.join(".")}"]`)));
  };
  // Thousands of cells are not made anew because a dialog opens.
  const grid = useMemo(() => html`<${Grid} table=${table} from=${from} end=${end} show=${show} box=${box} />`, [table, from, end, language.value]);
  return html`<p class="soft" id="grid-keys">${t("tables.grid.keys")}</p>
    <div class="grid-box" ref=${box}>${grid}</div>
    ${pages}
    ${opened && html`<${CellDialog} key=${opened.join(".")} table=${table} tableKey=${tableKey} r=${opened[0]} c=${opened[1]} close=${close} />`}`;
}

/** The address with another cell, or none. */
function addressOf(more) {
  const { view, args, query } = route.value;
  return to(view, ...args, Object.fromEntries(Object.entries({ ...query, ...more }).filter(([, value]) => value)));
}

/** The row and column that the address names, if the table has them. */
function openedCell(table) {
  const [r, c] = (/^(\d{1,6})\.(\d{1,4})$/.exec(route.value.query.cell ?? "") ?? []).slice(1).map(Number);
  return c > 0 && table.rows[r]?.cells[c] ? [r, c] : null;
}

/** The cells; one of them is in the order of Tab, and arrow keys choose which. */
function Grid({ table, from, end, show, box }) {
  useLayoutEffect(() => {
    const first = box.current.querySelector("[data-cell]:not(th)") ?? box.current.querySelector("[data-cell]");
    for (const cell of box.current.querySelectorAll("[tabindex='0']")) cell.tabIndex = -1;
    if (first) first.tabIndex = 0;
    box.current.style.setProperty("--questions", table.columns.length - 1);
  }, [from, table.columns.length]);
  const cellOf = (event) => event.target.closest("[data-cell]");
  const open = (cell, event) => {
    const [r, c] = cell.dataset.cell.split(".").map(Number);
    if (c > 0 && r >= 0) show(r, c);
    else if (!event.target.closest("a")) cell.querySelector("a")?.click();
  };
  const pressed = (event) => {
    const cell = cellOf(event);
    if (!cell || event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      if (event.target.closest("a") && event.key === "Enter") return;
      event.preventDefault();
      return open(cell, event);
    }
    const to = moved(event, cell, from, end, table.columns.length);
    if (!to) return;
    event.preventDefault();
    reach(box.current, box.current.querySelector(`[data-cell="${to.join(".")}"]`));
  };
  const clicked = (event) => {
    const cell = cellOf(event);
    if (!cell || getSelection()?.toString()) return;
    if (!event.target.closest("a")) open(cell, event);
  };
  return html`<table role="grid" class="review" aria-label=${t("tables.grid")} aria-describedby="grid-keys" aria-rowcount=${table.total_rows + 1} aria-colcount=${table.columns.length}
    onKeyDown=${pressed} onClick=${clicked} onFocusIn=${(event) => cellOf(event) && choose(box.current, cellOf(event))}>
    <thead><tr role="row" aria-rowindex="1">${table.columns.map((column, c) => html`<th key=${c} role="columnheader" scope="col" tabindex="-1" data-cell=${`-1.${c}`}>
      <span class="clamped" lang=${c ? "" : null} dir="auto">${c ? column.title : columnName(column)}</span>${c > 0 && column.kind !== "text" && html` <span class="soft kind">${named(`tables.kind.${column.kind}`, column.kind)}</span>`}
    </th>`)}</tr></thead>
    <tbody>${table.rows.slice(from, end).map((row, i) => html`<${Row} key=${row.key} row=${row} r=${from + i} />`)}</tbody>
  </table>`;
}

function Row({ row, r }) {
  const name = row.section || fileName(row.path);
  const place = row.section ? row.path : row.path === name ? "" : row.path;
  const shown = html`<span class="clamped" dir="auto">${name}</span>`;
  return html`<tr role="row" aria-rowindex=${r + 2}>
    <th role="rowheader" scope="row" tabindex="-1" data-cell=${`${r}.0`}>
      ${row.document ? html`<a tabindex="-1" href=${to("document", row.document)}>${shown}</a>` : shown}
      ${place && html`<span class="soft clamped" dir="auto">${place}</span>`}
    </th>
    ${row.cells.slice(1).map((cell, c) => html`<td key=${c} role="gridcell" tabindex="-1" data-cell=${`${r}.${c + 1}`} class=${cell.state.replace(" ", "-")}>
      ${isUnread(cell) ? html`<span class="soft">${t("tables.unread")}</span>` : html`${cell.text && html`<span class="clamped" lang="" dir="auto">${cell.text}</span> `}<${State} cell=${cell} />`}
    </td>`)}
  </tr>`;
}

/** Where a key leads from a cell: [row, column], the row -1 being the head; null where the key moves nothing. */
function moved(event, cell, from, end, columns) {
  const [r, c] = cell.dataset.cell.split(".").map(Number);
  const at = r < 0 ? from - 1 : r; // the head stands above the first row that is shown
  const last = [end - 1, columns - 1];
  const within = (row, column) => [row < from ? -1 : Math.min(row, last[0]), Math.max(0, Math.min(column, last[1]))];
  if (event.key === "ArrowDown") return within(at + 1, c);
  if (event.key === "ArrowUp") return within(at - 1, c);
  if (event.key === "ArrowRight") return within(at, c + 1);
  if (event.key === "ArrowLeft") return within(at, c - 1);
  if (event.key === "PageDown") return within(at + PAGE_ROWS, c);
  if (event.key === "PageUp") return within(Math.max(from, at - PAGE_ROWS), c);
  if (event.key === "Home") return event.ctrlKey ? within(from, 0) : within(at, 0);
  if (event.key === "End") return event.ctrlKey ? last : within(at, last[1]);
  return null;
}

/** Make a cell the one that Tab reaches. */
function choose(box, cell) {
  for (const other of box.querySelectorAll("[tabindex='0']")) if (other !== cell) other.tabIndex = -1;
  cell.tabIndex = 0;
}

/** Go to a cell. */
function reach(box, cell) {
  if (!cell) return;
  choose(box, cell);
  cell.focus();
}

/** A cell with all its quotes, and what a person may do about it. The button calls `close` at once; after Escape the close event does, a task later. */
function CellDialog({ table, tableKey, r, c, close }) {
  const row = table.rows[r];
  const cell = row.cells[c];
  const box = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [text, setText] = useState(null); // of the correction that is being written
  useEffect(() => box.current.showModal(), []);
  const act = (work, said) => async () => {
    setBusy(true);
    setError(null);
    try {
      await work();
      setText(null);
      told.value = t(said);
      box.current?.querySelector("h2").focus();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  const again = async () => {
    const wasWhole = !table.rows.some((one) => one.cells.slice(1).some(isUnread));
    await reopen(tableKey, r, c);
    if (wasWhole) make("review", argumentsOf("review", route.value.query)); // reads this one cell
  };
  const decided = cell.state === "corrected" || cell.state === "approved";
  return html`<dialog ref=${box} class="cell" aria-labelledby="cell-title" onClose=${close}>
    <p class="offscreen" role="status">${told.value}</p>
    <header><h2 id="cell-title" tabindex="-1" autofocus lang="" dir="auto">${table.columns[c].title}</h2>
      <button type="button" class="quiet" onClick=${close} aria-label=${t("close")} title=${t("close")}>✕</button></header>
    <p class="soft" dir="auto">${row.document ? html`<a href=${to("document", row.document)}>${row.path}</a>` : row.path}${row.section && html` › <span dir="auto">${row.section}</span>`}</p>
    <p class="answer">${isUnread(cell) ? html`<span class="soft">${t("tables.unread")}</span>` : html`${cell.text && html`<strong lang="" dir="auto">${cell.text}</strong> `}<${State} cell=${cell} />`}</p>
    ${cell.note && html`<p class="soft" lang="en">${cell.note}</p>`}
    ${cell.citations.length > 0 && html`<h3>${t("tables.quotes", { n: cell.citations.length })}</h3>
      <ul class="quotes">${cell.citations.map((one) => html`<li key=${`${one.start}-${one.end}-${one.path}`}><${Quote} citation=${one} /></li>`)}</ul>`}
    ${error && html`<${Failure} error=${error} />`}
    ${!status.value?.read_only && html`<div class="decisions">
      ${text === null && html`<p class="choices">
        ${decided && html`<button type="button" disabled=${busy || making.value !== null} onClick=${act(again, "tables.reopened")}>${t("tables.reopen")}</button>`}
        <button type="button" disabled=${busy} onClick=${() => setText(cell.text)}>${t("tables.correct")}</button>
        ${cell.state !== "approved" && !isUnread(cell) && html`<button type="button" class="main" disabled=${busy} onClick=${act(() => decide(tableKey, r, c, null), "tables.approved")}>${t("tables.approve")}</button>`}
      </p>`}
      ${text !== null && html`<${Correction} text=${text} busy=${busy} cancel=${() => setText(null)} save=${(value) => act(() => decide(tableKey, r, c, value), "tables.corrected")()} />`}
    </div>`}
  </dialog>`;
}

/** The field for the right answer. */
function Correction({ text, busy, cancel, save }) {
  const [value, setValue] = useState(text);
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  const submit = (event) => {
    event.preventDefault();
    save(value);
  };
  const escaped = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the dialog stays
    event.stopPropagation();
    cancel();
  };
  return html`<form class="correction" onSubmit=${submit}>
    <label>${t("tables.correction")}<textarea ref=${field} rows="3" dir="auto" maxlength=${LONGEST} value=${value} onInput=${(event) => setValue(event.target.value)} onKeyDown=${escaped}></textarea></label>
    <p class="choices"><button type="button" disabled=${busy} onClick=${cancel}>${t("cancel")}</button><button type="submit" class="main" disabled=${busy}>${t("tables.save.cell")}</button></p>
  </form>`;
}
