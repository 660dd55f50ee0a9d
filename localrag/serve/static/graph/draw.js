// One picture on a canvas that the processor draws: every entity as a pixel, then circles, links, edges, discs and names.

import { listed, NONE } from "./load.js";
import { reachable } from "./lod.js";
import { drawLabels } from "./labels.js";

export const MOST_DISCS = 3000;
export const MOST_EDGES = 6000;
export const FADE = 120; // milliseconds
const FULL = 2 * Math.PI;
const HUES = 12;
let image = null;

/** Colours of the page's theme: of paper, ink and accent, and the hues of communities, as CSS and as pixels. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const dark = style.colorScheme.includes("dark");
  const paper = of("--paper");
  const hues = Array.from({ length: HUES }, (_, i) => rgb((i * 137.5) % 360, dark ? 0.55 : 0.6, dark ? 0.62 : 0.42));
  const ground = hex(paper);
  const dimmed = hues.map((one) => one.map((v, k) => Math.round(ground[k] + (v - ground[k]) * 0.22)));
  return {
    dark, paper, ink: of("--ink"), soft: of("--soft"), accent: of("--accent"), ground: pixel(ground),
    css: hues.map(([r, g, b]) => `rgb(${r} ${g} ${b})`), pixels: Uint32Array.from(hues, pixel),
    dimCss: dimmed.map(([r, g, b]) => `rgb(${r} ${g} ${b})`), dimPixels: Uint32Array.from(dimmed, pixel),
  };
}

/** Draw. `scene` has picture, camera, levels, colours, lit (a Set of nodes that stand out, or null), litEdges, cursor, names, now.
 * Returns {shown, total, wanted}: names drawn, names there would be, and what has no name yet. */
export function draw(context, scene, ratio) {
  const { canvas } = context;
  const { camera, picture } = scene;
  const view = { s: camera.scale * ratio, ox: canvas.width / 2 - camera.x * camera.scale * ratio,
    oy: canvas.height / 2 - camera.y * camera.scale * ratio, w: canvas.width, h: canvas.height, ratio };
  splat(context, scene, view);
  if (!scene.lit) links(context, scene, view);
  circles(context, scene, view);
  const discs = discsOf(scene, view);
  edges(context, scene, view);
  drawDiscs(context, scene, view, discs.list);
  if (scene.cursor) ring(context, scene, view);
  return names(context, scene, view, discs, picture);
}

function splat(context, { picture, colours, lit }, { s, ox, oy, w, h, ratio }) {
  if (!image || image.width !== w || image.height !== h) image = context.createImageData(w, h);
  const pixels = new Uint32Array(image.data.buffer);
  pixels.fill(colours.ground);
  const { n, x, y, hueOf } = picture;
  const paint = lit ? colours.dimPixels : colours.pixels;
  const wide = ratio > 1;
  for (let i = n - 1; i >= 0; i--) {
    const px = (x[i] * s + ox) | 0;
    const py = (y[i] * s + oy) | 0;
    if (px <= 0 || py <= 0 || px >= w - 2 || py >= h - 2) continue;
    const at = py * w + px;
    const colour = paint[hueOf[i]];
    pixels[at] = colour;
    if (wide) pixels[at + 1] = pixels[at + w] = pixels[at + w + 1] = colour;
  }
  context.putImageData(image, 0, 0);
}

function circles(context, { picture, levels, colours, lit, now, still }, { s, ox, oy, ratio }) {
  const { cx, cy, cr, topOf } = picture;
  const css = lit ? colours.dimCss : colours.css;
  const circle = (i, fill, stroke) => {
    context.beginPath();
    context.arc(cx[i] * s + ox, cy[i] * s + oy, cr[i] * s, 0, FULL);
    if (fill > 0.005) {
      context.globalAlpha = fill;
      context.fill();
    }
    context.globalAlpha = stroke;
    context.stroke();
  };
  const age = (i) => (still ? 1 : Math.min(1, (now - levels.changed[i]) / FADE));
  context.lineWidth = ratio;
  for (const i of levels.opened) {
    context.strokeStyle = context.fillStyle = css[topOf[i] % HUES];
    circle(i, 0.14 * (1 - age(i)), 0.35 + 0.4 * (1 - age(i)));
  }
  for (const i of levels.closed) {
    context.strokeStyle = context.fillStyle = css[topOf[i] % HUES];
    if (cr[i] * s > 4) circle(i, 0.14 * age(i), 0.35 + 0.4 * age(i));
  }
  context.globalAlpha = 1;
}

/** Links between circles that are both seen, of which not both are open. */
function links(context, { picture, levels, colours }, { s, ox, oy, ratio }) {
  const { l, linkEnds, linkWeight, cx, cy, cr } = picture;
  const { open, shown } = levels;
  context.strokeStyle = colours.ink;
  let count = 0;
  for (let j = 0; j < l && count < 250; j++) {
    const [a, b] = [linkEnds[2 * j], linkEnds[2 * j + 1]];
    if (shown[a] !== 1 && shown[b] !== 1) continue;
    if ((open[a] && open[b]) || !reachable(levels, picture, a) || !reachable(levels, picture, b)) continue;
    const [dx, dy] = [cx[b] - cx[a], cy[b] - cy[a]];
    const far = Math.hypot(dx, dy);
    if (cr[a] * s < 10 || cr[b] * s < 10 || far === 0) continue;
    context.lineWidth = Math.min(5, 0.6 + Math.log2(1 + linkWeight[j]) * 0.4) * ratio;
    context.globalAlpha = 0.13;
    context.beginPath();
    context.moveTo((cx[a] + (dx / far) * cr[a]) * s + ox, (cy[a] + (dy / far) * cr[a]) * s + oy);
    context.lineTo((cx[b] - (dx / far) * cr[b]) * s + ox, (cy[b] - (dy / far) * cr[b]) * s + oy);
    context.stroke();
    count++;
  }
  context.globalAlpha = 1;
}

/** The nodes in view that are drawn as discs, those of the highest rank first: {list, total}. */
function discsOf({ picture, levels, lit }, { s, ox, oy, w, h }) {
  const { x, y, r, below, members, n } = picture;
  const inView = (i) => {
    const [px, py, pr] = [x[i] * s + ox, y[i] * s + oy, r[i] * s];
    return px > -pr && py > -pr && px < w + pr && py < h + pr;
  };
  const list = [];
  for (const leaf of levels.leaves) for (const i of listed(members, leaf)) if (inView(i)) list.push(i);
  if (!picture.c || picture.hasLoose) for (let i = 0; i < n; i++) if (below[i] === NONE && r[i] * s > 2 && inView(i)) list.push(i);
  if (lit) for (const i of lit) if (inView(i) && !(below[i] !== NONE && levels.shown[below[i]] === 2)) list.push(i);
  list.sort((a, b) => a - b);
  return { list: list.slice(0, MOST_DISCS), total: list.length };
}

function edges(context, { picture, levels, colours, lit, litEdges }, { s, ox, oy, ratio }) {
  const { e, ends, x, y, below } = picture;
  const line = (j) => {
    const [a, b] = [ends[2 * j], ends[2 * j + 1]];
    context.moveTo(x[a] * s + ox, y[a] * s + oy);
    context.lineTo(x[b] * s + ox, y[b] * s + oy);
  };
  if (levels.leaves.length && !lit) {
    context.strokeStyle = colours.ink;
    context.globalAlpha = 0.16;
    context.lineWidth = ratio;
    context.beginPath();
    const { shown } = levels;
    let count = 0;
    for (let j = 0; j < e && count < MOST_EDGES; j++) {
      const [a, b] = [below[ends[2 * j]], below[ends[2 * j + 1]]];
      if (shown[a] !== 2 || shown[b] !== 2) continue;
      line(j);
      count++;
    }
    context.stroke();
  }
  if (litEdges) {
    context.strokeStyle = colours.accent;
    context.globalAlpha = 0.7;
    context.lineWidth = 1.6 * ratio;
    context.beginPath();
    for (const j of litEdges.slice(0, MOST_EDGES)) line(j);
    context.stroke();
  }
  context.globalAlpha = 1;
}

function drawDiscs(context, { picture, colours, lit }, { s, ox, oy, ratio }, list) {
  const { x, y, r, hueOf } = picture;
  for (const bright of lit ? [false, true] : [true]) {
    const css = bright ? colours.css : colours.dimCss;
    for (let hue = 0; hue < HUES; hue++) {
      context.fillStyle = css[hue];
      context.beginPath();
      for (const i of list) {
        if (hueOf[i] !== hue || (lit && lit.has(i) !== bright)) continue;
        const radius = Math.max(lit && bright ? 4 * ratio : 1.5 * ratio, r[i] * s);
        const [px, py] = [x[i] * s + ox, y[i] * s + oy];
        context.moveTo(px + radius, py);
        context.arc(px, py, radius, 0, FULL);
      }
      context.fill();
    }
  }
}

/** Around what the keys are at. */
function ring(context, { picture, cursor, colours }, { s, ox, oy, ratio }) {
  const own = cursor.kind === "entity";
  const [x, y, r] = own ? [picture.x, picture.y, picture.r] : [picture.cx, picture.cy, picture.cr];
  context.strokeStyle = colours.accent;
  context.lineWidth = 3 * ratio;
  context.beginPath();
  context.arc(x[cursor.number] * s + ox, y[cursor.number] * s + oy, Math.max(6 * ratio, r[cursor.number] * s + 2 * ratio), 0, FULL);
  context.stroke();
}

function names(context, { picture, levels, colours, lit, known, cursor, saying }, { s, ox, oy, w, h, ratio }, discs) {
  const { x, y, r, cx, cy, cr, size } = picture;
  const wanted = { entity: [], community: [] };
  const candidates = [];
  const add = (kind, number, place) => {
    const text = known(kind, number);
    if (text === undefined) wanted[kind].length < 500 && wanted[kind].push(number);
    else if (text) candidates.push({ text, kind, number, ...place });
  };
  const node = (i, bold) => {
    const radius = Math.max(2 * ratio, r[i] * s);
    const within = radius > 30 * ratio;
    add("entity", i, { x: x[i] * s + ox, y: y[i] * s + oy + (within ? 0 : radius), below: !within, bold, dim: Boolean(lit) && !lit.has(i) });
  };
  const readable = levels.closed.filter((i) => cr[i] * s >= 16 * ratio && inside(cx[i] * s + ox, cy[i] * s + oy, w, h));
  readable.sort((a, b) => cr[b] - cr[a]);
  if (cursor?.kind === "entity") node(cursor.number, true);
  if (lit) for (const i of discs.list) if (lit.has(i)) node(i, true);
  const circle = (i) => add("community", i, { x: cx[i] * s + ox, y: cy[i] * s + oy, more: saying(size[i]), bold: true, dim: Boolean(lit) });
  for (const i of readable.slice(0, 200)) circle(i);
  const left = lit ? discs.list.filter((i) => !lit.has(i)) : discs.list;
  for (const i of left.slice(0, 300)) if (i !== cursor?.number || cursor.kind !== "entity") node(i, false);
  const drawn = drawLabels(context, candidates, w, h, colours, ratio);
  return { shown: drawn.length, total: readable.length + discs.total, wanted, drawn };
}

const inside = (x, y, w, h) => x > 0 && y > 0 && x < w && y < h;

function rgb(hue, saturation, light) {
  const a = saturation * Math.min(light, 1 - light);
  const one = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [one(0), one(8), one(4)];
}

const hex = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
const pixel = ([r, g, b]) => (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
