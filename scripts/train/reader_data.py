"""What the reader learns from: questions with the passages that answer them or do not, statements that a text entails or does not.

DATA/train holds the sets as JSON lines, gzipped: span questions (`question`, `context`, `answers`, `starts`), questions with a passage
(`question`, `passage`), and pairs (`premise`, `hypothesis`, `label`); each row names its `source`. An example is made anew in each epoch:
another window of the passage, another passage that does not answer, other sentences around a premise.
"""

import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from localrag.text.sentences import is_cjk

SPANS = ("reader_en_clear", "reader_zh")
RANKED = "rank_question_passage"
CLAPNQ = "clapnq_dev"
PAIRS = ("nli_en_clear", "nli_made_of_qa", "nli_zh_made_of_qa")
SETS = (*SPANS, RANKED, CLAPNQ, *PAIRS)

LONGEST = 256  # tokens of an example, with the model's own three
QUESTION, HYPOTHESIS = 64, 90  # tokens of it at most
SHORTEST_WINDOW = 60  # tokens of a passage
LONGEST_ANSWER = 60  # tokens
NOTHING = -100  # a target that nothing is learned of
ENTAILMENT, CONTRADICTION, NEUTRAL, NOT_ENTAILED = range(4)  # the last is said by sets of two classes: one of the two before it
CLASSES = {"entailment": ENTAILMENT, "contradiction": CONTRADICTION, "neutral": NEUTRAL, "not_entailment": NOT_ENTAILED}
KEPT_OF = {"QAMR": 0.25, "DNC": 0.1}  # the share of a large, plain source that is used; of QAMR in each epoch

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Marks:
    """The model's own tokens, and what it wants before questions and passages."""

    cls: int
    sep: int
    pad: int
    unknown: int
    query: str = ""
    passage: str = ""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens with their places in it."""

    ids: Ids
    starts: Ids
    ends: Ids


class Texts:
    """Texts with their tokens; each is tokenized once."""

    def __init__(self, tokenizer: Tokenizer, marks: Marks) -> None:
        self.marks = marks
        self._tokenizer, self._known, self._places = tokenizer, dict[str, Tokens](), None
        tokenizer.no_padding()
        tokenizer.no_truncation()

    def __getitem__(self, text: str) -> Tokens:
        return self._known[text]

    def learn(self, texts: Iterable[str]) -> None:
        """Tokenize those that are not known yet."""
        new = [t for t in dict.fromkeys(texts) if t not in self._known]
        for at in range(0, len(new), 20_000):
            part = new[at : at + 20_000]
            for text, found in zip(part, self._tokenizer.encode_batch(part, add_special_tokens=False), strict=True):
                offsets = np.asarray(found.offsets, np.int32).reshape(-1, 2)
                self._known[text] = Tokens(self._placed(np.asarray(found.ids, np.int32)), offsets[:, 0], offsets[:, 1])

    def trim(self) -> Ids:
        """Number anew the pieces that the texts have, and the model's own; returns their old ids. Any other piece is then unknown."""
        marks = self.marks
        own = [marks.cls, marks.sep, marks.pad, marks.unknown]
        kept = np.unique(np.concatenate([own, *(t.ids for t in self._known.values())])).astype(np.int32)
        cls, sep, pad, unknown = np.searchsorted(kept, own).tolist()
        places = np.full(self._tokenizer.get_vocab_size(), unknown, np.int32)
        places[kept] = np.arange(len(kept))
        self.marks, self._places = replace(marks, cls=cls, sep=sep, pad=pad, unknown=unknown), places
        self._known = {text: replace(t, ids=places[t.ids]) for text, t in self._known.items()}
        return kept

    def _placed(self, ids: Ids) -> Ids:
        return ids if self._places is None else self._places[ids]

    def joined(self, first: Ids, second: Ids) -> tuple[Ids, int]:
        """Two texts as the model reads them, and where the second begins."""
        marks = self.marks
        return np.concatenate([[marks.cls], first, [marks.sep], second, [marks.sep]]).astype(np.int32), len(first) + 2

    def batch(self, pairs: Sequence[tuple[Ids, int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids, mask and types, (n, l), of what `joined` gives."""
        shape = len(pairs), max(len(ids) for ids, _ in pairs)
        ids, mask, types = np.full(shape, self.marks.pad), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for n, (own, second) in enumerate(pairs):
            ids[n, : len(own)], mask[n, : len(own)], types[n, second : len(own)] = own, 1, 1
        return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(types)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with a passage; `answers` are stretches of it with their starts. `hard` are passages like it that do not answer."""

    question: str
    passage: str
    source: str
    answers: tuple[tuple[str, int], ...] = ()
    answerable: bool = True
    hard: tuple[str, ...] = ()

    def is_answered_in(self, text: str) -> bool:
        """Whether a text has one of the answers, in any case of letters."""
        return any(answer.casefold() in text.casefold() for answer, _ in self.answers)


@dataclass(frozen=True, slots=True)
class Pair:
    """Whether a premise entails a hypothesis."""

    premise: str
    hypothesis: str
    label: int
    weight: float


@dataclass(frozen=True, slots=True)
class Sets:
    """All that is learned from; `held_out` is the half of CLAPnq that is for measuring."""

    spans: list[Question]
    ranked: list[Question]
    clapnq: list[Question]
    held_out: list[Question]
    pairs: list[Pair]

    def texts(self) -> Iterator[str]:
        """Every text of them."""
        for q in (*self.spans, *self.ranked, *self.clapnq, *self.held_out):
            yield from (q.question, q.passage)
        for p in self.pairs:
            yield from (p.premise, p.hypothesis)


def load_sets(data: Path, query: str, rng: random.Random, limit: int | None = None) -> Sets:
    """The sets of DATA, at most `limit` rows of each kind, with minimal pairs; `query` is what the model wants before a question."""
    spans = [question(r, query) for name in SPANS for r in rows(data / "train" / f"{name}.jsonl.gz")]
    ranked = [question(r, query) for r in rows(data / "train" / f"{RANKED}.jsonl.gz")]
    clapnq = [question(r, query) for r in rows(data / "train" / f"{CLAPNQ}.jsonl.gz")]
    pairs = [r for name in PAIRS for r in rows(data / "train" / f"{name}.jsonl.gz")]
    if limit:
        spans, ranked, pairs = (rng.sample(found, min(limit, len(found))) for found in (spans, ranked, pairs))
    return Sets(spans, ranked, clapnq[::2], clapnq[1::2], [p for r in pairs for p in pairs_of(r, rng)])


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, gzipped or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def question(row: dict[str, Any], query: str) -> Question:
    answers = tuple(zip(row.get("answers", ()), row.get("starts", ()), strict=True))
    passage = row["context"] if "context" in row else row["passage"]
    return Question(query + row["question"], passage, row["source"], answers, bool(row.get("answerable", True)))


# Minimal pairs: what a statement says, changed in one place, so that it no longer follows.

NUMBER = re.compile(r"(?<![\w.,])\d[\d,.]*\d|(?<![\w.,])\d(?![\w])")
VERB = re.compile(r"\b(is|was|are|were|has|had|can|will|did|does|could|would)\b(?! (?:not|n't))")
NOT = re.compile(r" not\b")
NAME = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+(?: [A-Z][a-z]+)*")
OPPOSITES = {
    re.compile(rf"\b{word}\b"): other
    for word, other in (
        *(("once", "twice"), ("twice", "once"), ("most", "few"), ("few", "most"), ("all", "none of the")),
        *(("never", "always"), ("always", "never"), ("before", "after"), ("after", "before"), ("more", "less"), ("less", "more")),
        *(("increased", "decreased"), ("first", "last"), ("last", "first")),
    )
}


def pairs_of(row: dict[str, Any], rng: random.Random) -> Iterator[Pair]:
    """A row as a pair, and its minimal pairs if it is entailed; what was made by rule itself counts half."""
    source, pair = row["source"], (row["premise"], row["hypothesis"])
    if source.startswith("DNC") and rng.random() > KEPT_OF["DNC"]:
        return
    yield Pair(*pair, CLASSES[row["label"]], 0.5 if source.startswith("made") else 1.0)
    if row["label"] == "entailment" and not source.startswith("DNC"):
        yield from minimal_pairs(*pair, rng)


def minimal_pairs(premise: str, hypothesis: str, rng: random.Random) -> Iterator[Pair]:
    """Statements that differ from an entailed one in a number, in "not", in a word for its opposite, or in a name."""
    wrong = [other_number(premise, hypothesis, rng) if rng.random() < 0.7 else None]
    wrong.append(negated(hypothesis) if rng.random() < 0.25 else None)
    wrong.append(opposite(hypothesis))
    yield from (Pair(premise, w, CONTRADICTION, 0.7) for w in wrong if w is not None)
    names = list(dict.fromkeys(NAME.findall(hypothesis)))
    if len(names) >= 2 and " and " not in hypothesis and rng.random() < 0.4:
        yield Pair(premise, exchanged(hypothesis, names[0], names[1]), NOT_ENTAILED, 0.4)
    elif names and rng.random() < 0.3:
        others = [n for n in dict.fromkeys(NAME.findall(premise)) if n not in hypothesis]
        if others:
            yield Pair(premise, hypothesis.replace(names[-1], rng.choice(others)), NOT_ENTAILED, 0.6)


def other_number(premise: str, hypothesis: str, rng: random.Random) -> str | None:
    """The hypothesis with another number, often one of the premise's; None where it has none."""
    found = list(NUMBER.finditer(hypothesis))
    if not found:
        return None
    place = rng.choice(found)
    others = [n for n in NUMBER.findall(premise) if n != place[0]]
    other = rng.choice(others) if others and rng.random() < 0.6 else _number_near(place[0], rng)
    return None if other in hypothesis else hypothesis[: place.start()] + other + hypothesis[place.end() :]


def _number_near(number: str, rng: random.Random) -> str:
    value = int(re.sub(r"\D", "", number)[:9])
    other = rng.choice([value + 1, max(0, value - 1), value + 10, value * 2 + 1, value + rng.randint(2, 9)])
    return str(other) if str(other) != number else str(other + 3)


def negated(hypothesis: str) -> str | None:
    """The hypothesis with a "not", or without the one it has; None where no place for it is found."""
    if NOT.search(hypothesis):
        return NOT.sub("", hypothesis, count=1)
    return VERB.sub(r"\1 not", hypothesis, count=1) if VERB.search(hypothesis) else None


def opposite(hypothesis: str) -> str | None:
    """The hypothesis with the opposite of one of its words; None where it has none of them."""
    return next((word.sub(other, hypothesis, count=1) for word, other in OPPOSITES.items() if word.search(hypothesis)), None)


def exchanged(hypothesis: str, one: str, other: str) -> str:
    """The hypothesis with two names in each other's place."""
    return re.sub(f"{re.escape(one)}|{re.escape(other)}", lambda found: other if found[0] == one else one, hypothesis)


# Examples: what is shown of a pair or a question, and what is to be said of it.


@dataclass(frozen=True, slots=True)
class Example:
    """A question with a window of a passage (its first token, and how many), or a premise with a hypothesis.

    `answer` is the first and last token in the window, or `NONE` where it has no answer. What is None is not learned of the example.
    """

    first: str
    second: str
    window: tuple[int, int] | None = None
    answer: tuple[int, int] | None = None
    relevant: bool | None = None
    label: int | None = None
    weight: float = 1.0


NONE = (-1, -1)


class Examples:
    """Makes the examples of an epoch; `texts` must know all of the sets' texts."""

    def __init__(self, sets: Sets, texts: Texts, rng: random.Random) -> None:
        self.sets, self.texts, self.rng = sets, texts, rng
        self._passages = list(dict.fromkeys(q.passage for q in sets.spans))

    def epoch(self, more: Sequence[Question] = ()) -> list[Example]:
        """All examples of an epoch in random order; `more` are span questions beside those of the sets."""
        found = [e for q in (*self.sets.spans, *more) for e in self._of_span(q)]
        found += [e for q in self.sets.ranked for e in self._of_ranked(q)]
        found += [e for q in self.sets.clapnq for e in self._of_clapnq(q)]
        found += [Example(p.premise, p.hypothesis, label=p.label, weight=p.weight) for p in self.sets.pairs]
        self.rng.shuffle(found)
        return found

    def _of_span(self, q: Question) -> Iterator[Example]:
        if q.source.startswith("QAMR") and self.rng.random() > KEPT_OF["QAMR"]:
            return
        if (answered := self.answered(q)) is None:
            return
        yield answered
        if (elsewhere := self.elsewhere(q)) is not None:
            yield elsewhere
        if q.hard and self.rng.random() < 0.8:
            yield self.unanswered(q, self.rng.choice(q.hard[:4] if self.rng.random() < 0.7 else q.hard))
        elif self.rng.random() < 0.3 and not q.is_answered_in(other := self.rng.choice(self._passages)):
            yield self.unanswered(q, other)

    def _of_ranked(self, q: Question) -> Iterator[Example]:
        yield self._relevant(q)
        if q.hard:
            yield self.unanswered(q, self.rng.choice(q.hard), 0.5)

    def _of_clapnq(self, q: Question) -> Iterator[Example]:
        yield from [self._relevant(q)] if q.answerable else [self.unanswered(q, q.passage) for _ in range(4)]

    def _relevant(self, q: Question) -> Example:
        """The beginning of a passage that answers, nobody said where."""
        size = min(len(self.texts[q.passage].ids), self._room(q))
        return Example(q.question, q.passage, (0, size), relevant=True, weight=0.5)

    def answered(self, q: Question) -> Example | None:
        """A window with one of the answers at any place in it; None where it is too long, or beyond the passage."""
        answer, at = self.rng.choice(q.answers)
        first, last = token_span(self.texts[q.passage], at, at + len(answer))
        size = len(self.texts[q.passage].ids)
        if last >= size or last - first > LONGEST_ANSWER:
            return None
        width = self._width(q, whole=2)
        earliest, latest = max(0, last - width + 1), min(first, max(0, size - width))
        start = self.rng.randint(earliest, latest) if earliest <= latest else max(0, min(first, size - width))
        if start > first or last >= start + width:
            return None
        return Example(q.question, q.passage, (start, min(width, size - start)), (first - start, last - start), relevant=True)

    def unanswered(self, q: Question, passage: str, weight: float = 1.0) -> Example:
        """A window of a passage that does not answer."""
        size, width = len(self.texts[passage].ids), self._width(q, whole=1)
        start = self.rng.randint(0, max(0, size - width))
        return Example(q.question, passage, (start, min(width, size - start)), NONE, relevant=False, weight=weight)

    def elsewhere(self, q: Question) -> Example | None:
        """Another window of the long passage that answers, without an answer; None where four tries find none."""
        tokens, width = self.texts[q.passage], self._room(q)
        if len(tokens.ids) < width * 1.6:
            return None
        for _ in range(4):
            start = self.rng.randint(0, len(tokens.ids) - width)
            if not q.is_answered_in(q.passage[tokens.starts[start] : tokens.ends[start + width - 1]]):
                return Example(q.question, q.passage, (start, width), NONE, relevant=False)
        return None

    def _room(self, q: Question) -> int:
        return LONGEST - 3 - min(len(self.texts[q.question].ids), QUESTION)

    def _width(self, q: Question, *, whole: int) -> int:
        """As much as there is room for, or less: once in `whole` + 1."""
        room = self._room(q)
        return self.rng.choice((*[room] * whole, self.rng.randint(SHORTEST_WINDOW, room)))


def token_span(tokens: Tokens, start: int, end: int) -> tuple[int, int]:
    """The first and the last token of a stretch of a text."""
    first = int(np.searchsorted(tokens.ends, start, "right"))
    return first, max(first, int(np.searchsorted(tokens.starts, end, "left")) - 1)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An example as the model reads it; `span`, `relevant` and `label` are `NOTHING` where nothing is learned."""

    pair: tuple[Ids, int]
    span: tuple[int, int]
    relevant: int
    label: int
    weight: float


class Encoder:
    """Turns examples into tokens; a short premise stands among others half of the time, as a sentence in its text."""

    def __init__(self, texts: Texts, pairs: Sequence[Pair]) -> None:
        self.texts = texts
        short = [p for p in dict.fromkeys(p.premise for p in pairs) if len(texts[p].ids) < HYPOTHESIS]
        chinese = {p for p in short if is_cjk(p)}
        self._others = {True: [p for p in short if p in chinese], False: [p for p in short if p not in chinese]}

    def encoded(self, e: Example, rng: random.Random) -> Encoded:
        first, second = self.texts[e.first].ids, self.texts[e.second].ids
        if e.window is None:
            second = second[:HYPOTHESIS]
            room = LONGEST - 3 - len(second)
            pair = self.texts.joined(self._among_others(e.first, room, rng)[:room], second)
        else:
            start, size = e.window
            pair = self.texts.joined(first[:QUESTION], second[start : start + size])
        relevant = NOTHING if e.relevant is None else int(e.relevant)
        return Encoded(pair, span_target(e, pair[1]), relevant, NOTHING if e.label is None else e.label, e.weight)

    def _among_others(self, premise: str, room: int, rng: random.Random) -> Ids:
        own, others = self.texts[premise].ids, self._others[is_cjk(premise)]
        if len(own) >= 110 or not others or rng.random() >= 0.5:
            return own
        before, after = ([self.texts[rng.choice(others)].ids for _ in range(rng.randint(0, most))] for most in (3, 2))
        while sum(map(len, (*before, own, *after))) > room - 2 and (before or after):
            (before if before else after).pop(0 if before else -1)
        return np.concatenate([*before, own, *after])


def span_target(e: Example, second: int) -> tuple[int, int]:
    """Where the answer begins and ends among the example's tokens: at the first one where there is none."""
    if e.answer is None:
        return NOTHING, NOTHING
    return (0, 0) if e.answer == NONE else (e.answer[0] + second, e.answer[1] + second)


class Batches(torch.utils.data.Dataset[tuple[torch.Tensor, ...]]):
    """Examples of about equal length together, about `tokens` in each batch; what is left to chance in one depends on the seed alone."""

    def __init__(self, examples: Sequence[Example], encoder: Encoder, *, tokens: int, seed: int) -> None:
        self._encoder, self._seed, self._batches = encoder, seed, list[list[Example]]()
        for at in range(0, len(examples), 8192):
            batch: list[Example] = []
            for size, example in sorted(((self._size(e), e) for e in examples[at : at + 8192]), key=lambda found: found[0]):
                if batch and size * (len(batch) + 1) > tokens:
                    self._batches.append(batch)
                    batch = []
                batch.append(example)
            self._batches.append(batch)
        random.Random(seed).shuffle(self._batches)

    def _size(self, e: Example) -> int:
        first = len(self._encoder.texts[e.first].ids)
        size = min(first, QUESTION) + e.window[1] if e.window else first + len(self._encoder.texts[e.second].ids)
        return min(LONGEST, size + 3)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, n: int) -> tuple[torch.Tensor, ...]:
        """Ids, mask and types; the answers' starts and ends, relevance, label and weight of each example."""
        rng = random.Random(n * 7919 + self._seed)
        found = [self._encoder.encoded(e, rng) for e in self._batches[n]]
        starts, ends, relevant, labels = (
            torch.tensor(targets) for targets in zip(*((*e.span, e.relevant, e.label) for e in found), strict=True)
        )
        weights = torch.tensor([e.weight for e in found])
        return *self._encoder.texts.batch([e.pair for e in found]), starts, ends, relevant, labels, weights
