"""What another program made, located in its documents' text, becomes part of an index."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from localrag.engine.tokens import Tokenizer
from localrag.errors import UsageError
from localrag.exchange.imports.foreign import Foreign, Group, Insight
from localrag.exchange.imports.locate import Located, locate
from localrag.exchange.members import is_safe
from localrag.index.documents.load import stored_path
from localrag.index.pipeline import publish_brought
from localrag.index.progress import Progress
from localrag.project import Project
from localrag.records import IMPORTED, Chunk, Community, Finding, Graph, Quote, Report, content_id
from localrag.store import corpus, ledger
from localrag.text.quotes import entity_quotes, relationship_quotes

QUOTES = 2  # of what a finding refers to, each
MOST_QUOTES = 8  # of a finding


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of an import: how many of each there were and are in the index now, what was left out (→ why). `known`: it was there."""

    program: str
    known: bool
    found: Mapping[str, int]
    kept: Mapping[str, int]
    skipped: Mapping[str, str]


def import_foreign(foreign: Foreign, folder: Path, project: Project, progress: Callable[[Progress], None]) -> Imported:
    """Store and publish what another program made of documents in `folder`; a no-op where just this was imported before.

    Raises UsageError where it holds no document.
    """
    db = project.db
    if not foreign.sources:
        raise UsageError(f"There are no documents in {folder}.", "Give the output folder of a finished run.")
    names = ("documents", "chunks", "entities", "relationships", "claims", "reports")
    parts = (foreign.sources, foreign.passages, foreign.nodes, foreign.edges, foreign.statements, foreign.groups)
    found = dict(zip(names, map(len, parts), strict=True))
    if any(content == f"{IMPORTED} {foreign.state}" for content in corpus.document_hashes(db).values()) and _is_done(project, foreign):
        return Imported(foreign.program, True, found, {}, {})
    counts = Tokenizer(project.model.file).counts
    size, overlap = project.settings.chunk_tokens, project.settings.chunk_overlap
    located = locate(foreign, _paths(foreign, folder, project), counts, size=size, overlap=overlap)
    for document, chunks in located.documents:
        corpus.add_document(db, document, chunks)
    corpus.save_extractions(db, IMPORTED, located.extractions)
    kept: dict[str, int] = {}

    def brought(graph: Graph, chunks: Mapping[str, Chunk], held: Sequence[Community]) -> tuple[list[Community], list[Report]]:
        communities, reports = _communities(foreign, located, graph, chunks, held)
        kept.update(_kept(foreign, located, graph), reports=len(reports))
        return communities, reports

    asyncio.run(publish_brought(project, progress, brought))
    done = ledger.settings(db).get("imports", [])
    ledger.save_settings(db, imports=[*done, foreign.state], chunk_tokens=size, prepended=project.settings.prepend_metadata)
    return Imported(foreign.program, False, found, kept, located.skipped)


def _is_done(project: Project, foreign: Foreign) -> bool:
    return foreign.state in ledger.settings(project.db).get("imports", [])


def _paths(foreign: Foreign, folder: Path, project: Project) -> dict[str, str]:
    """Where each document is said to be: its title within the folder that it was imported from."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for n, source in enumerate(foreign.sources, 1):
        title = "/".join(part for part in PurePosixPath(source.title.replace("\\", "/")).parts if is_safe(part)) or f"document {n}"
        name = title if title not in taken else f"{PurePosixPath(title).with_suffix('')} {n}{PurePosixPath(title).suffix}"
        taken.add(name)
        found[source.key] = stored_path(folder.resolve() / name, project.root)
    return found


def _kept(foreign: Foreign, located: Located, graph: Graph) -> dict[str, int]:
    """How much of what was there is in the index; entities that are nowhere but inside longer names are left out here."""
    names = {m.name for m in graph.mentions}
    for node in foreign.nodes:
        if located.forms[node.name] and not located.forms[node.name] & names:
            located.skipped[f"entity {node.name}"] = "its name stands only inside longer names"
    chunks = {c.id for _, some in located.documents for c in some}
    left = {what: sum(s.startswith(f"{what} ") for s in located.skipped) for what in ("chunk", "entity", "relationship")}
    return {
        "documents": len(located.documents),
        "chunks": len(foreign.passages) - left["chunk"],
        "entities": len(foreign.nodes) - left["entity"],
        "relationships": len(foreign.edges) - left["relationship"],
        "claims": sum(c.chunk_id in chunks for c in graph.claims),
    }


def _communities(
    foreign: Foreign, located: Located, graph: Graph, chunks: Mapping[str, Chunk], held: Sequence[Community]
) -> tuple[list[Community], list[Report]]:
    """The other program's communities of entities that are in the graph and in no held one, with their reports."""
    of_name = {m.name: m.entity_id for m in graph.mentions}
    taken = {e for c in held for e in c.entity_ids}
    ids = {node.name: next((of_name[form] for form in sorted(located.forms[node.name]) if form in of_name), "") for node in foreign.nodes}
    whole = _whole(foreign.groups, ids, located.skipped)
    home = {e: key for e, key in _homes(whole, ids).items() if e not in taken}
    parents = {g.key: g.parent for g in whole}
    members: dict[str, list[str]] = {}
    for entity, deepest in home.items():
        at: str | None = deepest
        while at is not None:
            members.setdefault(at, []).append(entity)
            at = parents.get(at)
    name = {g.key: content_id("community", IMPORTED, foreign.state, g.key) for g in whole}
    groups = [g for g in whole if g.key in members]
    for g in whole:
        if g.key not in members:
            located.skipped[f"report {g.title}"] = "none of its entities stands in the text, or all are in another's community"
    communities = [
        Community(name[g.key], g.level, 0, name[g.parent] if g.parent is not None else None, tuple(sorted(members[g.key]))) for g in groups
    ]
    quotes = _quotes(graph, chunks, ids)
    return communities, [_report(g, name[g.key], foreign.state, quotes) for g in groups]


def _homes(groups: Sequence[Group], ids: Mapping[str, str]) -> dict[str, str]:
    """Entity → its deepest community; one that is of two belongs to the first."""
    found: dict[str, str] = {}
    for g in sorted(groups, key=lambda g: g.level):
        for entity in dict.fromkeys(ids.get(n, "") for n in g.nodes):
            if entity and (found.get(entity) == g.parent if g.level else entity not in found):
                found[entity] = g.key
    return found


def _whole(groups: Sequence[Group], ids: Mapping[str, str], skipped: dict[str, str]) -> list[Group]:
    """The communities without those below one that they do not divide up, by the entities that are in the graph."""
    kept: dict[str, Group] = {}
    for level in sorted({g.level for g in groups}):
        of_parent: defaultdict[str | None, list[Group]] = defaultdict(list)
        for g in groups:
            if g.level == level:
                of_parent[g.parent].append(g)
        for parent, some in of_parent.items():
            inside = {ids[n] for g in some for n in g.nodes if ids.get(n)}
            if level == 0 or (parent in kept and inside >= {ids[n] for n in kept[parent].nodes if ids.get(n)}):
                kept |= {g.key: g for g in some}
            else:
                skipped |= {f"report {g.title}": "it and its neighbours do not divide up the community above" for g in some}
    return list(kept.values())


Quotes = Callable[[Insight, Group], tuple[Quote, ...]]


def _quotes(graph: Graph, chunks: Mapping[str, Chunk], ids: Mapping[str, str]) -> Quotes:
    """A function that gives the sentences that a finding's references lead to; of one without any, those about entities that it names."""
    of_entity, of_relationship = entity_quotes(graph, chunks), relationship_quotes(graph, chunks)
    between = {frozenset((r.source_id, r.target_id)): r.id for r in graph.relationships}

    def quoted(insight: Insight, group: Group) -> tuple[Quote, ...]:
        said = f"{insight.summary} {insight.explanation}".casefold()
        nodes = insight.nodes if insight.nodes or insight.edges else [n for n in group.nodes if n.casefold() in said]
        pairs = (between.get(frozenset(ids.get(n, "") for n in ends), "") for ends in insight.edges)
        some = chain(
            *(of_relationship.get(key, ())[:QUOTES] for key in pairs),
            *(of_entity.get(ids.get(n, ""), ())[:QUOTES] for n in nodes),
        )
        return tuple(dict.fromkeys(some))[:MOST_QUOTES]

    return quoted


def _report(group: Group, key: str, state: str, quotes: Quotes) -> Report:
    findings = tuple(Finding(i.summary, i.explanation, quotes(i, group)) for i in group.insights)
    return Report(key, f"{IMPORTED} {state}", group.title, group.summary, group.rating, group.rating_explanation, findings)
