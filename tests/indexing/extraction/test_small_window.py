"""A small window: what an answer may take shrinks to what is left, and a chunk that is still too long is read in parts."""

import asyncio

import pytest

from localrag.engine.settings import EngineOptions
from localrag.indexing.extraction.extract import extract_chunk
from localrag.indexing.extraction.names import DocumentCasing
from localrag.llm.model import ChatModel
from localrag.model_files import find_chat_model
from localrag.records import Chunk
from localrag.settings import IndexSettings
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from tests.fakes import Scripted, example

PEOPLE = ["Ingrid Holm", "Lars Holm", "Ruth Sand", "Odile Ferrant", "Idris Kovac", "Petra Niel"]
TEXT = " ".join(
    f"{who} of the Northern Line wrote to the council of Vardby in {1970 + n} that the ferry Skua leaks and that the pier has to be built."
    for n, who in enumerate(PEOPLE * 2)
)


def read(model, text=TEXT, *, style="abstractive", **settings):
    """What is extracted from a chunk, and what was lost."""
    chunk, lost = Chunk("c", "d", 0, 0, len(text), text, 0), []
    found = asyncio.run(extract_chunk(chunk, DocumentCasing(text), model, IndexSettings(style=style, **settings), style, lost))
    return found, lost


@pytest.fixture
def model(tmp_path, chat_file):
    """A function that gives a model: one of this process with a window of so many tokens, or that of a server."""
    made = []

    def opened(window=0, url="", engine=None):
        ledger = SqliteLlmCache(open_index(tmp_path / str(len(made)), create=True))
        file = find_chat_model(url) if url else chat_file
        made.append(ChatModel(ledger, file, EngineOptions(f"n_ctx={window}" if window else "")))
        made[-1]._engine = engine
        return made[-1]

    yield opened
    for one in made:
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize("style", ["abstractive", "extractive"])
@pytest.mark.ci
def test_a_chunk_is_read_in_a_window_of_2048_tokens(model, style):
    """Names are found, and nothing is lost, in a window that has no room for the longest list there may be."""
    found, lost = read(model(2048), style=style)

    assert lost == []
    assert {"Ingrid Holm", "Lars Holm"} & {e.name for e in found.entities}


def test_a_chunk_that_leaves_no_room_is_read_sentence_by_sentence(model):
    """Where the window is too small for the whole chunk, its names are found beforehand and typed, and nothing is lost."""
    engine = Scripted(lambda request: example(request.grammar.schema), window=1500)
    found, lost = read(model(engine=engine), TEXT[: len(TEXT) // 2].rsplit(" ", 1)[0] * 6)

    assert lost == []
    assert engine.tasks.count("entities") > 2
    assert {"Ingrid Holm", "Lars Holm"} <= {e.name for e in found.entities}
