"""Which of the measured models to take, why, and what to write into models.toml for it."""

import json
import re
from collections.abc import Sequence
from typing import Any

from localrag.bench.compare import quality_difference
from localrag.bench.figures import habit, unreliable
from localrag.model_table import known_models

FASTER = 1.2  # times the chunks an hour: from there on a model is taken for its speed, where quality does not tell it from the best

Row = dict[str, Any]


def recommend(models: Sequence[Row]) -> tuple[Row, str] | None:
    """The model to take and the reason in a sentence; None where no model can be relied on.

    The best mean of typed-names F1 and relations F1; or a faster one whose difference from it cannot be told from chance.
    """
    good = [m for m in models if not m["error"] and not unreliable(m["figures"])]
    if not good:
        return None
    best = max(good, key=quality)
    level = [m for m in good if m is not best and _as_good(best, m) and _speed(m) >= FASTER * _speed(best)]
    chosen = max(level, key=_speed, default=best)
    return chosen, _reason(chosen, best, good, len(models))


def quality(model: Row) -> float:
    """The mean of its F1 on names with types and on relations."""
    found = model["figures"]
    return float((found["typed_f1"] + found["relation_f1"]) / 2)


def _speed(model: Row) -> float:
    return float(model["figures"]["paragraphs_per_hour"] or 0.0)


def _as_good(best: Row, other: Row) -> bool:
    return not quality_difference(best, other).sure


def _reason(chosen: Row, best: Row, good: Sequence[Row], asked: int) -> str:
    found = chosen["figures"]
    scores = f"names with types F1 {found['typed_f1']:.2f}, relations F1 {found['relation_f1']:.2f}, {_speed(chosen):.0f} paragraphs/h"
    if asked == 1:
        why = "the only model measured"
    elif len(good) == 1:
        why = f"the only one of {asked} models to be relied on"
    elif chosen is not best:
        why = f"as good as {best['name']} within chance and {_speed(chosen) / max(_speed(best), 1e-9):.1f} times as fast"
    else:
        others = [m for m in good if m is not chosen]
        level = [m["name"] for m in others if _as_good(chosen, m)]
        why = f"the best of {len(good)}" + (f", though not beyond chance of {', '.join(level)}" if level else "")
    said = habit(found)
    return f"{why}: {scores}" + (f"; {said}, so leave gleaning off" if said else "")


def toml_lines(model: Row, reason: str) -> str:
    """What to write into models.toml, the reason as a comment; a model that stands there already needs only its name as the default."""
    listed = model["name"] in known_models()["chat"]
    name = model["name"] if listed else _key(model["name"])
    why, default = f"# localrag bench: {reason}", f"default_chat = {json.dumps(name)}"
    if listed:
        return f"{why}\n{default}"
    if model["given"].startswith("http"):
        return f"{why}\n# a model behind a server is not listed there: --model {model['given']}"
    path = json.dumps(model["given"], ensure_ascii=False)
    return f"{why}\n# to make it the default, at the head of the file: {default}\n[chat.{json.dumps(name)}]\npath = {path}"


def _key(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-").lower()
