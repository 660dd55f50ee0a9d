"""What the reader learns from: questions with the passages that answer them or do not.

DATA/train holds the sets as JSON lines, gzipped: span questions (`question`, `context`, `answers`, `starts`), questions with a passage
(`question`, `passage`); each row names its `source`. An example is made anew in each epoch: another window of the passage, another passage
that does not answer.
"""

import gzip
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

SPANS = ("reader_en_clear", "reader_zh")
RANKED = "rank_question_passage"
CLAPNQ = "clapnq_dev"
SETS = (*SPANS, RANKED, CLAPNQ)

LONGEST = 256  # tokens of an example, with the model's own three
QUESTION = 64  # tokens of it at most
SHORTEST_WINDOW = 60  # tokens of a passage
LONGEST_ANSWER = 60  # tokens
NOTHING = -100  # a target that nothing is learned of
KEPT_OF_QAMR = 0.25  # a large, plain source: in each epoch

Ids = NDArray[np.int32]
_T = TypeVar("_T")


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
class Sets:
    """All that is learned from; `held_out` is the half of CLAPnq that is for measuring."""

    spans: list[Question]
    ranked: list[Question]
    clapnq: list[Question]
    held_out: list[Question]

    def texts(self) -> Iterator[str]:
        """Every text of them."""
        for q in (*self.spans, *self.ranked, *self.clapnq, *self.held_out):
            yield from (q.question, q.passage)


def load_sets(data: Path, query: str, rng: random.Random, limit: int | None = None) -> Sets:
    """The sets of DATA, at most `limit` rows of each kind; `query` is what the model wants before a question."""
    spans = [question(r, query) for name in SPANS for r in rows(data / "train" / f"{name}.jsonl.gz")]
    ranked = [question(r, query) for r in rows(data / "train" / f"{RANKED}.jsonl.gz")]
    clapnq = [question(r, query) for r in rows(data / "train" / f"{CLAPNQ}.jsonl.gz")]
    if limit:
        spans, ranked = (rng.sample(found, min(limit, len(found))) for found in (spans, ranked))
    return Sets(spans, ranked, clapnq[::2], clapnq[1::2])


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, gzipped or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def question(row: dict[str, Any], query: str) -> Question:
    answers = tuple(zip(row.get("answers", ()), row.get("starts", ()), strict=True))
    passage = row["context"] if "context" in row else row["passage"]
    return Question(query + row["question"], passage, row["source"], answers, bool(row.get("answerable", True)))


# Examples: what is shown of a question, and what is to be said of it.


@dataclass(frozen=True, slots=True)
class Example:
    """A question with a window of a passage: its first token, and how many.

    `answer` is the first and last token in the window, `NONE` where it has no answer, None where nobody said where it is.
    """

    first: str
    second: str
    window: tuple[int, int]
    answer: tuple[int, int] | None = None
    relevant: bool = True
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
        self.rng.shuffle(found)
        return found

    def _of_span(self, q: Question) -> Iterator[Example]:
        if q.source.startswith("QAMR") and self.rng.random() > KEPT_OF_QAMR:
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
    """An example as the model reads it; `span` is `NOTHING` twice where nothing is learned of it."""

    pair: tuple[Ids, int]
    span: tuple[int, int]
    relevant: int
    weight: float


def encoded(e: Example, texts: Texts) -> Encoded:
    """An example's tokens and targets."""
    start, size = e.window
    pair = texts.joined(texts[e.first].ids[:QUESTION], texts[e.second].ids[start : start + size])
    return Encoded(pair, span_target(e, pair[1]), int(e.relevant), e.weight)


def span_target(e: Example, second: int) -> tuple[int, int]:
    """Where the answer begins and ends among the example's tokens: at the first one where there is none."""
    if e.answer is None:
        return NOTHING, NOTHING
    return (0, 0) if e.answer == NONE else (e.answer[0] + second, e.answer[1] + second)


def of_equal_length(examples: Sequence[_T], sizes: Sequence[int], tokens: int, *, together: int) -> list[list[_T]]:
    """Batches of at most about `tokens`, of examples of about equal size; so many of them are sorted `together`."""
    made = []
    for at in range(0, len(examples), together):
        batch: list[_T] = []
        for n in sorted(range(at, min(at + together, len(examples))), key=lambda n: sizes[n]):
            if batch and sizes[n] * (len(batch) + 1) > tokens:
                made.append(batch)
                batch = []
            batch.append(examples[n])
        made.append(batch)
    return made


class Batches(torch.utils.data.Dataset[tuple[torch.Tensor, ...]]):
    """Examples of about equal length together, about `tokens` in each batch, in an order that depends on the seed alone."""

    def __init__(self, examples: Sequence[Example], texts: Texts, *, tokens: int, seed: int) -> None:
        self._texts = texts
        self._batches = of_equal_length(examples, [self._size(e) for e in examples], tokens, together=8192)
        random.Random(seed).shuffle(self._batches)

    def _size(self, e: Example) -> int:
        return min(LONGEST, min(len(self._texts[e.first].ids), QUESTION) + e.window[1] + 3)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, n: int) -> tuple[torch.Tensor, ...]:
        """Ids, mask and types; the answers' starts and ends, relevance and weight of each example."""
        found = [encoded(e, self._texts) for e in self._batches[n]]
        starts, ends, relevant, weights = (torch.tensor(t) for t in zip(*((*e.span, e.relevant, e.weight) for e in found), strict=True))
        return *self._texts.batch([e.pair for e in found]), starts, ends, relevant, weights
