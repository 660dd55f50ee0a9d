"""Opening a project: find the index folder, bind it to its models, hand out what indexing and questions work with."""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from sqlite3 import OperationalError
from typing import Any

from sqlite_utils import Database

from localrag.config import INDEX_FOLDER, Settings, project_file
from localrag.engine.embedding.embedder import open_embedder, open_reranker
from localrag.engine.settings import EngineOptions
from localrag.errors import IndexMismatch, ModelError, NoIndex, UsageError
from localrag.llm.domain import read_domain
from localrag.llm.model import Model
from localrag.llm.prompts import prompt_files, prompt_name, read_prompts, untrusted_prompts
from localrag.llm.reader import Reader
from localrag.llm.tagging import Tagger
from localrag.model_table import known_models
from localrag.models import ModelFile, bundled_chat_model, find_chat_model, find_embedder, find_reranker
from localrag.project import Opened, Project
from localrag.store import ledger
from localrag.store.connect import only_read
from localrag.store.copied import marked_as_writing
from localrag.store.graph import holds_any
from localrag.store.memory import kept_in_memory
from localrag.store.names import FILE_NAME, nearest_index
from localrag.store.schema import open_index, writer_lock
from localrag.system.files import config_dir
from localrag.system.ownership import check_owned
from localrag.system.trust import is_known, remember


def find_index(chosen: Path | None) -> Path:
    """The index folder: the one given, or `.localrag` here or in the nearest parent.

    Raises NoIndex; UsageError for an index that was not named and that others made or may change.
    """
    if folder := nearest_index(chosen):
        if chosen is None:
            name = shlex.quote(str(folder))
            own = f" To make your own here: localrag index PATH --index {INDEX_FOLDER}" if folder.parent != Path.cwd() else ""
            hint = f"If you trust it, name it: --index {name}.{own}"
            check_owned((folder, folder / FILE_NAME), f"The index in {folder}", hint)
        return folder if chosen is None else folder.resolve()
    if chosen is not None:
        raise NoIndex(f"There is no index in {chosen}.", f"Make one: localrag index PATH --index {chosen}")
    raise NoIndex("There is no index here or in a folder above.", "Make one: localrag index PATH")


def index_folder(chosen: Path | None) -> Path:
    """The index folder as `find_index` finds it, or else the one that indexing makes: the one given, or `.localrag` here."""
    try:
        return find_index(chosen)
    except NoIndex:
        return (chosen or Path.cwd() / INDEX_FOLDER).absolute()


def root_of(folder: Path) -> Path:
    """The folder that stored paths are relative to: the parent of `.localrag`, or the index folder's own parent."""
    return folder.resolve().parent


@contextmanager
def open_for_writing(
    chosen: Path | None,
    *,
    model: str | None = None,
    embedder: str | None = None,
    rebuild: bool = False,
    recluster: bool = False,
    engine: EngineOptions | None = None,
    **changes: Any,
) -> Iterator[Project]:
    """The project to index into, made where it is missing, locked against a second writer; `changes` are new values of settings.

    Raises IndexMismatch where the index was made with other models and `rebuild` is not set; IndexBusy, ModelError, UsageError.
    With `recluster` the next run finds all communities anew.
    """
    folder = index_folder(chosen)
    fresh = not (folder / FILE_NAME).exists()
    chat = _chat_model(folder, model, engine, fresh=fresh)
    vectors = find_embedder(embedder) if embedder or fresh else _bound_model(folder, "embedder")
    models = {"chat_model": chat.binding, "embedder": vectors.binding}  # before a folder is made: a damaged file is refused here
    with writer_lock(folder), kept_in_memory(folder), closing(open_index(folder, create=True)) as db:
        bound, empty = ledger.settings(db), not holds_any(db, "documents")
        _bind(folder, bound, chat, vectors, rebuild=rebuild or empty)  # a first run that found nothing leaves the choice of models open
        if rebuild:
            ledger.save_settings(db, window_of={})
        if recluster:
            ledger.save_settings(db, reclustered=bound.get("reclustered", 0) + 1)
        number = ledger.identity(db)
        for file in (chat, vectors):
            remember("model", number, file.given)
        if not empty and bound.get("embedder", models["embedder"])["fingerprint"] != vectors.fingerprint:
            del models["embedder"]  # questions need the one that the published vectors are of: it changes when they do
        settings = replace(Settings.from_json(bound.get("settings", {})), **changes)
        ledger.save_settings(db, settings=settings.to_json(), **models)
        settings = _with_files(settings, folder, engine or EngineOptions())
        reader, tagger = reader_for(chat, engine or EngineOptions()), tagger_for(chat, engine or EngineOptions())
        vectors_by = open_embedder(vectors)
        project = Project(
            root_of(folder), folder, db, db, settings, Model(ledger.CallLedger(db), chat, engine), vectors_by, None, reader, tagger
        )
        with closing(project), marked_as_writing(db):
            yield project


def settings_for(
    folder: Path, model: str | None, changes: dict[str, Any], engine: EngineOptions | None = None
) -> tuple[Path, Settings, ModelFile, Database | None]:
    """What a run would use: the root of stored paths, settings, model, and the index as it is, if there is one. Raises ModelError."""
    if not (folder / FILE_NAME).exists():
        return root_of(folder), replace(Settings(), **changes), _chat_model(folder, model, engine, fresh=True), None
    chat, db = _chat_model(folder, model, engine), open_index(folder)
    try:
        return root_of(folder), replace(Settings.from_json(ledger.settings(db).get("settings", {})), **changes), chat, db
    except BaseException:
        db.close()
        raise


@contextmanager
def open_to_look(chosen: Path | None) -> Iterator[Opened]:
    """The index to look into: no model is needed, nor looked for. Raises NoIndex."""
    folder = find_index(chosen)
    with closing(open_index(folder, still=True)) as db:
        yield Opened(root_of(folder), folder, db)


@contextmanager
def open_for_questions(
    chosen: Path | None,
    *,
    model: str | None = None,
    reranker: str | None = None,
    engine: EngineOptions | None = None,
    asks: bool = True,
    still: bool = False,
    logs: bool = True,
) -> Iterator[Project]:
    """The project to ask. `model` may be another chat model than the index was made with; without `asks` none is looked for.

    `answer` reads every question from a moment of its own; `still` holds the whole project to one, for a command that only looks, and soon
    ends. Without `logs` neither questions, answers nor what the model says of them are kept: nothing is written to the index, and no KV
    to files. Raises NoIndex, IndexMismatch, ModelError.
    """
    folder, engine = find_index(chosen), replace(engine or EngineOptions(), prefix_files=logs)
    with (
        kept_in_memory(folder),
        closing(open_index(folder, still=still)) as db,
        closing(_project_to_ask(db, folder, model, reranker, engine, asks=asks, logs=logs)) as project,
    ):
        yield project


def _project_to_ask(
    db: Database, folder: Path, model: str | None, reranker: str | None, engine: EngineOptions, *, asks: bool, logs: bool
) -> Project:
    """The project of an open index, for `open_for_questions`."""
    if not logs:
        only_read(db.conn)
    bound = ledger.settings(db)
    if "chat_model" not in bound:
        raise NoIndex(f"The index in {folder} is empty.", "Fill it: localrag index PATH")
    embedder = _bound_model(folder, "embedder")
    if bound["embedder"]["fingerprint"] != embedder.fingerprint:
        raise IndexMismatch(
            f"This index was made with the embedding model {bound['embedder']['name']}, not {embedder.name}.",
            "Embed it anew, which asks no chat model anything: localrag reembed",
        )
    chat = _chat_model(folder, model, engine) if asks else bundled_chat_model()
    if model and logs and asks:
        _save_model_path(db, bound["chat_model"], chat)
    settings = _with_files(Settings.from_json(bound.get("settings", {})), folder, engine)
    rerank = open_reranker(find_reranker(reranker)) if reranker else None
    reader = reader_for(chat, engine) if asks else None
    quick = open_embedder(embedder, quick=True)
    kept = ledger.CallLedger(db) if logs else ledger.Unlogged(ledger.CallLedger(db))
    return Project(root_of(folder), folder, db, db, settings, Model(kept, chat, engine), quick, rerank, reader, logs=logs)


def prompt_folders(root: Path) -> list[Path]:
    """Where a user's own prompts may be, the first first: beside the nearest localrag.toml above `root`, else in it; then the user's."""
    project = project_file(root)
    return [(project.parent if project else root) / "prompts", config_dir() / "prompts"]


def prompts_in_use(root: Path) -> dict[str, list[str]]:
    """The files of prompts that replace shipped ones (`own`), and those that would if the user trusted them (`untrusted`)."""
    folders = prompt_folders(root)
    untrusted = untrusted_prompts(folders)
    own: dict[str, str] = {}
    for path in prompt_files(folders):
        if path not in untrusted:
            own.setdefault(prompt_name(path), str(path))
    return {"own": list(own.values()), "untrusted": [str(path) for path in untrusted]}


def _with_files(settings: Settings, folder: Path, engine: EngineOptions) -> Settings:
    """The settings with the domain and the prompts from the user's files; says which prompts are not trusted. Raises UsageError."""
    folders = prompt_folders(root_of(folder))
    prompts = read_prompts(folders)
    if left_out := untrusted_prompts(folders):
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        engine.say(f"Not used, because you have not trusted it: the prompt {left_out[0]}{more}. If you do: localrag prompts trust")
    return replace(settings.with_domain(read_domain(folder)), prompts=prompts)


def bound_to(chosen: Path | None) -> dict[str, Any]:
    """What an index with documents was made with, as the store keeps it; empty where there is none, or nothing in it yet."""
    try:
        folder = find_index(chosen)
    except NoIndex:
        return {}
    with closing(open_index(folder)) as db:
        return ledger.settings(db) if holds_any(db, "documents") else {}


def reader_for(chat: ModelFile, engine: EngineOptions) -> Reader | None:
    """The reader of short answers, unless the user does without it. Settings by hand are its own only where it is the chat model's file."""
    own = chat.fingerprint == bundled_chat_model().fingerprint
    return Reader(engine if own else replace(engine, values="")) if engine.adapter else None


def tagger_for(chat: ModelFile, engine: EngineOptions) -> Tagger | None:
    """The tagger of names, in place of the bundled chat model and no other, unless the user does without it."""
    return Tagger() if engine.adapter and not chat.url and chat.fingerprint == bundled_chat_model().fingerprint else None


def model_names(folder: Path) -> tuple[str | None, str | None]:
    """How to find the chat model and the embedder an index was made with, whether or not they are still there; None for the default.

    Raises UsageError for a model that was not chosen on this machine.
    """
    bound, table = _bound(folder), known_models()
    chat, embedder = (
        _model_candidates(folder, bound, kind, table[listed])[0] if kind in bound else None
        for kind, listed in (("chat_model", "chat"), ("embedder", "embedder"))
    )
    return chat, embedder


def _chat_model(folder: Path, model: str | None, engine: EngineOptions | None, *, fresh: bool = False) -> ModelFile:
    """The chat model asked for, else the index's own; of one behind a server, what the server tells. Raises ModelError, UsageError."""
    file = find_chat_model(model) if model or fresh else _bound_model(folder, "chat_model")
    known = None if fresh else _bound(folder)
    if model and known is not None:
        remember("model", _identity(known, folder), file.given)
    if not file.url:
        return file
    from localrag.engine.remote.remote import identified  # a client for the network, loaded only where a model is behind a server

    return identified(file, engine or EngineOptions(), (known or {}).get("chat_model"))


def _save_model_path(db: Database, bound: dict[str, str], chat: ModelFile) -> None:
    """Save the location of the chat model in an index that was unpacked without one, once the user has named it."""
    is_same = chat.fingerprint == bound["fingerprint"] or (chat.url and chat.name == bound["name"])
    if not bound["path"] and is_same:
        with suppress(OperationalError):  # a read-only index can still answer
            ledger.save_settings(db, chat_model=bound | {"path": chat.given})


def _bound(folder: Path) -> dict[str, Any]:
    with closing(open_index(folder)) as db:
        return ledger.settings(db)


def _identity(bound: dict[str, Any], folder: Path) -> str:
    """The id by which this machine knows an index; the folder of an index of an older version, which has no id yet."""
    known = bound.get("id")
    return known if isinstance(known, str) else str(folder.resolve())


def _bound_model(folder: Path, kind: str) -> ModelFile:
    """The model an index was made with, under the name it has there; the default where it was made with none.

    Its file may have moved, and its name may by now be another file's: the one with the fingerprint is taken, of the list or of the path.
    Raises ModelError; UsageError for a model that was not chosen on this machine.
    """
    find = find_chat_model if kind == "chat_model" else find_embedder
    known = _bound(folder)
    if kind not in known:
        return find(None)
    listed = known_models()["chat" if kind == "chat_model" else "embedder"]
    candidates = _model_candidates(folder, known, kind, listed)
    for candidate in candidates:
        with suppress(ModelError):
            file = replace(find(candidate), name=str(known[kind]["name"]), by_index=True)
            if file.url or file.fingerprint == known[kind]["fingerprint"]:
                return file
    return find(candidates[0])


def _model_candidates(folder: Path, known: dict[str, Any], kind: str, listed: Iterable[str]) -> list[str]:
    """Where to look for the model an index was made with: its name on the user's list, and the path or servers that the index names.

    The index may come from somebody else. A file or server that it names is used only if the user chose it on this machine, for this index
    or by adding it to the list of models. The fingerprint proves nothing: whoever made the index wrote it and may have sent the file.
    Raises UsageError if nothing may be used.
    """
    name, path = str(known[kind]["name"]), str(known[kind]["path"])
    candidates = [name] if name in listed and "://" not in path else []
    given = find_chat_model(path).given if "://" in path else path
    if is_known("model", _identity(known, folder), given) or _is_listed(path, kind, listed):
        candidates.append(path)
    if candidates:
        return candidates
    if not path:
        raise _unknown_location(folder, kind, name)
    if kind == "chat_model":
        mend = f'localrag ask "…" --model {shlex.quote(path)} --index {shlex.quote(str(folder))}'
    else:
        mend = f"localrag models add {shlex.quote(path)} --kind embedder, or embed anew: localrag reembed --embedder NAME"
    if "://" in path:
        raise UsageError(
            f"The index in {folder} names a model server that was not chosen for it on this machine: {path}. Nothing was sent there.",
            f"If it may see your questions and passages: {mend}",
        )
    raise UsageError(
        f"The index in {folder} names a model file that was not chosen for it on this machine: {path}. It was not opened.",
        f"If you trust that file: {mend}",
    )


def _unknown_location(folder: Path, kind: str, name: str) -> UsageError:
    """The error for an unpacked index, which does not say where its models are."""
    if kind == "chat_model":
        mend = f'localrag ask "…" --model http://HOST:PORT/v1#{shlex.quote(name)} or --model FILE.gguf --index {shlex.quote(str(folder))}'
    else:
        mend = f"localrag models add FILE --name {shlex.quote(name)} --kind embedder, or embed anew: localrag reembed --embedder NAME"
    return UsageError(f"The index in {folder} needs the model {name} and does not say where it is on this machine.", f"Say so once: {mend}")


def _is_listed(path: str, kind: str, listed: Iterable[str]) -> bool:
    find = find_chat_model if kind == "chat_model" else find_embedder
    if path in listed:
        return True
    for name in listed:
        with suppress(ModelError):
            if str(find(name).path) == path:
                return True
    return False


def _bind(folder: Path, bound: dict[str, dict[str, str]], chat: ModelFile, embedder: ModelFile, *, rebuild: bool) -> None:
    mend = {"chat_model": "redo the model's part: --rebuild", "embedder": "embed it anew: localrag reembed --embedder NAME|PATH"}
    for kind, file in (("chat_model", chat), ("embedder", embedder)):
        if kind in bound and bound[kind]["fingerprint"] != file.fingerprint and not rebuild:
            raise IndexMismatch(
                f"The index in {folder} was made with {bound[kind]['name']}, not with {file.name}.",
                f"Leave out --model and --embedder, use another folder (--index DIR), or {mend[kind]}.",
            )
