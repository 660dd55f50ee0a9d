// The graph's picture as typed arrays over the bytes that the server sent; nothing is copied.

import { bytes } from "../lib/api.js";

export const NONE = 0xffffffff;
const HEADER = 12;
const MARK = 0x3147524c;
const HUES = 12;
let held = null;

/** The picture of the graph there is now; the one that is held where it is still that. */
export async function load(signal) {
  const { data, headers } = await bytes("/api/graph.bin", signal);
  if (!held || held.tag !== headers.get("x-graph")) held = read(data);
  return held;
}

/** Read the block: nodes, relationships, communities and links as columns, with what follows from them. */
export function read(data) {
  const [mark, version, n, e, c, l, atNodes, atEdges, atCircles, atLinks, end, rest] = new Uint32Array(data, 0, HEADER);
  if (mark !== MARK || version !== 1) throw new Error("This is no picture of a graph.");
  const columns = (at, ...kinds) => kinds.map(([Kind, length]) => {
    const found = new Kind(data, at, length);
    at += length * 4;
    return found;
  });
  const [F, U] = [Float32Array, Uint32Array];
  const [x, y, r, below, type] = columns(atNodes, [F, n], [F, n], [F, n], [U, n], [U, n]);
  const [ends, weight] = columns(atEdges, [U, 2 * e], [F, e]);
  const [cx, cy, cr, level, above, size] = columns(atCircles, [F, c], [F, c], [F, c], [U, c], [U, c], [U, c]);
  const [linkEnds, linkWeight] = columns(atLinks, [U, 2 * l], [F, l]);
  const { graph, types } = JSON.parse(new TextDecoder().decode(new Uint8Array(data, end, rest)));
  const picture = { tag: graph, types, n, e, c, l, x, y, r, below, type, ends, weight, cx, cy, cr, level, above, size, linkEnds, linkWeight };
  const topOf = tops(above);
  const hueOf = new Uint8Array(n);
  for (let i = 0; i < n; i++) hueOf[i] = below[i] === NONE ? 0 : topOf[below[i]] % HUES;
  const hasLoose = below.includes(NONE);
  const roots = [];
  for (let i = 0; i < c; i++) if (above[i] === NONE) roots.push(i);
  return Object.assign(picture, { hasLoose, topOf, hueOf, roots, children: lists(above, c), members: lists(below, c), reach: reach(picture) });
}

/** The relationships of every node: `start[i]` to `start[i + 1]` in `edge`, heaviest first. Made when first asked for. */
export function neighbours(picture) {
  if (picture.near) return picture.near;
  const start = new Uint32Array(picture.n + 1);
  for (const end of picture.ends) start[end + 1]++;
  for (let i = 0; i < picture.n; i++) start[i + 1] += start[i];
  const edge = new Uint32Array(picture.ends.length);
  const at = start.slice();
  for (let j = 0; j < picture.e; j++) {
    edge[at[picture.ends[2 * j]]++] = j;
    edge[at[picture.ends[2 * j + 1]]++] = j;
  }
  return (picture.near = { start, edge });
}

/** What a node is related to: [{node, edge}], heaviest first. */
export function relatedTo(picture, node) {
  const { start, edge } = neighbours(picture);
  const found = [];
  for (let k = start[node]; k < start[node + 1]; k++) {
    const j = edge[k];
    const [a, b] = [picture.ends[2 * j], picture.ends[2 * j + 1]];
    found.push({ node: a === node ? b : a, edge: j });
  }
  return found;
}

/** The numbers in a list made by `lists`. */
export const listed = ({ start, list }, i) => list.subarray(start[i], start[i + 1]);

/** For each of `length` owners the numbers that it owns, in order. */
function lists(owner, length) {
  const start = new Uint32Array(length + 1);
  for (const i of owner) if (i !== NONE) start[i + 1]++;
  for (let i = 0; i < length; i++) start[i + 1] += start[i];
  const list = new Uint32Array(start[length]);
  const at = start.slice();
  for (let i = 0; i < owner.length; i++) if (owner[i] !== NONE) list[at[owner[i]]++] = i;
  return { start, list };
}

/** The topmost circle around each; those above have lower numbers. What is a circle of its own is counted as a hue. */
function tops(above) {
  const found = new Uint32Array(above.length);
  let count = 0;
  for (let i = 0; i < above.length; i++) found[i] = above[i] === NONE ? count++ : found[above[i]];
  return found;
}

function reach({ n, x, y, r, c, cx, cy, cr }) {
  let most = 1;
  for (let i = 0; i < c; i++) most = Math.max(most, Math.hypot(cx[i], cy[i]) + cr[i]);
  for (let i = 0; i < n; i++) most = Math.max(most, Math.abs(x[i]) + r[i], Math.abs(y[i]) + r[i]);
  return most;
}
