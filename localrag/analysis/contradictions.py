"""Contradictions: pairs of sentences of the documents that cannot both be right, as a table with both quotes, the surest first."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from localrag.analysis.contradiction_check import ReadStatement, contradicts
from localrag.analysis.contradiction_score import (
    MIN_CONTRADICTED,
    Agreement,
    begins_with_pronoun,
    best_agreement,
    contradiction_log_odds,
    may_contradict,
    needs_context,
    prior_log_odds,
    shares_enough_words,
    shares_name,
)
from localrag.analysis.differences import StatementDifference, differences
from localrag.analysis.placed_sentences import PlacedSentence, opened_documents
from localrag.analysis.reading import entailments
from localrag.analysis.statements import (
    ComparedSentence,
    compared_sentences,
    document_similarity,
    neighbor_pairs,
    texts_in_context,
    title_of,
)
from localrag.analysis.tables import Cell, CellState, Column, OnWork, ResultTable, TableRow, make_table
from localrag.llm.model import bounded_map
from localrag.project import Project, resolve_answer_style
from localrag.query.retriever import retrieve, word_share
from localrag.records import content_id
from localrag.store import chunks as chunks_store

KIND = "contradictions"
COLUMNS = (Column("First statement"), Column("Second statement"), Column("What differs"), Column("Newer", "date"))
MAX_STATEMENTS = 20_000
MAX_READ_PAIRS = 1_500  # read once; those that may contradict each other also in the other direction, and without what differs
TOPIC_CHUNKS = 60
MIN_TOPIC_SHARE = 0.5  # of the topic's words in a pair of statements that is on the topic
MIN_VERSION_SIMILARITY = 0.5  # of two versions of a document: "it" means the same in both
MAX_UNNAMED_PENALTY = 1.5  # in log odds, for "the film" of one document and "the film" of another
MAX_ROWS_PER_STATEMENT = 2  # a statement that seems to contradict more is one of a list of different things
MAX_SHOWN_PLACES = 3  # of one statement
MIN_CONFIDENCE = 0.7
# Of usual prose; a pair is read in both directions, and again without each difference, on two cores without instructions for bfloat16.
STATEMENTS_PER_CHUNK, READ_PER_STATEMENT, SECONDS_PER_STATEMENT, SECONDS_PER_PAIR = 10, 3, 0.01, 0.13
MIN_CHECKED_CONFIDENCE, MAX_CHECKED = 0.2, 60  # of the pairs that a chat model which writes prose is asked about

_TIMES = re.compile(r"\b(?:1[89]|20)\d\d\b|\b[vV]?\d{1,4}\.\d{1,4}\.\d{1,4}\b|\b[vV]ersion \d[\d.]*")


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A pair of statements, the earlier first, and their texts as read; what they differ in, and what the reader says without it.

    `prior`: the log odds that they contradict each other, before they are read. They lose `penalty`, as later ones do, because the
    statements share no name and their documents may be about different things.
    """

    first: ComparedSentence
    second: ComparedSentence
    texts: tuple[str, str]
    cosine: float
    prior: float
    penalty: float
    differences: tuple[StatementDifference, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True)
class ContradictionPlan:
    """About how many statements a search for contradictions will compare, and about how many seconds that takes."""

    statements: int
    seconds: float


def plan_contradictions(project: Project, topic: str = "") -> ContradictionPlan:
    """What `find_contradictions` would do, reckoned from the number of chunks. A chat model that writes is asked besides."""
    n_chunks = len(chunks_store.chunk_ids(project.db))
    statements = (min(n_chunks, TOPIC_CHUNKS) if topic.strip() else n_chunks) * STATEMENTS_PER_CHUNK
    compared = min(statements, MAX_STATEMENTS)
    read = min(compared * READ_PER_STATEMENT, MAX_READ_PAIRS)
    return ContradictionPlan(statements, compared * SECONDS_PER_STATEMENT + read * SECONDS_PER_PAIR)


def find_contradictions(project: Project, topic: str = "", *, limit: int = 20, on_work: OnWork | None = None) -> ResultTable:
    """The pairs of sentences that contradict each other, the surest first; with a topic, those on it.

    A chat model that writes prose is asked about the likeliest pairs; those that it confirms come first, and need be less sure.

    Raises UsageError if the reader is switched off, ModelError if a model cannot be loaded.
    """
    found = _statements(project, topic)
    statements = _most_telling(found)
    candidates = [c for c in comparable_pairs(statements, project) if _is_on_topic(c, topic)]
    likely, n_examined = _differing(candidates)
    read = _read_without_differences(_contradicted_pairs(likely, project, on_work), project)
    scored = sorted(((_confidence(c), c) for c in read), key=lambda pair: (-pair[0], pair[1].texts))
    rows = [_row(candidate, confidence) for confidence, candidate in asyncio.run(_confirmed_first(scored, project))[:limit]]
    counts = {"statements": len(found), "statements compared": len(statements), "pairs": len(candidates)}
    counts |= {"pairs examined": n_examined, "pairs read": len(likely)}
    title = f"Contradictions about {topic}" if topic else "Contradictions"
    return make_table(KIND, title, COLUMNS, rows, _note(counts, len(rows)), counts)


def _statements(project: Project, topic: str) -> list[ComparedSentence]:
    chunk_ids = _topic_chunks(topic, project) if topic.strip() else None
    return compared_sentences(opened_documents(project), project, chunk_ids)


def _topic_chunks(topic: str, project: Project) -> set[str]:
    return {chunk.id for chunk, _ in retrieve(topic, project.embedder.embed([topic])[0], project, TOPIC_CHUNKS)}


def _most_telling(statements: Sequence[ComparedSentence]) -> list[ComparedSentence]:
    """At most MAX_STATEMENTS, in order; those with a figure are preferred, because they can be contradicted most surely."""
    ranked = sorted(range(len(statements)), key=lambda n: (not any(map(str.isdigit, statements[n].text)), n))
    return [statements[n] for n in sorted(ranked[:MAX_STATEMENTS])]


def comparable_pairs(statements: Sequence[ComparedSentence], project: Project) -> Iterator[ComparedPair]:
    """The pairs of statements that may be about the same thing, and are not known to be about two, the earlier first."""
    if len(statements) < 2:
        return
    similarity = document_similarity(statements)
    vectors = project.embedder.embed([statement.full_text for statement in statements])
    for pair in neighbor_pairs(statements, vectors):
        first, second = sorted((statements[pair.first], statements[pair.second]), key=_age)
        if _is_comparable(first, second, similarity):
            texts = texts_in_context(first, second)
            distance = 0.0 if shares_name(*texts) else 1 - min(1.0, similarity(first, second) / MIN_VERSION_SIMILARITY)
            penalty = MAX_UNNAMED_PENALTY * distance
            prior = prior_log_odds(*texts, pair.cosine, pair.overlap) - penalty
            yield ComparedPair(first, second, texts, pair.cosine, prior, penalty)


def _age(statement: ComparedSentence) -> tuple[str, str, int]:
    """What sorts statements by date, undated ones last, then by place."""
    place = statement.places[0]
    return _date(statement) or "9999", place.source.document.path, place.start


def _date(statement: ComparedSentence) -> str:
    """The latest date of the documents with a statement; empty if none has a date."""
    return max(place.source.document.date for place in statement.places)


def _is_comparable(
    first: ComparedSentence, second: ComparedSentence, similarity: Callable[[ComparedSentence, ComparedSentence], float]
) -> bool:
    """Whether two statements can be about the same thing at the same time.

    "It" of one document is not that of another, nor is "we", unless both statements name the same thing; what stands under two versions or
    dates in one document was said of two times.
    """
    texts = first.text, second.text
    needing = ((first, second), (second, first))
    unclear = any(needs_context(one.text) and not one.is_about(other.text) for one, other in needing)
    if unclear and (any(map(begins_with_pronoun, texts)) or not shares_name(*texts)) and similarity(first, second) < MIN_VERSION_SIMILARITY:
        return False
    places = [(x, y) for x in first.places for y in second.places if x.source.document.id == y.source.document.id]
    if not places:
        return True
    return any(_heading_times(x) == _heading_times(y) for x, y in places)


def _heading_times(place: PlacedSentence) -> tuple[str, ...]:
    """The years and versions in the headings above a place."""
    return tuple(_TIMES.findall(" ".join(place.source.outline.headings_at(place.start))))


def _is_on_topic(candidate: ComparedPair, topic: str) -> bool:
    return not topic or word_share(topic, " ".join(candidate.texts)) >= MIN_TOPIC_SHARE


def _differing(candidates: Sequence[ComparedPair]) -> tuple[list[ComparedPair], int]:
    """The likeliest candidates that share words and differ in a figure, name, negation or opposite, and how many were examined."""
    found: list[ComparedPair] = []
    ranked = sorted(candidates, key=lambda c: (-c.prior, c.texts))
    for n, candidate in enumerate(ranked):
        if len(found) == MAX_READ_PAIRS:
            return found, n
        differing = tuple(differences(*candidate.texts))
        if differing and shares_enough_words(*candidate.texts):
            found.append(replace(candidate, differences=differing))
    return found, len(ranked)


def _contradicted_pairs(candidates: Sequence[ComparedPair], project: Project, on_work: OnWork | None) -> list[ComparedPair]:
    """The candidates of which the reader says, reading in both directions, that the statements may contradict each other."""
    by_length = sorted(candidates, key=lambda c: sum(map(len, c.texts)))  # pairs of equal length are read together
    readings = entailments([candidate.texts for candidate in by_length], project, on_work)
    forward = [(c, reading) for c, reading in zip(by_length, readings, strict=True) if reading.contradicted > MIN_CONTRADICTED]
    backward = entailments([c.texts[::-1] for c, _ in forward], project)
    return [c for (c, reading), other in zip(forward, backward, strict=True) if may_contradict(reading, other)]


def _read_without_differences(candidates: Sequence[ComparedPair], project: Project) -> list[ComparedPair]:
    """The candidates, with what the reader says when one of their differences is taken away, in both directions."""
    pairs = {pair for c in candidates for d in c.differences for pair in (d.agreeing, d.agreeing[::-1])}
    unique = sorted(pairs, key=lambda pair: (sum(map(len, pair)), pair))
    readings = dict(zip(unique, entailments(unique, project), strict=True))
    return [
        replace(c, agreements=tuple(Agreement(d, (readings[d.agreeing], readings[d.agreeing[::-1]])) for d in c.differences))
        for c in candidates
    ]


def _confidence(candidate: ComparedPair) -> float:
    odds = contradiction_log_odds(*candidate.texts, candidate.cosine, candidate.agreements) - candidate.penalty
    return 1 / (1 + math.exp(-odds))


async def _confirmed_first(scored: Sequence[tuple[float, ComparedPair]], project: Project) -> list[tuple[float, ComparedPair]]:
    """First those that the chat model confirms, if it writes prose, then those that are sure enough without it.

    What it does not confirm stays: of 19 contradictions a model of 1.5 billion parameters confirmed 5, and none of 41 other pairs.
    """
    sure = _varied(scored, MIN_CONFIDENCE)
    if await resolve_answer_style(project) != "abstractive":
        return sure
    asked = _varied(scored, MIN_CHECKED_CONFIDENCE)[:MAX_CHECKED]
    verdicts = await bounded_map(_is_confirmed(candidate, project) for _, candidate in asked)
    confirmed = [(sureness, replace(c, is_confirmed=True)) for (sureness, c), verdict in zip(asked, verdicts, strict=True) if verdict]
    known = {candidate.texts for _, candidate in confirmed}
    return [*confirmed, *(pair for pair in sure if pair[1].texts not in known)]


async def _is_confirmed(candidate: ComparedPair, project: Project) -> bool:
    titles = (title_of(statement.places[0]) for statement in (candidate.first, candidate.second))
    first, second = map(ReadStatement, candidate.texts, titles)
    return await contradicts(first, second, project)


def _varied(scored: Iterable[tuple[float, ComparedPair]], least: float) -> list[tuple[float, ComparedPair]]:
    """Those that are at least so sure; of one statement at most MAX_ROWS_PER_STATEMENT."""
    used: Counter[str] = Counter()
    kept = []
    for confidence, candidate in scored:
        statements = candidate.first.text, candidate.second.text
        if confidence >= least and max(used[text] for text in statements) < MAX_ROWS_PER_STATEMENT:
            used.update(statements)
            kept.append((confidence, candidate))
    return kept


def _row(candidate: ComparedPair, confidence: float) -> TableRow:
    note = "Confirmed by the chat model." if candidate.is_confirmed else ""
    cells = (
        *map(_statement_cell, (candidate.first, candidate.second)),
        Cell(_difference_text(candidate), confidence=confidence, note=note),
    )
    return TableRow((*cells, _newer_cell(candidate)), content_id(candidate.first.text, candidate.second.text))


def _statement_cell(statement: ComparedSentence) -> Cell:
    return Cell(statement.text, tuple(place.citation for place in statement.places[:MAX_SHOWN_PLACES]))


def _difference_text(candidate: ComparedPair) -> str:
    """What differs, such as "number: 30 days / 60 days"."""
    best = best_agreement(candidate.agreements).difference
    words = [_quoted_difference(text, span, best.kind) for text, span in zip(candidate.texts, (best.first, best.second), strict=True)]
    return f"{best.kind}: {' / '.join(words)}"


def _quoted_difference(text: str, span: tuple[int, int], kind: str) -> str:
    """The words of a difference; a number with the word behind it, no words as a dash."""
    start, end = span
    if kind == "number" and (following := re.match(r"[ -]?[^\W\d_]+|\s?[%€$£°]+", text[end:])):
        end += following.end()
    return text[start:end].strip() or "–"


def _newer_cell(candidate: ComparedPair) -> Cell:
    """Which statement is of the newer document."""
    first, second = _date(candidate.first), _date(candidate.second)
    if not (first and second):
        return Cell(state=CellState.NOT_STATED)
    if first == second:
        return Cell(f"same date, {first}", value=first)
    return Cell(f"second, {second} (first: {first})", value=second)


def _note(counts: dict[str, int], n_rows: int) -> str:
    """What was left out, if anything."""
    parts = []
    if counts["statements compared"] < counts["statements"]:
        parts.append(f"Of {counts['statements']:,} statements {counts['statements compared']:,} were compared, those with numbers first.")
    if counts["pairs examined"] < counts["pairs"]:
        parts.append(f"Of {counts['pairs']:,} pairs about the same thing only the {counts['pairs examined']:,} likeliest were examined.")
    if not counts["pairs"]:
        parts.append("There are no two statements about the same thing.")
    elif not n_rows:
        parts.append("No contradiction is sure enough to be shown.")
    return " ".join(parts)
