"""What a document takes from other files of its folder: LaTeX its commands, a chat of Slack the names of people; nothing else."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from localrag.loaders.content import open_file

_INPUT = re.compile(r"\\(input|include|usepackage)\s*+(?:\[[^\[\]]{0,200}\]\s*+)?\{([^{}\n]{1,200})\}")
_DEFINES = re.compile(r"\\(?:(?:new|renew|provide)command|DeclareRobustCommand|DeclareMathOperator|def)\b")
MAX_INPUT_BYTES = 200_000  # of one file
MAX_INPUT_FILES = 20
MAX_INPUT_NAMES = 1_000  # that a file names
_MAX_DOCUMENT_BYTES = 5_000_000


def definitions_for(file: Path) -> str:
    """What a file takes from others, by its suffix; mostly empty."""
    if file.suffix.lower() == ".tex":
        return input_definitions(file)
    folder = file.parent.parent  # of Slack's export, with a folder for each channel
    with suppress(OSError):
        if file.suffix.lower() == ".json" and (folder / "channels.json").is_file():
            return _input_text(folder / "users.json", _MAX_DOCUMENT_BYTES)
    return ""


def input_definitions(file: Path) -> str:
    """The text of the files that a LaTeX file takes in and that define commands, from its folder and those below; empty without any."""
    texts: list[str] = []
    with suppress(OSError, ValueError):
        for path in islice(_input_paths(_input_text(file, _MAX_DOCUMENT_BYTES), file.parent.resolve()), MAX_INPUT_FILES):
            with suppress(OSError, ValueError):
                texts.append(_input_text(path, MAX_INPUT_BYTES))
    return "\n".join(text for text in texts if _DEFINES.search(text))


def _input_paths(source: str, folder: Path) -> Iterator[Path]:
    """The files in the folder, or below it, that a source names; no link leads out of it."""
    found = dict.fromkeys((found[1], name.strip()) for found in _INPUT.finditer(source) for name in found[2].split(","))
    for command, name in islice(found, MAX_INPUT_NAMES):
        for written in (name, name + (".sty" if command == "usepackage" else ".tex")):
            with suppress(OSError, ValueError):
                path = (folder / written).resolve()
                if written and path.is_relative_to(folder) and path.is_file():
                    yield path
                    break


def _input_text(file: Path, most: int) -> str:
    """A file of at most so many bytes; empty if it is larger. Raises OSError."""
    with open_file(file) as opened:
        return opened.read_bytes().decode("utf-8", "replace") if os.fstat(opened.descriptor).st_size <= most else ""
