"""Progress of a run: bars on a terminal, plain lines elsewhere, JSON events for a program, and its result."""

import math
import shlex
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.constrain import Constrain
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from localrag.cli.views.console import stderr_console
from localrag.cli.views.terminal import escape_line, format_duration, index_argument, print_note, write_event
from localrag.indexing.progress import extrapolate

if TYPE_CHECKING:
    from localrag.index import Index
    from localrag.indexing.documents import LoadResult
    from localrag.indexing.pipeline import IndexResult
    from localrag.indexing.progress import RunProgress, RunTotals


ACTIVE_STATES = ("working", "waiting")


def format_seconds_left(left: Sequence[float] | None) -> str:
    """The estimated time left: `about 40 s left`, or `estimating` for None."""
    if left is None:
        return "estimating"
    low, high = left
    return "almost done" if high < 1 else f"about {_round(math.sqrt(low * high))} left"


def _round(seconds: float) -> str:
    """An estimated duration with at most two significant digits."""
    if seconds < 60:
        return f"{max(1, round(seconds)) if seconds < 10 else min(55, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes if minutes < 600 else 60 * round(minutes / 60), 60)
    return f"{hours} h" + f" {rest} min" * (rest > 0)


def format_progress(facts: Mapping[str, Any], *, full: bool = True) -> str:
    """The progress of a run in one line; `full` includes the figures that the bars show."""
    parts = []
    if full:
        parts = [percent(facts), f"{facts['stage']} {facts['done']}/{facts['total']}", format_seconds_left(facts["seconds_left"])]
    if facts.get("prefill_tokens_per_s"):
        parts.append(f"read {facts['prefill_tokens_per_s']:.0f} tok/s")
    if facts.get("decode_tokens_per_s"):
        parts.append(f"wrote {facts['decode_tokens_per_s']:.0f} tok/s")
    if facts.get("entities"):
        parts.append(f"{facts['entities']} entities")
    if facts.get("file"):
        parts.append(escape_line(facts["file"]))
    if workers := facts.get("workers"):
        parts.append(f"{sum(row['state'] in ACTIVE_STATES for row in workers)} of {len(workers)} workers")
    return " · ".join(parts)


def percent(facts: Mapping[str, Any]) -> str:
    """The completed share of the run in percent, never 100 % before the end."""
    share = facts["fraction"]
    return "100 %" if share >= 1 else f"{min(99, math.floor(100 * share))} %"


PLAIN_EVERY_S = 30.0  # between lines if stderr is not a terminal


class ProgressView(Progress):
    """Shows a run's progress as bars, or with `shown` "plain" as a line every 30 seconds. No share and no count ever decreases."""

    def __init__(self, shown: str) -> None:
        self._is_plain, self._ended = shown == "plain", threading.Event()
        self._facts: Mapping[str, Any] = {}
        self._set_at = self._share = 0.0
        self._stages: dict[tuple[str, int], tuple[TaskID, float]] = {}  # with its start in seconds since that of the run
        text = Column(no_wrap=True, overflow="ellipsis")
        super().__init__(
            TextColumn("{task.description}", markup=False, table_column=text),
            BarColumn(None, table_column=Column(min_width=6, max_width=30)),
            TextColumn("{task.fields[count]}", justify="right"),
            TextColumn("{task.fields[time]}", table_column=text),
            console=stderr_console,
            refresh_per_second=4,
            disable=shown != "bar",
        )
        self._whole = self.add_task("all", total=1, count="", time="")

    def set(self, facts: Mapping[str, Any], at: float) -> None:
        """Set the progress of a run at time `at` of the monotonic clock."""
        self._facts, self._set_at = facts, at
        self._update_bars(facts)

    def start(self) -> None:
        """Start showing."""
        super().start()
        if self._is_plain:
            threading.Thread(target=self._print_periodically, daemon=True).start()

    def stop(self) -> None:
        """Stop showing; the last state stays visible."""
        self._ended.set()
        if not self.disable:
            super().stop()

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, as many as the terminal has room for, and a line of other figures."""
        if not self._facts:
            return
        if (self._facts["stage"], self._facts["round"]) in self._stages:  # a new bar is drawn while it is added
            self._update_bars(self._now())
        whole, *stages = self.tasks
        shown = [*stages[-max(1, self.console.size.height - 4) :], whole]
        width = self.console.width - 1  # a full line would wrap in some terminals
        yield Constrain(self.make_tasks_table(shown), width)
        yield Constrain(Text(format_progress(self._facts, full=False), "dim", no_wrap=True, overflow="ellipsis"), width)

    def _update_bars(self, facts: Mapping[str, Any]) -> None:
        self._share = max(self._share, facts["fraction"])
        seconds, stage = facts["seconds"], (facts["stage"], facts["round"])
        time_text = format_duration(seconds) if self._share >= 1 else format_seconds_left(facts["seconds_left"])
        self.update(self._whole, completed=self._share, count=percent({"fraction": self._share}), time=time_text)
        if not stage[0]:
            return
        if stage not in self._stages:
            name = f"{stage[0]} {stage[1]}" if stage[1] > 1 else stage[0]
            self._stages[stage] = self.add_task(name, total=0, count="", time=""), seconds
        number, start = self._stages[stage]
        task = next(task for task in self.tasks if task.id == number)
        done, total = max(task.completed, facts["done"]), max(task.total or 0, facts["total"])
        self.update(number, completed=done, total=total, count=f"{done:.0f}/{total:.0f}", time=format_duration(seconds - start))

    def _now(self) -> Mapping[str, Any]:
        return extrapolate(self._facts, time.monotonic() - self._set_at) if self._facts["fraction"] < 1 else self._facts

    def _print_periodically(self) -> None:
        while not self._ended.wait(PLAIN_EVERY_S):
            if self._facts:
                print_note(format_progress(self._now()))


EVENTS_VERSION = 1
MIN_EVENT_INTERVAL_S = 0.2  # between two progress events


class ProgressEvents:
    """Writes the JSON events of a run: start, stage, progress, skipped. The command adds messages and the end."""

    def __init__(self) -> None:
        self._began, self._written_at, self._stage = False, 0.0, ("", 0)

    def step(self, step: "RunProgress") -> None:
        """Write the events since the last step; none before the amount of work is known."""
        if not self._began and step.totals and not step.totals.counted:
            return
        if not self._began:
            self._began, t = True, step.totals
            totals = {"files": t.files, "to_read": t.to_read, "bytes": t.bytes, "chunks": t.chunks} if t else None
            write_event("start", version=EVENTS_VERSION, totals=totals)
        for file in step.skipped_files:
            write_event("skipped", path=file.path, reason=file.reason, failed=file.is_failure)
        if (step.stage, step.round) != self._stage:
            self._stage = step.stage, step.round
            write_event("stage", stage=step.stage, round=step.round, total=step.total, ahead=list(step.stages))
        elif time.monotonic() - self._written_at < MIN_EVENT_INTERVAL_S and step.fraction < 1:
            return
        self._written_at = time.monotonic()
        write_event("progress", **step.to_json())


class IndexProgress:
    """Shows the steps of indexing it is called with. `shown`: auto (bar on a terminal, else plain), bar, plain, json or none."""

    def __init__(self, *, quiet: bool, shown: str = "auto") -> None:
        self.extraction = (0, 0)
        self.shown = progress_style(shown, quiet=quiet)
        self._started = time.monotonic()
        self._events = ProgressEvents()
        self._totals_printed = self.shown == "none"
        self._show_view()

    def _show_view(self) -> None:
        self._view = ProgressView(self.shown)
        self._view.start()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def __call__(self, step: "RunProgress") -> None:
        """Show a step."""
        if step.stage == "extraction":
            self.extraction = (step.done, step.total)
        if self.shown == "json":
            self._events.step(step)
            return
        self._view.set(step.to_json(), time.monotonic())
        if step.totals and step.totals.counted and not self._totals_printed:
            self._totals_printed = True
            if step.totals.to_read:
                print_note(format_totals(step.totals))

    def close(self) -> None:
        """Stop updating the bars, which stay visible."""
        self._view.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the bars while the user is asked a question."""
        self._view.stop()
        yield
        self._show_view()

    def __enter__(self) -> "IndexProgress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def progress_style(shown: str, *, quiet: bool) -> str:
    """Resolve `auto` to bar or plain by the terminal; `quiet` turns everything but JSON events into none."""
    if shown == "json":
        return shown
    if quiet:
        return "none"
    return ("bar" if stderr_console.is_terminal and not stderr_console.is_dumb_terminal else "plain") if shown == "auto" else shown


def format_totals(totals: "RunTotals") -> str:
    """The amount of work of a run, before it begins."""
    unchanged = totals.files - totals.to_read
    size = f"{totals.bytes / 1e6:.1f} MB" if totals.bytes >= 1e5 else f"{max(1, round(totals.bytes / 1e3))} kB"
    unchanged_text = f", {unchanged} known already" if unchanged else ""
    return f"{totals.to_read} files to read ({size}, about {totals.chunks} chunks){unchanged_text}."


def print_result(outcome: "IndexResult", index: "Index", seconds: float) -> None:
    """Print the result of a run: counts, skipped and failed files with reasons, and next commands."""
    counts = index.counts()
    loaded = outcome.documents
    if loaded.n_changed == 0 and outcome.calls == 0:
        print_note(f"Nothing new in {loaded.files} files; the index is complete ({seconds:.1f} s).")
    else:
        names = ("documents", "chunks", "entities", "relationships", "reports")
        print_note(f"{' · '.join(f'{counts[name]} {name}' for name in names)} in {format_duration(seconds)}")
        print_note(" · ".join(_run_figures(outcome, counts["merged"])))
    if loaded.skipped:
        first = ", ".join(f"{escape_line(s.path)} ({s.reason})" for s in loaded.skipped[:3])
        print_note(f"{len(loaded.skipped)} files left out: {first}{' …' if len(loaded.skipped) > 3 else ''}. All: localrag files --skipped")
    print_retained(loaded)
    if outcome.failures:
        why = ", ".join(f"{n} {kind}" for kind, n in Counter(f.kind or "failed" for f in outcome.failures).most_common())
        stages = ", ".join(f"{n} of {stage}" for stage, n in Counter(f.stage for f in outcome.failures).most_common())
        print_note(f"Failed: {stages} ({why}): {outcome.failures[0].reason} Retry: run the same command again. All: localrag status")
    if counts["chunks"] and not counts["entities"]:
        print_note("No entity was found in these files; questions are answered from the passages.")
    if loaded.n_changed or outcome.calls:
        print_note("Next:\n" + "\n".join(f"  {command}" for command in next_commands(index, counts)))


def _run_figures(outcome: "IndexResult", merged: int) -> list[str]:
    loaded = outcome.documents
    kinds = {"new": loaded.new, "changed": loaded.changed, "moved": loaded.moved, "deleted": loaded.deleted}
    parts = [f"{len(paths)} {kind}" for kind, paths in kinds.items() if paths]
    if outcome.calls:
        speed = f" at {outcome.tokens_per_s:.0f} tok/s" if outcome.tokens_per_s else ""
        parts.append(f"{outcome.calls} model calls, {outcome.output_tokens} tokens written{speed}")
    if merged:
        parts.append(f"{merged} names merged into others (localrag merges list)")
    return parts or ["no document has changed"]


def next_commands(opened: "Index", counts: dict[str, int]) -> list[str]:
    """Suggested commands after a run."""
    mode = "global" if counts["reports"] else "basic"
    ask = f'localrag ask "What are the main themes?" --mode {mode}'
    steps = [ask, "localrag chat", "localrag serve", "localrag export html graph.html"]
    return [step + index_argument(opened) for step in steps]


def result_to_json(outcome: "IndexResult", index: "Index", seconds: float) -> dict[str, Any]:
    """The result of a run as JSON."""
    loaded, counts = outcome.documents, index.counts()
    names = ("documents", "chunks", "entities", "relationships", "communities", "reports")
    return {
        "state": "complete" if outcome.complete else "partial",
        "files": loaded.files,
        **{name: list(getattr(loaded, name)) for name in ("new", "changed", "moved", "deleted")},
        "retained": list(loaded.retained_paths),
        "counts": {name: counts[name] for name in names},
        "skipped": [{"path": s.path, "reason": s.reason, "failed": s.is_failure} for s in loaded.skipped],
        "failures": [{"stage": f.stage, "subject": f.subject, "reason": f.reason, "kind": f.kind} for f in outcome.failures],
        "seconds": round(seconds, 1),
        "stage_seconds": outcome.seconds,
        "garbage_collected": {one.kind: {"n": one.n, "bytes": one.bytes} for one in outcome.garbage_collected},
        **{name: getattr(outcome, name) for name in ("calls", "prompt_tokens", "output_tokens", "computed_tokens")},
        "models": index.status()["models"],
        "index": str(index.folder),
        "next": next_commands(index, counts),
    }


def print_retained(loaded: "LoadResult") -> None:
    """Print which documents are retained although their files were not found, and how to remove them."""
    for one in loaded.unreachable:
        n = len(one.documents)
        text = f"{n} documents from there are kept" if n > 1 else "the document from there is kept"
        print_note(f"{escape_line(one.path)} {one.why}: {text}. To remove {'them' if n > 1 else 'it'}: localrag rm {shlex.quote(one.path)}")
    if loaded.retained_paths:
        print_note(
            f"{len(loaded.retained_paths)} documents, more than a third, have no readable file any more; they are kept. "
            "To remove them, run the same command with --prune. List them: localrag files --skipped"
        )
