"""`Index`: an index of documents that is made, updated and asked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from localrag.config import INDEX_FOLDER, Settings
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, UsageError
from localrag.library.holdings import Holdings
from localrag.opening import find_index, index_folder, open_for_questions, open_for_writing, settings_for, tagger_for
from localrag.project import Project, selected
from localrag.records import Answer
from localrag.store.names import FILE_NAME
from localrag.where import EVERYTHING, Selection, collection_names

if TYPE_CHECKING:  # what makes an index or answers is loaded when it is used: neither waits for the other, nor a look for either
    from localrag.index.crew.hire import Hire
    from localrag.index.documents.update import Deletion
    from localrag.index.pipeline import Outcome
    from localrag.index.plan import Plan
    from localrag.index.progress import Progress
    from localrag.query.question import Watch
    from localrag.store.growth import Freed

    Tell = Callable[[Progress], None]

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class Adding(TypedDict, total=False):
    """How documents are indexed.

    `collections` are names under which the documents can be selected. `on_progress` is called with every step. `deletion` says whether
    documents go whose files are gone. `workers`: so many processes share the work, 0: this one, helped by others; or who does it, as
    `on_ray` hires them.
    """

    collections: Sequence[str]
    on_progress: "Tell | None"
    deletion: "Deletion | None"
    workers: "int | Hire"


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


class Index(Holdings):
    """An index of documents. Make one with `Index.create` or `Index.open`; close it, or use it in a `with` statement."""

    def __init__(
        self,
        folder: Path,
        *,
        model: str | None = None,
        reranker: str | None = None,
        engine: EngineOptions | None = None,
        logs: bool = True,
    ) -> None:
        super().__init__(folder)
        self.logs = logs
        self._model, self._reranker, self._engine = model, reranker, engine
        self._open = ExitStack()
        self._asked: Project | None = None
        self._searched: Project | None = None
        self._written: Project | None = None

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        model: str | None = None,
        reranker: str | None = None,
        engine: EngineOptions | None = None,
        logs: bool = True,
        missing_ok: bool = False,
    ) -> "Index":
        """The index in a folder (the folder itself or its `.localrag`); for None the nearest one, here or above.

        `model` is a chat model other than the one the index was made with: a name of `localrag models list`, a GGUF file, or the address
        of a server. `reranker` is a cross-encoder that passages are ranked by again. No model is loaded before it is needed. Without
        `logs` no question and no answer is written anywhere. With `missing_ok`, where there is no index the first `add` makes one: in this
        folder itself, or in `.localrag` here. Raises NoIndex.
        """
        found = (index_folder if missing_ok else find_index)(None if path is None else Path(path))
        return cls(found, model=model, reranker=reranker, engine=engine, logs=logs)

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
        if (folder / FILE_NAME).exists():
            raise UsageError(f"There is an index in {folder} already.", f"Open it: Index.open({str(path)!r})")
        with cls(folder, model=model, engine=engine).writing(embedder=embedder, **settings):
            pass
        return cls(folder.resolve(), engine=engine)

    def close(self) -> None:
        """Free the models and the connections."""
        self._open.close()
        self._asked = self._searched = None

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def exists(self) -> bool:
        """Whether there is an index in the folder yet."""
        return (self.folder / FILE_NAME).exists()

    # Changes

    @contextmanager
    def writing(self, *, embedder: str | None = None, rebuild: bool = False, recluster: bool = False, **settings: Any) -> Iterator["Index"]:
        """Hold the index for several changes: they share one opening of it, and no other process writes in between.

        `settings` are fields of `localrag.config.Settings`; the index keeps them, and the next `add` redoes what follows from them. With
        `rebuild` the index may take another `model` or `embedder` than it was made with; with `recluster` the next `add` finds all
        communities anew. Raises UsageError for a setting that there is not, IndexMismatch for another model without `rebuild`, IndexBusy
        while another process writes, ModelError.
        """
        with self._writer(model=self._model, embedder=embedder, rebuild=rebuild, recluster=recluster, **_known(settings)):
            yield self

    def add(self, paths: Paths, **how: Unpack[Adding]) -> "Outcome":
        """Index files and folders, or bring the index up to date with them; what is there already is not done again.

        Interrupted at any moment, the next call goes on from there. `how` are the fields of `Adding`: `collections`, `on_progress`,
        `deletion`, `workers`. Raises UsageError where there is nothing to index, IndexBusy, ModelError.
        """
        with self._writer(model=self._model):  # opened here: within an event loop an interrupt would wait for the end of it
            return asyncio.run(self.aadd(paths, **how))

    async def aadd(self, paths: Paths, **how: Unpack[Adding]) -> "Outcome":
        """As `add`, where an event loop runs already."""
        from localrag.index.crew.helped import hire
        from localrag.index.documents.update import CAREFUL
        from localrag.index.pipeline import build_index

        tell, deletion = how.get("on_progress") or _ignored, how.get("deletion") or CAREFUL
        names, workers = collection_names(",".join(how.get("collections", ()))), hire(how.get("workers", 0))
        with self._writer(model=self._model) as project:
            return await build_index(_listed(paths), project, tell, deletion=deletion, collections=names, hire=workers)

    def plan(self, paths: Paths, **settings: Any) -> "Plan":
        """What `add` would do with these paths, and with these settings if they were the index's, and what it would cost; nothing is done.

        Raises UsageError, ModelError.
        """
        from localrag.index.plan import plan

        root, chosen, file, db = settings_for(self.folder, self._model, _known(settings), self._engine)
        try:
            tagged = chosen.style != "abstractive" and tagger_for(file, self._engine or EngineOptions()) is not None
            return plan(_listed(paths), root, chosen, file, db, tagged=tagged)
        finally:
            if db:
                db.close()

    def documents_at(self, paths: Paths) -> list[str]:
        """The documents at or below the given paths, as stored: what `remove` would take.

        Raises UsageError for a path that has none, IndexBusy.
        """
        from localrag.index.erase import documents_at

        with self._writer() as project:  # a run that was stopped may have read more than a reader sees
            return documents_at(_listed(paths), project)

    def remove(self, paths: Paths, *, on_progress: "Tell | None" = None) -> list[str]:
        """Remove the documents at or below the given paths, with all that was made from them; their paths as stored. The files stay.

        Raises UsageError for a path that has no document, IndexBusy.
        """
        from localrag.index.erase import documents_at

        return self._erase(lambda project: documents_at(_listed(paths), project), on_progress)

    def clear(self, *, on_progress: "Tell | None" = None) -> list[str]:
        """Remove every document, all reports, answers and conversations; the paths of the documents. The files stay. Raises IndexBusy."""
        return self._erase(lambda _: self.paths(), on_progress)

    def _erase(self, chosen: Callable[[Project], list[str]], on_progress: "Tell | None") -> list[str]:
        from localrag.index.erase import erase

        with self._writer() as project:
            gone = chosen(project)
            asyncio.run(erase(gone, project, on_progress or _ignored))
            return gone

    def reembed(self, embedder: str | None = None, *, on_progress: "Tell | None" = None) -> None:
        """Compute all vectors again, with another embedding model where one is named. Raises IndexBusy, ModelError."""
        from localrag.index.pipeline import reembed

        with self._writer(embedder=embedder, rebuild=True) as project:
            asyncio.run(reembed(project, on_progress or _ignored))

    def collect(self, *, only_say: bool = False) -> "list[Freed]":
        """Delete what nothing needs any more, or `only_say` so; what that frees, by kind. `add` deletes what is over its limit."""
        from localrag.index.collect import collect_all

        with self._writer() as project:
            return asyncio.run(collect_all(project, only_say=only_say))

    # Questions

    def prepare(self) -> None:
        """Open now what questions need, to hear of what is missing before the first one. Raises NoIndex, IndexMismatch, ModelError."""
        self._ask()

    def ask(
        self,
        question: str,
        *,
        on_text: Callable[[str], None] | None = None,
        watch: "Watch | None" = None,
        history: Sequence[Answer] = (),
        **how: Unpack[Asking],
    ) -> Answer:
        """Answer a question with citations that are verbatim passages; the answer is kept in the index.

        `on_text` is given the answer sentence by sentence, each one checked, while it comes; a `watch` hears of more and can decline an
        answer that would take long. `history` is the conversation so far, oldest first, where the index does not keep it. `how` are the
        fields of `Options`: `mode` ("auto", "mix", "local", "global", "drift", "basic"), `max_seconds`, `conversation` and so on.
        Raises UsageError, NoIndex where nothing is indexed yet, ModelError.
        """
        self.prepare()  # not within an event loop, where an interrupt would wait for the end of it
        return asyncio.run(self.aask(question, on_text=on_text, watch=watch, history=history, **how))

    async def aask(
        self,
        question: str,
        *,
        on_text: Callable[[str], None] | None = None,
        watch: "Watch | None" = None,
        history: Sequence[Answer] = (),
        **how: Unpack[Asking],
    ) -> Answer:
        """As `ask`, where an event loop runs already. Cancelled, it stops the model and keeps what was checked so far."""
        from localrag.query.answer import answer
        from localrag.query.question import NOBODY, Options

        heard = watch or NOBODY
        return await answer(question, self._ask(), Options(**how), replace(heard, text=on_text or heard.text), history)

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

    def suggest(self, n: int = 5, *, about: str = "", selection: Selection = EVERYTHING) -> list[str]:
        """At most `n` questions that the index can answer: about an entity, or to go on with the last conversation, or to begin with.

        Raises LocalragError where no entity has the name, NothingSelected, NoIndex, ModelError.
        """
        from localrag.query.converse import questions_worth_asking
        from localrag.query.retrieval.retrieve import named_entities
        from localrag.store import ledger

        with selected(self._ask(), selection) as project:
            if about and not named_entities(about, project):
                raise LocalragError(f"No entity is called {about!r}.", f"Look for it: localrag search {about!r}")
            last = None if about else ledger.last_answer(project.db)
            history = ledger.conversation(project.db, last.conversation) if last and last.conversation else []
            return asyncio.run(questions_worth_asking(project, history, about=about, n=n))

    def search(self, query: str, k: int = 10, *, selection: Selection = EVERYTHING) -> list[Passage]:
        """The `k` passages that bear most on a query, best first, found by words, vectors and the graph; no chat model is asked.

        `selection` are the documents to search. Raises UsageError for an empty query, NothingSelected, NoIndex where nothing is indexed.
        """
        from localrag import contents
        from localrag.query.answer import check_question
        from localrag.query.retrieval.retrieve import search

        if not query.strip():
            raise UsageError("The query is empty.", 'Search for something: localrag search "the ferry"')
        check_question(query)
        with selected(self._find(), selection) as project:
            vector = project.embedder.embed([query])[0]
            rows = contents.passages(query, vector, search(query, vector, project, k), project)
        return [Passage(**{name: row[name] for name in Passage.__slots__}) for row in rows]

    @property
    def calls(self) -> int:
        """How many calls of the chat model the questions to this `Index` have cost since it was opened."""
        return self._asked.model.calls if self._asked else 0

    # What is open

    @contextmanager
    def _writer(self, *, embedder: str | None = None, **how: Any) -> Iterator[Project]:
        """The index to change, with settings; within `writing` the one that it holds."""
        self.close()
        if self._written is not None:
            if embedder or how.keys() - {"model", "rebuild", "recluster"}:
                raise UsageError("Settings and the embedder are chosen where the writing begins.", "Give them to `writing`.")
            yield self._written
            return
        opened = open_for_writing(self.folder, embedder=embedder, engine=self._engine, **how)
        with opened as project:
            self._written = project
            try:
                yield project
            finally:
                self._written = None

    def _ask(self) -> Project:
        """The index with all its models."""
        if self._asked is None:
            found = open_for_questions(self.folder, model=self._model, reranker=self._reranker, engine=self._engine, logs=self.logs)
            self._asked = self._open.enter_context(found)
        return self._asked

    def _find(self) -> Project:
        """The index to search: no chat model is looked for."""
        if self._asked is None and self._searched is None:
            found = open_for_questions(self.folder, reranker=self._reranker, asks=False, logs=self.logs)
            self._searched = self._open.enter_context(found)
        project = self._asked or self._searched
        assert project is not None
        return project


def _listed(paths: Paths) -> list[Path]:
    return [Path(paths)] if isinstance(paths, str | PathLike) else [Path(p) for p in paths]


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as they were given. Raises UsageError for one that there is not."""
    if unknown := settings.keys() - {field.name for field in fields(Settings)}:
        raise UsageError(f"There is no setting {sorted(unknown)[0]!r}.", "Settings are the fields of localrag.config.Settings.")
    return settings


def _ignored(_progress: "Progress") -> None:
    """Nobody listens."""
