"""Every error a user can meet, with the exit code it ends in and the command that mends it.

LocalragError                 exit 1   something failed
├── UsageError                exit 2   the command line cannot be carried out as given
├── NoIndex                   exit 3   there is no index here, or nothing in it yet
├── ModelError                exit 4   a model file is missing, damaged or of the wrong kind
│   ├── Refused               exit 4   native code that does not work on this machine
│   ├── ContextTooSmall       exit 4   a request does not fit the model's window
│   └── EngineFailed          exit 4   the engine could not carry out a step
│       ├── NoRoom            exit 4   the KV has no room for a step
│       └── DeadEnd           exit 4   an answer came to a place where its grammar allows nothing
├── IndexMismatch             exit 1   the index was made by other models or a newer localrag
├── IndexBusy                 exit 1   another process is writing to this index
└── AnswerTruncated           exit 1   a model's answer hit its token limit and is not complete
"""

import sqlite3
import traceback
from errno import EDQUOT, ENOSPC, EROFS
from pathlib import Path


def kind_and_place(error: BaseException) -> str:
    """What kind of exception was raised and where; never its message, which may hold text of the documents."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_relative_to(Path(__file__).parent)]
    places = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno} ({f.name})" for f in [*own[-1:], *frames[-1:]])
    return f"{type(error).__name__} in {', '.join(places) or 'an unknown place'}"


class LocalragError(Exception):
    """Something failed; `hint` says what to do about it."""

    exit_code = 1
    kind = "failed"  # what a list of failures calls it

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def disk_trouble(error: BaseException) -> LocalragError | None:
    """What to say where SQLite or a write failed because the disk is full or cannot be written to; None for any other exception."""
    number = error.errno if isinstance(error, OSError) else 0
    said = str(error) if isinstance(error, sqlite3.OperationalError) else ""
    if number in (ENOSPC, EDQUOT) or "is full" in said:
        return LocalragError("The disk is full.", "Make room and run the same command again; what is done is saved.")
    if number == EROFS or "readonly" in said or "disk I/O error" in said:
        return LocalragError(
            "The disk of the index cannot be written to at the moment.", "Mend that and run the same command again; what is done is saved."
        )
    return None


class UsageError(LocalragError):
    """The command line cannot be carried out as given."""

    exit_code = 2


class NoIndex(LocalragError):
    """There is no index here, or nothing in it yet."""

    exit_code = 3


class ModelError(LocalragError):
    """A model file is missing, damaged or of the wrong kind."""

    exit_code = 4


class Refused(ModelError):
    """Native code that ended, hung or computed wrongly when it was first tried in a process of its own."""


class ContextTooSmall(ModelError):
    """A request does not fit the model's window; `left` is how many tokens its prompt leaves for an answer, 0 if unknown."""

    kind = "too long for the model's window"

    def __init__(self, message: str, hint: str = "", left: int = 0) -> None:
        super().__init__(message, hint)
        self.left = max(0, left)


class EngineFailed(ModelError):
    """The engine could not carry out a step."""

    kind = "failed in the engine"


class NoRoom(EngineFailed):
    """The KV has no room for a step; nothing was computed and nothing is lost."""


class DeadEnd(EngineFailed):
    """An answer came to a place where its grammar allows nothing to follow."""


class IndexMismatch(LocalragError):
    """The index was made by other models or a newer localrag."""


class IndexBusy(LocalragError):
    """Another process is writing to this index."""


class AnswerTruncated(LocalragError):
    """A model's answer hit its token limit and is not complete; `so_far` is what there is of it."""

    kind = "truncated"

    def __init__(self, message: str, hint: str = "", so_far: str = "") -> None:
        super().__init__(message, hint)
        self.so_far = so_far
