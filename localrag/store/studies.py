"""Find and delete the studies made of an index, each in a folder of the user with a copy of the index.

An index may come from somebody else, so a folder that it names may be anything. A folder is opened only if three agree that it is a study
of this index: the index, a note on this machine, and the record in the folder. Only files that localrag writes are deleted, by name; all
others stay and are listed.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.store import ledger
from localrag.store.connect import cache_files, folder_of
from localrag.store.names import FILE_NAME
from localrag.store.schema import open_index
from localrag.system.files import replace_file
from localrag.system.trust import is_known, remember

RECORD = "study.json"
STUDY = ("questions.json", "answers.jsonl", "statements.jsonl", "verdicts.jsonl", "results.json", "report.html", RECORD)
DATABASE_FILES = tuple(f"{FILE_NAME}{ending}" for ending in ("", "-wal", "-shm", "-journal", ".part"))
COPY_FILES = ("domain.toml", "domain.toml.before", "writer.lock", *DATABASE_FILES)
MAX_RECORD_BYTES = 1 << 20


def register(db: Database, study: Path) -> None:
    """Record that an index has a study in a folder: in the index, in the folder, and on this machine."""
    folder, number = study.resolve(), ledger.identity(db)
    record = _record(folder) | {"index_id": number, "index": str(folder_of(db).resolve())}
    replace_file(folder / RECORD, json.dumps(record, ensure_ascii=False, indent=1).encode())
    remember("study", number, str(folder))
    ledger.save_settings(db, studies=sorted({*ledger.settings(db).get("studies", []), str(folder)}))


def own_studies(db: Database) -> list[Path]:
    """The folders with studies made of this index on this machine. No other folder is read."""
    return [study for study in named_studies(db) if _is_own(db, study)]


def unproven_studies(db: Database) -> list[Path]:
    """The other existing folders that the index names as studies, without proof that they are."""
    return [study for study in named_studies(db) if not _is_own(db, study) and study.exists()]


def named_studies(db: Database) -> list[Path]:
    """The folders that the index names as its studies, not verified."""
    paths = ledger.settings(db).get("studies", [])
    return [Path(p) for p in paths if isinstance(p, str)] if isinstance(paths, list) else []


def _is_own(db: Database, study: Path) -> bool:
    number = ledger.settings(db).get("id")
    if not isinstance(number, str) or not is_known("study", number, str(study)):
        return False
    if study.resolve() != study or (study / "index").is_symlink():  # a link has taken its place
        return False
    record = _record(study)
    if record.get("index_id") != number or not isinstance(record.get("index"), str):
        return False
    made_from, here = Path(record["index"]), folder_of(db).resolve()
    return made_from == here or not _has_id(made_from, number)  # the index was moved; else this one is a copy


def _has_id(folder: Path, number: str) -> bool:
    try:
        db = open_index(folder)
    except LocalragError:
        return False
    try:
        return bool(ledger.settings(db).get("id") == number)
    finally:
        db.close()


def _record(study: Path) -> dict[str, Any]:
    """The record in a study's folder; empty where it is missing or cannot be read."""
    file = study / RECORD
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_RECORD_BYTES:
            return {}
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def copies(db: Database) -> Iterator[Database]:
    """The opened copies of the index in its studies, without damaged ones and those of another version."""
    for study in own_studies(db):
        with suppress(LocalragError):
            yield open_index(study / "index")


def delete(study: Path) -> list[Path]:
    """Delete the files of a study that localrag wrote, and its folders if they are then empty; returns the files that stay."""
    inner = study / "index"
    backups = inner.glob(f"{FILE_NAME}.before-*")
    files = [study / name for name in STUDY if name != RECORD] + [inner / name for name in COPY_FILES] + [*cache_files(inner), *backups]
    for file in [*files, study / RECORD]:  # the record last, so that an interrupted deletion can go on
        with suppress(OSError):  # a folder of that name is not ours
            file.unlink(missing_ok=True)
    for folder in (inner, study):
        with suppress(OSError):  # it holds files of the user
            folder.rmdir()
    return sorted(p for p in study.rglob("*") if not p.is_dir() or p.is_symlink())
