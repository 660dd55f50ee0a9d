"""Cells of a review that a chat model writes: a short answer and its quote, which must stand in the passages that were shown."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rapidfuzz import fuzz

from localrag.analysis.amounts import figures_of, find_amounts
from localrag.analysis.review_questions import AnswerKind, ReviewQuestion
from localrag.analysis.review_reading import DocumentSection, SectionReading
from localrag.analysis.tables import Cell, CellState
from localrag.dates.date_mentions import find_dates
from localrag.llm.budgets import TokenDensity, max_json_tokens
from localrag.llm.grammar import json_object
from localrag.llm.model import CALL_ERRORS, INDEXING
from localrag.llm.prompts import load_prompt
from localrag.llm.shapes import Field, schema_of, shape_text
from localrag.project import Project
from localrag.query.passages import Window
from localrag.records import Citation
from localrag.text.language import detect_language
from localrag.text.sentences import cached_sentences, collapse_whitespace

MAX_PASSAGES = 3  # in the prompt
MAX_ANSWER_CHARS, MAX_QUOTE_CHARS, MAX_LISTED = 160, 400, 20
MIN_QUOTE_CHARS, MIN_QUOTE_RATIO = 4, 92  # of 100, from which on a quote stands in a passage
TOKENS_PER_CELL = 900  # of its prompt and answer, as most cells have
SECONDS_PER_CELL = 10.0  # where the model's speed is not known
MODEL_ALONE = "The chat model decided this; the reader is not certain."  # of a model of 1.5 billion weights a third is right
_QUOTE = Field(
    "quote", "the sentence that answers, copied word for word; empty if none does", {"type": "string", "maxLength": MAX_QUOTE_CHARS}
)
_ANSWER_WORDS = {
    AnswerKind.TEXT: "the answer in a few words",
    AnswerKind.DATE: "the date",
    AnswerKind.AMOUNT: "the amount with its unit",
    AnswerKind.LIST: "one of the answers in a few words",
}


def closed_answers(question: ReviewQuestion) -> tuple[str, ...]:
    """The answers among which a question chooses; none of an open one."""
    return ("Yes", "No") if question.kind is AnswerKind.YES_NO else question.choices


def cell_fields(question: ReviewQuestion) -> tuple[Field, ...]:
    """The JSON object that a model writes for a question; the quote comes first, since the answer follows from it."""
    if options := closed_answers(question):
        words = " or ".join(json.dumps(option, ensure_ascii=False) for option in [*options, ""])
        return _QUOTE, Field("answer", words, {"enum": [*options, ""]})
    answer = Field("answer", _ANSWER_WORDS[question.kind], {"type": "string", "maxLength": MAX_ANSWER_CHARS})
    if question.kind is AnswerKind.LIST:
        return (Field("answers", "all answers", {"maxItems": MAX_LISTED}, (_QUOTE, answer)),)
    return _QUOTE, answer


async def write_cell(question: ReviewQuestion, read: SectionReading, section: DocumentSection, project: Project, found: Cell) -> Cell:
    """The cell as the project's chat model writes it from the passages that were read, with the confidence of `found`, the reader's cell.

    That cell stays where the reader found a contradiction, where it decided a question that names its answers or found none of them, where
    the call fails, and where the model's quote or figures do not stand in the passages.
    """
    windows, answers = _windows(read, section), closed_answers(question)
    is_decided = bool(answers) and (found.state is CellState.NOT_STATED or found.text in answers)
    if not windows or is_decided or found.state is CellState.CONTRADICTORY:
        return found
    passages = "\n\n".join(collapse_whitespace(section.source.document.text[w.start : w.end]) for w in windows)
    fields = cell_fields(question)
    schema, prompt = schema_of(fields), load_prompt("abstractive/cell", project.settings.prompts)
    messages = prompt.fill(
        shape=shape_text(fields), document=section.label or section.source.document.path, passages=passages, question=question.text
    )
    script = await TokenDensity.measure(project.model.count, question.text, passages, language=project.settings.language)
    most = await max_json_tokens(schema, script, project.model.count)
    try:
        reply = await project.model.ask("cell", messages, max_tokens=most, grammar=json_object(schema), priority=INDEXING)
    except CALL_ERRORS:
        return found
    written = json.loads(reply.text)
    rows = written["answers"] if question.kind is AnswerKind.LIST else [written]
    return _cell_of(question, [row for row in rows if row["quote"].strip() and row["answer"].strip()], windows, section, found)


def _windows(read: SectionReading, section: DocumentSection) -> list[Window]:
    numbers = list(dict.fromkeys(unit.unit.window for unit in read.units))[:MAX_PASSAGES]
    return [section.windows[n] for n in sorted(numbers)]


def _cell_of(
    question: ReviewQuestion, rows: Sequence[dict[str, Any]], windows: Sequence[Window], section: DocumentSection, found: Cell
) -> Cell:
    """The cell of what a model wrote; `found` where none of it stands in the passages."""
    stated = found.confidence
    if found.state is CellState.NOT_STATED and stated is not None:
        stated = 1 - stated
    if not rows:
        return Cell(state=CellState.NOT_STATED, confidence=None if stated is None else 1 - stated)
    cells = [cell for row in rows if (cell := _answer_cell(question.kind, row["answer"].strip(), row["quote"], windows, section))]
    if not cells:
        return found
    if question.kind is not AnswerKind.LIST:
        (quote,) = cells[0].citations
        if closed_answers(question):
            others = (c for c in found.citations if c.end <= quote.start or quote.end <= c.start)
            return replace(cells[0], citations=(quote, *others), confidence=stated, note=MODEL_ALONE)
        return replace(cells[0], confidence=stated)
    distinct = list({cell.text.casefold(): cell for cell in cells}.values())
    citations = dict.fromkeys(citation for cell in distinct for citation in cell.citations)
    return Cell("; ".join(cell.text for cell in distinct), tuple(citations), confidence=stated, value=float(len(distinct)))


def _answer_cell(kind: AnswerKind, answer: str, quote: str, windows: Sequence[Window], section: DocumentSection) -> Cell | None:
    """The cell of an answer; None if its quote does not stand in a window, or a figure of it not in the quote."""
    cited = find_quote(quote, windows, section)
    if cited is None or not figures_of(answer) <= figures_of(cited.quote):
        return None
    if kind in (AnswerKind.DATE, AnswerKind.AMOUNT):
        return _typed_cell(kind, answer, cited, section)
    return Cell(answer, (cited,))


def _typed_cell(kind: AnswerKind, answer: str, cited: Citation, section: DocumentSection) -> Cell | None:
    """The date or amount of a quote that the answer names, in the quote's words; None if the quote has none that is named."""
    spans: list[tuple[str, str | float]]
    if kind is AnswerKind.DATE:
        language = detect_language(cited.quote)
        spans = [(cited.quote[d.start : d.end], str(d.value)) for d in find_dates(cited.quote, section.source.own_date, language).mentions]
        named = {str(d.value) for d in find_dates(answer, section.source.own_date, language).mentions}
    else:
        spans = [(cited.quote[a.start : a.end], a.value) for a in find_amounts(cited.quote)]
        named = {str(a.value) for a in find_amounts(answer)}
    chosen = next((span for span in spans if str(span[1]) in named), spans[0] if len(spans) == 1 else None)
    return Cell(collapse_whitespace(chosen[0]), (cited,), value=chosen[1]) if chosen else None


def find_quote(quote: str, windows: Sequence[Window], section: DocumentSection) -> Citation | None:
    """The sentences of a window in which a quote stands, but for its case, white space and a slip; None if it stands in none."""
    wanted = collapse_whitespace(quote).strip("\"'“”„… ").casefold()
    best, text = 0.0, section.source.document.text
    found: tuple[Window, int, int] | None = None
    for window in windows if len(wanted) >= MIN_QUOTE_CHARS else ():
        shown = "".join(c if len(c := char.casefold()) == 1 else char for char in re.sub(r"\s", " ", text[window.start : window.end]))
        aligned = fuzz.partial_ratio_alignment(wanted, shown)
        if aligned is not None and len(wanted) <= len(shown) and aligned.score > max(best, MIN_QUOTE_RATIO):
            best, found = aligned.score, (window, aligned.dest_start, aligned.dest_end)
    if found is None:
        return None
    window, first, last = found
    spans = [s for s in cached_sentences(text[window.start : window.end]) if s.end > first and s.start < last]
    start, end = (spans[0].start, spans[-1].end) if spans else (first, last)
    return section.source.cite(window.start + start, window.start + end, window.chunk_id)
