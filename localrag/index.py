"""`Index`, the library's main class: create, open, add, ask, search, remove, export, and read the contents of an index.

    from localrag import Index

    with Index.create("notes") as index:
        index.add("notes")
        print(index.ask("Who approved the budget?").answer)

An `Index` belongs to the thread that opened it. Several processes may ask one index while another adds to it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError, UsageError
from localrag.filters import NO_FILTER, DocumentFilter, parse_collection_names
from localrag.project import (
    Project,
    any_tagger,
    documents_root,
    effective_settings,
    embedder_to_use,
    filter_project,
    find_index,
    index_folder_or_default,
    open_for_query,
    open_for_writing,
    open_read_only,
    prompts_in_use,
    settings_without_embedder,
)
from localrag.records import Answer, Chunk, Citation, Document, Entity, NameMerge, Report
from localrag.settings import INDEX_FOLDER, IndexSettings
from localrag.store import answers as answers_store
from localrag.store import browse, chunks, graph
from localrag.store import documents as documents_store
from localrag.store.collections import collections, paths_of
from localrag.store.location import DATABASE_FILE

if TYPE_CHECKING:
    from localrag.analysis.review import ReviewPlan
    from localrag.analysis.tables import Cell, OnWork, ResultTable
    from localrag.exchange.export import ExportResult
    from localrag.indexing.documents import DeletionPolicy
    from localrag.indexing.pipeline import IndexPlan, IndexResult
    from localrag.indexing.progress import RunProgress
    from localrag.indexing.workers.pool import PoolFactory
    from localrag.query.question import AnswerCallbacks
    from localrag.store.retention import CollectedItems

    OnProgress = Callable[[RunProgress], None]


T = TypeVar("T")


def ignore_progress(_progress: "RunProgress") -> None:
    """The default progress callback: does nothing."""


IndexRow = dict[str, Any]  # a row of an index as JSON-ready values


class IndexReader:
    """The reading methods of `Index`: each reads the current state and needs no model. Raises NoIndex if there is no index."""

    folder: Path

    def _read(self, read: Callable[..., T], *arguments: Any) -> T:
        """Open the current state for one read only: while it is open, other processes cannot complete an erasure."""
        with open_read_only(self.folder) as index:
            return read(index.db, *arguments)

    @property
    def root(self) -> Path:
        """The folder that document paths are relative to."""
        return documents_root(self.folder)

    # Documents

    def paths(self, of: Sequence[str] | None = None) -> list[str]:
        """The sorted paths of all documents, or of those in the collections `of`. Raises UsageError for an unknown collection."""
        return sorted(self._read(documents_store.document_hashes)) if of is None else self._read(paths_of, of)

    def documents(self) -> list[Document]:
        """The documents with their texts, by path."""
        return self._read(documents_store.load_documents)

    def files(self) -> list[dict[str, str]]:
        """Every file, by path: its `state` (indexed, skipped, failed), and the `reason` if it was not read completely."""
        return self._read(lambda db: list(browse.file_list(db)))

    def collections(self) -> dict[str, int]:
        """Collection name → number of documents."""
        return self._read(collections)

    # The graph

    def entities(self, named: Iterable[str] | None = None) -> list[Entity]:
        """The entities, highest degree first; with `named`, those with one of these names, ignoring case."""
        with open_read_only(self.folder) as index:
            ids = None if named is None else {i for entity_ids in graph.entity_ids_by_name(index.db, named).values() for i in entity_ids}
            return sorted(graph.entities(index.db, None if ids is None else sorted(ids)), key=lambda e: (-e.degree, e.name))

    def describe(self, name: str) -> list[IndexRow]:
        """The entities with a name, with relationships, claims and mentions. Raises LocalragError that suggests similar names."""
        from localrag import serializers

        return self._read(lambda db: serializers.serialize_entities_named(name, db))

    def complete_entity_names(self, like: str, n: int = 20) -> list[str]:
        """At most `n` entity names: first those that begin with `like`, then those that contain it."""
        return [row["name"] for row in self._read(browse.search_entity_names, like, n)]

    def name_merges(self, *, done: bool = True) -> list[tuple[int, NameMerge]]:
        """The applied name merges, or the rejected candidates of similar spelling, each with its number."""
        return self._read(partial(graph.name_merges, done=done))

    def tree(self) -> list[IndexRow]:
        """The communities, the coarsest first: number (`1.4`), parent, number of entities, title and coverage of the report."""
        from localrag import serializers

        return self._read(serializers.serialize_communities)

    def reports(self, level: int | None = None) -> list[Report]:
        """The reports of the communities of one level, or all."""
        return self._read(graph.reports, level)

    def report(self, number: str) -> IndexRow:
        """The report of a community by its number (`1.4`), with the positions of its quotes. Raises LocalragError."""
        from localrag import serializers

        return self._read(lambda db: serializers.serialize_report(number, db))

    # Answers

    def answers(self, n: int) -> list[tuple[int, str, Answer]]:
        """The newest `n` answers, newest first: number, time, answer."""
        return self._read(answers_store.newest_answers, n)

    def last_answer(self) -> Answer | None:
        """The newest answer to a person; None without one."""
        return self._read(answers_store.last_answer)

    def conversations(self, n: int = 20, *, by_program: bool = False) -> list[IndexRow]:
        """The newest `n` conversations of people, or of programs: `id`, `title` (first question), number of `answers`, `at` (last time)."""
        return self._read(partial(answers_store.conversations, by_program=by_program), n)

    def search_conversations(self, text: str) -> list[IndexRow]:
        """The answers that contain all words of a text in question or answer, newest first; `id` is their conversation."""
        return self._read(answers_store.search_conversations, text)

    def conversation(self, number: int) -> list[tuple[str, Answer]]:
        """The answers of a conversation with their times, oldest first; empty for an unknown conversation."""
        return self._read(answers_store.conversation_with_times, number)

    def passage(self, citation: Citation) -> Chunk | None:
        """The chunk of a citation; None if the index no longer contains it."""
        return next(iter(self._read(chunks.chunks_by_id, [citation.chunk_id])), None)

    # The index itself

    def counts(self) -> dict[str, int]:
        """The numbers of documents, chunks, entities, relationships, communities, reports, claims, failures and merged names."""
        return self._read(lambda db: graph.counts(db) | {"merged": graph.count_merged_names(db)})

    def status(self) -> IndexRow:
        """The status of the index: the values of `localrag status --json`."""
        with open_read_only(self.folder) as index:
            return browse.index_status(index.db, self.folder) | {"prompts": prompts_in_use(index.root)}

    def export(self, format: str, path: str | PathLike[str], *, force: bool = False) -> "ExportResult":
        """Write the graph, reports and chunks; `format` is one of `localrag.exchange.export.EXPORT_FORMATS`.

        `path` is a file for "graphml" and "html", else a folder. Raises UsageError if the target exists, before anything is written;
        LocalragError without a graph.
        """
        from localrag.exchange.export import export_index

        with open_read_only(self.folder) as index:
            return export_index(index, format, Path(path), force=force)


Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A found chunk: characters `start` to `end` of the document at `path`, in its `part` (such as a page), below its `headings`.

    `score`: 1 for the best hit. `best_sentence`: the sentence of `text` nearest to the query.
    """

    path: str
    part: str
    start: int
    end: int
    text: str
    best_sentence: str
    score: float
    headings: tuple[str, ...] = ()


class Index(IndexReader):
    """An index of documents. Create one with `Index.create` or `Index.open`; close it, or use it in a `with` statement."""

    def __init__(
        self,
        folder: Path,
        *,
        model: str | None = None,
        reranker: str | None = None,
        engine: EngineOptions | None = None,
        logs: bool = True,
    ) -> None:
        self.folder, self.logs = folder, logs
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
        """Open the index in a folder (the folder itself or its `.localrag`); for None the nearest one in or above the working folder.

        `model`: another chat model than the index's, as a name of `localrag models list`, a GGUF file, or a server's address. `reranker`: a
        cross-encoder that reranks chunks. Models are loaded when first needed. Without `logs` no question or answer is stored. With
        `missing_ok` the first `add` creates a missing index, in this folder or in the working folder's `.localrag`. Raises NoIndex.
        """
        folder = (index_folder_or_default if missing_ok else find_index)(None if path is None else Path(path))
        return cls(folder, model=model, reranker=reranker, engine=engine, logs=logs)

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
        """Create an empty index in `path/.localrag`; document paths are relative to `path`.

        `model` and `embedder` bind the index to models, by default those of this machine. `settings` are fields of
        `localrag.settings.IndexSettings`, for example `extractor="phrases"`, which builds the graph without a chat model. Raises UsageError
        if an index exists or a setting is unknown, ModelError.
        """
        folder = Path(path) / INDEX_FOLDER
        if (folder / DATABASE_FILE).exists():
            raise UsageError(f"There is an index in {folder} already.", f"Open it: Index.open({str(path)!r})")
        with cls(folder, model=model, engine=engine).write_session(embedder=embedder, **settings):
            pass
        return cls(folder.resolve(), engine=engine)

    def close(self) -> None:
        """Free the models and close the connections."""
        self._open.close()
        self._asked = self._searched = None

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def exists(self) -> bool:
        """Whether the folder contains an index."""
        return (self.folder / DATABASE_FILE).exists()

    # Changes

    @contextmanager
    def write_session(
        self, *, embedder: str | None = None, rebuild: bool = False, recluster: bool = False, sources: Paths = (), **settings: Any
    ) -> Iterator["Index"]:
        """Keep the index open for several changes, with no other process writing in between.

        `settings` are fields of `localrag.settings.IndexSettings`; they are stored, and the next `add` redoes what depends on them. With
        `rebuild` another `model` or `embedder` may replace the index's; with `recluster` the next `add` detects all communities again.
        `sources`: what will be added; if nobody named an embedder for a new index, the languages of these documents choose it.
        Raises UsageError for an unknown setting, IndexMismatch for another model without `rebuild`, IndexBusy while another process writes,
        ModelError.
        """
        options = {"model": self._model, "rebuild": rebuild, "recluster": recluster, **_known(settings)}
        with self._write_project(_listed(sources), embedder=embedder, **options):
            yield self

    def add(
        self,
        paths: Paths,
        *,
        collections: Sequence[str] = (),
        on_progress: "OnProgress" = ignore_progress,
        deletion: "DeletionPolicy | None" = None,
        workers: "int | PoolFactory" = 0,
        write_reports: bool = False,
    ) -> "IndexResult":
        """Index files and folders, or update the index; unchanged files are not processed again, and an interrupted run is continued.

        `collections`: names under which the documents can be selected. `deletion`: whether documents whose files are gone are removed.
        `workers`: number of processes, 0 for this process with helpers, or a pool factory such as `ray_pool`. `write_reports`: let the
        chat model write the reports, now and after changes. Raises UsageError if there is nothing to index, IndexBusy, ModelError.
        """
        from localrag.indexing.documents import DEFAULT_DELETION
        from localrag.indexing.method import choose_written_reports
        from localrag.indexing.pipeline import build_index
        from localrag.indexing.workers.pool import choose_pool

        sources, names, pool = _listed(paths), parse_collection_names(",".join(collections)), choose_pool(workers)

        async def run(project: Project) -> "IndexResult":
            if write_reports:
                await choose_written_reports(project)
            return await build_index(sources, project, on_progress, deletion=deletion or DEFAULT_DELETION, collections=names, hire=pool)

        with self._write_project(sources, model=self._model) as project:
            return asyncio.run(run(project))

    def write_reports(self, *, on_progress: "OnProgress" = ignore_progress, workers: "int | PoolFactory" = 0) -> "IndexResult":
        """Let the chat model write the reports, now and after changes. Raises UsageError if it is too small, IndexBusy, ModelError."""
        from localrag.indexing.pipeline import write_model_reports
        from localrag.indexing.workers.pool import choose_pool

        with self._write_project(model=self._model) as project:
            return asyncio.run(write_model_reports(project, on_progress, choose_pool(workers)))

    def plan(self, paths: Paths, *, embedder: str | None = None, **settings: Any) -> "IndexPlan":
        """What `add` would do with these paths and settings, and its cost; nothing is changed. Raises UsageError, ModelError."""
        from localrag.indexing.pipeline import plan_index

        sources, changes = _listed(paths), _known(settings)
        vectors = embedder_to_use(self.folder, embedder or self._embedder_of_languages(sources, changes))
        root, chosen, file, db = effective_settings(self.folder, self._model, changes, self._engine)
        try:
            plan = plan_index(sources, root, chosen, file, db, tagger=any_tagger(self._engine or EngineOptions()))
            return replace(plan, embedder=vectors.name)
        finally:
            if db:
                db.close()

    def documents_at(self, paths: Paths) -> list[str]:
        """The documents at or below the paths, which `remove` would remove. Raises UsageError for a path without documents, IndexBusy."""
        from localrag.indexing.pipeline import documents_below

        with self._write_project() as project:  # a stopped run may have staged documents that readers do not see
            return documents_below(_listed(paths), project)

    def remove(self, paths: Paths, *, on_progress: "OnProgress" = ignore_progress) -> list[str]:
        """Remove the documents at or below the paths, with everything derived; returns their paths. Raises UsageError, IndexBusy."""
        from localrag.indexing.pipeline import documents_below

        return self._erase(lambda project: documents_below(_listed(paths), project), on_progress)

    def remove_all(self, *, on_progress: "OnProgress" = ignore_progress) -> list[str]:
        """Remove every document, all reports, answers and conversations; returns the documents' paths. Files stay. Raises IndexBusy."""
        return self._erase(lambda _: self.paths(), on_progress)

    def _erase(self, chosen: Callable[[Project], list[str]], on_progress: "OnProgress") -> list[str]:
        from localrag.indexing.pipeline import erase_documents

        with self._write_project() as project:
            removed = chosen(project)
            asyncio.run(erase_documents(removed, project, on_progress))
            return removed

    def reembed(self, embedder: str | None = None, *, on_progress: "OnProgress" = ignore_progress) -> None:
        """Compute all vectors again, with another embedding model if given. Raises IndexBusy, ModelError."""
        from localrag.indexing.pipeline import reembed

        with self._write_project(embedder=embedder, rebuild=True) as project:
            asyncio.run(reembed(project, on_progress))

    def collect_garbage(self, *, only_say: bool = False) -> "list[CollectedItems]":
        """Delete everything no longer needed, or only report it; returns the freed items by kind. `add` keeps garbage within its limits."""
        from localrag.indexing.garbage import collect_everything

        with self._write_project() as project:
            return asyncio.run(collect_everything(project, only_say=only_say))

    # Questions

    def load_models(self) -> None:
        """Open the models that questions need, to report missing ones early. Raises NoIndex, IndexMismatch, ModelError."""
        self._query_project()

    def ask(self, question: str, **options: Any) -> Answer:
        """Answer a question with verbatim citations; the answer is stored in the index. Options are those of `aask`.

        Raises UsageError, NoIndex for an empty index, ModelError.
        """
        self.load_models()  # outside the event loop, where an interrupt would have to wait
        return asyncio.run(self.aask(question, **options))

    async def aask(
        self,
        question: str,
        *,
        on_text: Callable[[str], None] | None = None,
        watch: "AnswerCallbacks | None" = None,
        history: Sequence[Answer] = (),
        **options: Any,
    ) -> Answer:
        """Answer a question within a running event loop. When cancelled it stops the model and keeps the part checked so far.

        `on_text`: called with the answer sentence by sentence, each checked. `watch`: further callbacks, which can also decline an
        expensive answer. `history`: the conversation so far, oldest first, if the index does not store it. Options are the fields of
        `localrag.query.question.QueryOptions`: `mode`, `max_seconds`, `conversation` and so on. Raises as `ask`.
        """
        from localrag.asking import answer_question
        from localrag.query.question import NO_CALLBACKS, QueryOptions

        watch = watch or NO_CALLBACKS
        watch = replace(watch, on_text=on_text or watch.on_text)
        return await answer_question(question, self._query_project(), QueryOptions(**options), watch, history)

    async def astream(self, question: str, **options: Any) -> AsyncIterator[str | Answer]:
        """Yield the checked answer text as it comes, and finally the complete `Answer`. Closing the iterator stops the model."""
        texts: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.create_task(self.aask(question, on_text=texts.put_nowait, **options))
        task.add_done_callback(lambda _: texts.put_nowait(""))
        try:
            while text := await texts.get():
                yield text
            yield await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    def suggest(self, n: int = 5, *, about: str = "", selection: DocumentFilter = NO_FILTER) -> list[str]:
        """Questions that the index can answer: about an entity, to go on, or to begin. Raises LocalragError, NoMatchingDocuments."""
        from localrag.query.conversation import suggest_questions
        from localrag.query.retriever import named_entities
        from localrag.store import answers

        with filter_project(self._query_project(), selection) as project:
            if about and not named_entities(about, project):
                raise LocalragError(f"No entity is called {about!r}.", f"Look for it: localrag search {about!r}")
            last = None if about else answers.last_answer(project.db)
            history = answers.conversation(project.db, last.conversation) if last and last.conversation else []
            return suggest_questions(project, history, about=about, n=n)

    def search(self, query: str, k: int = 10, *, selection: DocumentFilter = NO_FILTER) -> list[SearchHit]:
        """The `k` chunks most relevant to a query, best first, found by words, vectors and the graph, without a chat model.

        A chunk has every `"phrase in quotes"` of the query, and nothing after a minus: `-word`, `-"a phrase"`. `selection`: the documents
        to search. Raises UsageError for an empty query, NoMatchingDocuments, NoIndex for an empty index.
        """
        from localrag import serializers
        from localrag.query.question import check_question
        from localrag.query.retriever import search_passages

        if not query.strip():
            raise UsageError("The query is empty.", 'Search for something: localrag search "the ferry"')
        check_question(query)
        with filter_project(self._search_project(), selection) as project:
            rows = serializers.serialize_passages(query, search_passages(query, project, k), project)
        return [
            SearchHit(r["path"], r["part"], r["start"], r["end"], r["text"], r["snippet"], r["score"], tuple(r["headings"])) for r in rows
        ]

    def themes(self, topic: str = "", *, selection: DocumentFilter = NO_FILTER) -> list[IndexRow]:
        """The themes of the documents, or of the passages near a topic, the nearest first; none of a topic without any.

        `number`, `label`, key `phrases`, the number of `documents` with a passage about it, of all, `paths`, `passages`, `quotes` and the
        themes that it divides into, `parts`. `selection`: the documents to look at. Raises NoMatchingDocuments, NoIndex.
        """
        from localrag import serializers
        from localrag.query.theme_answers import topic_themes

        with filter_project(self._search_project(), selection) as project:
            return serializers.serialize_themes(topic_themes(topic, project), project.db)

    # Tables

    def plan_review(self, questions: Sequence[str], *, rows: str = "document", selection: DocumentFilter = NO_FILTER) -> "ReviewPlan":
        """What `review` would read, and about how long it takes. Raises UsageError, NoMatchingDocuments, NoIndex, ModelError."""
        from localrag.analysis.review import plan_review
        from localrag.analysis.review_questions import parse_questions

        with filter_project(self._query_project(), selection) as project:
            return plan_review(parse_questions(questions), project, rows=rows)

    def review(
        self,
        questions: Sequence[str],
        *,
        rows: str = "document",
        max_seconds: float | None = None,
        selection: DocumentFilter = NO_FILTER,
        on_work: "OnWork | None" = None,
    ) -> "ResultTable":
        """The answer of every document to every question, with its quote; what was read before is not read again.

        `questions`: each with the kind of its answer where one is asked for, such as "date: When does it end?". `rows`: "document",
        "chapter" or "record". Raises UsageError, NoMatchingDocuments, NoIndex for an empty index, ModelError.
        """
        from localrag.analysis.review import review_documents
        from localrag.analysis.review_questions import parse_questions

        with filter_project(self._query_project(), selection) as project:
            return review_documents(parse_questions(questions), project, rows=rows, max_seconds=max_seconds, on_work=on_work)

    def decide(self, path: str, question: str, text: str | None = None, *, section: str = "", rows: str = "document") -> "Cell":
        """Approve a cell of a review, or correct it to `text`, also for later. `section`: of a chapter or record. Raises UsageError."""
        from localrag.analysis.review import decide_cell
        from localrag.analysis.review_questions import parse_questions

        (asked,) = parse_questions([question])
        return decide_cell(self._query_project(), path, asked, text, section=section, rows=rows)

    def timeline(
        self, about: str = "", *, limit: int | None = None, selection: DocumentFilter = NO_FILTER, on_work: "OnWork | None" = None
    ) -> "ResultTable":
        """The dated statements, or those about an entity or a topic, in order. Raises NoMatchingDocuments, NoIndex, ModelError."""
        from localrag.analysis.timeline import make_timeline

        with filter_project(self._query_project(), selection) as project:
            return make_timeline(project, about, limit=limit, on_work=on_work)

    def list_items(self, request: str, *, selection: DocumentFilter = NO_FILTER, on_work: "OnWork | None" = None) -> "ResultTable":
        """All items that match a request, each with its statement. Raises UsageError, NoMatchingDocuments, NoIndex, ModelError."""
        from localrag.analysis.item_list import list_items

        with filter_project(self._query_project(), selection) as project:
            return list_items(project, request, on_work=on_work)

    def compare(self, first: str, second: str, *, include_same: bool = False, on_work: "OnWork | None" = None) -> "ResultTable":
        """Two documents passage by passage: the same, changed, moved, or only in one. Raises UsageError, NoIndex, ModelError."""
        from localrag.analysis.document_diff import compare_documents

        return compare_documents(self._query_project(), first, second, include_same=include_same, on_work=on_work)

    @property
    def calls(self) -> int:
        """The number of LLM calls for questions to this `Index` since it was opened."""
        return self._asked.model.calls if self._asked else 0

    # Open projects

    @contextmanager
    def _write_project(self, sources: Sequence[Path] = (), *, embedder: str | None = None, **options: Any) -> Iterator[Project]:
        """The index open for writing, with settings; within `write_session`, the one it opened. `sources`: what will be added to it."""
        self.close()
        changes = {name: value for name, value in options.items() if name not in ("model", "rebuild", "recluster")}
        if self._written is not None:
            if embedder or changes:
                raise UsageError("Settings and the embedder are chosen when writing begins.", "Give them to `write_session`.")
            yield self._written
            return
        embedder = embedder or self._embedder_of_languages(sources, changes)
        with open_for_writing(self.folder, embedder=embedder, engine=self._engine, **options) as project:
            self._written = project
            try:
                yield project
            finally:
                self._written = None

    def _embedder_of_languages(self, sources: Sequence[Path], changes: dict[str, Any]) -> str | None:
        """The multilingual embedder, if the documents to be added to a new index need it and nobody named another."""
        settings = settings_without_embedder(self.folder, changes) if sources else None
        if settings is None:
            return None
        from localrag.indexing.documents import MULTILINGUAL_EMBEDDER, languages_beside_english
        from localrag.text.language import LANGUAGE_NAMES

        languages = languages_beside_english(sources, documents_root(self.folder), settings)
        if not languages:
            return None
        named = ", ".join(LANGUAGE_NAMES.get(code, code) for code in languages)
        (self._engine or EngineOptions()).notify(f"Languages: {named}. Embedding with {MULTILINGUAL_EMBEDDER} (another: --embedder NAME).")
        return MULTILINGUAL_EMBEDDER

    def _query_project(self) -> Project:
        if self._asked is None:
            project = open_for_query(self.folder, model=self._model, reranker=self._reranker, engine=self._engine, logs=self.logs)
            self._asked = self._open.enter_context(project)
        return self._asked

    def _search_project(self) -> Project:
        if self._asked is None and self._searched is None:
            opened = open_for_query(self.folder, reranker=self._reranker, asks=False, logs=self.logs)
            self._searched = self._open.enter_context(opened)
        project = self._asked or self._searched
        assert project is not None
        return project


def _listed(paths: Paths) -> list[Path]:
    return [Path(paths)] if isinstance(paths, str | PathLike) else [Path(p) for p in paths]


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    if unknown := settings.keys() - {field.name for field in fields(IndexSettings)}:
        raise UsageError(f"There is no setting {sorted(unknown)[0]!r}.", "Settings are the fields of localrag.settings.IndexSettings.")
    return settings


__all__ = ["Index", "SearchHit"]
