"""The library: an index of documents that is made, updated, asked and looked into.

    from localrag import Index

    with Index.create("notes") as index:
        index.add("notes")
        print(index.ask("Who approved the budget?").answer)

An `Index` belongs to the thread that opened it. Several processes may ask one index while another adds to it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from localrag import contents
from localrag.config import INDEX_FOLDER
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.opening import find_index, open_for_questions, open_for_writing, open_to_look, root_of
from localrag.project import Opened, Project, selected
from localrag.query.answer import answer, check_question
from localrag.query.question import Options, Watch
from localrag.query.retrieval.retrieve import search
from localrag.records import Answer, Community, Document, Entity, Mention, Relationship, Report
from localrag.store import corpus, graph, status
from localrag.where import EVERYTHING, Selection, collection_names

if TYPE_CHECKING:  # what makes and exports an index is loaded when it is used: a question does not wait for it
    from localrag.exchange.export import Exported
    from localrag.index.documents.update import Deletion
    from localrag.index.pipeline import Outcome
    from localrag.index.progress import Progress

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class Asking(TypedDict, total=False):
    """How a question is answered: the fields of `localrag.query.question.Options`."""

    mode: str
    level: int | None
    dynamic: bool
    seed: int
    style: str
    strict: bool
    max_calls: int | None
    max_seconds: float | None
    response_type: str
    context_only: bool
    conversation: int | None
    temperature: float
    selection: Selection | None


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that was found: characters `start` to `end` of the text of the document at `path`, in its `part` (a page).

    `score` is 1 for the best one. `snippet` is the sentence of `text` that is nearest the query.
    """

    path: str
    part: str
    start: int
    end: int
    text: str
    snippet: str
    score: float


class Index:
    """An index of documents. Make one with `Index.create` or `Index.open`; close it, or use it in a `with` statement."""

    def __init__(self, folder: Path, *, model: str | None = None, reranker: str | None = None, engine: EngineOptions | None = None) -> None:
        self.folder = folder
        self._model, self._reranker, self._engine = model, reranker, engine
        self._looked, self._open = ExitStack(), ExitStack()
        self._asked: Project | None = None
        self._searched: Project | None = None

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        model: str | None = None,
        reranker: str | None = None,
        engine: EngineOptions | None = None,
    ) -> "Index":
        """The index in a folder (the folder itself or its `.localrag`); for None the nearest one, here or above.

        `model` is a chat model other than the one the index was made with: a name of `localrag models list`, a GGUF file, or the address
        of a server. `reranker` is a cross-encoder that passages are ranked by again. No model is loaded before it is needed.
        Raises NoIndex.
        """
        return cls(find_index(None if path is None else Path(path)), model=model, reranker=reranker, engine=engine)

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        model: str | None = None,
        embedder: str | None = None,
        engine: EngineOptions | None = None,
        **settings: Any,
    ) -> "Index":
        """A new, empty index in `path/.localrag`; paths of documents are kept relative to `path`.

        `model` and `embedder` bind the index to models, the defaults of this machine otherwise. `settings` are fields of
        `localrag.config.Settings`, for example `extractor="phrases"`, which builds the graph without a chat model.
        Raises UsageError where there is an index already or a setting is unknown, ModelError.
        """
        folder = Path(path) / INDEX_FOLDER
        if (folder / "index.db").exists():
            raise UsageError(f"There is an index in {folder} already.", f"Open it: Index.open({str(path)!r})")
        try:
            with open_for_writing(folder, model=model, embedder=embedder, engine=engine, **settings):
                pass
        except TypeError as error:
            raise UsageError(f"There is no such setting: {error}.", "Settings are the fields of localrag.config.Settings.") from error
        return cls(folder.resolve(), engine=engine)

    def close(self) -> None:
        """Free the models and the connections."""
        self._open.close()
        self._looked.close()
        self._asked = self._searched = None

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Documents

    def add(
        self,
        paths: Paths,
        *,
        collections: Sequence[str] = (),
        on_progress: "Callable[[Progress], None] | None" = None,
        deletion: "Deletion | None" = None,
    ) -> "Outcome":
        """Index files and folders, or bring the index up to date with them; what is there already is not done again.

        `on_progress` is called with every step. Interrupted at any moment, the next call goes on from there. `collections` are names under
        which the documents of these paths can be selected. `deletion` says whether documents go whose files are gone.
        Raises UsageError where there is nothing to index, IndexBusy while another process writes, ModelError.
        """
        return asyncio.run(self.aadd(paths, collections=collections, on_progress=on_progress, deletion=deletion))

    async def aadd(
        self,
        paths: Paths,
        *,
        collections: Sequence[str] = (),
        on_progress: "Callable[[Progress], None] | None" = None,
        deletion: "Deletion | None" = None,
    ) -> "Outcome":
        """As `add`, where an event loop runs already."""
        from localrag.index.documents.update import CAREFUL
        from localrag.index.pipeline import build_index

        self.close()
        with open_for_writing(self.folder, model=self._model, engine=self._engine) as project:
            return await build_index(
                _listed(paths),
                project,
                on_progress or _ignored,
                deletion=deletion or CAREFUL,
                collections=collection_names(",".join(collections)),
            )

    def remove(self, paths: Paths, *, on_progress: "Callable[[Progress], None] | None" = None) -> list[str]:
        """Remove the documents at or below the given paths, with all that was made from them; their paths as stored. The files stay.

        Raises UsageError for a path that has no document, IndexBusy.
        """
        from localrag.index.erase import documents_at, erase

        self.close()
        with open_for_writing(self.folder, engine=self._engine) as project:
            gone = documents_at(_listed(paths), project)
            asyncio.run(erase(gone, project, on_progress or _ignored))
            return gone

    def reembed(self, embedder: str | None = None, *, on_progress: "Callable[[Progress], None] | None" = None) -> None:
        """Compute all vectors again, with another embedding model where one is named. Raises IndexBusy, ModelError."""
        from localrag.index.pipeline import reembed

        self.close()
        with open_for_writing(self.folder, embedder=embedder, rebuild=True, engine=self._engine) as project:
            asyncio.run(reembed(project, on_progress or _ignored))

    def documents(self) -> list[Document]:
        """The documents, by path, with their text."""
        db = self._look().db
        return [found for path in sorted(corpus.document_hashes(db)) if (found := corpus.document(db, path))]

    # Questions

    def ask(self, question: str, *, on_text: Callable[[str], None] | None = None, **how: Unpack[Asking]) -> Answer:
        """Answer a question with citations that are verbatim passages; the answer is kept in the index.

        `on_text` is given the answer sentence by sentence, each one checked, while it comes. `how` are the fields of `Options`: `mode`
        ("auto", "mix", "local", "global", "drift", "basic"), `max_seconds`, `conversation` and so on.
        Raises UsageError, NoIndex where nothing is indexed yet, ModelError.
        """
        return asyncio.run(self.aask(question, on_text=on_text, **how))

    async def aask(self, question: str, *, on_text: Callable[[str], None] | None = None, **how: Unpack[Asking]) -> Answer:
        """As `ask`, where an event loop runs already. Cancelled, it stops the model and keeps what was checked so far."""
        return await answer(question, self._ask(), Options(**how), Watch(text=on_text))

    async def astream(self, question: str, **how: Unpack[Asking]) -> AsyncIterator[str | Answer]:
        """The answer's text in checked stretches while it comes, and at the end the whole `Answer`. Left early, the model is stopped."""
        pieces: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.create_task(self.aask(question, on_text=pieces.put_nowait, **how))
        task.add_done_callback(lambda _: pieces.put_nowait(""))
        try:
            while piece := await pieces.get():
                yield piece
            yield await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    def search(self, query: str, k: int = 10, *, selection: Selection = EVERYTHING) -> list[Passage]:
        """The `k` passages that bear most on a query, best first, found by words, vectors and the graph; no chat model is asked.

        `selection` are the documents to search. Raises UsageError for an empty query, NothingSelected, NoIndex where nothing is indexed.
        """
        if not query.strip():
            raise UsageError("The query is empty.", 'Search for something: localrag search "the ferry"')
        check_question(query)
        with selected(self._find(), selection) as project:
            vector = project.embedder.embed([query])[0]
            rows = contents.passages(query, vector, search(query, vector, project, k), project)
        return [Passage(**{name: row[name] for name in Passage.__slots__}) for row in rows]

    # The graph

    def entities(self, named: Iterable[str] | None = None) -> list[Entity]:
        """The entities, those with most relationships first; with `named`, those that have one of these names, in any case."""
        db = self._look().db
        ids = None if named is None else {i for found in graph.entities_named(db, named).values() for i in found}
        return sorted(graph.entities(db, None if ids is None else sorted(ids)), key=lambda e: (-e.degree, e.name))

    def relationships(self, of: Entity | None = None) -> list[Relationship]:
        """The relationships, of one entity or all."""
        return graph.relationships(self._look().db, None if of is None else [of.id])

    def mentions(self, of: Entity) -> list[Mention]:
        """The places where an entity is named."""
        return graph.mentions(self._look().db, [of.id])

    def communities(self, level: int | None = None) -> list[Community]:
        """The communities, of one level (0 is the coarsest) or all."""
        return graph.communities(self._look().db, level)

    def reports(self, level: int | None = None) -> list[Report]:
        """The reports of the communities of one level, or all."""
        return graph.reports(self._look().db, level)

    # The index itself

    def export(self, format: str, path: str | PathLike[str], *, level: int | None = None, force: bool = False) -> "Exported":
        """Write the graph, reports and passages for other programs: `format` is one of `localrag.exchange.export.FORMATS`.

        `path` is a file for "graphml", "gexf" and "html", else a folder. Raises UsageError where something else is there, and nothing is
        written; LocalragError where there is no graph yet.
        """
        from localrag.exchange.export import export_index

        return export_index(self._look(), format, Path(path), level=level, force=force)

    def status(self) -> dict[str, Any]:
        """What the index holds, what failed and what it cost: the values of `localrag status --json`."""
        return status.status(self._look().db, self.folder)

    @property
    def root(self) -> Path:
        """The folder that the paths of documents are relative to."""
        return root_of(self.folder)

    def _look(self) -> Opened:
        """The index as it is now, to read."""
        self._looked.close()
        return self._looked.enter_context(open_to_look(self.folder))

    def _ask(self) -> Project:
        """The index with all its models."""
        if self._asked is None:
            found = open_for_questions(self.folder, model=self._model, reranker=self._reranker, engine=self._engine)
            self._asked = self._open.enter_context(found)
        return self._asked

    def _find(self) -> Project:
        """The index to search: no chat model is looked for."""
        if self._asked is None and self._searched is None:
            self._searched = self._open.enter_context(open_for_questions(self.folder, reranker=self._reranker, asks=False))
        found = self._asked or self._searched
        assert found is not None
        return found


def _listed(paths: Paths) -> list[Path]:
    return [Path(paths)] if isinstance(paths, str | PathLike) else [Path(p) for p in paths]


def _ignored(_progress: "Progress") -> None:
    """Nobody listens."""
