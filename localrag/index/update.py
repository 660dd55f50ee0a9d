"""Files → stored documents: only what is new, changed, moved or gone since the last run is touched. Part of the pipeline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sqlite_utils import Database

from localrag.config import Settings
from localrag.engine.tokens import Tokenizer
from localrag.errors import UsageError
from localrag.index.chunk import chunk
from localrag.index.load import Options, file_hash, find_files, load_all, stored_path
from localrag.llm.project import Project
from localrag.models import ModelFile
from localrag.records import Document, Skipped
from localrag.store import corpus, ledger

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of the files that were found: the paths of those that are new, changed, moved here or gone; those left out."""

    files: int
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def touched(self) -> int:
        """How many documents are not what they were."""
        return len(self.new) + len(self.changed) + len(self.moved) + len(self.deleted)


def update_documents(paths: Sequence[Path], project: Project, tell: Tell) -> Loaded:
    """Bring the stored documents up to date with the given files and folders; documents from elsewhere stay.

    A file that was read before and cannot be now keeps its earlier content. Raises UsageError where there is nothing to index.
    """
    db, settings = project.db, project.settings
    options = Options(settings.text_column, settings.metadata_columns)
    files = {stored_path(f, project.root): f for f in find_files(paths)}
    known = corpus.document_hashes(db)
    left, skipped = to_read(files, db, settings)
    gone = {p: known[p] for p in known if p not in files and _below(p, paths, project.root)}
    new, changed = list[str](), list[str]()
    moved: dict[str, str] = {}  # where a document is now: where it was
    for done, found in enumerate(load_all(left, project.root, options), len(files) - len(left)):
        tell("documents", done, len(files))
        if isinstance(found, Skipped):
            skipped.append(_kept(found) if found.failed and found.path in known else found)
            gone |= {found.path: known[found.path]} if found.path in known and not found.failed else {}
        elif _store(found, project, moved=found.path not in known and found.content_hash in gone.values()):
            left_behind = (p for p, h in gone.items() if h == found.content_hash and p not in moved.values())
            if found.path in known:
                changed.append(found.path)
            elif origin := next(left_behind, None):
                moved[found.path] = origin
            else:
                new.append(found.path)
    ledger.move_calls(db, {before: now for now, before in moved.items()})
    for path in gone:
        corpus.remove_document(db, path)
    others = [s for s in corpus.skipped(db) if s.path not in files and not _below(s.path, paths, project.root)]
    corpus.set_skipped(db, [*others, *skipped])
    ledger.save_settings(db, prepended=settings.prepend_metadata, chunk_tokens=settings.chunk_tokens)
    tell("documents", len(files), len(files))
    _check_something(paths, len(files), project)
    deleted = tuple(p for p in gone if p not in moved.values())
    return Loaded(len(files), tuple(new), tuple(changed), tuple(moved), deleted, tuple(skipped))


def to_read(files: dict[str, Path], db: Database | None, settings: Settings) -> tuple[list[Path], list[Skipped]]:
    """The files, of those at these stored paths, that the index does not know as they are; those it knows that nothing can be read of."""
    if db is None:
        return list(files.values()), []
    options = Options(settings.text_column, settings.metadata_columns)
    known = corpus.document_hashes(db) if _cut_as_before(db, settings) else {}
    passed = {s.path: s for s in corpus.skipped(db) if s.content_hash}
    left, skipped = list[Path](), list[Skipped]()
    for path, file in files.items():
        unreadable = passed.get(path)
        if unreadable and _is_known(file, unreadable.content_hash, options):
            skipped.append(unreadable)
        elif not _is_known(file, known.get(path), options):
            left.append(file)
    return left, skipped


def _cut_as_before(db: Database, settings: Settings) -> bool:
    """Whether files that did not change would give the chunks they gave."""
    last = ledger.settings(db)
    before = (last.get("chunk_tokens", settings.chunk_tokens), last.get("prepended", False))
    return before == (settings.chunk_tokens, settings.prepend_metadata)


def _kept(found: Skipped) -> Skipped:
    return Skipped(found.path, f"{found.reason}; its earlier content is kept", found.failed)


def _check_something(paths: Sequence[Path], files: int, project: Project) -> None:
    if not corpus.document_hashes(project.db):
        there = f"{files} files, none of them readable text" if files else "no files"
        raise UsageError(
            f"There is nothing to index in {', '.join(map(str, paths))}: {there}.",
            "Each file that was left out, and why: localrag files --skipped",
        )


def _is_known(file: Path, stored: str | None, options: Options) -> bool:
    """Whether a file is stored as it is now; the same bytes read in the same way."""
    try:
        return stored is not None and stored == file_hash(file, options)
    except OSError:
        return False


def _store(document: Document, project: Project, *, moved: bool) -> bool:
    """Store a document; whether its text or its chunks are new."""
    settings = project.settings
    header = document.header if settings.prepend_metadata else ""
    counts = _tokenizer(project.model.file).counts
    chunks = chunk(document, counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap, header=header)
    if corpus.holds(project.db, document, chunks):
        corpus.update_document(project.db, document, chunks)
        return False
    corpus.add_document(project.db, document, chunks, moved=moved)
    return True


@cache
def _tokenizer(file: ModelFile) -> Tokenizer:
    return Tokenizer(file)


def _below(path: str, folders: Sequence[Path], root: Path) -> bool:
    full = (root / path).resolve()
    return any(full.is_relative_to(folder.resolve()) for folder in folders)
