"""Names that are a person's in some documents and something else in others: two entities, where both are sure."""

from collections.abc import Collection, Iterable, Iterator

from localrag.index.graph.merging.nodes import Nodes
from localrag.index.graph.variants import kind_of
from localrag.store.staged import Staged


class Homonyms:
    """Which names are kept apart, as rows: the name, whether its persons or the others go by another one, and that one.

    `whole`: names that the user keeps whole.
    """

    def __init__(self, staged: Staged, nodes: Nodes, whole: Collection[str]) -> None:
        self._staged, self._nodes, self._whole = staged, nodes, whole

    def entity(self, base: str, *, person: bool) -> str:
        """The entity of a name's use, as a person's or something else's."""
        row = self._staged.row("homonyms", base)
        return str(row[2]) if row and bool(row[1]) == person else base

    def update(self, entities: Iterable[str]) -> set[str]:
        """Decide anew for the names of these entities; the documents in which a name is another entity's now."""
        documents: set[str] = set()
        for base in sorted({self._nodes.base(key) for key in entities}):
            known = self._staged.row("homonyms", base)
            now = self._kept_apart(base)
            if now != known:
                documents |= {d for (d,) in self._staged.rows("names", "t.base = ?", [base], "t.document_id")}
                self._staged.replace("homonyms", [known] if known else [], [now] if now else [])
        return documents

    def _kept_apart(self, base: str) -> tuple[str, int, str] | None:
        """A name is two entities' where it is a person in some documents and none in others, and the two have no neighbour in common.

        Either side must be sure: two documents, a neighbour; small models mistake types too often for less.
        """
        kinds = {kind == "person" for (kind,) in self._staged.rows("names", "t.base = ?", [base], "DISTINCT t.type")}
        if len(kinds) < 2 or base in self._whole:
            return None
        uses: dict[bool, list[tuple[str, str, int]]] = {True: [], False: []}
        for document, kind, count in self._staged.rows("names", "t.base = ?", [base], "t.document_id, t.type, t.count"):
            uses[kind == "person"].append((document, kind, count))
        documents = {side: {d for d, *_ in some} for side, some in uses.items()}
        if any(len(some) < 2 for some in documents.values()) or not documents[True].isdisjoint(documents[False]):
            return None
        few, many = sorted(documents.values(), key=len)
        near = set(self._neighbours(base, few))
        if not near or not self._apart(near, self._neighbours(base, many)):
            return None
        kind = {side: kind_of(t for _, t, _ in some) for side, some in uses.items()}
        fewer = min(uses, key=lambda side: (sum(n for *_, n in uses[side]), kind[side]))
        return base, int(fewer), f"{base} ({kind[fewer]})"

    def _neighbours(self, base: str, documents: Iterable[str]) -> Iterator[str]:
        """The names that documents relate a name to, whichever of the two entities it is."""
        numbers = [n for (n,) in self._staged.rows("nodes", "t.base = ?", [base], "t.id")]
        for document in documents:
            for number in numbers:
                where = "t.document_id = ? AND (t.a = ? OR t.b = ?) AND t.statements > 0"
                for a, b in self._staged.rows("document_pairs", where, [document, number, number], "t.a, t.b"):
                    yield str(self._nodes.row(b if a == number else a)[2])

    @staticmethod
    def _apart(near: Collection[str], others: Iterable[str]) -> bool:
        """Whether there are others, none of them near."""
        other = None
        for other in others:
            if other in near:
                return False
        return other is not None
