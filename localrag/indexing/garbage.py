"""Garbage collection at the end of a run and by `localrag gc`, and the end of an erasure.

The rules of garbage collection are in `store/retention.py`. An erasure ends when nothing derived from the removed documents is left in the
index folder.
"""

import time
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.extraction.stage import extraction_hash_of, partial_hash
from localrag.indexing.graph.entity_resolution import remove_aliases
from localrag.indexing.method import resolve_method
from localrag.llm.prompts import update_domain_files
from localrag.project import Project
from localrag.records import IMPORTED_MARK
from localrag.settings import Domain
from localrag.store import database, entity_network, erasure, retention, tombstones
from localrag.store.full_text import merge_segments, merge_segments_if_small
from localrag.store.retention import CollectedItems, CurrentConfig
from localrag.system.files import cache_dir, is_stale_temp_file
from localrag.themes import subjects_file, themes_file

CACHE_MAX_AGE_DAYS = {  # of files in the user cache, which all indexes share; a missing one is created again
    "prefixes": ("prefixes/*/*.kv", 30),
    "copies of models": ("models/*.gguf", 90),
    "converted embedders": ("embedders/*.gguf", 90),
    "vocabularies": ("vocabularies/*.json", 90),
}


async def collect_garbage(project: Project, *, changed: bool) -> list[CollectedItems]:
    """Delete files and rows over their limit of age or size, and the rest of removed texts; returns the deleted items.

    Does nothing if the run `changed` nothing and the settings and documents are those of the last run.
    """
    db, today = project.db, await _current_config(project)
    if not changed and not retention.is_collection_due(db, today):
        return []
    has_removed_text = retention.has_removed_text(db)
    freed = retention.collect_garbage(db, today, everything=False)
    if has_removed_text:
        merge_segments_if_small(db)
    freed += _remove(_files(project))
    database.truncate_wal(db)
    return freed


async def collect_everything(project: Project, *, only_say: bool) -> list[CollectedItems]:
    """Delete everything unneeded, whatever its age, and return free pages to the disk; `only_say`: only report it."""
    db = project.db
    today = await _current_config(project)
    empty = retention.free_pages(db)
    if only_say:
        return [*retention.preview_collection(db, today), *empty, *_sizes(_files(project))]
    freed = retention.collect_garbage(db, today, everything=True)
    merge_segments(db)
    retention.vacuum_if_fragmented(db)
    database.truncate_wal(db)
    return [*freed, *empty, *_remove(_files(project))]


async def _current_config(project: Project) -> CurrentConfig:
    """The settings that the graph and its reports are built with."""
    method = await resolve_method(project)
    by_model = method.by != "phrases"
    recipe = extraction_hash_of(project, method) if by_model else ""
    used = (IMPORTED_MARK, *([recipe, partial_hash(recipe)] if by_model else []), PHRASES_HASH)
    return CurrentConfig(project.model.file.fingerprint, recipe, used, is_abstractive="abstractive" in (method.style, method.reports))


FilesByKind = dict[str, list[Path]]  # kind → the files to delete


def _files(project: Project) -> FilesByKind:
    """Files to delete: old copies of the database, outdated caches, temporary files of killed processes, unused files of the engine."""
    folder, now = project.folder, time.time()
    themes = (themes_file(project.db, folder), subjects_file(project.db, folder))
    fresh = {*entity_network.current_cache_files(project.db, folder), *themes}
    parts = [f for f in folder.glob("*.part") if is_stale_temp_file(f) or f.name.startswith("index.db")]  # of this process
    stale = [f for f in database.rebuildable_files(folder) if f not in fresh and f.suffix != ".part"]
    cached = {kind: _unused(pattern, days, now) for kind, (pattern, days) in CACHE_MAX_AGE_DAYS.items()}
    return {"backups": retention.unused_backups(folder, now), "caches": [*stale, *parts], **cached}


def _unused(pattern: str, days: int, now: float) -> list[Path]:
    unused = []
    with suppress(OSError):
        for path in cache_dir().glob(pattern):
            status = path.stat()
            if now - max(status.st_mtime, status.st_atime) > days * 86_400:
                unused.append(path)
    return unused


def _sizes(files: FilesByKind) -> list[CollectedItems]:
    return [CollectedItems(kind, len(paths), sum(map(_size, paths))) for kind, paths in files.items() if paths]


def _size(path: Path) -> int:
    with suppress(OSError):  # another process deleted it first
        return path.stat().st_size
    return 0


def _remove(files: FilesByKind) -> list[CollectedItems]:
    freed = _sizes(files)
    for path in chain.from_iterable(files.values()):
        with suppress(OSError):
            path.unlink(missing_ok=True)
    return freed


def finish_erasure(project: Project) -> bool:
    """After documents were erased and the graph was rebuilt, delete everything else that has their words. Returns whether it is finished.

    Does nothing if no erasure is pending. False while another process still reads the old data; the next run then finishes it.
    """
    db, folder = project.db, project.folder
    if not erasure.is_erasure_pending(db):
        return True
    is_left_over = tombstones.contains_removed_words(db)

    def without(domain: Domain) -> Domain:
        """The domain without the parts that have such a word."""
        about, persona, rating = (
            "" if is_left_over(text) else text for text in (domain.description, domain.persona, domain.rating_criteria)
        )
        examples = tuple(e for e in domain.examples if not any(map(is_left_over, [e.text, *(n for n, _ in e.entities)])))
        return replace(domain, description=about, persona=persona, rating_criteria=rating, examples=examples)

    if update_domain_files(folder, without):
        project.model.notify(f"{folder / 'domain.toml'} no longer has what it quoted of them.")
    if lines := remove_aliases(folder, is_left_over):
        project.model.notify(f"{lines} decisions about their names are out of {folder / 'aliases.txt'}.")
    for study, remaining in erasure.delete_studies(db):
        project.model.notify(f"The study in {study} was made of them; it is gone as well.{_listed(remaining)}")
    for study in erasure.unproven_studies(db):
        project.model.notify(
            f"The index names a study in {study}, but nothing proves that it was made of this index here, so nothing in it was touched. "
            "If it holds what was removed, delete that folder yourself."
        )
    erasure.delete_derived_text(db)
    return erasure.scrub_files(db, folder)


def _listed(remaining: list[Path]) -> str:
    """A sentence that lists files that stay because localrag did not write them; empty if there are none."""
    return f" Files that localrag did not write stay: {', '.join(map(str, remaining))}" if remaining else ""
