"""Timelines: the dated statements of the documents in order, each with its quote; the same event told twice is one row."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, takewhile

from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence, opened_documents, sentences_of
from localrag.analysis.reading import read_pairs
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.dates.date_mentions import DateMention, find_dates
from localrag.dates.edtf import Day
from localrag.project import Project
from localrag.query.retriever import content_stems, named_entities, retrieve, word_share
from localrag.records import Citation, content_id, format_path
from localrag.store import graph
from localrag.text.kinds import TextKind, classify_sentence, strip_markup
from localrag.text.sentences import collapse_whitespace

FIGURES = ("documents", "documents_with_dates", "statements", "reckoned", "merged", "unresolved", "omitted")
COLUMNS = (Column("date", "date"), Column("what happened"), Column("document"))
RECKONED = "reckoned"  # the note of a date that is told from another one
MAX_STATEMENT_CHARS = 600  # of a longer sentence, or line without one, the part around the date is quoted
MIN_COMMON_SHARE = 0.9  # of the words of the shorter statement that another of the same date has, if it is a repetition
MIN_COMPARED_WORDS = 3  # of a statement that may be a repetition
MAX_COMPARED = 200  # statements of one date that a statement is compared with
_NO_STATEMENTS = frozenset({TextKind.CODE, TextKind.CONTENTS, TextKind.LICENCE})
_VISITED = re.compile(r"\b(?:retrieved|accessed|archived|abgerufen|archiviert|consultado|consulté)\b[^.;]{0,40}$", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|nicht|kein\w*|nie|nunca|ne|pas|jamais)\b|n['’]t\b|[不没未]", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_ITEM = re.compile(r"[-*+•]\s|\d{1,3}[.)]\s")
MAX_LISTED = 50  # items of a list below a date


@dataclass(frozen=True, slots=True)
class DatedStatement:
    """A statement of a document, on one line as `text`, with one of its dates.

    `date_citations`: of the date, and of that which it is reckoned from. `words`: the content words of the statement without the date, and
    its numbers, which tell repetitions.
    """

    mention: DateMention
    text: str
    citation: Citation
    date_citations: tuple[Citation, ...]
    words: frozenset[str]
    is_negated: bool

    @property
    def value(self) -> str:
        """Its date in EDTF."""
        return str(self.mention.value)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a timeline is about: the chunks that may tell of it (None: all), its sentences in a document, and whether it is a topic."""

    chunk_ids: frozenset[str] | None = None
    sentences_of: Callable[[Sequence[PlacedSentence]], Iterable[PlacedSentence]] = iter
    is_topic: bool = False


def make_timeline(project: Project, about: str = "", *, limit: int | None = None, on_work: OnWork | None = None) -> ResultTable:
    """The dated statements of a project's documents by date, or those about an entity or a topic; at most `limit` rows, the first ones.

    The values of the column `date` are EDTF (`edtf.py`). The figures are FIGURES. Raises UsageError for a topic if the reader is switched
    off, ModelError if it cannot be loaded.
    """
    about, figures = about.strip(), Counter[str]()
    scope = _scope(about, project)
    statements: list[DatedStatement] = []
    for source in opened_documents(project, on_work):
        figures["documents"] += 1
        if scope.chunk_ids is None or any(chunk.id in scope.chunk_ids for chunk in source.chunks):
            found = find_dates(source.document.text, source.own_date, source.language)
            figures["unresolved"] += found.n_unresolved
            figures["documents_with_dates"] += bool(found.mentions)
            statements += _statements(source, found.mentions, scope) if found.mentions else ()
    if scope.is_topic:
        is_about = are_about_topic(about, [statement.text for statement in statements], project)
        statements = [statement for statement, chosen in zip(statements, is_about, strict=True) if chosen]
    return _timeline_table(statements, about, limit, figures)


def _scope(about: str, project: Project) -> _Scope:
    if not about:
        return _Scope()
    if entity_ids := entity_ids_of(about, project):
        about_entities = partial(sentences_about_entities, entity_ids=entity_ids, people=people_in(project), project=project)
        return _Scope(chunk_ids_of_entities(entity_ids, project), about_entities)
    chunk_ids = chunk_ids_of_topic(about, project)
    return _Scope(chunk_ids, lambda sentences: (s for s in sentences if is_in_chunks(s, chunk_ids)), is_topic=True)


def _statements(source: OpenedDocument, mentions: Sequence[DateMention], scope: _Scope) -> Iterator[DatedStatement]:
    """The dated statements of a document; a date in a sentence twice counts once."""
    sentences = list(sentences_of(source))
    dated = _dated_sentences(sentences, mentions)
    numbers = {id(sentence): n for n, sentence in enumerate(sentences)}
    for sentence in scope.sentences_of(sentences):
        found = dated.get(numbers[id(sentence)], ())
        if not found or classify_sentence(source.document.text[sentence.start : sentence.end][:MAX_STATEMENT_CHARS]) in _NO_STATEMENTS:
            continue
        for mention in {str(mention.value): mention for mention in reversed(found)}.values():
            yield _dated_statement(sentence, mention)


def _dated_sentences(sentences: Sequence[PlacedSentence], mentions: Sequence[DateMention]) -> dict[int, list[DateMention]]:
    """Number of a sentence → its dates. A date that stands alone belongs to what it stands above or behind."""
    starts = [sentence.start for sentence in sentences]
    dated: dict[int, list[DateMention]] = {}
    for n, group in groupby(mentions, lambda mention: bisect_right(starts, mention.start) - 1):
        found = list(group)
        if n < 0:
            continue
        text = sentences[n].source.document.text
        found = [m for m in found if not _VISITED.search(text[max(0, m.start - 60) : m.start])]
        for target in _targets(sentences, n, found[0]) if len(found) == 1 else [n]:
            dated.setdefault(target, []).extend(found)
    return dated


def _targets(sentences: Sequence[PlacedSentence], n: int, mention: DateMention) -> list[int]:
    """The numbers of the sentences that the only date of a sentence belongs to: itself, unless it is nothing but the date.

    A heading belongs to the sentence or the list below it, a date behind a sentence to that.
    """
    sentence = sentences[n]
    text = sentence.source.document.text
    if any(map(str.isalnum, text[sentence.start : mention.start] + text[mention.end : sentence.end])):
        return [n]
    is_behind = n > 0 and "\n" not in text[sentences[n - 1].end : sentence.start]
    if is_behind:
        return [n - 1]
    below = range(n + 1, min(n + 1 + MAX_LISTED, len(sentences)))
    if not below or sentences[n + 1].text.startswith("#") or len(content_stems(sentences[n + 1].text)) < MIN_COMPARED_WORDS:
        return [n]
    return [*takewhile(lambda k: _ITEM.match(sentences[k].text), below)] or [n + 1]


def _dated_statement(sentence: PlacedSentence, mention: DateMention) -> DatedStatement:
    source, text = sentence.source, sentence.source.document.text
    start, end = sentence.start, sentence.end
    if end - start > MAX_STATEMENT_CHARS:  # a line without sentences: what stands around the date
        inside = min(max(mention.start, start), end)
        start = max(start, text.rfind(" ", start, max(start + 1, inside - MAX_STATEMENT_CHARS // 2)) + 1)
        end = min(end, start + MAX_STATEMENT_CHARS)
    shown = text[start:end]
    spans = [(mention.start, mention.end), *([mention.base] if mention.base else [])]
    rest = shown.replace(text[mention.start : mention.end], " ")
    return DatedStatement(
        mention,
        strip_markup(shown) or collapse_whitespace(shown),
        source.cite(start, end, sentence.chunk_id),
        tuple(source.cite(*span, sentence.chunk_id) for span in spans),
        frozenset(content_stems(rest)) | frozenset(_NUMBER.findall(rest)),
        _NEGATION.search(shown) is not None,
    )


def _timeline_table(statements: Iterable[DatedStatement], about: str, limit: int | None, figures: Counter[str]) -> ResultTable:
    """The table: a row for each statement, or for several that say the same of a date."""
    groups = _merged(statements)
    figures["statements"] = sum(map(len, groups))
    figures["merged"] = figures["statements"] - len(groups)
    shown = groups if limit is None else groups[: max(0, limit)]
    figures["omitted"] = len(groups) - len(shown)
    rows = [_row(group) for group in shown]
    figures["reckoned"] = sum(row.cells[0].note == RECKONED for row in rows)
    title = f"Timeline of {about}" if about else "Timeline"
    return make_table("timeline", title, COLUMNS, rows, _note(figures, about), {name: figures[name] for name in FIGURES})


def _note(figures: Counter[str], about: str) -> str:
    """What a reader should know: that there is nothing, what is left out, and what is reckoned."""
    notes = []
    if not figures["statements"]:
        notes.append(f"No dated statement{f' about “{about}”' * bool(about)} was found. Documents read: {figures['documents']}.")
    if figures["omitted"]:
        notes.append(f"Later rows left out: {figures['omitted']}.")
    if figures["reckoned"]:
        notes.append(f"Dates reckoned from another date: {figures['reckoned']}.")
    if figures["unresolved"]:
        unknown = "Dates such as “yesterday” left out because their documents do not say what day they start from"
        notes.append(f"{unknown}: {figures['unresolved']}.")
    return " ".join(notes)


def _merged(statements: Iterable[DatedStatement]) -> list[list[DatedStatement]]:
    """The statements by date, those that say the same of one date together, the fullest first."""
    groups: list[list[DatedStatement]] = []
    for _, of_date in groupby(sorted(statements, key=_order), key=lambda s: s.value):
        of_this_date: list[list[DatedStatement]] = []
        known: dict[tuple[frozenset[str], bool], list[DatedStatement]] = {}
        for statement in sorted(of_date, key=lambda s: -len(s.words)):
            key = statement.words, statement.is_negated
            group = known.get(key) or next((g for g in of_this_date[-MAX_COMPARED:] if _is_repetition(statement, g[0])), None)
            if group is None:
                group = []
                of_this_date.append(group)
            known.setdefault(key, group)
            group.append(statement)
        groups += sorted(of_this_date, key=lambda group: _order(group[0]))
    return groups


def _order(statement: DatedStatement) -> tuple[Day, tuple[int, ...], str, str, int]:
    """By the first day, of those that begin together the longer first; then by place."""
    value, citation = statement.mention.value, statement.citation
    return value.first_day, tuple(-part for part in value.last_day), str(value), citation.path, citation.start


def _is_repetition(statement: DatedStatement, fuller: DatedStatement) -> bool:
    """Whether another statement of the same date says the same, and maybe more: nearly all words, all numbers, and "not" if it does."""
    if len(statement.words) < MIN_COMPARED_WORDS or statement.is_negated != fuller.is_negated:
        return False
    missing = statement.words - fuller.words
    return len(missing) <= (1 - MIN_COMMON_SHARE) * len(statement.words) and not any(word.isdigit() for word in missing)


def _row(group: Sequence[DatedStatement]) -> TableRow:
    mentions = sorted((statement.mention for statement in group), key=lambda mention: mention.is_reckoned)
    first = next(statement for statement in group if statement.mention is mentions[0])
    citations = dict.fromkeys(citation for statement in [first, *group] for citation in statement.date_citations)
    note = RECKONED if mentions[0].is_reckoned else ""
    date = Cell(mentions[0].text, tuple(citations), value=first.value, note=note)
    what = Cell(group[0].text, tuple(dict.fromkeys(statement.citation for statement in group)))
    paths = dict.fromkeys(format_path(statement.citation.path) for statement in group)
    key = content_id(first.value, *sorted(group[0].words), group[0].is_negated)
    return TableRow((date, what, Cell("; ".join(paths))), key)


# Which sentences are about an entity or a topic

TOPIC_CHUNKS = 50  # retrieved for a topic
# A sentence is about a topic if the reader's relevance and this times the share of the topic's words in it are together above 0.
WORD_SHARE_WEIGHT = 3.0
_PERSONAL_PRONOUN = re.compile(r"\b(?:he|she|er|sie|él|ella|il|elle)\b|^[他她]|[，。；][他她]", re.IGNORECASE)
PRONOUN_CHARS = 60  # at the beginning of a sentence that may hold its subject


def entity_ids_of(about: str, project: Project) -> frozenset[str]:
    """The entities that a text names, by any of their names; none if it also has other words, so that it is a topic."""
    entities = named_entities(about, project)
    remaining = about
    for name in sorted((entity.text for entity in entities), key=len, reverse=True):
        remaining = remaining.replace(name, " ")
    return frozenset() if content_stems(remaining) else frozenset(entity.entity_id for entity in entities)


def chunk_ids_of_entities(entity_ids: frozenset[str], project: Project) -> frozenset[str]:
    """The chunks that mention one of the entities."""
    return frozenset(mention.chunk_id for mention in graph.mentions(project.db, entity_ids))


def chunk_ids_of_topic(topic: str, project: Project) -> frozenset[str]:
    """The chunks that are most relevant to a topic."""
    found = retrieve(topic, project.embedder.embed([topic])[0], project, TOPIC_CHUNKS)
    return frozenset(chunk.id for chunk, _ in found)


def is_in_chunks(sentence: PlacedSentence, chunk_ids: frozenset[str]) -> bool:
    """Whether a sentence is in one of the chunks, also where that overlaps the one that it was read from."""
    chunks = sentence.source.chunks  # in order
    first, last = bisect_right(chunks, sentence.start, key=lambda c: c.end), bisect_left(chunks, sentence.end, key=lambda c: c.start)
    return any(c.id in chunk_ids for c in chunks[first:last])


def are_about_topic(topic: str, texts: Sequence[str], project: Project) -> list[bool]:
    """Whether each text is about a topic. Raises UsageError and ModelError as `read_pairs` does."""
    readings = read_pairs([(topic, text) for text in texts], project)
    return [r.relevance + WORD_SHARE_WEIGHT * word_share(topic, text) > 0 for text, r in zip(texts, readings, strict=True)]


def sentences_about_entities(
    sentences: Sequence[PlacedSentence], entity_ids: frozenset[str], people: frozenset[str], project: Project
) -> Iterator[PlacedSentence]:
    """The sentences of a document that mention one of the entities, and those after one of these that go on with "he" or "she".

    `people`: the entities that are persons (`people_in`). A sentence that goes on follows one that mentions no other person, nor does it.
    """
    mentioned = _mentioned_entities(sentences, project)
    is_about_person, end = False, 0
    for sentence, ids in zip(sentences, mentioned, strict=True):
        is_mentioned = not ids.isdisjoint(entity_ids)
        others = (ids & people) - entity_ids
        gap = sentence.source.document.text[end : sentence.start]
        goes_on = is_about_person and not others and "\n\n" not in gap and bool(_PERSONAL_PRONOUN.search(sentence.text[:PRONOUN_CHARS]))
        if is_mentioned or goes_on:
            yield sentence
        is_about_person = not others and (goes_on or not ids.isdisjoint(entity_ids & people))
        end = sentence.end


def people_in(project: Project) -> frozenset[str]:
    """The entities that are persons."""
    return frozenset(entity.id for entity in graph.entities(project.db) if entity.type == "person")


def _mentioned_entities(sentences: Sequence[PlacedSentence], project: Project) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in sentences]
    starts = [sentence.start for sentence in sentences]
    for mention in graph.mentions_in(project.db, [c.id for c in sentences[0].source.chunks]) if sentences else ():
        n = bisect_right(starts, mention.start) - 1
        if n >= 0 and mention.start < sentences[n].end:
            found[n].add(mention.entity_id)
    return found
