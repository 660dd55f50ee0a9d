// The graph: its picture, what the keys and buttons do there, and the same beside it as lists.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { number, t } from "../lib/i18n.js";
import { useKeys } from "../lib/keys.js";
import { Failure, useTitle, Waiting } from "../lib/parts.js";
import { go, to } from "../lib/route.js";
import { load } from "../graph/load.js";
import { makeScene } from "../graph/scene.js";
import { Search } from "../graph/search.js";
import { Neighbours, Tree } from "../graph/tree.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
let kept = null; // the scene, so that it is as it was when the view is opened again

export default function Graph({ route }) {
  const [scene, setScene] = useState(null);
  const [error, setError] = useState(null);
  const [round, setRound] = useState(0);
  const [, again] = useState(0);
  const began = useRef(performance.now());
  const change = () => again((n) => n + 1);
  useTitle(t("graph.title"));
  useEffect(() => {
    const leaving = new AbortController();
    began.current = performance.now();
    setError(null);
    load(leaving.signal).then(
      (picture) => {
        if (leaving.signal.aborted) return;
        if (kept?.picture !== picture) kept = makeScene(picture, { change: () => kept.changed(), stale: () => kept.renew() });
        Object.assign(kept, { changed: change, renew: () => setRound((n) => n + 1), began: began.current });
        setScene(kept);
      },
      (failed) => leaving.signal.aborted || setError(failed),
    );
    return () => leaving.abort();
  }, [round]);
  return html`<div class="graph" data-ready=${scene?.timings.first ? "" : null}>
    <h1>${t("graph.title")}</h1>
    ${error && html`<${Failure} error=${error} again=${() => setRound(round + 1)} />`}
    ${!scene && !error && html`<${Waiting} />`}
    ${scene && (scene.picture.n ? html`<${Seen} key=${scene.picture.tag} scene=${scene} route=${route} change=${change} />` : html`<${Empty} />`)}
  </div>`;
}

/** Why there is nothing to see, and what mends it. */
function Empty() {
  const [counts, setCounts] = useState(null);
  useEffect(() => {
    get("/api/status").then((found) => setCounts(found.counts), () => {});
  }, []);
  const why = counts?.entities ? "graph.empty.places" : counts?.chunks ? "graph.empty.graph" : "graph.empty.documents";
  return html`<div class="page"><p>${t(why)}</p><p><code>localrag index</code></p></div>`;
}

function Seen({ scene, route, change }) {
  const canvas = useRef(null);
  const stage = useRef(null);
  const search = useRef(null);
  const [news, setNews] = useState("");
  const [missing, setMissing] = useState("");
  useCanvas(scene, canvas, stage, change);
  const say = (item) => item && scene.nameOf(item).then((name) => setNews(told(scene, item, name)));
  const choose = (kind, n) => {
    scene.names.want(kind, [n]).then(() => {
      const { id } = scene.names.of(kind, n) ?? {};
      if (id) go(to("graph", kind, id));
    });
  };
  useRoute(scene, route, setMissing, (item) => {
    say(item);
    change();
  });
  const up = () => {
    const above = scene.cursor && scene.above(scene.cursor);
    scene.focusOn(null);
    if (above) choose("community", above.number);
    else leave();
  };
  const leave = () => {
    scene.cursor = null;
    scene.focusOn(null);
    scene.home();
    go("#/graph");
    change();
  };
  const stop = () => {
    scene.cursor = null;
    scene.focusOn(null);
    setNews(t("graph.cleared"));
    if (route.args.length) go("#/graph");
    change();
  };
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== stage.current) return;
    const does = {
      "+": () => scene.zoom(1.5), "=": () => scene.zoom(1.5), "-": () => scene.zoom(1 / 1.5), 0: () => scene.home(),
      Enter: () => scene.cursor && choose(scene.cursor.kind, scene.cursor.number), Backspace: up, Escape: stop,
    }[event.key] ?? (ARROWS[event.key] && (() => say(scene.step(...ARROWS[event.key]))));
    if (!does) return;
    event.preventDefault();
    does();
  };
  useKeys({ "/": (event) => {
    event.preventDefault();
    search.current?.focus();
  } });
  usePointer(scene, stage, (item) => {
    if (!item) return;
    choose(item.kind, item.number);
  });
  const { shown, total } = scene.said;
  return html`
    <div class="graph-bar">
      <${Search} scene=${scene} box=${search} choose=${choose} said=${setNews} change=${change} stage=${stage} />
      <div class="graph-buttons" role="group" aria-label=${t("graph.view")}>
        <button type="button" onClick=${() => scene.zoom(1.5)} aria-label=${t("graph.in")} title=${t("graph.in")}>+</button>
        <button type="button" onClick=${() => scene.zoom(1 / 1.5)} aria-label=${t("graph.out")} title=${t("graph.out")}>−</button>
        <button type="button" onClick=${() => scene.home()} title=${t("graph.all")}>${t("graph.all.short")}</button>
        ${[["left", "←", 120, 0], ["right", "→", -120, 0], ["up", "↑", 0, 120], ["down", "↓", 0, -120]].map(([name, sign, dx, dy]) => html`
          <button type="button" key=${name} onClick=${() => scene.pan(dx, dy)} aria-label=${t(`graph.pan.${name}`)}
            title=${t(`graph.pan.${name}`)}>${sign}</button>`)}
      </div>
    </div>
    ${missing && html`<p class="failure" role="alert">${missing}</p>`}
    <div class="graph-both">
      <div class="graph-stage" ref=${stage} tabindex="0" role="application" aria-label=${t("graph.picture")} aria-describedby="graph-keys"
        onKeyDown=${pressed}>
        <canvas ref=${canvas} aria-hidden="true"></canvas>
        <p class="graph-count">${t("graph.names", { shown, n: total })}</p>
      </div>
      <aside class="graph-side" aria-label=${t("graph.side")}>
        <p id="graph-keys" class="soft">${t("graph.keys")}</p>
        ${scene.focus !== null && html`<${Focused} scene=${scene} choose=${choose} stop=${stop} />`}
        ${scene.path && html`<${Path} scene=${scene} choose=${choose} stop=${stop} />`}
        <h2>${t("graph.tree")}</h2>
        <p class="soft">${t("graph.counts", { n: scene.picture.n, relationships: number(scene.picture.e), communities: number(scene.picture.c) })}</p>
        <${Tree} scene=${scene} choose=${choose} />
      </aside>
    </div>
    <p class="offscreen" role="status">${news}</p>`;
}

/** The entity that stands out, with what it is related to. */
function Focused({ scene, choose, stop }) {
  const one = scene.names.of("entity", scene.focus);
  return html`<section aria-labelledby="graph-focus">
    <h2 id="graph-focus">${one?.name ?? "…"}</h2>
    <p class="soft">${one?.type}</p>
    <p class="graph-buttons">${one && html`<a class="button" href=${to("entity", one.id)}>${t("graph.about")}</a>`}
      <button type="button" onClick=${stop}>${t("graph.clear")}</button></p>
    <h3>${t("graph.neighbours")}</h3>
    <${Neighbours} key=${scene.focus} scene=${scene} entity=${scene.focus} choose=${choose} />
  </section>`;
}

function Path({ scene, choose, stop }) {
  return html`<section aria-labelledby="graph-path">
    <h2 id="graph-path">${t("graph.path")}</h2>
    <ol class="neighbours">${scene.path.map((n) => html`<li key=${n}>
      <button type="button" class="quiet" onClick=${() => choose("entity", n)}>${scene.names.text("entity", n) ?? "…"}</button></li>`)}</ol>
    <p><button type="button" onClick=${stop}>${t("graph.clear")}</button></p>
  </section>`;
}

function told(scene, { kind, number: n }, name) {
  if (kind === "entity") return t("graph.told.entity", { name, type: scene.names.of("entity", n)?.type ?? "" });
  return t("graph.told.community", { name, n: scene.picture.size[n] });
}

/** Draw as long as the view is there; again when its size or the page's colours change. */
function useCanvas(scene, canvas, stage, change) {
  useLayoutEffect(() => {
    scene.attach(canvas.current);
    if (!scene.timings.first) scene.timings.first = performance.now() - scene.began;
    change();
    const sized = new ResizeObserver(() => scene.resize());
    sized.observe(stage.current);
    const themed = new MutationObserver(() => scene.recolour());
    themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", scene.recolour);
    window.localragGraph = Object.freeze({
      get camera() {
        return { ...scene.camera };
      },
      get timings() {
        return { ...scene.timings };
      },
      get said() {
        return { ...scene.said };
      },
      get open() {
        return [...scene.levels.opened];
      },
      get cursor() {
        return scene.cursor && { ...scene.cursor };
      },
      get colours() {
        return { ...scene.colours };
      },
      screenOf: (n, kind) => scene.screenOf(n, kind),
      pick: (x, y) => scene.pick(x, y),
    });
    return () => {
      sized.disconnect();
      themed.disconnect();
      dark.removeEventListener("change", scene.recolour);
      scene.detach();
      delete window.localragGraph;
    };
  }, [scene]);
}

/** What the address names is looked at: an entity with its neighbours, or a community. */
function useRoute(scene, route, setMissing, shown) {
  const [kind, id] = route.args;
  useEffect(() => {
    let here = true;
    setMissing("");
    if ((kind !== "entity" && kind !== "community") || !id) return undefined;
    get(`/api/graph/number?${kind}=${encodeURIComponent(id)}`).then(
      async ({ graph, number: n }) => {
        if (graph !== scene.picture.tag) return scene.renew();
        await scene.names.want(kind, [n]);
        if (!here) return undefined;
        scene.focusOn(kind === "entity" ? n : null);
        scene.cursor = { kind, number: n };
        scene.show(kind, n);
        return shown(scene.cursor);
      },
      (failed) => here && setMissing(failed.message),
    );
    return () => (here = false);
  }, [kind, id, scene]);
}

/** Mouse and fingers: drag to move, wheel or two fingers to zoom, a click to choose. */
function usePointer(scene, stage, chosen) {
  const act = useRef(chosen);
  act.current = chosen;
  useEffect(() => {
    const box = stage.current;
    const down = new Map();
    let [moved, begin] = [0, null];
    const place = (event) => {
      const { left, top } = box.getBoundingClientRect();
      return [event.clientX - left - box.clientLeft, event.clientY - top - box.clientTop];
    };
    const spread = () => {
      const [[ax, ay], [bx, by]] = [...down.values()];
      return { far: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2 };
    };
    const on = {
      pointerdown: (event) => {
        if (event.button > 0) return;
        down.set(event.pointerId, place(event));
        box.setPointerCapture(event.pointerId);
        if (down.size === 1) moved = 0;
        if (down.size === 2) begin = spread();
      },
      pointermove: (event) => {
        const before = down.get(event.pointerId);
        if (!before) return;
        const now = place(event);
        down.set(event.pointerId, now);
        moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
        if (down.size === 2) {
          const after = spread();
          if (begin.far > 0) scene.zoom(after.far / begin.far, after.x, after.y);
          scene.pan(after.x - begin.x, after.y - begin.y);
          begin = after;
        } else if (moved > 4) scene.pan(now[0] - before[0], now[1] - before[1]);
      },
      pointerup: (event) => {
        if (!down.delete(event.pointerId)) return;
        if (down.size === 0 && moved <= 4) act.current(scene.pick(...place(event)));
      },
      pointercancel: (event) => down.delete(event.pointerId),
      wheel: (event) => {
        event.preventDefault();
        const lines = event.deltaMode === 1 ? 16 : 1;
        scene.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) / 300), ...place(event));
      },
    };
    for (const [name, act1] of Object.entries(on)) box.addEventListener(name, act1, { passive: false });
    return () => Object.entries(on).forEach(([name, act1]) => box.removeEventListener(name, act1));
  }, [scene]);
}
