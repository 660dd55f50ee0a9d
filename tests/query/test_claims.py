"""Claims on whom a question names reach local answers, in the model's words and in the documents' own."""

import asyncio
from dataclasses import replace

import pytest

from localrag.engine.settings import EngineOptions
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.records import ExtractedClaim
from localrag.store import chunks, runs
from tests.fakes import Scripted, answered_by
from tests.query.made import ask

WEATHER = "The wind turned to the north and it rained on the roofs of the upper street until the morning. " * 12
SAID = "It is said that Ruth Sand took money for the quay."
QUESTION = "Was Ruth Sand corrupt?"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Forty notes that name her often, and one on the weather in which there is a claim on her."""
    folder = tmp_path_factory.mktemp("claims")
    (folder / "docs").mkdir()
    for n in range(40):
        (folder / "docs" / f"{n}.txt").write_text(f"Ruth Sand wrote note {n}. Ruth Sand read it to Ruth Sand's clerk, and Ruth Sand left.")
    (folder / "docs" / "weather.txt").write_text(f"{WEATHER}{SAID} {WEATHER}")
    with open_for_writing(folder / ".localrag", extractor="phrases", engine=EngineOptions()) as project:
        asyncio.run(build_index([folder / "docs"], project, lambda _: None))
        chunk = next(c for c in chunks.all_chunks(project.db) if SAID in c.text)
        found = next(x for x in chunks.extractions(project.db, PHRASES_HASH) if x.chunk_id == chunk.id)
        start = chunk.text.index(SAID)
        said = ExtractedClaim("Ruth Sand", "", "bribery", "SUSPECTED", "1953-02-01", "", "She took money.", start, start + len(SAID))
        chunks.save_extractions(project.db, PHRASES_HASH, [replace(found, claims=(said,))])
        runs.save_settings(project.db, graph_hash=None, reports_state=None)
        asyncio.run(build_index([folder / "docs"], project, lambda _: None))
    return folder / ".localrag"


def test_a_written_local_answer_is_shown_the_claims(index):
    """The model reads the claim with its status and date, and what rests on it is cited by the sentence that makes it."""
    shown = []

    def says(request):
        shown.append(request.messages[-1]["content"])
        return "Ruth Sand took money. [1]"

    with open_for_query(index) as project:
        answered_by(project, Scripted(says))
        ask(project, QUESTION, "local", style="abstractive")

    assert "Ruth Sand (bribery, SUSPECTED, 1953-02-01): She took money." in shown[-1]
