"""The members that a pack may have, for `pack` and `unpack`: index files by name, documents by rules, models by kind."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise

from localrag.config import INDEX_FOLDER, PROJECT_FILE
from localrag.index.graph.aliases import FILE_NAME as ALIASES
from localrag.llm.domain import FILE_NAME as DOMAIN
from localrag.store.names import FILE_NAME

INDEX, DOCUMENTS, MODELS = "index", "documents", "models"  # the archive's folders
KINDS = ("chat_model", "embedder")  # the folders below `models`
BESIDE = (DOMAIN, ALIASES)  # other index files that travel; caches are built again, and serve.key is secret
INDEX_FILES = (FILE_NAME, *BESIDE)
PROMPTS = "prompts"  # the folder beside an index that is read as the user's own prompts
MAX_MEMBERS = 1_000_000
MAX_NAME_BYTES = 1_000  # of a member's name
_WINDOWS_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))})
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ](?:/|$)')


def is_safe(name: str) -> bool:
    """Whether a relative path stays below its folder on every system and is in its simplest form."""
    parts = name.split("/")
    return not any(p in ("", ".", "..") for p in parts) and not any(c in name for c in "\\\0") and not re.match(r"[A-Za-z]:", name)


def is_member_name(name: str) -> bool:
    """Whether a pack may have a member of that name: an index file, a document or a model file."""
    top, _, rest = name.partition("/")
    if not is_safe(rest) or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return False
    if top == MODELS:
        return rest.partition("/")[0] in KINDS and "/" in rest and not _is_hidden(rest) and _is_printable(rest)
    if top == DOCUMENTS:
        return INDEX_FOLDER not in fold(rest).split("/")
    return top == INDEX and rest in INDEX_FILES


def reason_to_leave_out(path: str, *, windows: bool = False) -> str:
    """Why a document's file must not travel to another machine; empty if it may. Some files do more there than a document should."""
    folded = fold(path).split("/")
    if _is_hidden(path) or _is_hidden(fold(path)):
        return "its name is hidden: programs read such files as their settings"
    if PROJECT_FILE in folded:
        return f"{PROJECT_FILE} holds settings of the machine it is on"
    if folded[0] == PROMPTS:
        return "the folder prompts beside an index holds instructions to models"
    if not _is_printable(path) or any(part.partition(".")[0].strip() in _WINDOWS_DEVICES for part in folded):
        return "its name cannot be a file name on every system"
    return "its name is not allowed on Windows" if windows and _NOT_ON_WINDOWS.search(path) else ""


def clashes(names: Iterable[str]) -> Iterator[str]:
    """The names that some system confuses with another of them: equal but for case or encoding, or a file where another has a folder.

    Of equal names the first is kept.
    """
    keys = [(fold(name), -n, name) for n, name in enumerate(names)]
    keys.sort(key=lambda entry: (entry[0].replace("/", "\0"), *entry[:2]))  # a folder's name directly before what is in the folder
    for (key, _, name), (following, *_) in pairwise(keys):
        if following == key or following.startswith(f"{key}/"):
            yield name


def fold(name: str) -> str:
    """A name reduced as on the system that distinguishes fewest: without case, Unicode variants and invisible characters."""
    visible = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible).casefold())


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _is_printable(path: str) -> bool:
    """Whether a name can be printed and encoded as UTF-8: no control characters, line separators or surrogates."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in path)
