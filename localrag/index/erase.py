"""`localrag rm`: documents, and whatever was made from them, leave the index for good. Part of the pipeline."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from localrag.errors import IndexBusy, UsageError
from localrag.index.documents.load import stored_path
from localrag.index.pipeline import rebuild_graph
from localrag.index.progress import Progress
from localrag.index.traces import erase_traces
from localrag.project import Opened, Project
from localrag.store import corpus, departed, generations
from localrag.store import purge as erasure


def documents_at(paths: Sequence[Path], opened: Opened) -> list[str]:
    """The documents at or below the given paths, also those that left the index since the last erasure.

    Raises UsageError for a path that has none.
    """
    with generations.next_in_view(opened.db):
        known = sorted({*corpus.document_hashes(opened.db), *departed.departed_paths(opened.db)})
    found: dict[str, None] = {}
    for path in paths:
        given = {stored_path(p, opened.root) for p in (path, Path(os.path.realpath(path)))} | {path.as_posix().rstrip("/")}
        here = [k for k in known if any(k == g or k.startswith(f"{g}/") or g == "." for g in given)]
        if not here:
            raise UsageError(f"No document of the index is at {path}.", "Those there are: localrag files")
        found |= dict.fromkeys(here)
    return list(found)


async def erase(documents: Sequence[str], project: Project, progress: Callable[[Progress], None]) -> None:
    """Remove documents with all that was made from them, then write the database anew without a trace of their text.

    The graph and its reports are built from what is left; what the model said of other documents is kept. Conversations that cite these,
    cite nothing or have their words go, and so do copies of the database, studies, caches. Stopped half-way, it is finished by the next
    `rm` or `index`. Raises IndexBusy where another process reads what was.
    """
    db = project.db
    with generations.next_in_view(db):
        erasure.forget(db, documents)
        if corpus.document_hashes(db):
            await rebuild_graph(project, progress)
        else:
            erasure.forget_graph(db)
            generations.publish(db)
            generations.forget_waiting(db)
    if not erase_traces(project):
        raise IndexBusy(
            f"Another process is reading the index in {project.folder}, so its log still holds what was removed.",
            "End that process and run the same command again, or localrag index PATH.",
        )
