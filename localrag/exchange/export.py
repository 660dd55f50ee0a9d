"""Export of an index to a file or a folder in another program's format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from localrag.errors import UsageError
from localrag.exchange import formats, html_page
from localrag.exchange.export_folder import (
    check_filled,
    check_folder,
    check_outside_index,
    check_target_file,
    replace_export,
    staging_folder,
)
from localrag.project import OpenIndex
from localrag.store.database import snapshot
from localrag.system.files import atomic_file
from localrag.system.resources import require_extra

FILE_FORMATS: Mapping[str, Callable[[Database, Path], Mapping[str, int]]] = {
    "graphml": formats.write_graphml,
    "html": html_page.write_html_page,
}
FOLDER_FORMATS = {"parquet": formats.write_parquet, "csv": formats.write_neo4j, "jsonl": formats.write_jsonl}
EXPORT_FORMATS = (*FOLDER_FORMATS, *FILE_FORMATS)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The outcome of an export: its files below `path`, counts of their content, their bytes, and `removed` files of an earlier one."""

    format: str
    path: Path
    files: tuple[str, ...]
    counts: Mapping[str, int]
    size: int
    removed: tuple[str, ...] = ()


def export_index(opened: OpenIndex, format: str, path: Path, *, force: bool = False) -> ExportResult:
    """Write a snapshot of an index for other programs; another process may write to the index meanwhile.

    `format` is one of EXPORT_FORMATS; `path` is the file for those in FILE_FORMATS, else a folder. `force` replaces an existing file, and
    writes into a folder with other files, none of which is replaced. Raises UsageError (nothing is written), NoIndex, LocalragError.
    """
    if format not in EXPORT_FORMATS:
        raise UsageError(f"There is no format {format!r}.", f"Choose one of: {', '.join(EXPORT_FORMATS)}")
    if format == "parquet":
        require_extra("export", "pyarrow")
    path = path.absolute()
    check_outside_index(path, opened.folder)
    if format in FILE_FORMATS:
        check_target_file(path, force=force)
    else:
        check_folder(path, force=force)
    with snapshot(opened.folder) as db:
        check_filled(db)
        if format in FILE_FORMATS:
            with atomic_file(path) as part:
                counts = FILE_FORMATS[format](db, part)
            return ExportResult(format, path, (path.name,), counts, path.stat().st_size)
        with staging_folder(path) as inner:
            counts = FOLDER_FORMATS[format](db, inner)
            files, deleted = replace_export(inner, path)
        size = sum((path / name).stat().st_size for name in files)
        return ExportResult(format, path, tuple(files), counts, size, tuple(deleted))
