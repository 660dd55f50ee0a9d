// What the page keeps in this browser. Where storage is refused, it is kept as long as the page is open.

const held = new Map();

/** The value kept under a name, or `otherwise`. */
export function load(name, otherwise = null) {
  if (held.has(name)) return held.get(name);
  try {
    const text = localStorage.getItem(`localrag.${name}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Keep a value under a name; null forgets it. */
export function save(name, value) {
  held.set(name, value);
  try {
    if (value === null) localStorage.removeItem(`localrag.${name}`);
    else localStorage.setItem(`localrag.${name}`, JSON.stringify(value));
  } catch {
    // It stays in `held`.
  }
}
