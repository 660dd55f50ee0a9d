// What is running: the index in numbers, its models, the run, the questions, what leaves the machine, and which keys do what.

import { html, useEffect } from "../vendor/preact.js";
import { number, t } from "../lib/i18n.js";
import { refresh, status } from "../lib/live.js";
import { useTitle, Waiting } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { Section } from "./library.js";
import { Run } from "./run.js";

const COUNTS = ["documents", "chunks", "entities", "relationships", "communities", "reports"];
const FILES = ["indexed", "skipped", "failed"];
const KEYS = {
  anywhere: [[["/"], "search"], [["Esc"], "close"], [["Tab"], "next"]],
  ask: [[["Enter"], "send"], [["Shift", "Enter"], "line"]],
  tree: [[["↑", "↓"], "move"], [["→", "←"], "fold"], [["Enter"], "open"], [["*"], "all"], [["Home", "End"], "ends"]],
  graph: [[["↑", "↓", "←", "→"], "neighbour"], [["Enter"], "open"], [["Backspace"], "up"], [["+", "−", "0"], "zoom"]],
};
const EVERY = 3000; // milliseconds between two looks while the page is seen and nothing runs

export default function Status() {
  useTitle(t("nav.status"));
  useEffect(() => {
    refresh();
    const timer = setInterval(() => document.visibilityState === "visible" && refresh(), EVERY);
    return () => clearInterval(timer);
  }, []);
  const now = status.value;
  return html`<div class="page status">
    <h1>${t("nav.status")}</h1>
    ${!now && html`<${Waiting} />`}
    ${now && html`<${Told} now=${now} />`}
  </div>`;
}

const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

function Told({ now }) {
  const { active, waiting } = now.questions;
  const busy = active + waiting === 0 ? t("status.idle") : t("status.questions.now", { active, waiting });
  return html`
    <p class="soft" dir="auto">${now.root}${now.read_only && html` · ${t("status.read_only")}`}</p>
    <${Run} />
    <dl class="numbers">${COUNTS.map((name) => html`<div key=${name}><dt>${t(`status.count.${name}`)}</dt><dd>${number(now.counts[name])}</dd></div>`)}</dl>
    <${Section} title=${t("status.files")}>
      <ul class="plain">${FILES.map((name) => html`<li key=${name}>
        <a href=${to("documents", name === "indexed" ? {} : { state: name })}>${t(`documents.state.${name}`)}</a> <span class="soft">${number(now.files[name])}</span></li>`)}</ul>
    </${Section}>
    <${Section} title=${t("status.machine")}>
      <dl class="facts">
        <${Fact} name=${t("status.model")}>${now.model || t("status.model.none")}${now.style && html` <span class="soft">${styleName(now.style)}</span>`}</${Fact}>
        <${Fact} name=${t("status.embedder")}>${now.embedder || t("status.model.none")}</${Fact}>
        <${Fact} name=${t("status.questions")}>${busy}</${Fact}>
        <${Fact} name=${t("status.version")}>localrag ${now.version}</${Fact}>
      </dl>
    </${Section}>
    <${Section} title=${t("status.leaves")}><${Leaves} servers=${now.servers} /></${Section}>
    <${Section} title=${t("status.keys")}>
      <div class="keys">${Object.entries(KEYS).map(([place, keys]) => html`<div key=${place}><h3>${t(`status.keys.${place}`)}</h3><dl>
        ${keys.map(([names, what]) => html`<div key=${what}><dt>${names.map((name) => html`<kbd>${name}</kbd> `)}</dt><dd>${t(`status.key.${what}`)}</dd></div>`)}
      </dl></div>`)}</div>
    </${Section}>`;
}

/** Nothing, unless the server was started with leave to ask a model on another machine. */
function Leaves({ servers }) {
  if (servers.length > 0) return html`<p>${t("status.leaves.model", { servers: servers.join(", ") })}</p><p class="soft">${t("status.leaves.page")}</p>`;
  return html`<p><strong>${t("status.leaves.nothing")}</strong></p><p class="soft">${t("status.leaves.page")}</p>`;
}

/** Who writes the answers: a model, or nobody, where they are sentences of the documents. */
function styleName(style) {
  const name = t(`status.style.${style}`);
  return name.startsWith("status.style.") ? style : name;
}
