"""Stage 1: files to stored documents and chunks.

Only files that are new, changed, moved or deleted since the last run are read. A document whose file was not found is kept if its folder
cannot be looked into: a drive that is not mounted is a missing or an empty folder, a share that is down may not be opened. Chunks have at
most `chunk_tokens` tokens, end between sentences, overlap, and have exact character offsets.

The languages of a sample of the documents decide on the embedder of a new index.
"""

import os
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from sqlite_utils import Database

from localrag.engine.tokenizer import Tokenizer
from localrag.errors import UsageError
from localrag.filters import day_of_file
from localrag.indexing.progress import ProgressReporter, file_size
from localrag.loaders.content import LoadOptions
from localrag.loaders.discover import DigestCache, SourceFiles, check_paths, exists_visibly, find_files, relative_path
from localrag.loaders.non_documents import TAKEN_WITH_ALL_FILES
from localrag.loaders.ocr import RAPIDOCR, OcrPages, find_ocr, load_options, ocr_pages_reader
from localrag.loaders.reader import DEFAULT_LIMITS, Limits, content_hash_of, is_current, load_files, stored_kind
from localrag.model_files import ModelFile
from localrag.project import Project
from localrag.records import IMPORTED_MARK, Chunk, Document, SkippedFile, content_id
from localrag.settings import IndexSettings
from localrag.store import collections as collections_store
from localrag.store import documents as documents_store
from localrag.store import runs
from localrag.store.documents import MovedTo, file_stats, move_documents, new_document_id, occupied_paths, save_file_stats
from localrag.store.graph import has_rows
from localrag.system.files import stat_key
from localrag.system.resources import worker_cores
from localrag.text.language import detect_language
from localrag.text.outline import BlockKind, Outline
from localrag.text.sentences import Span, collapse_whitespace, sentences


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The documents (path → content hash) and the unreadable files of the index; `missing` are documents whose files were not found.

    `ocr_languages`: content hash → the languages that scans were read in, for documents read by OCR where no OCR is installed today.
    `occupied_paths` returns the paths that no other document may take yet. With `has_headers_in_chunks` a document's name is part of its
    chunks, so a document that gets another name is read again.
    """

    documents: Mapping[str, str] = field(default_factory=dict)
    missing: Collection[str] = ()
    skipped_files: Mapping[str, SkippedFile] = field(default_factory=dict)
    ocr_languages: Mapping[str, str] = field(default_factory=dict)
    occupied_paths: Callable[[], Collection[str]] = tuple
    has_headers_in_chunks: bool = False


@dataclass(slots=True)
class FileChanges:
    """Files to read (path → file), files to skip, and moved documents (new path → old path)."""

    to_read: dict[str, Path] = field(default_factory=dict)
    skipped: list[SkippedFile] = field(default_factory=list)
    moved_paths: dict[str, str] = field(default_factory=dict)


class _ContentHashes:
    """Computes the content hashes of files: with today's load options, and with the OCR languages and other kinds of earlier runs."""

    def __init__(self, digests: DigestCache, options: LoadOptions, stored: StoredFiles) -> None:
        languages = sorted(set(stored.ocr_languages.values()))
        self._digests, self._options = digests, [options, *(replace(options, ocr=language) for language in languages)]
        hashes = (*stored.documents.values(), *(s.content_hash for s in stored.skipped_files.values()))
        self._kinds = sorted({"", *(stored_kind(key, "") for key in hashes)})

    def of(self, path: str, file: Path) -> list[str]:
        """The hashes that a document of this file may have, today's first; empty if the file cannot be read."""
        try:
            digest = self._digests.digest_of(path, file)
        except OSError:
            return []
        return [content_hash_of(file, digest, options, kind) for options in self._options for kind in self._kinds]


def detect_changes(files: Mapping[str, Path], stored: StoredFiles, digests: DigestCache, options: LoadOptions) -> FileChanges:
    """Compare files, by stored path, with the index. A file is opened only if its stat entry has changed."""
    hashes = _ContentHashes(digests, options, stored)
    changes = FileChanges()
    skipped_by_hash = {(s.content_hash, _kind(path)): s for path, s in stored.skipped_files.items() if path not in stored.documents}
    for path, file in files.items():
        before, unreadable = stored.documents.get(path), stored.skipped_files.get(path)
        if before is None and not (skipped_by_hash and _may_be_read(file)):
            changes.to_read[path] = file
            continue
        now = hashes.of(path, file)
        if unreadable is None and before is None:
            unreadable = next((s for key in now if (s := skipped_by_hash.get((key, _kind(path))))), None)
        if unreadable is not None and unreadable.content_hash in now and is_current(unreadable.reason, options):
            changes.skipped.append(replace(unreadable, path=path))
        elif before not in now:
            changes.to_read[path] = file
    moves = _moves_seen(changes.to_read, stored, digests, hashes)
    changes.moved_paths = _settled(moves | _moves_by_content(changes.to_read, stored, hashes, moves), stored)
    changes.to_read = {path: file for path, file in changes.to_read.items() if path not in changes.moved_paths}
    return changes


def _kind(path: str) -> str:
    return Path(path).suffix.lower()


def _may_be_read(file: Path) -> bool:
    return exists_visibly(file) and 0 < file.stat().st_size <= DEFAULT_LIMITS.size


def _moves_seen(unmatched: Mapping[str, Path], stored: StoredFiles, digests: DigestCache, hashes: _ContentHashes) -> dict[str, str]:
    """Documents whose file was moved or renamed, recognised by its stat entry: new path → old path.

    The old path has no file any more, or another one.
    """
    moves: dict[str, str] = {}
    taken: set[str] = set()
    for path, file in unmatched.items():
        old = _was_at(file, digests)
        away = old != path and old in stored.documents and (old in stored.missing or old in unmatched) and old not in taken
        if away and _keeps_its_text(old, path, stored) and stored.documents[old] in hashes.of(path, file):
            moves[path] = old
            taken.add(old)
    return moves


def _was_at(file: Path, digests: DigestCache) -> str:
    try:
        return digests.previous_path(stat_key(file.stat()))
    except OSError:
        return ""


def _keeps_its_text(old: str, new: str, stored: StoredFiles) -> bool:
    return _kind(old) == _kind(new) and (not stored.has_headers_in_chunks or Path(old).stem == Path(new).stem)


def _moves_by_content(
    unmatched: Mapping[str, Path], stored: StoredFiles, hashes: _ContentHashes, seen: Mapping[str, str]
) -> dict[str, str]:
    """Documents whose files are missing and whose content a new file has: new path → old path. Of several, one with the same file name."""
    by_hash: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for old in set(stored.missing) - set(seen.values()):
        by_hash[stored.documents[old]][old] = None
    moves: dict[str, str] = {}
    for path, file in unmatched.items() if by_hash else ():
        if path in stored.documents or path in seen or not _may_be_read(file):
            continue
        candidates = [old for h in hashes.of(path, file) for old in by_hash.get(h, ()) if _keeps_its_text(old, path, stored)]
        if candidates:
            old = min(candidates, key=lambda other: (Path(other).name != Path(path).name, other))
            moves[path] = old
            del by_hash[stored.documents[old]][old]
    return moves


def _settled(moves: Mapping[str, str], stored: StoredFiles) -> dict[str, str]:
    """Drop moves to a path that another document occupies, now or until the next generation, unless that document moves as well."""
    if not moves:
        return {}
    occupied, accepted = set(stored.occupied_paths()), dict(moves)
    while True:
        leaving = set(accepted.values())
        remaining = {new: old for new, old in accepted.items() if new not in occupied or new in leaving}
        if len(remaining) == len(accepted):
            return accepted
        accepted = remaining


@dataclass(frozen=True, slots=True)
class UnreachableSource:
    """A source file or folder that cannot be looked into; `is_forbidden`: it exists, but may not be opened."""

    path: str
    why: str
    is_forbidden: bool
    documents: tuple[str, ...] = ()

    def listed(self) -> SkippedFile:
        """Its entry in the list of skipped files."""
        n = len(self.documents)
        note = (f"its {n} documents are kept" if n > 1 else "its document is kept") if n else ""
        return SkippedFile(self.path, f"{self.why}; {note}" if note else self.why, True)


def find_unreachable(documents: Iterable[str], tops: Sequence[Path], root: Path, sources: SourceFiles) -> list[UnreachableSource]:
    """Group documents by the unreachable folder above them: missing, empty, forbidden, or a link that is not followed.

    `documents` are stored paths that were read from below `tops` and not found in this run; `root` is the folder that stored paths are
    relative to.
    """
    outermost = sorted(tops, key=lambda p: len(p.parts))
    state_of: dict[Path, UnreachableSource | None] = {}
    documents_below: dict[str, list[str]] = {}
    states: dict[str, UnreachableSource] = {}
    for document in sorted(documents):  # a file before the documents within it, for which it is no missing folder
        full = root / document
        top = next((t for t in outermost if full.is_relative_to(t)), full.parent)
        for place in _from(top, full):
            if place not in state_of:
                state_of[place] = _state(place, place == full and (place != top or exists_visibly(place)), root, sources)
            if state := state_of[place]:
                states[state.path] = state
                documents_below.setdefault(state.path, []).append(document)
                break
    return [replace(states[path], documents=tuple(paths)) for path, paths in sorted(documents_below.items())]


def _from(top: Path, full: Path) -> list[Path]:
    between = [p for p in reversed(full.parents) if p.is_relative_to(top) and p != top]
    return [top, *between, *[full] * (full != top)]


def _state(place: Path, is_document: bool, root: Path, sources: SourceFiles) -> UnreachableSource | None:
    """Why a path cannot be looked into; None if a document not found there was deleted. `is_document`: the path is no folder."""
    path = relative_path(place, root)
    if reason := sources.unreadable.get(place):
        return UnreachableSource(path, reason, is_forbidden=True)
    if (reason := sources.left_out.get(place)) and not reason.endswith(TAKEN_WITH_ALL_FILES):
        return UnreachableSource(path, reason, is_forbidden=False)
    if is_document:
        return None
    try:
        with os.scandir(place) as entries:
            empty = not any(not e.name.startswith(".") for e in entries)
    except (FileNotFoundError, NotADirectoryError):
        return UnreachableSource(path, "is missing", is_forbidden=False)
    except OSError as error:  # a folder above those that were walked through
        return UnreachableSource(path, f"may not be opened ({error.strerror})", is_forbidden=True)
    return UnreachableSource(path, "is empty", is_forbidden=False) if empty else None


PARAGRAPH_SLACK = 0.25  # share of a chunk's tokens, counted from its end, within which the end may be chosen
CountTokens = Callable[[Sequence[str]], list[int]]


def split_document(document: Document, counts: CountTokens, *, size: int, overlap: int, header: str = "") -> list[Chunk]:
    """Split a document into chunks of at most `size` tokens; each starts with up to `overlap` tokens of whole sentences of the last.

    `counts` counts the tokens of several texts. A sentence longer than `size` is cut; a table or a code block is divided only if it does
    not fit into a chunk. The last chunk ends with the text, and every chunk has text that no other chunk has. The tokens of a `header` that
    will precede every chunk count as part of it.
    """
    text = document.text
    before = f"{header}\n" if header else ""
    size = max(size - counts([before])[0], size // 2) if before else size
    units = _units(text, sentences(text), counts, size)
    weights = counts([text[start:end] for start, end in units])
    outline, chunks = Outline(text, document.blocks), list[Chunk]()
    undivided = _undivided(outline, units, weights, size)
    inside = {unit: start for start, end in undivided.items() for unit in range(start + 1, end)}
    first = done = 0
    while first < len(units):
        last, total = first, 0
        while last < len(units) and (last == first or total + weights[last] <= size):
            total += weights[last]
            last += 1
        if last < len(units):
            last = _best_end(text, units, weights, max(first, done), last, total * PARAGRAPH_SLACK)
            if (whole := inside.get(last, 0)) > max(first, done):
                last = whole
        start, end = units[first].start, units[last - 1].end
        body = text[start:end]
        tokens, headings = counts([before + body])[0], outline.headings_at(start)
        chunks.append(Chunk(content_id(document.id, start, end), document.id, len(chunks), start, end, body, tokens, headings))
        if last == len(units):
            break
        # The next sentence, or table, must still fit after the overlap, or a chunk would have no new text.
        following = sum(weights[last : undivided.get(last, last + 1)])
        first, done = _overlap_start(weights, first, last, min(overlap, size - following)), last
    return chunks


def _best_end(text: str, units: Sequence[Span], weights: Sequence[int], new: int, last: int, room: float) -> int:
    """Choose where a chunk ends within the last `room` tokens that would fit: after a paragraph if one ends there, else at the sentence
    whose hash is smallest, but always after `new`, its first unit that no other chunk has.

    The cut depends on the text around it only, so an edit leaves the other chunks of a document as they were (content-defined chunking,
    Muthitacharoen et al. 2001).
    """
    earliest = last
    while earliest - 1 > new and room >= weights[earliest - 1]:
        earliest -= 1
        room -= weights[earliest]

    def rank(end: int) -> tuple[bool, str]:
        sentence = text[units[end - 1].start : units[end - 1].end]
        return not sentence.endswith("\n\n"), content_id(collapse_whitespace(sentence))

    return min(range(earliest, last + 1), key=rank)


def _undivided(outline: Outline, units: Sequence[Span], weights: Sequence[int], size: int) -> dict[int, int]:
    """First unit → the unit after the last one, of each table and code block, with its heading, that fits into a chunk."""
    heads = {block.start for block in outline.blocks if block.kind is BlockKind.HEADING}
    found = {}
    for block in outline.blocks:
        if block.kind not in (BlockKind.TABLE, BlockKind.CODE):
            continue
        start, end = (bisect_left(units, at, key=lambda unit: unit.start) for at in (block.start, block.end))
        while start and units[start - 1].start in heads:
            start -= 1
        if sum(weights[start:end]) <= size:
            found[start] = end
    return found


def _overlap_start(weights: Sequence[int], first: int, last: int, overlap: int) -> int:
    """The first unit of the next chunk: as many whole units before `last` as fit the overlap, but always after `first`."""
    start, total = last, 0
    while start - 1 > first and total + weights[start - 1] <= overlap:
        start -= 1
        total += weights[start]
    return start


def _units(text: str, spans: Sequence[Span], counts: CountTokens, size: int) -> list[Span]:
    """The sentences, each with the whitespace after it, none longer than `size` tokens."""
    ends = [s.start for s in spans[1:]] + [len(text.rstrip())]
    whole = [Span(s.start, max(end, s.end)) for s, end in zip(spans, ends, strict=False)]
    units: list[Span] = []
    for unit, tokens in zip(whole, counts([text[a:b] for a, b in whole]), strict=True):
        units += [unit] if tokens <= size else _cut(text, unit, counts, size)
    return units


def _cut(text: str, unit: Span, counts: CountTokens, size: int) -> list[Span]:
    """Cut a sentence that is too long, at a space if possible."""
    middle = (unit.start + unit.end) // 2
    space = text.rfind(" ", unit.start + 1, middle)
    at = space + 1 if space > unit.start + (middle - unit.start) // 2 else middle
    pieces: list[Span] = []
    for piece in (Span(unit.start, at), Span(at, unit.end)):
        long = piece.end - piece.start > 1 and counts([text[piece.start : piece.end]])[0] > size
        pieces += _cut(text, piece, counts, size) if long else [piece]
    return pieces


PARSER_PROCESSES = 4  # processes that read files at the same time, each with up to 2 GB of memory
CONFIRM_DELETION_SHARE = 1 / 3  # of the documents below the given paths; a run that would delete more asks the user


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The outcome of reading files: paths of new, changed, moved and deleted documents, and the skipped files.

    `retained_paths` are documents whose files are missing and whose deletion the user has to confirm, `unreachable` those whose folders
    cannot be looked into; both are also in `skipped`.
    """

    files: int
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    retained_paths: tuple[str, ...] = ()
    unreachable: tuple[UnreachableSource, ...] = ()

    @property
    def n_changed(self) -> int:
        """Number of new, changed, moved and deleted documents."""
        return len(self.new) + len(self.changed) + len(self.moved) + len(self.deleted)


@dataclass(frozen=True, slots=True)
class DeletionPolicy:
    """Whether documents whose files are missing are deleted. `prune`: all, including those below missing and empty folders.

    Without `prune`, documents below a folder that cannot be looked into are kept; if more than a third of the run's documents remain to be
    deleted, `confirm(n_missing, n_documents)` decides. `rehash`: compare the contents of all files, also of those whose stat entry is the
    same.
    """

    prune: bool = False
    confirm: Callable[[int, int], bool] = lambda *_: False
    rehash: bool = False


DEFAULT_DELETION = DeletionPolicy()


def update_documents(
    paths: Sequence[Path],
    project: Project,
    progress: ProgressReporter,
    deletion: DeletionPolicy = DEFAULT_DELETION,
    collections: Sequence[str] = (),
) -> LoadResult:
    """Update the stored documents from the given files and folders, and add them to the collections; other documents stay.

    A file that could be read before and cannot be now keeps its earlier content. Raises UsageError if there is nothing to index.
    """
    db, root, tops = project.db, project.root, [Path(os.path.realpath(p)) for p in paths]
    sources = find_sources(paths, root, project.settings, db)
    files = {relative_path(f, root): f for f in sources.files}
    progress.set_files(files)
    progress("documents", 0, len(files))
    hashes = documents_store.document_hashes(db)
    inner_paths = documents_store.inner_paths(db)
    present = {*files, *_with_inner(inner_paths.keys() & files, inner_paths)}
    missing = [p for p in hashes if p not in present and _is_covered(p, hashes, tops, root)]
    unreached = [u for u in find_unreachable(missing, tops, root, sources) if u.is_forbidden or not deletion.prune]
    waiting = {p for u in unreached for p in u.documents}
    away = {p for u in unreached if u.is_forbidden for p in u.documents}
    digests = DigestCache(file_stats(db), verify=deletion.rehash)
    changes = changed_files(files, [p for p in missing if p not in away], db, project.settings, digests)
    save_file_stats(db, digests.new_stats())
    moves = {old: MovedTo(new, *day_of_file(new, files[new].stat().st_mtime)) for new, old in changes.moved_paths.items()}
    for old, to in list(moves.items()):
        moves |= {inner: replace(to, path=f"{to.path}{inner[len(old) :]}") for inner in inner_paths.get(old, ())}
    changes.moved_paths = {to.path: old for old, to in moves.items()}
    move_documents(db, moves)
    for name in collections:  # before reading, so that a query that finds a document also finds its collection
        collections_store.add_to_collection(db, name, present)
    read = _read_changed_files(files, changes, digests, project, progress)
    was_at = set(changes.moved_paths.values())
    deleted = [p for p in [*missing, *_with_inner(read.now_unreadable, inner_paths)] if p not in waiting and p not in was_at]
    retained = list[str]()
    if deleted and not deletion.prune:
        covered = sum(_is_covered(p, hashes, tops, root) for p in hashes)
        if len(deleted) > CONFIRM_DELETION_SHARE * covered and not deletion.confirm(len(deleted), covered):
            retained, deleted = deleted, retained
    deleted += [p for file in read.files for p in inner_paths.get(file, ()) if p not in read.inner and p not in was_at]
    for path in deleted:
        documents_store.remove_document(db, path)
    unreached = [replace(u, documents=tuple(p for p in u.documents if p not in was_at)) for u in unreached]
    skipped = _skipped_in_run(read.skipped, sources, unreached, retained, root)
    documents_store.replace_skipped_files(db, [*_still_left_out(documents_store.skipped_files(db), files, tops, unreached, root), *skipped])
    runs.save_settings(db, prepend_metadata=project.settings.prepend_metadata, chunk_tokens=project.settings.chunk_tokens)
    documents_store.delete_unused_ocr_pages(db)
    save_file_stats(db, digests.new_stats())
    progress("documents", len(files), len(files))
    progress.report_skipped(skipped)
    if not deleted:
        _check_something(paths, len(files), project)
    unreachable, moved = tuple(u for u in unreached if u.documents), tuple(changes.moved_paths)
    changed = (tuple(read.new), tuple(read.changed), moved, tuple(deleted))
    return LoadResult(len(files), *changed, tuple(skipped), tuple(retained), unreachable)


def _with_inner(files: Iterable[str], inner_paths: Mapping[str, Sequence[str]]) -> list[str]:
    return [path for file in files for path in (file, *inner_paths.get(file, ()))]


@dataclass(slots=True)
class _Read:
    """The outcome of reading; `now_unreadable`: stored documents whose files cannot be read any more.

    `files`, `inner`: the paths of files that were read, and of the files within them.
    """

    skipped: list[SkippedFile]
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    now_unreadable: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    inner: set[str] = field(default_factory=set)


def _read_changed_files(
    files: dict[str, Path], changes: FileChanges, digests: DigestCache, project: Project, progress: ProgressReporter
) -> _Read:
    """Read and store new and changed files."""
    hashes, to_read = documents_store.document_hashes(project.db), list(changes.to_read.values())
    progress.set_files(files, to_read)
    read = _Read(changes.skipped)
    options = load_options(project.settings)
    first = len(files) - len(to_read)
    progress("documents", first, len(files), relative_path(to_read[0], project.root) if to_read else "")
    reader = _scan_reader(options, project, progress)
    readers = max(1, min(worker_cores(), PARSER_PROCESSES, len(to_read)))
    done = first
    for loaded in load_files(to_read, project.root, options, DEFAULT_LIMITS, reader, digests, readers):
        path = loaded.path
        done += path in changes.to_read
        if isinstance(loaded, SkippedFile):
            stays = path in hashes and (loaded.is_failure or _needs_missing_ocr(loaded, options))
            read.skipped.append(replace(loaded, reason=f"{loaded.reason}; its earlier content is kept") if stays else loaded)
            read.now_unreadable += [path] * (path in hashes and not stays)
            continue
        if path in changes.to_read:
            read.files.append(path)
        else:
            read.inner.add(path)
            collections_store.move_path(project.db, read.files[-1], path)
        if _store_document(loaded, project):
            (read.changed if path in hashes else read.new).append(path)
        progress("documents", done, len(files), path)
    return read


def _scan_reader(options: LoadOptions, project: Project, progress: ProgressReporter) -> OcrPages | None:
    """The OCR reader of this machine; None if no OCR is installed."""
    program = find_ocr(options.ocr)
    if program is None:
        return None
    return ocr_pages_reader(
        program, options.ocr, documents_store.OcrPages(project.db), lambda done, total: progress("scanned pages", done, total)
    )


def _needs_missing_ocr(skipped: SkippedFile, options: LoadOptions) -> bool:
    return bool(options.ocr_unavailable_reason) and not options.is_ocr_disabled and skipped.reason.endswith(options.ocr_unavailable_reason)


def find_sources(paths: Sequence[Path], root: Path, settings: IndexSettings, db: Database | None) -> SourceFiles:
    """The files below the paths. A missing path is skipped if documents were read from there before. Raises UsageError."""
    existing = [p for p in paths if exists_visibly(p)]
    if len(existing) < len(paths):
        check_paths(paths, [root / path for path in documents_store.document_hashes(db)] if db else [])
    return find_files(existing, follow_links=settings.follow_links, all_files=settings.all_files)


def _skipped_in_run(
    skipped: Sequence[SkippedFile], sources: SourceFiles, unreached: Sequence[UnreachableSource], retained: Sequence[str], root: Path
) -> list[SkippedFile]:
    """The files, links, folders and retained documents that this run did not read, each path once."""
    rows = {s.path: s for s in skipped}
    rows |= {path: SkippedFile(path, reason, False) for p, reason in sources.left_out.items() for path in [relative_path(p, root)]}
    rows |= {path: SkippedFile(path, reason, True) for p, reason in sources.unreadable.items() for path in [relative_path(p, root)]}
    rows |= {u.path: u.listed() for u in unreached if u.documents}
    for path in retained:
        reason = rows[path].reason if path in rows else "its file is gone"
        rows[path] = SkippedFile(path, f"{reason}; its earlier content is kept until you use --prune", True)
    return list(rows.values())


def _still_left_out(
    before: Sequence[SkippedFile], files: dict[str, Path], tops: Sequence[Path], unreached: Sequence[UnreachableSource], root: Path
) -> list[SkippedFile]:
    """Skipped files of earlier runs that this run did not look at, or that are in a folder it could not look into."""
    unseen = [root / u.path for u in unreached]
    rows = ((s, root / s.path) for s in before if s.path not in files)
    return [s for s, full in rows if not _below(s.path, tops, root) or any(folder in full.parents for folder in unseen)]


def changed_files(
    files: Mapping[str, Path], gone: Collection[str], db: Database, settings: IndexSettings, digests: DigestCache
) -> FileChanges:
    """Compare the files at these stored paths with the index; `gone`: documents whose files are missing.

    A scan that was read with Tesseract stays as it is on a machine without Tesseract.
    """
    options = load_options(settings)
    read_in = documents_store.ocr_languages(db) if options.ocr in ("", RAPIDOCR) and not options.is_ocr_disabled else {}
    passed = {s.path: s for s in documents_store.skipped_files(db) if s.content_hash}
    if not _cut_as_before(db, settings):  # every document is read again
        return detect_changes(files, StoredFiles(skipped_files=passed), digests, options)
    hashes, occupied = documents_store.document_hashes(db), partial(occupied_paths, db)
    return detect_changes(
        files, StoredFiles(hashes, gone, passed, read_in, occupied, has_headers_in_chunks=settings.prepend_metadata), digests, options
    )


def _cut_as_before(db: Database, settings: IndexSettings) -> bool:
    last = runs.load_settings(db)
    before = (last.get("chunk_tokens", settings.chunk_tokens), last.get("prepend_metadata", False))
    return before == (settings.chunk_tokens, settings.prepend_metadata)


def _check_something(paths: Sequence[Path], files: int, project: Project) -> None:
    if not has_rows(project.db, "documents"):
        summary = f"{files} files, none of them readable text" if files else "no files"
        raise UsageError(
            f"There is nothing to index in {', '.join(map(str, paths))}: {summary}.",
            "Skipped files with reasons: localrag files --skipped",
        )


def _store_document(document: Document, project: Project) -> bool:
    """Store a document; returns whether its text or its chunks changed."""
    settings = project.settings
    key, first = new_document_id(project.db, document.path, document.text)
    document = replace(document, id=key, original_path=first)
    header = document.header if settings.prepend_metadata else ""
    counts = _tokenizer(project.model.file).counts
    chunks = split_document(document, counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap, header=header)
    if documents_store.is_unchanged(project.db, document, chunks):
        documents_store.update_document(project.db, document, chunks)
        return False
    documents_store.save_document(project.db, document, chunks)
    return True


@cache
def _tokenizer(file: ModelFile) -> Tokenizer:
    return Tokenizer(file)


def _is_covered(path: str, hashes: Mapping[str, str], folders: Sequence[Path], root: Path) -> bool:
    """Whether a document lies below these folders; an imported document has no file and never does."""
    return not hashes[path].startswith(f"{IMPORTED_MARK} ") and _below(path, folders, root)


def _below(path: str, folders: Sequence[Path], root: Path) -> bool:
    full = root / path  # the path as listed, even if it is a link today
    return any(full.is_relative_to(folder) for folder in folders)


MULTILINGUAL_EMBEDDER = "multilingual-e5-small"
SAMPLED_FILES, MIN_BYTES = 24, 1000
SAMPLE_LIMITS = Limits(seconds=5.0)
MIN_LETTERS, MAX_CHARS = 200, 3000  # of a document whose language is told
MIN_OTHER_SHARE = 0.25  # of the sample in other languages than English


def languages_beside_english(paths: Sequence[Path], root: Path, settings: IndexSettings) -> tuple[str, ...]:
    """The codes of the languages of documents below the paths, most frequent first, if many of them are not in English; else none.

    Read is a sample: the smallest file with some text of each of SAMPLED_FILES equal parts. Raises UsageError for a missing path.
    """
    files = [(size, file) for file in find_sources(paths, root, settings, None).files if (size := file_size(file)) >= MIN_BYTES]
    step = max(1, -(-len(files) // SAMPLED_FILES))
    sample = [min(files[start : start + step])[1] for start in range(0, len(files), step)]
    options = load_options(replace(settings, ocr=False))
    texts = [document.text[:MAX_CHARS] for document in load_files(sample, root, options, SAMPLE_LIMITS) if isinstance(document, Document)]
    found = Counter(detect_language(text) for text in texts if sum(map(str.isalpha, text)) >= MIN_LETTERS)
    others = found.total() - found["en"]
    return tuple(code for code, _ in found.most_common()) if others and others >= MIN_OTHER_SHARE * found.total() else ()
