"""A Chinese sentence as words, numbers and marks."""

import re
from dataclasses import dataclass

from localrag.query.reading.amounts import Amount, chinese_amounts
from localrag.query.reading.lexicon import chinese_words_known
from localrag.query.reading.particles import FUNCTION, KEPT, NEGATORS, TELLING


@dataclass
class Token:
    """A word, number or mark while a sentence is read; `start` is its place in the text."""

    text: str
    flag: str
    start: int
    amount: Amount | None = None


def tokens(text: str) -> list[Token]:
    """The words of a sentence; numbers are one token each, words of the tables are put together, negations stand alone."""
    made: list[Token] = []
    at = 0
    for amount in [*chinese_amounts(text), None]:
        end = amount.start if amount else len(text)
        if end > at:
            made += _words(text[at:end], at)
        if amount:
            made.append(Token(text[amount.start : amount.end], "m", amount.start, amount))
            at = amount.end
    return _joined(made)


def _words(part: str, at: int) -> list[Token]:
    from localrag.text.words import chinese_words

    made = []
    for word, flag in chinese_words(part):
        for piece in _without_negation(word):
            made.append(Token(piece, flag if piece == word else "d" if piece in NEGATORS else "v" if len(word) > len(piece) else flag, at))
            at += len(piece)
    return made


def _without_negation(word: str) -> list[str]:
    if word in NEGATORS or word in KEPT or word in chinese_words_known() or len(word) < 2 or word[0] not in "不没未无":
        return [word]
    head = "没有" if word.startswith("没有") else word[0]
    return [head, word[len(head) :]] if len(word) > len(head) else [word]


def _joined(made: list[Token]) -> list[Token]:
    out: list[Token] = []
    i = 0
    while i < len(made):
        length = next((n for n in (4, 3, 2) if _known(made[i : i + n], n)), 1)
        first = made[i]
        run = next(
            (
                n
                for n in range(0, 5)
                if i + n >= len(made) or len(made[i + n].text) != 1 or made[i + n].amount or made[i + n].flag in ("x", "uj", "ul")
            ),
            5,
        )
        if run == 4 and not any(t.text in (NEGATORS | FUNCTION) - {"从"} for t in made[i : i + 4]):
            out.append(Token("".join(t.text for t in made[i : i + 4]), "l", first.start))
            i += 4
            continue
        if (
            length == 1
            and first.text in ("小", "老", "阿")
            and i + 1 < len(made)
            and made[i + 1].flag == "nr"
            and len(made[i + 1].text) == 1
        ):
            out.append(Token(first.text + made[i + 1].text, "nr", first.start))
            i += 2
            continue
        if length > 1:
            flags = [t.flag for t in made[i : i + length]]
            flag = next((f for f in flags if f.startswith("v")), first.flag)
            first = Token("".join(t.text for t in made[i : i + length]), flag, first.start)
        out.append(first)
        i += length
    return out


def _known(part: list[Token], n: int) -> bool:
    if len(part) < n or any(t.amount for t in part) or part[0].text in NEGATORS:
        return (
            "".join(t.text for t in part[:n]) in chinese_words_known()
            and len(part) >= n
            and not any(t.amount for t in part)
            and sum(len(t.text) for t in part) > 3
        )
    return "".join(t.text for t in part) in chinese_words_known()


def content(token: Token) -> bool:
    """Whether a word says something that a source has to hold."""
    if token.amount:
        return True
    if (
        not re.match(r"[\w]", token.text)
        or token.text in NEGATORS
        or re.fullmatch("[这那该此本各某][种个位名座条件只次家些类项一]", token.text)
    ):
        return False
    return token.text in TELLING or token.text not in FUNCTION
