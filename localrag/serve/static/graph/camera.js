// What of the picture is seen: the world's point in the middle, and how many pixels a unit is.

const LEAST = 0.6; // of the scale at which all is seen
const MOST_PIXELS = 260; // a unit, which an entity's circle is about

/** A camera over a picture of a radius, in a box of CSS pixels. */
export function makeCamera(reach, width = 1, height = 1) {
  const camera = { x: 0, y: 0, scale: 1, width, height, reach };
  fit(camera, 0, 0, reach);
  return camera;
}

/** Show a circle of the world, with some room around it. */
export function fit(camera, x, y, r) {
  Object.assign(camera, { x, y, scale: bounded(camera, (Math.min(camera.width, camera.height) * 0.47) / r) });
}

/** The scale at which a circle is shown by `fit`. */
export const fitting = (camera, r) => bounded(camera, (Math.min(camera.width, camera.height) * 0.47) / r);

/** Keep the scale within what makes sense. */
export function bounded(camera, scale) {
  const least = (Math.min(camera.width, camera.height) * 0.47 * LEAST) / camera.reach;
  return Math.max(least, Math.min(Math.max(MOST_PIXELS, least), scale));
}

/** Zoom by a factor about a point of the box, which stays where it is. */
export function zoomAt(camera, factor, px, py) {
  const [wx, wy] = toWorld(camera, px, py);
  camera.scale = bounded(camera, camera.scale * factor);
  camera.x = wx - (px - camera.width / 2) / camera.scale;
  camera.y = wy - (py - camera.height / 2) / camera.scale;
  kept(camera);
}

/** Move by pixels of the box. */
export function pan(camera, dx, dy) {
  camera.x -= dx / camera.scale;
  camera.y -= dy / camera.scale;
  kept(camera);
}

/** Some of the picture stays in view. */
function kept(camera) {
  const far = Math.hypot(camera.x, camera.y);
  if (far > camera.reach) {
    camera.x *= camera.reach / far;
    camera.y *= camera.reach / far;
  }
}

export const toScreen = (camera, x, y) => [
  (x - camera.x) * camera.scale + camera.width / 2,
  (y - camera.y) * camera.scale + camera.height / 2,
];

export const toWorld = (camera, px, py) => [
  (px - camera.width / 2) / camera.scale + camera.x,
  (py - camera.height / 2) / camera.scale + camera.y,
];
