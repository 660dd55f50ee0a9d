"""Rows of an evaluation in a file, one JSON object a line: each is kept the moment it is known, so that a run goes on after a stop."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_rows(file: Path) -> list[Row]:
    """The rows of an earlier run, none where there is no file; a line torn by a crash is left out."""
    return list(_rows(file.read_text(encoding="utf-8"))) if file.exists() else []


def _rows(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def latest(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> list[Row]:
    """The last row of every key, in the order in which the keys first came: what failed once and was asked again counts once."""
    return list({key(row): row for row in rows}.values())


@contextmanager
def appending(file: Path) -> Iterator[Callable[[Row], None]]:
    """A function that adds a row to the file and flushes it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as f:
        if file.read_bytes()[-1:] not in (b"", b"\n"):
            f.write("\n")

        def append(row: Row) -> None:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
            f.flush()

        yield append
