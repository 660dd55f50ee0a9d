"""What MCP's tools answer with: prose for a model, links to what it names, and the same as values of a declared shape.

A result is at most about 8,000 tokens, whatever the documents hold; what was left out is said, with the call that goes on from there.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from mcp.shared.uri_template import UriTemplate
from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import BaseModel

from localrag import contents
from localrag.states import SUPPORTED
from localrag.text.marks import fence, one_line, quoted

Row = dict[str, Any]
MOST = 24_000  # bytes of a result: no tokenizer in use makes more than one token of three bytes of prose
SOME = 1_000  # bytes of a description, a quote or a name in it
DOCUMENT, REPORT = "localrag://doc/{+path}", "localrag://report/{id}"
_ESCAPED = str.maketrans({"%": "%25", "#": "%23", "?": "%3F"})  # what `{+path}` would leave, though it means something in an address


class Passage(BaseModel):
    """A passage that was found; the characters `start` to `end` of its document."""

    document: str
    path: str
    part: str
    start: int
    end: int
    score: float
    snippet: str


class Passages(BaseModel):
    """The passages nearest a query, the nearest first."""

    passages: list[Passage]


class Source(BaseModel):
    """A citation: its number in the answer, and a range of characters of its document. It is a proof only if its `state` is supported."""

    n: int
    path: str
    part: str
    start: int
    end: int
    quote: str
    state: str


class Sentence(BaseModel):
    """A sentence of an answer. `state`: supported (proved), related (on the topic, not proved), contradicted, or unsupported."""

    text: str
    state: str
    citations: list[int]


class Answered(BaseModel):
    """An answer. `answerable`: whether the documents say it; `complete`: False where time ran out or something was left out."""

    answer: str
    mode: str
    answerable: bool
    complete: bool
    note: str
    citations: list[Source]
    sentences: list[Sentence]


class Text(BaseModel):
    """The characters `start` to `end` of a document of `length`."""

    document: str
    path: str
    title: str
    start: int
    end: int
    length: int
    text: str


class Related(BaseModel):
    """An entity that another is related to."""

    name: str
    type: str
    weight: float
    description: str


class Mention(BaseModel):
    """Where an entity is mentioned."""

    path: str
    part: str
    start: int
    end: int
    text: str


class Entity(BaseModel):
    """An entity of the graph. `others` have the name that was asked for, too."""

    name: str
    type: str
    names: list[str]
    description: str
    relationships_total: int
    relationships: list[Related]
    mentions_total: int
    mentions: list[Mention]
    communities: list[str]
    others: list[str]


class Community(BaseModel):
    """A community of entities; `number` is what `report` is asked for."""

    number: str
    level: int
    title: str
    entities: int
    parent: str


class Communities(BaseModel):
    """Communities, the coarsest first. `next`: the offset to go on with, where there are more."""

    total: int
    levels: list[int]
    communities: list[Community]
    next: int | None


class Finding(BaseModel):
    """A finding of a report."""

    summary: str
    explanation: str


class Report(BaseModel):
    """A community's report."""

    number: str
    title: str
    summary: str
    findings: list[Finding]
    entities: list[str]
    children: list[str]


class Document(BaseModel):
    """A file that was read (`indexed`), or why it was not."""

    document: str
    path: str
    title: str
    state: str
    reason: str
    characters: int


class Documents(BaseModel):
    """Files, by path. `next`: the offset to go on with, where there are more."""

    total: int
    documents: list[Document]
    next: int | None


def passages(rows: Sequence[Row]) -> CallToolResult:
    """What `Worker.search` finds."""
    if not rows:
        return _result("Nothing was found.", Passages(passages=[]))
    room = MOST // 2 // len(rows)
    found = [Passage(**{k: row[k] for k in Passage.model_fields} | {"snippet": cut(row["snippet"], room // 2)}) for row in rows]
    fenced = fence("passage", texts := [cut(row["text"], room) for row in rows])
    said = [f"{n}. {_place(row)}\n{fenced(text)}" for n, (row, text) in enumerate(zip(rows, texts, strict=True), 1)]
    return _result("\n\n".join(said), Passages(passages=found), [document_link(row["path"]) for row in rows])


def answer(made: Row, *, late: bool = False) -> CallToolResult:
    """What `contents.answer` gives; `late`: it was stopped because time ran out."""
    note = made["note"]
    complete = not late and "Stopped" not in note
    if not complete:
        note = f"{note} {GO_ON}".strip()
    sources: list[Source] = []
    room = MOST // 2
    for c in made["citations"]:
        source = Source(**{k: c[k] for k in Source.model_fields} | {"quote": cut(c["quote"], SOME)})
        room -= 2 * len(source.model_dump_json().encode())
        if room < 0:
            note += f" {len(made['citations']) - len(sources)} further sources are not listed."
            break
        sources.append(source)
    text = cut(made["answer"], MOST // 6)
    sentences = [Sentence(**{k: s[k] for k in Sentence.model_fields} | {"text": cut(s["text"], SOME // 8)}) for s in made["sentences"]]
    listed = "\n".join(f"[{s.n}] {f'({s.state}) ' * (s.state != SUPPORTED)}{_place(s.model_dump())}: {quoted(s.quote)}" for s in sources)
    known = "" if made["answerable"] else "The documents do not say it; these are the closest passages."
    said = text and fence("answer", [text])(text)
    prose = "\n\n".join(part for part in (known, said, listed and f"Sources\n{listed}", one_line(note)) if part)
    how = {k: made[k] for k in ("mode", "answerable")} | {"complete": complete, "note": note.strip()}
    values = Answered(answer=text, citations=sources, sentences=_fitting(sentences, MOST // 12), **how)
    return _result(prose, values, [document_link(s.path) for s in sources])


GO_ON = "To go on: ask a narrower question, use mode `basic` or `mix`, or read passages with `search` and `passage`."
_NOTHING = {"answer": "", "mode": "", "answerable": True, "citations": [], "sentences": []}
NOTHING_YET: Row = _NOTHING | {"note": "Nothing was answered within the time."}


def passage(found: Row) -> CallToolResult:
    """What `contents.document` gives, without its surroundings."""
    whole = "".join(s["text"] for s in found["segments"])
    text = whole.encode()[: MOST // 2 - SOME].decode(errors="ignore")
    start, title = found["from"], cut(found["title"], SOME)
    end = start + len(text)
    values = Text(document=found["id"], path=found["path"], title=title, start=start, end=end, length=found["length"], text=text)
    rest = f"\n\nThe document goes on: passage(start={end})." if end < found["length"] else ""
    return _result(
        f"{one_line(found['path'])}, characters {values.start}–{end} of {values.length}\n{fence('passage', [text])(text)}{rest}",
        values,
        [document_link(found["path"])],
    )


def entity(found: Row, others: Sequence[str]) -> CallToolResult:
    """What `contents.entity` gives."""
    related = [
        Related(name=cut(r["entity"]["name"], SOME), type=r["entity"]["type"], weight=r["weight"], description=cut(r["description"], SOME))
        for r in found["relationships"]
    ]
    mentions = [
        Mention(**{k: m[k] for k in ("path", "part", "start", "end")}, text=cut(m["before"] + m["name"] + m["after"], SOME))
        for m in found["mentions"]
    ]
    reports = [f"{c['number']} {cut(c['title'], SOME)}".strip() for c in found["communities"]]
    values = Entity(
        name=cut(found["name"], SOME),
        type=found["type"],
        names=_fitting(found["names"], SOME),
        description=cut(found["description"], SOME),
        relationships_total=found["relationships_total"],
        relationships=_fitting(related, MOST // 6),
        mentions_total=found["mentions_total"],
        mentions=_fitting(mentions, MOST // 8),
        communities=_fitting(reports, SOME),
        others=_fitting(others, SOME),
    )
    lines = [one_line(f"{values.name} ({values.type})"), one_line(values.description), _listed("Also called", values.names)]
    lines.append(_listed(f"Related to ({len(values.relationships)} of {values.relationships_total})", map(_relation, values.relationships)))
    lines.append(_listed(f"Mentioned ({len(values.mentions)} of {values.mentions_total})", (_mention(m) for m in values.mentions)))
    lines += [_listed("In the communities", values.communities), _listed("Other entities of that name", values.others)]
    links = [document_link(m.path) for m in values.mentions] + [
        report_link(c["number"], c["title"]) for c in found["communities"] if c["title"]
    ]
    return _result("\n\n".join(line for line in lines if line), values, links)


def communities(rows: Sequence[Row], levels: Iterable[int], offset: int) -> CallToolResult:
    """What `contents.communities` gives, from an offset on."""
    numbers = {r["id"]: r["number"] for r in rows}
    listed = [
        Community(
            number=r["number"],
            level=r["level"],
            title=cut(r["title"], SOME),
            entities=r["entities"],
            parent=numbers.get(r["parent"] or "", ""),
        )
        for r in rows[offset : offset + 200]
    ]
    shown = _fitting(listed, MOST // 3)
    following = _next(offset, len(shown), len(rows))
    said = [f"{c.number} {one_line(c.title) or '(no report)'}, {c.entities} entities" for c in shown]
    text = "\n".join([f"{len(shown)} of {len(rows)} communities; `report` tells about one.", *said])
    values = Communities(total=len(rows), levels=sorted(levels), communities=shown, next=following)
    return _result(text + _further("communities", following), values, [report_link(c.number, c.title) for c in shown if c.title])


def report(found: Row) -> CallToolResult:
    """What `contents.report` gives."""
    findings = [Finding(summary=cut(f["summary"], SOME), explanation=cut(f["explanation"], SOME)) for f in found["findings"]]
    values = Report(
        number=found["number"],
        title=cut(found["title"], SOME),
        summary=cut(found["summary"], MOST // 8),
        findings=_fitting(findings, MOST // 4),
        entities=_fitting([e["name"] for e in found["entities"]], SOME),
        children=_fitting([f"{c['number']} {cut(c['title'], SOME)}".strip() for c in found["children"]], SOME),
    )
    paths = dict.fromkeys(q["path"] for f in found["findings"] for q in f["quotes"])
    text = cut(found["markdown"], MOST // 3)
    lines = [fence("report", [text])(text), _listed("Entities", values.entities), _listed("Communities within it", values.children)]
    return _result("\n\n".join(line for line in lines if line), values, [document_link(path) for path in paths])


def documents(total: int, rows: Sequence[Row], offset: int) -> CallToolResult:
    """What `look.listed_files` gives, from an offset on."""
    listed = [
        Document(
            document=r["id"] or "",
            path=r["path"],
            title=cut(r["title"], SOME),
            state=r["state"],
            reason=cut(r["reason"], SOME),
            characters=r["characters"] or 0,
        )
        for r in rows
    ]
    shown = _fitting(listed, MOST // 3)
    following = _next(offset, len(shown), total)
    said = [f"{d.path}: {d.title}, {d.characters} characters" if d.document else f"{d.path}: {d.state}, {d.reason}" for d in shown]
    text = "\n".join([f"{len(shown)} of {total} files.", *map(one_line, said)]) + _further("documents", following)
    return _result(text, Documents(total=total, documents=shown, next=following), [document_link(d.path) for d in shown if d.document])


def document_uri(path: str) -> str:
    """The address of a document as a resource."""
    return UriTemplate.parse(DOCUMENT).expand({"path": path.translate(_ESCAPED)})


def document_link(path: str) -> ResourceLink:
    """A link to a document."""
    return ResourceLink(type="resource_link", name=path, uri=document_uri(path), mime_type="text/plain")


def report_link(number: str, title: str) -> ResourceLink:
    """A link to a community's report."""
    return ResourceLink(
        type="resource_link", name=f"Report {number}", title=cut(title, SOME), uri=f"localrag://report/{number}", mime_type="text/markdown"
    )


def cut(text: str, most: int) -> str:
    """The beginning of a text, of at most so many bytes; that it was cut is shown."""
    return text if len(text.encode()) <= most else text.encode()[: most - 3].decode(errors="ignore") + "…"


def _result(text: str, values: BaseModel, links: Sequence[ResourceLink] = ()) -> CallToolResult:
    """Links go in as far as there is room: all they name is in the text, too."""
    structured = values.model_dump(mode="json")
    room = MOST - len(text.encode()) - len(json.dumps(structured, ensure_ascii=False).encode())
    blocks: list[ContentBlock] = [TextContent(type="text", text=text), *_fitting({link.uri: link for link in links}.values(), room)]
    return CallToolResult(content=blocks, structured_content=structured)


def _fitting(things: Iterable[Any], room: int) -> list[Any]:
    """The first of some texts or values, as many as fit into so many bytes."""
    found = []
    for thing in things:
        room -= len((thing.model_dump_json(exclude_none=True) if isinstance(thing, BaseModel) else thing).encode()) + 4
        if room < 0:
            break
        found.append(thing)
    return found


def _place(row: Row) -> str:
    part = f", {row['part']}" if row["part"] else ""
    return f"{one_line(row['path'] + part)}, characters {row['start']}–{row['end']}"


def _mention(m: Mention) -> str:
    return f"{_place(m.model_dump())}: {quoted(m.text)}"


def _relation(r: Related) -> str:
    return f"{r.name} ({r.type}): {r.description}" if r.description else f"{r.name} ({r.type})"


def _listed(title: str, lines: Iterable[str]) -> str:
    said = [f"- {one_line(line)}" for line in lines]
    return "\n".join([f"{title}:", *said]) if said else ""


def _next(offset: int, shown: int, total: int) -> int | None:
    return offset + shown if offset + shown < total else None


def _further(tool: str, offset: int | None) -> str:
    return "" if offset is None else f"\nThere are more: {tool}(offset={offset})."


def whole_document(found: Row) -> str:
    """A document as a resource: its beginning, where it is long."""
    text = "".join(s["text"] for s in found["segments"])
    if found["to"] >= found["length"]:
        return text
    return f"{text}\n\n[The document goes on: these are its first {contents.WINDOW} of {found['length']} characters.]"
