"""An opened index with its models: find the folder, check the model binding, open read-only, for queries or for writing."""

import os
import shlex
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.engine.embedder import EmbeddingModel, open_embedder, open_reranker
from localrag.engine.settings import EngineOptions
from localrag.errors import IndexMismatch, ModelError, NoIndex, UsageError
from localrag.filters import DocumentFilter
from localrag.llm.budgets import MIN_BUDGETS, TokenBudgets
from localrag.llm.model import ChatModel
from localrag.llm.prompts import load_overrides, prompt_files, prompt_name, read_domain, untrusted_prompts
from localrag.llm.reader import PassageReader
from localrag.llm.tagger import Tagger
from localrag.model_files import (
    ModelFile,
    bundled_chat_model,
    find_chat_model,
    find_embedder,
    find_reranker,
    merged_models,
    shipped_models,
    user_models,
)
from localrag.settings import INDEX_FOLDER, IndexSettings, project_file
from localrag.store import llm_cache, runs
from localrag.store.database import keep_caches, set_read_only, snapshot
from localrag.store.filtered import open_filtered
from localrag.store.graph import has_rows
from localrag.store.location import DATABASE_FILE, find_nearest_index
from localrag.store.opening import open_index, writer_lock
from localrag.system.files import config_dir
from localrag.system.trust import check_owned, is_trust_known, remember_trust

SHARED_READER = PassageReader()


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An opened index. `root`: the folder that stored paths are relative to."""

    root: Path
    folder: Path
    db: Database


@dataclass(frozen=True, slots=True)
class Project(OpenIndex):
    """An opened index with its settings and models, for indexing and questions.

    `db` may be pinned to a snapshot; `write_db` stores settings. `reranker` scores chunks for a question, higher is better, if one was
    chosen; `reader` finds answers in passages, `tagger` names and their relations, when documents are indexed. Without `keep_answers` no
    question or answer is stored. `search_cache` holds search results for one question on an unchanging index; None disables it.
    """

    write_db: Database
    settings: IndexSettings
    model: ChatModel
    embedder: EmbeddingModel
    reranker: Callable[[str, Sequence[str]], NDArray[np.float32]] | None = None
    reader: PassageReader | None = None
    tagger: Tagger | None = None
    keep_answers: bool = True
    search_cache: dict[Hashable, Any] | None = None

    def close(self) -> None:
        """Free the models."""
        self.model.close()


@contextmanager
def filter_project(project: Project, selection: DocumentFilter) -> Iterator[Project]:
    """The project restricted to the filtered documents, on a snapshot. Raises UsageError and NoMatchingDocuments."""
    if not selection:
        yield project
        return
    with snapshot(project.folder) as db:
        yield replace(project, db=open_filtered(db, selection, project.root))


async def resolve_answer_style(project: Project) -> str:
    """The index's style: the setting, or for `auto` by the model's size; stored, so that no model has to be loaded."""
    if project.settings.style != "auto":
        return project.settings.style
    return str(await _stored_of_model(project, "style_model", _style_by_size))


async def resolve_token_budgets(project: Project) -> TokenBudgets:
    """The index's token budgets, by the context size of the model's first use here; stored, so that no model has to be loaded.

    A context that changes (by `--engine` or the free memory) must not cause all reports to be rewritten: a larger one takes effect only
    with `--rebuild`, and in a smaller one prompts that do not fit are shortened.
    """
    styles = runs.load_settings(project.db).get("style_model", {})
    if styles.get(project.model.file.fingerprint) == "extractive":  # the model is small
        return MIN_BUDGETS
    return TokenBudgets.of(await _stored_of_model(project, "budgets_model", _context_for_budgets))


async def _style_by_size(model: ChatModel) -> str:
    return "extractive" if await model.is_small() else "abstractive"


async def _context_for_budgets(model: ChatModel) -> int:
    return 0 if await model.is_small() else await model.context_size()


async def _stored_of_model(project: Project, name: str, find: Callable[[ChatModel], Awaitable[Any]]) -> Any:
    """A property of the chat model that the index stores under a name; found and stored on the model's first use."""
    known, fingerprint = runs.load_settings(project.db).get(name, {}), project.model.file.fingerprint
    if fingerprint not in known:
        known[fingerprint] = await find(project.model)
        with suppress(OperationalError):  # a read-only index can still answer
            runs.save_settings(project.write_db, **{name: known})  # the question's own connection is read-only
    return known[fingerprint]


async def current_token_budgets(project: Project) -> TokenBudgets:
    """The token budgets for the model's current context size."""
    return TokenBudgets.of(await project.model.context_size(), small=await project.model.is_small())


def find_index(path: Path | None) -> Path:
    """The index folder: the given one, or `.localrag` in the current or nearest parent folder.

    Raises NoIndex; UsageError for an index that was not named and that other users may have created or changed.
    """
    if folder := find_nearest_index(path):
        _refuse_link(folder, path)
        if path is None:
            name = shlex.quote(str(folder))
            create_hint = f" To create your own here: localrag index PATH --index {INDEX_FOLDER}" if folder.parent != Path.cwd() else ""
            hint = f"If you trust it, name it: --index {name}.{create_hint}"
            check_owned((folder, folder / DATABASE_FILE), f"The index in {folder}", hint)
        return folder if path is None else folder.resolve()
    if path is not None:
        raise NoIndex(f"There is no index in {path}.", f"Make one: localrag index PATH --index {path}")
    raise NoIndex("There is no index here or in a folder above.", "Make one: localrag index PATH")


def index_folder_or_default(path: Path | None) -> Path:
    """The index folder as in `find_index`, or else the one to create: the given one, or `.localrag` in the current folder."""
    try:
        return find_index(path)
    except NoIndex:
        _refuse_link(folder := (path or Path.cwd() / INDEX_FOLDER).absolute(), path)
        return folder


def _refuse_link(folder: Path, named: Path | None) -> None:
    """Raise UsageError for an index folder that is a link, unless it was named itself: a cloned folder's may lead to another index."""
    if folder != named and folder.is_symlink():
        raise UsageError(
            f"The index folder {folder} is a link, to {folder.resolve()}.", f"If you trust it, name it: --index {shlex.quote(str(folder))}"
        )


def documents_root(folder: Path) -> Path:
    """The folder that stored paths are relative to: the parent of the index folder."""
    return folder.resolve().parent


@contextmanager
def open_for_writing(
    path: Path | None,
    *,
    model: str | None = None,
    embedder: str | None = None,
    rebuild: bool = False,
    recluster: bool = False,
    engine: EngineOptions | None = None,
    **changes: Any,
) -> Iterator[Project]:
    """Open the project for indexing under the writer lock, and create it if missing; `changes` are new values of settings.

    Raises IndexMismatch if the index was made with other models and `rebuild` is not set; IndexBusy, ModelError, UsageError. With
    `recluster` the next run detects all communities again.
    """
    folder, engine = index_folder_or_default(path), engine or EngineOptions()
    is_new = not (folder / DATABASE_FILE).exists()
    chat = _chat_model(folder, model, engine, fresh=is_new)
    vectors = embedder_to_use(folder, embedder)
    # Before a folder is created, so that a damaged model file changes nothing.
    models = {"chat_model": chat.to_json, "embedder": vectors.to_json}
    with writer_lock(folder), keep_caches(folder), closing(open_index(folder, create=True)) as db:
        stored, empty = runs.load_settings(db), not has_rows(db, "documents")
        # An empty index is not bound to its models, and another one not to a chat model that computed nothing in it.
        computed_by_chat = {"chat_model": chat} if llm_cache.has_indexing_calls(db) else {}
        if not (rebuild or empty):
            _check_models(folder, stored, {**computed_by_chat, "embedder": vectors})
        if rebuild:
            runs.save_settings(db, budgets_model={}, auto_extractor={}, reports_style={})
        if embedder:
            runs.save_settings(db, is_embedder_named=True)
        if recluster:
            runs.save_settings(db, reclustered=stored.get("reclustered", 0) + 1)
        index_id = llm_cache.identity(db)
        for file in (chat, vectors):
            remember_trust("model", index_id, file.cli_argument)
        if changes.get("follow_links"):
            remember_trust("follow_links", index_id, str(documents_root(folder)))
        if not empty and stored.get("embedder", models["embedder"])["fingerprint"] != vectors.fingerprint:
            del models["embedder"]  # bound to the embedder of the published vectors until new ones are published
        settings = replace(IndexSettings.from_json(stored.get("settings", {})), **changes)
        runs.save_settings(db, settings=settings.to_json(), **models)
        project = Project(
            documents_root(folder),
            folder,
            db,
            write_db=db,
            settings=_with_files(settings, folder, engine),
            model=ChatModel(llm_cache.SqliteLlmCache(db), chat, engine),
            embedder=open_embedder(vectors),
            reader=passage_reader_for(engine),
            tagger=any_tagger(engine),
        )
        with closing(project):
            yield project


def check_links_chosen(db: Database, settings: IndexSettings, root: Path) -> None:
    """Raise UsageError if an index says that links are followed, and nobody on this machine chose that for it in this folder."""
    if settings.follow_links and not _follows_links(db, root):
        raise UsageError(
            f"The index in {root} follows links out of its folders, which was not chosen for it on this machine.",
            "If you want that, say it once: --follow-links. If not: --no-follow-links",
        )


def remember_sources(db: Database, root: Path, paths: Iterable[Path]) -> None:
    """Record on this machine the places outside the root that an index is made of."""
    for place in (path.resolve() for path in paths):
        if not place.is_relative_to(root):
            remember_trust("source", llm_cache.identity(db), str(root), str(place))


def is_own_place(db: Database, root: Path, path: Path) -> bool:
    """Whether a path is in the index's root, or in a place outside it that was indexed on this machine.

    The index may come from somebody else, and name any path; the folder may come with it, and hold links to any place.
    """
    place = Path(os.path.normpath(path.absolute())) if _follows_links(db, root) else path.resolve()
    folders, index_id = (place, *place.parents), str(runs.load_settings(db).get("id"))
    return root in folders or any(is_trust_known("source", index_id, str(root), str(folder)) for folder in folders)


def _follows_links(db: Database, root: Path) -> bool:
    return is_trust_known("follow_links", str(runs.load_settings(db).get("id")), str(root))


def embedder_to_use(folder: Path, embedder: str | None) -> ModelFile:
    """The embedder that a run uses: the one that is named, or the index's own, or the default of this machine. Raises ModelError."""
    is_new = not (folder / DATABASE_FILE).exists()
    return find_embedder(embedder) if embedder or is_new else bound_model(folder, "embedder")


def settings_without_embedder(folder: Path, changes: dict[str, Any]) -> IndexSettings | None:
    """The settings of an index that is new or empty, if nobody has named its embedder; else None. Raises ModelError."""
    if user_models().get("default_embedder"):
        return None
    if not (folder / DATABASE_FILE).exists():
        return replace(IndexSettings(), **changes)
    with closing(open_index(folder)) as db:
        stored = runs.load_settings(db)
        if stored.get("is_embedder_named") or has_rows(db, "documents"):
            return None
        return _settings_for_files(db, folder, changes)


def _settings_for_files(db: Database, folder: Path, changes: dict[str, Any]) -> IndexSettings:
    """The settings of an index, with changes, to find files with. Raises UsageError as `check_links_chosen`."""
    settings = IndexSettings.from_json(runs.load_settings(db).get("settings", {}))
    if "follow_links" not in changes:
        check_links_chosen(db, settings, documents_root(folder))
    return replace(settings, **changes)


def effective_settings(
    folder: Path, model: str | None, changes: dict[str, Any], engine: EngineOptions | None = None
) -> tuple[Path, IndexSettings, ModelFile, Database | None]:
    """The values a run would use: root of stored paths, settings, chat model, and the open index, if there is one. Raises ModelError."""
    if not (folder / DATABASE_FILE).exists():
        return documents_root(folder), replace(IndexSettings(), **changes), _chat_model(folder, model, engine, fresh=True), None
    chat, db = _chat_model(folder, model, engine), open_index(folder)
    try:
        return documents_root(folder), _settings_for_files(db, folder, changes), chat, db
    except BaseException:
        db.close()
        raise


@contextmanager
def open_read_only(path: Path | None) -> Iterator[OpenIndex]:
    """Open the index without models. Raises NoIndex."""
    folder = find_index(path)
    with closing(open_index(folder, still=True)) as db:
        yield OpenIndex(documents_root(folder), folder, db)


@contextmanager
def open_for_query(
    path: Path | None,
    *,
    model: str | None = None,
    reranker: str | None = None,
    engine: EngineOptions | None = None,
    asks: bool = True,
    still: bool = False,
    logs: bool = True,
) -> Iterator[Project]:
    """Open the project for questions. `model` may be another chat model than the index's; without `asks` no chat model is opened.

    Each question reads from its own snapshot; `still` pins the whole project to one, for commands that end soon. Without `logs` neither
    questions, answers nor LLM calls are stored, and no KV cache files are written. Raises NoIndex, IndexMismatch, ModelError.
    """
    folder, engine = find_index(path), replace(engine or EngineOptions(), prefix_files=logs)
    with (
        keep_caches(folder),
        closing(open_index(folder, still=still)) as db,
        closing(_project_to_ask(db, folder, model, reranker, engine, asks=asks, logs=logs)) as project,
    ):
        yield project


def _project_to_ask(
    db: Database, folder: Path, model: str | None, reranker: str | None, engine: EngineOptions, *, asks: bool, logs: bool
) -> Project:
    if not logs:
        set_read_only(db.conn)
    stored = runs.load_settings(db)
    if "chat_model" not in stored:
        raise NoIndex(f"The index in {folder} is empty.", "Fill it: localrag index PATH")
    embedder = bound_model(folder, "embedder")
    if stored["embedder"]["fingerprint"] != embedder.fingerprint:
        raise IndexMismatch(
            f"This index was made with the embedding model {stored['embedder']['name']}, not {embedder.name}.",
            "Compute the vectors again, without the chat model: localrag reembed",
        )
    chat = _chat_model(folder, model or _user_default(stored), engine) if asks else bundled_chat_model()
    if model and logs and asks:
        _save_model_path(db, stored["chat_model"], chat)
    settings = _with_files(IndexSettings.from_json(stored.get("settings", {})), folder, engine)
    rerank = open_reranker(find_reranker(reranker)) if reranker else None
    reader = passage_reader_for(engine) if asks else None
    query_embedder = open_embedder(embedder, quick=True)
    cache = llm_cache.SqliteLlmCache(db) if logs else llm_cache.MemoryOverlayCache(llm_cache.SqliteLlmCache(db))
    return Project(
        documents_root(folder), folder, db, db, settings, ChatModel(cache, chat, engine), query_embedder, rerank, reader, keep_answers=logs
    )


def _user_default(stored: dict[str, Any]) -> str | None:
    """The user's default chat model, to ask an index with that the bundled one was bound to; None if the user has chosen no default."""
    default = str(merged_models()["default_chat"])
    is_bundled = stored["chat_model"]["fingerprint"] == bundled_chat_model().fingerprint
    return default if is_bundled and default != shipped_models()["default_chat"] else None


def prompt_folders(root: Path) -> list[Path]:
    """The folders of user prompts by priority: beside the nearest localrag.toml at or above `root`, else in `root`; then the user's."""
    project = project_file(root)
    return [(project.parent if project else root) / "prompts", config_dir() / "prompts"]


def prompts_in_use(root: Path) -> dict[str, list[str]]:
    """The prompt files that replace shipped ones (`own`), and those ignored because the user has not trusted them (`untrusted`)."""
    folders = prompt_folders(root)
    untrusted = untrusted_prompts(folders)
    user_prompts: dict[str, str] = {}
    for path in prompt_files(folders):
        if path not in untrusted:
            user_prompts.setdefault(prompt_name(path), str(path))
    return {"own": list(user_prompts.values()), "untrusted": [str(path) for path in untrusted]}


def _with_files(settings: IndexSettings, folder: Path, engine: EngineOptions) -> IndexSettings:
    """The settings with domain and prompts from the user's files; notifies of untrusted prompts. Raises UsageError."""
    folders = prompt_folders(documents_root(folder))
    prompts = load_overrides(folders)
    if left_out := untrusted_prompts(folders):
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        engine.notify(f"Not used, because you have not trusted it: the prompt {left_out[0]}{more}. If you do: localrag prompts trust")
    return replace(settings.with_domain(read_domain(folder)), prompts=prompts)


def bound_models(path: Path | None) -> dict[str, Any]:
    """The settings of an index with documents, including its models; empty for a missing or empty index."""
    try:
        folder = find_index(path)
    except NoIndex:
        return {}
    with closing(open_index(folder)) as db:
        return runs.load_settings(db) if has_rows(db, "documents") else {}


def passage_reader_for(engine: EngineOptions) -> PassageReader | None:
    """The reader of passages, unless disabled. All projects of a process share one, which is loaded once."""
    return SHARED_READER if engine.use_adapters else None


def any_tagger(engine: EngineOptions) -> Tagger | None:
    """The tagger of names, unless disabled."""
    return Tagger() if engine.use_adapters else None


def tagger_for(chat: ModelFile, engine: EngineOptions) -> Tagger | None:
    """The tagger as a part of a chat model that is measured: only of the bundled one, unless disabled."""
    return Tagger() if engine.use_adapters and not chat.url and chat.fingerprint == bundled_chat_model().fingerprint else None


def _chat_model(folder: Path, model: str | None, engine: EngineOptions | None, *, fresh: bool = False) -> ModelFile:
    file = find_chat_model(model) if model or fresh else bound_model(folder, "chat_model")
    settings = None if fresh else _bound_settings(folder)
    if model and settings is not None:
        remember_trust("model", str(settings.get("id")), file.cli_argument)
    if not file.url:
        return file
    from localrag.engine.remote.servers import with_server_info  # a network client, imported only for served models

    return with_server_info(file, engine or EngineOptions(), (settings or {}).get("chat_model"))


def _save_model_path(db: Database, stored: dict[str, str], chat: ModelFile) -> None:
    """Store the location of the chat model in an unpacked index without one, once the user has named it."""
    is_same = chat.fingerprint == stored["fingerprint"] or (chat.url and chat.name == stored["name"])
    if not stored["path"] and is_same:
        with suppress(OperationalError):  # a read-only index can still answer
            runs.save_settings(db, chat_model=stored | {"path": chat.cli_argument})


def _bound_settings(folder: Path) -> dict[str, Any]:
    with closing(open_index(folder)) as db:
        return runs.load_settings(db)


def bound_model(folder: Path, kind: str) -> ModelFile:
    """The model an index was made with, under the name stored in it; the default if it has none.

    The file may have moved, and its name may now belong to another file: of the candidates the one with the fingerprint is taken. Raises
    ModelError; UsageError for a model that was not chosen on this machine.
    """
    find = find_chat_model if kind == "chat_model" else find_embedder
    settings = _bound_settings(folder)
    if kind not in settings:
        return find(None)
    listed = merged_models()["chat" if kind == "chat_model" else "embedder"]
    candidates = _model_candidates(folder, settings, kind, listed)
    for candidate in candidates:
        with suppress(ModelError):
            file = replace(find(candidate), name=str(settings[kind]["name"]), by_index=True)
            if file.url or file.fingerprint == settings[kind]["fingerprint"]:
                return file
    return find(candidates[0])


def _model_candidates(folder: Path, settings: dict[str, Any], kind: str, listed: Mapping[str, Any]) -> list[str]:
    """Where to look for the model of an index: its name in the user's list, and the path or servers stored in the index.

    The index may come from somebody else. A file or server that it names is used only if the user chose it on this machine, for this index
    or by adding it to the model list. The fingerprint proves nothing: whoever made the index may also have sent the file. Raises UsageError
    if nothing may be used.
    """
    name, path = str(settings[kind]["name"]), str(settings[kind]["path"])
    candidates = [name] if name in listed and "://" not in path else []
    argument = find_chat_model(path).cli_argument if "://" in path else path
    if is_trust_known("model", str(settings.get("id")), argument) or path in (entry["path"] for entry in listed.values()):
        candidates.append(path)
    if not candidates:
        raise _untrusted_model(folder, kind, name, path)
    return candidates


def _untrusted_model(folder: Path, kind: str, name: str, path: str) -> UsageError:
    """The error for an index whose model may not be used, or that does not say where it is, with the commands that name the model."""
    if not path:
        message = f"The index in {folder} needs the model {name} but does not say where it is on this machine."
    elif "://" in path:
        message = f"The index in {folder} names a model server that was not chosen for it on this machine: {path}. Nothing was sent there."
    else:
        message = f"The index in {folder} names a model file that was not chosen for it on this machine: {path}. It was not opened."
    if kind == "chat_model":
        place = shlex.quote(path) if path else f"http://HOST:PORT/v1#{shlex.quote(name)} or --model FILE.gguf"
        remedy = f'localrag ask "…" --model {place} --index {shlex.quote(str(folder))}'
    else:
        added = f"localrag models add {shlex.quote(path) if path else 'FILE'} --name {shlex.quote(name)} --kind embedder"
        remedy = f"{added}, or compute the vectors again: localrag reembed --embedder NAME"
    return UsageError(message, f"{'If you trust it, name it' if path else 'Name it'} once: {remedy}")


def _check_models(folder: Path, stored: dict[str, dict[str, str]], models: dict[str, ModelFile]) -> None:
    remedies = {
        "chat_model": "repeat the model's work: --rebuild",
        "embedder": "compute the vectors again: localrag reembed --embedder NAME|PATH",
    }
    for kind, file in models.items():
        if kind in stored and stored[kind]["fingerprint"] != file.fingerprint:
            raise IndexMismatch(
                f"The index in {folder} was made with {stored[kind]['name']}, not with {file.name}.",
                f"Leave out --model and --embedder, use another folder (--index DIR), or {remedies[kind]}.",
            )
