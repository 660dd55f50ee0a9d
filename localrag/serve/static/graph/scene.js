// The picture in its box: what is looked at, how it is moved, when it is drawn.

import { number, t } from "../lib/i18n.js";
import { fit, fitting, makeCamera, pan, toScreen, zoomAt } from "./camera.js";
import { draw, FADE, readColours } from "./draw.js";
import { listed, NONE, relatedTo } from "./load.js";
import { makeLevels, reachable, update } from "./lod.js";
import { makeNames } from "./names.js";
import { makeGrid, pickAt } from "./pick.js";

const REST = 160; // milliseconds without a movement, after which the picture is drawn as sharply as the screen can show it
const FLIGHT = 260;
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A picture that can be looked at. `on.change()` is called when what is said beside it changes, `on.stale()` when the graph is another. */
export function makeScene(picture, on) {
  const timings = { draw: 0, first: 0, frames: 0 };
  const scene = {
    picture, camera: makeCamera(picture.reach), levels: makeLevels(picture), colours: null, cursor: null, lit: null, litEdges: null,
    focus: null, path: null, now: 0, still: false, timings, said: { shown: 0, total: 0 }, drawn: [],
    saying: (n) => number(n),
  };
  const names = makeNames(picture.tag, () => scene.redraw(), on.stale);
  scene.names = names;
  scene.known = names.text;
  let [canvas, context, frame, rest, flight, grid, sharp] = [null, null, 0, 0, null, null, false];

  /** Draw into a canvas from now on. */
  scene.attach = (element) => {
    canvas = element;
    context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    scene.colours = readColours();
    scene.resize();
  };
  scene.detach = () => {
    cancelAnimationFrame(frame);
    clearTimeout(rest);
    [canvas, context, frame, flight] = [null, null, 0, null];
  };
  scene.recolour = () => {
    if (!context) return;
    scene.colours = readColours();
    scene.redraw();
  };
  /** The box has another size: the same circle of the world stays in view. */
  scene.resize = () => {
    if (!canvas) return;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const { camera } = scene;
    const factor = Math.min(width, height) / Math.min(camera.width, camera.height);
    Object.assign(camera, { width, height, scale: camera.scale * factor });
    paint(1);
  };
  scene.redraw = () => {
    if (context && !frame) frame = requestAnimationFrame(step);
  };
  scene.moved = () => {
    clearTimeout(rest);
    sharp = false;
    rest = setTimeout(() => paint(devicePixelRatio || 1), REST);
    scene.redraw();
  };

  function step(now) {
    frame = 0;
    if (!context) return;
    if (flight) fly(now);
    paint(sharp && !flight ? devicePixelRatio || 1 : 1);
  }

  function paint(ratio) {
    if (!context) return;
    const began = performance.now();
    const { camera, levels } = scene;
    const [w, h] = [Math.round(camera.width * ratio), Math.round(camera.height * ratio)];
    if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
    sharp = ratio !== 1;
    Object.assign(scene, { now: began, still: still() });
    if (update(levels, picture, camera, began) && !scene.still) fading();
    const { shown, total, wanted, drawn } = draw(context, scene, ratio);
    timings.draw = performance.now() - began;
    timings.frames++;
    scene.drawn = drawn;
    if (scene.said.shown !== shown || scene.said.total !== total) {
      scene.said = { shown, total };
      on.change();
    }
    if (wanted.entity.length) names.want("entity", wanted.entity);
    if (wanted.community.length) names.want("community", wanted.community);
  }

  function fading() {
    const until = performance.now() + FADE + 20;
    const go = () => {
      scene.redraw();
      if (context && performance.now() < until) requestAnimationFrame(go);
    };
    requestAnimationFrame(go);
  }

  /** Look at a circle of the world; the way there is seen, except where movement is not wanted. */
  scene.flyTo = (x, y, scale) => {
    if (still()) {
      Object.assign(scene.camera, { x, y, scale });
      return scene.moved();
    }
    const { camera } = scene;
    flight = { from: [camera.x, camera.y, Math.log(camera.scale)], to: [x, y, Math.log(scale)], began: performance.now() };
    return scene.moved();
  };
  function fly(now) {
    const share = Math.min(1, Math.max(0, (now - flight.began) / FLIGHT));
    const ease = 1 - (1 - share) ** 3;
    const [x, y, log] = flight.from.map((v, k) => v + (flight.to[k] - v) * ease);
    Object.assign(scene.camera, { x, y, scale: Math.exp(log) });
    if (share < 1) scene.moved();
    else flight = null;
  }

  scene.zoom = (factor, px = scene.camera.width / 2, py = scene.camera.height / 2) => {
    flight = null;
    zoomAt(scene.camera, factor, px, py);
    scene.moved();
  };
  scene.pan = (dx, dy) => {
    flight = null;
    pan(scene.camera, dx, dy);
    scene.moved();
  };
  scene.home = () => scene.flyTo(0, 0, fitting(scene.camera, picture.reach));
  /** Bring a circle into view as large as it fits, or an entity with what is around it. */
  scene.show = (kind, n) => {
    const { camera } = scene;
    if (kind === "community") return scene.flyTo(picture.cx[n], picture.cy[n], fitting(camera, picture.cr[n] * 1.04));
    const home = picture.below[n];
    const around = home === NONE ? 4 * picture.r[n] : Math.max(picture.cr[home] * 1.1, 3 * picture.r[n]);
    return scene.flyTo(picture.x[n], picture.y[n], fitting(camera, around));
  };
  scene.pick = (px, py) => {
    grid ??= makeGrid(picture);
    return pickAt(picture, grid, scene.levels, scene.camera, px, py, scene.lit);
  };
  /** Let an entity and what it is related to stand out; null: nothing. */
  scene.focusOn = (n) => {
    const related = n === null ? [] : relatedTo(picture, n);
    scene.focus = n;
    scene.path = null;
    scene.lit = n === null ? null : new Set([n, ...related.map((one) => one.node)]);
    scene.litEdges = n === null ? null : related.map((one) => one.edge);
    if (n !== null) scene.cursor = { kind: "entity", number: n };
    scene.redraw();
  };
  /** Let the steps from one entity to another stand out. */
  scene.follow = (numbers) => {
    const joined = (a, b) => relatedTo(picture, a).find((one) => one.node === b)?.edge;
    scene.path = numbers;
    scene.lit = new Set(numbers);
    scene.litEdges = numbers.slice(1).map((n, k) => joined(numbers[k], n)).filter((j) => j !== undefined);
    const [xs, ys] = [numbers.map((n) => picture.x[n]), numbers.map((n) => picture.y[n])];
    const [x, y] = [xs, ys].map((some) => (Math.min(...some) + Math.max(...some)) / 2);
    const r = Math.max(3, ...numbers.map((n) => Math.hypot(picture.x[n] - x, picture.y[n] - y)));
    scene.flyTo(x, y, fitting(scene.camera, r * 1.15));
  };
  /** Where something is on the box. */
  scene.screenOf = (n, kind = "entity") =>
    kind === "entity" ? toScreen(scene.camera, picture.x[n], picture.y[n]) : toScreen(scene.camera, picture.cx[n], picture.cy[n]);

  /** What the keys can reach: the circles and discs in view. */
  scene.reachable = () => {
    const { camera, levels } = scene;
    const seen = ({ x, y }) => x > 0 && y > 0 && x < camera.width && y < camera.height;
    const of = (kind) => (n) => {
      const [x, y] = scene.screenOf(n, kind);
      return { kind, number: n, x, y };
    };
    const large = levels.closed.filter((i) => picture.cr[i] * camera.scale > 5).map(of("community"));
    const nodes = levels.leaves.flatMap((leaf) => [...listed(picture.members, leaf)]).map(of("entity"));
    const lit = scene.lit ? [...scene.lit].map(of("entity")) : [];
    return [...large, ...nodes, ...lit].filter(seen);
  };
  /** Move to the nearest thing in a direction, (1, 0) to (0, -1); from nowhere, to what is in the middle. */
  scene.step = (dx, dy) => {
    const { camera, cursor } = scene;
    const some = scene.reachable();
    const here = cursor && some.find((one) => one.kind === cursor.kind && one.number === cursor.number);
    const [x, y] = here ? [here.x, here.y] : [camera.width / 2, camera.height / 2];
    const far = (one) => {
      const [ax, ay] = [one.x - x, one.y - y];
      const along = ax * dx + ay * dy;
      const aside = Math.abs(ax * dy) + Math.abs(ay * dx);
      if (!here) return ax * ax + ay * ay;
      return along > 1 && aside <= along * 1.5 ? along + 2 * aside : Infinity;
    };
    const best = some.reduce((found, one) => (far(one) < found.far ? { one, far: far(one) } : found), { one: null, far: Infinity });
    if (!best.one) return null;
    scene.cursor = { kind: best.one.kind, number: best.one.number };
    scene.redraw();
    return scene.cursor;
  };
  /** The circle that something lies in, or null. */
  scene.above = ({ kind, number: n }) => {
    const found = kind === "entity" ? picture.below[n] : picture.above[n];
    return found === NONE ? null : { kind: "community", number: found };
  };
  scene.isVisible = (i) => reachable(scene.levels, picture, i);
  scene.nameOf = async ({ kind, number: n }) => {
    await names.want(kind, [n]);
    return names.text(kind, n) ?? t("graph.unnamed");
  };
  scene.fitAll = () => fit(scene.camera, 0, 0, picture.reach);
  return scene;
}
