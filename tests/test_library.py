"""The library: what its page shows, and what programs rely on."""

import asyncio
import doctest
import gc
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import localrag
from localrag.errors import IndexBusy, NoIndex, UsageError
from localrag.index import Index
from localrag.indexing.workers.pool import in_process_pool
from localrag.query.question import AnswerCallbacks
from localrag.store.database import caches_of
from localrag.store.opening import writer_lock
from tests.conftest import write_town

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "library.md"


def test_the_examples_of_its_page_hold(tmp_path, monkeypatch):
    """Every one of them, in order, in a folder with the texts that the page names."""
    monkeypatch.chdir(tmp_path)
    write_town(tmp_path / "docs")
    text = "\n".join("" if line.startswith("```") else line for line in PAGE.read_text(encoding="utf-8").splitlines())
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    said = []
    result = doctest.DocTestRunner(verbose=False).run(examples, out=said.append)

    assert result.attempted > 25
    assert not result.failed, "".join(said)


def test_its_names_are_loaded_when_they_are_used():
    """`import localrag` loads no numpy; every public name is there, and no other."""
    code = "import sys, localrag; a = 'numpy' in sys.modules; localrag.Index; print(a, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.split() == ["False", "True"]
    assert all(getattr(localrag, name) for name in localrag.__all__)
    with pytest.raises(AttributeError, match="Indx"):
        _ = localrag.Indx


def test_an_index_is_made_once_and_with_known_settings(tmp_path):
    """A second `create` says that there is one; an unknown setting is named; an index without documents cites nothing."""
    with pytest.raises(UsageError, match="chunk_size"):
        Index.create(tmp_path / "a", chunk_size=3)
    Index.create(tmp_path / "b", extractor="phrases").close()
    with pytest.raises(UsageError, match="already"):
        Index.create(tmp_path / "b")
    with Index.open(tmp_path / "b") as empty:
        assert not empty.ask("Who?").citations
    with pytest.raises(NoIndex, match="There is no index"):
        Index.open(tmp_path / "c")


def test_others_can_do_the_work(tmp_path):
    """`workers` is a number of processes, or whoever is hired for the run."""
    hired = []
    write_town(tmp_path / "docs")
    with Index.create(tmp_path, extractor="phrases") as index:
        index.add(tmp_path / "docs", workers=lambda project: hired.append(project.folder) or in_process_pool(project))
        assert hired == [index.folder]


def test_several_changes_share_one_opening(tmp_path):
    """Within `writing` no other process writes, its settings are kept, and models and settings are chosen at its beginning only."""
    write_town(tmp_path / "docs")
    with Index.open(tmp_path / ".localrag", missing_ok=True) as index:
        assert not index.exists
        with index.write_session(extractor="phrases"):
            index.add(tmp_path / "docs")
            held = index._written
            with pytest.raises(IndexBusy), writer_lock(index.folder):
                pass
            assert index.documents_at(tmp_path / "docs" / "b.txt") == ["docs/b.txt"]
            index.remove(tmp_path / "docs" / "b.txt")
            index.reembed()
            assert index._written is held
            with pytest.raises(UsageError, match="when writing begins"):
                index.reembed("another")
            with pytest.raises(UsageError, match="when writing begins"), index.write_session(claims=True):
                pass
        assert index.status()["settings"]["extractor"] == "phrases"
        assert index.paths() == ["docs/a.md", "docs/c.txt"]
        with pytest.raises(UsageError, match="chunk_size"), index.write_session(chunk_size=3):
            pass
        assert index.remove_all() == ["docs/a.md", "docs/c.txt"]
        assert index.counts()["entities"] == 0


def test_what_is_not_to_be_kept_is_not(own_town):
    """Without `logs` the index holds no answer; a conversation goes on by its `history`, and a watch hears the answer it would keep."""
    heard = []
    with Index.open(own_town, logs=False) as index:
        first = index.ask("Who bought the ferry Skua?", style="extractive", watch=AnswerCallbacks(on_stored=heard.append))
        second = index.ask("Where is the Northern Line?", style="extractive", history=[first])
        assert heard == [first]
        assert second.citations
        assert index.last_answer() is None
        assert index.calls == first.llm_calls + second.llm_calls
    with Index.open(own_town) as index:
        kept = index.ask("Who bought the ferry Skua?", style="extractive")
        again = index.ask("Where is the Northern Line?", style="extractive", conversation=kept.conversation)
        assert [made.question for _, made in index.conversation(kept.conversation)] == [kept.question, again.question]
        assert index.last_answer() == again
        assert [row["answers"] for row in index.conversations()] == [2]


def test_a_look_holds_nothing_back(own_town):
    """After every look, what another program removes can be erased at once."""
    with Index.open(own_town) as looks, Index.open(own_town) as other:
        looks.entities()
        looks.status()
        other.remove(own_town / "docs" / "b.txt")
        assert looks.paths() == ["docs/a.md", "docs/c.txt"]


@pytest.mark.ci
def test_a_stream_that_is_left_stops_the_model(town, tmp_path):
    """Left after its first piece, nothing goes on; the next question is answered as ever."""

    async def left(index):
        async for piece in index.astream("Who is Lars Holm?", style="abstractive"):
            return piece
        return None

    with Index.open(shutil.copytree(town, tmp_path / "town")) as index:
        assert isinstance(asyncio.run(left(index)), str)
        assert index._query_project().model.metrics().get("in_flight", 0) == 0
        assert index.ask("Who bought the ferry?", style="extractive").citations


@pytest.mark.ci
def test_a_closed_index_keeps_nothing_in_memory(plain_town, tmp_path):
    """Caches are shared by all who have the index open, and freed with the last of them, also those made while writing, and where a copied
    cache file was not taken."""
    with Index.open(plain_town) as original:
        original.search("the ferry")
    folder = shutil.copytree(plain_town, tmp_path / "town")
    with Index.open(folder) as one, Index.open(folder) as other:
        one.search("the ferry")
        other.search("the ferry")
        kept = caches_of(one.folder)
        network, matrix = weakref.ref(kept["network"][1].rarity), weakref.ref(kept["vectors of chunk"][1][1])
        del kept
        other.close()
        assert network() is not None
    gc.collect()

    assert network() is None
    assert matrix() is None
    assert not caches_of(folder / ".localrag")


def test_another_index_in_the_same_place_is_answered_from_itself(own_town, tmp_path):
    """An index that takes the place of another, also under an open `Index`, is asked for its own passages."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Halvor Berg painted the ferry Skua green. Nobody had asked Halvor Berg.")
    with Index.create(tmp_path, extractor="phrases") as index:
        index.add(tmp_path / "docs")
    with Index.open(own_town) as before:
        assert "Lars Holm" in before.search("Who is the mate of the ferry?")[0].text
        shutil.rmtree(own_town / ".localrag")
        shutil.copytree(tmp_path / ".localrag", own_town / ".localrag")
        with Index.open(own_town) as after:
            assert [p.path for p in after.search("Who painted the ferry?")] == ["docs/a.txt"]
