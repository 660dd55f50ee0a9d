"""Files → stored documents: only what is new, changed, moved or gone since the last run is touched. Part of the pipeline."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from sqlite_utils import Database

from localrag.config import Settings
from localrag.engine.tokens import Tokenizer
from localrag.errors import UsageError
from localrag.index.documents.chunk import chunk
from localrag.index.documents.known import Look, Stored, look
from localrag.index.documents.load import USUAL, Digests, Options, Sources, check_paths, find_files, is_there, load_all, stored_path
from localrag.index.documents.load.scans import ReadScans, scan_reader
from localrag.index.documents.load.tesseract import find_tesseract, reading_options
from localrag.index.documents.reach import OutOfReach, out_of_reach
from localrag.index.progress import Tell
from localrag.models import ModelFile
from localrag.project import Project
from localrag.records import IMPORTED, Document, Skipped
from localrag.store import collections as groups
from localrag.store import corpus, ledger, scans
from localrag.store.graph import holds_any
from localrag.store.moves import Moved, held_paths, id_of, move_documents
from localrag.store.seen import save_seen, seen
from localrag.system.cores import own_cores
from localrag.text.dates import file_day
from localrag.text.plain import Span

READERS = 4  # processes that read files at the same time, each with up to 2 GB of memory
MOST_DELETED = 1 / 3  # of the documents below the given paths: more are deleted only where the user says so


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of the files that were found: the paths of those that are new, changed, moved here or gone; those left out.

    `kept` are documents whose files are gone and that are so many that the user has to say whether they go, `unreached` those whose
    folders cannot be looked into; both are among those left out as well.
    """

    files: int
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    kept: tuple[str, ...] = ()
    unreached: tuple[OutOfReach, ...] = ()

    @property
    def touched(self) -> int:
        """How many documents are not what they were."""
        return len(self.new) + len(self.changed) + len(self.moved) + len(self.deleted)


@dataclass(frozen=True, slots=True)
class Deletion:
    """Whether documents go whose files are gone. `prune`: all of them, those below missing and empty folders included.

    Else those below a folder that cannot be looked into stay; where what is left is more than a third of the documents that a run is about,
    `asked(how many, of how many)` decides. `verify`: the contents of all files are compared, also of those that look as they did.
    """

    prune: bool = False
    asked: Callable[[int, int], bool] = lambda *_: False
    verify: bool = False


CAREFUL = Deletion()


def update_documents(
    paths: Sequence[Path], project: Project, tell: Tell, deletion: Deletion = CAREFUL, collections: Sequence[str] = ()
) -> Loaded:
    """Bring the stored documents up to date with the given files and folders, and put them into the collections; others stay.

    A file that was read before and cannot be now keeps its earlier content. Raises UsageError where there is nothing to index.
    """
    db, root, tops = project.db, project.root, [Path(os.path.realpath(p)) for p in paths]
    sources = find_sources(paths, root, project.settings, db)
    files = {stored_path(f, root): f for f in sources.files}
    tell.files(files)
    tell("documents", 0, len(files))
    known = corpus.document_hashes(db)
    missing = [p for p in known if p not in files and _is_covered(p, known, tops, root)]
    unreached = [u for u in out_of_reach(missing, tops, root, sources) if u.closed or not deletion.prune]
    waiting = {p for u in unreached for p in u.documents}
    away = {p for u in unreached if u.closed for p in u.documents}
    gone, digests = {p: known[p] for p in missing if p not in away}, Digests(seen(db), verify=deletion.verify)
    found = to_read(files, gone, db, project.settings, digests)
    save_seen(db, digests.new())
    move_documents(db, {old: Moved(new, _day_of(files[new])) for new, old in found.moves.items()})
    for name in collections:  # before they are read: whoever finds a document finds it there
        groups.put_in(db, name, files)
    left = {p: h for p, h in gone.items() if p not in found.moves.values()}
    read = _read(files, found, left, digests, project, tell)
    moved = {**found.moves, **read.moved}
    was_at = set(moved.values())
    deleted = [p for p in [*missing, *read.emptied] if p not in waiting and p not in was_at]
    kept = list[str]()
    if deleted and not deletion.prune:
        covered = sum(_is_covered(p, known, tops, root) for p in known)
        if len(deleted) > MOST_DELETED * covered and not deletion.asked(len(deleted), covered):
            kept, deleted = deleted, kept
    for path in [*deleted, *read.moved.values()]:
        corpus.remove_document(db, path)
    unreached = [replace(u, documents=tuple(p for p in u.documents if p not in was_at)) for u in unreached]
    skipped = _left_out(read.skipped, sources, unreached, kept, root)
    corpus.set_skipped(db, [*_still_left_out(corpus.skipped(db), files, tops, unreached, root), *skipped])
    ledger.save_settings(db, prepended=project.settings.prepend_metadata, chunk_tokens=project.settings.chunk_tokens)
    scans.forget_unused(db)
    save_seen(db, digests.new())
    tell("documents", len(files), len(files))
    tell.left_out(skipped)
    if not deleted:
        _check_something(paths, len(files), project)
    told = tuple(u for u in unreached if u.documents)
    return Loaded(len(files), tuple(read.new), tuple(read.changed), tuple(moved), tuple(deleted), tuple(skipped), tuple(kept), told)


@dataclass(slots=True)
class _Read:
    """What reading the files brought; `moved`: where a document is now → where it was; `emptied`: known ones nothing can be read of now."""

    skipped: list[Skipped]
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    emptied: list[str] = field(default_factory=list)


def _read(files: dict[str, Path], found: Look, gone: dict[str, str], digests: Digests, project: Project, tell: Tell) -> _Read:
    """Read and store the files that the index does not know as they are; `gone`: documents without a file, with their hashes."""
    known, left = corpus.document_hashes(project.db), list(found.left.values())
    tell.files(files, left)
    read, origins = _Read(found.skipped), dict[str, list[str]]()
    for path, content in gone.items():
        origins.setdefault(content, []).append(path)
    options = reading_options(project.settings)
    first = len(files) - len(left)
    tell("documents", first, len(files), stored_path(left[0], project.root) if left else "")
    reader = _scan_reader(options, project, tell)
    readers = max(1, min(own_cores(), READERS, len(left)))
    sentences = dict[str, list[Span]]()
    for done, loaded in enumerate(load_all(left, project.root, options, USUAL, reader, digests, readers, sentences), first + 1):
        path = loaded.path
        if isinstance(loaded, Skipped):
            stays = path in known and (loaded.failed or _waits(loaded, options))
            read.skipped.append(_kept(loaded) if stays else loaded)
            read.emptied += [path] * (path in known and not stays)
            continue
        came_from = origins.get(loaded.content_hash, []) if path not in known else []
        if came_from:
            groups.follow(project.db, came_from[0], path)
        if _store(loaded, project, sentences.pop(path, ()), moved=bool(came_from)):
            if path in known:
                read.changed.append(path)
            elif came_from:
                read.moved[path] = came_from.pop(0)
            else:
                read.new.append(path)
        tell("documents", done, len(files), path)
    return read


def _scan_reader(options: Options, project: Project, tell: Tell) -> ReadScans | None:
    """What reads scans on this machine, if anything does."""
    tesseract = find_tesseract() if options.ocr else None
    if tesseract is None:
        return None
    return scan_reader(tesseract, options.ocr, scans.KeptPages(project.db), lambda done, total: tell("scanned pages", done, total))


def _waits(found: Skipped, options: Options) -> bool:
    """Whether a file is a scan that there is nothing to read with today."""
    return bool(options.no_ocr) and not options.ocr_refused and found.reason.endswith(options.no_ocr)


def find_sources(paths: Sequence[Path], root: Path, settings: Settings, db: Database | None) -> Sources:
    """What lies below the paths; one where there is nothing is passed over if documents were read from there. Raises UsageError."""
    there = [p for p in paths if is_there(p)]
    if len(there) < len(paths):
        check_paths(paths, [root / path for path in corpus.document_hashes(db)] if db else [])
    return find_files(there, follow_links=settings.follow_links)


def _left_out(
    skipped: Sequence[Skipped], sources: Sources, unreached: Sequence[OutOfReach], kept: Sequence[str], root: Path
) -> list[Skipped]:
    """The list of what was not read in this run, each path once: files, links, folders, documents that wait for a decision."""
    rows = {s.path: s for s in skipped}
    rows |= {path: Skipped(path, why, False) for p, why in sources.left_out.items() for path in [stored_path(p, root)]}
    rows |= {path: Skipped(path, why, True) for p, why in sources.closed.items() for path in [stored_path(p, root)]}
    rows |= {u.path: u.listed() for u in unreached if u.documents}
    for path in kept:
        why = rows[path].reason if path in rows else "its file is gone"
        rows[path] = Skipped(path, f"{why}; its earlier content is kept until you say --prune", True)
    return list(rows.values())


def _still_left_out(
    before: Sequence[Skipped], files: dict[str, Path], tops: Sequence[Path], unreached: Sequence[OutOfReach], root: Path
) -> list[Skipped]:
    """What an earlier run left out elsewhere, or where nothing can be seen today."""
    unseen = [root / u.path for u in unreached]
    rows = ((s, root / s.path) for s in before if s.path not in files)
    return [s for s, full in rows if not _below(s.path, tops, root) or any(folder in full.parents for folder in unseen)]


def to_read(files: Mapping[str, Path], gone: Collection[str], db: Database, settings: Settings, digests: Digests) -> Look:
    """What of the files at these stored paths the index does not know as they are; `gone`: documents whose files are.

    A scan that was read where Tesseract was installed stays as it is where it is not.
    """
    options = reading_options(settings)
    read_in = scans.languages(db) if not options.ocr and not options.ocr_refused else {}
    passed = {s.path: s for s in corpus.skipped(db) if s.content_hash}
    if not _cut_as_before(db, settings):  # every document is read anew
        return look(files, Stored(passed=passed), digests, options)
    known, held = corpus.document_hashes(db), partial(held_paths, db)
    return look(files, Stored(known, gone, passed, read_in, held, named=settings.prepend_metadata), digests, options)


def _cut_as_before(db: Database, settings: Settings) -> bool:
    """Whether files that did not change would give the chunks they gave."""
    last = ledger.settings(db)
    before = (last.get("chunk_tokens", settings.chunk_tokens), last.get("prepended", False))
    return before == (settings.chunk_tokens, settings.prepend_metadata)


def _kept(found: Skipped) -> Skipped:
    return replace(found, reason=f"{found.reason}; its earlier content is kept")


def _check_something(paths: Sequence[Path], files: int, project: Project) -> None:
    if not holds_any(project.db, "documents"):
        there = f"{files} files, none of them readable text" if files else "no files"
        raise UsageError(
            f"There is nothing to index in {', '.join(map(str, paths))}: {there}.",
            "Each file that was left out, and why: localrag files --skipped",
        )


def _day_of(file: Path) -> str:
    """The day of a file's last change."""
    return file_day(file.stat().st_mtime)


def _store(document: Document, project: Project, spans: Sequence[Span], *, moved: bool) -> bool:
    """Store a document; whether its text or its chunks are new."""
    settings = project.settings
    key, first = id_of(project.db, document.path, document.text)
    document = replace(document, id=key, first_path=first)
    header = document.header if settings.prepend_metadata else ""
    counts = _tokenizer(project.model.file).counts
    chunks = chunk(document, counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap, header=header, spans=spans)
    if corpus.holds(project.db, document, chunks):
        corpus.update_document(project.db, document, chunks)
        return False
    corpus.add_document(project.db, document, chunks, moved=moved)
    return True


@cache
def _tokenizer(file: ModelFile) -> Tokenizer:
    return Tokenizer(file)


def _is_covered(path: str, known: Mapping[str, str], folders: Sequence[Path], root: Path) -> bool:
    """Whether a run about these folders is about a document; one that was imported has no file."""
    return not known[path].startswith(f"{IMPORTED} ") and _below(path, folders, root)


def _below(path: str, folders: Sequence[Path], root: Path) -> bool:
    full = root / path  # as the file goes by, which may be a link today
    return any(full.is_relative_to(folder) for folder in folders)
