"""The reader over many passages or pairs of sentences, in batches, with progress."""

from collections.abc import Sequence

from localrag.analysis.tables import OnWork
from localrag.errors import UsageError
from localrag.llm.reader import Entailment, PassageReader, PassageReading
from localrag.project import Project

PAIRS_PER_BATCH = 64  # with progress after each
PAIRS_READ_AT_ONCE = 256  # whose states take at most 100 MB


def _reader_of(project: Project) -> PassageReader:
    if project.reader is None:
        raise UsageError("This needs the reader, which is switched off.", "Leave out `adapter=off` of the engine options.")
    return project.reader


def read_pairs(pairs: Sequence[tuple[str, str]], project: Project) -> list[PassageReading]:
    """What the text of each pair answers to its question. Raises UsageError if the reader is switched off, ModelError if it cannot load."""
    found = list[PassageReading]()
    for start in range(0, len(pairs), PAIRS_READ_AT_ONCE):
        found += _reader_of(project).read_pairs(pairs[start : start + PAIRS_READ_AT_ONCE])
    return found


def entailments(pairs: Sequence[tuple[str, str]], project: Project, on_work: OnWork | None = None) -> list[Entailment]:
    """Whether the first text of each pair entails or contradicts the second. Raises as `read_pairs` does."""
    reader, found = _reader_of(project), list[Entailment]()
    for start in range(0, len(pairs), PAIRS_PER_BATCH):
        found += reader.entailments(pairs[start : start + PAIRS_PER_BATCH])
        if on_work:
            on_work(len(found), len(pairs))
    return found
