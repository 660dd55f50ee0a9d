"""How answers, their citations and the passages behind them are printed."""

import os
from pathlib import Path
from typing import Any

from rich.text import Text

from localrag import contents
from localrag.cli.views.console import out, say, styled
from localrag.cli.views.terminal import in_line, status
from localrag.records import Answer, Chunk, Citation
from localrag.states import CONTRADICTED, RELATED, SUPPORTED, UNSUPPORTED
from localrag.text.plain import squeeze
from localrag.where import Selection


class Stream:
    """Prints an answer's text while it comes; where it is not `live`, it only hears it."""

    def __init__(self, *, live: bool) -> None:
        self.live, self.heard = live, ""

    def write(self, text: str) -> None:
        """A new stretch of the answer: whole lines of it."""
        self.heard += text
        if self.live:
            status.clear()
            out.print(_bold_titles(text), end="")

    def finish(self, answer: str) -> None:
        """What of the answer was not written yet."""
        if not answer.startswith(self.heard):  # it was put in other words at its end
            out.print("\n")
            self.heard = ""
        self.write(answer[len(self.heard) :] + "\n")


def shown_path(path: str, root: Path) -> str:
    """A stored path as the user would type it here: relative where it lies below the working folder."""
    full = root / path
    return os.path.relpath(full) if full.is_relative_to(Path.cwd()) else str(full)


def shown_place(citation: Citation, root: Path) -> str:
    """The file of a citation, and its page or the like: `report.pdf, page 3`."""
    return in_line(shown_path(citation.path, root)) + (f", {citation.part}" if citation.part else "")


def answer_json(answer: Answer, root: Path) -> dict[str, Any]:
    """The answer as `--json` prints it."""
    citations = [c | {"path": shown_path(c["path"], root)} for c in contents.citations(answer)]
    return {
        "answer": answer.answer,
        "mode": answer.mode,
        "level": answer.level,
        "citations": citations,
        "calls": answer.calls,
        "prompt_tokens": answer.prompt_tokens,
        "output_tokens": answer.output_tokens,
        "seconds": answer.seconds,
        "short": answer.short,
        "style": answer.style,
        "note": answer.note,
        "question": answer.question,
        "asked": answer.asked,
        "reason": answer.reason,
        "unsupported": answer.unsupported,
        "related": answer.related,
        "contradicted": answer.contradicted,
        "sentences": contents.sentences(answer),
        "conversation": answer.conversation,
        "answerable": answer.answerable,
        "confidence": answer.confidence and round(answer.confidence, 3),
        "where": answer.where,
        "collections": list(answer.collections),
    }


def print_answer(answer: Answer, root: Path, stream: Stream, opens: str = "localrag source 1") -> None:
    """The answer, then each citation with its file and quote; how it came about goes to stderr. `opens` is what opens a source."""
    stream.finish(answer.answer)
    if answer.citations:
        out.print()
    for c in answer.citations:
        quote = squeeze(c.quote)
        short = quote if len(quote) <= 100 else quote[:97] + "…"
        state = answer.state_of(c.n)
        place = f"{c.n:>3}  {shown_place(c, root)}:{c.start}-{c.end}  “{short}”"
        out.print(styled((place, "dim"), ("" if state == SUPPORTED else f"  {state}", MARKS.get(state, ""))))
    level = f", level {answer.level}" if answer.level is not None else ""
    note = f"\n{answer.note}" if answer.note else ""
    cost = f"{answer.calls} calls, {answer.prompt_tokens + answer.output_tokens} tokens, " if answer.calls else ""
    if answer.asked not in ("", answer.question):
        say(f"\nunderstood as: {answer.asked}")
    if chosen := Selection(answer.where, answer.collections):
        say(f"\ndocuments: {chosen}")
    mode = f"{answer.mode} ({answer.reason})" if answer.reason else answer.mode
    hint = f" · open a source: {opens}" if opens and answer.citations else ""
    say(f"\nmode: {mode}{level} · {answer.style} · {cost}{answer.seconds:.1f} s{hint}{note}")


_STATE_NOTES = {
    RELATED: "Related: it is on the topic of the sentence, but does not prove it.",
    CONTRADICTED: "Contradicted: it says something else than the sentence.",
}
MARKS = {RELATED: "cyan", CONTRADICTED: "bold red", UNSUPPORTED: "yellow"}  # colours of the marks of unproved sentences


def _bold_titles(text: str) -> Text:
    """A stretch of an answer with titles in bold and the marks of unproved sentences in colour."""
    lines = text.split("\n")
    shown = Text("\n").join(Text(t[2:-2], "bold") if len(t) > 4 and t.startswith("**") and t.endswith("**") else Text(t) for t in lines)
    for state, style in MARKS.items():
        shown.highlight_words([f"[{state}]"], style)
    return shown


def print_source(citation: Citation, chunk: Chunk | None, root: Path, state: str = SUPPORTED) -> None:
    """Print the chunk of a citation with the quote marked, or the quote alone if it is gone, and a note on a `state` that is no proof."""
    out.print(styled((shown_place(citation, root), "bold"), f", characters {citation.start}-{citation.end}\n"))
    if state in _STATE_NOTES:
        out.print(styled((f"{_STATE_NOTES[state]}\n", MARKS[state])))
    if chunk is None:
        out.print(citation.quote)
        return
    a, b = citation.start - chunk.start, citation.end - chunk.start
    out.print(styled(chunk.text[:a], (chunk.text[a:b], "reverse"), chunk.text[b:]))
