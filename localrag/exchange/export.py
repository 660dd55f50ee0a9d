"""`export_index`: an index as files for other programs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import LocalragError, NoIndex, UsageError
from localrag.exchange import folder as places
from localrag.exchange import html, jsonl, neo4j, network, obsidian, parquet
from localrag.project import Opened
from localrag.store import graph
from localrag.store.connect import snapshot
from localrag.system.extras import require
from localrag.system.files import new_file

FILES = {"graphml": network.write_graphml, "gexf": network.write_gexf, "html": html.write}
FOLDERS = {"parquet": parquet.write, "csv": neo4j.write, "jsonl": jsonl.write}
FORMATS = ("parquet", "graphml", "gexf", "csv", "obsidian", "jsonl", "html")
_AGAIN = "Make one from your documents: localrag index PATH"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote: the files below `path` (or its own name), how many of what they hold, their size in bytes.

    `kept` are notes that stay as they are, because somebody wrote in the part that is made anew or their subject is gone; `removed` are
    files of an earlier export that hold nothing any more.
    """

    format: str
    path: Path
    files: tuple[str, ...]
    counts: Mapping[str, int]
    size: int
    kept: tuple[str, ...] = ()
    removed: tuple[str, ...] = field(default=())


def export_index(opened: Opened, format: str, path: Path, *, level: int | None = None, force: bool = False) -> Exported:
    """Write an index as it is at this moment for other programs; it may be written to meanwhile.

    `format` is one of FORMATS; `path` the file of those in FILES, else a folder. `level`: communities and reports down to that level.
    `force` replaces a file that is there, and writes into a folder that holds other things, of which none is replaced.
    Raises UsageError (nothing is written), NoIndex, LocalragError.
    """
    if format not in FORMATS:
        raise UsageError(f"There is no format {format!r}.", f"Choose one of: {', '.join(FORMATS)}")
    if format == "parquet":
        require("export", "pyarrow")
    path = path.absolute()
    if opened.folder.resolve() in (path.resolve(), *path.resolve().parents):
        raise UsageError(f"{path} lies in the folder of the index itself.", "Name another place.")
    if format in FILES:
        places.check_file(path, force=force)
    else:
        places.check_folder(path, format, force=force)
    with snapshot(opened.folder) as db:
        _check_filled(db, level)
        if format in FILES:
            with new_file(path) as part:
                counts = FILES[format](db, part, level)
            return Exported(format, path, (path.name,), counts, path.stat().st_size)
        return _to_folder(db, format, path, level)


def _check_filled(db: Database, level: int | None) -> None:
    counts = graph.counts(db)
    if not counts["documents"]:
        raise NoIndex("The index is empty: there is nothing to export.", "Fill it: localrag index PATH")
    if not counts["entities"]:
        raise LocalragError("The index has no graph yet: no entity was found so far.", "Finish it: localrag index")
    known = graph.communities_per_level(db)
    if level is not None and known and level not in known:
        raise UsageError(f"There is no level {level} of communities.", f"They have the levels {min(known)} to {max(known)}: localrag tree")


def _to_folder(db: Database, format: str, path: Path, level: int | None) -> Exported:
    with places.staging(path) as inner:
        if format == "obsidian":
            made = obsidian.write(db, inner, path, level)
            counts, own, gone, kept = made.counts, made.own, made.gone, made.kept
        else:
            counts, own, kept = FOLDERS[format](db, inner, level), places.exported(path).get(format, []), []
            gone = [name for name in own if not (inner / name).exists()]
        files = places.publish(inner, path, format, own, gone)
    return Exported(format, path, tuple(files), counts, sum((path / name).stat().st_size for name in files), tuple(kept), tuple(gone))
