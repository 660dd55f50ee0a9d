"""Datasets for evaluation, and the JSONL files of results: each is appended at once, so that an interrupted run can continue."""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.system.files import ensure_private_file


@dataclass(frozen=True, slots=True)
class GoldMention:
    """Characters `start` to `end` that name an entity; mentions of one entity share a `group`."""

    start: int
    end: int
    type: str
    group: str


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A text and its annotation; `relations` are unordered pairs of groups."""

    id: str
    text: str
    mentions: tuple[GoldMention, ...] = ()
    relations: frozenset[frozenset[str]] = frozenset()


# Gold type → the type asked for. Other gold types count for spans, not for types.
TYPE_MAPPINGS: dict[str, dict[str, str]] = {
    "conll04": {"Peop": "person", "Org": "organization", "Loc": "place"},
    "crossner": {
        **dict.fromkeys(("person", "politician", "writer", "musicalartist", "scientist", "researcher"), "person"),
        **dict.fromkeys(("organisation", "politicalparty", "band", "university"), "organization"),
        **dict.fromkeys(("location", "country"), "place"),
        **dict.fromkeys(("event", "election", "conference"), "event"),
    },
    "litbank": {"PER": "person", "ORG": "organization", "GPE": "place", "LOC": "place", "FAC": "place"},
    "redocred": {"PER": "person", "ORG": "organization", "LOC": "place"},
    "marked": {kind: kind for kind in ("person", "organization", "place", "event")},
}


def load_gold(path: Path, form: str, *, limit: int = 0, seed: int = 0) -> list[GoldDocument]:
    """The annotated texts of a file or folder; with `limit`, a random sample by `seed`. Raises UsageError for what cannot be read."""
    if form not in _LOADERS:
        raise UsageError(f"There is no format {form!r}.", f"Formats: {', '.join(_LOADERS)}")
    if not path.exists():
        raise UsageError(f"{path} does not exist.", "Give a file or folder of annotated texts.")
    try:
        documents = [d for d in _LOADERS[form](path) if d.text.strip()]
    except (KeyError, ValueError, TypeError, IndexError, OSError) as error:
        raise UsageError(f"{path} is not in the format {form}: {error!r}.", "Choose another: --format") from error
    if not documents:
        raise UsageError(f"{path} contains no text in the format {form}.", "Choose another: --format")
    if 0 < limit < len(documents):
        documents = random.Random(seed).sample(documents, limit)
    return documents


_NO_SPACE_BEFORE = re.compile(r"[.,;:!?%)\]}]|n't|['’](?:s|m|d|re|ve|ll)?$")
_NO_SPACE_AFTER = frozenset("([{$“`")
_WRITTEN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"'}

TokenSpan = tuple[int, int]


def join_tokens(tokens: Sequence[str]) -> tuple[str, list[TokenSpan]]:
    """Join tokens to a text with normal spacing; returns also each token's span."""
    text, places = "", []
    for raw in tokens:
        token = _WRITTEN.get(raw, raw)
        if text and not _NO_SPACE_BEFORE.match(token) and text[-1] not in _NO_SPACE_AFTER:
            text += " "
        places.append((len(text), len(text) + len(token)))
        text += token
    return text, places


def _marked(places: Sequence[TokenSpan], first: int, last: int, kind: str, group: str) -> GoldMention:
    return GoldMention(places[first][0], places[last][1], kind, group)


def _conll04(path: Path) -> Iterator[GoldDocument]:
    for row in json.loads(path.read_text()):
        text, places = join_tokens(row["tokens"])
        mentions = [_marked(places, a, b, kind, str(n)) for n, (a, b, kind) in enumerate(_tag_runs(row["tags"]))]
        pairs = frozenset(frozenset((str(r["head"]), str(r["tail"]))) for r in row["relations"])
        yield GoldDocument(str(row["orig_id"]), text, tuple(mentions), pairs)


def _tag_runs(tags: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    first = -1
    for i, tag in enumerate(tags):
        head, _, kind = tag.partition("-")
        if head in "BU":
            first = i
        following = tags[i + 1] if i + 1 < len(tags) else "O"
        if head != "O" and following.partition("-")[0] not in ("I", "L"):
            yield max(first, 0), i, kind


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


def _brat(folder: Path) -> Iterator[tuple[str, str, list[GoldMention]]]:
    for file in sorted(folder.glob("*.txt")):
        mentions = []
        for line in file.with_suffix(".ann").read_text().splitlines():
            parts = line.split("\t")
            if line.startswith("T") and len(parts) > 2 and re.fullmatch(r"\S+ \d+ \d+", parts[1]):
                label, start, end = parts[1].split()
                mentions.append(GoldMention(int(start), int(end), label, parts[0]))
        yield file.stem, file.read_bytes().decode(), mentions


def _litbank(path: Path) -> Iterator[GoldDocument]:
    entities = path / "entities" if (path / "entities").is_dir() else path
    chains: dict[tuple[str, int, int], str] = {}
    for name, _, mentions in _brat(entities.parent / "coref"):
        chains.update({(name, m.start, m.end): m.type for m in mentions if _CHAIN.match(m.type)})
    for name, text, mentions in _brat(entities):
        yield GoldDocument(name, text, tuple(replace(m, group=chains.get((name, m.start, m.end), m.group)) for m in mentions))


_MENTION_MARK = re.compile(r"\[\[([^\[\]|]+)\|([^\[\]|]+)(?:\|([^\[\]]+))?\]\]")
_BELOW = re.compile(r"^(relations|yes|no):[ \t]*(.*)$", re.MULTILINE)


def marked_sections(text: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """The sections of a manually annotated text: (id, text with its marks, the lines after it as (word, rest)).

    A section is a heading `## id`, paragraphs with names as `[[name|type]]` or `[[name|type|entity]]`, where `entity` is the full name of
    the entity, and lines `relations: A + B; C + D` (of entities), `yes: question`, `no: question`.
    """
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        below = [(m[1], m[2].strip()) for m in _BELOW.finditer(body)]
        yield name.strip(), _BELOW.sub("", body).strip(), below


def _marked_text(path: Path) -> Iterator[GoldDocument]:
    for name, body, below in marked_sections(path.read_text(encoding="utf-8")):
        text, mentions, at = "", list[GoldMention](), 0
        for mark in _MENTION_MARK.finditer(body):
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
    "crossner": _crossner,
    "litbank": _litbank,
    "redocred": _redocred,
    "marked": _marked_text,
}


@dataclass(frozen=True, slots=True)
class RetrievalTask:
    """Passages (id, title, text) and questions (question, ids of its gold passages)."""

    name: str
    passages: tuple[tuple[str, str, str], ...]
    questions: tuple[tuple[str, frozenset[str]], ...]


def load_task(folder: Path) -> RetrievalTask:
    """Read `corpus.jsonl` and `queries.jsonl`. Raises UsageError that names the unreadable file and line."""
    passages = [(str(r["id"]), str(r.get("title", "")), str(r["text"])) for r in load_rows(folder / "corpus.jsonl", "id", "text")]
    questions = [(str(r["question"]), frozenset(map(str, r["gold"]))) for r in load_rows(folder / "queries.jsonl", "question", "gold")]
    passage_ids = {i for i, *_ in passages}
    if len(passage_ids) < len(passages):
        raise UsageError(f"{folder / 'corpus.jsonl'} has an id twice.")
    lost = next((q for q, gold in questions if not gold or not gold <= passage_ids), None)
    if lost is not None:
        raise UsageError(f"{folder / 'queries.jsonl'}: the gold passages of {lost!r} are not all in corpus.jsonl.")
    return RetrievalTask(folder.name, tuple(passages), tuple(questions))


def load_rows(file: Path, *fields: str) -> list[dict[str, Any]]:
    """The objects of a JSONL file, all of which have these fields. Raises UsageError that names the unreadable file and line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "A task is a folder with corpus.jsonl and queries.jsonl.") from error
    rows = []
    for n, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or any(f not in row for f in fields):
            raise UsageError(f"{file}, line {n}: not a JSON object with {', '.join(fields)}.")
        rows.append(row)
    if not rows:
        raise UsageError(f"{file} is empty.")
    return rows


def as_markdown(title: str, text: str) -> str:
    """A passage as a Markdown file with its title as the heading."""
    return f"# {title}\n\n{text}" if title else text


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question, its accepted answers, and the names of the files that are their evidence."""

    id: str
    text: str
    answers: tuple[str, ...]
    type: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoldDataset:
    """Documents (file name, text) that are indexed together, and questions about them."""

    name: str
    documents: tuple[tuple[str, str], ...]
    questions: tuple[GoldQuestion, ...]


def load_qa_dataset(folder: Path, *, limit: int = 0, seed: int = 0) -> GoldDataset:
    """Read `corpus.jsonl` and `queries.jsonl`; `limit`: the size of a random sample of questions. Raises UsageError."""
    rows = load_rows(folder / "corpus.jsonl", "id", "text")
    name_of = {str(r["id"]): f"{n:07}.md" for n, r in enumerate(rows)}
    documents = tuple((name_of[str(r["id"])], as_markdown(str(r.get("title", "")), str(r["text"]))) for r in rows)
    questions = []
    for n, row in enumerate(load_rows(folder / "queries.jsonl", "question", "answers")):
        evidence = tuple(name_of[str(i)] for i in row.get("gold", ()) if str(i) in name_of)
        questions.append(
            GoldQuestion(str(row.get("id", n)), row["question"], tuple(row["answers"]), str(row.get("type", "question")), evidence)
        )
    sampled = {q.id for q in random.Random(seed).sample(questions, limit)} if 0 < limit < len(questions) else {q.id for q in questions}
    return GoldDataset(folder.resolve().name, documents, tuple(q for q in questions if q.id in sampled))


FileRow = dict[str, Any]


def read_jsonl(file: Path) -> list[FileRow]:
    """The rows of an earlier run, none without a file; a line torn by a crash is left out."""
    return list(_parse_rows(file.read_text(encoding="utf-8"))) if file.exists() else []


def _parse_rows(text: str) -> Iterator[FileRow]:
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


@contextmanager
def append_jsonl(file: Path) -> Iterator[Callable[[FileRow], None]]:
    """A function that appends a row to the file and flushes it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with ensure_private_file(file).open("a", encoding="utf-8") as f:
        if file.read_bytes()[-1:] not in (b"", b"\n"):
            f.write("\n")

        def append(row: FileRow) -> None:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
            f.flush()

        yield append
