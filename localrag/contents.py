"""Parts of an index as JSON-ready values, for every door that shows them: the command line, the page, other programs.

Things are named by their ids and paths are as they are stored; whoever shows them to a person writes paths as that person would.
"""

import re
from dataclasses import asdict, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.index.documents.load.pixels import PICTURES
from localrag.records import Answer, Chunk, Citation
from localrag.store import extent, graph, look
from localrag.text.plain import chunk_sentences, squeeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from localrag.project import Opened, Project

Row = dict[str, Any]
MOST = 100  # mentions or relationships of an entity at once
WINDOW = 65_536  # characters of a document at once
BESIDE = 400  # characters shown on either side of a citation
_MARK = re.compile(r"\[(\d+)\]")
_LAST_MARKS = re.compile(r"(?<= )(?:\[(?:related|contradicted)\])?(?:\[\d+\])+$")


class Unknown(LocalragError):
    """There is nothing of that id or name in the index."""


def citation(c: Citation) -> Row:
    """A citation."""
    return {"n": c.n, "path": c.path, "part": c.part, "start": c.start, "end": c.end, "quote": c.quote}


def citations(made: Answer) -> list[Row]:
    """The citations of an answer, each with the state of the best sentence that has it: only `supported` is a proof."""
    return [citation(c) | {"state": made.state_of(c.n)} for c in made.citations]


def sentences(made: Answer) -> list[Row]:
    """The sentences of an answer, each with its text, its place in the answer, its state and its citations."""
    return [{"text": made.answer[s.start : s.end]} | asdict(s) | {"citations": list(s.citations)} for s in made.sentences]


def answer(made: Answer, number: int = 0, at: str = "") -> Row:
    """An answer with what it cost; `number` and `at` where it is a stored one."""
    values = {k: getattr(made, k) for k in (f.name for f in fields(made)) if k not in ("citations", "id", "marks", "sentences")}
    confidence = made.confidence and round(made.confidence, 3)
    cited = {"citations": citations(made), "segments": marked(made.answer, made.marks), "sentences": sentences(made)}
    return {"id": number or made.id, "at": at} | values | {"confidence": confidence} | cited


def marked(text: str, marks: "Sequence[tuple[int, int]]") -> list[Row]:
    """A text cut at the marks of its citations: stretches `{"text"}` and citations `{"n"}`, in order."""
    found: list[Row] = []
    done = 0
    for at, n in marks:
        found += [{"text": text[done:at]}] * (at > done) + [{"n": n}]
        done = at + len(f"[{n}]")
    return [*found, {"text": text[done:]}] if done < len(text) else found


def marks_at_end(text: str) -> list[tuple[int, int]]:
    """The places of the marks that a stretch of an answer ends with, each with its number."""
    found = _LAST_MARKS.search(text)
    return [(m.start(), int(m[1])) for m in _MARK.finditer(text, found.start())] if found else []


def cited(c: Citation, db: Database) -> Row:
    """Where a citation stands in the index of today: as it was, moved within its document, changed, or gone with its document."""
    document = look.document_at(db, c.path)
    start, state = c.start, "gone"
    if document is not None:
        state = "exact"
        if look.window(db, document, c.start, c.end) != c.quote:
            place = look.first_place(db, document, c.quote)
            start, state = (c.start, "changed") if place is None else (place, "moved")
    end = start + len(c.quote)
    passage = {"before": "", "quote": c.quote, "after": ""}
    if document is not None and state in ("exact", "moved"):
        passage |= {
            "before": look.window(db, document, max(0, start - BESIDE), start),
            "after": look.window(db, document, end, end + BESIDE),
        }
    return {"citation": citation(c), "document": document, "start": start, "end": end, "state": state, "passage": passage}


def document(db: Database, document_id: str, start: int | None, end: int | None, mark: tuple[int, int] | None) -> Row:
    """A window of a document, cut where a mark begins and ends, so that nobody else has to count characters. Raises Unknown."""
    found = look.described(db, document_id)
    if found is None:
        raise Unknown(f"There is no document {document_id}.", "Those there are: localrag files")
    length = found["length"]
    if mark is not None:
        mark = (max(0, min(mark[0], length)), max(0, min(mark[1], length, mark[0] + WINDOW // 2)))
    middle = (mark[0] + mark[1]) // 2 if mark else 0
    first = max(0, min(length, start if start is not None else middle - WINDOW // 2))
    last = max(first, min(length, first + WINDOW, end if end is not None else first + WINDOW))
    text = look.window(db, document_id, first, last)
    return {
        "id": document_id,
        "path": found["path"],
        "title": found["title"],
        "kind": _kind(found["path"]),
        "metadata": found["metadata"],
        "length": length,
        "from": first,
        "to": last,
        "parts": [{"label": label, "start": a, "end": b} for label, a, b in found["parts"]],
        "segments": _segments(text, first, mark),
        "entities": [{k: r[k] for k in ("id", "name", "type")} for r in (look.mentioned_between(db, document_id, *mark) if mark else [])],
    }


def _kind(path: str) -> str:
    """As what a document can be shown: pages of a PDF, a picture, text."""
    suffix = Path(path).suffix.lower()
    return "pdf" if suffix == ".pdf" else "image" if suffix in PICTURES else "text"


def _segments(text: str, first: int, mark: tuple[int, int] | None) -> list[Row]:
    if mark is None:
        return [{"text": text, "mark": False}]
    a, b = (max(0, min(len(text), place - first)) for place in mark)
    cut = [(text[:a], False), (text[a:b], True), (text[b:], False)]
    return [{"text": t, "mark": m} for t, m in cut if t]


def entity(entity_id: str, db: Database, most: int | None = MOST) -> Row:
    """An entity: names, description, relationships, claims, mentions and communities. Raises Unknown."""
    found = graph.entities(db, [entity_id])
    if not found:
        raise Unknown(f"There is no entity {entity_id}.", "Look for it by a name.")
    known = found[0]
    return {
        "id": known.id,
        "name": known.name,
        "type": known.type,
        "names": graph.aliases_of(db, [entity_id]).get(entity_id, []),
        "description": known.description,
        "degree": known.degree,
        **look.totals_of(db, entity_id),
        "relationships": look.related_to(db, entity_id, most),
        "claims": [{k: getattr(c, k) for k in c.__slots__} for c in graph.claims(db, [entity_id])],
        "mentions": look.mentions_of(db, entity_id, -1 if most is None else most),
        "communities": [
            {"id": r["id"], "level": r["level"], "number": number(r), "title": r["title"]} for r in look.communities_of(db, entity_id)
        ],
    }


def entities_called(name: str, db: Database) -> list[Row]:
    """The entities that go by a name, with all their mentions and relationships. Raises Unknown naming the nearest names."""
    from rapidfuzz import process

    ids = graph.entities_named(db, [name]).get(name.lower(), ())
    if not ids:
        near = [found for found, *_ in process.extract(name, list(graph.aliases(db)), limit=3, score_cutoff=60)]
        raise Unknown(f"No entity is called {name!r}.", f"Near: {', '.join(near)}" if near else f"Search: localrag search {name!r}")
    return [entity(key, db, most=None) for key in ids]


def relationship(relationship_id: str, db: Database) -> Row:
    """A relationship with its evidence. Raises Unknown."""
    found = look.relationship(db, relationship_id)
    if found is None:
        raise Unknown(f"There is no relationship {relationship_id}.")
    ends = {e.id: {"id": e.id, "name": e.name, "type": e.type} for e in graph.entities(db, [found["source_id"], found["target_id"]])}
    return {
        "id": found["id"],
        "source": ends[found["source_id"]],
        "target": ends[found["target_id"]],
        **{k: found[k] for k in ("weight", "description", "descriptions")},
        "evidence": look.evidence_of(db, relationship_id, MOST),
    }


def number(row: Row) -> str:
    """A community's number as people write it: level and place, `1.4`."""
    return f"{row['level']}.{row['ordinal']}"


def communities(db: Database, level: int | None = None) -> list[Row]:
    """The communities, of a level or all, the coarsest first; `title` and `coverage` are those of their reports."""
    rows = [r for r in look.tree(db) if level is None or r["level"] == level]
    covered = extent.coverage_of(db, [r["id"] for r in rows if r["title"] is not None])
    return [
        {
            "id": r["id"],
            "number": number(r),
            "level": r["level"],
            "title": r["title"] or "",
            "coverage": None if r["title"] is None else round(covered.get(r["id"], 0.0), 4),
            "entities": r["entities"],
            "parent": r["parent"],
        }
        for r in rows
    ]


def report(community: str, db: Database) -> Row:
    """The report of a community, by its id or its number (`1.4`). Raises Unknown."""
    rows = {r["id"]: r for r in look.tree(db)}
    chosen = rows.get(community) or next((r for r in rows.values() if number(r) == community), None)
    found = graph.reports_of(db, [chosen["id"]]) if chosen else []
    if chosen is None or not found:
        what = f"There is no community {community}." if chosen is None else f"The community {community} has no report."
        raise Unknown(what, "See all: localrag tree")
    written, key = found[0], chosen["id"]
    parent = rows.get(chosen["parent"] or "")
    members = graph.entities(db, graph.members(db, [key]).get(key, []))
    return {
        "id": key,
        "number": number(chosen),
        "level": chosen["level"],
        "title": written.title,
        "summary": written.summary,
        "findings": [{"summary": f.summary, "explanation": f.explanation, "quotes": look.placed(db, f.quotes)} for f in written.findings],
        "markdown": written.markdown,
        "coverage": round(extent.coverage_of(db, [key]).get(key, 0.0), 4),
        "rating": written.rating,
        "rating_explanation": written.rating_explanation,
        "entities": [{"id": e.id, "name": e.name, "type": e.type} for e in sorted(members, key=lambda e: (-e.degree, e.name))],
        "parent": {"id": parent["id"], "number": number(parent), "title": parent["title"] or ""} if parent else None,
        "children": [{"id": r["id"], "number": number(r), "title": r["title"] or ""} for r in rows.values() if r["parent"] == key],
    }


def passages(query: str, vector: "NDArray[np.float32]", found: "Sequence[tuple[Chunk, float]]", project: "Project") -> list[Row]:
    """Passages that were found, with their place, score and the sentence of each that is nearest the query."""
    from localrag.query.retrieval.rank_sentences import (
        word_overlap,  # brings all that answers questions, which a look at the index does without
    )

    rows = []
    places = look.chunk_places(project.db, [chunk.id for chunk, _ in found])
    for chunk, score in found:
        spans = chunk_sentences(chunk.text) or ((0, len(chunk.text)),)
        texts = [squeeze(chunk.text[a:b]) for a, b in spans]
        near = project.embedder.embed(texts) @ vector + np.array(word_overlap(query, texts), np.float32)
        rows.append(
            {**places[chunk.id], "start": chunk.start, "end": chunk.end}
            | {"score": round(score, 3), "snippet": texts[int(np.argmax(near))], "text": chunk.text}
        )
    return rows


def path_between(first: str, last: str, opened: "Opened") -> Row:
    """The entities and relationships on a shortest way from one entity to another. Raises Unknown where there is none."""
    from scipy.sparse import csgraph

    from localrag.store.network import load_network

    network = load_network(opened.db, opened.folder)
    begin, end = network.entities.number(first), network.entities.number(last)
    if begin is None or end is None:
        raise Unknown(f"There is no entity {first if begin is None else last}.")
    _, before = csgraph.breadth_first_order(network.to_related, begin, directed=False)
    at, way = end, [last]
    while at != begin:
        at = int(before[at])
        if at < 0:
            raise Unknown("No relationships lead from one of these entities to the other.")
        way.append(network.entities[at])
    way.reverse()
    names = {e.id: {"id": e.id, "name": e.name, "type": e.type} for e in graph.entities(opened.db, way)}
    joined = look.joining(opened.db, list(pairwise(way)))
    return {"entities": [names[i] for i in way], "relationships": joined}
