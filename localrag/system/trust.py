"""What the user chose or made on this machine, noted where no folder of documents can reach: such a folder may come from somebody else.

Each note is a file of its own in the user's folder of data, named by the hash of what it says. So notes are made in one step by any number
of processes, and none has to be read to know whether it is there.
"""

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from localrag.system.files import data_dir, private_folder, replace_file

FOLDER = "trusted"


def remember(kind: str, *parts: str) -> None:
    """Note a fact; where the user's folder cannot be written to, it is asked for again the next time."""
    with suppress(OSError):
        file = _file(kind, parts)
        if not file.exists():
            private_folder(file.parent)
            replace_file(file, json.dumps([kind, *parts], ensure_ascii=False).encode())


def is_known(kind: str, *parts: str) -> bool:
    """Whether exactly this was noted here."""
    return _file(kind, parts).is_file()


def _file(kind: str, parts: tuple[str, ...]) -> Path:
    said = json.dumps([kind, *parts]).encode()
    return data_dir() / FOLDER / f"{kind}-{sha256(said).hexdigest()[:32]}.json"
