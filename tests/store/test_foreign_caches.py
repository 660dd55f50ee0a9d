"""Cache files that came with an index, or were changed since, are not read; each is built again, with one warning."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

from localrag.errors import UsageError
from localrag.records import Chunk, Document
from localrag.store import documents, entity_network, runs, vectors
from localrag.store.opening import open_index
from localrag.system.trust import record_cache_file
from tests.conftest import mostly_ci
from tests.store.test_vectors import about, put

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 120  # seconds of a process that asks
ASKED = """
import json, sys
from pathlib import Path
import numpy as np
from localrag.pagerank import personalized_pagerank
from localrag.store import entity_network, vectors
from localrag.store.database import keep_caches
from localrag.store.opening import open_index
vectors.INDEX_FROM_VECTORS = 500
query = np.ones(32, np.float32) / np.float32(32) ** 0.5
folder = Path(sys.argv[1])
db = open_index(folder)
with keep_caches(folder):
    for _ in range(2):
        net = entity_network.load_entity_network(db, folder)
    found = personalized_pagerank(net, {0: 1.0}, {0: 1.0}, {0: {0: 1.0}})
    near = [vectors.nearest(db, folder, "chunk", query, 5) for _ in range(2)]
print(json.dumps([[round(float(x), 4) for x in found], near[0]]))
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """An index with files of its network and of its vectors."""
    place = tmp_path_factory.mktemp("sound") / "index"
    with mock.patch.object(vectors, "INDEX_FROM_VECTORS", 500), closing(open_index(place, create=True)) as db:
        text = "x" * 20
        chunks = [Chunk(f"c{n}", "d", n, n, n + 1, "x", 1) for n in range(20)]
        documents.save_document(db, Document("d", "d.txt", "d", text, "h"), chunks)
        with db.atomic():
            for n in range(5):
                db.execute("INSERT INTO entities VALUES (?, ?, 'person', '', 1, '[]')", [f"e{n}", f"name {n}"])
                for c in range(n, 20, 5):
                    row = [f"e{n}", f"c{c}", f"name {n}", c, c + 1]
                    db.execute("INSERT INTO mentions (entity_id, chunk_id, name, start, end) VALUES (?, ?, ?, ?, ?)", row)
            for n in range(4):
                row = [f"r{n}", f"e{n}", f"e{n + 1}"]
                db.execute("INSERT INTO relationships VALUES (?, ?, ?, '', 1.0, 1.0, '[]')", row)
        put(db, [f"s{n:04}" for n in range(3000)], about(3000, 1))
        vectors.update_indexes(db)
        entity_network.load_entity_network(db, place)
    return place


@pytest.fixture(scope="module")
def expected(sound):
    """What is found with files that are sound, of which nothing is said."""
    found, said = asked(sound)
    assert said == ""
    return found


@pytest.fixture
def folder(sound, tmp_path):
    """A copy of it, whose files this machine has written."""
    shutil.copytree(sound, tmp_path / "index")
    for file in (tmp_path / "index").glob("*.*.*"):
        record_cache_file(file)
    return tmp_path / "index"


def asked(folder):
    """Query the index in another process: its results and its stderr."""
    done = subprocess.run([sys.executable, "-c", ASKED, folder], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=DEADLINE,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def file_of(folder, pattern):
    (file,) = folder.glob(pattern)
    return file


@pytest.mark.parametrize("pattern", ["network.*.arrays", "chunk.*.faiss"])
@pytest.mark.parametrize("kind", mostly_ci(["cut off", "only its head", "nothing", "something else"], "cut off"))
def test_a_file_that_was_changed_is_made_anew_and_that_is_said_once(folder, expected, pattern, kind):
    """NumPy, SciPy and FAISS never see it; questions are answered as before."""
    file = file_of(folder, pattern)
    data = file.read_bytes()
    file.write_bytes({"cut off": data[:-40], "only its head": data[:64], "nothing": b"", "something else": os.urandom(len(data))}[kind])
    found, said = asked(folder)
    with mock.patch.object(vectors, "INDEX_FROM_VECTORS", 500), closing(open_index(folder, create=True)) as db:
        vectors.update_indexes(db)

    assert found[0] == expected[0]
    assert [one[0] for one in found[1]] == [one[0] for one in expected[1]]
    assert said.count("built again") == 1, said
    assert asked(folder)[1] == ""


def test_files_that_came_with_an_index_are_not_read(sound, tmp_path, expected):
    """However sound they look: the network is made anew, vectors are compared one by one, and each is said."""
    found, said = asked(Path(shutil.copytree(sound, tmp_path / "index")))

    assert found[0] == expected[0]
    assert [one[0] for one in found[1]] == [one[0] for one in expected[1]]
    assert said.count("it was not written on this machine, or was changed") == 2, said


def test_a_cache_that_is_no_file_is_not_waited_for(folder):
    """A pipe, or a link to what has no end, is named and not opened, in whichever way the index is opened."""
    file = file_of(folder, "network.*.arrays")
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        file.unlink()
        make(file)
        with pytest.raises(UsageError, match="no file of its own"):
            open_index(folder)
        assert entity_network._read_network(file) is None


@pytest.mark.parametrize("name", ["../secret.faiss", "/dev/zero"])
def test_an_index_names_no_file_elsewhere_for_its_vectors(folder, name):
    """A path out of the folder is not opened, whatever size the database has for it."""
    file = file_of(folder, "chunk.*.faiss")
    (folder.parent / "secret.faiss").write_bytes(file.read_bytes())
    record_cache_file(folder.parent / "secret.faiss")
    with closing(open_index(folder, create=True)) as db:
        runs.save_settings(db, chunk_index_file=[name, 3000])
    found, said = asked(folder)

    assert len(found[1]) == 5
    assert "is not used" in said
