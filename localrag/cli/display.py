"""What a person sees: progress and outcome on stderr, answers and tables on stdout."""

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
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
from rich.table import Table

from localrag.cli.figures import engine_line
from localrag.records import Answer, Citation, Line, Merge
from localrag.store import corpus, graph
from localrag.text import squeeze

if TYPE_CHECKING:  # a look into an index need not wait for what builds one
    from localrag.config import Domain
    from localrag.index.adapt import Compared
    from localrag.index.pipeline import Outcome
    from localrag.index.pipeline import Progress as StageProgress
    from localrag.llm.project import Project

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)
PLAIN_EVERY = 30.0  # seconds between lines where stderr is no terminal


def say(text: str) -> None:
    """A line for the person at the terminal, on stderr."""
    err.print(escape(text), soft_wrap=True)


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

    def __enter__(self) -> "IndexProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def duration(seconds: float) -> str:
    """`95` → `1 min 35 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def say_outcome(outcome: "Outcome", project: "Project", seconds: float) -> None:
    """The end of a run: what there is now, what was left out and why, what to do next."""
    counts = graph.counts(project.db)
    loaded = outcome.loaded
    if loaded.touched == 0 and project.model.calls == 0:
        say(f"Nothing new in {loaded.files} files; the index is complete ({seconds:.1f} s).")
    else:
        if loaded.changed or loaded.moved or loaded.deleted:
            kinds = {"new": loaded.new, "changed": loaded.changed, "moved": loaded.moved, "deleted": loaded.deleted}
            say(" · ".join(f"{len(found)} {kind}" for kind, found in kinds.items() if found))
        say(
            f"{counts['documents']} documents · {counts['chunks']} chunks · {counts['entities']} entities · {counts['relationships']} "
            f"relationships · {counts['communities']} communities · {counts['reports']} reports in {duration(seconds)} "
            f"({project.model.calls} calls, {project.model.output_tokens} tokens written)"
        )
        merged, noise = len(graph.merges(project.db, done=True)), corpus.noise(project.db)
        say(f"{merged} names made part of others (localrag merges list) · {noise} capitalised words left out as no names")
        if line := engine_line(project.model.report()):
            say(line)
    if loaded.skipped:
        first = ", ".join(f"{s.path} ({s.reason})" for s in loaded.skipped[:3])
        say(f"{len(loaded.skipped)} files left out: {first}{' …' if len(loaded.skipped) > 3 else ''}. All: localrag files --skipped")
    if outcome.failures:
        why = ", ".join(f"{n} {kind}" for kind, n in Counter(f.kind or "failed" for f in outcome.failures).most_common())
        say(f"{_failed_parts(outcome, counts)} ({why}): {outcome.failures[0].reason} Retry: run the same command again.")
    if counts["chunks"] and not counts["entities"]:
        say('No entity was found in these files; questions are answered from the passages: localrag ask "…" --mode basic')
    elif loaded.touched or project.model.calls:
        say('Ask: localrag ask "What are the main themes?" --mode global')


def _failed_parts(outcome: "Outcome", counts: dict[str, int]) -> str:
    n = Counter(f.stage for f in outcome.failures)
    said = {
        "extraction": f"of {counts['chunks']} chunks gave no graph or only a part of it",
        "same entity": "pairs of names were left undecided",
        "description": "entities and relationships have no summary of their descriptions",
        "report": f"of {counts['communities']} communities have no report",
    }
    return " and ".join(f"{n[stage]} {text}" for stage, text in said.items() if n[stage])


class Stream:
    """Prints an answer's text as it comes, where stdout is a terminal."""

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.wrote = False

    def write(self, text: str) -> None:
        """A new stretch of the answer."""
        if self.live:
            self.wrote = True
            sys.stdout.write(text)
            sys.stdout.flush()


def shown_path(path: str, project: "Project") -> str:
    """A stored path as the user would type it here: relative where it lies below the working folder."""
    full = project.root / path
    return os.path.relpath(full) if full.is_relative_to(Path.cwd()) else str(full)


def shown_place(citation: Citation, project: "Project") -> str:
    """The file of a citation, and its page or the like: `report.pdf, page 3`."""
    return shown_path(citation.path, project) + (f", {citation.part}" if citation.part else "")


def answer_json(answer: Answer, project: "Project") -> dict[str, Any]:
    """The answer as `--json` prints it."""
    citations = [
        {"n": c.n, "path": shown_path(c.path, project), "part": c.part, "start": c.start, "end": c.end, "quote": c.quote}
        for c in answer.citations
    ]
    return {
        "answer": answer.answer,
        "answerable": answer.answerable,
        "mode": answer.mode,
        "level": answer.level,
        "citations": citations,
        "calls": answer.calls,
        "prompt_tokens": answer.prompt_tokens,
        "output_tokens": answer.output_tokens,
        "seconds": answer.seconds,
        "style": answer.style,
        "note": answer.note,
        "question": answer.question,
        "asked": answer.asked,
        "reason": answer.reason,
        "unsupported": answer.unsupported,
        "conversation": answer.conversation,
    }


def print_answer(answer: Answer, project: "Project", stream: Stream) -> None:
    """The answer, then each citation with its file and quote; how it came about goes to stderr."""
    if stream.wrote:
        out.print()
    else:
        out.print(_bold_titles(answer.answer))
    if answer.citations:
        out.print()
    for c in answer.citations:
        quote = squeeze(c.quote)
        short = quote if len(quote) <= 100 else quote[:97] + "…"
        out.print(f"[dim]{c.n:>3}  {escape(shown_place(c, project))}:{c.start}-{c.end}  “{escape(short)}”[/dim]")
    level = f", level {answer.level}" if answer.level is not None else ""
    note = f"\n{answer.note}" if answer.note else ""
    cost = f"{answer.calls} calls, {answer.prompt_tokens + answer.output_tokens} tokens, " if answer.calls else ""
    if answer.asked not in ("", answer.question):
        say(f"\nunderstood as: {answer.asked}")
    mode = f"{answer.mode} ({answer.reason})" if answer.reason else answer.mode
    say(f"\nmode: {mode}{level} · {answer.style} · {cost}{answer.seconds:.1f} s · open a source: localrag source 1{note}")


def _bold_titles(text: str) -> str:
    lines = escape(text).split("\n")
    return "\n".join(f"[bold]{line[2:-2]}[/bold]" if line.startswith("**") and line.endswith("**") else line for line in lines)


def print_source(citation: Citation, project: "Project") -> None:
    """The chunk around a citation with the quote marked."""
    out.print(f"[bold]{escape(shown_place(citation, project))}[/bold], characters {citation.start}-{citation.end}\n")
    found = corpus.chunks_by_id(project.db, [citation.chunk_id])
    if not found:
        out.print(escape(citation.quote))
        return
    chunk = found[0]
    a, b = citation.start - chunk.start, citation.end - chunk.start
    out.print(f"{escape(chunk.text[:a])}[reverse]{escape(chunk.text[a:b])}[/reverse]{escape(chunk.text[b:])}")


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
        table.add_row(str(number), escape(m.name), escape(m.into), m.reason, f"{m.score:.2f}")
    out.print(table)


def print_scores(found: dict[str, Any]) -> None:
    """The figures of an evaluation, one a line; gold types last."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in found.items():
        if name != "types":
            table.add_row(name.replace("_", " "), escape(str(value)))
    types = ", ".join(f"{gold} → {asked}" for gold, asked in found["types"].items())
    table.add_row("gold types", escape(types or "none"))
    out.print(table)


def print_retrieval(rows: Sequence[dict[str, Any]]) -> None:
    """A table of retrieval figures, a mode a line."""
    names = [n for n in rows[0] if n not in ("task", "extractor", "passages", "questions", "skipped", "failures")]
    out.print(f"{rows[0]['task']}: {rows[0]['passages']} passages, {rows[0]['questions']} questions, extractor {rows[0]['extractor']}")
    print_rows([{n: row[n] for n in names} for row in rows])


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """A table of figures; what was not measured is a dash."""
    names = {"questions": "n", "evidence_shown": "shown", "evidence_cited": "cited"}
    table = Table(*(names.get(n, n) for n in rows[0]), box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    Console(highlight=False, width=max(out.width, 140)).print(table)  # figures cut off are worse than lines that wrap


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
        table.add_row(name, escape(value))
    out.print(table)


def print_compared(one: "Compared") -> None:
    """The entities of a chunk before and after, those that differ marked."""
    out.print(f"\n[dim]{escape(squeeze(one.chunk.text)[:160])} …[/dim]")
    before, after = ({e.name: e.type for e in x.entities} for x in (one.before, one.after))
    table = Table("name", "before", "after", box=None, pad_edge=False, header_style="dim")
    for name in [*before, *(n for n in after if n not in before)]:
        old, new = before.get(name, "–"), after.get(name, "–")
        table.add_row(escape(name), old, f"[bold]{new}[/bold]" if new != old else new)
    out.print(table)
    out.print(f"[dim]relationships: {len(one.before.relationships)} before, {len(one.after.relationships)} after[/dim]")


def print_lines(lines: Sequence[Line]) -> None:
    """What was looked at, one thing a line; a remedy stands below what needs one."""
    marks = {"ok": "[green]✓[/green]", "warn": "[yellow]![/yellow]", "fail": "[red]✗[/red]"}
    width = max((len(line.name) for line in lines), default=0)
    for line in lines:
        out.print(f"{marks[line.state]} {line.name:<{width}}  {escape(line.text)}")
        if line.remedy:
            out.print(f"  {'':<{width}}  → {escape(line.remedy)}")
