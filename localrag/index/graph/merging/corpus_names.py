"""The names of the whole corpus and the fuller names they stand for, kept as rows and brought up to date where a name changed.

A name's fuller name depends on the names that the rules find for it (`variants.offers`, `variants.asks`). So only those names are looked
at again that ask for what a changed name offers, in the order in which all of them would be looked at: the outcome is the same.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from localrag.index.graph.variants import Name, Target, asks, in_turn, offers, target_of
from localrag.store.staged import Row, Staged

_SEPARATOR = "\x1f"
TOGETHER = 5_000  # names whose forms are stored together
KEPT = 500_000  # names, and answers to what is asked, that are not looked up again: some 200 MB
Pair = tuple[str, str]  # what is offered or asked, and by which key


class StoredNames(Mapping[str, Name]):
    """The most frequent form of every name of the corpus, by key; those that were asked for are kept."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._kept: dict[str, tuple[Name, Target | None] | None] = {}
        self._unstored: dict[str, tuple[Name, Target | None]] = {}

    def _row(self, key: str) -> tuple[Name, Target | None] | None:
        if key not in self._kept:
            self._make_room()
            row = self._staged.row("name_keys", key)
            self._kept[key] = _record(row) if row else None
        return self._kept[key]

    def __getitem__(self, key: str) -> Name:
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return row[0]

    def __contains__(self, key: object) -> bool:
        return self._row(str(key)) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._staged.rows("name_keys", columns="t.key"))

    def __len__(self) -> int:
        return self._staged.count("name_keys")

    def target(self, key: str) -> Target | None:
        """The fuller name that a key stands for in documents that do not say otherwise."""
        row = self._row(key)
        return row[1] if row else None

    def keep(self, row: Row) -> Name:
        """The name in a row that was read and has no fuller name yet, for whoever asks for it next."""
        self._make_room()
        name, _ = self._kept[row[0]] = _record(row)
        return name

    def save(self, name: Name, target: Target | None) -> None:
        """Keep the form and the fuller name of a key; `store` stores it."""
        self._make_room()
        self._kept[name.key] = self._unstored[name.key] = (name, target)

    def _make_room(self) -> None:
        if len(self._kept) >= KEPT:
            self.store()
            self._kept.clear()

    def store(self) -> None:
        """Store what was saved: before others than this look at the rows."""
        forms = ((n.key, n.text, n.type, n.count, *(target or (None, None, None))) for n, target in self._unstored.values())
        self._staged.put("name_keys", forms)
        self._unstored = {}

    def drop(self, key: str) -> None:
        """Forget a key that no document has."""
        self._kept[key] = None
        self._unstored.pop(key, None)
        self._staged.drop("name_keys", [(key,)])


def _record(row: Row) -> tuple[Name, Target | None]:
    key, text, kind, count, target, reason, score = row
    return Name("", key, text, kind, count), None if target is None else (target, reason, score)


class CorpusNames:
    """Names, and which of them ask for what which others offer."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self.names = StoredNames(staged)
        self._found: dict[str, list[str]] = {}

    def update(self, keys: Iterable[str]) -> tuple[set[tuple[str, str]], set[str]]:
        """Bring the forms of these keys up to date, and all fuller names that this changes.

        Returns the types and beginnings of names whose form is new, other than before or gone, and the keys whose fuller name is another.
        """
        if self._staged.is_empty("name_keys"):
            return self._make_all()
        before = {key: self.names.get(key) for key in keys}
        changed = self._forms_changed(before)
        queue = _Queue(self.names)
        if 2 * len(changed) > len(self.names):  # nearly all of them: looking for those it concerns would take longer
            queue.add(self.names)
        else:
            queue.add(changed)
            for key in changed:
                for name in filter(None, (before[key], self.names.get(key))):
                    queue.add(self._askers(name))
                for (other,) in self._staged.rows("name_keys", "t.target = ?", [key], "t.key"):
                    queue.add(self._askers(self.names[other]))
        other_target = {key for key in changed if key not in self.names}
        while key := queue.next():
            old, new = self.names.target(key), target_of(key, self.names, self._lookup, self._found_before(key))
            if new != old:
                self.names.save(self.names[key], new)
                other_target.add(key)
                if (new and new[0]) != (old and old[0]):
                    queue.add(self._askers(self.names[key]), after=key)
        self.names.store()
        forms = (name for key in changed for name in (before[key], self.names.get(key)) if name)
        return set(map(block_of, forms)), other_target

    def _make_all(self) -> tuple[set[tuple[str, str]], set[str]]:
        """As `update`, where there is no name yet: all are read and written in order, and each is looked at once, in turn."""
        staged = self._staged
        every = staged.rows("names", columns="t.key, t.count, t.text, t.type", first="ORDER BY +t.key")  # +: sorted, see `weights`
        best = (max(some, key=lambda row: row[1:]) for _, some in groupby(every, key=lambda row: row[0]))
        staged.fill("name_keys", ((key, text, kind, count, None, None, None) for key, count, text, kind in best))
        for table, values in (("name_offers", _offers), ("name_asks", _asks)):
            names = (_record(row)[0] for row in staged.rows("name_keys"))
            staged.fill(table, ((value, name.key) for name in names for value in values(name)))
        found = set()
        for row in staged.rows("name_keys", first="ORDER BY -length(t.key), t.key"):  # as `in_turn`
            name = self.names.keep(row)
            if target := target_of(name.key, self.names, self._lookup, self._found_before(name.key)):
                self.names.save(name, target)
                found.add(name.key)
        self.names.store()
        blocks = staged.rows("name_keys", columns="DISTINCT t.type, substr(t.key, 1, 2)")
        return set(blocks), found

    def _found_before(self, key: str) -> Callable[[str], Target | None]:
        """The targets of names that are looked at before this one."""
        return lambda other: self.names.target(other) if in_turn(other) < in_turn(key) else None

    def _forms_changed(self, before: Mapping[str, Name | None]) -> set[str]:
        """Take the most frequent forms of keys, and what they offer and ask, from the documents' names; those that are other now."""
        changed = set()
        rows: dict[str, tuple[set[Pair], set[Pair]]] = {"name_offers": (set(), set()), "name_asks": (set(), set())}
        for n, (key, old) in enumerate(before.items()):
            if n % TOGETHER == 0:
                self._put_asked(rows)
            best = max(self._staged.rows("names", "t.key = ?", [key], "t.count, t.text, t.type"), default=None)
            now = Name("", key, best[1], best[2], best[0]) if best else None
            if now == old:
                continue
            changed.add(key)
            for table, values in (("name_offers", _offers), ("name_asks", _asks)):
                gone, new = ({(value, key) for value in values(name)} if name else set() for name in (old, now))
                rows[table][0].update(gone - new)
                rows[table][1].update(new - gone)
            if now is None:
                self.names.drop(key)
            else:
                self.names.save(now, self.names.target(key))
        self._put_asked(rows)
        return changed

    def _put_asked(self, rows: Mapping[str, tuple[set[Pair], set[Pair]]]) -> None:
        """Take out, and put in, what names offer and ask."""
        for value, _ in rows["name_offers"][0] | rows["name_offers"][1]:
            self._found.pop(value, None)
        for table, (gone, new) in rows.items():
            self._staged.drop(table, gone)
            self._staged.put(table, new)
            gone.clear()
            new.clear()
        self.names.store()

    def _lookup(self, *asked: str) -> list[str]:
        value = _SEPARATOR.join(asked)
        if value not in self._found:
            if len(self._found) >= KEPT:
                self._found.clear()
            self._found[value] = sorted(k for (k,) in self._staged.rows("name_offers", "t.value = ?", [value], "t.key"))
        return self._found[value]

    def _askers(self, name: Name) -> set[str]:
        """The keys that ask for anything that a name offers."""
        found = {k for value in _offers(name) for (k,) in self._staged.rows("name_asks", "t.value = ?", [value], "t.key")}
        return found - {name.key}


def block_of(name: Name) -> tuple[str, str]:
    """Among which names of the corpus one that is spelt alike is looked for: of a type, with the same beginning."""
    return name.type, name.key[:2]


class _Queue:
    """Keys to be looked at, in turn, each once as long as it waits."""

    def __init__(self, names: StoredNames) -> None:
        self._names = names
        self._heap: list[tuple[tuple[int, str], str]] = []
        self._waiting: set[str] = set()

    def add(self, keys: Iterable[str], after: str | None = None) -> None:
        """Those that there are; with `after` only those behind that one, which are the ones that it matters to."""
        for key in keys:
            if key not in self._waiting and key in self._names and (after is None or in_turn(key) > in_turn(after)):
                self._waiting.add(key)
                heapq.heappush(self._heap, (in_turn(key), key))

    def next(self) -> str:
        """The first of them; empty where there are none."""
        if not self._heap:
            return ""
        _, key = heapq.heappop(self._heap)
        self._waiting.discard(key)
        return key


def _offers(name: Name) -> set[str]:
    return {_SEPARATOR.join(v) for v in offers(name)} | {_SEPARATOR.join(("key", name.key))}


def _asks(name: Name) -> set[str]:
    return {_SEPARATOR.join(v) for v in asks(name)}
