"""Questions made of free text by rule, with their answers: training without labels.

After "Unsupervised Question Answering by Cloze Translation" (Lewis et al. 2019).

A name, number, date or noun phrase of a sentence is the answer; what is left of its clause is turned into a wh-question. Chinese keeps its
word order: the answer gives way to a question word.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from lemminflect import getLemma

from localrag.text.parts_of_speech import tag_chinese
from localrag.text.sentences import is_cjk

_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DATE = re.compile(rf"(?:\d{{1,2}} )?{_MONTH}(?: \d{{1,2}})?(?:,? \d{{4}})?|\b1[0-9]\d\d\b|\b20[0-4]\d\b")
_NUMBER = re.compile(r"[£$€]?\b\d[\d,.]*\d?\b(?: ?%| percent| million| billion)?")
_NAME = re.compile(r"\b[A-Z][\w’'.-]*(?:(?: of| the| de| van| von| der| and)? [A-Z][\w’'-]*)*")
_AUXILIARY = frozenset("is was are were has had have can could will would may might must should does did do".split())
_CLAUSE = re.compile(r"[,;:()—]|\s(?:and|but|while|which|who|where|because|although|when|that|after|before)\s")
_PREPOSITION = re.compile(
    r"\b(in|on|at|from|to|by|with|for|of|during|since|until|near|as|under|after|into)\s+(?:the\s+|a\s+|an\s+)?$", re.IGNORECASE
)
_FIRST_WORD = frozenset(
    """the a an this that these those it he she they we i you in on at by for from with as after before when while although but and or if
    there here his her their its my your our some many most all each both one two however also then thus so because since during not no
    """.split()
)
_PERSON = re.compile(r"^(?:Mr|Mrs|Dr|Sir|Lady|Lord|King|Queen|Prince|Princess|Captain|President|Professor|Pope|Saint|Miss)\b")
_ORGANISATION = re.compile(
    r"\b(?:University|Company|Inc|Corporation|Party|Club|College|School|Church|Band|Records|Museum|Institute|Bank|Group|Press|Army|Ltd)\b"
)
_CHINESE_WORD = {
    "nr": ("谁", "哪位", "何人"),
    "ns": ("哪里", "什么地方", "哪儿"),
    "nt": ("哪个机构", "什么组织"),
    "t": ("什么时候", "何时", "哪一年"),
}
_CHINESE_OTHER = ("什么", "什么", "哪个")


@dataclass(frozen=True, slots=True)
class Made:
    """A question, with its answer's characters in the sentence it was made of."""

    question: str
    start: int
    end: int


def questions(sentence: str, rng: random.Random) -> Iterator[Made]:
    """Every question that can be made of a sentence, in no order that matters."""
    if is_cjk(sentence):
        yield from _chinese(sentence, rng)
    else:
        yield from _english(sentence, rng)


def _english(sentence: str, rng: random.Random) -> Iterator[Made]:
    for start, end, kind in _answers(sentence):
        a, b = _clause(sentence, start, end)
        before, after = sentence[a:start].strip(" ,;:("), sentence[end:b].strip(' ,;:.!?)"”')
        if len(before.split()) + len(after.split()) < 3:
            continue
        text = _asked(sentence[start:end], kind, before, after, rng)
        if text:
            yield Made(_noisy(text, rng), start, end)


def _answers(sentence: str) -> Iterator[tuple[int, int, str]]:
    taken: list[tuple[int, int]] = []
    for kind, pattern in (("date", _DATE), ("name", _NAME), ("number", _NUMBER)):
        for match in pattern.finditer(sentence):
            start, end = match.span()
            if any(start < y and x < end for x, y in taken):
                continue
            if kind == "name":
                first = match[0].split()[0]
                if first.lower() in _FIRST_WORD:
                    start += len(first) + 1
                    if start >= end:
                        continue
                elif start == 0 and " " not in match[0] and getLemma(first.lower(), "VERB", lemmatize_oov=False):
                    continue
                end = start + len(sentence[start:end].rstrip(".'’-"))
            if end - start < 2:
                continue
            taken.append((start, end))
            yield start, end, kind


def _clause(sentence: str, start: int, end: int) -> tuple[int, int]:
    """The stretch between breaks around an answer; the sentence where that has too few words."""
    breaks = [(m.start(), m.end()) for m in _CLAUSE.finditer(sentence)]
    a = max((y for x, y in breaks if y <= start), default=0)
    b = min((x for x, y in breaks if x >= end), default=len(sentence))
    return (a, b) if len(sentence[a:b].split()) >= 6 else (0, len(sentence))


def _wh(answer: str, kind: str, before: str, rng: random.Random) -> str:
    if kind == "date":
        return rng.choice(("when", "when", "in what year" if answer.isdigit() else "on what date"))
    if kind == "number":
        return rng.choice(("how many", "how many", "how much", "what number of"))
    if _ORGANISATION.search(answer):
        return rng.choice(("what", "which organization", "what company", "which"))
    preposition = _PREPOSITION.search(before + " ")
    if preposition and preposition[1].lower() in ("in", "at", "near", "from", "to", "into"):
        return rng.choice(("where", "where", "which place", "what country", "what city"))
    if _PERSON.search(answer) or (answer.count(" ") == 1 and re.fullmatch(r"[A-Z][a-z]+ [A-Z][a-z]+", answer)):
        return rng.choice(("who", "who", "which person", "what"))
    return rng.choice(("what", "who", "which", "what is the name of the one that"))


def _asked(answer: str, kind: str, before: str, after: str, rng: random.Random) -> str:
    wh = _wh(answer, kind, before, rng)
    if kind == "number":
        noun, _, rest = after.partition(" ")
        wh, after = (f"{wh} {noun}", rest) if noun.isalpha() else ("how much" if kind == "number" else wh, after)
    if not before:
        return f"{wh} {after}"
    bare = _PREPOSITION.sub("", before + " ").strip()
    preposition = m[1].lower() if (m := _PREPOSITION.search(before + " ")) else ""
    bare = re.sub(r"\b(?:the|a|an)$", "", bare).strip()
    if not bare:
        return f"{wh} {after}"
    if wh not in ("when", "where") and preposition and preposition not in ("in", "on", "at") and rng.random() < 0.5:
        after = f"{after} {preposition}".strip()
    statement = _inverted(bare)
    if rng.random() < 0.3:
        after = ""
    return f"{wh} {statement} {after}".strip()


def _inverted(statement: str) -> str:
    """A statement with its auxiliary in front, or with `did` and the bare verb."""
    words = statement.split()
    if words[0].lower() in _FIRST_WORD or not words[0][0].isupper():
        words[0] = words[0].lower()
    for n, word in enumerate(words):
        if n and word in _AUXILIARY:
            return " ".join([word, *words[:n], *words[n + 1 :]])
    for n, word in enumerate(words):
        if n and (lemma := _past(word)):
            return " ".join(["did", *words[:n], lemma, *words[n + 1 :]])
    return " ".join(words)


@cache
def _past(word: str) -> str:
    """The bare form of a verb in the past tense, empty for another word."""
    if not word.islower() or len(word) < 3:
        return ""
    found = getLemma(word, "VERB", lemmatize_oov=False)
    return found[0] if found and found[0] != word and not word.endswith(("ing", "s")) else ""


def _noisy(text: str, rng: random.Random) -> str:
    """A question whose wording does not give the sentence away whole: some words gone, some change places with their neighbours."""
    words = text.split()[:30]
    head, rest = words[:2], words[2:]
    rest = [w for w in rest if rng.random() > 0.08]
    if len(rest) > 12:  # a question asks for one thing
        cut = rng.randint(7, 12)
        rest = rest[:cut] if rng.random() < 0.6 else rest[-cut:]
    text = " ".join([*head, *rest]).strip(" ,;:.-")
    text = text[:1].upper() + text[1:]
    return text + ("?" if rng.random() < 0.9 else "")


def _chinese(sentence: str, rng: random.Random) -> Iterator[Made]:
    words, at = [], 0
    for word, flag in tag_chinese(sentence):
        words.append((at, at + len(word), word, flag))
        at += len(word)
    for n, (start, end_of_word, word, flag) in enumerate(words):
        end = end_of_word
        if flag == "m" and n + 1 < len(words) and words[n + 1][3] in ("q", "n"):
            end = words[n + 1][1]
            asked = rng.choice(("多少", "几")) + (words[n + 1][2] if rng.random() < 0.7 else "")
        elif flag in _CHINESE_WORD:
            asked = rng.choice(_CHINESE_WORD[flag])
        elif flag in ("n", "nz", "x", "eng") and len(word) > 1:
            asked = rng.choice(_CHINESE_OTHER)
        else:
            continue
        a, b = _chinese_clause(sentence, start, end)
        left, right = sentence[a:start], sentence[end:b]
        if len(left) + len(right) < 5:
            continue
        if rng.random() < 0.3 and len(right) > 6:
            right = right[: rng.randint(3, len(right))]
        yield Made(f"{left}{asked}{right}".strip("，。；、 ") + "？", start, end)


def _chinese_clause(sentence: str, start: int, end: int) -> tuple[int, int]:
    marks = [m.start() for m in re.finditer("[，。；：！？]", sentence)]
    a = max((x + 1 for x in marks if x < start), default=0)
    b = min((x for x in marks if x >= end), default=len(sentence))
    if b - a < 10:
        a = max((x + 1 for x in marks if x + 1 < a), default=0)
    return a, b


def comparisons(kinds: Sequence[tuple[str, str]], rng: random.Random, most: int) -> Iterator[tuple[str, str, int, int]]:
    """Yes/no questions about two things that are said to be something (name, kind): (question, yes or no, place of one, of the other)."""
    places: dict[str, list[int]] = {}
    for n, (_, kind) in enumerate(kinds):
        places.setdefault(kind, []).append(n)
    shared = [k for k, some in places.items() if len(some) > 1]
    for _ in range(most):
        kind = rng.choice(shared)
        one, other = rng.sample(places[kind], 2)
        same = rng.random() < 0.5
        if not same:
            other = rng.randrange(len(kinds))
            if kinds[other][1] == kind:
                continue
        frames = ("Are both {a} and {b} {k}s?", "Are {a} and {b} both {k}s?", "Were {a} and {b} both {k}s?", "Is {a} a {k} like {b}?")
        frame = rng.choice(frames)
        yield frame.format(a=kinds[one][0], b=kinds[other][0], k=kind), "yes" if same else "no", one, other
