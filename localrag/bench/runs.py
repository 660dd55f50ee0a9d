"""Benchmark runs: measure models one after another in child processes; the table of a run, and the model to recommend."""

import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from localrag import __version__
from localrag.bench.measure import LANGUAGE_NAMES, ModelBenchmark, machine_info
from localrag.errors import UsageError
from localrag.eval.extraction import PrecisionRecall
from localrag.eval.metrics import micro_f1, paired_interval
from localrag.model_files import find_chat_model, merged_models
from localrag.system.child_process import ChildProcess
from localrag.system.files import write_atomically

MAX_FAILURE_SHARE = 0.1  # of calls or paragraphs: from there on a model's scores count as unreliable

ModelRow = dict[str, Any]


def model_metrics(row: ModelRow) -> ModelRow:
    """The metrics of a model's measurements, by the names they are exported under; None for what was not measured."""
    return {**_size(row), **_speed(row), **_extraction(row), **_failures(row)}


def _size(row: ModelRow) -> ModelRow:
    weights = row["engine"].get("weights")
    return {
        "file_bytes": row.get("file_bytes"),
        "quantisation": row.get("quantisation"),
        "weights": row.get("quantisation") if weights == "own" else weights and weights.upper(),
        "parameters": row["parameters"],
        "style": row["style"],
        "peak_bytes": row["peak_bytes"],
        "load_s": row["load_seconds"],
        "slots": row["engine"].get("slots"),
    }


def _speed(row: ModelRow) -> ModelRow:
    figures: ModelRow = {}
    for name, key in (("prefill_tps", "prefill_tokens_per_s"), ("decode_tps", "decode_tokens_per_s"), ("json_tps", "output_tokens_per_s")):
        values = [run[key] for run in row["speeds"] if run[key]]
        figures[name] = round(statistics.mean(values), 1) if values else None
        figures[f"{name}_sd"] = round(statistics.stdev(values), 2) if len(values) > 1 else None
    return figures


def _extraction(row: ModelRow) -> ModelRow:
    read, cost = row["paragraphs"], row["extraction"]
    seconds = cost["seconds"]["en"]
    done = sum(not p["error"] for p in read if p["id"].startswith("en"))
    parts = {f"typed_f1_{k}": _f1(some, "typed") for k in LANGUAGE_NAMES if (some := [p for p in read if p["id"].startswith(k)])}
    return {
        "paragraphs_per_hour": round(3600 * done / seconds) if seconds else None,
        "forced_share": _share_or_none(cost["forced_tokens"], cost["output_tokens"]) if row["speeds"] else None,
        "output_tokens": cost["output_tokens"],
        "names_f1": _f1(read, "names"),
        "typed_f1": _f1(read, "typed"),
        **parts,
        "relation_f1": _f1(read, "relations"),
        "in_text_share": _share_or_none(sum(p["in_text"] for p in read), sum(p["listed"] for p in read)),
        "listed": sum(p["listed"] for p in read),
        "duplicates": sum(p["duplicates"] for p in read),
    }


def f1(counts: Sequence[Sequence[int]]) -> float:
    """The F1 of all items together; counts: (correct, predicted, gold) of each."""
    tally = PrecisionRecall()
    for right, predicted, gold in counts:
        tally.add(right, predicted, gold)
    return tally.f1


def _f1(read: Sequence[ModelRow], name: str) -> float | None:
    return round(f1([p[name] for p in read]), 4) if read else None


def _failures(row: ModelRow) -> ModelRow:
    lost = sum(bool(p["error"]) for p in row["paragraphs"])
    counts = {name: row["extraction"][name] for name in ("calls", "failed_calls")}
    return counts | {"paragraphs": len(row["paragraphs"]), "failed_paragraphs": lost}


def reliability_warning(figures: ModelRow) -> str:
    """Why a model's scores are unreliable, in words; empty if they are reliable."""
    bad = [
        f"failed {figures[f'failed_{name}']} of {figures[name]} {name}"
        for name in ("calls", "paragraphs")
        if figures[name] and figures[f"failed_{name}"] >= MAX_FAILURE_SHARE * figures[name]
    ]
    return ", ".join(bad)


def failure_kinds(row: ModelRow) -> str:
    """Why calls of a model failed, the most frequent reason first."""
    kinds = Counter(p["error"] for p in row["paragraphs"] if p["error"])
    return ", ".join(kind for kind, _ in kinds.most_common(3))


def _share_or_none(part: float, total: float) -> float | None:
    return round(part / total, 4) if total else None


OnProgress = Callable[[str, dict[str, Any]], None]
RunRecord = dict[str, Any]


def measure_models(names: Sequence[str | None], task: ModelBenchmark, on_progress: OnProgress, path: Path | None = None) -> RunRecord:
    """Measure each model, or say why it failed; the run is written to `path` after every one. Raises UsageError if it cannot be."""
    run: RunRecord = {
        "localrag": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_info(),
        "options": {k: v for k, v in asdict(task).items() if k != "model"},
        "models": [],
    }
    for name in dict.fromkeys(names):
        run["models"].append(_one(name, replace(task, model=name), on_progress))
        if path is not None:
            save_run(run, path)
    return run


def _one(name: str | None, task: ModelBenchmark, on_progress: OnProgress) -> dict[str, Any]:
    shown = Path(name).name if name else find_chat_model(None).name
    row: dict[str, Any] = {"name": shown, "given": name or "", "error": ""}

    def heard(line: dict[str, Any]) -> None:
        on_progress(shown, line)

    for step in ("prepare", "measure"):
        answer = run_child(step, task, heard)
        if "error" in answer:
            return row | {"error": answer["error"], "hint": answer["hint"]}
        row |= answer["result"]
    return row | {"figures": model_metrics(row)}


def run_child(step: str, task: ModelBenchmark, on_message: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run `step` of `task` in a child process and return its last message; `on_message` gets those before it. A crash returns an error."""
    with closing(ChildProcess("localrag.bench.measure")) as child:
        with suppress(OSError):  # it ended at its start: its exit code says so
            child.send({"do": step, "task": asdict(task)})
        try:
            while True:
                message: dict[str, Any] = child.receive()
                if "result" in message or "error" in message:
                    return message
                on_message(message)
        except EOFError:
            return {"error": child.why_ended(), "hint": ""}


def save_run(run: RunRecord, path: Path) -> None:
    """Write a run. Raises UsageError if that is not possible."""
    try:
        write_atomically(path, json.dumps(run, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise UsageError(f"The run cannot be written to {path}: {error.strerror}.", "Choose another file: --save FILE") from error


MIN_SPEED_GAIN = 1.2  # times the chunks per hour: least gain for which a faster model of indistinguishable quality is preferred


def recommend_model(models: Sequence[ModelRow]) -> tuple[ModelRow, str] | None:
    """The model with the best mean F1 of typed names and relations, or a faster one as good, and why; None if none is reliable."""
    good = [m for m in models if not m["error"] and not reliability_warning(m["figures"])]
    if not good:
        return None
    best = max(good, key=quality)
    level = [m for m in good if m is not best and _as_good(best, m) and _speed_change(m) >= MIN_SPEED_GAIN * _speed_change(best)]
    chosen = max(level, key=_speed_change, default=best)
    return chosen, _reason(chosen, best, good, len(models))


def quality(model: ModelRow) -> float:
    """The mean of its typed-names F1 and relations F1."""
    figures = model["figures"]
    return float((figures["typed_f1"] + figures["relation_f1"]) / 2)


def _speed_change(model: ModelRow) -> float:
    return float(model["figures"]["paragraphs_per_hour"] or 0.0)


def _as_good(best: ModelRow, other: ModelRow) -> bool:
    """Whether the difference in quality, over the same paragraphs, may be chance."""
    counts_of = {row["id"]: row for row in other["paragraphs"]}
    pairs = [(row, counts_of[row["id"]]) for row in best["paragraphs"] if row["id"] in counts_of]
    values = [[[*side["typed"], *side["relations"]] for side in pair] for pair in pairs]

    def both(counts: Any) -> Any:
        return np.asarray((micro_f1(counts[..., :3]) + micro_f1(counts[..., 3:])) / 2)

    low, high = paired_interval([v[0] for v in values], [v[1] for v in values], both)
    return low <= 0 <= high


def _reason(chosen: ModelRow, best: ModelRow, good: Sequence[ModelRow], asked: int) -> str:
    row = chosen["figures"]
    scores = f"names with types F1 {row['typed_f1']:.2f}, relations F1 {row['relation_f1']:.2f}, {_speed_change(chosen):.0f} paragraphs/h"
    if asked == 1:
        reason = "the only model measured"
    elif len(good) == 1:
        reason = f"the only one of {asked} models to be relied on"
    elif chosen is not best:
        reason = f"as good as {best['name']} within chance and {_speed_change(chosen) / max(_speed_change(best), 1e-9):.1f} times as fast"
    else:
        others = [m for m in good if m is not chosen]
        level = [m["name"] for m in others if _as_good(chosen, m)]
        reason = f"the best of {len(good)}" + (f", though not beyond chance of {', '.join(level)}" if level else "")
    return f"{reason}: {scores}"


def toml_lines(model: ModelRow, reason: str) -> str:
    """The lines for models.toml, with the reason as a comment; a model that is listed already needs only its name as the default."""
    listed = model["name"] in merged_models()["chat"]
    name = model["name"] if listed else _key(model["name"])
    comment, default = f"# localrag bench: {reason}", f"default_chat = {json.dumps(name)}"
    if listed:
        return f"{comment}\n{default}"
    if model["given"].startswith("http"):
        return f"{comment}\n# a model behind a server is not listed there: --model {model['given']}"
    path = json.dumps(model["given"], ensure_ascii=False)
    return f"{comment}\n# to make it the default, at the head of the file: {default}\n[chat.{json.dumps(name)}]\npath = {path}"


def _key(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-").lower()


MISSING = "–"


@dataclass(frozen=True, slots=True)
class ModelTable:
    """Lines of (label, a cell for each model), in groups with a heading each. `heads` are the models' names."""

    heads: tuple[str, ...]
    groups: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]


def _format_number(value: float | None, places: int = 0, unit: str = "") -> str:
    return MISSING if value is None else f"{value:,.{places}f}".replace(",", " ") + unit


def _format_size(value: float | None) -> str:
    return MISSING if value is None else f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def _format_percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"


def _score(figures: ModelRow, name: str) -> str:
    value = figures.get(name)
    return MISSING if value is None else f"{value:.2f}{_lost(figures)}"


def _lost(figures: ModelRow) -> str:
    """The suffix of every figure that depends on paragraphs without an answer."""
    lost = figures["failed_paragraphs"]
    return f" (failed {lost} of {figures['paragraphs']})" if lost else ""


def _format_speed(figures: ModelRow, name: str) -> str:
    value, spread = figures[name], figures[f"{name}_sd"]
    return _format_number(value) + (f" ± {spread:.0f}" if value is not None and spread is not None else "")


def _parameters(figures: ModelRow) -> str:
    n = figures["parameters"]
    return MISSING if n is None else f"{n / 1e9:.1f} G" if n >= 1e9 else f"{n / 1e6:.0f} M"


GROUPS: tuple[tuple[str, tuple[tuple[str, Callable[[ModelRow], str]], ...]], ...] = (
    (
        "What it costs",
        (
            ("file", lambda f: _format_size(f["file_bytes"])),
            ("quantisation", lambda f: f["quantisation"] or MISSING),
            ("computed in", lambda f: f["weights"] or MISSING),
            ("parameters", _parameters),
            ("peak memory", lambda f: _format_size(f["peak_bytes"])),
            ("load time", lambda f: _format_number(f["load_s"], 1, " s")),
        ),
    ),
    (
        "How fast it is",
        (
            ("prefill, tokens/s", lambda f: _format_speed(f, "prefill_tps")),
            ("decode, tokens/s", lambda f: _format_speed(f, "decode_tps")),
            ("JSON answers, tokens/s", lambda f: _format_speed(f, "json_tps")),
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
)


def table(models: Sequence[ModelRow]) -> ModelTable:
    """The table of the measured models; `warnings` lists the others."""
    good = [m for m in models if not m["error"]]
    groups = ((title, tuple((label, *(cell(m["figures"]) for m in good)) for label, cell in lines)) for title, lines in GROUPS)
    return ModelTable(tuple(m["name"] for m in good), tuple(groups))


def warnings(models: Sequence[ModelRow]) -> list[str]:
    """A line for each model that was not measured, or whose scores are unreliable."""
    lines = [f"{m['name']}: not measured: {m['error']}" for m in models if m["error"]]
    bad = [(m, reason) for m in models if not m["error"] and (reason := reliability_warning(m["figures"]))]
    return lines + [f"{m['name']}: not reliable: {reason} ({failure_kinds(m)})" for m, reason in bad]


def run_summary(run: ModelRow) -> str:
    """The machine and the time in a line."""
    m = run["machine"]
    memory = f", {m['memory'] / 2**30:.0f} GiB" if m["memory"] else ""
    return f"localrag {run['localrag']} · {run['started']} · {m['cpu']}, {m['cores']} cores{memory} · {m['system']}"


def recommendation(models: Sequence[ModelRow]) -> str:
    """The lines for models.toml, or the reason why there are none."""
    recommended = recommend_model(models)
    return toml_lines(*recommended) if recommended else "# localrag bench: no model here can be relied on"
