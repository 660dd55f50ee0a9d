"""What was asked of models and what came back; settings, failures, runs and answers."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from secrets import token_hex
from sqlite3 import OperationalError
from typing import Any

from sqlite_utils import Database

from localrag.about import Use
from localrag.records import OF_A_QUESTION, UNSURE, Answer, Call, Citation, Failure
from localrag.states import Sentence


@dataclass(frozen=True, slots=True)
class CallLedger:
    """The model answers that are committed to an index; a `Model` asks it first."""

    db: Database

    def find(self, key: str) -> Call | None:
        """The committed answer to exactly this request."""
        return next(map(_call, self.db.query("SELECT * FROM llm_calls WHERE key = ?", [key])), None)

    def save(self, call: Call, *, needed: bool) -> None:
        """Commit an answer; the first one stays. One that is not `needed` may be lost on a read-only disk, or one busy for minutes."""
        try:
            with self.db.atomic():
                self.db.table("llm_calls").insert(asdict(call) | {"tokens": json.dumps(call.tokens)}, ignore=True)
        except OperationalError:
            if needed:
                raise

    def confirm(self, use: Use) -> None:
        """Say of an answer that what is stored now asks for it."""
        with self.db.atomic():
            _confirm(self.db, [use])


def _call(row: dict[str, Any]) -> Call:
    return Call(**{k: v for k, v in row.items() if k != "created_at"} | {"tokens": tuple(json.loads(row["tokens"]))})


def _confirm(db: Database, uses: Iterable[Use]) -> None:
    """Where an answer is about one text and is used for another as well, both are kept: it goes when neither is stored."""
    for use in uses:
        rows = db.execute("SELECT about FROM llm_calls WHERE key = ?", [use.key]).fetchall()
        if use.about and rows and rows[0][0] not in ("", UNSURE, OF_A_QUESTION, use.about):
            db.execute("INSERT OR IGNORE INTO also_about (key, about) VALUES (?, ?)", [use.key, rows[0][0]])
        db.execute("UPDATE llm_calls SET about = ?, recipe = ?, unused_since = NULL WHERE key = ?", [use.about, use.recipe, use.key])


def calls_about(db: Database, about: Sequence[str]) -> list[Call]:
    """The committed answers about texts with these content ids."""
    values = "(SELECT value FROM json_each(:about))"
    which = f"about IN {values} OR key IN (SELECT key FROM also_about WHERE about IN {values})"
    return list(map(_call, db.query(f"SELECT * FROM llm_calls WHERE {which}", {"about": json.dumps(about)})))


_CALL = tuple(f.name for f in fields(Call))
_SAVE = f"INSERT OR IGNORE INTO llm_calls ({', '.join(_CALL)}) VALUES (?{', ?' * (len(_CALL) - 1)})"


def save_calls(db: Database, calls: Iterable[Call], uses: Iterable[Use] = ()) -> None:
    """Commit answers that came together, of each request the first one; and what else committed ones are asked for."""
    rows = [[json.dumps(c.tokens) if name == "tokens" else getattr(c, name) for name in _CALL] for c in calls]
    with db.atomic():
        db.conn.executemany(_SAVE, rows)
        _confirm(db, uses)


@dataclass(frozen=True, slots=True)
class Unlogged:
    """What an index has committed, to read; new answers stay in memory and end with the process."""

    committed: CallLedger
    here: dict[str, Call] = field(default_factory=dict)

    def find(self, key: str) -> Call | None:
        """The answer to exactly this request, of this process or committed."""
        return self.here.get(key) or self.committed.find(key)

    def save(self, call: Call, *, needed: bool) -> None:  # noqa: ARG002 — as the protocol has it
        """Remember an answer."""
        self.here.setdefault(call.key, call)

    def confirm(self, use: Use) -> None:
        """A no-op: what is stored asks for nothing here."""


def spent(db: Database) -> dict[str, Any]:
    """Calls, prompt tokens, output tokens and seconds over the life of the index, also of answers that were collected."""
    now, before = spent_on(db, "true", []), settings(db).get("spent", {})
    return {name: round(value + before.get(name, 0), 1) for name, value in now.items()}


def spent_on(db: Database, where: str, values: list[Any]) -> dict[str, Any]:
    """The same of some of the answers that there are."""
    sums = ", ".join(f"coalesce(sum({name}), 0) AS {name}" for name in ("prompt_tokens", "output_tokens", "seconds"))
    return next(db.query(f"SELECT count(*) AS calls, {sums} FROM llm_calls WHERE {where}", values))


def arithmetic(db: Database) -> dict[str, int]:
    """How many answers the machines of each class of arithmetic gave, where machines of several classes worked; empty elsewhere."""
    found = db.query("SELECT arithmetic, count(*) AS n FROM llm_calls WHERE arithmetic <> '' GROUP BY arithmetic ORDER BY arithmetic")
    return {row["arithmetic"]: row["n"] for row in found}


def settings(db: Database) -> dict[str, Any]:
    """Everything the index is bound to."""
    return {row["key"]: json.loads(row["value"]) for row in db.query("SELECT key, value FROM settings")}


def save_settings(db: Database, **values: Any) -> None:
    """Set some of the values that `settings` returns."""
    with db.atomic():
        db.table("settings").insert_all(({"key": k, "value": json.dumps(v)} for k, v in values.items()), replace=True)


def identity(db: Database) -> str:
    """The id of an index, which stays when its folder is moved; a new one if it has none. Raises OperationalError."""
    if not isinstance(known := settings(db).get("id"), str):
        save_settings(db, id=token_hex(16))
        known = settings(db)["id"]
    return str(known)


def save_failure(db: Database, failure: Failure) -> None:
    """Note that something could not be done."""
    with db.atomic():
        db.table("failures").insert(asdict(failure), replace=True)


def clear_failures(db: Database, stage: str, subjects: Sequence[str]) -> None:
    """Forget failures: they were made good."""
    with db.atomic():
        db.conn.executemany("DELETE FROM failures WHERE stage = ? AND subject = ?", [(stage, subject) for subject in subjects])


def replace_failures(db: Database, stages: Sequence[str], failures: Sequence[Failure]) -> None:
    """Put failures in place of all that are noted of these stages."""
    with db.atomic():
        db.execute("DELETE FROM failures WHERE stage IN (SELECT value FROM json_each(?))", [json.dumps(list(stages))])
        db.table("failures").insert_all(map(asdict, failures), replace=True)


def clear_stale_failures(db: Database) -> None:
    """Forget the failures of chunks and communities that are no more."""
    with db.atomic():
        db.execute("DELETE FROM failures WHERE stage = 'extraction' AND subject NOT IN (SELECT id FROM chunks)")
        db.execute("DELETE FROM failures WHERE stage = 'report' AND subject NOT IN (SELECT id FROM communities)")


def failures(db: Database) -> list[Failure]:
    """What could not be done so far."""
    return [Failure(**row) for row in db.query("SELECT stage, subject, reason, kind FROM failures ORDER BY stage, subject")]


def start_run(db: Database, pid: int) -> int:
    """Note that an indexing run begins; returns its number. Runs that never ended are marked as interrupted."""
    with db.atomic():
        db.execute("UPDATE runs SET state = 'interrupted', ended_at = CURRENT_TIMESTAMP WHERE ended_at IS NULL")
        return int(str(db.table("runs").insert({"pid": pid, "state": "running"}).last_pk))


def update_run(db: Database, run: int, facts: dict[str, Any]) -> None:
    """Say how far a run is, for other terminals to read: `stage`, `done`, `total`, and what else is known (`Progress.facts`)."""
    values = [facts["stage"], facts["done"], facts["total"], json.dumps(facts, ensure_ascii=False), time.time(), run]
    with db.atomic():
        db.execute("UPDATE runs SET stage = ?, done = ?, total = ?, facts = ?, seen_at = ? WHERE id = ?", values)


def end_run(db: Database, run: int, state: str, figures: dict[str, Any]) -> None:
    """Note how a run ended: complete, partly, interrupted or failed; and what its engine did."""
    with db.atomic():
        db.execute("UPDATE runs SET state = ?, figures = ?, ended_at = CURRENT_TIMESTAMP WHERE id = ?", [state, json.dumps(figures), run])


def figures(db: Database) -> list[dict[str, Any]]:
    """What the engine did in each run."""
    return [json.loads(row["figures"]) for row in db.query("SELECT figures FROM runs ORDER BY id")]


def last_run(db: Database) -> dict[str, Any] | None:
    """The newest run as a row; `figures` is what its engine did, `facts` how far it was at `seen_at` (seconds since 1970)."""
    row = next(iter(db.query("SELECT * FROM runs ORDER BY id DESC LIMIT 1")), None)
    return None if row is None else row | {name: json.loads(row.get(name) or "{}") for name in ("figures", "facts")}


def save_answer(db: Database, answer: Answer) -> Answer:
    """Keep an answer, so that its citations can be opened and its conversation gone on with; one without a conversation begins one."""
    with db.atomic():
        row = {"question": answer.question, "mode": answer.mode, "result": "", "conversation": answer.conversation}
        n = int(str(db.table("answers").insert(row).last_pk))
        kept = replace(answer, id=n, conversation=answer.conversation or n)
        db.table("answers").update(n, {"conversation": kept.conversation, "result": json.dumps(asdict(kept), ensure_ascii=False)})
    return kept


def last_answer(db: Database) -> Answer | None:
    """The newest answer."""
    return next((a for *_, a in answers(db, 1)), None)


def answers(db: Database, n: int) -> list[tuple[int, str, Answer]]:
    """The newest `n` answers, each with its number and when it was given, newest first."""
    rows = db.query("SELECT id, at, result FROM answers ORDER BY id DESC LIMIT ?", [n])
    return [(r["id"], r["at"], _answer(r)) for r in rows]


def answer_numbered(db: Database, number: int) -> tuple[str, Answer] | None:
    """When an answer was given, and the answer; None where there is none of that number."""
    rows = db.query("SELECT id, at, result FROM answers WHERE id = ?", [number])
    return next(((r["at"], _answer(r)) for r in rows), None)


def conversation(db: Database, number: int) -> list[Answer]:
    """The answers of a conversation, oldest first."""
    return [made for _, made in dated_conversation(db, number)]


def dated_conversation(db: Database, number: int) -> list[tuple[str, Answer]]:
    """The answers of a conversation with when they were given, oldest first."""
    rows = db.query("SELECT id, at, result FROM answers WHERE conversation = ? ORDER BY id", [number])
    return [(r["at"], _answer(r)) for r in rows]


def _answer(row: dict[str, Any]) -> Answer:
    values = json.loads(row["result"])
    marks = tuple((at, n) for at, n in values.get("marks", ()))
    cited, named = tuple(Citation(**c) for c in values["citations"]), tuple(values.get("collections", ()))
    sentences = tuple(Sentence(**s | {"citations": tuple(s["citations"])}) for s in values.get("sentences", ()))
    return Answer(**values | {"id": row["id"], "marks": marks, "citations": cited, "collections": named, "sentences": sentences})
