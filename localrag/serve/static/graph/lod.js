// Which circles are open. One opens when it is large on screen and closes when it is small again; between the two it stays as it is.

import { listed } from "./load.js";

export const OPENS = 90; // pixels of radius
export const CLOSES = 60;
const LEAST = 2.5; // pixels: a smaller circle is its members' pixels alone

/** What is open of a picture, nothing at first. `changed` is when a circle last opened or closed, for fading. */
export function makeLevels(picture) {
  return {
    open: new Uint8Array(picture.c),
    changed: new Float64Array(picture.c).fill(-1e9),
    shown: new Uint8Array(picture.c), // 1: seen closed, 2: seen open, its entities are drawn
    closed: [],
    opened: [],
    leaves: [],
  };
}

/** Open and close circles for what the camera sees. Returns whether anything changed. */
export function update(levels, picture, camera, now) {
  const { cx, cy, cr, size, children } = picture;
  levels.shown.fill(0);
  levels.closed.length = levels.opened.length = levels.leaves.length = 0;
  const [hw, hh] = [camera.width / 2 / camera.scale, camera.height / 2 / camera.scale];
  let changed = false;
  const set = (i, open) => {
    levels.open[i] = open;
    levels.changed[i] = now;
    changed = true;
  };
  const shut = (i) => {
    if (!levels.open[i]) return;
    set(i, 0);
    for (const child of listed(children, i)) shut(child);
  };
  const visit = (i) => {
    const radius = cr[i] * camera.scale;
    if (levels.open[i] && radius < (size[i] < 2 ? CLOSES / 10 : CLOSES)) shut(i);
    else if (!levels.open[i] && radius >= (size[i] < 2 ? OPENS / 10 : OPENS)) set(i, 1);
    if (radius < LEAST || Math.abs(cx[i] - camera.x) > hw + cr[i] || Math.abs(cy[i] - camera.y) > hh + cr[i]) return;
    if (!levels.open[i]) {
      levels.shown[i] = 1;
      levels.closed.push(i);
      return;
    }
    if (size[i] > 1) levels.opened.push(i);
    const below = listed(children, i);
    if (below.length) for (const child of below) visit(child);
    else {
      levels.shown[i] = 2;
      levels.leaves.push(i);
    }
  };
  for (const i of picture.roots) visit(i);
  return changed;
}

/** Whether everything that a circle lies in is open. */
export function reachable(levels, picture, i) {
  for (let at = picture.above[i]; at < picture.c; at = picture.above[at]) if (!levels.open[at]) return false;
  return true;
}
