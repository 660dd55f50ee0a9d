"""`localrag gc`, and the end of each run: what an index no longer needs is deleted. Part of the pipeline; the rules: `store/growth.py`."""

import shutil
import time
from contextlib import suppress
from itertools import chain
from pathlib import Path

from localrag.index.crew import shipping
from localrag.index.extraction.phrases import PHRASES
from localrag.index.extraction.stage import in_part, recipe_of
from localrag.project import Project, choose_style
from localrag.records import IMPORTED
from localrag.store import connect as connection
from localrag.store import growth, network, vectors
from localrag.store.departed import gone_words
from localrag.store.growth import Freed, Today
from localrag.store.search import clear_search, clear_search_stepwise
from localrag.system.files import cache_dir, is_dead_part

SENT_MODELS = "models sent to a worker"  # each a folder
UNUSED_DAYS = {  # of files in the user cache, which serve every index; each is made again where it is missing
    "prefixes": ("prefixes/*/*.kv", 30),
    "copies of models": ("models/*.gguf", 90),
    SENT_MODELS: (f"{shipping.FOLDER}/*/", 90),
    "converted embedders": ("embedders/*.gguf", 90),
    "vocabularies": ("vocabularies/*.json", 90),
}


async def collect(project: Project, *, changed: bool) -> list[Freed]:
    """Delete what is over its limit of age or size, and what is left of texts that are in no document any more; what that freed.

    Nothing is looked at where a run `changed` nothing, and settings and documents are those of the last one.
    """
    db, today = project.db, await _today(project)
    if not changed and not growth.is_due(db, today):
        return []
    words = gone_words(db)
    freed = growth.collect(db, today, words, everything=False)
    clear_search_stepwise(db, due=bool(words))
    freed += _remove(_files(project))
    connection.empty_log(db)
    return freed


async def collect_all(project: Project, *, only_say: bool) -> list[Freed]:
    """Delete all that nothing needs any more, whatever its age, and give back what is empty; `only_say`: what that would free."""
    db = project.db
    today = await _today(project)
    empty, words = growth.empty_pages(db), gone_words(db)
    if only_say:
        return [*growth.would_free(db, today, words), *empty, *_sizes(_files(project))]
    freed = growth.collect(db, today, words, everything=True)
    clear_search(db)
    growth.give_back(db)
    connection.empty_log(db)
    return [*freed, *empty, *_remove(_files(project))]


async def _today(project: Project) -> Today:
    """What the graph and its reports are made with."""
    by_model = project.settings.extractor == "model"
    style = await choose_style(project) if by_model else "extractive"
    recipe = recipe_of(project, style) if by_model else ""
    used = (IMPORTED, *([recipe, in_part(recipe)] if by_model else []), PHRASES)
    return Today(project.model.file.fingerprint, recipe, used, prose=style == "abstractive")


Files = dict[str, list[Path]]  # kind → the files and folders to delete


def _files(project: Project) -> Files:
    """Files that go: copies of the database, caches of what was before, what killed processes began, what the engine has not used."""
    folder, now = project.folder, time.time()
    fresh = {*vectors.files(project.db, folder), *network.files(project.db, folder)}
    parts = [f for f in folder.glob("*.part") if is_dead_part(f) or f.name.startswith("index.db")]  # of the one writer, who is here
    stale = [f for f in connection.cache_files(folder) if f not in fresh and f.suffix != ".part"]
    cached = {kind: _unused(pattern, days, now) for kind, (pattern, days) in UNUSED_DAYS.items()}
    cached[SENT_MODELS] += shipping.dead_parts(cache_dir() / shipping.FOLDER)
    return {"backups": growth.unused_backups(folder, now), "caches": [*stale, *parts], **cached}


def _unused(pattern: str, days: int, now: float) -> list[Path]:
    found = []
    with suppress(OSError):
        for path in cache_dir().glob(pattern):
            facts = [file.stat() for file in _files_in(path)]
            last = max((max(f.st_mtime, f.st_atime) for f in facts), default=now)
            if now - last > days * 86_400 and path.suffix != ".part":  # `dead_parts` finds those
                found.append(path)
    return found


def _files_in(path: Path) -> list[Path]:
    """The files below a folder, or the file itself. A folder's own times do not tell when it was used: listing it changes them."""
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def _sizes(files: Files) -> list[Freed]:
    return [Freed(kind, len(some), sum(map(_size, some))) for kind, some in files.items() if some]


def _size(path: Path) -> int:
    with suppress(OSError):  # another process was quicker
        return sum(file.stat().st_size for file in _files_in(path))
    return 0


def _remove(files: Files) -> list[Freed]:
    freed = _sizes(files)
    for path in chain.from_iterable(files.values()):
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    return freed
