"""Printing of answers, their citations and passages, and conversations."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from localrag import serializers
from localrag.cli.views.console import print_note, stdout_console, styled
from localrag.cli.views.terminal import escape_line, status_line
from localrag.filters import DocumentFilter
from localrag.query.citations import escape_marks
from localrag.records import (
    CONTRADICTED_STATE,
    RELATED_STATE,
    SUPPORTED_STATE,
    UNSUPPORTED_STATE,
    Answer,
    AnswerPassage,
    Chunk,
    Citation,
    with_new_keys,
)
from localrag.text.sentences import collapse_whitespace


class AnswerStream:
    """Prints an answer while it is written, if `live`; otherwise only collects it in `heard`. Short answers in its passages are marked."""

    def __init__(self, *, live: bool) -> None:
        self.live, self.heard = live, ""
        self._passages: list[AnswerPassage] = []

    def add_passage(self, passage: AnswerPassage) -> None:
        """Take a passage whose text comes next."""
        self._passages.append(passage)

    def write(self, text: str) -> None:
        """Add and print the next lines of the answer."""
        self.heard += text
        if self.live:
            status_line.clear()
            stdout_console.print(_mark_answers(_bold_titles(text), self._passages), end="")

    def finish(self, answer: str) -> None:
        """Print the part of the final answer that was not printed yet, or all of it if it differs from the printed part."""
        if not answer.startswith(self.heard):  # the final answer was reworded
            stdout_console.print("\n")
            self.heard = ""
        self.write(answer[len(self.heard) :] + "\n")


def display_path(path: str, root: Path) -> str:
    """A stored path as the user would type it: relative if it is below the working folder."""
    full = root / path
    return os.path.relpath(full) if full.is_relative_to(Path.cwd()) else str(full)


def display_location(citation: Citation, root: Path) -> str:
    """File and part of a citation: `report.pdf, page 3`."""
    return escape_line(display_path(citation.path, root)) + (f", {citation.part}" if citation.part else "")


def answer_json(answer: Answer, root: Path) -> dict[str, Any]:
    """The answer as `--json` prints it."""
    citations = [c | {"path": display_path(c["path"], root)} for c in serializers.citations(answer)]
    found = {
        "answer": answer.answer,
        "mode": answer.mode,
        "level": answer.level,
        "citations": citations,
        "calls": answer.llm_calls,
        "prompt_tokens": answer.prompt_tokens,
        "output_tokens": answer.output_tokens,
        "seconds": answer.seconds,
        "short": answer.short_answer,
        "style": answer.style,
        "note": answer.note,
        "question": answer.question,
        "asked": answer.standalone_question,
        "reason": answer.reason,
        "unsupported": answer.unsupported_sentences,
        "related": answer.related,
        "contradicted": answer.contradicted,
        "sentences": serializers.sentences(answer),
        "passages": [p | {"path": display_path(p["path"], root)} for p in serializers.answer_passages(answer)],
        "conversation": answer.conversation,
        "answerable": answer.is_answerable,
        "confidence": answer.confidence and round(answer.confidence, 3),
        "where": answer.filter_text,
        "collections": list(answer.collections),
    }
    return with_new_keys(found, "short", "asked", "answerable", "unsupported", "where")


def print_answer(answer: Answer, root: Path, stream: AnswerStream, opens: str = "localrag source 1") -> None:
    """Print the answer and its citations, then mode and cost on stderr. `opens` is the command that shows a source."""
    stream.finish(answer.answer)
    if answer.citations:
        stdout_console.print()
    for c in answer.citations:
        quote = collapse_whitespace(c.quote)
        short = quote if len(quote) <= 100 else quote[:97] + "…"
        state = answer.state_of(c.n)
        place = f"{c.n:>3}  {display_location(c, root)}:{c.start}-{c.end}  “{short}”"
        stdout_console.print(styled((place, "dim"), ("" if state == SUPPORTED_STATE else f"  {state}", STATE_COLORS.get(state, ""))))
    level = f", level {answer.level}" if answer.level is not None else ""
    note = f"\n{answer.note}" if answer.note else ""
    cost = f"{answer.llm_calls} calls, {answer.prompt_tokens + answer.output_tokens} tokens, " if answer.llm_calls else ""
    if answer.standalone_question not in ("", answer.question):
        print_note(f"\nunderstood as: {answer.standalone_question}")
    if chosen := DocumentFilter(answer.filter_text, answer.collections):
        print_note(f"\ndocuments: {chosen}")
    mode = f"{answer.mode} ({answer.reason})" if answer.reason else answer.mode
    hint = f" · open a source: {opens}" if opens and answer.citations else ""
    print_note(f"\nmode: {mode}{level} · {answer.style} · {cost}{answer.seconds:.1f} s{hint}{note}")


_STATE_NOTES = {
    RELATED_STATE: "Related: the source is about the topic of the sentence, but does not support it.",
    CONTRADICTED_STATE: "Contradicted: the source differs from the sentence.",
}
STATE_COLORS = {
    RELATED_STATE: "cyan",
    CONTRADICTED_STATE: "bold red",
    UNSUPPORTED_STATE: "yellow",
}  # colours of the marks of unproved sentences


def _bold_titles(text: str) -> Text:
    """Part of an answer with titles in bold and the marks of unproved sentences in colour."""
    lines = text.split("\n")
    shown = Text("\n").join(Text(t[2:-2], "bold") if len(t) > 4 and t.startswith("**") and t.endswith("**") else Text(t) for t in lines)
    for state, style in STATE_COLORS.items():
        shown.highlight_words([f"[{state}]"], style)
    return shown


def _mark_answers(shown: Text, passages: Sequence[AnswerPassage]) -> Text:
    """The text with the short answers underlined where a passage in it has one."""
    for passage in passages:
        at = shown.plain.find(escape_marks(passage.text))
        if passage.marked and at >= 0:
            start, end = (at + len(escape_marks(passage.text[:offset])) for offset in passage.marked)
            shown.stylize("bold underline", start, end)
    return shown


def print_source(citation: Citation, chunk: Chunk | None, root: Path, state: str = SUPPORTED_STATE) -> None:
    """Print the chunk of a citation with the quote marked (only the quote if the chunk is None), and a note if its `state` is no proof."""
    place = " › ".join((display_location(citation, root), *(map(escape_line, chunk.headings) if chunk else ())))
    stdout_console.print(styled((place, "bold"), f", characters {citation.start}-{citation.end}\n"))
    if state in _STATE_NOTES:
        stdout_console.print(styled((f"{_STATE_NOTES[state]}\n", STATE_COLORS[state])))
    if chunk is None:
        stdout_console.print(citation.quote)
        return
    a, b = citation.start - chunk.start, citation.end - chunk.start
    stdout_console.print(styled(chunk.text[:a], (chunk.text[a:b], "reverse"), chunk.text[b:]))


MAX_TITLE_CHARS = 70  # of a first question
CONTEXT_CHARS = 40  # shown before the searched words
_LOADS = re.compile(r"!\[|\]\(|\]:|<")  # images, links, link definitions, HTML
_MARKDOWN_BLOCK_START = re.compile(r"^(\s*)(#|>|[-+*]\s|\d+[.)]\s|```|~~~|---)", re.MULTILINE)


def print_conversations(rows: Sequence[dict[str, Any]], current: int | None = None) -> None:
    """Print conversations: number, first question, number of answers, time of the last one."""
    width = max((len(str(row["id"])) for row in rows), default=0)
    for row in rows:
        number = (f"{'*' if row['id'] == current else ' '}{row['id']:>{width}}", "bold")
        many = f"{row['answers']} answer{'s' * (row['answers'] != 1)}"
        stdout_console.print(styled(number, f"  {_short(row['title'])}  ", (f"{many} · {row['at']}", "dim")))
    if not rows:
        stdout_console.print("There are no conversations.")


def print_hits(rows: Sequence[dict[str, Any]], text: str) -> None:
    """Print the answers that contain the searched words: conversation, question, and the text around the first match."""
    for row in rows:
        stdout_console.print(styled((str(row["id"]), "bold"), f"  {_short(row['question'])}  ", (row["at"], "dim")))
        if around := _around(row["text"], text.split()):
            stdout_console.print(f"   {around}")
    if not rows:
        stdout_console.print("Nothing was found.")


def print_conversation(answers: Sequence[tuple[str, Answer]], root: Path) -> None:
    """Print the questions of a conversation with answers and citations, oldest first."""
    for at, answer in answers:
        stdout_console.print(styled((answer.question, "bold"), (f"  {at} · {answer.mode}", "dim")))
        if answer.standalone_question not in ("", answer.question):
            stdout_console.print(f"understood as: {answer.standalone_question}", style="dim")
        stdout_console.print(answer.answer)
        for c in answer.citations:
            place, quote = f"{display_location(c, root)}:{c.start}-{c.end}", _short(collapse_whitespace(c.quote), 100)
            stdout_console.print(f"{c.n:>3}  {place}  “{quote}”{_state(answer, c)}", style="dim")
        stdout_console.print()


def conversation_markdown(answers: Sequence[Answer], root: Path) -> str:
    """A conversation as Markdown: each question as a heading, with its answer and its citations.

    Text of documents, questions and models is escaped: it cannot load a picture, contain HTML or hide the target of a link.
    """
    parts = [f"# {_heading(answers[0].question)}" if answers else "# Conversation"]
    for answer in answers:
        parts.append(f"## {_heading(answer.question)}")
        if answer.standalone_question not in ("", answer.question):
            parts.append(f"*Understood as: {_escape_markdown(collapse_whitespace(answer.standalone_question))}*")
        parts.append(_escape_markdown(answer.answer))
        if answer.citations:
            parts.append("\n".join(_citation(c, root, _state(answer, c)) for c in answer.citations))
        if answer.note:
            parts.append(f"*{_escape_markdown(collapse_whitespace(answer.note))}*")
    return "\n\n".join(parts) + "\n"


def _state(answer: Answer, c: Citation) -> str:
    """The state of a citation after two spaces; empty if it is supported."""
    state = answer.state_of(c.n)
    return "" if state == SUPPORTED_STATE else f"  {state}"


def _citation(c: Citation, root: Path, state: str) -> str:
    return (
        f"- [{c.n}] {_escape_markdown(display_location(c, root))}, characters {c.start}-{c.end}: "
        f"“{_escape_markdown(collapse_whitespace(c.quote))}”{state}"
    )


def _heading(question: str) -> str:
    return _escape_markdown(collapse_whitespace(question))


def _escape_markdown(text: str) -> str:
    """Escape a text for Markdown, except for bold titles and lists, which answers contain."""
    text = _LOADS.sub(lambda m: "&lt;" if m[0] == "<" else f"{m[0][:-1]}\\{m[0][-1]}", escape_controls_keep_lines(text))
    return _MARKDOWN_BLOCK_START.sub(lambda m: m[0] if m[2][0] in "-+*0123456789" and m[2] != "---" else f"{m[1]}\\{m[2]}", text)


def escape_controls_keep_lines(text: str) -> str:
    """Replace control characters except line breaks by visible signs."""
    return "\n".join(map(escape_line, text.split("\n")))


def _short(text: str, limit: int = MAX_TITLE_CHARS) -> str:
    plain = collapse_whitespace(text)
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"


def _around(text: str, words: Sequence[str]) -> str:
    """The part of a text around the first match of any of the words; empty without a match."""
    plain = collapse_whitespace(text)
    offsets = [match.start() for w in words if (match := re.search(re.escape(w), plain, re.IGNORECASE))]
    if not offsets:
        return ""
    start = max(0, min(offsets) - CONTEXT_CHARS)
    stretch = plain[start : start + 3 * CONTEXT_CHARS]
    return f"{'…' * (start > 0)}{stretch}{'…' * (start + len(stretch) < len(plain))}"
