// What is under a point: an entity that is drawn as a disc, else the innermost closed circle. Entities are found by a grid made once.

import { toWorld } from "./camera.js";
import { listed, NONE } from "./load.js";

const CELLS = 256;
const SLACK = 6; // pixels beside a disc that still count

/** The nodes by the cell of a grid that they lie in. */
export function makeGrid({ n, x, y, reach }) {
  const cell = (v) => Math.max(0, Math.min(CELLS - 1, (((v + reach) / (2 * reach)) * CELLS) | 0));
  const start = new Uint32Array(CELLS * CELLS + 1);
  const of = new Uint32Array(n);
  for (let i = 0; i < n; i++) {
    of[i] = cell(x[i]) + CELLS * cell(y[i]);
    start[of[i] + 1]++;
  }
  for (let i = 0; i < CELLS * CELLS; i++) start[i + 1] += start[i];
  const list = new Uint32Array(n);
  const at = start.slice();
  for (let i = 0; i < n; i++) list[at[of[i]]++] = i;
  return { start, list, cell };
}

/** {kind: "entity" | "community", number} at a point of the box, or null. `only`: nodes that are seen whatever circle they are in. */
export function pickAt(picture, grid, levels, camera, px, py, only = null) {
  const [wx, wy] = toWorld(camera, px, py);
  const node = nodeAt(picture, grid, levels, camera, wx, wy, only);
  if (node !== null) return { kind: "entity", number: node };
  const circle = circleAt(picture, levels, wx, wy);
  return circle === null ? null : { kind: "community", number: circle };
}

function nodeAt(picture, grid, levels, camera, wx, wy, only) {
  const { x, y, r, below } = picture;
  const slack = SLACK / camera.scale;
  const far = slack + 1.5; // no entity is larger
  let [best, nearest] = [null, Infinity];
  for (let row = grid.cell(wy - far); row <= grid.cell(wy + far); row++) {
    for (let column = grid.cell(wx - far); column <= grid.cell(wx + far); column++) {
      const k = column + CELLS * row;
      for (let j = grid.start[k]; j < grid.start[k + 1]; j++) {
        const i = grid.list[j];
        if (!(below[i] === NONE || levels.shown[below[i]] === 2 || only?.has(i))) continue;
        const d = Math.hypot(x[i] - wx, y[i] - wy) - r[i];
        if (d < slack && d < nearest) [best, nearest] = [i, d];
      }
    }
  }
  return best;
}

/** The innermost circle at a point, down to the first closed one. */
export function circleAt(picture, levels, wx, wy) {
  const { cx, cy, cr, children } = picture;
  const inside = (some) => some.find((i) => Math.hypot(cx[i] - wx, cy[i] - wy) <= cr[i]);
  let found = null;
  let at = inside(picture.roots);
  while (at !== undefined) {
    found = at;
    at = levels.open[at] ? inside(listed(children, at)) : undefined;
  }
  return found;
}
