"""Hostile and damaged cache files do not crash the process; each is built again, with one warning."""

import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from unittest import mock

import faiss
import numpy as np
import pytest

from localrag.errors import UsageError
from localrag.pagerank import personalized_pagerank
from localrag.records import Chunk, Document
from localrag.store import documents, entity_network, vectors
from localrag.store.opening import open_index
from localrag.store.vectors import check_index_file, mapped_arrays
from localrag.system.trust import record_cache_file
from tests.store.test_vectors import about, put

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 120  # seconds of a process that asks
ASKED = """
import json, os, sys
from pathlib import Path
import numpy as np
from localrag.pagerank import personalized_pagerank
from localrag.store import entity_network, vectors
from localrag.store.database import keep_caches
from localrag.store.opening import open_index
vectors.INDEX_FROM_VECTORS = 500
query = np.ones(32, np.float32) / np.float32(32) ** 0.5
for name in sys.argv[1:]:
    folder = Path(name)
    said = os.open(folder.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 2)
    os.close(said)
    db = open_index(folder)
    with keep_caches(folder):
        for _ in range(2):
            net = entity_network.load_entity_network(db, folder)
        found = personalized_pagerank(net, {0: 1.0}, {0: 1.0}, {0: {0: 1.0}})
        near = [vectors.nearest(db, folder, "chunk", query, 5) for _ in range(2)]
    db.close()
    print(json.dumps([[round(float(x), 4) for x in found], near[0]]), flush=True)
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
    """A copy of it."""
    return own_copy(sound, tmp_path / "index")


def own_copy(sound, place, name="", content=b""):
    """A copy of an index whose files this machine has written, one of them with other contents: what its own disk may have damaged."""
    shutil.copytree(sound, place)
    if name:
        (place / name).write_bytes(content)
    for file in place.glob("*.*.*"):
        record_cache_file(file)
    return place


def asked_each(folders):
    """Query indexes one after the other in another process, the rest in a new one where one ends it: results and stderr of each.

    In place of the results of an index that ended the process stands its exit status; a negative one is a signal: SIGSEGV.
    """
    found = []
    while len(found) < len(folders):
        command = [sys.executable, "-c", ASKED, *map(str, folders[len(found) :])]
        done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=DEADLINE, check=False)
        found += map(json.loads, done.stdout.splitlines())
        if done.returncode:
            found.append(done.returncode)
    return [(one, (folder.parent / "said").read_text()) for one, folder in zip(found, folders, strict=True)]


def asked(folder):
    """Query the index in another process: its results and its stderr."""
    return asked_each([folder])[0]


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


@pytest.fixture(scope="module")
def bad_networks(sound, tmp_path_factory):
    """Of each kind: the file, what it holds after a question, and what two questions after each other found and said."""
    made, good = {}, file_of(sound, "network.*.arrays")
    for kind, bad in NETWORKS.items():
        place = tmp_path_factory.mktemp("network") / "index"
        made[kind] = own_copy(sound, place, good.name, bad(mapped_arrays(good))) / good.name
    first = asked_each([file.parent for file in made.values()])
    from_scratch = [file.read_bytes() == good.read_bytes() for file in made.values()]
    then = asked_each([file.parent for file in made.values()])
    return dict(zip(made, zip(first, from_scratch, then, strict=True), strict=True))


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_that_cannot_be_is_made_anew_and_that_is_said_once(bad_networks, expected, kind):
    """The process does not end in the native code of NumPy and SciPy, and answers as before."""
    (found, said), is_anew, then = bad_networks[kind]

    assert found == expected
    assert said.count("is built again") == 1, said
    assert is_anew
    assert then == (expected, "")


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
        assert mapped_or_none(file) is None


def mapped_or_none(file):
    """What is read of a file of arrays; None if it is refused."""
    try:
        return mapped_arrays(file)
    except (OSError, ValueError):
        return None


def test_a_walk_over_mapped_arrays_is_one_over_those_in_memory(folder):
    """What is read back from the file is the network that was written, to the last number."""
    with closing(open_index(folder)) as db:
        kept = entity_network._read_network(file_of(folder, "network.*.arrays"))
        made = entity_network._network(entity_network.count_all(db))
    start = ({0: 1.0}, {3: 1.0}, {3: {0: 1.0}})
    assert kept is not None
    assert (personalized_pagerank(kept, *start) == personalized_pagerank(made, *start)).all()


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


@pytest.fixture(scope="module")
def bad_faiss_files(sound, tmp_path_factory):
    """Of each kind: what a question found and said, what one says once the index was brought up to date, and whether the file is gone."""
    made, good = {}, file_of(sound, "chunk.*.faiss")
    for kind, bad in FAISS.items():
        made[kind] = own_copy(sound, tmp_path_factory.mktemp("faiss") / "index", good.name, bad(good.read_bytes())) / good.name
        with closing(open_index(made[kind].parent, create=True)) as db, db.atomic():
            db.execute("UPDATE vector_index_files SET size = ?", [made[kind].stat().st_size])
    first = asked_each([file.parent for file in made.values()])
    for file in made.values():
        with mock.patch.object(vectors, "INDEX_FROM_VECTORS", 500), closing(open_index(file.parent, create=True)) as db:
            vectors.update_indexes(db)
    then = asked_each([file.parent for file in made.values()])
    return {kind: (first[n], then[n][1], not file.exists()) for n, (kind, file) in enumerate(made.items())}


@pytest.mark.parametrize("kind", FAISS)
def test_a_faiss_file_that_cannot_be_is_not_read_and_that_is_said_once(bad_faiss_files, expected, kind):
    """FAISS never sees it: vectors are compared one by one, with the same result, until the index is brought up to date."""
    (found, said), then, gone = bad_faiss_files[kind]

    assert [one[0] for one in found[1]] == [one[0] for one in expected[1]]
    assert said.count("is not used") == 1, said
    assert then == ""
    assert gone


@pytest.mark.parametrize("name", ["../secret.faiss", "/dev/zero"])
def test_an_index_names_no_file_elsewhere_for_its_vectors(folder, name):
    """A path out of the folder is not opened, whatever size the database has for it."""
    file = file_of(folder, "chunk.*.faiss")
    (folder.parent / "secret.faiss").write_bytes(file.read_bytes())
    record_cache_file(folder.parent / "secret.faiss")
    with closing(open_index(folder, create=True)) as db, db.atomic():
        db.execute("UPDATE vector_index_files SET file = ?", [name])
    found, said = asked(folder)

    assert len(found[1]) == 5
    assert "is not used" in said


def test_the_layout_that_is_demanded_is_the_one_that_faiss_writes(folder):
    """Also with lists that are empty, which FAISS writes in another way."""
    file = file_of(folder, "chunk.*.faiss")
    with file.open("rb") as f:
        check_index_file(f, file.stat().st_size, 3000)
    width, few = 32, about(64, 5)
    index = faiss.IndexIVFScalarQuantizer(faiss.IndexFlatIP(width), width, 16, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1
    index.train(few)
    for n in (0, 2):
        index.add_with_ids(few[:n], np.arange(n))
        data = bytes(faiss.serialize_index(index))
        check_index_file(io.BytesIO(data), len(data), n)
