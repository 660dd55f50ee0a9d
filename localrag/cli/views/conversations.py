"""How conversations are listed, shown and written as Markdown."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localrag.cli.views.answers import shown_place
from localrag.cli.views.console import out, styled
from localrag.cli.views.terminal import in_line
from localrag.records import Answer, Citation
from localrag.states import SUPPORTED
from localrag.text.plain import squeeze

TITLE = 70  # characters of a first question
AROUND = 40  # characters shown before words that were looked for
_LOADS = re.compile(r"!\[|\]\(|\]:|<")  # pictures, links, where links lead, HTML
_BEGINS = re.compile(r"^(\s*)(#|>|[-+*]\s|\d+[.)]\s|```|~~~|---)", re.MULTILINE)


def print_conversations(found: Sequence[dict[str, Any]], current: int | None = None) -> None:
    """Conversations with their number, how many answers they have, the time of the last one, and their first question."""
    width = max((len(str(row["id"])) for row in found), default=0)
    for row in found:
        number = (f"{'*' if row['id'] == current else ' '}{row['id']:>{width}}", "bold")
        many = f"{row['answers']} answer{'s' * (row['answers'] != 1)}"
        out.print(styled(number, f"  {_short(row['title'])}  ", (f"{many} · {row['at']}", "dim")))
    if not found:
        out.print("There are no conversations.")


def print_hits(found: Sequence[dict[str, Any]], text: str) -> None:
    """Answers in which words were found: the number of their conversation, the question, and the text around the first of the words."""
    for row in found:
        out.print(styled((str(row["id"]), "bold"), f"  {_short(row['question'])}  ", (row["at"], "dim")))
        if around := _around(row["text"], text.split()):
            out.print(f"   {around}")
    if not found:
        out.print("Nothing was found.")


def print_conversation(found: Sequence[tuple[str, Answer]], root: Path) -> None:
    """Every question of a conversation with its answer and citations, oldest first."""
    for at, made in found:
        out.print(styled((made.question, "bold"), (f"  {at} · {made.mode}", "dim")))
        if made.asked not in ("", made.question):
            out.print(f"understood as: {made.asked}", style="dim")
        out.print(made.answer)
        for c in made.citations:
            place, quote = f"{shown_place(c, root)}:{c.start}-{c.end}", _short(squeeze(c.quote), 100)
            out.print(f"{c.n:>3}  {place}  “{quote}”{_state(made, c)}", style="dim")
        out.print()


def conversation_markdown(answers: Sequence[Answer], root: Path) -> str:
    """A conversation as Markdown: each question a heading, its answer, its citations with file, place and quote.

    What documents, questions and models say is text in it: nothing of it loads a picture, is HTML or hides where a link leads.
    """
    parts = [f"# {_heading(answers[0].question)}" if answers else "# Conversation"]
    for made in answers:
        parts.append(f"## {_heading(made.question)}")
        if made.asked not in ("", made.question):
            parts.append(f"*Understood as: {_inert(squeeze(made.asked))}*")
        parts.append(_inert(made.answer))
        if made.citations:
            parts.append("\n".join(_citation(c, root, _state(made, c)) for c in made.citations))
        if made.note:
            parts.append(f"*{_inert(squeeze(made.note))}*")
    return "\n\n".join(parts) + "\n"


def _state(made: Answer, c: Citation) -> str:
    """The state of a citation, behind two spaces; empty where it proves a sentence."""
    state = made.state_of(c.n)
    return "" if state == SUPPORTED else f"  {state}"


def _citation(c: Citation, root: Path, state: str) -> str:
    return f"- [{c.n}] {_inert(shown_place(c, root))}, characters {c.start}-{c.end}: “{_inert(squeeze(c.quote))}”{state}"


def _heading(question: str) -> str:
    return _inert(squeeze(question))


def _inert(text: str) -> str:
    """Text that Markdown shows as it is, but for bold titles and lists, which answers have."""
    text = _LOADS.sub(lambda m: "&lt;" if m[0] == "<" else f"{m[0][:-1]}\\{m[0][-1]}", in_lines(text))
    return _BEGINS.sub(lambda m: m[0] if m[2][0] in "-+*0123456789" and m[2] != "---" else f"{m[1]}\\{m[2]}", text)


def in_lines(text: str) -> str:
    """A text with its line breaks, and a sign for all else that a terminal would obey."""
    return "\n".join(map(in_line, text.split("\n")))


def _short(text: str, most: int = TITLE) -> str:
    plain = squeeze(text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _around(text: str, words: Sequence[str]) -> str:
    """The stretch of a text around the first place of any of the words; empty where it has none of them."""
    plain = squeeze(text)
    places = [found.start() for w in words if (found := re.search(re.escape(w), plain, re.IGNORECASE))]
    if not places:
        return ""
    start = max(0, min(places) - AROUND)
    stretch = plain[start : start + 3 * AROUND]
    return f"{'…' * (start > 0)}{stretch}{'…' * (start + len(stretch) < len(plain))}"
