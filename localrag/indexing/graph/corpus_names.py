"""The names of the corpus, the fuller names they stand for, and homonyms, stored as rows and updated incrementally.

A name's fuller name depends on the names that the rules find for it (`index_keys` and `query_keys` in `entity_resolution`). So only names
that query a key of a changed name are resolved again, in the order in which all would be: the result is the same. A name that is a person's
in some documents and something else's in others becomes two entities, if both are sure.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby

from localrag.indexing.graph.contributions import NodeTable
from localrag.indexing.graph.entity_resolution import (
    NameForm,
    NameTarget,
    find_target,
    index_keys,
    majority_type,
    query_keys,
    resolution_order,
)
from localrag.store.staging import GraphStaging, StagedRow

_SEPARATOR = "\x1f"
ROWS_PER_TRANSACTION = 5_000  # names whose forms are stored together
MAX_CACHED_NAMES = 500_000  # names, and lookups, that stay in memory: some 200 MB
LookupPair = tuple[str, str]  # kind of a lookup, and its key


class NameFormTable(Mapping[str, NameForm]):
    """The most frequent form of every name of the corpus, by key; names that were read stay in memory."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self._kept: dict[str, tuple[NameForm, NameTarget | None] | None] = {}
        self._unstored: dict[str, tuple[NameForm, NameTarget | None]] = {}

    def _row(self, key: str) -> tuple[NameForm, NameTarget | None] | None:
        if key not in self._kept:
            self._make_room()
            row = self._staged.get("corpus_names", key)
            self._kept[key] = _record(row) if row else None
        return self._kept[key]

    def __getitem__(self, key: str) -> NameForm:
        row = self._row(key)
        if row is None:
            raise KeyError(key)
        return row[0]

    def __contains__(self, key: object) -> bool:
        return self._row(str(key)) is not None

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._staged.select("corpus_names", columns="t.name_key"))

    def __len__(self) -> int:
        return self._staged.count("corpus_names")

    def target(self, key: str) -> NameTarget | None:
        """The fuller name that a key stands for in documents that do not say otherwise."""
        row = self._row(key)
        return row[1] if row else None

    def cache_row(self, row: StagedRow) -> NameForm:
        """The name in a row that was read and has no fuller name yet; it stays in memory for the next reader."""
        self._make_room()
        name, _ = self._kept[row[0]] = _record(row)
        return name

    def save(self, name: NameForm, target: NameTarget | None) -> None:
        """Set the form and the fuller name of a key; `flush` stores them."""
        self._make_room()
        self._kept[name.key] = self._unstored[name.key] = (name, target)

    def _make_room(self) -> None:
        if len(self._kept) >= MAX_CACHED_NAMES:
            self.flush()
            self._kept.clear()

    def flush(self) -> None:
        """Store changed rows, before other code reads the tables."""
        forms = ((n.key, n.text, n.type, n.count, *(target or (None, None, None))) for n, target in self._unstored.values())
        self._staged.upsert("corpus_names", forms)
        self._unstored = {}

    def delete(self, key: str) -> None:
        """Delete a key that no document has any more."""
        self._kept[key] = None
        self._unstored.pop(key, None)
        self._staged.delete("corpus_names", [(key,)])


def _record(row: StagedRow) -> tuple[NameForm, NameTarget | None]:
    key, text, kind, count, target, reason, score = row
    return NameForm("", key, text, kind, count), None if target is None else (target, reason, score)


class CorpusNames:
    """The names of the corpus, indexed by the keys they can be found by and those they query."""

    def __init__(self, staged: GraphStaging) -> None:
        self._staged = staged
        self.names = NameFormTable(staged)
        self._found: dict[str, list[str]] = {}

    def update(self, keys: Iterable[str]) -> tuple[set[tuple[str, str]], set[str]]:
        """Update the forms of these keys, and all fuller names that depend on them.

        Returns the types and beginnings of names whose form is new, changed or deleted, and the keys whose fuller name changed.
        """
        if self._staged.is_empty("corpus_names"):
            return self._build_all()
        before = {key: self.names.get(key) for key in keys}
        changed = self._forms_changed(before)
        queue = _ResolutionQueue(self.names)
        if 2 * len(changed) > len(self.names):  # resolving nearly all names is faster than finding the affected ones
            queue.add(self.names)
        else:
            queue.add(changed)
            for key in changed:
                for name in filter(None, (before[key], self.names.get(key))):
                    queue.add(self._askers(name))
                for (other,) in self._staged.select("corpus_names", "t.target_key = ?", [key], "t.name_key"):
                    queue.add(self._askers(self.names[other]))
        other_target = {key for key in changed if key not in self.names}
        while key := queue.next():
            old, new = self.names.target(key), find_target(key, self.names, self._lookup, self._found_before(key))
            if new != old:
                self.names.save(self.names[key], new)
                other_target.add(key)
                if (new and new[0]) != (old and old[0]):
                    queue.add(self._askers(self.names[key]), after=key)
        self.names.flush()
        forms = (name for key in changed for name in (before[key], self.names.get(key)) if name)
        return set(map(blocking_key, forms)), other_target

    def _build_all(self) -> tuple[set[tuple[str, str]], set[str]]:
        """As `update`, if there are no names yet: reads and writes all in order, and resolves each once."""
        staged = self._staged
        forms = "t.name_key, t.count, t.form, t.type"
        rows_by_name = staged.select("document_names", columns=forms, first="ORDER BY +t.name_key")  # +: sorted, see `contributions`
        best = (max(some, key=lambda row: row[1:]) for _, some in groupby(rows_by_name, key=lambda row: row[0]))
        staged.bulk_insert("corpus_names", ((key, text, kind, count, None, None, None) for key, count, text, kind in best))
        for table, values in (("name_index", _offered_keys), ("name_queries", _asks)):
            names = (_record(row)[0] for row in staged.select("corpus_names"))
            staged.bulk_insert(table, ((value, name.key) for name in names for value in values(name)))
        changed_blocks = set()
        for row in staged.select("corpus_names", first="ORDER BY -length(t.name_key), t.name_key"):  # as `resolution_order`
            name = self.names.cache_row(row)
            if target := find_target(name.key, self.names, self._lookup, self._found_before(name.key)):
                self.names.save(name, target)
                changed_blocks.add(name.key)
        self.names.flush()
        blocks = staged.select("corpus_names", columns="DISTINCT t.type, substr(t.name_key, 1, 2)")
        return set(blocks), changed_blocks

    def _found_before(self, key: str) -> Callable[[str], NameTarget | None]:
        """The targets of names that are resolved before this one."""
        return lambda other: self.names.target(other) if resolution_order(other) < resolution_order(key) else None

    def _forms_changed(self, before: Mapping[str, NameForm | None]) -> set[str]:
        """Recompute the most frequent forms of keys and their lookup rows from the documents' names; returns the changed keys."""
        changed = set()
        rows: dict[str, tuple[set[LookupPair], set[LookupPair]]] = {"name_index": (set(), set()), "name_queries": (set(), set())}
        for n, (key, old) in enumerate(before.items()):
            if n % ROWS_PER_TRANSACTION == 0:
                self._put_asked(rows)
            best = max(self._staged.select("document_names", "t.name_key = ?", [key], "t.count, t.form, t.type"), default=None)
            now = NameForm("", key, best[1], best[2], best[0]) if best else None
            if now == old:
                continue
            changed.add(key)
            for table, values in (("name_index", _offered_keys), ("name_queries", _asks)):
                removed, new = ({(value, key) for value in values(name)} if name else set() for name in (old, now))
                rows[table][0].update(removed - new)
                rows[table][1].update(new - removed)
            if now is None:
                self.names.delete(key)
            else:
                self.names.save(now, self.names.target(key))
        self._put_asked(rows)
        return changed

    def _put_asked(self, rows: Mapping[str, tuple[set[LookupPair], set[LookupPair]]]) -> None:
        """Replace the lookup rows of names."""
        for value, _ in rows["name_index"][0] | rows["name_index"][1]:
            self._found.pop(value, None)
        for table, (removed, new) in rows.items():
            self._staged.delete(table, removed)
            self._staged.upsert(table, new)
            removed.clear()
            new.clear()
        self.names.flush()

    def _lookup(self, *lookup_pair: str) -> list[str]:
        value = _SEPARATOR.join(lookup_pair)
        if value not in self._found:
            if len(self._found) >= MAX_CACHED_NAMES:
                self._found.clear()
            self._found[value] = sorted(k for (k,) in self._staged.select("name_index", "t.lookup_key = ?", [value], "t.name_key"))
        return self._found[value]

    def _askers(self, name: NameForm) -> set[str]:
        """The keys that query anything that a name can be found by."""
        askers = {
            k for value in _offered_keys(name) for (k,) in self._staged.select("name_queries", "t.lookup_key = ?", [value], "t.name_key")
        }
        return askers - {name.key}


def blocking_key(name: NameForm) -> tuple[str, str]:
    """The block of names that a similar spelling is searched in: same type, same beginning."""
    return name.type, name.key[:2]


class _ResolutionQueue:
    """Keys to be resolved, in order, each once while it waits."""

    def __init__(self, names: NameFormTable) -> None:
        self._names = names
        self._heap: list[tuple[tuple[int, str], str]] = []
        self._waiting: set[str] = set()

    def add(self, keys: Iterable[str], after: str | None = None) -> None:
        """Add the keys that exist; with `after` only later ones, since earlier ones do not depend on it."""
        for key in keys:
            if key not in self._waiting and key in self._names and (after is None or resolution_order(key) > resolution_order(after)):
                self._waiting.add(key)
                heapq.heappush(self._heap, (resolution_order(key), key))

    def next(self) -> str:
        """Remove and return the first key; empty if there are none."""
        if not self._heap:
            return ""
        _, key = heapq.heappop(self._heap)
        self._waiting.discard(key)
        return key


def _offered_keys(name: NameForm) -> set[str]:
    return {_SEPARATOR.join(v) for v in index_keys(name)} | {_SEPARATOR.join(("key", name.key))}


def _asks(name: NameForm) -> set[str]:
    return {_SEPARATOR.join(v) for v in query_keys(name)}


class Homonyms:
    """Stores which names are split in two: the name, whether its persons or the others get another name, and that name.

    `whole`: names that the user keeps as one.
    """

    def __init__(self, staged: GraphStaging, nodes: NodeTable, whole: Collection[str]) -> None:
        self._staged, self._nodes, self._whole = staged, nodes, whole

    def entity_key(self, base: str, *, person: bool) -> str:
        """The entity of a use of a name, as a person's or something else's."""
        row = self._staged.get("homonyms", base)
        return str(row[2]) if row and bool(row[1]) == person else base

    def redecide(self, entities: Iterable[str]) -> set[str]:
        """Decide again on the names of these entities; returns the documents in which a name's entity changed."""
        documents: set[str] = set()
        for base in sorted({self._nodes.canonical_key(key) for key in entities}):
            existing = self._staged.get("homonyms", base)
            now = self._kept_apart(base)
            if now != existing:
                documents |= {d for (d,) in self._staged.select("document_names", "t.canonical_key = ?", [base], "t.document_id")}
                self._staged.replace("homonyms", [existing] if existing else [], [now] if now else [])
        return documents

    def _kept_apart(self, base: str) -> tuple[str, int, str] | None:
        """Split a name that is a person in some documents and not in others, if the two have no neighbour in common.

        Each side needs two documents and a neighbour: small models often mistake the type of a single one.
        """
        kinds = {kind == "person" for (kind,) in self._staged.select("document_names", "t.canonical_key = ?", [base], "DISTINCT t.type")}
        if len(kinds) < 2 or base in self._whole:
            return None
        uses: dict[bool, list[tuple[str, str, int]]] = {True: [], False: []}
        for document, kind, count in self._staged.select("document_names", "t.canonical_key = ?", [base], "t.document_id, t.type, t.count"):
            uses[kind == "person"].append((document, kind, count))
        documents = {side: {d for d, *_ in some} for side, some in uses.items()}
        if any(len(some) < 2 for some in documents.values()) or not documents[True].isdisjoint(documents[False]):
            return None
        few, many = sorted(documents.values(), key=len)
        person_neighbours = set(self._neighbours(base, few))
        if not person_neighbours or not self._is_disjoint(person_neighbours, self._neighbours(base, many)):
            return None
        kind = {side: majority_type(t for _, t, _ in some) for side, some in uses.items()}
        fewer = min(uses, key=lambda side: (sum(n for *_, n in uses[side]), kind[side]))
        return base, int(fewer), f"{base} ({kind[fewer]})"

    def _neighbours(self, base: str, documents: Iterable[str]) -> Iterator[str]:
        """The names that documents relate a name to, as either entity."""
        numbers = [n for (n,) in self._staged.select("graph_nodes", "t.canonical_key = ?", [base], "t.id")]
        for document in documents:
            for number in numbers:
                where = "t.document_id = ? AND (t.a = ? OR t.b = ?) AND t.n_statements > 0"
                for a, b in self._staged.select("document_cooccurrences", where, [document, number, number], "t.a, t.b"):
                    yield str(self._nodes.row(b if a == number else a)[2])

    @staticmethod
    def _is_disjoint(near: Collection[str], others: Iterable[str]) -> bool:
        """Whether there are others, and none of them is in `near`."""
        other = None
        for other in others:
            if other in near:
                return False
        return other is not None
