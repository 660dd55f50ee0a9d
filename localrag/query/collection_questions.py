"""Questions about the files themselves: how many there are, which, the newest, which mention a word, what changed.

A small classifier (`adapters/question_kinds.md`) tells such questions from those about what the files say. They are answered from the
store, with and without a chat model, in the question's language.
"""

import glob
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import PurePosixPath

from localrag.dates.date_mentions import find_dates
from localrag.filters import FILE_TYPE_FAMILIES, DocumentFilter, FilterCondition, suffix_of
from localrag.project import Project
from localrag.query.question import AnswerDraft, Question
from localrag.query.question_kind import classifier_probabilities
from localrag.query.retriever import content_stems, named_entities
from localrag.store import documents, full_text
from localrag.store.documents import FileRow
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE, detect_language, frame_text

MIN_COLLECTION = 0.85  # probability from which on a question is about the files
MAX_LISTED = 50  # files in an answer
MAX_TERM_WORDS = 5
_TYPE_OF_WORD = {"spreadsheet": "sheet", "slide": "slides", "presentation": "slides", "email": "mail", "markdown": "markdown"}
DEFAULT_PERIOD = timedelta(days=7)  # of "recently"


class CollectionKind(StrEnum):
    """What is asked about the files."""

    COUNT = "count"
    LIST = "list"
    NEWEST = "newest"
    OLDEST = "oldest"
    NEWEST_CONTENT = "newest_content"
    MENTION = "mention"
    CHANGED = "changed"
    OTHER = "other"


COLLECTION_KINDS = tuple(CollectionKind)
ABOUT_FILES = frozenset(
    """
    file files document documents doc docs text texts note notes list find show mention mentions mentioned contain contains containing word
    name appear appears occur occurs refer refers talk talks about every all
    datei dateien dokument dokumente dokumenten unterlagen wort name erwähnen erwähnt enthalten enthält kommt vorkommt vor etwas steht
    fichier fichiers mentionnent mentionne contiennent apparaît parlent mot archivo archivos documentos mencionan contienen aparece palabra
    """.split()
)
_QUOTED = re.compile(r"[\"“„«「‘]([^\"”“»」’]{2,60})[\"”“»」’]")
_WORD_PATTERN = re.compile(r"[^\W_]+(?:[-.'’][^\W_]+)*")
_OWN_DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_.]?(0[1-9]|1[0-2])(?:[-_.]?(0[1-9]|[12]\d|3[01]))?(?!\d)")


@dataclass(frozen=True, slots=True)
class DatedFile:
    """A document's path and title, its date as text, `YYYY-MM-DD` or shorter, and whether that is its own and not that of the file."""

    path: str
    title: str
    date: str
    is_own_date: bool

    @property
    def line(self) -> str:
        """The file as an item of a list."""
        return (
            f"- `{self.path}`"
            + f" — {self.title}" * (self.title not in ("", PurePosixPath(self.path).stem))
            + f" ({self.date})" * bool(self.date)
        )


def collection_kind(question: str, project: Project) -> CollectionKind:
    """What a question asks about the files; OTHER if it is about what they say, or where the classifier cannot be used."""
    probabilities = classifier_probabilities("collection_questions", question, project)
    if not probabilities:
        return CollectionKind.OTHER
    best = max(range(len(COLLECTION_KINDS)), key=probabilities.__getitem__)
    return COLLECTION_KINDS[best] if probabilities[best] >= MIN_COLLECTION else CollectionKind.OTHER


def file_filter(question: str, project: Project) -> DocumentFilter | None:
    """The filter for a question about one file: that it names, or the newest one, of those that it describes; None for any other."""
    named = documents.named_paths(project.db, question)
    if not named and collection_kind(question, project) is CollectionKind.NEWEST_CONTENT:
        named = [row.path for row in _by_date(_described(question, dated_files(project)))[:1]]
    return DocumentFilter(",".join(str(FilterCondition("path", f"./{glob.escape(path)}")) for path in named)) if named else None


def collection_draft(question: Question, project: Project) -> AnswerDraft | None:
    """The answer to a question about the files; None for one about what they say."""
    kind = collection_kind(question.text, project)
    if kind is CollectionKind.OTHER:
        return None
    if kind is CollectionKind.CHANGED:
        start = _start_of_period(question.text)
        times = [(row, _changed_at(row)) for row in documents.file_rows(project.db)]
        shown = [DatedFile(row.path, row.title, f"{time:%Y-%m-%d %H:%M}", False) for row, time in times if time >= start]
        return _listed(frame_text("changed", question.text, date=f"{start:%Y-%m-%d}", n=len(shown)), shown)
    rows = dated_files(project)
    if kind in (CollectionKind.COUNT, CollectionKind.LIST):
        chosen = _of_type(question.text, rows)
        types = ", ".join(f"{n} {suffix}" for suffix, n in Counter(suffix_of(row.path) for row in chosen).most_common())
        head = frame_text("counted", question.text, n=len(chosen)) + f" ({types})" * bool(types)
        return _listed(head, chosen if kind is CollectionKind.LIST else [])
    if kind in (CollectionKind.NEWEST, CollectionKind.OLDEST):
        ordered = _by_date(_described(question.text, _of_type(question.text, rows)))
        return _listed(frame_text(kind, question.text), ordered[:1] if kind is CollectionKind.NEWEST else ordered[-1:])
    if kind is CollectionKind.MENTION and (term := _searched_term(question.text, project)):
        paths = full_text.paths_with_phrase(project.db, term)
        found = [row for row in rows if row.path in paths]
        return _listed(frame_text("containing", question.text, n=len(found), total=len(rows), term=term), found)
    return None


def dated_files(project: Project) -> list[DatedFile]:
    """All documents by path. A date in a file's name or title is its own, like one of its metadata; else it is that of the file."""
    dated = [(row, own_date(row.path, row.title, row.date, row.date_source)) for row in documents.file_rows(project.db)]
    return [DatedFile(row.path, row.title, own or row.date, bool(own)) for row, own in dated]


def own_date(path: str, title: str, date: str, date_source: str) -> str:
    """The date of a document by its metadata, name or title, `YYYY-MM-DD` or shorter; empty where only that of its file is known."""
    if date and date_source == "metadata":
        return date
    for text in (PurePosixPath(path).name, title):
        if found := _OWN_DATE.search(text):
            return "-".join(filter(None, found.groups()))
    written = (mention.value for mention in find_dates(title, language=detect_language(title)).mentions)
    return next((str(v) for v in written if v.start == v.end and v.start and v.start.day), date if date_source == "name" else "")


def _by_date(rows: Sequence[DatedFile]) -> list[DatedFile]:
    """Newest first; only those with a date of their own, if there are such."""
    return sorted([row for row in rows if row.is_own_date] or rows, key=lambda row: row.date, reverse=True)


def _described(question: str, rows: Sequence[DatedFile]) -> Sequence[DatedFile]:
    """The files that a question describes by a word of their path or title, as "latest minutes" does; all if it describes none."""
    wanted = content_stems(question) - content_stems(" ".join(ABOUT_FILES))
    described = [row for row in rows if wanted & content_stems(f"{row.path} {row.title}".replace("-", " ").replace("_", " "))]
    return described or rows


def _of_type(question: str, rows: Sequence[DatedFile]) -> Sequence[DatedFile]:
    """The files of a type that a question names, such as "PDFs" or "spreadsheets"; all if it names none."""
    present = {suffix_of(row.path) for row in rows}
    for word in (word.lower().removesuffix("s") for word in _WORD_PATTERN.findall(question)):
        suffixes = {word} & present or set(FILE_TYPE_FAMILIES.get(_TYPE_OF_WORD.get(word, ""), ()))
        if suffixes:
            return [row for row in rows if suffix_of(row.path) in suffixes]
    return rows


def _searched_term(question: str, project: Project) -> str:
    """What a question looks for in files: what it quotes, a name of the index, else the last words in it that the documents have."""
    if quoted := _QUOTED.search(question):
        return quoted[1].strip()
    named = [n.text for n in named_entities(question, project) if n.text.lower() not in ABOUT_FILES]
    if named:
        return max(named, key=len)
    function_words = frozenset(FUNCTION_WORDS_BY_LANGUAGE.get(detect_language(question), FUNCTION_WORDS_BY_LANGUAGE["en"]).split())
    telling = [m for m in _WORD_PATTERN.finditer(question) if m[0].lower() not in ABOUT_FILES | function_words]
    candidates = [
        question[telling[a].start() : telling[b].end()]
        for b in reversed(range(len(telling)))
        for a in range(max(0, b + 1 - MAX_TERM_WORDS), b + 1)
    ]
    return next((c for c in candidates if full_text.paths_with_phrase(project.db, c)), candidates[0] if candidates else "")


def _start_of_period(question: str) -> datetime:
    """From when on a question asks for changes; the last days if it names no time."""
    import dateparser.search  # slow import, seldom needed

    found = dateparser.search.search_dates(question, settings={"PREFER_DATES_FROM": "past", "TIMEZONE": "UTC", "TO_TIMEZONE": "UTC"})
    start = found[-1][1] if found else datetime.now(UTC) - DEFAULT_PERIOD
    start = start.replace(tzinfo=UTC) if start.tzinfo is None else start
    return start.replace(hour=0, minute=0, second=0, microsecond=0)


def _changed_at(row: FileRow) -> datetime:
    added = datetime.fromisoformat(row.added_at).replace(tzinfo=UTC)
    return max(added, datetime.fromtimestamp(row.mtime_ns / 1e9, UTC)) if row.mtime_ns else added


def _listed(head: str, rows: Sequence[DatedFile]) -> AnswerDraft:
    lines = [row.line for row in rows[:MAX_LISTED]]
    more = [f"- … {len(rows) - MAX_LISTED}"] * (len(rows) > MAX_LISTED)
    return AnswerDraft((), "\n".join([head, "", *lines, *more]) if lines else head, reason="it asks about the files")
