"""Texts of documents and models beside our own: nothing in them may pass for a citation mark, or for a line of ours."""

import json
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

from localrag.states import STATES

MARK = re.compile(rf"\[([0-9]+|{'|'.join(STATES[1:])})\]")  # a citation, or the state of a sentence that no quote proves
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # control characters, also those that change the direction of text


def escape_marks(text: str) -> str:
    """Escape the text's own `[n]` or `[unsupported]` as `\\[n\\]`, so that it cannot pass for a mark; Markdown shows it as `[n]`."""
    return MARK.sub(r"\\[\1\\]", text)


def round_marks(text: str) -> str:
    """Write the text's own `[n]` as `(n)`, for prompts: a model may copy it, and its grammar lets only real marks have square brackets."""
    return MARK.sub(r"(\1)", text)


def one_line(text: str) -> str:
    """Put a text on one line; control characters in it become U+FFFD, so that it cannot change how that line is shown."""
    return _UNSEEN.sub("\ufffd", " ".join(text.split()))


def quoted(text: str) -> str:
    """A text as a JSON string on one line: no quotation mark in it can end the quote."""
    return json.dumps(one_line(text), ensure_ascii=False)


def fence(what: str, texts: Sequence[str]) -> Callable[[str], str]:
    """A function that puts each of the texts between tags whose name occurs in none of them, so that no text can close its tag."""
    name = what
    while any(name in text.casefold() for text in texts):
        name = f"{what}-{blake2b(''.join([name, *texts]).encode(errors='surrogatepass'), digest_size=6).hexdigest()}"
    return lambda text: f"<{name}>\n{text}\n</{name}>"
