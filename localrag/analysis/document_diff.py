"""Two versions of a document, or two contracts, compared passage by passage: same, changed, moved, or only in one of them."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path, PurePosixPath

from localrag.analysis.comparable_passages import comparable_passages, join_split, passages_of
from localrag.analysis.passage_alignment import AlignedPair, ComparablePassage, align_passages
from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence
from localrag.analysis.reading import entailments
from localrag.analysis.tables import Cell, CellState, Column, OnWork, ResultTable, TableRow, make_table
from localrag.analysis.word_changes import describe_changes, describe_row_changes, split_number
from localrag.entailment.normalization import normalize_sentence
from localrag.errors import UsageError
from localrag.loaders.discover import exists_visibly
from localrag.project import Project
from localrag.records import Document, content_id
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store.browse import documents_called

MAX_READ_PAIRS = 500  # changed pairs whose contradiction the reader looks for
MIN_CONTRADICTED = 0.8  # mean probability of both directions
MIN_READ_WORDS = 5  # of both passages of a pair that is read: what is shorter states nothing
MIN_ALIGNED_SHARE = 0.1  # of the passages; below it, the two documents have little in common


class DifferenceKind(StrEnum):
    """What became of a passage."""

    SAME = "same"
    CHANGED = "changed"
    FIRST_ONLY = "only in first"
    SECOND_ONLY = "only in second"
    MOVED = "moved"
    MOVED_CHANGED = "moved and changed"


COLUMNS = (Column("kind", "choice"), Column("first passage"), Column("second passage"), Column("what changed"))


@dataclass(frozen=True, slots=True)
class PassageDifference:
    """A pair of passages, or one without a counterpart.

    `is_statement`: whether it is a changed pair that the reader can read; `contradicted`: what it finds.
    """

    kind: DifferenceKind
    first: PlacedSentence | None = None
    second: PlacedSentence | None = None
    changes: str = ""
    is_statement: bool = False
    contradicted: float | None = None


def compare_documents(
    project: Project, first: str, second: str, *, include_same: bool = False, on_work: OnWork | None = None
) -> ResultTable:
    """The differences between two documents in the order of the second; what only the first has stands at its old place.

    `first`, `second`: paths, ends of paths, or titles. Equal passages are counted, and listed with `include_same`. Without the reader no
    contradictions are looked for. Raises UsageError for an unknown or ambiguous name, ModelError.
    """
    old, new = _open(project, first), _open(project, second)
    differences, n_unembedded, n_unread = find_differences(old, new, project, on_work)
    shown = differences if include_same else [d for d in differences if d.kind is not DifferenceKind.SAME]
    names = _short_names(old.document.path, new.document.path)
    note = _note(differences, names, n_unembedded, n_unread, has_reader=project.reader is not None)
    return make_table("compare", f"{names[0]} compared with {names[1]}", COLUMNS, _table_rows(shown), note, _count_by_kind(differences))


def find_differences(
    first: OpenedDocument, second: OpenedDocument, project: Project, on_work: OnWork | None = None
) -> tuple[list[PassageDifference], int, int]:
    """Every passage of two documents exactly once; how many were not compared by meaning, and how many changes were not read."""
    whole = passages_of(first), passages_of(second)
    passages = join_split(*whole), join_split(*reversed(whole))
    comparable = comparable_passages(*passages)
    pairs, n_unembedded = align_passages(*comparable, embed=project.embedder.embed)
    differences = [_difference(pair, passages, comparable) for pair in pairs]
    differences, n_unread = _read_changes(differences, project, on_work)
    return differences, n_unembedded, n_unread


def _open(project: Project, name: str) -> OpenedDocument:
    document = find_named_document(project, name)
    return OpenedDocument(document, chunks_store.chunks_of(project.db, document.id))


def _difference(
    pair: AlignedPair,
    passages: Sequence[Sequence[PlacedSentence]],
    comparable: Sequence[Sequence[ComparablePassage]],
) -> PassageDifference:
    first = None if pair.first is None else passages[0][pair.first]
    second = None if pair.second is None else passages[1][pair.second]
    if first is None or second is None or pair.first is None or pair.second is None:
        return PassageDifference(DifferenceKind.FIRST_ONLY if second is None else DifferenceKind.SECOND_ONLY, first, second)
    old, new = comparable[0][pair.first], comparable[1][pair.second]
    if old.key == new.key:
        numbers = [split_number(p.text)[0] for p in (first, second)]
        renumbered = f"renumbered: {numbers[0]} → {numbers[1]}" if all(numbers) and numbers[0] != numbers[1] else ""
        return PassageDifference(DifferenceKind.MOVED if pair.is_moved else DifferenceKind.SAME, first, second, renumbered)
    rows = old.row and new.row and describe_row_changes(old.row, new.row)
    changes = rows or describe_changes(first.text, second.text)
    is_statement = all(p.has_meaning and len(p.words) >= MIN_READ_WORDS for p in (old, new))
    return PassageDifference(
        DifferenceKind.MOVED_CHANGED if pair.is_moved else DifferenceKind.CHANGED, first, second, changes, is_statement
    )


def _read_changes(
    differences: Sequence[PassageDifference], project: Project, on_work: OnWork | None
) -> tuple[list[PassageDifference], int]:
    """The differences with what the reader finds in changed pairs, and how many of these were too many to be read."""
    pairs = [(n, d.first.text, d.second.text) for n, d in enumerate(differences) if d.is_statement and d.first and d.second]
    result, read = list(differences), pairs[:MAX_READ_PAIRS]
    if project.reader is None:
        return result, 0
    texts = [(_statement_text(a), _statement_text(b)) for _, a, b in read]
    found = entailments([*texts, *((b, a) for a, b in texts)], project, on_work)
    for (n, *_), forward, back in zip(read, found[: len(read)], found[len(read) :], strict=True):
        contradicted = (forward.contradicted + back.contradicted) / 2
        result[n] = replace(differences[n], contradicted=contradicted if contradicted >= MIN_CONTRADICTED else None)
    return result, len(pairs) - len(read)


def _statement_text(text: str) -> str:
    """A passage as the reader reads it: without its number, marks and link targets."""
    return normalize_sentence(split_number(text)[1])


def _table_rows(differences: Sequence[PassageDifference]) -> Iterator[TableRow]:
    """A row for each difference. Its key depends only on the two passages, so that it is the same after an update of the index."""
    seen = Counter[str]()
    for d in differences:
        key = content_id(d.first and d.first.text, d.second and d.second.text)
        seen[key] += 1
        found = "contradicts" if d.contradicted is not None else ""
        yield TableRow(
            (
                Cell(str(d.kind)),
                *(Cell(p.text, (p.citation,)) if p else Cell(state=CellState.NOT_STATED) for p in (d.first, d.second)),
                Cell(
                    ": ".join(filter(None, (found, d.changes))),
                    state=CellState.FOUND if d.contradicted is None else CellState.CONTRADICTORY,
                    confidence=d.contradicted,
                ),
            ),
            f"{key}-{seen[key]}",
        )


def _count_by_kind(differences: Sequence[PassageDifference]) -> dict[str, int]:
    """The number of passages of each kind, and of those that are renumbered or contradict each other."""
    counts = Counter(d.kind for d in differences)
    return {str(kind): counts[kind] for kind in DifferenceKind} | {
        "renumbered": sum(bool(d.changes) for d in differences if d.kind in (DifferenceKind.SAME, DifferenceKind.MOVED)),
        "contradicting": sum(d.contradicted is not None for d in differences),
    }


def _note(differences: Sequence[PassageDifference], names: tuple[str, str], n_unembedded: int, n_unread: int, *, has_reader: bool) -> str:
    """What the comparison found, in a sentence, and what it left out."""
    counts, figures = Counter(d.kind for d in differences), _count_by_kind(differences)
    missing = [name for name, side in zip(names, ("first", "second"), strict=True) if not any(getattr(d, side) for d in differences)]
    if missing:
        return f"{' and '.join(dict.fromkeys(missing))} {'has' if len(set(missing)) == 1 else 'have'} no text to compare."
    n_same, n_aligned = counts[DifferenceKind.SAME], sum(bool(d.first and d.second) for d in differences)
    if n_same == len(differences):
        found = f"All {n_same} passages are the same"
    else:
        kinds = (
            (DifferenceKind.CHANGED, "changed"),
            (DifferenceKind.FIRST_ONLY, f"only in {names[0]}"),
            (DifferenceKind.SECOND_ONLY, f"only in {names[1]}"),
            (DifferenceKind.MOVED, "moved"),
            (DifferenceKind.MOVED_CHANGED, "moved and changed"),
        )
        found = ", ".join(
            [f"{_passages_do(n_same, 'is', 'are')} the same", *(f"{counts[kind]} {what}" for kind, what in kinds if counts[kind])]
        )
    details = ((figures["contradicting"], "contradicting"), (figures["renumbered"], "renumbered"))
    listed = ", ".join(f"{n} {what}" for n, what in details if n)
    notes = [f"{found} ({listed})." if listed else f"{found}."]
    if n_aligned < MIN_ALIGNED_SHARE * len(differences):
        notes.append(f"The two have little in common. {_passages_do(n_aligned, 'has', 'have')} a counterpart.")
    if n_unembedded:
        notes.append(f"{n_unembedded} passages were compared by their words only, not by their meaning.")
    if not has_reader and n_same < n_aligned:
        notes.append("Contradictions were not looked for, because the reader is switched off.")
    elif n_unread:
        notes.append(f"{n_unread} changed passages were not read for contradictions.")
    return " ".join(notes)


def _passages_do(n: int, singular: str, plural: str) -> str:
    return f"{n} passages {plural}" if n > 1 else f"{n or 'No'} passage {singular}"


def _short_names(first: str, second: str) -> tuple[str, str]:
    names = PurePosixPath(first).name, PurePosixPath(second).name
    return names if names[0] != names[1] else (first, second)


MAX_LISTED_PATHS, MAX_SIMILAR_PATHS = 5, 3


def find_named_document(project: Project, name: str) -> Document:
    """The one document that a name means: its path, an end of its path or a longer path, in any case, or its title.

    Raises UsageError if there is none, with similar paths or the command that indexes the file; or if there are several, with their paths.
    """
    paths = [str(row["path"]) for row in documents_called(project.db, name, MAX_LISTED_PATHS + 1)] or _paths_titled(project, name)
    if len(paths) > 1:
        more = " and others" if len(paths) > MAX_LISTED_PATHS else ""
        listed = ", ".join(paths[:MAX_LISTED_PATHS])
        raise UsageError(f"Several documents are called {name!r}: {listed}{more}.", "Name one by its whole path.")
    document = documents_store.find_document(project.db, paths[0]) if paths else None
    if document is None:
        raise _not_found(project, name)
    return document


def _paths_titled(project: Project, name: str) -> list[str]:
    title = name.strip().casefold()
    return [row.path for row in documents_store.file_rows(project.db) if title and row.title.casefold() == title]


def _not_found(project: Project, name: str) -> UsageError:
    """The error for a name without a document: the file was skipped, is not indexed, or there is none."""
    if name.strip() and (file := _existing_file(project, name)):
        skipped = {one.path: one.reason for one in documents_store.skipped_files(project.db)}
        reason = next((why for path, why in skipped.items() if file == project.root / path), "")
        if reason:
            return UsageError(f"{name} was not indexed: {reason}", "See all: localrag files --skipped")
        return UsageError(f"{name} is not indexed.", f"Index it: localrag index {shlex.quote(name)}")
    by_name = {row.path: PurePosixPath(row.path).name for row in documents_store.file_rows(project.db)}
    wanted = PurePosixPath(name).name.casefold()
    near = get_close_matches(wanted, dict.fromkeys(file.casefold() for file in by_name.values()), MAX_SIMILAR_PATHS)
    similar = [path for path, file in by_name.items() if file.casefold() in near][:MAX_SIMILAR_PATHS]
    return UsageError(
        f"There is no document {name!r}.", f"Did you mean {' or '.join(similar)}?" if similar else "List them: localrag files"
    )


def _existing_file(project: Project, name: str) -> Path | None:
    """The file or folder at a path, relative to the working folder or to that of the index.

    Only below the latter: a client of the server learns of no other.
    """
    root = project.root.resolve()
    paths = (path for path in (Path(name).absolute(), project.root / name) if path.resolve().is_relative_to(root))
    return next((path for path in paths if exists_visibly(path)), None)
