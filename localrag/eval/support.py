"""How well the check of answers tells true sentences from false ones: rows of source, sentence and whether the source supports it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localrag.errors import UsageError
from localrag.query.answering.verify import Check
from localrag.records import Quote

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
    """`kept`: share of the supported sentences that the check keeps; `refused`: share of the others that it refuses; each 0 to 1.

    `precision`: share of what it keeps that is supported; `recall` is `kept`. `by_kind` has the same by kind, with the number of rows. A
    share of nothing is None.
    """
    kept = []
    for n, case in enumerate(cases, 1):
        kept.append(bool(check(case.sentence, [Quote("", 0, len(case.source), case.source)])))
        done(n)
    found = list(zip(cases, kept, strict=True))
    total = _shares(found)
    right = [c.supported for c, k in found if k]
    kinds = {kind: _shares([(c, k) for c, k in found if c.kind == kind]) for kind in sorted({c.kind for c in cases if c.kind})}
    return {
        "kept": total["kept"],
        "refused": total["refused"],
        "precision": _share(right),
        "recall": total["kept"],
        "by_kind": kinds,
    }


def _shares(found: Sequence[tuple[Case, bool]]) -> dict[str, Any]:
    return {
        "rows": len(found),
        "kept": _share([k for c, k in found if c.supported]),
        "refused": _share([not k for c, k in found if not c.supported]),
    }


def _share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None
