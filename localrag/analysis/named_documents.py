"""The document that a name means: a path, the end of a path, or a title."""

import shlex
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from localrag.errors import UsageError
from localrag.loaders.discover import exists_visibly
from localrag.project import Project
from localrag.records import Document
from localrag.store import documents as documents_store
from localrag.store.browse import documents_called

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
    """The paths of the documents with a title, in any case."""
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
