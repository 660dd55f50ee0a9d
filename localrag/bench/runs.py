"""Benchmark runs: measure models one after another in child processes, store runs, compare models, and recommend one."""

import json
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
from localrag.bench.measure import ModelBenchmark, check_benchmark, machine_info
from localrag.bench.tasks import LANGUAGE_NAMES
from localrag.errors import UsageError
from localrag.eval.extraction import PrecisionRecall
from localrag.eval.metrics import Difference, mean, micro_f1, paired_difference, welch_difference
from localrag.model_files import find_chat_model
from localrag.system.child_process import ChildProcess
from localrag.system.files import cache_dir, ensure_private_folder, write_atomically

SAME_ANSWER_SHARE = 0.9  # share of one answer from which on a model counts as always giving it
MAX_FAILURE_SHARE = 0.1  # of calls or paragraphs: from there on a model's scores count as unreliable

ModelRow = dict[str, Any]


def model_metrics(row: ModelRow) -> ModelRow:
    """The metrics of a model's measurements, by the names they are exported under; None for what was not measured."""
    return {**_size(row), **_speed(row), **_extraction(row), **_yes_no(row), **_index(row), **_questions(row), **_failures(row)}


def _size(row: ModelRow) -> ModelRow:
    weights = row["engine"].get("weights")
    return {
        "file_bytes": row.get("file_bytes"),
        "quantisation": row.get("quantisation"),
        "weights": row.get("quantisation") if weights == "own" else weights and weights.upper(),
        "parameters": row["parameters"],
        "style": row["style"],
        "peak_bytes": row["peak_bytes"],
        "index_peak_bytes": row.get("index_peak_bytes"),
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


def _yes_no(row: ModelRow) -> ModelRow:
    questions = row["yes_no"]
    answered = [q for q in questions if q["said"] is not None]
    return {
        "yes_no_asked": len(questions),
        "yes_no_failed": len(questions) - len(answered),
        "yes_no_right": sum(q["said"] == q["answer"] for q in answered),
        "yes_no_accuracy": _share_or_none(sum(q["said"] == q["answer"] for q in answered), len(questions)),
        "yes_share": _share_or_none(sum(q["said"] for q in answered), len(answered)),
    }


def _index(row: ModelRow) -> ModelRow:
    index = row["index"]
    if not index:
        return dict.fromkeys(("index_s", "chunks_per_hour", "index_calls", "index_prompt_tokens", "index_output_tokens", "index_failures"))
    return {
        "index_s": index["seconds"],
        "chunks_per_hour": round(3600 * index["chunks"] / index["seconds"]),
        "index_calls": index["calls"],
        "index_prompt_tokens": index["prompt_tokens"],
        "index_output_tokens": index["output_tokens"],
        "index_failures": len(index["failures"]),
    }


def _questions(row: ModelRow) -> ModelRow:
    questions = row["questions"]
    names = ("questions", "answered", "questions_failed", "question_s", "question_output_tokens", "quote_verified")
    if not questions:
        return dict.fromkeys(names)
    good = [q for q in questions if not q["error"]]
    sentences = sum(q["sentences"] for q in good)
    values = (
        len(questions),
        sum(q["right"] for q in good),
        len(questions) - len(good),
        round(statistics.mean(q["seconds"] for q in good), 2) if good else None,
        sum(q["output_tokens"] for q in good),
        _share_or_none(sum(q["supported"] for q in good), sentences),
    )
    return dict(zip(names, values, strict=True))


def _failures(row: ModelRow) -> ModelRow:
    index = row["index"] or {"calls": 0, "failed_calls": 0}
    questions = row["yes_no"]
    calls = row["extraction"]["calls"] + index["calls"] + len(questions)
    failed = row["extraction"]["failed_calls"] + index["failed_calls"] + sum(q["said"] is None for q in questions)
    lost = sum(bool(p["error"]) for p in row["paragraphs"])
    return {"calls": calls, "failed_calls": failed, "paragraphs": len(row["paragraphs"]), "failed_paragraphs": lost}


def reliability_warning(figures: ModelRow) -> str:
    """Why a model's scores are unreliable, in words; empty if they are reliable."""
    parts = (
        ("calls", "failed_calls"),
        ("paragraphs", "failed_paragraphs"),
        ("yes_no_asked", "yes_no_failed"),
        ("questions", "questions_failed"),
    )
    names = {"yes_no_asked": "yes/no questions"}
    bad = [
        f"failed {figures[lost]} of {figures[total]} {names.get(total, total)}"
        for total, lost in parts
        if figures[total] and figures[lost] >= MAX_FAILURE_SHARE * figures[total]
    ]
    return ", ".join(bad)


def failure_kinds(row: ModelRow) -> str:
    """Why calls of a model failed, the most frequent reason first."""
    items = [*row["paragraphs"], *row["yes_no"], *row["questions"], *((row["index"] or {}).get("failures", ()))]
    kinds = Counter(kind for one in items if (kind := one.get("error") or one.get("kind")))
    return ", ".join(kind for kind, _ in kinds.most_common(3))


def answer_bias(figures: ModelRow) -> str:
    """The constant answer of a model, "always says yes" or "always says no"; empty if it has none."""
    share = figures["yes_share"]
    if share is None or 1 - SAME_ANSWER_SHARE < share < SAME_ANSWER_SHARE:
        return ""
    return "always says yes" if share >= SAME_ANSWER_SHARE else "always says no"


def _share_or_none(part: float, total: float) -> float | None:
    return round(part / total, 4) if total else None


RUN_FORMAT_VERSION = 1  # of the JSON form of a run

OnProgress = Callable[[str, dict[str, Any]], None]
RunRecord = dict[str, Any]


def measure_models(names: Sequence[str | None], task: ModelBenchmark, on_progress: OnProgress, path: Path) -> RunRecord:
    """Measure each model; the run is written to `path` after every one.

    A file that is no model, or that ends its process, is a row with the reason. Raises UsageError for an unknown style.
    """
    check_benchmark(task)
    run: RunRecord = {
        "version": RUN_FORMAT_VERSION,
        "localrag": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_info(),
        "options": {k: v for k, v in asdict(task).items() if k != "model"},
        "models": [],
    }
    for name in dict.fromkeys(names):
        run["models"].append(_one(name, replace(task, model=name), on_progress))
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


def runs_folder() -> Path:
    """The folder of stored runs."""
    return ensure_private_folder(cache_dir() / "bench")


def new_path() -> Path:
    """The path of a run that begins now."""
    name, folder = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S"), runs_folder()
    return next(p for n in range(1000) if not (p := folder / f"{name}{f'-{n}' if n else ''}.json").exists())


def save_run(run: RunRecord, path: Path) -> None:
    """Write a run. Raises UsageError if that is not possible."""
    try:
        write_atomically(path, json.dumps(run, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise UsageError(f"The run cannot be written to {path}: {error.strerror}.", "Choose another file: --save FILE") from error


def saved_runs() -> list[Path]:
    """The stored runs, oldest first."""
    return sorted(runs_folder().glob("*.json"))


def load_run(name: str) -> RunRecord:
    """Load the run at a path, or of this name in the cache. Raises UsageError."""
    path = _path_of(name)
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        version = run["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is not a run of localrag bench.", "List them: localrag bench runs") from error
    if version != RUN_FORMAT_VERSION:
        raise UsageError(f"{path} is a run of another version of localrag.", "Measure again: localrag bench")
    return dict(run)


def _path_of(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if matching := [p for p in saved_runs() if p.stem == name]:
        return matching[0]
    raise UsageError(f"There is no run {name!r}.", "List them: localrag bench runs")


ComparedRow = dict[str, Any]
LESS_IS_BETTER = {"failed paragraphs", "seconds a question"}
SPEED_METRICS = (
    ("prefill tokens/s", "prefill_tokens_per_s"),
    ("decode tokens/s", "decode_tokens_per_s"),
    ("JSON answers, tokens/s", "output_tokens_per_s"),
)
UNREPEATED_METRICS = (("paragraphs/h", "paragraphs_per_hour"), ("peak memory, MB", "peak_bytes"), ("standard index, s", "index_s"))


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """The difference of two models in one metric; `paired`: over the same items."""

    name: str
    difference: Difference
    paired: bool

    @property
    def verdict(self) -> str:
        """The conclusion from the interval: "first better", "second better", "the same", or that it includes 0 or cannot be given."""
        d = self.difference
        if d.low is None:
            return "one measurement: no interval"
        if d.low == d.high == 0:
            return "the same"
        if not d.is_significant:
            return "the interval includes 0"
        return "second better" if (d.value > 0) != (self.name in LESS_IS_BETTER) else "first better"


def compare_models(first: ComparedRow, second: ComparedRow) -> list[MetricComparison]:
    """Compare two measured models in every metric: by the items that both have, and by repeated speeds."""
    comparisons = [
        _items(name, first["paragraphs"], second["paragraphs"], key)
        for name, key in (("names F1", "names"), ("names with types F1", "typed"), ("relations F1", "relations"))
    ]
    comparisons.append(_shares("failed paragraphs", first, second, "paragraphs", lambda p: bool(p["error"])))
    comparisons.append(_shares("yes/no right", first, second, "yes_no", lambda q: q["said"] == q["answer"]))
    if first["questions"] and second["questions"]:
        comparisons.append(_shares("questions right", first, second, "questions", lambda q: q["right"]))
        if not any(q["error"] for row in (first, second) for q in row["questions"]):
            comparisons.append(_shares("seconds a question", first, second, "questions", lambda q: q["seconds"]))
    return [c for c in comparisons if c] + _speeds(first, second)


def _matched(first: Sequence[ComparedRow], second: Sequence[ComparedRow]) -> list[tuple[ComparedRow, ComparedRow]]:
    key = "question" if first and "question" in first[0] else "id"
    other = {row[key]: row for row in second}
    return [(row, other[row[key]]) for row in first if row[key] in other]


def _items(name: str, first: Sequence[ComparedRow], second: Sequence[ComparedRow], key: str) -> MetricComparison | None:
    pairs = _matched(first, second)
    if not pairs:
        return None
    return MetricComparison(name, paired_difference([a[key] for a, _ in pairs], [b[key] for _, b in pairs], micro_f1), True)


def _shares(name: str, first: ComparedRow, second: ComparedRow, items: str, value: Any) -> MetricComparison | None:
    pairs = _matched(first[items], second[items])
    if not pairs:
        return None
    return MetricComparison(
        name, paired_difference([[float(value(a))] for a, _ in pairs], [[float(value(b))] for _, b in pairs], mean), True
    )


def _speeds(first: ComparedRow, second: ComparedRow) -> list[MetricComparison]:
    comparisons = []
    for name, key in SPEED_METRICS:
        values = [[run[key] for run in row["speeds"] if run[key]] for row in (first, second)]
        if all(values):
            comparisons.append(MetricComparison(name, welch_difference(*values), False))
    for name, key in UNREPEATED_METRICS:
        once = [row["figures"].get(key) for row in (first, second)]
        if all(v is not None for v in once):
            scale = 1e-6 if key.endswith("bytes") else 1.0
            comparisons.append(MetricComparison(name, Difference(once[0] * scale, once[1] * scale, None, None, 1), False))
    return comparisons


def quality_difference(first: ComparedRow, second: ComparedRow) -> Difference:
    """The difference in the mean of typed-names F1 and relations F1, over the same paragraphs."""
    pairs = _matched(first["paragraphs"], second["paragraphs"])
    values = [[[*side["typed"], *side["relations"]] for side in pair] for pair in pairs]

    def both(counts: Any) -> Any:
        return np.asarray((micro_f1(counts[..., :3]) + micro_f1(counts[..., 3:])) / 2)

    return paired_difference([v[0] for v in values], [v[1] for v in values], both)


def models_to_compare(names: Sequence[str]) -> list[tuple[str, ComparedRow, str, ComparedRow]]:
    """(label, model, label, model) for each comparison of one or two runs; `RUN#MODEL` selects a model of a run.

    One run: its first model with each of its others. Two: models of the same file, else, if each run has one, those. Raises UsageError.
    """
    runs = [(name.partition("#")[0], _picked(load_run(name.partition("#")[0]), name.partition("#")[2])) for name in names]
    if len(runs) == 1:
        name, models = runs[0]
        if len(models) < 2:
            raise UsageError(f"{name} measured one model.", "Give a second run: localrag bench compare RUN1 RUN2")
        return [(models[0]["name"], models[0], other["name"], other) for other in models[1:]]
    (a, first), (b, second) = runs
    same = [(x, y) for x in first for y in second if x["fingerprint"] == y["fingerprint"]]
    pairs = same or ([(first[0], second[0])] if len(first) == len(second) == 1 else [])
    if not pairs:
        raise UsageError(
            f"{a} and {b} have no measured model in common.", f"Choose the models: localrag bench compare {a}#{first[0]['name']} {b}#…"
        )
    return [(f"{a}: {x['name']}", x, f"{b}: {y['name']}", y) for x, y in pairs]


def _picked(run: RunRecord, name: str) -> list[ComparedRow]:
    """The measured models of a run, or the one with this name."""
    measured = [m for m in run["models"] if not m["error"] and (not name or m["name"] == name)]
    if not measured:
        names = ", ".join(m["name"] for m in run["models"] if not m["error"]) or "none"
        raise UsageError(f"The run has no measured model{f' {name!r}' if name else ''}.", f"It has: {names}.")
    return measured


MIN_SPEED_GAIN = 1.2  # times the chunks per hour: least gain for which a faster model of indistinguishable quality is preferred

RankedRow = dict[str, Any]


def recommend_model(models: Sequence[RankedRow]) -> tuple[RankedRow, str] | None:
    """The model to take and the reason in a sentence; None if no model is reliable.

    The best mean of typed-names F1 and relations F1; or a faster one whose difference from it is not significant.
    """
    good = [m for m in models if not m["error"] and not reliability_warning(m["figures"])]
    if not good:
        return None
    best = max(good, key=quality)
    level = [m for m in good if m is not best and _as_good(best, m) and _speed_change(m) >= MIN_SPEED_GAIN * _speed_change(best)]
    chosen = max(level, key=_speed_change, default=best)
    return chosen, _reason(chosen, best, good, len(models))


def quality(model: RankedRow) -> float:
    """The mean of its typed-names F1 and relations F1."""
    figures = model["figures"]
    return float((figures["typed_f1"] + figures["relation_f1"]) / 2)


def _speed_change(model: RankedRow) -> float:
    return float(model["figures"]["paragraphs_per_hour"] or 0.0)


def _as_good(best: RankedRow, other: RankedRow) -> bool:
    return not quality_difference(best, other).is_significant


def _reason(chosen: RankedRow, best: RankedRow, good: Sequence[RankedRow], asked: int) -> str:
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
    bias = answer_bias(row)
    return f"{reason}: {scores}" + (f"; {bias}, so leave gleaning off" if bias else "")
