// What is asked for a table: a form for each kind, whose fields stand in the address.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { Combobox, entityGroup, names } from "../lib/find.js";
import { lasting, number, t } from "../lib/i18n.js";
import { Failure } from "../lib/parts.js";
import { go, to } from "../lib/route.js";
import { argumentsOf, make, making, plan } from "./made.js";

const LONG_S = 30; // seconds from which on the cost is shown before a review begins
const ROWS = ["document", "chapter", "record"];
const EXAMPLES = ["date", "amount", "yes/no", "list", "one of", "text"];
const SHOWN_FILES = 8;
const LONGEST = 10_000;

export function Form({ kind, given }) {
  const [fields, setFields] = useState(given);
  const [cost, setCost] = useState(null); // {plan} or {error} of a review
  const read = useRef(given);
  useEffect(() => {
    if (JSON.stringify(given) === JSON.stringify(read.current)) return;
    read.current = given; // the address was changed by a link or a step back
    setFields(given);
  }, [JSON.stringify(given)]);
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target ? (event.target.type === "checkbox" ? (event.target.checked ? "1" : "") : event.target.value) : event });
  const begin = (wanted) => {
    setCost(null);
    make(kind, wanted);
  };
  const submit = async (event) => {
    event?.preventDefault();
    const wanted = argumentsOf(kind, Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value.trim()])));
    read.current = wanted;
    setFields(wanted);
    go(to("work", kind, wanted));
    if (kind !== "review") return begin(wanted);
    try {
      const found = await plan(wanted);
      if (found.seconds < LONG_S) return begin(wanted);
      setCost({ plan: found, begin: () => begin(wanted) });
    } catch (error) {
      setCost({ error });
    }
  };
  const busy = making.value !== null;
  const Fields = FIELDS[kind];
  return html`<form class="table-form" onSubmit=${submit}>
    <${Fields} fields=${fields} set=${set} submit=${submit} />
    ${kind !== "compare" && html`<${Chosen} fields=${fields} set=${set} />`}
    <p><button type="submit" class="main" disabled=${busy}>${t(`tables.make.${kind}`)}</button></p>
    ${cost?.error && html`<${Failure} error=${cost.error} />`}
    ${cost?.plan && html`<${Cost} cost=${cost} busy=${busy} close=${() => setCost(null)} />`}
  </form>`;
}

/** What a review would cost, before it begins. */
function Cost({ cost, busy, close }) {
  const { rows, cells, new_cells, seconds } = cost.plan;
  const box = useRef(null);
  useEffect(() => box.current.focus(), []);
  return html`<div class="cost" role="group" aria-labelledby="cost">
    <p id="cost" tabindex="-1" ref=${box}>${t("tables.cost", { rows: number(rows), cells: number(cells), new: number(new_cells), time: lasting(seconds) })}</p>
    <p class="soft">${t("tables.cost.kept")}</p>
    <p><button type="button" class="main" disabled=${busy} onClick=${cost.begin}>${t("tables.begin")}</button> <button type="button" onClick=${close}>${t("cancel")}</button></p>
  </div>`;
}

/** Which documents a table is made from. */
function Chosen({ fields, set }) {
  return html`<details open=${Boolean(fields.filter || fields.collections)}>
    <summary>${t("tables.documents")}</summary>
    <div class="fields">
      <${Text} name="filter" label=${t("tables.filter")} hint="path=contracts/*,after=2024,type=pdf" fields=${fields} set=${set} />
      <${Text} name="collections" label=${t("tables.collections")} fields=${fields} set=${set} />
    </div>
  </details>`;
}

function Text({ name, label, hint = "", fields, set, required = false }) {
  return html`<label>${label}
    <input type="text" dir="auto" maxlength=${LONGEST} autocomplete="off" placeholder=${hint} required=${required} value=${fields[name] ?? ""} onInput=${set(name)} />
  </label>`;
}

function Limit({ fields, set, most }) {
  return html`<label class="number">${t("tables.limit")}
    <input type="number" min="1" max="1000" placeholder=${most} value=${fields.limit ?? ""} onInput=${set("limit")} />
  </label>`;
}

const FIELDS = {
  review({ fields, set }) {
    return html`<label for="questions">${t("tables.questions")}</label>
      <textarea id="questions" class="questions" rows=${Math.min(14, Math.max(4, (fields.q ?? "").split("\n").length + 1))} dir="auto" required maxlength="200000"
        aria-describedby="question-kinds" value=${fields.q ?? ""} onInput=${set("q")}></textarea>
      <details class="question-kinds"><summary>${t("tables.kinds")}</summary><p id="question-kinds">${t("tables.kinds.why")}</p>
        <dl>${EXAMPLES.map((name) => html`<div key=${name}><dt><code>${t(`tables.example.${name}`)}</code></dt><dd>${t(`tables.example.${name}.why`)}</dd></div>`)}</dl>
      </details>
      <label>${t("tables.rows")}
        <select value=${fields.rows ?? ""} onChange=${set("rows")}>${ROWS.map((name) => html`<option key=${name} value=${name === "document" ? "" : name}>${t(`tables.rows.${name}`)}</option>`)}</select>
      </label>`;
  },
  timeline({ fields, set, submit }) {
    const load = async (text, signal, show) => show([entityGroup((await names(text, signal)).entities)]);
    return html`<div class="fields"><${Combobox} id="about" label=${t("tables.about")} hidden=${false} placeholder=${t("tables.all")} text=${fields.about ?? ""} write=${set("about")}
        load=${load} choose=${(option) => set("about")(option.title)} submit=${() => submit()} />
      <${Limit} fields=${fields} set=${set} most="500" /></div>`;
  },
  list({ fields, set }) {
    return html`<${Text} name="request" label=${t("tables.request")} hint=${t("tables.request.hint")} fields=${fields} set=${set} required />`;
  },
  compare({ fields, set, submit }) {
    return html`<div class="fields two">${["first", "second"].map((name) => html`<${Combobox} key=${name} id=${`compare-${name}`} label=${t(`tables.${name}`)} hidden=${false}
        text=${fields[name] ?? ""} write=${set(name)} load=${files} choose=${(option) => set(name)(option.title)} submit=${() => fields.first && fields.second && submit()} />`)}</div>
      <label class="check"><input type="checkbox" checked=${fields.same === "1"} onChange=${set("same")} />${t("tables.same")}</label>`;
  },
};

/** Documents with a text in their path or title, as options. */
async function files(text, signal, show) {
  const { documents } = await get(`/api/documents?${new URLSearchParams({ q: text, state: "indexed", limit: SHOWN_FILES })}`, signal);
  show([{ label: t("nav.documents"), options: documents.map((one) => ({ key: one.path, title: one.path, note: one.title === one.path ? "" : one.title })) }]);
}
