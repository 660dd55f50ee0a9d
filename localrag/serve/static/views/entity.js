// An entity: its names, what is said of it, what it is connected to and where it is mentioned, with the words of the documents.

import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../lib/api.js";
import { Combobox, entityGroup, names } from "../lib/find.js";
import { number, t } from "../lib/i18n.js";
import { Failure, placeName, useData, useTitle, Waiting } from "../lib/parts.js";
import { to } from "../lib/route.js";
import { kindOf, Quoted, Section } from "./library.js";

export default function Entity({ route }) {
  const id = route.args[0] ?? "";
  const { data, error, again } = useData((signal) => get(`/api/entities/${encodeURIComponent(id)}`, signal), [id]);
  useTitle(data?.name ?? t("entity.title"));
  return html`<div class="page entity">
    <h1 dir="auto">${data?.name ?? t("entity.title")}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${!data && !error && html`<${Waiting} />`}
    ${data && html`<${Known} one=${data} />`}
  </div>`;
}

/** A heading's note: how many there are, and how many of them are shown. */
const shownOf = (shown, total) => (shown < total ? t("entity.shown", { n: shown, total }) : number(total));

function Known({ one }) {
  const others = one.names.filter((name) => name !== one.name);
  return html`
    <p class="soft">${kindOf(one)}${kindOf(one) && others.length > 0 && " · "}${others.length > 0 && html`${t("entity.names")} <span dir="auto">${others.join(", ")}</span>`}</p>
    <p class="links-row"><a href=${to("graph", "entity", one.id)}>${t("entity.graph")}</a></p>
    ${one.description && html`<p class="lead" dir="auto">${one.description}</p>`}
    <${Section} title=${t("entity.relationships")} note=${shownOf(one.relationships.length, one.relationships_total)} when=${one.relationships.length > 0}>
      <ul class="relations">${one.relationships.map((r) => html`<${Relation} key=${r.id} relation=${r} most=${one.relationships[0].weight} />`)}</ul>
    </${Section}>
    <${Way} from=${one} />
    <${Section} title=${t("entity.claims")} note=${number(one.claims.length)} when=${one.claims.length > 0}>
      <ul class="claims">${one.claims.map((claim) => html`<li key=${claim.id}><${Claim} claim=${claim} /></li>`)}</ul>
    </${Section}>
    <${Section} title=${t("entity.mentions")} note=${shownOf(one.mentions.length, one.mentions_total)} when=${one.mentions.length > 0}>
      <ul class="mentions">${one.mentions.map((place) => html`<li key=${`${place.document}-${place.start}`}><${Mention} place=${place} /></li>`)}</ul>
    </${Section}>
    <${Section} title=${t("nav.reports")} when=${one.communities.length > 0}>
      <ul class="plain">${one.communities.map((c) => html`<li key=${c.id}>
        <a href=${to("report", c.id)} dir="auto">${c.title}</a>
        <span class="soft"> ${t("reports.level", { n: c.level })}</span></li>`)}</ul>
    </${Section}>`;
}

/** How two entities are connected; the words that show it are read when they are asked for. */
function Relation({ relation, most }) {
  const [open, setOpen] = useState(false);
  const box = `evidence-${relation.id}`;
  const how = relation.descriptions.length ? relation.descriptions : [relation.description].filter(Boolean);
  return html`<li>
    <div class="head">
      <a href=${to("entity", relation.entity.id)} dir="auto">${relation.entity.name}</a> <span class="soft">${kindOf(relation.entity)}</span>
      <span class="strength soft" title=${t("entity.strength")}><meter min="0" max=${most || 1} value=${relation.weight} aria-label=${t("entity.strength")}></meter>
        ${number(relation.weight, { maximumFractionDigits: 1 })}</span>
    </div>
    ${how.map((text, i) => html`<p key=${i} dir="auto">${text}</p>`)}
    <button type="button" class="quiet" aria-expanded=${String(open)} aria-controls=${box} onClick=${() => setOpen(!open)}
      aria-label=${t("entity.evidence.of", { name: relation.entity.name })}>${t(open ? "entity.evidence.hide" : "entity.evidence")}</button>
    <div id=${box} hidden=${!open}>${open && html`<${Evidence} id=${relation.id} />`}</div>
  </li>`;
}

function Evidence({ id }) {
  const { data, error, again } = useData((signal) => get(`/api/relationships/${encodeURIComponent(id)}`, signal), [id]);
  if (error) return html`<${Failure} error=${error} again=${again} />`;
  if (!data) return html`<${Waiting} />`;
  if (data.evidence.length === 0) return html`<p class="soft">${t("entity.evidence.none")}</p>`;
  return html`<ul class="quotes">${data.evidence.map((place) => html`<li key=${`${place.document}-${place.start}`}><${Quoted} place=${place} text=${place.quote} /></li>`)}</ul>`;
}

function Claim({ claim }) {
  const time = [claim.since, claim.until].filter((at) => at && at !== "NONE").join(" – ");
  return html`<p dir="auto">${claim.description}</p><p class="soft">${[claim.type, claim.status, time].filter(Boolean).join(" · ")}</p>`;
}

function Mention({ place }) {
  return html`<a class="quoted" href=${to("document", place.document, { mark: `${place.start}-${place.end}` })}>
    <span class="context" lang="" dir="auto">${place.before && `…${place.before}`}<b>${place.name}</b>${place.after && `${place.after}…`}</span>
    <span class="soft">${placeName(place)}</span>
  </a>`;
}

/** The shortest way to another entity. */
function Way({ from }) {
  const [text, write] = useState("");
  const [goal, setGoal] = useState(null);
  useEffect(() => {
    setGoal(null);
    write("");
  }, [from.id]);
  const load = async (typed, signal, show) => {
    const found = (await names(typed, signal)).entities.filter((one) => one.id !== from.id);
    show([entityGroup(found)]);
  };
  const choose = (option) => {
    write(option.title);
    setGoal(option);
  };
  return html`<${Section} title=${t("entity.way")}>
    <${Combobox} id="goal" label=${t("entity.way.to", { name: from.name })} hidden=${false} text=${text} write=${write} load=${load} choose=${choose} />
    ${goal && html`<${Path} key=${goal.id} from=${from.id} goal=${goal.id} />`}
  </${Section}>`;
}

function Path({ from, goal }) {
  const query = new URLSearchParams({ from, to: goal });
  const { data, error, again } = useData((signal) => get(`/api/path?${query}`, signal), [from, goal]);
  if (error?.status === 404) return html`<p class="soft" role="status">${t("entity.way.none")}</p>`;
  if (error) return html`<${Failure} error=${error} again=${again} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div role="status"><p class="offscreen">${t("entity.way.steps", { n: data.entities.length - 1 })}</p>
    <ol class="path">${data.entities.map((one, i) => html`<li key=${one.id}>
      ${i > 0 && data.relationships[i - 1] && html`<p class="soft" dir="auto">${data.relationships[i - 1].description}</p>`}
      <a href=${to("entity", one.id)} dir="auto">${one.name}</a> <span class="soft">${kindOf(one)}</span>
    </li>`)}</ol></div>`;
}
