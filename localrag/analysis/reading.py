"""The reader over many passages or pairs of sentences, in batches, with progress."""

from collections.abc import Sequence

from localrag.analysis.tables import OnWork
from localrag.errors import UsageError
from localrag.llm.reader import Entailment, PassageReader, PassageReading
from localrag.project import Project

PAIRS_PER_BATCH = 64


def _reader_of(project: Project) -> PassageReader:
    if project.reader is None:
        raise UsageError("This needs the reader, which is switched off.", "Leave out `adapter=off` of the engine options.")
    return project.reader


def read_passages(question: str, texts: Sequence[str], project: Project) -> list[PassageReading]:
    """What each text answers. Raises UsageError if the reader is switched off, ModelError if it cannot be loaded."""
    return _reader_of(project).read(question, texts) if texts else []


def entailments(pairs: Sequence[tuple[str, str]], project: Project, on_work: OnWork | None = None) -> list[Entailment]:
    """Whether the first text of each pair entails or contradicts the second. Raises as `read_passages` does."""
    reader, found = _reader_of(project), list[Entailment]()
    for start in range(0, len(pairs), PAIRS_PER_BATCH):
        found += reader.entailments(pairs[start : start + PAIRS_PER_BATCH])
        if on_work:
            on_work(len(found), len(pairs))
    return found
