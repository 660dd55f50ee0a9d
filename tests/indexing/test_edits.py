"""Documents that are added, edited, renamed and deleted at random: the index stays what a fresh one of the same files would be."""

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import closing, suppress

import pytest

from localrag.index import Index
from localrag.indexing.documents import DeletionPolicy
from localrag.indexing.graph.clustering import modularity
from localrag.settings import IndexSettings
from localrag.store import entity_network, layout, runs
from localrag.store import graph as graph_store
from localrag.store.check import check_index
from localrag.store.opening import open_index
from localrag.store.staging import GraphStaging
from tests.conftest import hashed_path, seeds
from tests.graphs import overlapping
from tests.indexing.graph.test_clustering import best, network
from tests.indexing.graph.test_clustering import wrong as communities_wrong

pytestmark = pytest.mark.usefixtures("hashed_module")
GIVEN = "Ingrid Lars Anna Magnus Hugh Adela Tobias Agnes Colin Julian".split()
SURNAMES = "Holm Dunmore Strang Ostler Lisle Thorburn Farrant Quill Penrose Ashby".split()
PLACES = "Brannock Pellworth Tarvik Carrow Gannet Castlemere".split()
DEEDS = (
    "{a} sold the old ferry of {p} to {b} after the winter storms.",
    "The council of {p} asked {a} about the quota on herring landings.",
    "In {p} the engineer {a} repaired the light with {b} before the regatta.",
    "{a} wrote to {b} that the bank in {p} would not pay for the wreck.",
    "Nobody but {a} knew why {b} had left {p} in the spring.",
)


def paragraph(rng, circle):
    """A few sentences about the people of one circle and their place."""
    people = [f"{GIVEN[(circle * 3 + n) % 10]} {SURNAMES[(circle + n) % 10]}" for n in range(4)]
    sentences = []
    for _ in range(rng.randrange(3, 7)):
        a, b = rng.sample(people, 2)
        sentences.append(rng.choice(DEEDS).format(a=a, b=b, p=PLACES[circle % 6]))
    return " ".join(sentences)


def write(path, rng):
    """A new document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    circle = rng.randrange(12)
    path.write_text("\n\n".join(paragraph(rng, circle if rng.random() < 0.8 else rng.randrange(12)) for _ in range(3)), encoding="utf-8")


CONTENTS, NAMES = ("add", "edit", "edit", "delete"), ("rename", "exchange")


def edit(folder, rng, turn, kinds=(*CONTENTS, *NAMES)):
    """One of the things that people do to a folder between two runs."""
    files = sorted(folder.rglob("*.txt"))
    what, path = rng.choice(kinds), rng.choice(files)
    if what == "add" or len(files) < 8:
        write(folder / f"new{turn}" / f"{turn}.txt", rng)
    elif what == "edit":
        text = path.read_text(encoding="utf-8").split("\n\n")
        text[rng.randrange(len(text))] = paragraph(rng, rng.randrange(12))
        path.write_text("\n\n".join(text), encoding="utf-8")
    elif what == "rename":
        path.rename(path.with_name(f"{rng.choice(GIVEN)} {rng.choice(SURNAMES)} {turn}.txt"))  # a title that names somebody
    elif what == "delete":
        path.unlink()
    else:  # two documents exchanged by name
        other = rng.choice([f for f in files if f != path])
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)


def update(folder, index):
    """Index the folder without a chat model."""
    with index.write_session(extractor="phrases"):
        outcome = index.add([folder], deletion=DeletionPolicy(prune=True))  # else the last file of a folder stays until the user says so
    assert outcome.complete


def begun(tmp_path, seed):
    """A folder of sixteen documents and its index."""
    rng, folder = random.Random(seed), tmp_path / "docs"
    for n in range(16):
        write(folder / f"{n}.txt", rng)
    index = Index.open(tmp_path / "index", missing_ok=True)
    update(folder, index)
    return rng, folder, index


def facts(db):
    """What follows from the files alone, by names: ids are made of the paths that documents had first."""
    names = dict(db.execute("SELECT id, name FROM entities"))
    return {
        "documents": set(db.execute("SELECT path, text FROM documents")),
        "chunks": set(db.execute("SELECT d.path, c.start, c.end, c.text FROM chunks c JOIN documents d ON d.id = c.document_id")),
        "entities": set(db.execute("SELECT name, type, degree FROM entities")),
        "aliases": {(alias, names[e]) for alias, e in db.execute("SELECT alias, entity_id FROM entity_aliases")},
        "relationships": {
            (*sorted((names[a], names[b])), w) for a, b, w in db.execute("SELECT source_id, target_id, weight FROM relationships")
        },
        "mentions": {
            (names[e], path, start)
            for e, path, start in db.execute(
                "SELECT m.entity_id, d.path, m.start FROM mentions m JOIN chunks c ON c.id = m.chunk_id"
                " JOIN documents d ON d.id = c.document_id"
            )
        },
    }


def wrong(db):
    """What is not as it should be about communities, picture, reports and vectors."""
    most, levels, staged = IndexSettings().max_cluster_size, graph_store.communities(db), GraphStaging.published(db)
    found, circles = communities_wrong(db, most), {p.id: p for p in layout.load_layout(db).communities}
    for level in range(1 + max(c.level for c in levels)):
        found += [f"{pair} overlap" for pair in overlapping([circles[c.id] for c in levels if c.level == level])]
    if layout.subjects_without_position(db):
        found.append("something has no place")
    kept, from_scratch = modularity(staged), best(*network(staged), most)
    if kept < from_scratch - 0.005:
        found.append(f"modularity {kept}, {from_scratch} where found anew")
    named, members = defaultdict(set), {c.id: {*c.entity_ids} for c in levels}
    for chunk, entity in db.execute("SELECT chunk_id, entity_id FROM mentions"):
        named[chunk].add(entity)
    own = (c.id for c in levels if members.get(c.parent_id) != members[c.id])
    spoken_of = {key for key in own if sum(len(entities & members[key]) >= min(2, len(members[key])) for entities in named.values()) > 1}
    if {key for key, *_ in graph_store.communities_with_report(db)} != spoken_of:
        found.append("reports of other communities than those that several passages speak of")
    return found


def as_made_at_once(folder, place, fresh):
    """Whether an index is that of the files of a folder, as a fresh one, and nothing is wrong with it."""
    update(folder, Index.open(fresh, missing_ok=True))
    with closing(open_index(place)) as db, closing(open_index(fresh)) as other:
        assert facts(db) == facts(other)
        assert not wrong(db)
        assert not [w for part in check_index(db, place) for w in part.problems]
    return True


@pytest.mark.parametrize("seed", seeds(0, 1, 2, 5, 6))
def test_after_random_edits_the_index_is_that_of_the_files(tmp_path, seed, monkeypatch):
    """Documents, chunks, entities and weights are those of a fresh index; communities are as good; the network's file is right."""
    monkeypatch.setattr(entity_network, "CACHE_FROM_CHUNKS", 0)
    rng, folder, index = begun(tmp_path, seed)
    for turn in range(6):
        for _ in range(rng.choice([1, 1, 3])):
            edit(folder, rng, turn)
        update(folder, index)

        with closing(open_index(tmp_path / "index")) as db:
            assert not wrong(db)
            assert entity_network.matches_graph(db, tmp_path / "index")

    assert as_made_at_once(folder, tmp_path / "index", tmp_path / "fresh")


@pytest.mark.parametrize("seed", seeds(3, 4))
@pytest.mark.ci
def test_after_random_edits_no_report_would_be_another(tmp_path, seed):
    """Where a run looks at all reports, every one says and quotes what it did; renames may give another order."""
    rng, folder, index = begun(tmp_path, seed)
    for turn in range(5):
        for _ in range(rng.choice([1, 1, 3])):
            edit(folder, rng, turn, CONTENTS)
        update(folder, index)
        with closing(open_index(tmp_path / "index")) as db:
            found = {r.community_id: r for r in graph_store.reports(db)}
            runs.save_settings(db, reports_state=None, reports_hash=None)
        update(folder, index)
        with closing(open_index(tmp_path / "index")) as db:
            assert {r.community_id: r for r in graph_store.reports(db)} == found


@pytest.mark.slow
def test_a_month_of_days_that_end_too_early_converges(tmp_path):
    """Each day documents are added, edited, renamed, deleted and exchanged, and most runs are killed; the last is not."""
    rng, folder = random.Random(5), tmp_path / "docs"
    for n in range(16):
        write(folder / f"{n}.txt", rng)
    command = [sys.executable, "-m", "localrag", "index", "docs", "--extractor", "phrases", "--prune", "--quiet"]
    env, ended = os.environ | {"PYTHONPATH": hashed_path()}, []
    for turn in range(30):
        for _ in range(rng.choice([1, 1, 3])):
            edit(folder, rng, turn)
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, env=env)
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.5, 9))
        if process.poll() is None:
            process.send_signal(rng.choice([signal.SIGKILL, signal.SIGINT]))
        ended.append(process.wait())
    assert subprocess.run(command, cwd=tmp_path, check=True, env=env).returncode == 0

    assert {0, -signal.SIGKILL} <= set(ended)
    assert as_made_at_once(folder, tmp_path / ".localrag", tmp_path / "fresh")
