"""What a worker opens to do jobs with, and the worker itself: a parcel goes in, a bundle comes out."""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.config import Settings
from localrag.engine.embedding.embedder import open_embedder
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, kind_and_place
from localrag.index.crew.parcel import CARRIED, Bundle, Carried, CarriedLedger, Committed, NeedsEngine, Parcel
from localrag.index.jobs import Tools
from localrag.llm.model import Model
from localrag.llm.tagging import Tagger
from localrag.models import ModelFile
from localrag.system.cores import share_cores

TEXTS = 16  # of documents, that a worker keeps in memory


class NeedsText(Exception):
    """A job needs the text of a document that is not here."""


@dataclass(frozen=True, slots=True)
class Kit:
    """What a worker is to work with: models, settings with their prompts, how the engine is set up, how many cores are its share.

    `asks`: whether it has an engine of its own for the chat model.
    """

    chat: ModelFile
    embedder: ModelFile
    tagger: bool
    settings: Settings
    options: EngineOptions
    asks: bool = True
    cores: int = 0  # 0: all that are free

    def with_files(self, paths: Mapping[str, Path]) -> "Kit":
        """The same on another machine, where the chat model, if it has one, and the embedder, by their kinds, are at other paths.

        Beginnings of prompts are not kept there as files: they may hold text of a document.
        """
        chat, embedder = (replace(file, path=paths.get(file.kind, file.path)) for file in (self.chat, self.embedder))
        return replace(self, chat=chat, embedder=embedder, options=replace(self.options, prefix_files=False))

    def told(self, layout: str) -> "Kit":
        """The same with settings of the engine that are another worker's; what else bears on its speed stays this machine's own."""
        return replace(self, options=replace(self.options, values=",".join(filter(None, (self.options.values, layout)))))

    def open(self, options: EngineOptions | None = None) -> Tools:
        """The tools; models are loaded when they are first needed."""
        share_cores(self.cores)
        model = (Model if self.asks else Committed)(CarriedLedger(), self.chat, options or self.options)
        return Tools(model, open_embedder(self.embedder), Tagger() if self.tagger else None, self.settings, _no_text)


def _no_text(_document_id: str) -> str:
    raise NeedsText


class Workshop:
    """Where a worker does its jobs. Nothing of a document is kept but in memory."""

    def __init__(self, tools: Tools) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._tools = Tools(tools.model, tools.embedder, tools.tagger, tools.settings, self._text_of)

    def _text_of(self, document_id: str) -> str:
        if document_id not in self._texts:
            raise NeedsText
        return self._texts[document_id]

    async def facts(self) -> dict[str, Any]:
        """What the chat model's engine can do: `window` in tokens, `at_once` requests."""
        return {"window": await self._tools.model.window(), "at_once": await self._tools.model.at_once()}

    async def do(self, parcel: Parcel) -> Bundle:
        """What comes of a parcel; every error is in the bundle."""
        if parcel.text is not None:
            self._texts[parcel.job.document_id] = parcel.text
            while len(self._texts) > TEXTS:
                self._texts.popitem(last=False)
        carried = Carried({call.key: call for call in parcel.known})
        CARRIED.set(carried)
        result, error, needs, began = None, None, "", time.perf_counter()
        try:
            result = await parcel.job.work(self._tools)
        except NeedsEngine:
            needs = "engine"
        except NeedsText:
            needs = "text"
        except LocalragError as failed:
            error = failed
        except Exception as failed:  # noqa: BLE001 — the one who hands out jobs raises it
            error = LocalragError(f"A worker failed: {kind_and_place(failed)}.", "Run the same command again; what is done is saved.")
        model, took = self._tools.model, time.perf_counter() - began
        figures = (*model.counters, model.computed)
        return Bundle(result, error, needs, tuple(carried.calls.values()), tuple(carried.confirmed), took, figures)

    def close(self) -> None:
        """Free the models."""
        self._tools.model.close()
