"""How well the check of answers tells true sentences from false ones: rows of source, sentence and whether the source supports it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.query.answering.verify import Check
from localrag.records import Quote
from localrag.states import STATES, SUPPORTED

HINT = 'Every line is a JSON object: {"source": "…", "sentence": "…", "supported": true, "kind": "…"}; kind may be left out.'


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence and the passage it is checked against; `kind` says how it was made."""

    source: str
    sentence: str
    supported: bool
    kind: str = ""


def load_cases(file: Path) -> list[Case]:
    """The cases of a JSONL file. Raises UsageError naming the line that cannot be used."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.", HINT) from None
    cases = [_case(line, f"{file}, line {n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not cases:
        raise UsageError(f"{file} is empty.", HINT)
    return cases


def _case(line: str, place: str) -> Case:
    try:
        row = json.loads(line)
    except ValueError:
        raise UsageError(f"{place} is not JSON.", HINT) from None
    if not isinstance(row, dict):
        raise UsageError(f"{place} is not a JSON object.", HINT)
    for field in ("source", "sentence", "supported"):
        if field not in row:
            raise UsageError(f'{place} has no "{field}".', HINT)
    for field in ("source", "sentence", "kind"):
        if not isinstance(row.get(field, ""), str) or (field != "kind" and not row[field].strip()):
            raise UsageError(f'{place}: "{field}" is not a text.', HINT)
    if not isinstance(row["supported"], bool):
        raise UsageError(f'{place}: "supported" is neither true nor false.', HINT)
    return Case(row["source"], row["sentence"], row["supported"], row.get("kind", ""))


def measure_support(cases: Sequence[Case], check: Check, done: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """Measure how well the check tells supported sentences from others; each share is from 0 to 1, or None if it is of nothing.

    `kept`: share of the supported sentences that it proves; `refused`: share of the others that it does not. `precision`: share of the
    sentences it proves that are supported; `recall` is `kept`. `states`: the number of true and of false sentences by state. `by_kind` has
    the same by kind, with the number of rows.
    """
    states = []
    for n, case in enumerate(cases, 1):
        states.append(check(case.sentence, [Quote("", 0, len(case.source), case.source)], ()).state)
        done(n)
    found = list(zip(cases, states, strict=True))
    total = _shares(found)
    right = [c.supported for c, state in found if state == SUPPORTED]
    kinds = {kind: _shares([(c, s) for c, s in found if c.kind == kind]) for kind in sorted({c.kind for c in cases if c.kind})}
    return {
        "kept": total["kept"],
        "refused": total["refused"],
        "precision": _share(right),
        "recall": total["kept"],
        "states": total["states"],
        "by_kind": kinds,
    }


def _shares(found: Sequence[tuple[Case, str]]) -> dict[str, Any]:
    return {
        "rows": len(found),
        "kept": _share([s == SUPPORTED for c, s in found if c.supported]),
        "refused": _share([s != SUPPORTED for c, s in found if not c.supported]),
        "states": {
            name: {state: sum(c.supported == label and s == state for c, s in found) for state in STATES}
            for name, label in (("true", True), ("false", False))
        },
    }


def _share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
