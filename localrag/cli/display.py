"""What a person sees: progress and outcome on stderr, answers and tables on stdout."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from localrag.cli.terminal import in_line, status, visible
from localrag.records import Answer, Citation, Line, Merge
from localrag.store import corpus
from localrag.text import squeeze

if TYPE_CHECKING:  # a look into an index need not wait for what builds one
    from localrag.config import Domain
    from localrag.index.adapt import Compared
    from localrag.index.pipeline import Progress as StageProgress
    from localrag.llm.project import Opened


class Safe(Console):
    """A console on which texts are shown as they are: no markup, no emoji codes, and nothing in them that a terminal would obey.

    Styles are given by `Text`; the console's own orders to the terminal are no text.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Console has it, made safe."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Called where the pipe is gone: the command ends as it does at any other write."""
        raise  # noqa: PLE0704 — within the handler of the BrokenPipeError


out = Safe(soft_wrap=True)
err = Safe(stderr=True)
PLAIN_EVERY = 30.0  # seconds between lines where stderr is no terminal


def say(text: str) -> None:
    """A line for the person at the terminal, on stderr."""
    status.clear()
    err.print(text, soft_wrap=True)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of texts, some with their style: `styled(("bold words", "bold"), " and plain ones")`."""
    return Text.assemble(*parts)


def wide(columns: int) -> Console:
    """Stdout with at least so many columns: figures cut off are worse than lines that wrap."""
    return Safe(width=max(out.width, columns))


def confirmed(question: str, *, default: bool = False) -> bool:
    """Whether a person says yes; no where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    status.clear()
    return typer.confirm(question, default=default, err=True)


class IndexProgress:
    """Called with every step of indexing: a bar per stage on a terminal, else one plain line every 30 seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self.extraction = (0, 0)
        self._quiet = quiet
        self._started = self._spoke = time.monotonic()
        self._stage, self._stage_started, self._tokens_before = "", self._started, 0
        self._tasks: dict[str, TaskID] = {}
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<17}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:>10}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=err,
            transient=False,
        )
        self._live = not quiet and err.is_terminal
        if self._live:
            self._bars.start()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def __call__(self, step: "StageProgress") -> None:
        """Show a step."""
        if step.stage == "extraction":
            self.extraction = (step.done, step.total)
        if step.stage != self._stage:
            self._stage, self._stage_started, self._tokens_before = step.stage, time.monotonic(), step.tokens
        if self._quiet:
            return
        elapsed = time.monotonic() - self._stage_started
        speed = (step.tokens - self._tokens_before) / elapsed if elapsed > 1 else 0.0
        words = f"{speed:.0f} tok/s" if speed else ""
        if self._live:
            if step.stage not in self._tasks:
                self._tasks[step.stage] = self._bars.add_task(step.stage, total=step.total, speed="")
            self._bars.update(self._tasks[step.stage], completed=step.done, total=step.total, speed=words)
        elif time.monotonic() - self._spoke > PLAIN_EVERY:
            self._spoke = time.monotonic()
            left = elapsed / step.done * (step.total - step.done) if step.done else 0
            say(f"{step.stage}: {step.done} of {step.total} {words}" + (f", about {duration(left)} left" if left else ""))

    def close(self) -> None:
        """Leave the bars as they are."""
        if self._live:
            self._bars.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No bar moves: somebody is asked something."""
        self.close()
        yield
        if self._live:
            self._bars.start()

    def __enter__(self) -> "IndexProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def duration(seconds: float) -> str:
    """`95` → `1 min 35 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


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


def shown_path(path: str, opened: "Opened") -> str:
    """A stored path as the user would type it here: relative where it lies below the working folder."""
    full = opened.root / path
    return os.path.relpath(full) if full.is_relative_to(Path.cwd()) else str(full)


def shown_place(citation: Citation, opened: "Opened") -> str:
    """The file of a citation, and its page or the like: `report.pdf, page 3`."""
    return in_line(shown_path(citation.path, opened)) + (f", {citation.part}" if citation.part else "")


def answer_json(answer: Answer, opened: "Opened") -> dict[str, Any]:
    """The answer as `--json` prints it."""
    citations = [
        {"n": c.n, "path": shown_path(c.path, opened), "part": c.part, "start": c.start, "end": c.end, "quote": c.quote}
        for c in answer.citations
    ]
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
        "conversation": answer.conversation,
        "answerable": answer.answerable,
        "confidence": answer.confidence and round(answer.confidence, 3),
    }


def print_answer(answer: Answer, opened: "Opened", stream: Stream) -> None:
    """The answer, then each citation with its file and quote; how it came about goes to stderr."""
    stream.finish(answer.answer)
    if answer.citations:
        out.print()
    for c in answer.citations:
        quote = squeeze(c.quote)
        short = quote if len(quote) <= 100 else quote[:97] + "…"
        out.print(f"{c.n:>3}  {shown_place(c, opened)}:{c.start}-{c.end}  “{short}”", style="dim")
    level = f", level {answer.level}" if answer.level is not None else ""
    note = f"\n{answer.note}" if answer.note else ""
    cost = f"{answer.calls} calls, {answer.prompt_tokens + answer.output_tokens} tokens, " if answer.calls else ""
    if answer.asked not in ("", answer.question):
        say(f"\nunderstood as: {answer.asked}")
    mode = f"{answer.mode} ({answer.reason})" if answer.reason else answer.mode
    say(f"\nmode: {mode}{level} · {answer.style} · {cost}{answer.seconds:.1f} s · open a source: localrag source 1{note}")


def _bold_titles(text: str) -> Text:
    """A stretch of an answer, the lines that are titles in bold."""
    lines = text.split("\n")
    return Text("\n").join(Text(t[2:-2], "bold") if len(t) > 4 and t.startswith("**") and t.endswith("**") else Text(t) for t in lines)


def print_source(citation: Citation, opened: "Opened") -> None:
    """The chunk around a citation with the quote marked."""
    out.print(styled((shown_place(citation, opened), "bold"), f", characters {citation.start}-{citation.end}\n"))
    found = corpus.chunks_by_id(opened.db, [citation.chunk_id])
    if not found:
        out.print(citation.quote)
        return
    chunk = found[0]
    a, b = citation.start - chunk.start, citation.end - chunk.start
    out.print(styled(chunk.text[:a], (chunk.text[a:b], "reverse"), chunk.text[b:]))


def print_bench(figures: dict[str, Any], without: dict[str, dict[str, Any]]) -> None:
    """A run's speed, then that of the runs with a part taken away, and the settings it had."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for name in ("tok/s", "×", "s", "tokens", "forced", "guessed", "shared", "steps", "host"):
        table.add_column(name, justify="right")
    for name, row in {"all parts": figures, **without}.items():
        speed = row["output_tokens_per_s"]
        counts = (str(row[k]) for k in ("output_tokens", "forced_tokens", "drafted_tokens", "prefix_tokens_saved", "steps"))
        table.add_row(
            name, f"{speed}", f"{speed / figures['output_tokens_per_s']:.2f}", f"{row['seconds']}", *counts, f"{row['host_share']:.1%}"
        )
    out.print(table)
    if limit := figures.get("limit"):
        out.print(
            f"llama.cpp's calls alone, one after another: {limit['output_tokens_per_s']} tok/s; reached of that: {limit['share']:.1%}"
        )
    out.print("settings: " + ", ".join(f"{k}={v}" for k, v in figures["settings"].items()), style="dim")


def print_merges(found: Sequence[tuple[int, Merge]]) -> None:
    """A table of merges."""
    table = Table("N", "name", "entity", "reason", "score", box=None, pad_edge=False, header_style="dim")
    for number, m in found:
        table.add_row(str(number), m.name, m.into, m.reason, f"{m.score:.2f}")
    out.print(table)


def print_scores(found: dict[str, Any]) -> None:
    """The figures of an evaluation, one a line; gold types last."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in found.items():
        if name != "types":
            table.add_row(name.replace("_", " "), str(value))
    types = ", ".join(f"{gold} → {asked}" for gold, asked in found["types"].items())
    table.add_row("gold types", types or "none")
    out.print(table)


def print_retrieval(rows: Sequence[dict[str, Any]]) -> None:
    """A table of retrieval figures, a mode a line."""
    names = [n for n in rows[0] if n not in ("task", "extractor", "passages", "questions", "skipped", "failures")]
    out.print(f"{rows[0]['task']}: {rows[0]['passages']} passages, {rows[0]['questions']} questions, extractor {rows[0]['extractor']}")
    print_rows([{n: row[n] for n in names} for row in rows])


def print_support(found: dict[str, Any], rows: int) -> None:
    """The shares of true sentences kept and of false ones refused in percent, all together and by kind."""
    percent = {k: None if v is None else f"{100 * v:.1f}" for k, v in found.items() if k != "by_kind"}
    print_rows([{"rows": rows} | {f"{name} %": value for name, value in percent.items()}])
    if found["by_kind"]:
        out.print()
        shares = [
            (kind, row["rows"], *(None if row[n] is None else f"{100 * row[n]:.1f}" for n in ("kept", "refused")))
            for kind, row in found["by_kind"].items()
        ]
        print_rows([dict(zip(("kind", "rows", "kept %", "refused %"), row, strict=True)) for row in shares])


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """A table of figures; what was not measured is a dash."""
    names = {"questions": "n", "evidence_shown": "shown", "evidence_cited": "cited"}
    table = Table(*(names.get(n, n) for n in rows[0]), box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    wide(140).print(table)


def print_domain(domain: "Domain") -> None:
    """What a tuning found out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in (
        ("about", domain.about),
        ("persona", domain.persona),
        ("language", domain.language),
        ("what matters", domain.rating),
        ("entity types", ", ".join(domain.entity_types)),
        ("examples", str(len(domain.examples))),
    ):
        table.add_row(name, value)
    out.print(table)


def print_compared(one: "Compared") -> None:
    """The entities of a chunk before and after, those that differ marked."""
    out.print(f"\n{squeeze(one.chunk.text)[:160]} …", style="dim")
    before, after = ({e.name: e.type for e in x.entities} for x in (one.before, one.after))
    table = Table("name", "before", "after", box=None, pad_edge=False, header_style="dim")
    for name in [*before, *(n for n in after if n not in before)]:
        old, new = before.get(name, "–"), after.get(name, "–")
        table.add_row(name, old, Text(new, "bold" if new != old else ""))
    out.print(table)
    out.print(f"relationships: {len(one.before.relationships)} before, {len(one.after.relationships)} after", style="dim")


def print_lines(lines: Sequence[Line]) -> None:
    """What was looked at, one thing a line; a remedy stands below what needs one."""
    marks = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        out.print(styled(marks[line.state], f" {line.name:<{width}}  {line.text}"))
        if line.remedy:
            out.print(f"  {'':<{width}}  → {line.remedy}")
