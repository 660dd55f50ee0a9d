"""What indexing and questions work with: one opened index and its models."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import OperationalError

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.config import Settings
from localrag.engine.embedder import Embeds
from localrag.llm import Model
from localrag.store import ledger


@dataclass(frozen=True, slots=True)
class Project:
    """What indexing and questions work with. `root` is the folder that stored paths are relative to.

    `rerank` scores passages for a question, higher is better, where a reranker was asked for.
    """

    root: Path
    folder: Path
    db: Database
    settings: Settings
    model: Model
    embedder: Embeds
    rerank: Callable[[str, Sequence[str]], NDArray[np.float32]] | None = None


async def choose_style(project: Project) -> str:
    """The index's style: the setting, or for `auto` what fits the model's size; kept in the index so that no model need be loaded."""
    if project.settings.style != "auto":
        return project.settings.style
    kept = ledger.settings(project.db).get("style_of", {})
    fingerprint = project.model.file.fingerprint
    if fingerprint not in kept:
        kept[fingerprint] = "extractive" if await project.model.is_small() else "abstractive"
        with suppress(OperationalError):  # an index that cannot be written to answers all the same
            ledger.save_settings(project.db, style_of=kept)
    return str(kept[fingerprint])
