"""What reports say in the documents' own words: the broadest themes, each with how much of the documents it runs through."""

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from localrag.project import Project
from localrag.query.cost import bearing
from localrag.query.draft import Point
from localrag.query.question import Question
from localrag.query.retrieval.context import quoted, readable
from localrag.query.retrieval.retrieve import stems
from localrag.records import Quote, Report, content_id
from localrag.store import corpus, extent, graph
from localrag.text.plain import is_cjk
from localrag.text.quotes import repeats, telling

THEMES = 6  # of an answer
LOOKED_AT = 10  # reports that the themes are chosen from
SENTENCES = 2  # of a theme
BROAD = 1 / 10  # a report that covers less than this share of what the broadest covers does not stand beside it
ALIKE = 0.5  # share of the words of a title that another has too, from which on they say the same
SAMPLE = 200  # passages in which it is counted how common a word is
SPOKEN = 0.7  # what a sentence somebody speaks counts beside one that is told
SHORTEST, LONGEST = 40, 280  # characters of a sentence that is quoted; a Chinese one has a third
NEAR = 2.0  # what nearness to the question counts beside how much a sentence says
_SPEECH = re.compile(r"^[\"'“‘「『]|[“”\"「」].*[“”\"「」]|(?<!\w)'.*'(?!\w)")
_CHAPTER = re.compile(
    r"^(?:#{1,2}[ \t]+\S.*|[ \t]*(?:CHAPTER|Chapter|STAVE|BOOK|ACT|PART|LETTER|CANTO)[ \t]+[\dIVXLCA-Z][^\n]{0,60}"
    r"|[ \t]*第[一二三四五六七八九十百零〇\d]{1,5}[章回节卷][^\n]{0,30})$",
    re.MULTILINE,
)
_SECTION = 1000  # characters; a heading followed by less belongs to a title page or a table of contents


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a report, by the report's place in the order, with its words and what it is worth by its form and the question."""

    theme: int
    quote: Quote
    words: frozenset[str]
    form: float
    near: float


def themes(question: Question, ids: Sequence[str], project: Project) -> tuple[Point, ...]:
    """The reports that bear most on the question, broadest first, in the sentences that together say most of what comes up often."""
    covered = extent.coverage_of(project.db, ids)
    reports = _broadest(question, ids, covered, project)
    chosen = _chosen(_sentences_of(reports, question, project), _commonness(question, project), 1 if question.one_sentence else THEMES)
    order = sorted(chosen, key=lambda n: -covered.get(reports[n].community_id, 0.0))
    said = extents(project, [reports[n].community_id for n in order], chinese=is_cjk(question.text))
    return tuple(quoted(*chosen[n], title=f"{reports[n].title} ({reach})") for n, reach in zip(order, said, strict=True))


def _broadest(question: Question, ids: Sequence[str], covered: Mapping[str, float], project: Project) -> list[Report]:
    """The reports that bear most on the question, some more than are shown: none much narrower than another, none named like another."""
    scores = bearing(question, ids, covered, project)
    best = [i for i, score in scores.items() if score > 0][: 4 * THEMES]
    least = BROAD * max((covered.get(i, 0.0) for i in best), default=0.0)
    kept: list[Report] = []
    for report in graph.reports_of(project.db, [i for i in best if covered.get(i, 0.0) >= least]):
        if report.findings and not any(alike(report.title, other.title) for other in kept):
            kept.append(report)
    return kept[:LOOKED_AT]


def alike(title: str, other: str) -> bool:
    """Whether two titles say the same: half of the words of the shorter are in the longer."""
    a, b = stems(title), stems(other)
    return title == other or len(a & b) > ALIKE * max(1, min(len(a), len(b)))


def _sentences_of(reports: Sequence[Report], question: Question, project: Project) -> list[_Sentence]:
    found: dict[str, tuple[int, Quote]] = {}
    for n, report in enumerate(reports):
        for quote in (q for f in report.findings for q in f.quotes):
            found.setdefault(readable(quote), (n, quote))
    own = [t for t in found if is_cjk(t) == is_cjk(question.text)]
    fit = [t for t in own if SHORTEST <= len(t) * (3 if is_cjk(t) else 1) <= LONGEST and telling(t, 1) > 1] or own or list(found)
    near = (project.embedder.embed(fit) @ question.vector).tolist() if fit else []
    return [
        _Sentence(*found[t], frozenset(stems(t)), SPOKEN if _SPEECH.search(t) else 1.0, float(x)) for t, x in zip(fit, near, strict=True)
    ]


def _commonness(question: Question, project: Project) -> Callable[[str], float]:
    """How much a word tells of what all is about: it comes up in several passages, and not in most."""
    drawn = extent.some_chunks(project.db, SAMPLE, after=content_id(question.options.seed))
    often = Counter(word for c in corpus.chunks_by_id(project.db, drawn) for word in stems(c.text))
    return lambda word: math.log(often[word]) if 2 <= often[word] <= 0.6 * len(drawn) else 0.0


def _chosen(sentences: Sequence[_Sentence], worth: Callable[[str], float], most: int) -> Mapping[int, list[Quote]]:
    """Theme → its sentences, chosen one by one for what they add to all said so far: at most `most` themes."""
    chosen: defaultdict[int, list[Quote]] = defaultdict(list)
    said: set[str] = set()
    left = list(sentences)
    scale = max((sum(map(worth, s.words)) for s in left), default=0.0) or 1.0

    def value(s: _Sentence) -> float:
        return s.form * sum(map(worth, s.words - said)) / scale + NEAR * s.near

    while left:
        best = max(left, key=value)
        chosen[best.theme].append(best.quote)
        said |= best.words
        full = len(chosen) == most
        limit = 1 if most == 1 else SENTENCES
        fits = (s for s in left if s is not best and len(chosen.get(s.theme, ())) < limit and (s.theme in chosen or not full))
        left = [s for s in fits if not repeats(readable(s.quote), readable(best.quote))]
    return chosen


def extents(project: Project, ids: Sequence[str], *, chinese: bool = False) -> list[str]:
    """For each community, in how many of the documents its entities are mentioned; of a single one, in how many chapters, else passages.

    Documents and passages that mention no entity are not counted: there is nothing in them that a theme could run through.
    """
    if not ids:
        return []
    db = project.db
    documents = extent.documents_of_graph(db)
    if len(documents) > 1:
        total, unit, counted = len(documents), ("documents", "份文档"), extent.documents_of(db, ids)
    else:
        places = extent.places_of(db, ids)
        starts = chapters(corpus.document_by_id(db, documents[0]))
        if len(starts) > 1:
            total, unit = len(starts), ("chapters", "章")
            counted = {i: len({n for _, at in places[i] if (n := bisect_right(starts, at))}) for i in ids}
        else:
            total, unit = extent.chunks_of_graph(db), ("passages", "个段落")
            counted = {i: len({c for c, _ in places[i]}) for i in ids}
    if chinese:
        return [f"{total} {unit[1]}中的 {counted.get(i, 0)} {unit[1][0]}" for i in ids]
    return [f"in {counted.get(i, 0)} of {total} {unit[0]}" for i in ids]


def chapters(text: str) -> list[int]:
    """Where the chapters of a book begin; none where it has no such headings."""
    starts = [m.start() for m in _CHAPTER.finditer(text)]
    return [a for a, b in pairwise([*starts, len(text)]) if b - a >= _SECTION]
