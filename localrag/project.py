"""What indexing and questions work with: one opened index and its models."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import OperationalError

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.config import Settings
from localrag.engine.embedding.embedder import Embeds
from localrag.llm.budgets import LEAST, Budgets
from localrag.llm.model import Model
from localrag.llm.reader import Reader
from localrag.llm.tagging import Tagger
from localrag.store import ledger
from localrag.store.connect import snapshot
from localrag.store.selection import narrow
from localrag.where import Selection


@dataclass(frozen=True, slots=True)
class Opened:
    """An index that is looked into. `root` is the folder that stored paths are relative to."""

    root: Path
    folder: Path
    db: Database


@dataclass(frozen=True, slots=True)
class Project(Opened):
    """What indexing and questions work with.

    `db` may read from one moment only; `writer` is the connection that settings are kept by. `rerank` scores passages for a question,
    higher is better, where a reranker was asked for; `reader` finds short answers in texts, `tagger` names and what relates them; a project
    whose chat model is not the bundled one has no tagger. Without `logs` nothing that is asked is written anywhere.
    """

    writer: Database
    settings: Settings
    model: Model
    embedder: Embeds
    rerank: Callable[[str, Sequence[str]], NDArray[np.float32]] | None = None
    reader: Reader | None = None
    tagger: Tagger | None = None
    logs: bool = True

    def close(self) -> None:
        """Free the models."""
        self.model.close()
        if self.reader:
            self.reader.close()


@contextmanager
def selected(project: Project, selection: Selection) -> Iterator[Project]:
    """The project whose index holds the selected documents alone, as it is at this moment. Raises UsageError and NothingSelected."""
    if not selection:
        yield project
        return
    with snapshot(project.folder) as db:
        yield replace(project, db=narrow(db, selection, project.root))


async def choose_style(project: Project) -> str:
    """The index's style: the setting, or for `auto` what fits the model's size; kept in the index so that no model need be loaded."""
    if project.settings.style != "auto":
        return project.settings.style
    kept = ledger.settings(project.db).get("style_of", {})
    fingerprint = project.model.file.fingerprint
    if fingerprint not in kept:
        kept[fingerprint] = "extractive" if await project.model.is_small() else "abstractive"
        with suppress(OperationalError):  # an index that cannot be written to answers all the same
            ledger.save_settings(project.writer, style_of=kept)  # a question's own connection only reads
    return str(kept[fingerprint])


async def choose_budgets(project: Project) -> Budgets:
    """The index's budgets: what fits the window that the model had when it was first used here, kept so that no model need be loaded.

    A window that is another on another day (by `--engine`, by how much memory is free) must not have every report written anew. So a
    larger one changes nothing until `--rebuild`, and in a smaller one what does not fit is asked with less.
    """
    settings, fingerprint = ledger.settings(project.db), project.model.file.fingerprint
    if settings.get("style_of", {}).get(fingerprint) == "extractive":  # the model is small
        return LEAST
    kept = settings.get("window_of", {})
    if fingerprint not in kept:
        kept[fingerprint] = 0 if await project.model.is_small() else await project.model.window()
        with suppress(OperationalError):
            ledger.save_settings(project.writer, window_of=kept)
    return Budgets.of(kept[fingerprint])


async def budgets_here(project: Project) -> Budgets:
    """What fits the window that the model has now."""
    return Budgets.of(await project.model.window(), small=await project.model.is_small())
