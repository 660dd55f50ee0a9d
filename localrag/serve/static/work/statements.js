// Lists, each item with the statements that show it.

import { html } from "../vendor/preact.js";
import { t } from "../lib/i18n.js";
import { columnName, Quote, State, usePages } from "./cells.js";

const ROWS_PER_PAGE = 100;

export function List({ found }) {
  const { table } = found;
  const [from, end, pages] = usePages(table.rows.length, ROWS_PER_PAGE);
  return html`${table.figures.candidates ? "" : html`<p class="items-count"><strong>${t("tables.items", { n: table.total_rows })}</strong></p>`}
    <ol class="items" start=${from + 1}>${table.rows.slice(from, end).map((row, i) => html`<li key=${from + i}><${Item} row=${row} columns=${table.columns} /></li>`)}</ol>${pages}`;
}

/** The first cell names the item; quotes of all cells are shown, the first one at once. */
function Item({ row, columns }) {
  const [name, ...others] = row.cells;
  const quotes = [...new Map(row.cells.flatMap((cell) => cell.citations).map((one) => [one.n, one])).values()];
  const facts = others.map((cell, c) => [columns[c + 1], cell]).filter(([, cell]) => cell.text && cell.citations.length === 0); // others are their quotes
  const [first, ...rest] = quotes;
  return html`<p><strong dir="auto" lang="">${name.text}</strong> <${State} cell=${name} /></p>
    ${facts.length > 0 && html`<dl class="facts">${facts.map(([column, cell]) => html`<div key=${column.title}><dt>${columnName(column)}</dt><dd dir="auto" lang="">${cell.text}</dd></div>`)}</dl>`}
    ${first && html`<${Quote} citation=${first} />`}
    ${rest.length > 0 && html`<details><summary>${t("tables.more", { n: rest.length })}</summary><ul class="quotes">${rest.map((one) => html`<li key=${one.n}><${Quote} citation=${one} /></li>`)}</ul></details>`}`;
}
