"""What becomes of the sentences of an answer: proved, related to a source, contradicted by one, or none of these."""

from dataclasses import dataclass

# Proved by a quote; on the topic of one, which does not prove it; denied by one; none of these.
SUPPORTED, RELATED, CONTRADICTED, UNSUPPORTED = STATES = ("supported", "related", "contradicted", "unsupported")


@dataclass(frozen=True, slots=True)
class Sentence:
    """The characters `start` to `end` of an answer, what became of them (one of STATES), and the numbers of their citations."""

    start: int
    end: int
    state: str
    citations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The sentences of an answer's text, and how many are of the states that prove nothing, with those that were left out."""

    sentences: tuple[Sentence, ...] = ()
    unsupported: int = 0
    related: int = 0
    contradicted: int = 0

    @property
    def unproved(self) -> int:
        """How many sentences no quote proves."""
        return self.unsupported + self.related + self.contradicted

    def state_of(self, n: int) -> str:
        """What citation `n` does for the answer: "supported" where it proves a sentence, else what the sentence is that has it."""
        states = {sentence.state for sentence in self.sentences if n in sentence.citations}
        return next((state for state in STATES if state in states), SUPPORTED)
