"""The sentences behind entities and relationships of a graph that is being changed, as far as they are asked for."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from localrag.records import Chunk, Quote
from localrag.store import corpus, sources
from localrag.store.staged import Row, Staged
from localrag.text.plain import squeeze
from localrag.text.quotes import sentence_quotes

KEPT = 20_000  # chunks that are not read again, some 60 MB
PLACED = 200_000  # chunks whose places are not looked up again, some 40 MB


class Quoted:
    """Sentences of the chunks there are."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._chunks: dict[str, Chunk] = {}
        self._places: dict[str, tuple[str, int]] = {}

    def of_entity(self, entity_id: str, most: int = 2) -> list[Quote]:
        """The sentences that mention an entity, each once: those that tell most, of equal ones the first in the order of paths."""
        rows = sorted(self._staged.rows("mentions", "t.entity_id = ?", [entity_id], "-t.telling, t.chunk_id, t.start, t.end"))
        found: dict[str, Quote] = {}
        for _, equal in groupby(rows, key=lambda row: row[0]):
            for chunk, (_, _, start, end) in self._in_order(equal):
                quote = sentence_quotes(chunk, start, end)[0]
                found.setdefault(squeeze(quote.text), quote)
                if len(found) >= most:
                    return list(found.values())
        return list(found.values())

    def of_relationship(self, relationship_id: str) -> list[Quote]:
        """The sentences that state a relationship, each once, in the order of paths."""
        rows = self._staged.rows("evidence", "t.relationship_id = ?", [relationship_id], "0, t.chunk_id, t.start, t.end")
        found: dict[str, Quote] = {}
        for chunk, (_, _, start, end) in self._in_order(rows):
            for quote in sentence_quotes(chunk, start, end):
                found.setdefault(squeeze(quote.text), quote)
        return list(found.values())

    def _in_order(self, rows: Iterable[Row]) -> Iterator[tuple[Chunk, Row]]:
        """The chunks of rows (…, chunk, start, end), in the order of paths and places."""
        some = list(rows)
        if len(some) > 1:
            if len(self._places) > PLACED:
                self._places.clear()
            new = {row[1] for row in some if row[1] not in self._places}
            self._places |= sources.places_of_chunks(self._staged.db, new) if new else {}
            some.sort(key=lambda row: (self._places[row[1]], row[2]))
        for row in some:
            yield self._chunk(row[1]), row

    def _chunk(self, chunk_id: str) -> Chunk:
        if chunk_id not in self._chunks:
            if len(self._chunks) >= KEPT:
                self._chunks.clear()
            (self._chunks[chunk_id],) = corpus.chunks_by_id(self._staged.db, [chunk_id])
        return self._chunks[chunk_id]
