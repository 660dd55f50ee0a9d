"""Hostile and damaged cache files do not crash the process; each is built again, with one warning."""

import io
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import faiss
import numpy as np
import pytest

from localrag.pagerank import walk
from localrag.records import Chunk, Document
from localrag.store import corpus, network, vector_index
from localrag.store.arrays import mapped_arrays
from localrag.store.faiss_file import check_file
from localrag.store.schema import open_index
from tests.store.test_vector_index import about, put

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 120  # seconds of a process that asks
ASKED = """
import json, sys
from pathlib import Path
import numpy as np
from localrag.pagerank import walk
from localrag.store import network, vector_index, vectors
from localrag.store.memory import kept_in_memory
from localrag.store.schema import open_index
vector_index.LEAST = 500
folder = Path(sys.argv[1])
db = open_index(folder)
query = np.ones(32, np.float32) / np.float32(32) ** 0.5
with kept_in_memory(folder):
    for _ in range(2):
        net = network.load_network(db, folder)
    found = walk(net, {0: 1.0}, {0: 1.0}, {0: {0: 1.0}})
    near = [vectors.nearest(db, folder, "chunk", query, 5) for _ in range(2)]
print(json.dumps([[round(float(x), 4) for x in found], near[0]]))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An index with files of its network and of its vectors."""
    monkeypatch.setattr(vector_index, "LEAST", 500)
    place = tmp_path / "index"
    with closing(open_index(place, create=True)) as db:
        text = "x" * 20
        chunks = [Chunk(f"c{n}", "d", n, n, n + 1, "x", 1) for n in range(20)]
        corpus.add_document(db, Document("d", "d.txt", "d", text, "h"), chunks)
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
        vector_index.bring_up_to_date(db)
        network.load_network(db, place)
    return place


def asked(folder):
    """Query the index in another process: its results and its stderr."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(folder)], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)  # a negative one is a signal: SIGSEGV
    return json.loads(done.stdout), done.stderr


def file_of(folder, pattern):
    (file,) = folder.glob(pattern)
    return file


def written(arrays):
    out = io.BytesIO()
    for array in arrays:
        np.save(out, array)
    return out.getvalue()


def other_arrays(arrays, n, change):
    return written([change(np.array(a)) if i == n else np.array(a) for i, a in enumerate(arrays)])


def set_at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


def of_objects(data):
    """The same file where an array says that it holds addresses of objects."""
    at = data.index(b"'descr': '<f4'")
    return data[:at] + b"'descr': '|O' " + data[at + 14 :]


NETWORKS = {
    "objects": lambda arrays: of_objects(written(arrays)),
    "pickled objects": lambda arrays: other_arrays(arrays, 2, lambda a: a.astype(object)),
    "a place far outside": lambda arrays: other_arrays(arrays, 4, set_at(3, 2_000_000_000)),
    "a place before the first": lambda arrays: other_arrays(arrays, 4, set_at(3, -2_000_000_000)),
    "columns that go back": lambda arrays: other_arrays(arrays, 5, set_at(1, 900_000_000)),
    "a column before the first": lambda arrays: other_arrays(arrays, 8, set_at(0, -900_000_000)),
    "fewer values than places": lambda arrays: other_arrays(arrays, 3, lambda a: a[:-5]),
    "numbers of another width": lambda arrays: other_arrays(arrays, 4, lambda a: a.astype(np.int64)),
    "texts for numbers": lambda arrays: other_arrays(arrays, 2, lambda a: np.array([b"x"] * len(a))),
    "two dimensions": lambda arrays: other_arrays(arrays, 2, lambda a: a.reshape(1, -1)),
    "ids out of order": lambda arrays: other_arrays(arrays, 1, lambda a: a[::-1].copy()),
    "ids that are no text": lambda arrays: other_arrays(arrays, 1, lambda a: np.array([b"\xff" + bytes(i) for i in a])),
    "a mention of nobody": lambda arrays: other_arrays(arrays, 12, set_at(0, 1_000_000)),
    "one array less": lambda arrays: written([np.array(a) for a in arrays][:-1]),
    "one array more": lambda arrays: written([*map(np.array, arrays), np.zeros(1)]),
    "longer than it is": lambda arrays: written(arrays).replace(b"'shape': (20,), ", b"'shape': (99999999999999,), ", 1),
    "cut off": lambda arrays: written(arrays)[:-10],
    "nothing": lambda _: b"",
    "something else": lambda _: os.urandom(5000),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_that_cannot_be_is_made_anew_and_that_is_said_once(folder, kind):
    """The process does not end in the native code of NumPy and SciPy, and answers as before."""
    expected, silent = asked(folder)
    file = file_of(folder, "network.*.arrays")
    bad = NETWORKS[kind](mapped_arrays(file))
    good = file.read_bytes()
    file.write_bytes(bad)
    found, said = asked(folder)

    assert silent == ""
    assert found == expected
    assert said.count("is made anew") == 1, said
    assert file.read_bytes() == good
    assert asked(folder) == (expected, "")


def test_a_network_that_is_no_file_is_not_waited_for(folder):
    """A pipe, or a link to what has no end, holds up no question."""
    expected, _ = asked(folder)
    file = file_of(folder, "network.*.arrays")
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        file.unlink()
        make(file)
        found, said = asked(folder)
        assert found == expected
        assert "is made anew" in said


def test_a_walk_over_mapped_arrays_is_one_over_those_in_memory(folder):
    """What is read back from the file is the network that was written, to the last number."""
    with closing(open_index(folder)) as db:
        kept = network._read(file_of(folder, "network.*.arrays"))
        made = network._network(network.count_all(db))
    start = ({0: 1.0}, {3: 1.0}, {3: {0: 1.0}})
    assert kept is not None
    assert (walk(kept, *start) == walk(made, *start)).all()


def at_number(data, n, value):
    return data[:n] + value + data[n + len(value) :]


def another(width, lists, kind="IVF4,Flat"):
    """A sound FAISS file, of another layout."""
    index = faiss.index_factory(width, kind, faiss.METRIC_INNER_PRODUCT)
    index.train(about(lists * 64, 3)[:, :width].copy())
    index.add(about(300, 4)[:, :width].copy())
    return bytes(faiss.serialize_index(index))


FAISS = {
    "another width": lambda data: at_number(data, 4, (1 << 30).to_bytes(4, "little")),
    "more vectors": lambda data: at_number(data, 8, (1 << 40).to_bytes(8, "little")),
    "not trained": lambda data: at_number(data, 32, b"\0"),
    "another metric": lambda data: at_number(data, 33, (23).to_bytes(4, "little")),
    "endless lists": lambda data: at_number(data, 37, (1 << 60).to_bytes(8, "little")),
    "lists longer than the file": lambda data: lists_of(data, lambda sizes: [sizes[0] + 100_000, *sizes[1:]]),
    "negative lists": lambda data: lists_of(data, lambda sizes: [2**64 - 5, *sizes[1:]]),
    "another layout": lambda _: another(32, 4),
    "a flat index": lambda _: another(32, 4, "Flat"),
    "a graph of neighbours": lambda _: another(32, 4, "HNSW8"),
    "cut off": lambda data: data[:-40],
    "only its head": lambda data: data[:64],
    "something else": lambda data: os.urandom(len(data)),
}  # fmt: skip


def lists_of(data, change):
    """The file with other lengths of its lists."""
    at = data.index(b"ilar") + 4 + 16 + 4
    count = int.from_bytes(data[at : at + 8], "little")
    sizes = np.frombuffer(data, "<u8", count, at + 8).tolist()
    return at_number(data, at + 8, np.array(change(sizes), "<u8").tobytes())


@pytest.mark.parametrize("kind", FAISS)
def test_a_faiss_file_that_cannot_be_is_not_read_and_that_is_said_once(folder, kind):
    """FAISS never sees it: vectors are compared one by one, with the same result, until the index is brought up to date."""
    expected, _ = asked(folder)
    file = file_of(folder, "chunk.*.faiss")
    file.write_bytes(FAISS[kind](file.read_bytes()))
    with closing(open_index(folder, create=True)) as db:
        with db.atomic():
            db.execute("UPDATE vector_files SET size = ?", [file.stat().st_size])
        found, said = asked(folder)
        vector_index.bring_up_to_date(db)

    assert [one[0] for one in found[1]] == [one[0] for one in expected[1]]
    assert said.count("is not used") == 1, said
    assert asked(folder)[1] == ""
    assert not file.exists()


@pytest.mark.parametrize("name", ["../secret.faiss", "/dev/zero", "chunk.0123456789abcdef.faiss"])
def test_an_index_names_no_file_elsewhere_for_its_vectors(folder, name):
    """A path out of the folder and a link are not opened, whatever size the database has for them."""
    file = file_of(folder, "chunk.*.faiss")
    (folder.parent / "secret.faiss").write_bytes(file.read_bytes())
    if name.startswith("chunk"):
        (folder / name).symlink_to(folder.parent / "secret.faiss")
    with closing(open_index(folder, create=True)) as db, db.atomic():
        db.execute("UPDATE vector_files SET file = ?", [name])
    found, said = asked(folder)

    assert len(found[1]) == 5
    assert "is not used" in said


def test_the_layout_that_is_demanded_is_the_one_that_faiss_writes(folder):
    """Also with lists that are empty, which FAISS writes in another way."""
    file = file_of(folder, "chunk.*.faiss")
    with file.open("rb") as f:
        check_file(f, file.stat().st_size, 3000)
    width, few = 32, about(64, 5)
    index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(width), width, 16, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(few)
    for n in (0, 2):
        index.add_with_ids(few[:n], np.arange(n))
        data = bytes(faiss.serialize_index(index))
        check_file(io.BytesIO(data), len(data), n)
