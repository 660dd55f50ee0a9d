"""Notes of what the user chose or made on this machine, outside of any folder of documents, which may come from somebody else.

Each note is a file in the user's data folder, named by the hash of its content. So any number of processes can add notes, and looking one
up reads no file.
"""

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from localrag.system.files import data_dir, private_folder, replace_file

FOLDER = "trusted"


def remember(kind: str, *parts: str) -> None:
    """Save a note. If the data folder cannot be written to, nothing is saved, and the user is asked again the next time."""
    with suppress(OSError):
        file = _file(kind, parts)
        if not file.exists():
            private_folder(file.parent)
            replace_file(file, json.dumps([kind, *parts]).encode())  # as ASCII: paths may hold surrogates


def is_known(kind: str, *parts: str) -> bool:
    """Whether exactly this note was saved on this machine."""
    return _file(kind, parts).is_file()


def _file(kind: str, parts: tuple[str, ...]) -> Path:
    note = json.dumps([kind, *parts]).encode()
    return data_dir() / FOLDER / f"{kind}-{sha256(note).hexdigest()[:32]}.json"
