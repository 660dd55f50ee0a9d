// The page's language: texts by key, numbers and times as that language writes them.
// A text is a string with {names}, or {one, other, …} by plural form, chosen by the value `n`.

import { signal } from "../vendor/preact.js";
import english from "../i18n/en.js";
import { load, save } from "./storage.js";

export const LANGUAGES = { en: "English", de: "Deutsch", zh: "中文" };
export const language = signal("en");
const strings = signal(english);

/** The text of a key in the page's language, with `values` put in. */
export function t(key, values = {}) {
  let text = strings.value[key] ?? english[key] ?? key;
  if (typeof text !== "string") text = text[plural().select(values.n)] ?? text.other;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? shown(values[name]) : whole));
}

/** A number, with the thousands of the language. */
export function number(n, options = {}) {
  return new Intl.NumberFormat(language.value, options).format(n);
}

/** A share of 1 as per cent. */
export const percent = (share) => number(share, { style: "percent", maximumFractionDigits: 0 });

/** A moment: the time for today's, else the day. */
export function when(iso) {
  const at = new Date(/[zZ]$|[+-]\d\d:?\d\d$/.test(iso) ? iso : `${iso.replace(" ", "T")}Z`); // the index writes UTC
  if (Number.isNaN(at.getTime())) return "";
  const today = at.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(language.value, today ? { timeStyle: "short" } : { dateStyle: "medium" }).format(at);
}

/** A number of seconds in words: 8 s, 3 min, 2 h. */
export function lasting(seconds) {
  if (seconds < 60) return t("time.seconds", { n: seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds) });
  if (seconds < 5400) return t("time.minutes", { n: Math.round(seconds / 60) });
  return t("time.hours", { n: Number((seconds / 3600).toFixed(1)) });
}

/** Use a language from now on and keep the choice; without a name, the one chosen before or the browser's. */
export async function speak(name) {
  const wanted = name ?? load("language") ?? navigator.languages.map((tag) => tag.slice(0, 2)).find((tag) => tag in LANGUAGES);
  const chosen = wanted in LANGUAGES ? wanted : "en";
  if (chosen !== "en") strings.value = (await import(`../i18n/${chosen}.js`)).default;
  else strings.value = english;
  language.value = chosen;
  document.documentElement.lang = chosen;
  if (name) save("language", chosen);
}

const plural = () => new Intl.PluralRules(language.value);
const shown = (value) => (typeof value === "number" ? number(value) : String(value));
