// Markdown of answers and reports as elements: headings, lists, tables, quotes, code, bold and italic. What it does not know stays text.
// Nothing is ever loaded or linked from a text: pictures and links are shown as text, a link with a button that copies it, also where
// the server has escaped their signs already.

import { html } from "../vendor/preact.js";
import { t } from "./i18n.js";
import { Copy } from "./parts.js";

const BULLET = /^([ \t]*)(?:[-*+]|(\d{1,9})[.)])[ \t]+/;
const HEADING = /^ {0,3}(#{1,6})\s+/;
const FENCE = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const DELIMITER = /^\s*:?-+:?\s*$/;
const INLINE = /(`+)(.+?)\1|(?:(!)\\?)?\[([^\][\\]*)\]\\?\(([^()\s]*)(?:\s+["'][^"']*["'])?\)|(https?:\/\/[^\s<>"'()&]+(?:&(?!lt;|gt;|quot;)[^\s<>"'()&]+)*(?<![.,;:!?]))|\[(unsupported|related|contradicted)\]|\\([!-/:-@[-`{-~])|&(lt|gt|amp|quot|nbsp);|(\*\*|__|\*|_)/gu;
const ESCAPED_MARK = /\\\[(\d+|unsupported|related|contradicted)\\\]/g; // text of a document, not a citation
const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', nbsp: "\u00a0" };
const MAX_DEPTH = 16; // of quotes and lists in each other
const MAX_TOKENS = 4000; // of a paragraph; signs of one that has more stay signs

/** A text, or segments of it ({text}, {n}: a citation's mark, or {draft}: a text not checked yet), as elements. `chip(n)` makes the element of a mark; `level` is the first heading's. */
export function Markdown({ text = "", segments = [{ text }], chip = () => null, level = 3 }) {
  return html`<div class="prose">${blocks(lines(segments), { chip, level })}</div>`;
}

/** Each line as its pieces: texts, and marks as objects. */
function lines(segments) {
  const found = [[]];
  for (const segment of segments) {
    if (segment.text === undefined) found.at(-1).push(segment);
    else
      segment.text.split("\n").forEach((part, i) => {
        if (i) found.push([]);
        if (part) found.at(-1).push(part);
      });
  }
  return found;
}

const head = (line) => (typeof line[0] === "string" ? line[0] : "");
const blank = (line) => line.every((piece) => typeof piece === "string" && !piece.trim());
const without = (line, length) => [line[0].slice(length), ...line.slice(1)].filter((piece) => piece !== "");
const begins = (line) => HEADING.test(head(line)) || BULLET.test(head(line)) || FENCE.test(head(line)) || head(line).startsWith(">");

function blocks(rows, how) {
  const made = [];
  let at = 0;
  const taken = (test) => {
    const from = at;
    while (at < rows.length && test(rows[at])) at += 1;
    return rows.slice(from, at);
  };
  const inner = { ...how, depth: (how.depth ?? 0) + 1, tight: false };
  const nests = inner.depth < MAX_DEPTH;
  while (at < rows.length) {
    const first = head(rows[at]);
    if (blank(rows[at])) at += 1;
    else if (FENCE.test(first)) made.push(fenced(rows, at, (end) => (at = end)));
    else if (HEADING.test(first)) {
      const [whole, signs] = HEADING.exec(first);
      made.push(heading(Math.min(6, how.level + signs.length - 1), inline(without(rows[at], whole.length), how)));
      at += 1;
    } else if (RULE.test(first) && rows[at].length === 1) {
      made.push(html`<hr />`);
      at += 1;
    } else if (BULLET.test(first) && nests) {
      const { end, element } = list(rows, at, inner);
      made.push(element);
      at = end;
    } else if (first.startsWith(">") && nests) {
      const inside = taken((line) => head(line).startsWith(">")).map((line) => without(line, /^>\s?/.exec(line[0])[0].length));
      made.push(html`<blockquote>${blocks(inside, inner)}</blockquote>`);
    } else if (startsTable(rows, at)) {
      const header = cells(rows[at]);
      const align = cells(rows[at + 1]).map((cell) => alignment(plain(cell).trim()));
      at += 2;
      const body = taken((line) => !blank(line) && !begins(line) && piped(line)).map(cells);
      made.push(table(header, align, body, how));
    } else {
      const [opening] = rows.slice(at, (at += 1));
      const rest = taken((line) => !blank(line) && !begins(line) && !startsTable(rows, at));
      const content = inline([opening, ...rest].flatMap((line, i) => (i ? [" ", ...line] : line)), how);
      made.push(how.tight ? content : html`<p>${content}</p>`);
    }
  }
  return made;
}

/** The code of a fence that begins at a line; it ends with a fence of the same sign, or with the text. */
function fenced(rows, at, ended) {
  const [, indent, signs] = FENCE.exec(head(rows[at]));
  const closes = (line) => {
    const text = line.length === 1 ? head(line).trim() : "";
    return text.length >= signs.length && text === signs[0].repeat(text.length);
  };
  const code = [];
  let end = at + 1;
  for (; end < rows.length && !closes(rows[end]); end += 1) {
    const line = plain(rows[end]);
    code.push(`${line.slice(Math.min(indent.length, line.length - line.trimStart().length))}\n`);
  }
  ended(end + 1);
  return html`<pre tabindex="0"><code>${code}</code></pre>`;
}

/** The list that begins at a line, and where it ends. Lines that are indented, or nested lists, belong to the item before. */
function list(rows, from, how) {
  const first = BULLET.exec(head(rows[from]));
  const depth = first[1].length;
  const items = [];
  let at = from;
  let loose = false;
  for (; at < rows.length; at += 1) {
    const line = rows[at];
    const item = items.at(-1);
    const bullet = BULLET.exec(head(line));
    const indent = blank(line) ? Infinity : head(line).length - head(line).trimStart().length;
    if (blank(line)) {
      let after = at + 1;
      while (after < rows.length && blank(rows[after])) after += 1;
      const next = rows[after];
      const goes = next && (BULLET.exec(head(next)) ? sameList(next, first, depth) || deeper(next, depth) : deeper(next, item.width - 1));
      if (!goes) break;
      loose = true;
      item.rows.push([]);
    } else if (bullet && (indent <= depth || !item)) {
      if (item && !sameList(line, first, depth)) break;
      items.push({ width: bullet[0].length, rows: [without(line, bullet[0].length)] });
    } else if (indent > depth && (bullet || indent >= item.width || FENCE.test(head(line)))) {
      item.rows.push(without(line, Math.min(indent, item.width)));
    } else if (!begins(line) && !blank(item.rows.at(-1))) item.rows.push(indent ? without(line, indent) : line);
    else break;
  }
  const made = items.map((item) => html`<li>${blocks(item.rows, { ...how, tight: !loose })}</li>`);
  return { end: at, element: first[2] === undefined ? html`<ul>${made}</ul>` : html`<ol start=${Number(first[2])}>${made}</ol>` };
}

const deeper = (line, depth) => head(line).length - head(line).trimStart().length > depth;
/** Whether a line begins an item of a list: at its depth, and numbered or not like its first. */
function sameList(line, first, depth) {
  const bullet = BULLET.exec(head(line));
  return bullet[1].length <= depth && (bullet[2] === undefined) === (first[2] === undefined);
}

const piped = (line) => line.some((piece) => typeof piece === "string" && piece.includes("|"));

/** Whether a line is the header of a table: the next one has dashes for each of its cells. */
function startsTable(rows, at) {
  const next = rows[at + 1];
  if (!piped(rows[at]) || !next || next.length !== 1 || !/^[\s|:-]+$/.test(head(next))) return false;
  const dashes = cells(next);
  return dashes.every((cell) => DELIMITER.test(plain(cell))) && dashes.length === cells(rows[at]).length;
}

/** The cells of a row, each as its pieces; what stands behind the last `|` belongs to the last cell. */
function cells(line) {
  const found = [[]];
  for (const piece of line) {
    if (typeof piece !== "string") found.at(-1).push(piece);
    else
      piece.split(/(?<!\\)\|/).forEach((part, i) => {
        if (i) found.push([]);
        if (part.trim()) found.at(-1).push(part.replaceAll("\\|", "|"));
      });
  }
  if (found.length > 1 && !found[0].length) found.shift();
  if (found.length > 1 && found.at(-1).every((piece) => typeof piece !== "string")) found.at(-2).push(...found.pop());
  return found.map((cell) => cell.map((piece, i) => {
    if (typeof piece !== "string") return piece;
    const start = i ? piece : piece.trimStart();
    return i < cell.length - 1 ? start : start.trimEnd();
  }));
}

const alignment = (dashes) => (dashes.endsWith(":") ? (dashes.startsWith(":") ? "center" : "end") : null);

function table(header, align, rows, how) {
  const row = (name, line) => html`<tr>${align.map((side, i) => {
    // What is too much for the header stays with the last cell.
    const content = inline(i < align.length - 1 ? (line[i] ?? []) : line.slice(i).flat(), how);
    return name === "th" ? html`<th scope="col" class=${side} dir="auto">${content}</th>` : html`<td class=${side} dir="auto">${content}</td>`;
  })}</tr>`;
  return html`<div class="table-scroll" tabindex="0" role="group" aria-label=${t("table")}><table class="grid">
    <thead>${row("th", header)}</thead><tbody>${rows.map((line) => row("td", line))}</tbody></table></div>`;
}

function heading(level, content) {
  if (level <= 2) return html`<h2>${content}</h2>`;
  if (level === 3) return html`<h3>${content}</h3>`;
  return level === 4 ? html`<h4>${content}</h4>` : html`<h5>${content}</h5>`;
}

/** The pieces of a paragraph as elements. */
function inline(pieces, how) {
  return closed(pieces.flatMap(tokens), how);
}

function tokens(piece) {
  if (typeof piece !== "string") return [piece];
  const found = [];
  let at = 0;
  for (const match of piece.matchAll(INLINE)) {
    const [whole, , code, picture, label, address, bare, state, escaped, entity, sign] = match;
    const before = piece[match.index - 1] ?? " ";
    const after = piece[match.index + whole.length] ?? " ";
    // A sign within a word (snake_case) or between spaces (3 * 4) is no emphasis.
    if (sign && (/[\p{L}\p{N}]/u.test(before) && /[\p{L}\p{N}]/u.test(after) ? sign[0] === "_" : /\s/.test(before) && /\s/.test(after))) continue;
    if (match.index > at) found.push(piece.slice(at, match.index));
    at = match.index + whole.length;
    if (code !== undefined) found.push({ code: code.replace(ESCAPED_MARK, "[$1]") });
    else if (picture) found.push(`[${label || address}]`);
    else if (address !== undefined) found.push({ label, address });
    else if (state) found.push({ state });
    else if (escaped) found.push(escaped);
    else if (entity) found.push(ENTITIES[entity]);
    else if (bare) found.push({ label: "", address: bare });
    else found.push({ sign, opens: !/\s/.test(after), closes: !/\s/.test(before) });
  }
  if (at < piece.length) found.push(piece.slice(at));
  return found;
}

/** Tokens with bold and italic put around what they enclose; a sign without its partner stays as it is. */
function closed(all, how) {
  const made = [];
  for (let i = 0; i < all.length; i += 1) {
    const token = all[i];
    if (typeof token === "string") made.push(token);
    else if (token.n !== undefined) made.push(how.chip(token.n));
    else if (token.draft !== undefined) made.push(html`<span class="draft" aria-hidden="true">${token.draft}</span>`);
    else if (token.state) made.push(html`<span class=${`mark ${token.state}`} title=${t(`ask.${token.state}.why`)}>${t(`ask.${token.state}.mark`)}</span>`);
    else if (token.code !== undefined) made.push(html`<code>${token.code}</code>`);
    else if (token.address !== undefined) made.push(html`<${Link} ...${token} />`);
    else {
      const end = token.opens && all.length < MAX_TOKENS ? all.findIndex((other, j) => j > i + 1 && other.sign === token.sign && other.closes) : -1;
      if (end < 0) made.push(token.sign);
      else {
        const inside = closed(all.slice(i + 1, end), how);
        made.push(token.sign.length === 2 ? html`<strong>${inside}</strong>` : html`<em>${inside}</em>`);
        i = end;
      }
    }
  }
  return made;
}

/** An address in a text: shown, and copied on demand, for following it would tell another computer about it. */
function Link({ label, address }) {
  return html`<span class="address">${label && label !== address ? `${label} (${address})` : address} <${Copy} text=${address} label=${t("copy")} small /></span>`;
}

const plain = (line) => line.map((piece) => (typeof piece === "string" ? piece : (piece.n ? `[${piece.n}]` : piece.draft))).join("");
