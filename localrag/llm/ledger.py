"""Where the answers of a model are committed."""

from typing import Protocol

from localrag.about import Use
from localrag.records import Call


class Ledger(Protocol):
    """Where answers are committed the moment they are there: the index's database, or whatever carries them to it."""

    def find(self, key: str) -> Call | None:
        """The committed answer to exactly this request."""

    def save(self, call: Call, *, needed: bool) -> None:
        """Commit an answer; the first one stays. Where that fails and it is not `needed`, the answer is used uncommitted."""

    def confirm(self, use: Use) -> None:
        """Say of an answer that what is stored now asks for it."""
