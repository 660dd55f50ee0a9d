"""Answers and conversations, those of people apart from those of programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlite_utils import Database

from localrag.records import Answer, AnswerPassage, AnswerSentence, Citation
from localrag.store.database import ViewRow


def save_answer(db: Database, answer: Answer) -> Answer:
    """Store an answer with its number and conversation, and return it so; one without a conversation begins a new one."""
    with db.atomic():
        row = {"question": answer.question, "mode": answer.mode, "answer_json": "", "conversation": answer.conversation}
        number = int(str(db.table("answers").insert(row).last_pk))
        numbered = replace(answer, id=number, conversation=answer.conversation or number)
        stored = {"conversation": numbered.conversation, "answer_json": json.dumps(asdict(numbered), ensure_ascii=False)}
        db.table("answers").update(number, stored)
    return numbered


_BY_PROGRAM = "json_extract(a.answer_json, '$.by_program')"
MAX_COMPARED = 100  # conversations with the same last question


def last_answer(db: Database) -> Answer | None:
    """The newest answer to a person; None without one."""
    rows = db.query(f"SELECT id, answer_json FROM answers a WHERE NOT {_BY_PROGRAM} ORDER BY id DESC LIMIT 1")
    return next(map(_parse_answer, rows), None)


def program_conversation(db: Database, questions: Sequence[str]) -> int | None:
    """The conversation in which a program asked these questions last, oldest first; None without one.

    The program may have dropped the oldest. One that ends with them comes before one that went on differently, then the newest.
    """
    last = "(SELECT max(b.id) FROM answers b WHERE b.conversation = a.conversation)"
    same = f"SELECT id, conversation FROM answers a WHERE question = ? AND {_BY_PROGRAM} ORDER BY id = {last} DESC, id DESC LIMIT ?"
    for row in db.query(same, [questions[-1], MAX_COMPARED]):
        before = "SELECT question FROM answers WHERE conversation = ? AND id <= ? ORDER BY id DESC LIMIT ?"
        asked = [r["question"] for r in db.query(before, [row["conversation"], row["id"], len(questions)])]
        if asked == list(reversed(questions))[: len(asked)]:
            return int(row["conversation"])
    return None


def newest_answers(db: Database, n: int) -> list[tuple[int, str, Answer]]:
    """The newest `n` answers, newest first: number, time, answer."""
    rows = db.query("SELECT id, created_at, answer_json FROM answers ORDER BY id DESC LIMIT ?", [n])
    return [(r["id"], r["created_at"], _parse_answer(r)) for r in rows]


def answer_by_id(db: Database, number: int) -> tuple[str, Answer] | None:
    """Time and answer with a number; None if there is none."""
    rows = db.query("SELECT id, created_at, answer_json FROM answers WHERE id = ?", [number])
    return next(((r["created_at"], _parse_answer(r)) for r in rows), None)


def conversation(db: Database, number: int) -> list[Answer]:
    """The answers of a conversation, oldest first."""
    return [answer for _, answer in conversation_with_times(db, number)]


def conversation_with_times(db: Database, number: int) -> list[tuple[str, Answer]]:
    """The answers of a conversation with their times, oldest first."""
    rows = db.query("SELECT id, created_at, answer_json FROM answers WHERE conversation = ? ORDER BY id", [number])
    return [(r["created_at"], _parse_answer(r)) for r in rows]


def _parse_answer(row: dict[str, Any]) -> Answer:
    values = json.loads(row["answer_json"])
    values |= {
        "id": row["id"],
        "citation_marks": tuple((offset, n) for offset, n in values["citation_marks"]),
        "citations": tuple(Citation(**c | {"headings": tuple(c["headings"])}) for c in values["citations"]),
        "collections": tuple(values["collections"]),
        "sentences": tuple(AnswerSentence(**s | {"citations": tuple(s["citations"])}) for s in values["sentences"]),
        "passages": tuple(map(_parse_passage, values["passages"])),
    }
    return Answer(**values)


def _parse_passage(values: dict[str, Any]) -> AnswerPassage:
    return AnswerPassage(**values | {"headings": tuple(values["headings"]), "marked": values["marked"] and tuple(values["marked"])})


def conversations(db: Database, limit: int, *, by_program: bool = False) -> list[ViewRow]:
    """Conversations of people, or of programs, the newest first: number, first question, time of the last answer, number of answers."""
    columns = "conversation AS id, max(created_at) AS at, max(id) AS last, count(*) AS answers, min(id) AS first"
    grouped = f"SELECT {columns} FROM answers GROUP BY 1"
    return list(
        db.query(
            f"SELECT g.id, a.question AS title, g.at, g.answers FROM ({grouped}) g JOIN answers a ON a.id = g.first"
            f" WHERE {_BY_PROGRAM} = ? ORDER BY g.last DESC LIMIT ?",
            [by_program, limit],
        )
    )


def search_conversations(db: Database, text: str) -> list[ViewRow]:
    """The answers that contain all words of a text in question or answer, ignoring case, newest first.

    As rows: `id` of the conversation, `answer` its number, `at`, `question`, and `text`, the answer.
    """
    words = text.casefold().split()
    columns = "conversation AS id, id AS answer, created_at AS at, question, json_extract(answer_json, '$.answer') AS text"
    rows = db.query(f"SELECT {columns} FROM answers ORDER BY answers.id DESC")
    return [r for r in rows if words and all(w in f"{r['question']}\n{r['text']}".casefold() for w in words)]
