"""A run as a table that a person reads: what was measured down, models across, failures beside every score they taint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localrag.bench.figures import failure_kinds, habit, unreliable

Row = dict[str, Any]
UNMEASURED = "–"


@dataclass(frozen=True, slots=True)
class Table:
    """Lines of (label, a cell for each model), in groups with a heading each. `heads` names the models."""

    heads: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]


def _number(value: float | None, places: int = 0, unit: str = "") -> str:
    return UNMEASURED if value is None else f"{value:,.{places}f}".replace(",", " ") + unit


def _size(value: float | None) -> str:
    return UNMEASURED if value is None else f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _percent(value: float | None) -> str:
    return UNMEASURED if value is None else f"{value:.0%}"


def _score(found: Row, name: str) -> str:
    value = found.get(name)
    return UNMEASURED if value is None else f"{value:.2f}{_lost(found)}"


def _lost(found: Row) -> str:
    """What stands behind every figure that paragraphs without an answer taint."""
    lost = found["failed_paragraphs"]
    return f" (failed {lost} of {found['paragraphs']})" if lost else ""


def _speed(found: Row, name: str) -> str:
    value, spread = found[name], found[f"{name}_sd"]
    return _number(value) + (f" ± {spread:.0f}" if value is not None and spread is not None else "")


def _yes(found: Row) -> str:
    share = _percent(found["yes_share"])
    said = habit(found)
    return f"{share} ({said})" if said else share


def _right(found: Row) -> str:
    lost = found["yes_no_failed"]
    return f"{found['yes_no_right']} of {found['yes_no_asked']}" + (f" (failed {lost})" if lost else "")


def _calibration(found: Row) -> str:
    return "not measured" if found["calibration_error"] is None else f"{found['calibration_error']:.2f}"


def _energy(name: str) -> Callable[[Row], str]:
    return lambda found: "not readable" if found[name] is None else f"{found[name] / 3600:.2f} Wh"


def _parameters(found: Row) -> str:
    n = found["parameters"]
    return UNMEASURED if n is None else f"{n / 1e9:.1f} G" if n >= 1e9 else f"{n / 1e6:.0f} M"


def _answered(found: Row) -> str:
    if found["questions"] is None:
        return UNMEASURED
    lost = found["questions_failed"]
    return f"{found['answered']} of {found['questions']}" + (f" (failed {lost})" if lost else "")


def _index(found: Row) -> str:
    if found["index_s"] is None:
        return UNMEASURED
    lost = found["index_failures"]
    pace = f" ({found['chunks_per_hour']} chunks/h, reports and all)"
    return _number(found["index_s"], 0, " s") + pace + (f" ({lost} parts failed)" if lost else "")


GROUPS: tuple[tuple[str, tuple[tuple[str, Callable[[Row], str]], ...]], ...] = (
    (
        "What it costs",
        (
            ("file", lambda f: _size(f["file_bytes"])),
            ("quantisation", lambda f: f["quantisation"] or UNMEASURED),
            ("computed in", lambda f: f["weights"] or UNMEASURED),
            ("parameters", _parameters),
            ("peak memory", lambda f: _size(f["peak_bytes"])),
            ("… while indexing", lambda f: _size(f["index_peak_bytes"])),
            ("load time", lambda f: _number(f["load_s"], 1, " s")),
        ),
    ),
    (
        "How fast it is",
        (
            ("prefill, tokens/s", lambda f: _speed(f, "prefill_tps")),
            ("decode, tokens/s", lambda f: _speed(f, "decode_tps")),
            ("JSON answers, tokens/s", lambda f: _speed(f, "json_tps")),
            ("answers at once", lambda f: _number(f["slots"])),
            ("English paragraphs/h", lambda f: _number(f["paragraphs_per_hour"]) + _lost(f)),
            ("tokens forced by grammar", lambda f: _percent(f["forced_share"])),
            ("energy of the paragraphs", _energy("joules")),
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
            ("names in the text", lambda f: _percent(f["in_text_share"])),
            ("repeated names", lambda f: f"{f['duplicates']} of {f['listed']}"),
            ("words of the prompt in", lambda f: f"{f['leaked']} of {f['written']} names and descriptions"),
        ),
    ),
    (
        "How well it judges",
        (("yes/no right", _right), ("says yes (half is right)", _yes), ("calibration error", _calibration)),
    ),
    (
        "Standard index and ten questions",
        (
            ("time", _index),
            ("calls", lambda f: _number(f["index_calls"])),
            ("tokens read", lambda f: _number(f["index_prompt_tokens"])),
            ("tokens written", lambda f: _number(f["index_output_tokens"])),
            ("energy", lambda f: UNMEASURED if f["index_s"] is None else _energy("index_joules")(f)),
            ("questions right", _answered),
            ("seconds a question", lambda f: _number(f["question_s"], 1)),
            ("sentences with verified quotes", lambda f: _percent(f["quote_verified"])),
            ("… with words of the prompt", lambda f: _number(f["answer_leaked"])),
        ),
    ),
)


def table(models: Sequence[Row]) -> Table:
    """The models that were measured; those that were not are `errors`."""
    good = [m for m in models if not m["error"]]
    groups = (
        (title, tuple((label, *(cell(m["figures"]) for m in good)) for label, cell in lines))
        for title, lines in GROUPS
        if title != GROUPS[-1][0] or any(m["figures"]["index_s"] is not None for m in good)
    )
    return Table(tuple(m["name"] for m in good), tuple(groups))


def notes(models: Sequence[Row]) -> list[str]:
    """A line for each model that was not measured, or whose scores are not to be relied on."""
    lines = [f"{m['name']}: not measured: {m['error']}" for m in models if m["error"]]
    bad = [(m, why) for m in models if not m["error"] and (why := unreliable(m["figures"]))]
    return lines + [f"{m['name']}: not to be relied on: {why} ({failure_kinds(m)})" for m, why in bad]


def about(run: Row) -> str:
    """The machine and the time in a line."""
    m = run["machine"]
    memory = f", {m['memory'] / 2**30:.0f} GiB" if m["memory"] else ""
    return f"localrag {run['localrag']} · {run['started']} · {m['cpu']}, {m['cores']} cores{memory} · {m['system']}"
