"""Guessing what comes next from the text so far (prompt lookup decoding, Saxena 2023): extraction copies much of what it reads."""

from collections.abc import Sequence

LONGEST = 15  # tokens of a guess; a step checks at most that many


class Lookup:
    """Where each pair and triple of tokens of one sequence was last followed by something."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def guess(self, cells: Sequence[int]) -> list[int]:
        """What followed the last three, or else the last two, tokens of `cells` the last time; empty where they are new.

        Call it with the same sequence as it grows.
        """
        after, end = self._after, len(cells)
        for i in range(max(2, self._seen), end):  # the last pair has no successor yet: it is noted with the next token
            after[cells[i - 2], cells[i - 1]] = i
            if i > 2:
                after[cells[i - 3], cells[i - 2], cells[i - 1]] = i
        self._seen = max(self._seen, end)
        at = after.get(tuple(cells[-3:])) or after.get(tuple(cells[-2:])) or end
        return list(cells[at : at + LONGEST])
