"""TableRequest: which table of the documents to make, from the page or a program; and making it with an opened index."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localrag.analysis.tables import OnWork, ResultTable
from localrag.errors import UsageError
from localrag.filters import NO_FILTER, DocumentFilter
from localrag.project import Project, filter_project
from localrag.query.question import MAX_QUESTION_CHARS

TABLE_KINDS = ("review", "timeline", "list", "compare")
MAX_PATH_CHARS = 4_096
MAX_SECTION_CHARS = 1_000
MAX_LIMIT = 1_000  # rows of a timeline
DEFAULT_DATES = 500  # rows of a timeline


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A table to make. `text`: what a timeline is about, or what to list. `limit`: a number of rows.

    `questions`: of a review, each as it is written; `first`, `second`, `include_same`: of a comparison.
    """

    kind: str
    text: str = ""
    questions: tuple[str, ...] = ()
    rows: str = "document"
    limit: int | None = None
    first: str = ""
    second: str = ""
    include_same: bool = False
    selection: DocumentFilter = NO_FILTER


def _review_request(questions: object, rows: object, selection: DocumentFilter) -> TableRequest:
    """The request of a review of the questions in a list of lines. Raises ValueError and UsageError."""
    from localrag.analysis.review import ROW_KINDS
    from localrag.analysis.review_questions import parse_questions

    if not isinstance(questions, list) or not all(isinstance(line, str) for line in questions):
        raise ValueError("`questions` is a list of texts, a question each.")
    if rows not in ROW_KINDS:
        raise ValueError(f"`rows` is one of {', '.join(ROW_KINDS)}, not {rows!r:.40}.")
    return TableRequest("review", questions=tuple(q.line for q in parse_questions(questions)), rows=str(rows), selection=selection)


def parse_table_request(kind: str, body: Mapping[str, Any], selection: DocumentFilter) -> TableRequest:
    """The request of a kind of table in the values of a JSON object. Raises ValueError and UsageError with a message for the client."""
    if kind == "review":
        return _review_request(body.get("questions"), body.get("rows", "document"), selection)
    if kind == "timeline":
        limit = _limit(body, "limit", DEFAULT_DATES)
        return TableRequest(kind, text_of(body, "about", MAX_QUESTION_CHARS), limit=limit, selection=selection)
    if kind == "list":
        return TableRequest(kind, text_of(body, "request", MAX_QUESTION_CHARS, is_required=True), selection=selection)
    if kind == "compare":
        first, second = (text_of(body, name, MAX_PATH_CHARS, is_required=True) for name in ("first", "second"))
        include_same = body.get("include_same") or False
        if not isinstance(include_same, bool):
            raise ValueError(f"`include_same` is true or false, not {include_same!r:.40}.")
        return TableRequest(kind, first=first, second=second, include_same=include_same)
    raise UsageError(f"There are no tables of kind {kind[:40]!r}.", f"Kinds: {', '.join(TABLE_KINDS)}")


def text_of(body: Mapping[str, Any], name: str, max_chars: int, *, is_required: bool = False) -> str:
    """A text of a JSON object without white space at its ends; empty where it has none. Raises ValueError."""
    value = body.get(name)
    text = value.strip() if isinstance(value, str) else ""
    if (value is not None and not isinstance(value, str)) or len(text) > max_chars or (is_required and not text):
        raise ValueError(f"`{name}` is a text of {'1 to' if is_required else 'at most'} {max_chars:,} characters.")
    return text


def _limit(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_LIMIT:
        raise ValueError(f"`{name}` is a whole number from 1 to {MAX_LIMIT:,}, not {value!r:.40}.")
    return value


def make_requested_table(request: TableRequest, project: Project, on_work: OnWork | None, max_seconds: float | None = None) -> ResultTable:
    """Make the table; `max_seconds` limits a review. Raises UsageError, NoMatchingDocuments, ModelError, and what `on_work` raises."""
    with filter_project(project, request.selection) as chosen:
        if request.kind == "review":
            from localrag.analysis.review import review_documents
            from localrag.analysis.review_questions import parse_questions

            questions = parse_questions(request.questions)
            return review_documents(questions, chosen, rows=request.rows, max_seconds=max_seconds, on_work=on_work)
        if request.kind == "timeline":
            from localrag.analysis.timeline import make_timeline

            return make_timeline(chosen, request.text, limit=request.limit, on_work=on_work)
        if request.kind == "list":
            from localrag.analysis.item_list import list_items

            return list_items(chosen, request.text, on_work=on_work)
        from localrag.analysis.document_diff import compare_documents

        return compare_documents(chosen, request.first, request.second, include_same=request.include_same, on_work=on_work)
