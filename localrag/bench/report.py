"""A benchmark run as a table and as Markdown."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localrag.bench.runs import answer_bias, failure_kinds, recommend_model, reliability_warning
from localrag.model_files import merged_models

TableRow = dict[str, Any]
MISSING = "–"


@dataclass(frozen=True, slots=True)
class ModelTable:
    """Lines of (label, a cell for each model), in groups with a heading each. `heads` are the models' names."""

    heads: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]


def _format_number(value: float | None, places: int = 0, unit: str = "") -> str:
    return MISSING if value is None else f"{value:,.{places}f}".replace(",", " ") + unit


def _size(value: float | None) -> str:
    return MISSING if value is None else f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _format_percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"


def _score(figures: TableRow, name: str) -> str:
    value = figures.get(name)
    return MISSING if value is None else f"{value:.2f}{_lost(figures)}"


def _lost(figures: TableRow) -> str:
    """The suffix of every figure that depends on paragraphs without an answer."""
    lost = figures["failed_paragraphs"]
    return f" (failed {lost} of {figures['paragraphs']})" if lost else ""


def _speed(figures: TableRow, name: str) -> str:
    value, spread = figures[name], figures[f"{name}_sd"]
    return _format_number(value) + (f" ± {spread:.0f}" if value is not None and spread is not None else "")


def _yes(figures: TableRow) -> str:
    share = _format_percent(figures["yes_share"])
    bias = answer_bias(figures)
    return f"{share} ({bias})" if bias else share


def _right(figures: TableRow) -> str:
    lost = figures["yes_no_failed"]
    return f"{figures['yes_no_right']} of {figures['yes_no_asked']}" + (f" (failed {lost})" if lost else "")


def _parameters(figures: TableRow) -> str:
    n = figures["parameters"]
    return MISSING if n is None else f"{n / 1e9:.1f} G" if n >= 1e9 else f"{n / 1e6:.0f} M"


def _format_answered(figures: TableRow) -> str:
    if figures["questions"] is None:
        return MISSING
    lost = figures["questions_failed"]
    return f"{figures['answered']} of {figures['questions']}" + (f" (failed {lost})" if lost else "")


def _index(figures: TableRow) -> str:
    if figures["index_s"] is None:
        return MISSING
    lost = figures["index_failures"]
    pace = f" ({figures['chunks_per_hour']} chunks/h, reports and all)"
    return _format_number(figures["index_s"], 0, " s") + pace + (f" ({lost} parts failed)" if lost else "")


GROUPS: tuple[tuple[str, tuple[tuple[str, Callable[[TableRow], str]], ...]], ...] = (
    (
        "What it costs",
        (
            ("file", lambda f: _size(f["file_bytes"])),
            ("quantisation", lambda f: f["quantisation"] or MISSING),
            ("computed in", lambda f: f["weights"] or MISSING),
            ("parameters", _parameters),
            ("peak memory", lambda f: _size(f["peak_bytes"])),
            ("… while indexing", lambda f: _size(f["index_peak_bytes"])),
            ("load time", lambda f: _format_number(f["load_s"], 1, " s")),
        ),
    ),
    (
        "How fast it is",
        (
            ("prefill, tokens/s", lambda f: _speed(f, "prefill_tps")),
            ("decode, tokens/s", lambda f: _speed(f, "decode_tps")),
            ("JSON answers, tokens/s", lambda f: _speed(f, "json_tps")),
            ("answers at once", lambda f: _format_number(f["slots"])),
            ("English paragraphs/h", lambda f: _format_number(f["paragraphs_per_hour"]) + _lost(f)),
            ("tokens forced by grammar", lambda f: _format_percent(f["forced_share"])),
        ),
    ),
    (
        "How well it extracts",
        (
            ("calls", lambda f: f"failed {f['failed_calls']} of {f['calls']}" if f["failed_calls"] else f"{f['calls']}, none failed"),
            ("style", lambda f: f["style"]),
            ("names F1", lambda f: _score(f, "names_f1")),
            ("names with types F1", lambda f: _score(f, "typed_f1")),
            ("… English", lambda f: _score(f, "typed_f1_en")),
            ("… Chinese", lambda f: _score(f, "typed_f1_zh")),
            ("relations F1", lambda f: _score(f, "relation_f1")),
            ("names in the text", lambda f: _format_percent(f["in_text_share"])),
            ("repeated names", lambda f: f"{f['duplicates']} of {f['listed']}"),
        ),
    ),
    (
        "How well it judges",
        (("yes/no right", _right), ("says yes (half is right)", _yes)),
    ),
    (
        "Standard index and ten questions",
        (
            ("time", _index),
            ("calls", lambda f: _format_number(f["index_calls"])),
            ("tokens read", lambda f: _format_number(f["index_prompt_tokens"])),
            ("tokens written", lambda f: _format_number(f["index_output_tokens"])),
            ("questions right", _format_answered),
            ("seconds a question", lambda f: _format_number(f["question_s"], 1)),
            ("sentences with verified quotes", lambda f: _format_percent(f["quote_verified"])),
        ),
    ),
)


def table(models: Sequence[TableRow]) -> ModelTable:
    """The table of the measured models; `warnings` lists the others."""
    good = [m for m in models if not m["error"]]
    groups = (
        (title, tuple((label, *(cell(m["figures"]) for m in good)) for label, cell in lines))
        for title, lines in GROUPS
        if title != GROUPS[-1][0] or any(m["figures"]["index_s"] is not None for m in good)
    )
    return ModelTable(tuple(m["name"] for m in good), tuple(groups))


def warnings(models: Sequence[TableRow]) -> list[str]:
    """A line for each model that was not measured, or whose scores are unreliable."""
    lines = [f"{m['name']}: not measured: {m['error']}" for m in models if m["error"]]
    bad = [(m, reason) for m in models if not m["error"] and (reason := reliability_warning(m["figures"]))]
    return lines + [f"{m['name']}: not reliable: {reason} ({failure_kinds(m)})" for m, reason in bad]


def run_summary(run: TableRow) -> str:
    """The machine and the time in a line."""
    m = run["machine"]
    memory = f", {m['memory'] / 2**30:.0f} GiB" if m["memory"] else ""
    return f"localrag {run['localrag']} · {run['started']} · {m['cpu']}, {m['cores']} cores{memory} · {m['system']}"


def recommendation(models: Sequence[TableRow]) -> str:
    """The best model with the reason, and the command that makes it the default of new indexes."""
    recommended = recommend_model(models)
    if not recommended:
        return "No model here can be relied on."
    model, reason = recommended
    if model["given"].startswith("http"):
        return f"Best here: {model['name']}, {reason}\n→ localrag index PATH --model {model['given']}"
    command = ["models", "use", model["name"]] if model["name"] in merged_models()["chat"] else ["models", "add", model["given"], "--use"]
    return f"Best here: {model['name']}, {reason}\n→ localrag {shlex.join(command)}"


def as_markdown(run: TableRow) -> str:
    """The run as Markdown."""
    made = table(run["models"])
    lines = [run_summary(run), ""]
    if made.heads:
        lines += ["| | " + " | ".join(map(_cell, made.heads)) + " |", "|---" * (1 + len(made.heads)) + "|"]
        for title, group in made.groups:
            lines.append(f"| **{title}** " + "| " * len(made.heads) + "|")
            lines += ["| " + " | ".join(map(_cell, line)) + " |" for line in group]
    notes = [f"- {_cell(note)}" for note in warnings(run["models"])]
    return "\n".join([*lines, "", *notes, *[""] * bool(notes), recommendation(run["models"])]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
