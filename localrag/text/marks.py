"""Texts of others beside our own: what of them could be taken for a citation's mark, or for another line of ours."""

import json
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

from localrag.states import STATES

MARK = re.compile(rf"\[([0-9]+|{'|'.join(STATES[1:])})\]")  # a citation's, or what no quote proves
_UNSEEN = re.compile(  # also what turns the direction of a line
    "[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)  # control characters, and those that turn the direction of what follows


def escape_marks(text: str) -> str:
    """A text whose own `[n]` or `[unsupported]` nobody takes for a mark of ours: as `\\[n\\]`, which markdown shows as `[n]`."""
    return MARK.sub(r"\\[\1\\]", text)


def one_line(text: str) -> str:
    """A text that cannot begin a line of its own, nor change how the line it stands in is shown."""
    return _UNSEEN.sub("\ufffd", " ".join(text.split()))


def quoted(text: str) -> str:
    """A quote on one line, which nothing in it can end."""
    return json.dumps(one_line(text), ensure_ascii=False)


def fence(what: str, texts: Sequence[str]) -> Callable[[str], str]:
    """A function that puts each of some texts between two tags, `<what>` where no text has that word: nothing in one can end it."""
    name = what
    while any(name in text.casefold() for text in texts):
        name = f"{what}-{blake2b(''.join([name, *texts]).encode(errors='surrogatepass'), digest_size=6).hexdigest()}"
    return lambda text: f"<{name}>\n{text}\n</{name}>"
