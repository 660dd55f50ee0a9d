"""The questions of a review: one a line, with the kind of answer where one is asked for."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from localrag.errors import UsageError
from localrag.query.question import MAX_QUESTION_CHARS

MAX_QUESTIONS = 200
MAX_CHOICES = 20


class AnswerKind(StrEnum):
    """The kind of answer that a column holds."""

    TEXT = "text"
    DATE = "date"
    AMOUNT = "amount"
    YES_NO = "yes/no"
    LIST = "list"
    CHOICE = "one of"


_QUESTION_LINE = re.compile(r"(?:(date|amount|yes/no|list|text)|(one of) ([^:]+)):\s*+(.+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")
EXAMPLE = "Write one a line, such as: date: When does it end?"


@dataclass(frozen=True, slots=True)
class ReviewQuestion:
    """A question; `line`: as it was written, which identifies its cells; `choices`: of a question that names its answers."""

    line: str
    text: str
    kind: AnswerKind = AnswerKind.TEXT
    choices: tuple[str, ...] = ()


def parse_questions(lines: Iterable[str]) -> tuple[ReviewQuestion, ...]:
    """The questions of these lines, each once; empty lines, comments (`#`) and numbering are left out.

    Raises UsageError without a question, for too many of them, for one that is too long, and for a choice of fewer than two answers.
    """
    stripped = (_NUMBERED.sub("", line.strip(), count=1) for line in lines)
    questions = tuple(map(_parse_line, dict.fromkeys(" ".join(s.split()) for s in stripped if s and not s.startswith("#"))))
    if not questions:
        raise UsageError("There is no question.", EXAMPLE)
    if len(questions) > MAX_QUESTIONS:
        raise UsageError(f"There are {len(questions)} questions; {MAX_QUESTIONS} at most are asked.", "Split them into several files.")
    return questions


def _parse_line(line: str) -> ReviewQuestion:
    if len(line) > MAX_QUESTION_CHARS:
        raise UsageError(f"A question has {len(line)} characters; {MAX_QUESTION_CHARS} at most are read.", EXAMPLE)
    found = _QUESTION_LINE.fullmatch(line)
    if found is None:
        return ReviewQuestion(line, line)
    if found[2] is None:
        return ReviewQuestion(line, found[4], AnswerKind(found[1].lower()))
    choices = tuple(dict.fromkeys(part.strip() for part in found[3].split("|") if part.strip()))
    if not 2 <= len(choices) <= MAX_CHOICES:
        raise UsageError(
            f"The question {line[:80]!r} names {len(choices)} answers.", "Name 2 to 20: one of low|medium|high: How risky is it?"
        )
    return ReviewQuestion(line, found[4], AnswerKind.CHOICE, choices)
