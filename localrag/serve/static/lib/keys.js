// Keys that work anywhere on the page.

import { useEffect } from "../vendor/preact.js";

/** Call `handlers[key](event)` for a key pressed alone; in a field only for Escape. A component calls it as a hook. */
export function useKeys(handlers) {
  useEffect(() => {
    const pressed = (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
      if (typing && event.key !== "Escape") return;
      handlers[event.key]?.(event);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
