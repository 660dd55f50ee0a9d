"""Many new documents: the graph grows while the rest is read."""

import itertools
import random
from contextlib import closing

import pytest

from localrag.index import Index
from localrag.indexing import pipeline
from localrag.store.opening import open_index
from tests.indexing.test_edits import as_made_at_once, write

pytestmark = pytest.mark.usefixtures("hashed_module")


@pytest.mark.ci
def test_documents_are_in_the_graph_while_others_are_read(tmp_path, monkeypatch):
    """Entities and reports of the first ones can be asked, and in the end all is as if it had been read at once."""
    monkeypatch.setattr(pipeline, "MIN_BATCH_CHUNKS", 5)
    rng, folder = random.Random(0), tmp_path / "docs"
    for n in range(40):
        write(folder / f"{n:02}.txt", rng)
    seen, shares = [], []

    def progress(now):
        shares.append(now.fraction)
        if now.stage == "noun phrases" and now.done == now.total:
            with closing(open_index(tmp_path / "index")) as db:
                seen.append((now.total, *(db[table].count for table in ("embeddings", "entities", "reports"))))

    index = Index.open(tmp_path / "index", missing_ok=True)
    with index.write_session(extractor="phrases"):
        assert index.add([folder], on_progress=progress).complete

    assert [total for total, *_ in seen] == [5, 5, 10, 20]
    assert seen[0][1:] == (5, 0, 0)
    assert all(before[2] < after[2] for before, after in itertools.pairwise(seen))
    assert all(reports for *_, reports in seen[1:])
    assert shares == sorted(shares)
    assert as_made_at_once(folder, tmp_path / "index", tmp_path / "at_once")


@pytest.mark.ci
def test_what_an_interrupted_run_left_is_in_the_graph_before_the_model_reads(tmp_path, monkeypatch):
    """The first run is stopped when a portion has its graph; the second gives the rest its own, and then asks the model."""
    monkeypatch.setattr(pipeline, "MIN_BATCH_CHUNKS", 5)
    monkeypatch.setattr(pipeline, "PRELIMINARY_GRAPH_FROM_CHUNKS", 5)
    rng, folder = random.Random(0), tmp_path / "docs"
    for n in range(20):
        write(folder / f"{n:02}.txt", rng)

    def in_graph():
        with closing(open_index(tmp_path / "index")) as db:
            return db["graph_inputs"].count, db["chunks"].count

    def until(stage, portion):
        stages = []

        def progress(now):
            if not stages or stages[-1] != now.stage:
                stages.append(now.stage)
            if stages.count(stage) == portion and now.stage == stage:
                raise KeyboardInterrupt

        index = Index.open(tmp_path / "index", missing_ok=True)
        with index.write_session(), pytest.raises(KeyboardInterrupt):
            index.add([folder], on_progress=progress)

    until("noun phrases", 2)
    assert in_graph() == (5, 20)
    until("extraction", 1)
    assert in_graph() == (20, 20)
