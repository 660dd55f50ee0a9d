"""Every error shown to users, with its exit code; each carries a hint with the remedy.

LocalragError                 exit 1   something failed
├── UsageError                exit 2   the command line is invalid
├── NoIndex                   exit 3   there is no index, or it is empty
├── ModelError                exit 4   a model file is missing, damaged or of the wrong kind
│   ├── NativeTrialFailed     exit 4   native code does not work on this machine
│   ├── ContextTooSmall       exit 4   a request does not fit the model's context
│   └── EngineError           exit 4   the engine failed in a step
│       ├── GrammarDeadEnd    exit 4   the grammar allows no further token
│       └── EmptyAnswer       exit 4   a model wrote nothing
├── IndexMismatch             exit 1   the index was made with other models or a newer localrag
├── IndexBusy                 exit 1   another process is writing to this index
└── AnswerTruncated           exit 1   a model's answer reached its token limit and is incomplete
"""

import re
import sqlite3
import traceback
from errno import EACCES, EDQUOT, EISDIR, ELOOP, ENAMETOOLONG, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path


def error_location(error: BaseException) -> str:
    """The type of an exception and where it was raised; never its message, which may contain text of the documents."""
    frames = traceback.extract_tb(error.__traceback__)
    package_frames = [f for f in frames if Path(f.filename).is_relative_to(Path(__file__).parent)]
    locations = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno} ({f.name})" for f in [*package_frames[-1:], *frames[-1:]])
    return f"{type(error).__name__} in {', '.join(locations) or 'an unknown place'}"


class LocalragError(Exception):
    """Something failed; `hint` is the remedy."""

    exit_code = 1
    kind = "failed"  # the name of this kind in a list of failures

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def is_disk_full(error: BaseException) -> bool:
    """Whether SQLite or a write failed because the disk is full; SQLITE_IOERR_SHMSIZE: for the memory that readers of its log share."""
    if isinstance(error, sqlite3.OperationalError):
        return getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE) or "is full" in str(error)
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)


def disk_full_error() -> LocalragError:
    """The error of a full disk."""
    return LocalragError("The disk is full.", "Free some space and run the same command again; finished work is saved.")


_OUT_OF_MEMORY = re.compile(r"(?i)(cannot|can't|unable to) allocate|bad_alloc|can't start new thread|out of memory|failed to map segment")
_UNUSABLE_FILE = (EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS)


def known_error(error: BaseException | None) -> LocalragError | None:
    """The error to show: itself if it is made for users, or what the machine lacks (memory, space, a permission); None for any other."""
    cause = error.__cause__ if isinstance(error, LocalragError) else error
    if isinstance(cause, MemoryError) or (isinstance(cause, OSError | ImportError | RuntimeError) and _OUT_OF_MEMORY.search(str(cause))):
        remedy = "Close other programs, raise the limit (ulimit -v, or the container's), or use a smaller model: localrag models list"
        return LocalragError("Memory ran out.", remedy)
    if error is None or isinstance(error, LocalragError):
        return error
    return disk_full_error() if is_disk_full(error) else _access_error(error)


def _access_error(error: BaseException) -> LocalragError | None:
    """The error to show if a disk, a file or the home folder cannot be used; None for others."""
    number, file = (error.errno, error.filename) if isinstance(error, OSError) else (0, None)
    message = str(error) if isinstance(error, sqlite3.OperationalError) else ""
    if file and isinstance(error, OSError) and number in _UNUSABLE_FILE:
        remedy = "Change its owner or permissions, or keep settings, models and caches elsewhere: export LOCALRAG_HOME=FOLDER"
        return LocalragError(f"{file} cannot be used: {error.strerror}.", remedy)
    if number == EROFS or "readonly" in message or "disk I/O error" in message:
        return LocalragError(
            "The disk of the index cannot be written to at the moment.", "Repair it and run the same command again; finished work is saved."
        )
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        return LocalragError("This user has no home folder.", "Name one: export HOME=FOLDER")
    return None


class UsageError(LocalragError):
    """The command line is invalid."""

    exit_code = 2


class NoIndex(LocalragError):
    """There is no index, or it is empty."""

    exit_code = 3


class ModelError(LocalragError):
    """A model file is missing, damaged or of the wrong kind."""

    exit_code = 4


class NativeTrialFailed(ModelError):
    """Native code crashed, hung or computed wrongly when it was first tried in a process of its own."""


class ContextTooSmall(ModelError):
    """A request does not fit the model's context; `left`: the tokens its prompt leaves for an answer, 0 if unknown."""

    kind = "too long for the model's window"

    def __init__(self, message: str, hint: str = "", left: int = 0) -> None:
        super().__init__(message, hint)
        self.left = max(0, left)


class EngineError(ModelError):
    """The engine failed in a step."""

    kind = "failed in the engine"


class GrammarDeadEnd(EngineError):
    """The grammar allows no further token of an answer."""


class EmptyAnswer(EngineError):
    """A model wrote nothing; the message says why."""


class IndexMismatch(LocalragError):
    """The index was made with other models or another version of localrag."""


class IndexBusy(LocalragError):
    """Another process is writing to this index."""


class AnswerTruncated(LocalragError):
    """A model's answer reached its token limit and is incomplete; `partial_text` is the part it wrote."""

    kind = "truncated"

    def __init__(self, message: str, hint: str = "", so_far: str = "") -> None:
        super().__init__(message, hint)
        self.partial_text = so_far
