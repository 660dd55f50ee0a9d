// A timeline: a picture of the dates above the table that says the same to everyone. Dates are written in EDTF: 1974-03, 196X, 1850~, ../1900.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { language, t } from "../lib/i18n.js";
import { columnName, Quote, State, usePages } from "./cells.js";

const DAY = 86_400_000; // milliseconds
const ROWS_PER_PAGE = 200;
const [LANE, MOST_LANES, MARGIN, FOOT] = [16, 14, 12, 26]; // pixels, a number, pixels
const STEPS = [[1, "day"], [7, "day"], [1, "month"], [3, "month"], ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].map((n) => [n, "year"])];
const LENGTHS = { day: 1, month: 30.44, year: 365.2425 };

export function Timeline({ found }) {
  const { table } = found;
  const [from, end, pages] = usePages(table.rows.length, ROWS_PER_PAGE);
  const [at, setAt] = useState(-1); // the row that the mouse is on
  return html`<${Picture} rows=${table.rows} at=${at} />
    <div class="table-scroll" tabindex="0" role="region" aria-label=${t("table")}><table class="dates">
      <thead><tr>${table.columns.map((column) => html`<th key=${column.title} scope="col">${columnName(column)}</th>`)}</tr></thead>
      <tbody>${table.rows.slice(from, end).map((row, i) => html`<tr key=${row.key} id=${`date-${from + i}`} onMouseEnter=${() => setAt(from + i)} onMouseLeave=${() => setAt(-1)}>
        ${row.cells.map((cell, c) => (c === 0 ? html`<th key=${c} scope="row" dir="auto">${cell.text}</th>` : html`<td key=${c}><${What} cell=${cell} /></td>`))}
      </tr>`)}</tbody>
    </table></div>
    ${pages}`;
}

function What({ cell }) {
  if (cell.citations.length === 0) return html`<span class="soft" dir="auto">${cell.text}</span>`;
  const [first, ...others] = cell.citations;
  return html`<${Quote} citation=${first} /><${State} cell=${cell} />
    ${others.length > 0 && html`<details><summary>${t("tables.more", { n: others.length })}</summary><ul class="quotes">${others.map((one) => html`<li key=${`${one.path}-${one.start}`}><${Quote} citation=${one} /></li>`)}</ul></details>`}`;
}

/** The dates on an axis, drawn as wide as there is room. The table below says the same, so screen readers pass it by. */
function Picture({ rows, at }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return html`<div class="timeline-picture" aria-hidden="true" ref=${box}>${width > 0 && html`<${Drawing} rows=${rows} width=${width} at=${at} />`}</div>`;
}

function Drawing({ rows, width, at }) {
  const dates = rows.map((row, r) => ({ r, title: `${row.cells[0].text}: ${row.cells[1]?.text ?? ""}`, ...parseDates(row.cells[0].value) })).filter((one) => one.first !== undefined);
  if (dates.length === 0) return null;
  const first = Math.min(...dates.map((one) => one.first));
  const last = Math.max(...dates.map((one) => one.last), first + DAY);
  const scale = (width - 2 * MARGIN) / (last - first);
  const x = (time) => MARGIN + (time - first) * scale;
  const marks = inLanes(dates.map((one) => ({ ...one, x: x(one.first), width: Math.max(7, (one.last - one.first) * scale) })));
  const height = (1 + Math.max(...marks.map((mark) => mark.lane))) * LANE + FOOT;
  const show = (r) => document.getElementById(`date-${r}`)?.scrollIntoView({ block: "center" });
  const isUncertain = dates.some((one) => one.isAbout || one.isOpen);
  return html`<svg width=${width} height=${height}>
    ${ticks(first, last, width).map(({ time, text }) => html`<g key=${time}><line class="tick" x1=${x(time)} x2=${x(time)} y1="0" y2=${height - FOOT + 4} />
      <text x=${x(time)} y=${height - 6} text-anchor=${x(time) > width - 40 ? "end" : x(time) < 40 ? "start" : "middle"}>${text}</text></g>`)}
    <line class="axis" x1="0" x2=${width} y1=${height - FOOT + 2} y2=${height - FOOT + 2} />
    ${marks.map((mark) => html`<rect key=${mark.r} class=${["date", mark.isAbout && "about", mark.isOpen && "open", mark.r === at && "at"].filter(Boolean).join(" ")}
      x=${mark.x} y=${mark.lane * LANE + 3} width=${mark.width} height=${LANE - 6} rx="3" onClick=${() => show(mark.r)}><title>${mark.title}</title></rect>`)}
  </svg>${isUncertain && html`<p class="soft">${t("tables.uncertain")}</p>`}`;
}

/** Marks with the first lane in which they do not cover another one; the last lane takes what is left. */
function inLanes(marks) {
  const ends = [];
  return marks.sort((a, b) => a.x - b.x).map((mark) => {
    let lane = ends.findIndex((end) => end + 2 < mark.x);
    if (lane < 0) lane = Math.min(ends.length, MOST_LANES - 1);
    ends[lane] = Math.max(ends[lane] ?? 0, mark.x + mark.width);
    return { ...mark, lane };
  });
}

/** The times of the axis that have a line, and their names. */
function ticks(first, last, width) {
  const most = Math.max(2, Math.floor(width / 90));
  const days = (last - first) / DAY;
  const [n, unit] = STEPS.find(([count, name]) => days / (count * LENGTHS[name]) <= most) ?? STEPS.at(-1);
  const found = [];
  const start = new Date(first);
  const [year, month, day] = [start.getUTCFullYear(), start.getUTCMonth(), start.getUTCDate()];
  for (let i = 0; i <= most + 2; i += 1) {
    const time = unit === "day" ? utc(year, month, day + i * n) : unit === "month" ? utc(year, (Math.floor(month / n) + i) * n, 1) : utc((Math.floor(year / n) + i) * n, 0, 1);
    if (time >= first && time <= last) found.push({ time, text: dateName(time, unit) });
  }
  return found;
}

function dateName(time, unit) {
  const era = new Date(time).getUTCFullYear() < 1 ? { era: "short" } : {};
  const options = { day: { day: "numeric", month: "short", year: "numeric" }, month: { month: "short", year: "numeric" }, year: { year: "numeric" } }[unit];
  return new Intl.DateTimeFormat(language.value, { ...options, ...era, timeZone: "UTC" }).format(time);
}

/** {first, last, isAbout, isOpen} in milliseconds of what EDTF writes; nothing for what is no date. An open end has the known end's time. */
export function parseDates(text) {
  const ends = String(text ?? "").split("/");
  if (ends.length > 2) return {};
  const [a, b] = [ends[0], ends.at(-1)].map(oneDate);
  const [from, to] = [a ?? b, b ?? a];
  if (!from) return {};
  return { first: from.first, last: Math.max(from.first, to.last), isAbout: ends.some((end) => end.includes("~")), isOpen: ends.length === 2 && (!a || !b) };
}

function oneDate(text) {
  const [, sign, digits, month, day] = /^(-?)(\d{4}|\d{3}X|\d{2}XX)(?:-(\d\d))?(?:-(\d\d))?~?$/.exec(text) ?? [];
  if (!digits) return null;
  const year = Number(digits.replaceAll("X", "0")) * (sign ? -1 : 1);
  const years = 10 ** (digits.split("X").length - 1);
  if (!month) return { first: utc(year, 0, 1), last: utc(year + years, 0, 1) };
  const m = Number(month);
  if (day) return { first: utc(year, m - 1, Number(day)), last: utc(year, m - 1, Number(day) + 1) };
  const at = m > 32 ? 3 * (m - 33) : m === 24 ? -1 : m > 20 ? 3 * (m - 20) - 1 : m - 1; // quarters and seasons; winter begins in December
  return { first: utc(year, at, 1), last: utc(year, at + (m > 12 ? 3 : 1), 1) };
}

function utc(year, month, day) {
  const date = new Date(0);
  date.setUTCFullYear(year, month, day); // Date.UTC takes the years 0 to 99 for those after 1900
  return date.getTime();
}
