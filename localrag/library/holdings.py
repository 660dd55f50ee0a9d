"""What an index holds, for `Index`: every method reads the index as it is at that moment, and none needs a model."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrag.opening import open_to_look, prompts_in_use, root_of
from localrag.project import Opened
from localrag.records import Answer, Chunk, Citation, Community, Document, Entity, Mention, Merge, Relationship, Report
from localrag.store import corpus, graph, ledger, look, status
from localrag.store.collections import collections, paths_of

if TYPE_CHECKING:
    from localrag.exchange.export import Exported

Row = dict[str, Any]  # a part of an index as JSON-ready values


class Holdings:
    """The part of `Index` that looks. Every method raises NoIndex where there is none in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def _look(self) -> Iterator[Opened]:
        """The index as it is now; it is held no longer than it is read, for that keeps what others remove from being erased."""
        with open_to_look(self.folder) as opened:
            yield opened

    @property
    def root(self) -> Path:
        """The folder that the paths of documents are relative to."""
        return root_of(self.folder)

    # Documents

    def paths(self, of: Sequence[str] | None = None) -> list[str]:
        """The paths of the documents, sorted; those of some collections where these are named. Raises UsageError for one there is not."""
        with self._look() as here:
            return sorted(corpus.document_hashes(here.db)) if of is None else paths_of(here.db, of)

    def documents(self) -> list[Document]:
        """The documents, by path, with their text."""
        with self._look() as here:
            return [found for path in sorted(corpus.document_hashes(here.db)) if (found := corpus.document(here.db, path))]

    def files(self) -> list[dict[str, str]]:
        """Every file that was found, by path: its `state` (indexed, skipped, failed), and the `reason` if not all of it was read."""
        with self._look() as here:
            return list(status.files(here.db))

    def collections(self) -> dict[str, int]:
        """The collections, by name, with their numbers of documents."""
        with self._look() as here:
            return collections(here.db)

    # The graph

    def entities(self, named: Iterable[str] | None = None) -> list[Entity]:
        """The entities, those with most relationships first; with `named`, those that have one of these names, in any case."""
        with self._look() as here:
            ids = None if named is None else {i for found in graph.entities_named(here.db, named).values() for i in found}
            return sorted(graph.entities(here.db, None if ids is None else sorted(ids)), key=lambda e: (-e.degree, e.name))

    def relationships(self, of: Entity | None = None) -> list[Relationship]:
        """The relationships, of one entity or all."""
        with self._look() as here:
            return graph.relationships(here.db, None if of is None else [of.id])

    def mentions(self, of: Entity) -> list[Mention]:
        """The places where an entity is named."""
        with self._look() as here:
            return graph.mentions(here.db, [of.id])

    def describe(self, name: str) -> list[Row]:
        """What is known of the entities of a name, with relationships, claims and mentions. Raises LocalragError with the nearest names."""
        from localrag import contents

        with self._look() as here:
            return contents.entities_called(name, here.db)

    def names(self, like: str, n: int = 20) -> list[str]:
        """The names of at most `n` entities: first those with a name that begins like this, then those that have it anywhere in one."""
        with self._look() as here:
            return [row["name"] for row in look.named_like(here.db, like, n)]

    def merges(self, *, done: bool = True) -> list[tuple[int, Merge]]:
        """The names that were made one entity, or else those of similar spelling that were not, each with its number."""
        with self._look() as here:
            return graph.merges(here.db, done=done)

    def communities(self, level: int | None = None) -> list[Community]:
        """The communities, of one level (0 is the coarsest) or all."""
        with self._look() as here:
            return graph.communities(here.db, level)

    def tree(self) -> list[Row]:
        """The communities, the coarsest first: number (`1.4`), parent, number of entities, and the title and coverage of the report."""
        from localrag import contents

        with self._look() as here:
            return contents.communities(here.db)

    def reports(self, level: int | None = None) -> list[Report]:
        """The reports of the communities of one level, or all."""
        with self._look() as here:
            return graph.reports(here.db, level)

    def report(self, number: str) -> Row:
        """The report of a community, by its number in the tree (`1.4`), its quotes with their places. Raises LocalragError."""
        from localrag import contents

        with self._look() as here:
            return contents.report(number, here.db)

    # Answers that were given

    def answers(self, n: int) -> list[tuple[int, str, Answer]]:
        """The newest `n` answers, each with its number and when it was given, newest first."""
        with self._look() as here:
            return ledger.answers(here.db, n)

    def last_answer(self) -> Answer | None:
        """The newest answer; None where none was given."""
        return next((made for *_, made in self.answers(1)), None)

    def conversations(self, n: int = 20) -> list[Row]:
        """The newest `n` conversations: `id`, first question (`title`), number of `answers`, when the last was given (`at`)."""
        with self._look() as here:
            return look.conversations(here.db, n)

    def conversations_with(self, text: str) -> list[Row]:
        """The answers that have all words of a text in them or their question, newest first; `id` is their conversation's."""
        with self._look() as here:
            return look.conversations_with(here.db, text)

    def conversation(self, number: int) -> list[tuple[str, Answer]]:
        """The answers of a conversation, oldest first, with when they were given; none where there is no such conversation."""
        with self._look() as here:
            return ledger.dated_conversation(here.db, number)

    def passage(self, citation: Citation) -> Chunk | None:
        """The chunk that a citation is from; None where the index no longer holds it."""
        with self._look() as here:
            return next(iter(corpus.chunks_by_id(here.db, [citation.chunk_id])), None)

    # The index itself

    def counts(self) -> dict[str, int]:
        """How many documents, chunks, entities, relationships, communities, reports and names made part of others there are."""
        with self._look() as here:
            return graph.counts(here.db) | {"merged": graph.merged(here.db)}

    def models(self) -> dict[str, dict[str, str]]:
        """The models that the index was made with, `chat_model` and `embedder`: name, fingerprint and path."""
        with self._look() as here:
            bound = ledger.settings(here.db)
        return {kind: bound[kind] for kind in ("chat_model", "embedder") if kind in bound}

    def status(self) -> Row:
        """What the index holds, what failed and what it cost: the values of `localrag status --json`."""
        with self._look() as here:
            return status.status(here.db, self.folder) | {"prompts": prompts_in_use(here.root)}

    def export(self, format: str, path: str | PathLike[str], *, level: int | None = None, force: bool = False) -> "Exported":
        """Write the graph, reports and passages for other programs: `format` is one of `localrag.exchange.export.FORMATS`.

        `path` is a file for "graphml", "gexf" and "html", else a folder. Raises UsageError where something else is there, and nothing is
        written; LocalragError where there is no graph yet.
        """
        from localrag.exchange.export import export_index

        with self._look() as here:
            return export_index(here, format, Path(path), level=level, force=force)
