// Where the page is: the address's fragment, #/view/arg/arg?name=value.

import { signal } from "../vendor/preact.js";

export const route = signal(parse(location.hash));
addEventListener("hashchange", () => (route.value = parse(location.hash)));

/** The parts of a fragment: {view, args, query}; without one it is the page for questions. */
export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...args] = path.split("/").filter(Boolean).map(decode);
  return { view: view || "ask", args, query: Object.fromEntries(new URLSearchParams(search)) };
}

/** Go to a fragment; `replace` leaves no step in the history. */
export function go(hash, replace = false) {
  if (hash === location.hash) return;
  if (replace) {
    history.replaceState(null, "", hash);
    route.value = parse(hash);
  } else location.hash = hash;
}

/** The fragment of a view: to("document", id, {mark: "3-9"}). */
export function to(view, ...rest) {
  const query = typeof rest.at(-1) === "object" ? new URLSearchParams(rest.pop()).toString() : "";
  return `#/${[view, ...rest].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
