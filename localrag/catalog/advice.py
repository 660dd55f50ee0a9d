"""Which chat model would serve better here than the bundled one: said once, where an index is begun with that."""

import shlex
import time
from collections.abc import Iterator
from contextlib import suppress

from localrag.catalog.about import About, fits, read_about
from localrag.catalog.curated import Curated, best_chat_model, quick_enough
from localrag.catalog.scan import scan
from localrag.engine.llama.devices import gpus
from localrag.errors import ModelError
from localrag.model_table import known_models, shipped_models, user_models
from localrag.models import first_shard

WRITES = 1_000_000_000  # parameters from which on a model writes answers worth reading
_PATIENCE = 2.0  # seconds that the models of other programs are looked for


def best_here() -> Curated | None:
    """The model of the curated list that suits this machine best; None where none does."""
    return best_chat_model(_gpu_memory())


def better_model(index_command: str) -> tuple[str, str] | None:
    """What would do better than the bundled model, and the commands that take it; None where nothing would, or another is the default.

    A model that is on this machine already is preferred. `index_command` is what the user typed.
    """
    if known_models()["default_chat"] != shipped_models()["default_chat"]:
        return None
    said = "This index uses the bundled model, which quotes and does not write. "
    if here := max(_suitable(), key=lambda found: found[2].parameters, default=None):
        given, where, about = here
        return f"{said}Better, and {where}: {about.title} ({about.size / 1e9:.1f} GB)", f"{index_command} --rebuild --model {given}"
    best = best_here()
    if best is None:
        return None
    return (
        f"{said}Best for this machine: {best.name} ({best.size / 1e9:.1f} GB, {best.licence}; {best.good_for})",
        f"localrag models pull {best.name} --use && {index_command} --rebuild --model {best.name}",
    )


def _suitable() -> Iterator[tuple[str, str, About]]:
    """Chat models on this machine that write and that it runs well: what to give to --model, where they are, what they are."""
    gpu = _gpu_memory()
    for given, where, about in _here():
        writes = about.kind == "chat" and about.template and about.parameters >= WRITES
        if writes and (about.needs <= gpu or (quick_enough(about.size) and fits(about.needs) == "fits")):
            yield given, where, about


def _here() -> Iterator[tuple[str, str, About]]:
    for name, entry in user_models().get("chat", {}).items():
        with suppress(ModelError, OSError):
            yield name, "on your list", read_about(first_shard(entry["path"]))
    for found in scan(until=time.monotonic() + _PATIENCE):
        if found.about:
            yield shlex.quote(str(found.path)), f"here already ({found.program})", found.about


def _gpu_memory() -> int:
    """Bytes of the largest GPU, 0 without one."""
    return max((device.total for device in gpus()), default=0)
