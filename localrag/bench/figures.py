"""What was measured of a model → one figure for each thing a user compares, None where it was not measured."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from localrag.bench.paragraphs import LANGUAGES
from localrag.bench.yes_no import calibration_error
from localrag.eval.scores import Tally

ALWAYS = 0.9  # a share of one answer from which on a model is said to give it always
TOO_MANY = 0.1  # of calls or paragraphs failed: from there on a model's scores are not to be relied on

Row = dict[str, Any]


def figures(row: Row) -> Row:
    """The figures of a model's measurements, by the names they are exported under."""
    return {**_size(row), **_speed(row), **_extraction(row), **_yes_no(row), **_index(row), **_questions(row), **_failures(row)}


def _size(row: Row) -> Row:
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


def _speed(row: Row) -> Row:
    found: Row = {}
    for name, key in (("prefill_tps", "prefill_tokens_per_s"), ("decode_tps", "decode_tokens_per_s"), ("json_tps", "output_tokens_per_s")):
        values = [run[key] for run in row["speeds"] if run[key]]
        found[name] = round(statistics.mean(values), 1) if values else None
        found[f"{name}_sd"] = round(statistics.stdev(values), 2) if len(values) > 1 else None
    return found


def _extraction(row: Row) -> Row:
    read, cost = row["paragraphs"], row["extraction"]
    seconds = cost["seconds"]["en"]
    done = sum(not p["error"] for p in read if p["id"].startswith("en"))
    parts = {f"typed_f1_{k}": _f1(some, "typed") for k in LANGUAGES if (some := [p for p in read if p["id"].startswith(k)])}
    written = sum(p["written"] for p in read)
    return {
        "paragraphs_per_hour": round(3600 * done / seconds) if seconds else None,
        "forced_share": _share(cost["forced_tokens"], cost["output_tokens"]) if row["speeds"] else None,
        "output_tokens": cost["output_tokens"],
        "joules": cost["joules"] and round(cost["joules"], 1),
        "names_f1": _f1(read, "names"),
        "typed_f1": _f1(read, "typed"),
        **parts,
        "relation_f1": _f1(read, "relations"),
        "in_text_share": _share(sum(p["in_text"] for p in read), sum(p["listed"] for p in read)),
        "listed": sum(p["listed"] for p in read),
        "duplicates": sum(p["duplicates"] for p in read),
        "written": written,
        "leaked": sum(p["leaked"] for p in read),
        "leaked_share": _share(sum(p["leaked"] for p in read), written),
    }


def f1(counts: Sequence[Sequence[int]]) -> float:
    """The F1 of all items together; counts: (right, said, gold) of each."""
    tally = Tally()
    for right, said, gold in counts:
        tally.add(right, said, gold)
    return tally.f1


def _f1(read: Sequence[Row], name: str) -> float | None:
    return round(f1([p[name] for p in read]), 4) if read else None


def _yes_no(row: Row) -> Row:
    asked = row["yes_no"]
    said = [q for q in asked if q["said"] is not None]
    error = calibration_error(said)
    return {
        "yes_no_asked": len(asked),
        "yes_no_failed": len(asked) - len(said),
        "yes_no_right": sum(q["said"] == q["answer"] for q in said),
        "yes_no_accuracy": _share(sum(q["said"] == q["answer"] for q in said), len(asked)),
        "yes_share": _share(sum(q["said"] for q in said), len(said)),
        "calibration_error": None if error is None else round(error, 4),
    }


def _index(row: Row) -> Row:
    index = row["index"]
    if not index:
        return dict.fromkeys(
            ("index_s", "chunks_per_hour", "index_calls", "index_prompt_tokens", "index_output_tokens", "index_failures", "index_joules")
        )
    return {
        "index_s": index["seconds"],
        "chunks_per_hour": round(3600 * index["chunks"] / index["seconds"]),
        "index_calls": index["calls"],
        "index_prompt_tokens": index["prompt_tokens"],
        "index_output_tokens": index["output_tokens"],
        "index_failures": len(index["failures"]),
        "index_joules": row["index_joules"] and round(row["index_joules"], 1),
    }


def _questions(row: Row) -> Row:
    asked = row["questions"]
    names = ("questions", "answered", "questions_failed", "question_s", "question_output_tokens", "quote_verified", "answer_leaked")
    if not asked:
        return dict.fromkeys(names)
    good = [q for q in asked if not q["error"]]
    sentences = sum(q["sentences"] for q in good)
    values = (
        len(asked),
        sum(q["right"] for q in good),
        len(asked) - len(good),
        round(statistics.mean(q["seconds"] for q in good), 2) if good else None,
        sum(q["output_tokens"] for q in good),
        _share(sum(q["supported"] for q in good), sentences),
        sum(q["leaked"] for q in good),
    )
    return dict(zip(names, values, strict=True))


def _failures(row: Row) -> Row:
    index = row["index"] or {"calls": 0, "failed_calls": 0}
    asked = row["yes_no"]
    calls = row["extraction"]["calls"] + index["calls"] + len(asked)
    failed = row["extraction"]["failed_calls"] + index["failed_calls"] + sum(q["said"] is None for q in asked)
    lost = sum(bool(p["error"]) for p in row["paragraphs"])
    return {"calls": calls, "failed_calls": failed, "paragraphs": len(row["paragraphs"]), "failed_paragraphs": lost}


def unreliable(found: Row) -> str:
    """Why a model's scores are not to be relied on, in words; empty where they are."""
    parts = (
        ("calls", "failed_calls"),
        ("paragraphs", "failed_paragraphs"),
        ("yes_no_asked", "yes_no_failed"),
        ("questions", "questions_failed"),
    )
    names = {"yes_no_asked": "yes/no questions"}
    bad = [
        f"failed {found[lost]} of {found[whole]} {names.get(whole, whole)}"
        for whole, lost in parts
        if found[whole] and found[lost] >= TOO_MANY * found[whole]
    ]
    return ", ".join(bad)


def failure_kinds(row: Row) -> str:
    """Why calls of a model failed, the most frequent reason first."""
    items = [*row["paragraphs"], *row["yes_no"], *row["questions"], *((row["index"] or {}).get("failures", ()))]
    kinds = Counter(kind for one in items if (kind := one.get("error") or one.get("kind")))
    return ", ".join(kind for kind, _ in kinds.most_common(3))


def habit(found: Row) -> str:
    """What a model says whatever it is asked: "always says yes" or "always says no"; empty where it does not."""
    share = found["yes_share"]
    if share is None or 1 - ALWAYS < share < ALWAYS:
        return ""
    return "always says yes" if share >= ALWAYS else "always says no"


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None
