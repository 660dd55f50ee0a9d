"""What a pack may hold, for who writes one and for who reads it: files of the index by name, documents by rules, models by kind."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from localrag.config import INDEX_FOLDER, PROJECT_FILE
from localrag.index.graph.aliases import FILE_NAME as ALIASES
from localrag.llm.domain import FILE_NAME as DOMAIN
from localrag.store.names import FILE_NAME

INDEX, DOCUMENTS, MODELS = "index", "documents", "models"  # the archive's folders
KINDS = ("chat_model", "embedder")  # the folders below models
BESIDE = (DOMAIN, ALIASES)  # what else of an index folder belongs to the index; caches are made anew, and serve.key stays a secret
INDEX_FILES = (FILE_NAME, *BESIDE)
PROMPTS = "prompts"  # a folder beside the index that is read as the user's own prompts
MOST_MEMBERS = 1_000_000
LONGEST = 1_000  # bytes of a member's name
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})  # of Windows
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ](?:/|$)')


def is_safe(name: str) -> bool:
    """Whether a path leads to a place below the folder it is taken from, on every system, and is written as plainly as can be."""
    parts = name.split("/")
    return not any(p in ("", ".", "..") for p in parts) and not any(c in name for c in "\\\0") and not re.match(r"[A-Za-z]:", name)


def belongs(name: str) -> bool:
    """Whether a pack can have a member of that name: a file of the index, a document, or a file of a model."""
    top, _, rest = name.partition("/")
    if not is_safe(rest) or len(name.encode("utf-8", "surrogatepass")) > LONGEST:
        return False
    if top == MODELS:
        return rest.partition("/")[0] in KINDS and "/" in rest and not _is_hidden(rest) and _is_printable(rest)
    if top == DOCUMENTS:
        return INDEX_FOLDER not in fold(rest).split("/")
    return top == INDEX and rest in INDEX_FILES


def reason_to_leave_out(path: str, *, windows: bool = False) -> str:
    """Why a document's file is not carried to another machine, where it would be more than a document; empty where it is."""
    folded = fold(path).split("/")
    if _is_hidden(path) or _is_hidden(fold(path)):
        return "a hidden name: programs read such files as their settings"
    if PROJECT_FILE in folded:
        return f"{PROJECT_FILE} holds settings of the machine that it is on"
    if folded[0] == PROMPTS:
        return "a folder prompts beside an index holds instructions to models"
    if not _is_printable(path) or any(part.partition(".")[0].strip() in _DEVICES for part in folded):
        return "a name that is no file's on every system"
    return "a name that Windows does not have" if windows and _NOT_ON_WINDOWS.search(path) else ""


def clashes(names: Iterable[str]) -> Iterator[str]:
    """The names that some system takes for another of them: in another case or way of writing, or a file where another has a folder."""
    folded = [(fold(name), name) for name in names]
    files: set[str] = set()
    folders = {folder for key, _ in folded for folder in _folders(key)}
    for key, name in folded:
        if key in files or key in folders:
            yield name
        files.add(key)


def fold(name: str) -> str:
    """A name as the system reads it that tells the fewest apart: without case, accents as they may be written, invisible characters."""
    seen = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())


def _folders(key: str) -> Iterator[str]:
    at = key.find("/")
    while at >= 0:
        yield key[:at]
        at = key.find("/", at + 1)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _is_printable(path: str) -> bool:
    """Whether a name can be printed and written as UTF-8: no control characters, and no halves of characters."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in path)
