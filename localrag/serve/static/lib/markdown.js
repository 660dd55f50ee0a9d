// Markdown of answers and reports as elements: headings, lists, quotes, code, bold and italic. What it does not know stays text.
// Nothing is ever loaded or linked from a text: pictures and links are shown as text, a link with a button that copies it.

import { html } from "../vendor/preact.js";
import { t } from "./i18n.js";
import { Copy } from "./parts.js";

const BULLET = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+/;
const HEADING = /^(#{1,6})\s+/;
const FENCE = /^\s*(```|~~~)/;
const INLINE = /(`+)(.+?)\1|(!?)\[([^\][]*)\]\(([^()\s]*)\)|(https?:\/\/[^\s<>"'()]+[^\s<>"'().,;:!?])|\[(unsupported|related|contradicted)\]|\\([[\]])|(\*\*|__|\*|_)/gu;

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
  while (at < rows.length) {
    const first = head(rows[at]);
    if (blank(rows[at])) at += 1;
    else if (FENCE.test(first)) {
      at += 1;
      const inside = taken((line) => !FENCE.test(head(line)));
      at += 1;
      made.push(html`<pre tabindex="0"><code>${inside.map((line) => `${plain(line)}\n`)}</code></pre>`);
    } else if (HEADING.test(first)) {
      const [whole, signs] = HEADING.exec(first);
      made.push(heading(Math.min(6, how.level + signs.length - 1), inline(without(rows[at], whole.length), how)));
      at += 1;
    } else if (BULLET.test(first)) {
      made.push(list(taken((line) => !blank(line) && !HEADING.test(head(line)) && !FENCE.test(head(line))), how));
    } else if (first.startsWith(">")) {
      const inside = taken((line) => head(line).startsWith(">")).map((line) => without(line, /^>\s?/.exec(line[0])[0].length));
      made.push(html`<blockquote>${blocks(inside, how)}</blockquote>`);
    } else {
      const [opening] = rows.slice(at, (at += 1));
      const rest = taken((line) => !blank(line) && !begins(line));
      made.push(html`<p>${inline([opening, ...rest].flatMap((line, i) => (i ? [" ", ...line] : line)), how)}</p>`);
    }
  }
  return made;
}

/** A list; lines that are indented deeper than the first are lists of its items, lines without a bullet go on with the item before. */
function list(rows, how) {
  const depth = BULLET.exec(head(rows[0]))[1].length;
  const first = BULLET.exec(head(rows[0]))[2];
  const items = [];
  for (const row of rows) {
    const bullet = BULLET.exec(head(row));
    if (bullet && (bullet[1].length <= depth || !items.length)) items.push({ line: without(row, bullet[0].length), below: [] });
    else if (bullet || items.at(-1).below.length) items.at(-1).below.push(row);
    else items.at(-1).line.push(" ", ...row);
  }
  const made = items.map(({ line, below }) => html`<li>${inline(line, how)}${below.length > 0 && blocks(below, how)}</li>`);
  return first === undefined ? html`<ul>${made}</ul>` : html`<ol start=${Number(first)}>${made}</ol>`;
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
    const [whole, , code, picture, label, address, bare, state, escaped, sign] = match;
    const before = piece[match.index - 1] ?? " ";
    const after = piece[match.index + whole.length] ?? " ";
    // A sign within a word (snake_case) or between spaces (3 * 4) is no emphasis.
    if (sign && (/[\p{L}\p{N}]/u.test(before) && /[\p{L}\p{N}]/u.test(after) ? sign[0] === "_" : /\s/.test(before) && /\s/.test(after))) continue;
    if (match.index > at) found.push(piece.slice(at, match.index));
    at = match.index + whole.length;
    if (code !== undefined) found.push({ code });
    else if (picture) found.push(`[${label || address}]`);
    else if (address !== undefined) found.push({ label, address });
    else if (state) found.push({ state });
    else if (escaped) found.push(escaped);
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
      const end = token.opens ? all.findIndex((other, j) => j > i + 1 && other.sign === token.sign && other.closes) : -1;
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
