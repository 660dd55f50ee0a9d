"""What a sentence is read into."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    """A word that says something. `keys` are its dictionary forms; `kind` is name, number or word; `soft` ones need no counterpart.

    `at` is its place among all tokens, `clause` the number of the clause it stands in, `role` subject, object, verb or other, `before` the
    preposition that governs it, `unit` what a number counts.
    """

    text: str
    keys: frozenset[str]
    kind: str
    at: int
    clause: int = 0
    role: str = "other"
    before: str = ""
    soft: bool = False
    unit: str = ""
    owner: bool = False
    part: bool = False  # a number of so many of a larger number: "three of its five camels"
    when: bool = False

    @property
    def figure(self) -> bool:
        """Whether it is a number or date that a source must contain; 1 is not, since "one" is often a pronoun or an article."""
        return self.text != "1" if self.kind == "number" else self.when and not self.soft


@dataclass(frozen=True, slots=True)
class Clause:
    """A predicate with the numbers of its words: who does it, to whom. A passive is turned round: the agent is the subject.

    `modes` are what its verb is under besides negation: possible, duty.
    """

    verb: int | None
    subject: frozenset[int] = frozenset()
    objects: frozenset[int] = frozenset()
    negated: bool = False
    modes: frozenset[str] = frozenset()
    within: int | None = None
    passive: bool = False
    particles: frozenset[str] = frozenset()
    leans: bool = False  # its object is a pronoun, or an owner is: what that means stands elsewhere


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence: its words in order, its clauses, and its quantifiers (all, most, some, none, only …).

    `quantified`: pairs of a word's index and the quantifier that applies to it.
    """

    text: str
    words: tuple[Word, ...]
    clauses: tuple[Clause, ...]
    quantifiers: frozenset[str] = field(default_factory=frozenset)
    quantified: tuple[tuple[int, str], ...] = ()
    chinese: bool = False
    subject: str = ""  # of the first clause, as it is written
    spans: dict[int, tuple[int, int]] = field(default_factory=dict, compare=False)  # where Chinese words stand in the text
    particles: frozenset[tuple[int, int]] = frozenset()  # where its other words stand
