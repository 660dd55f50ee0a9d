"""`localrag bench compare`: two measurements of models, item by item, with how sure each difference is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from localrag.bench.run import Run, load_run
from localrag.errors import UsageError
from localrag.eval.intervals import Difference, mean, micro_f1, paired, unpaired

Row = dict[str, Any]
LESS_IS_BETTER = {"failed paragraphs", "Brier score", "seconds a question"}
SPEEDS = (
    ("prefill tokens/s", "prefill_tokens_per_s"),
    ("decode tokens/s", "decode_tokens_per_s"),
    ("JSON answers, tokens/s", "output_tokens_per_s"),
)
ONCE = (("paragraphs/h", "paragraphs_per_hour"), ("peak memory, MB", "peak_bytes"), ("standard index, s", "index_s"))


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing two models are compared in; `paired`: over the same items."""

    name: str
    difference: Difference
    paired: bool

    @property
    def verdict(self) -> str:
        """What the interval says: "first better", "second better", "the same", or that it includes 0 or cannot be given."""
        d = self.difference
        if d.low is None:
            return "one measurement: no interval"
        if d.low == d.high == 0:
            return "the same"
        if not d.sure:
            return "the interval includes 0"
        return "second better" if (d.value > 0) != (self.name in LESS_IS_BETTER) else "first better"


def compare(first: Row, second: Row) -> list[Compared]:
    """Everything two measured models can be compared in: by the items both were given, and by repeated speeds."""
    found = [
        _items(name, first["paragraphs"], second["paragraphs"], key)
        for name, key in (("names F1", "names"), ("names with types F1", "typed"), ("relations F1", "relations"))
    ]
    found.append(_shares("failed paragraphs", first, second, "paragraphs", lambda p: bool(p["error"])))
    found.append(_shares("yes/no right", first, second, "yes_no", lambda q: q["said"] == q["answer"]))
    if all(q["p_yes"] is not None for row in (first, second) for q in row["yes_no"]):
        found.append(_shares("Brier score", first, second, "yes_no", lambda q: (q["p_yes"] - q["answer"]) ** 2))
    if first["questions"] and second["questions"]:
        found.append(_shares("questions right", first, second, "questions", lambda q: q["right"]))
        if not any(q["error"] for row in (first, second) for q in row["questions"]):
            found.append(_shares("seconds a question", first, second, "questions", lambda q: q["seconds"]))
    return [c for c in found if c] + _speeds(first, second)


def _matched(first: Sequence[Row], second: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The items both were given."""
    key = "question" if first and "question" in first[0] else "id"
    other = {row[key]: row for row in second}
    return [(row, other[row[key]]) for row in first if row[key] in other]


def _items(name: str, first: Sequence[Row], second: Sequence[Row], key: str) -> Compared | None:
    pairs = _matched(first, second)
    if not pairs:
        return None
    return Compared(name, paired([a[key] for a, _ in pairs], [b[key] for _, b in pairs], micro_f1), True)


def _shares(name: str, first: Row, second: Row, items: str, value: Any) -> Compared | None:
    pairs = _matched(first[items], second[items])
    if not pairs:
        return None
    return Compared(name, paired([[float(value(a))] for a, _ in pairs], [[float(value(b))] for _, b in pairs], mean), True)


def _speeds(first: Row, second: Row) -> list[Compared]:
    found = []
    for name, key in SPEEDS:
        values = [[run[key] for run in row["speeds"] if run[key]] for row in (first, second)]
        if all(values):
            found.append(Compared(name, unpaired(*values), False))
    for name, key in ONCE:
        once = [row["figures"].get(key) for row in (first, second)]
        if all(v is not None for v in once):
            scale = 1e-6 if key.endswith("bytes") else 1.0
            found.append(Compared(name, Difference(once[0] * scale, once[1] * scale, None, None, 1), False))
    return found


def quality_difference(first: Row, second: Row) -> Difference:
    """The difference of the mean of the F1 of names with types and that of relations, over the same paragraphs."""
    pairs = _matched(first["paragraphs"], second["paragraphs"])
    values = [[[*side["typed"], *side["relations"]] for side in pair] for pair in pairs]

    def both(counts: Any) -> Any:
        return np.asarray((micro_f1(counts[..., :3]) + micro_f1(counts[..., 3:])) / 2)

    return paired([v[0] for v in values], [v[1] for v in values], both)


def models_to_compare(names: Sequence[str]) -> list[tuple[str, Row, str, Row]]:
    """(label, model, label, model) for each comparison that one or two runs ask for; `RUN#MODEL` picks a model of a run.

    One run: its first model with each of its others. Two: models of the same file, else, where each run has one, those.
    Raises UsageError.
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
        raise UsageError(f"{a} and {b} measured no model in common.", f"Say which: localrag bench compare {a}#{first[0]['name']} {b}#…")
    return [(f"{a}: {x['name']}", x, f"{b}: {y['name']}", y) for x, y in pairs]


def _picked(run: Run, name: str) -> list[Row]:
    """The models of a run that were measured, or the one of that name."""
    measured = [m for m in run["models"] if not m["error"] and (not name or m["name"] == name)]
    if not measured:
        known = ", ".join(m["name"] for m in run["models"] if not m["error"]) or "none"
        raise UsageError(f"The run has no measured model{f' {name!r}' if name else ''}.", f"It has: {known}.")
    return measured
