"""What committed answers of models are about: of those about several chunks, what in the index would ask for them again."""

from collections.abc import Iterable
from dataclasses import dataclass

from localrag.records import OF_A_QUESTION, UNSURE, content_id

OF_SEVERAL = "of "  # their beginning; of one chunk it is the content id of its text


@dataclass(frozen=True, slots=True)
class Use:
    """That something asks for a committed answer (`key`) which was given for something else, or is in doubt: as `Call` has it."""

    key: str
    about: str
    recipe: str


def described(subject: str, descriptions: Iterable[str]) -> str:
    """What answers are about that make one description of several."""
    return f"{OF_SEVERAL}{content_id('description', subject, *sorted(set(descriptions)))}"


def compared(first: str, second: str) -> str:
    """What an answer is about that says whether two names are one entity's."""
    return f"{OF_SEVERAL}{content_id('name', first)} {content_id('name', second)}"


def reported(input_hash: str) -> str:
    """What answers are about that a report is written with."""
    return f"{OF_SEVERAL}{content_id('report', input_hash)}"


def side_by_side(key: str, about: str) -> str:
    """The key that the answer to a request is stored under. Those about one text begin alike, so the database has them on one page or two.

    A chunk takes some 17 answers. If keys were hashes alone, each would change a different page.
    """
    of_text = about and about not in (OF_A_QUESTION, UNSURE) and not about.startswith(OF_SEVERAL)
    return about[:8] + key if of_text else key
