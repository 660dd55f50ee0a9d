"""How fast this machine was with each model and in each stage of indexing, kept for whoever has to say how long something will take."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from localrag.models import ModelFile
from localrag.system.files import cache_dir, replace_file

KEPT = 5


def speeds() -> dict[str, list[float]]:
    """Model fingerprint → tokens a second of its last runs here, newest last."""
    try:
        found = json.loads((cache_dir() / "speeds.json").read_text())
        return {str(model): [float(speed) for speed in some] for model, some in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):  # missing or damaged
        return {}


def seconds_for(tokens: int, model: ModelFile) -> float | None:
    """How long a model may take to compute so many tokens, by the middle of its last runs; None where there was none on this machine."""
    found = sorted(speeds().get(model.fingerprint, []))
    return tokens / found[len(found) // 2] if found else None


def keep_speed(model: ModelFile, figures: dict[str, Any]) -> None:
    """Remember how many tokens a second an engine computed, by its figures; few tokens say nothing."""
    if figures.get("rows", 0) < 1000 or not figures.get("seconds"):
        return
    known = speeds()
    known[model.fingerprint] = [*known.get(model.fingerprint, []), round(figures["rows"] / figures["seconds"], 1)][-KEPT:]
    with suppress(OSError):  # a cache that cannot be written to costs the next plan its guess
        replace_file(cache_dir() / "speeds.json", json.dumps(known).encode())


def paces(key: str) -> dict[str, list[list[float]]]:
    """Stage → chunks and seconds of its last runs here, newest last. `key`: what the runs have in common, models above all."""
    try:
        found = json.loads((cache_dir() / "paces.json").read_text())[key]
        return {str(stage): [[float(chunks), float(seconds)] for chunks, seconds in some] for stage, some in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):  # missing or damaged
        return {}


def keep_paces(key: str, took: Mapping[str, tuple[float, float]]) -> None:
    """Remember how many seconds each stage of a run took for how many chunks; one that did nothing says nothing."""
    known = paces(key)
    for stage, (chunks, seconds) in took.items():
        if chunks:
            known[stage] = [*known.get(stage, []), [float(chunks), seconds]]
    try:
        kept = json.loads((cache_dir() / "paces.json").read_text())
    except (OSError, ValueError):
        kept = {}
    kept = kept if isinstance(kept, dict) else {}
    kept[key] = {stage: some[-KEPT:] for stage, some in known.items()}
    with suppress(OSError):
        replace_file(cache_dir() / "paces.json", json.dumps(kept).encode())
