// Two documents passage by passage: what each says, with the words that differ marked.

import { html, useMemo, useState } from "../vendor/preact.js";
import { number, t } from "../lib/i18n.js";
import { named, Quote, State, usePages } from "./cells.js";

const ROWS_PER_PAGE = 100;
const MOST_PAIRS = 1_000_000; // of words that are compared; of longer passages no words are marked
const WORD = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|\p{N}+(?:[.,:]\p{N}+)*|[\p{L}\p{N}]+|\s+|[^\p{L}\p{N}\s]/gu;

export function Compare({ found }) {
  const { table } = found;
  const kinds = useMemo(() => countKinds(table), [table]);
  const [hidden, setHidden] = useState([]);
  const rows = table.rows.filter((row) => !hidden.includes(row.cells[0].text));
  const [from, end, pages] = usePages(rows.length, ROWS_PER_PAGE);
  const toggle = (kind) => setHidden(hidden.includes(kind) ? hidden.filter((one) => one !== kind) : [...hidden, kind]);
  return html`<div class="kinds" role="group" aria-label=${t("tables.differences")}>${kinds.map(([kind, n, isListed]) => (isListed
    ? html`<button key=${kind} type="button" aria-pressed=${hidden.includes(kind) ? "false" : "true"} onClick=${() => toggle(kind)}>${kindName(kind)} <span class="count">${number(n)}</span></button>`
    : html`<span key=${kind} class="unlisted">${kindName(kind)} <span class="count">${number(n)}</span></span>`))}</div>
    <p class="offscreen" role="status">${t("tables.found", { n: rows.length })}</p>
    <ul class="differences">${rows.slice(from, end).map((row) => html`<li key=${row.key}><${Difference} row=${row} /></li>`)}</ul>
    ${pages}`;
}

const kindName = (kind) => named(`tables.difference.${kind}`, kind);

/** Each kind of difference with its number, and whether there are rows of it. */
function countKinds(table) {
  const counts = new Map();
  for (const row of table.rows) counts.set(row.cells[0].text, (counts.get(row.cells[0].text) ?? 0) + 1);
  const others = ["same"].filter((kind) => table.figures[kind] && !counts.has(kind)).map((kind) => [kind, table.figures[kind], false]);
  return [...[...counts].map(([kind, n]) => [kind, n, true]), ...others];
}

function Difference({ row }) {
  const [kind, first, second, what] = row.cells;
  const both = first.citations.length > 0 && second.citations.length > 0;
  const [before, after] = both ? markWords(first.text, second.text) : [null, null];
  return html`<p><strong class="kind">${kindName(kind.text)}</strong> ${what?.text && html`<span dir="auto" lang="">${what.text}</span> `}${what && html`<${State} cell=${what} />`}</p>
    <div class="sides"><${Side} label=${t("tables.first")} cell=${first} words=${before} /><${Side} label=${t("tables.second")} cell=${second} words=${after} /></div>`;
}

function Side({ label, cell, words }) {
  return html`<div class="side"><span class="offscreen">${label}: </span>${cell.citations.length > 0
    ? html`<${Quote} citation=${cell.citations[0]}>${words ?? cell.text}<//>` : html`<p class="soft">${t("tables.nothing")}</p>`}</div>`;
}

/** Two texts as pieces, in which words of the first alone are <del> and words of the second alone are <ins>. */
export function markWords(first, second) {
  const [a, b] = [first.match(WORD) ?? [], second.match(WORD) ?? []];
  const common = commonWords(a, b);
  if (!common) return [first, second];
  return [pieces(a, common[0], "del"), pieces(b, common[1], "ins")];
}

function pieces(words, isCommon, tag) {
  const found = [];
  for (let i = 0; i < words.length; ) {
    const begin = i;
    while (i < words.length && isCommon[i] === isCommon[begin]) i += 1;
    const text = words.slice(begin, i).join("");
    found.push(isCommon[begin] ? text : tag === "del" ? html`<del>${text}</del>` : html`<ins>${text}</ins>`);
  }
  return found;
}

/** For each word of both whether it belongs to the longest sequence that both have; null where they are too long. */
export function commonWords(a, b) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const [n, m] = [a.length - head - tail, b.length - head - tail];
  if (n * m > MOST_PAIRS) return null;
  const lengths = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1)); // of the sequences from i and j on
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[head + i] === b[head + j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const common = [new Array(a.length).fill(true), new Array(b.length).fill(true)];
  let [i, j] = [0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && a[head + i] === b[head + j]) [i, j] = [i + 1, j + 1];
    else if (j >= m || (i < n && lengths[i + 1][j] >= lengths[i][j + 1])) common[0][head + i++] = false;
    else common[1][head + j++] = false;
  }
  return common;
}
