// The server's state, asked for when the page begins, and waited for only while something runs and the page is seen:
// a browser has few connections to one server, and every open page would hold one.

import { signal } from "../vendor/preact.js";
import { access, get } from "./api.js";

/** The answer of /api/status, or null until it is there. */
export const status = signal(null);
let following = false;

/** Ask for the state now, and follow it while a run goes on. To be called after starting one, too. */
export async function refresh() {
  if (following || access.value !== "ready") return;
  following = true;
  try {
    status.value = await get("/api/status");
    while (status.value?.run?.state === "running" && document.visibilityState === "visible" && access.value === "ready") {
      status.value = await get(`/api/status?since=${encodeURIComponent(status.value.stamp)}`);
    }
  } catch {
    // The server was stopped, or the token is old: who asks next is told.
  } finally {
    following = false;
  }
}

document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
