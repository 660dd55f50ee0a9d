"""The states of the sentences of an answer: supported by a source, related to one, contradicted by one, or unsupported."""

from dataclasses import dataclass

# Proved by a quote; on the topic of a quote that does not prove it; contradicted by a quote; none of these.
SUPPORTED, RELATED, CONTRADICTED, UNSUPPORTED = STATES = ("supported", "related", "contradicted", "unsupported")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence at characters `start` to `end` of an answer, its state (one of STATES), and the numbers of its citations."""

    start: int
    end: int
    state: str
    citations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSentences:
    """The sentences of an answer's text, and the number of sentences in each unproved state, including those left out of the text."""

    sentences: tuple[Sentence, ...] = ()
    unsupported: int = 0
    related: int = 0
    contradicted: int = 0

    @property
    def unproved(self) -> int:
        """The number of sentences that no quote proves."""
        return self.unsupported + self.related + self.contradicted

    def state_of(self, n: int) -> str:
        """The best state of the sentences that cite `n`: only "supported" is a proof. "supported" also where no sentence is known."""
        states = {sentence.state for sentence in self.sentences if n in sentence.citations}
        return next((state for state in STATES if state in states), SUPPORTED)
