// Names on the picture: the most important first, none over another, each with a halo so that it can be read on anything.

export const MOST = 60;
const CELL = 8; // pixels
const LONGEST = 28; // characters
const widths = new Map();

/** Places where no name stands yet. */
export function makeSpace(width, height) {
  const [columns, rows] = [Math.ceil(width / CELL), Math.ceil(height / CELL)];
  const taken = new Uint8Array(columns * rows);
  return (x, y, w, h) => {
    const [a, b] = [Math.floor(x / CELL), Math.floor((x + w) / CELL)];
    const [c, d] = [Math.floor(y / CELL), Math.floor((y + h) / CELL)];
    if (a < 0 || c < 0 || b >= columns || d >= rows) return false;
    for (let row = c; row <= d; row++) for (let column = a; column <= b; column++) if (taken[row * columns + column]) return false;
    for (let row = c; row <= d; row++) taken.fill(1, row * columns + a, row * columns + b + 1);
    return true;
  };
}

/** Draw candidates {text, more, x, y, bold, below} in their order while there is room. Returns those drawn. */
export function drawLabels(context, candidates, width, height, colours, ratio) {
  const free = makeSpace(width, height);
  const drawn = [];
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 3.5 * ratio;
  context.strokeStyle = colours.paper;
  for (const one of candidates) {
    if (drawn.length >= MOST) break;
    const text = one.text.length > LONGEST ? `${one.text.slice(0, LONGEST - 1).trimEnd()}…` : one.text;
    const px = (one.bold ? 13 : 12) * ratio;
    const font = `${one.bold ? 600 : 400} ${px}px system-ui, sans-serif`;
    context.font = font;
    const w = widthOf(context, font, text);
    const h = px * 1.25 * (one.more ? 2 : 1);
    const [x, y] = [one.x, one.below ? one.y + h / 2 + 2 * ratio : one.y];
    if (!free(x - w / 2 - 2, y - h / 2, w + 4, h)) continue;
    context.fillStyle = one.dim ? colours.soft : colours.ink;
    const first = one.more ? y - px * 0.6 : y;
    context.strokeText(text, x, first);
    context.fillText(text, x, first);
    if (one.more) {
      context.font = `400 ${11 * ratio}px system-ui, sans-serif`;
      context.fillStyle = colours.soft;
      context.strokeText(one.more, x, y + px * 0.6);
      context.fillText(one.more, x, y + px * 0.6);
    }
    drawn.push(one);
  }
  return drawn;
}

function widthOf(context, font, text) {
  const key = font + text;
  let found = widths.get(key);
  if (found === undefined) {
    if (widths.size > 5000) widths.clear();
    widths.set(key, (found = context.measureText(text).width));
  }
  return found;
}
