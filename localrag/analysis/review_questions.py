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
# English auxiliaries that begin a question of yes or no. The first ones only ask; the others belong to the statement.
_ASKING = frozenset({"do", "does", "did"})
_MODALS = frozenset("can could may might must shall should will would".split())
_AUXILIARIES = frozenset({"is", "are", "was", "were", "has", "have", "had", *_MODALS})
_DETERMINERS = frozenset("the a an this that these those any all some each every no its their his her our your my".split())
_JOINING = frozenset("of and or".split())


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


def to_statement(question: str) -> str:
    """An English question of yes or no as the statement that "yes" makes of it; any other text without its question mark.

    `May the supplier use subcontractors?` → `The supplier may use subcontractors.`
    """
    words = question.strip().rstrip("?？ .").split()
    first = words[0].lower() if words else ""
    if len(words) < 3 or first not in _ASKING | _AUXILIARIES:
        return " ".join(words) + "."
    rest = words[1:]
    if first not in _ASKING:
        end = _subject_words(rest, before_verb=first in _MODALS)
        rest[end:end] = [first]
    said = " ".join(rest)
    return f"{said[0].upper()}{said[1:]}."


def _subject_words(words: list[str], *, before_verb: bool) -> int:
    """The number of words of the noun phrase that a clause begins with: up to the first word that is not part of it.

    `before_verb`: an infinitive follows, so it ends before the first word that can be one.
    """
    from lemminflect import getAllLemmas

    from localrag.text.parts_of_speech import tag_english  # loads a dictionary

    text = " ".join(words)
    tags = {span.start: tag for span, tag in tag_english(text)}
    at = n = 0
    has_noun = False
    for word in words:
        tag, plain = tags.get(at, "NN"), word.lower().strip(",;")
        is_noun = tag.startswith(("NN", "PRP", "CD")) or (word[0].isupper() and not tag.startswith("IN"))
        is_part = is_noun or plain in _DETERMINERS or (plain in _JOINING and has_noun) or tag.startswith(("JJ", "DT", "POS"))
        if has_noun and (not is_part or (tag.startswith("JJ") and plain not in _DETERMINERS)):
            break
        if has_noun and before_verb and word.islower() and word in getAllLemmas(word, upos="VERB").get("VERB", ()):
            break
        if not is_part and not tag.startswith(("VBG", "VBN")):
            break
        has_noun = has_noun or is_noun
        at, n = at + len(word) + 1, n + 1
        if word.endswith((",", ";")):
            break
    return n if has_noun else min(1, len(words))
