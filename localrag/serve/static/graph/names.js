// Names of entities and titles of communities by their numbers, asked for when they are wanted, many at once.

import { get } from "../lib/api.js";
import { t } from "../lib/i18n.js";

const MOST = 500;
const PLACES = { entity: ["names", "names"], community: ["communities", "communities"] };

/** The names of a picture. `told()` is called when some came, `stale()` when the picture is no longer that of the graph. */
export function makeNames(tag, told, stale) {
  const found = { entity: new Map(), community: new Map() };
  const asked = { entity: new Set(), community: new Set() };
  let failed = 0;

  async function ask(kind, numbers) {
    const [place, key] = PLACES[kind];
    try {
      const answer = await get(`/api/graph/${place}?numbers=${numbers.join(",")}&graph=${tag}`);
      for (const one of answer[key]) found[kind].set(one.number, one);
      for (const n of numbers) if (!found[kind].has(n)) found[kind].set(n, { number: n, name: "", title: "", label: "", id: "" });
      failed = 0;
    } catch (error) {
      if (error.status === 409) return stale();
      failed += 1;
      for (const n of numbers) asked[kind].delete(n);
      if (failed > 3) return;
    }
    told();
  }

  /** Ask for what is not known yet: resolves when all of it is. */
  function want(kind, numbers) {
    const some = numbers.filter((n) => !found[kind].has(n) && !asked[kind].has(n));
    const parts = [];
    for (let at = 0; at < some.length; at += MOST) parts.push(some.slice(at, at + MOST));
    for (const n of some) asked[kind].add(n);
    return Promise.all(parts.map((part) => ask(kind, part)));
  }

  const get1 = (kind, n) => found[kind].get(n);
  /** What is written on the picture; undefined where it is not known yet. */
  function text(kind, n) {
    const one = found[kind].get(n);
    if (!one) return undefined;
    return kind === "entity" ? one.name : one.title || t("graph.community", { label: one.label });
  }
  return { want, text, of: get1 };
}
