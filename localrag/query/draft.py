"""What the modes make: an answer before its citations are checked and numbered, and the sources a model is shown for it."""

from dataclasses import dataclass

from localrag.records import Quote


@dataclass(frozen=True, slots=True)
class Source:
    """What a model is shown under one number: a text and the passages it rests on."""

    text: str
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A stretch of an answer with the passages it rests on; `title` stands before it. `written` by a model, it has to be checked.

    `given` are all the passages that the model was shown: one that it did not cite may prove the point.
    """

    text: str
    quotes: tuple[Quote, ...]
    title: str = ""
    written: bool = False
    given: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before its citations are numbered. `note` says what the user should know of how it came about.

    `short`: the answer in a few words of the documents, where there is one.
    """

    points: tuple[Point, ...]
    opening: str = ""
    level: int | None = None
    note: str = ""
    short: str = ""
