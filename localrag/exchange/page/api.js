// What the page of a server asks it for, answered from the data in this file. Nothing is sent anywhere.

const text = (id) => document.getElementById(id).textContent;
const data = JSON.parse(text("data"));
const entities = [];
for (const [n, id, name, type, description, names, quotes] of data.entities) entities[n] = { id, name, type, description, names, quotes };
const communities = data.communities.map(([id, label, title, summary]) => ({ id, label, title, summary }));
const numbers = { entity: new Map(entities.map((one, n) => [one.id, n])), community: new Map(communities.map((one, n) => [one.id, n])) };
const folded = entities.map((one) => one.names.join("\n").toLowerCase());
let picture = null;
let relatedTo = null;

export class ApiError extends Error {
  constructor(message, hint = "", status = 404) {
    super(message);
    Object.assign(this, { name: "ApiError", hint, status });
  }
}

/** The modules that read the picture are handed in, since they need this one. */
export function use(found) {
  relatedTo = found.relatedTo;
  picture = found.read(block());
}

function block() {
  return Uint8Array.from(atob(text("picture")), (c) => c.charCodeAt(0)).buffer;
}

/** The bytes of the picture, as an ArrayBuffer with headers. */
export async function bytes() {
  return { data: block(), headers: { get: () => data.tag } };
}

/** What is known of an entity or a community, by its id. */
export function known(kind, id) {
  const n = numbers[kind]?.get(id);
  if (n === undefined) return null;
  if (kind === "community") return { kind, ...communities[n] };
  const related = relatedTo(picture, n).map(({ node, edge }) => ({ ...entities[node], how: data.relationships[edge], weight: picture.weight[edge] }));
  const quotes = entities[n].quotes.map(([document, part, quote]) => ({ path: data.documents[document], part, quote }));
  return { kind, ...entities[n], related, quotes };
}

/** The answer to an address of the server. */
export async function get(path) {
  const [place, search = ""] = path.split("?");
  const query = new URLSearchParams(search);
  const answer = ANSWERS[place];
  if (!answer) throw new ApiError(`There is nothing at ${place}.`);
  return answer(query);
}

const asked = (query) => query.get("numbers").split(",").filter(Boolean).map(Number);
const ANSWERS = {
  "/api/status": () => ({ counts: data.counts }),
  "/api/graph/names": (query) => ({ names: asked(query).map((n) => ({ number: n, ...entities[n] })) }),
  "/api/graph/communities": (query) => ({ communities: asked(query).map((n) => ({ number: n, ...communities[n] })) }),
  "/api/graph/number": (query) => {
    const found = ["entity", "community"].flatMap((kind) => query.getAll(kind).map((id) => numbers[kind].get(id)));
    if (found.includes(undefined)) throw new ApiError("There is no such thing in this graph.");
    return { graph: data.tag, number: found[0], numbers: found };
  },
  "/api/names": (query) => found(query.get("q").trim().toLowerCase()),
  "/api/path": (query) => way(query.get("from"), query.get("to")),
};

function found(wanted) {
  const [first, later] = [[], []];
  for (let n = 0; n < entities.length && first.length < 20; n++) {
    const at = `\n${folded[n]}`.indexOf(`\n${wanted}`);
    if (at >= 0) first.push(entities[n]);
    else if (later.length < 20 && folded[n].includes(wanted)) later.push(entities[n]);
  }
  const reports = communities.filter((one) => one.title.toLowerCase().includes(wanted)).slice(0, 10);
  return { entities: [...first, ...later].slice(0, 20), reports: reports.map((one) => ({ ...one, number: one.label })) };
}

/** The shortest way from one entity to another, breadth first. */
function way(from, to) {
  const [start, end] = [numbers.entity.get(from), numbers.entity.get(to)];
  const before = new Map([[start, null]]);
  const queue = [start];
  for (let k = 0; k < queue.length && !before.has(end); k++) {
    for (const { node } of relatedTo(picture, queue[k])) {
      if (before.has(node)) continue;
      before.set(node, queue[k]);
      queue.push(node);
    }
  }
  if (!before.has(end)) throw new ApiError("No relationships lead from one of these entities to the other.");
  const steps = [];
  for (let n = end; n !== null; n = before.get(n)) steps.unshift(entities[n]);
  return { entities: steps, relationships: [] };
}
