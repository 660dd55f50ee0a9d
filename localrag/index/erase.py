"""`localrag rm`: documents, and whatever was made from them, leave the index for good. Part of the pipeline."""

from collections.abc import Callable, Sequence
from pathlib import Path

from localrag.errors import UsageError
from localrag.index.load import stored_path
from localrag.index.pipeline import Progress, rebuild_graph
from localrag.llm.project import Project
from localrag.store import corpus, erasure, generations


def documents_at(paths: Sequence[Path], project: Project) -> list[str]:
    """The stored documents at or below the given paths, which need not exist any more. Raises UsageError for a path that holds none."""
    known = sorted(corpus.document_hashes(project.db))
    found: dict[str, None] = {}
    for path in paths:
        given = {stored_path(path, project.root), path.as_posix().rstrip("/")}
        here = [k for k in known if any(k == g or k.startswith(f"{g}/") or g == "." for g in given)]
        if not here:
            raise UsageError(f"No document of the index is at {path}.", "Those there are: localrag files")
        found |= dict.fromkeys(here)
    return list(found)


async def erase(documents: Sequence[str], project: Project, progress: Callable[[Progress], None]) -> None:
    """Remove documents with all that was made from them, then write the database anew without a trace of their text.

    What the model said of these documents goes, and what it said of several at once; so do conversations that cite them or cite nothing,
    copies of the database, caches. The graph and its reports are built from what is left. Stopped half-way, it is finished by the next
    `rm` or `index`.
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
    erasure.finish(db, project.folder)
