"""Gold annotation: the formats it comes in → texts with the mentions, relations and facts that people marked in them."""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.errors import UsageError


@dataclass(frozen=True, slots=True)
class GoldMention:
    """Characters `start` to `end` that name an entity; mentions of one entity share a `group`."""

    start: int
    end: int
    type: str
    group: str


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A text and what was annotated in it; `relations` are unordered pairs of groups, `facts` sentences the text states."""

    id: str
    text: str
    mentions: tuple[GoldMention, ...] = ()
    relations: frozenset[frozenset[str]] = frozenset()
    facts: tuple[str, ...] = ()


_NEWS = {"PER": "person", "ORG": "organization", "LOC": "place"}
# Gold type → the type asked for. What is not listed counts for spans, not for types.
TYPES: dict[str, dict[str, str]] = {
    "conll04": {"Peop": "person", "Org": "organization", "Loc": "place"},
    "scierc": {"Task": "task", "Method": "method", "Metric": "metric", "Material": "material", "OtherScientificTerm": "term"},
    "crossner": {
        **dict.fromkeys(("person", "politician", "writer", "musicalartist", "scientist", "researcher"), "person"),
        **dict.fromkeys(("organisation", "politicalparty", "band", "university"), "organization"),
        **dict.fromkeys(("location", "country"), "place"),
        **dict.fromkeys(("event", "election", "conference"), "event"),
    },
    "litbank": {"PER": "person", "ORG": "organization", "GPE": "place", "LOC": "place", "FAC": "place"},
    "redocred": _NEWS,
    "re3d": {"Person": "person", "Organisation": "organization", "Location": "place"},
    "cluener": {
        "name": "person",
        **dict.fromkeys(("organization", "company", "government"), "organization"),
        **dict.fromkeys(("address", "scene"), "place"),
    },
    "zh_literature": {"Person": "person", "Organization": "organization", "Location": "place"},
    "mine": {},
    "marked": {kind: kind for kind in ("person", "organization", "place", "event")},
}


def load_gold(path: Path, form: str, *, limit: int = 0, seed: int = 0) -> list[GoldDocument]:
    """The annotated texts of a file or folder in the given format; with `limit`, a random sample that `seed` decides.

    Raises UsageError for an unknown format, a missing path, or content of another format.
    """
    if form not in _LOADERS:
        raise UsageError(f"There is no format {form!r}.", f"Formats: {', '.join(_LOADERS)}")
    if not path.exists():
        raise UsageError(f"{path} does not exist.", "Give a file or folder of annotated texts.")
    try:
        documents = [d for d in _LOADERS[form](path) if d.text.strip()]
    except (KeyError, ValueError, TypeError, IndexError, OSError) as error:
        raise UsageError(f"{path} is not in the format {form}: {error!r}.", "Choose another: --format") from error
    if not documents:
        raise UsageError(f"{path} holds no text in the format {form}.", "Choose another: --format")
    if 0 < limit < len(documents):
        documents = random.Random(seed).sample(documents, limit)
    return documents


_NO_SPACE_BEFORE = re.compile(r"[.,;:!?%)\]}]|n't|['’](?:s|m|d|re|ve|ll)?$")
_NO_SPACE_AFTER = frozenset("([{$“`")
_WRITTEN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"'}

Place = tuple[int, int]


def join_tokens(tokens: Sequence[str]) -> tuple[str, list[Place]]:
    """A text written from tokens as people write it, and each token's place in it."""
    text, places = "", []
    for raw in tokens:
        token = _WRITTEN.get(raw, raw)
        if text and not _NO_SPACE_BEFORE.match(token) and text[-1] not in _NO_SPACE_AFTER:
            text += " "
        places.append((len(text), len(text) + len(token)))
        text += token
    return text, places


def _marked(places: Sequence[Place], first: int, last: int, kind: str, group: str) -> GoldMention:
    return GoldMention(places[first][0], places[last][1], kind, group)


def _conll04(path: Path) -> Iterator[GoldDocument]:
    for row in json.loads(path.read_text()):
        text, places = join_tokens(row["tokens"])
        mentions = [_marked(places, a, b, kind, str(n)) for n, (a, b, kind) in enumerate(_tag_runs(row["tags"]))]
        pairs = frozenset(frozenset((str(r["head"]), str(r["tail"]))) for r in row["relations"])
        yield GoldDocument(str(row["orig_id"]), text, tuple(mentions), pairs)


def _tag_runs(tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """(first, last, type) of every BIO or BILOU run."""
    first = -1
    for i, tag in enumerate(tags):
        head, _, kind = tag.partition("-")
        if head in "BU":
            first = i
        following = tags[i + 1] if i + 1 < len(tags) else "O"
        if head != "O" and following.partition("-")[0] not in ("I", "L"):
            yield max(first, 0), i, kind


def _scierc(path: Path) -> Iterator[GoldDocument]:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        text, places = join_tokens([t for sentence in row["sentences"] for t in sentence])
        groups = {tuple(span): f"c{n}" for n, cluster in enumerate(row["clusters"]) for span in cluster}

        def group(a: int, b: int, known: dict[tuple[int, ...], str] = groups) -> str:
            return known.get((a, b), f"{a}-{b}")

        mentions = [_marked(places, a, b, kind, group(a, b)) for part in row["ner"] for a, b, kind in part]
        pairs = frozenset(frozenset((group(a, b), group(c, d))) for part in row["relations"] for a, b, c, d, _ in part)
        yield GoldDocument(row["doc_key"], text, tuple(mentions), pairs)


def _crossner(path: Path) -> Iterator[GoldDocument]:
    for n, block in enumerate(path.read_text().split("\n\n")):
        rows = [line.split("\t") for line in block.splitlines() if line.strip()]
        text, places = join_tokens([row[0] for row in rows])
        mentions = [_marked(places, a, b, kind, str(i)) for i, (a, b, kind) in enumerate(_tag_runs([row[1] for row in rows]))]
        yield GoldDocument(str(n), text, tuple(mentions))


def _redocred(path: Path) -> Iterator[GoldDocument]:
    for row in json.loads(path.read_text()):
        starts = [0]
        for sentence in row["sents"]:
            starts.append(starts[-1] + len(sentence))
        text, places = join_tokens([t for sentence in row["sents"] for t in sentence])
        mentions = {
            (m["sent_id"], *m["pos"]): _marked(
                places, starts[m["sent_id"]] + m["pos"][0], starts[m["sent_id"]] + m["pos"][1] - 1, m["type"], str(n)
            )
            for n, entity in enumerate(row["vertexSet"])
            for m in entity
        }
        pairs = frozenset(frozenset((str(r["h"]), str(r["t"]))) for r in row.get("labels", []) if r["h"] != r["t"])
        yield GoldDocument(row["title"], text, tuple(mentions.values()), pairs)


_CHAIN = re.compile(r"^(.+)-(\d+)$")


def _brat(folder: Path, group: Callable[[str, str], str]) -> Iterator[tuple[str, str, list[GoldMention], list[list[str]]]]:
    """(name, text, mentions, relation rows) of every pair of .txt and .ann; `group` names a mention's entity by its id and label."""
    for file in sorted(folder.glob("*.txt")):
        text = file.read_bytes().decode()
        mentions, relations = [], []
        for line in file.with_suffix(".ann").read_text().splitlines():
            parts = line.split("\t")
            if line.startswith("T") and len(parts) > 2 and re.fullmatch(r"\S+ \d+ \d+", parts[1]):
                label, start, end = parts[1].split()
                mentions.append(GoldMention(int(start), int(end), label, group(parts[0], label)))
            elif line.startswith("R") and len(parts) > 1:
                relations.append(parts[1].split())
        yield file.stem, text, mentions, relations


def _litbank(path: Path) -> Iterator[GoldDocument]:
    """`entities/` gives types, `coref/` beside it the entities the mentions belong to."""
    entities = path / "entities" if (path / "entities").is_dir() else path
    chains: dict[tuple[str, int, int], str] = {}
    if (entities.parent / "coref").is_dir():
        for name, _, mentions, _ in _brat(entities.parent / "coref", lambda _, label: label):
            chains.update({(name, m.start, m.end): m.type for m in mentions if _CHAIN.match(m.type)})
    for name, text, mentions, _ in _brat(entities, lambda key, _: key):
        grouped = (GoldMention(m.start, m.end, m.type, chains.get((name, m.start, m.end), m.group)) for m in mentions)
        yield GoldDocument(name, text, tuple(grouped))


def _zh_literature(path: Path) -> Iterator[GoldDocument]:
    """Names only: its pronouns and common nouns are no entities of a knowledge graph."""
    for name, text, mentions, relations in _brat(path, lambda key, _: key):
        named = {m.group: GoldMention(m.start, m.end, m.type.removesuffix("-Name"), m.group) for m in mentions if m.type.endswith("-Name")}
        ends = [[part.partition(":")[2] for part in row[1:3]] for row in relations if row[0] != "Coreference"]
        pairs = frozenset(frozenset(pair) for pair in ends if len(set(pair)) == 2 and named.keys() >= set(pair))
        yield GoldDocument(name, text, tuple(named.values()), pairs)


def _re3d(path: Path) -> Iterator[GoldDocument]:
    folders = [path] if (path / "documents.json").is_file() else sorted(p.parent for p in path.glob("*/documents.json"))
    for folder in folders:
        documents, entities, relations = (
            [json.loads(line) for line in (folder / f"{name}.json").read_text().splitlines() if line.strip()]
            for name in ("documents", "entities", "relations")
        )
        for row in documents:
            own = [e for e in entities if e["documentId"] == row["_id"] and row["text"][e["begin"] : e["end"]].strip()]
            mentions = tuple(GoldMention(e["begin"], e["end"], e["type"], row["text"][e["begin"] : e["end"]].casefold()) for e in own)
            pairs = (
                frozenset((r["source"].casefold(), r["target"].casefold()))
                for r in relations
                if r["documentId"] == row["_id"] and r["type"] not in ("IsSynonymOf", "HasAttrOf")
            )
            known = {m.group for m in mentions}
            yield GoldDocument(row["_id"], row["text"], mentions, frozenset(p for p in pairs if len(p) == 2 and p <= known))


def _cluener(path: Path) -> Iterator[GoldDocument]:
    for n, line in enumerate(path.read_text().splitlines()):
        row: dict[str, Any] = json.loads(line)
        mentions = tuple(
            GoldMention(start, end + 1, kind, name)
            for kind, names in row.get("label", {}).items()
            for name, places in names.items()
            for start, end in places
        )
        yield GoldDocument(str(n), row["text"], mentions)


def _mine(path: Path) -> Iterator[GoldDocument]:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        yield GoldDocument(str(row["id"]), row["content"].strip("`\n "), facts=tuple(row["facts"]))


_MARK = re.compile(r"\[\[([^\]|]+)\|([^\]|]+)(?:\|([^\]]+))?\]\]")
_BELOW = re.compile(r"^(relations|yes|no):[ \t]*(.*)$", re.MULTILINE)


def marked_sections(text: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The sections of a text that people marked: (id, text with its marks, the lines below it as (word, rest)).

    A section is a heading `## id`, paragraphs with names as `[[name|type]]` or `[[name|type|entity]]`, where `entity` is the name of the
    entity that another name stands for, and lines `relations: A + B; C + D` (of entities), `yes: question`, `no: question`.
    """
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        below = [(m[1], m[2].strip()) for m in _BELOW.finditer(body)]
        yield name.strip(), _BELOW.sub("", body).strip(), below


def _marked_text(path: Path) -> Iterator[GoldDocument]:
    for name, body, below in marked_sections(path.read_text(encoding="utf-8")):
        text, mentions, at = "", list[GoldMention](), 0
        for mark in _MARK.finditer(body):
            text += body[at : mark.start()]
            mentions.append(GoldMention(len(text), len(text) + len(mark[1]), mark[2], mark[3] or mark[1]))
            text, at = text + mark[1], mark.end()
        groups = {m.group for m in mentions}
        ends = [pair.split(" + ") for word, rest in below if word == "relations" for pair in re.split(r";\s*", rest) if pair]
        if odd := [end for pair in ends for end in pair if end not in groups or len(set(pair)) != 2]:
            raise ValueError(f"{name} relates {odd[0]!r}, which is not an entity marked in it")
        yield GoldDocument(name, text + body[at:], tuple(mentions), frozenset(map(frozenset, ends)))


_LOADERS: dict[str, Callable[[Path], Iterable[GoldDocument]]] = {
    "conll04": _conll04,
    "scierc": _scierc,
    "crossner": _crossner,
    "litbank": _litbank,
    "redocred": _redocred,
    "re3d": _re3d,
    "cluener": _cluener,
    "zh_literature": _zh_literature,
    "mine": _mine,
    "marked": _marked_text,
}
FORMATS = tuple(_LOADERS)
