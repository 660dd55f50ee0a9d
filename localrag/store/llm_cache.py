"""SqliteLlmCache: LLM calls, their subjects, and their usage."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from secrets import token_hex
from sqlite3 import OperationalError
from typing import Any

from sqlite_utils import Database

from localrag.records import QUERY_SUBJECT, CallReference, LlmCall
from localrag.store.runs import load_settings, save_settings


@dataclass(frozen=True, slots=True)
class SqliteLlmCache:
    """The LLM calls stored in an index; a chat model looks here first."""

    db: Database

    def find(self, key: str) -> LlmCall | None:
        """The stored call with this key; None if there is none."""
        return next(map(_call, self.db.query("SELECT * FROM llm_calls WHERE key = ?", [key])), None)

    def save(self, call: LlmCall, *, needed: bool) -> None:
        """Store a call; an existing one stays. If not `needed`, a read-only or busy database is ignored."""
        try:
            save_calls(self.db, [call])
        except OperationalError:
            if needed:
                raise

    def add_reference(self, use: CallReference) -> None:
        """Record that the current contents need a stored call."""
        with self.db.atomic():
            _confirm(self.db, [use])


def _call(row: dict[str, Any]) -> LlmCall:
    return LlmCall(**{k: v for k, v in row.items() if k != "created_at"} | {"tokens": tuple(json.loads(row["tokens"]))})


def _confirm(db: Database, references: Iterable[CallReference]) -> None:
    """Set subject and config hash of used calls. A call used for two texts is about the last, and is deleted with it."""
    update = "UPDATE llm_calls SET subject = ?, config_hash = ?, unused_since = NULL WHERE key = ?"
    db.conn.executemany(update, ((use.subject, use.config_hash, use.key) for use in references))


def calls_about(db: Database, subjects: Sequence[str]) -> list[LlmCall]:
    """The stored calls about texts with these content ids."""
    query = "SELECT * FROM llm_calls WHERE subject IN (SELECT value FROM json_each(?))"
    return list(map(_call, db.query(query, [json.dumps(subjects)])))


_CALL = tuple(f.name for f in fields(LlmCall))
_SAVE = f"INSERT OR IGNORE INTO llm_calls ({', '.join(_CALL)}) VALUES (?{', ?' * (len(_CALL) - 1)})"


def save_calls(db: Database, calls: Iterable[LlmCall], uses: Iterable[CallReference] = ()) -> None:
    """Store calls, of each key the first one, and record references to stored calls."""
    rows = [[json.dumps(c.tokens) if name == "tokens" else getattr(c, name) for name in _CALL] for c in calls]
    with db.atomic():
        db.conn.executemany(_SAVE, rows)
        _confirm(db, uses)


@dataclass(frozen=True, slots=True)
class MemoryOverlayCache:
    """The stored calls of an index, read-only; new calls stay in memory and end with the process."""

    persistent: SqliteLlmCache
    in_memory: dict[str, LlmCall] = field(default_factory=dict)

    def find(self, key: str) -> LlmCall | None:
        """The call with this key, of this process or stored; None if there is none."""
        return self.in_memory.get(key) or self.persistent.find(key)

    def save(self, call: LlmCall, *, needed: bool) -> None:  # noqa: ARG002 — protocol signature
        """Keep a call in memory."""
        self.in_memory.setdefault(call.key, call)

    def add_reference(self, use: CallReference) -> None:
        """Nothing to record: the index is not written to."""


def total_llm_usage(db: Database) -> dict[str, Any]:
    """Calls, prompt tokens, output tokens and seconds of the stored calls."""
    sums = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in ("prompt_tokens", "output_tokens", "seconds"))
    usage = next(db.query(f"SELECT count(*) AS calls, {sums} FROM llm_calls"))
    return {name: round(value, 1) for name, value in usage.items()}


def has_indexing_calls(db: Database) -> bool:
    """Whether the index has calls that were made to build it, not to answer a question."""
    query = "SELECT EXISTS (SELECT 1 FROM llm_calls WHERE subject <> ?)"
    return bool(db.execute(query, [QUERY_SUBJECT]).fetchone()[0])


def identity(db: Database) -> str:
    """The id of an index, which stays when its folder is moved; created if missing. Raises OperationalError."""
    if not isinstance(index_id := load_settings(db).get("id"), str):
        save_settings(db, id=token_hex(16))
        index_id = load_settings(db)["id"]
    return str(index_id)
