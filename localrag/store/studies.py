"""The studies made of an index, each in a folder of the user's with a copy of the index: which they are, and taking them away.

An index may come from somebody else, and what it says of folders is a claim. So a folder is opened only where three agree: the index names
it, this machine noted that it made a study there of this index, and so says the record in the folder. Of what is in it only the files that
localrag writes are deleted, by their names; what else is there stays and is listed.
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
BESIDE = ("domain.toml", "domain.toml.before", "writer.lock", *(f"{FILE_NAME}{end}" for end in ("", "-wal", "-shm", "-journal", ".part")))
MOST_OF_RECORD = 1 << 20  # bytes


def register(db: Database, study: Path) -> None:
    """Note that this index has a study in a folder: in the index, in the folder's record, and on this machine."""
    folder, number = study.resolve(), ledger.identity(db)
    record = _record(folder) | {"index_id": number, "index": str(folder_of(db).resolve())}
    replace_file(folder / RECORD, json.dumps(record, ensure_ascii=False, indent=1).encode())
    remember("study", number, str(folder))
    ledger.save_settings(db, studies=sorted({*ledger.settings(db).get("studies", []), str(folder)}))


def own_studies(db: Database) -> list[Path]:
    """The folders with studies that were made of this index on this machine; no other folder is looked into."""
    return [study for study in named(db) if _is_own(db, study)]


def others(db: Database) -> list[Path]:
    """What else the index names as studies and is there: nothing shows that it is one of this index."""
    return [study for study in named(db) if not _is_own(db, study) and study.exists()]


def named(db: Database) -> list[Path]:
    """The folders that the index names as its studies: a claim."""
    said = ledger.settings(db).get("studies", [])
    return [Path(p) for p in said if isinstance(p, str)] if isinstance(said, list) else []


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
    return made_from == here or not _has_id(made_from, number)  # this one was moved; else it is a copy of the one the study is of


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
    """What the record in a folder says; empty where there is none that can be read."""
    file = study / RECORD
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_OF_RECORD:
            return {}
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def copies(db: Database) -> Iterator[Database]:
    """The copies of the index that its studies have, opened; one that is damaged or of another version is passed over."""
    for study in own_studies(db):
        with suppress(LocalragError):
            yield open_index(study / "index")


def delete(study: Path) -> list[Path]:
    """Delete the files of a study that localrag wrote, and its folders where they are empty then; returns what else is in it."""
    inner = study / "index"
    backups = inner.glob(f"{FILE_NAME}.before-*")
    files = [study / name for name in STUDY if name != RECORD] + [inner / name for name in BESIDE] + [*cache_files(inner), *backups]
    for file in [*files, study / RECORD]:  # the record last: a deletion that was cut off goes on with it
        with suppress(OSError):  # a folder of that name is not ours
            file.unlink(missing_ok=True)
    for folder in (inner, study):
        with suppress(OSError):  # something of the user's is in it
            folder.rmdir()
    return sorted(p for p in study.rglob("*") if not p.is_dir() or p.is_symlink())
