"""Entities by number, with how many sentences mention each: what pairs of entities are counted by."""

from localrag.store.staged import Row, Staged

TOTAL = 0  # the number of the row that counts the sentences which mention any entity
KEPT = 200_000  # rows that are not read again


class Nodes:
    """The numbers of entities. A row: number, key, key of what it is a homonym of or its own, sentences, its strongest neighbour."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._numbers: dict[str, int] = {}
        self._rows: dict[int, Row] = {}
        self._unstored: dict[int, Row] = {}
        self._next = max((n for (n,) in staged.rows("nodes", columns="max(t.id)") if n is not None), default=0) + 1

    def find(self, key: str) -> int | None:
        """The number of an entity that there is."""
        if key not in self._numbers:
            found = next(iter(self._staged.rows("nodes", "t.key = ?", [key], "t.id")), None)
            if found is None:
                return None
            self._keep(key, found[0])
        return self._numbers[key]

    def _keep(self, key: str, number: int) -> None:
        if len(self._numbers) >= KEPT:
            self.store()
            self._numbers.clear()
        self._numbers[key] = number

    def of(self, key: str, base: str = "") -> int:
        """The number of an entity, which gets one if it has none."""
        number = self.find(key)
        if number is None:
            number = self._next
            self._next += 1
            self._keep(key, number)
            self.put((number, key, base or key, 0, 0))
        return number

    def row(self, number: int) -> Row:
        """The row of an entity, or of the total; without a key where there is no such entity any more."""
        if number not in self._rows:
            if len(self._rows) >= KEPT:
                self.store()
                self._rows.clear()
            self._rows[number] = self._staged.row("nodes", number) or (number, "", "", 0, 0)
        return self._rows[number]

    def put(self, row: Row) -> None:
        """Take another row of an entity; `store` stores it."""
        self._rows[row[0]] = self._unstored[row[0]] = row

    def store(self) -> None:
        """Store what was put: before others than this look at the rows."""
        self._staged.put("nodes", self._unstored.values())
        self._unstored = {}

    def base(self, key: str) -> str:
        """The key that an entity has its homonym's name from, or its own."""
        number = self.find(key)
        return key if number is None else str(self.row(number)[2])

    def drop(self, key: str) -> None:
        """Forget an entity that nothing mentions any more."""
        number = self.find(key)
        if number is not None:
            del self._numbers[key]
            self._rows.pop(number, None)
            self._unstored.pop(number, None)
            self._staged.drop("nodes", [(number,)])
