"""One file carries an index: what comes out is what went in, and a file with anything wrong in it leaves nothing behind."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localrag.errors import IndexMismatch, LocalragError, UsageError
from localrag.exchange.pack import UNPACK_FOLDER, pack_index, unpack_index, verify_pack
from localrag.store.opening import open_index
from localrag.system.files import temp_folder
from localrag.system.installation import upgrade_hint
from tests.conftest import run_localrag

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def packed(plain_town, tmp_path_factory):
    """A pack of the town with its documents."""
    return pack_index(tmp_path_factory.mktemp("packs") / "town.localrag", plain_town, documents=True).path


def everything(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def sealed(path, members, *, manifest=None, infos=()):
    """A pack as somebody who means harm would write it: any members, but hashes that hold."""
    listed = {name: {"size": len(data), "sha256": sha256(data).hexdigest()} for name, data in members.items()}
    whole = {"format": 1, "localrag": "0", "documents": 0, "members": listed} | (manifest or {})
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(next((i for i in infos if i.filename == name), name), data, zipfile.ZIP_DEFLATED)
        archive.writestr("manifest.json", json.dumps(whole))
    return path


def test_an_index_is_carried_to_another_folder_and_answers_there(packed, plain_town, tmp_path):
    """The answer and its verbatim citations are those of the original; documents come along where they were packed."""
    done = run_localrag("unpack", str(packed), "there", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    question = ("ask", "Who bought the ferry Skua?", "--json", "--no-history")  # the town is shared with other tests
    before = json.loads(run_localrag(*question, cwd=plain_town).stdout)
    after = json.loads(run_localrag(*question, cwd=tmp_path / "there").stdout)

    assert after["answer"] == before["answer"]
    assert [c["quote"] for c in after["citations"]] == [c["quote"] for c in before["citations"]] != []
    assert (tmp_path / "there" / "docs" / "a.md").read_bytes() == (plain_town / "docs" / "a.md").read_bytes()
    assert run_localrag("check", cwd=tmp_path / "there").returncode == 0
    again = run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path / "there")
    assert again.returncode == 0
    assert not open_index(tmp_path / "there" / ".localrag").execute("SELECT count(*) FROM staged_documents").fetchone()[0]


@pytest.mark.ci
def test_documents_that_were_not_packed_are_not_taken_for_deleted(plain_town, tmp_path):
    """Indexing the folder they came from, which is missing on the new machine, keeps them."""
    unpack_index(pack_index(tmp_path / "a.localrag", plain_town).path, tmp_path / "there")
    docs = tmp_path / "there" / "docs"
    for state, expected in (("missing", 3), ("empty", 3), ("with one new file", 4)):
        if state != "missing":
            docs.mkdir(exist_ok=True)
        if expected == 4:
            (docs / "new.txt").write_text("Ola Berg sold the lamp to Ingrid Holm.")
        run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path / "there")
        db = open_index(tmp_path / "there" / ".localrag")
        assert db.execute("SELECT count(*) FROM documents").fetchone()[0] == expected, state
        db.close()


def test_a_pack_is_private_and_holds_neither_keys_nor_caches(plain_town, tmp_path):
    """Only its owner may read it; serve.key, FAISS files and locks stay behind, the user's decisions on names come along."""
    shutil.copytree(plain_town, tmp_path / "town")
    folder = tmp_path / "town" / ".localrag"
    (folder / "serve.key").write_text("secret")
    (folder / "aliases.txt").write_text("Skua = Ferry Skua\n")
    made = pack_index(tmp_path / "a.localrag", tmp_path / "town")

    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert {*zipfile.ZipFile(made.path).namelist()} == {"index/index.db", "index/aliases.txt", "manifest.json"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.localrag", "town"]
    unpack_index(made.path, tmp_path / "there")
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "there" / ".localrag").iterdir()}
    assert modes == {0o600}


def test_a_pack_made_while_another_process_writes_is_of_one_moment(plain_town, tmp_path):
    """An open transaction of the writer is not in it."""
    shutil.copytree(plain_town, tmp_path / "town")
    db = open_index(tmp_path / "town" / ".localrag", create=True)
    db.conn.execute("BEGIN IMMEDIATE")
    db.conn.execute("UPDATE documents SET title = 'half done'")
    made = pack_index(tmp_path / "a.localrag", tmp_path / "town")
    db.conn.execute("ROLLBACK")
    db.close()
    unpack_index(made.path, tmp_path / "there")

    titles = open_index(tmp_path / "there" / ".localrag").execute("SELECT DISTINCT title FROM documents").fetchall()
    assert ("half done",) not in titles


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_pack_with_any_bit_flipped_is_refused_or_says_the_same(packed, tmp_path, data):
    """Wherever the bit is: contents, names, headers or manifest; one that no content depends on changes nothing."""
    content = bytearray(packed.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1) | st.integers(len(content) - 400, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    (tmp_path / "flipped").write_bytes(content)
    try:
        found = verify_pack(tmp_path / "flipped")
    except LocalragError:
        with pytest.raises(LocalragError):
            unpack_index(tmp_path / "flipped", tmp_path / "there")
        assert everything(tmp_path) == ["flipped"]
    else:
        assert found == verify_pack(packed)


@pytest.mark.parametrize("kept", [0, 10, 0.5, -1])
def test_a_pack_that_was_cut_off_is_refused(packed, tmp_path, kept):
    """At its beginning, its middle or its last byte."""
    content = packed.read_bytes()
    (tmp_path / "cut").write_bytes(content[: int(len(content) * kept) if isinstance(kept, float) else kept])

    with pytest.raises(LocalragError, match="truncated"):
        unpack_index(tmp_path / "cut", tmp_path / "there")
    assert everything(tmp_path) == ["cut"]


def test_links_unlisted_members_and_false_sizes_are_refused(database, tmp_path):
    """A link, a member more or less, another size or content than listed, and an index that is none."""
    link = zipfile.ZipInfo("documents/a")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    good = {"index/index.db": database}
    size, digest = len(database), sha256(database).hexdigest()
    bad = [
        sealed(tmp_path / "a", good | {"documents/a": b"/etc/passwd"}, infos=[link]),
        sealed(tmp_path / "b", good | {"documents/a": b"x"}, manifest={"members": {"index/index.db": {"size": size, "sha256": digest}}}),
        sealed(tmp_path / "c", good, manifest={"members": {"index/index.db": {"size": size - 1, "sha256": digest}}}),
        sealed(tmp_path / "d", good, manifest={"members": {"index/index.db": {"size": size, "sha256": "0" * 64}}}),
        sealed(tmp_path / "e", good, manifest={"members": []}),
        sealed(tmp_path / "f", {"documents/a": b"x"}),
        sealed(tmp_path / "g", {"index/index.db": b"no database" * 100}),
    ]
    for file in bad:
        with pytest.raises(LocalragError):
            unpack_index(file, tmp_path / "there")
        assert not (tmp_path / "there").exists()


def test_a_bomb_is_refused_before_it_is_unpacked(database, tmp_path, monkeypatch):
    """What unpacks to more than the disk has room for writes not one byte."""
    file = sealed(tmp_path / "bomb", {"index/index.db": database, "documents/zeros": bytes(30_000_000)})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 30, 1 << 30, 10_000_000))

    assert file.stat().st_size < 3_000_000
    with pytest.raises(LocalragError, match="free"):
        unpack_index(file, tmp_path / "there")
    assert everything(tmp_path) == ["bomb"]


def test_a_member_that_is_larger_than_it_says_is_refused(database, tmp_path):
    """Where header and manifest agree on a lie, the stream is not read further than they say."""
    file = sealed(tmp_path / "lie", {"index/index.db": database, "documents/a": bytes(1_000_000)})
    content = file.read_bytes().replace((1_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    content = content.replace(b'"size": 1000000', b'"size": 1000   ')
    file.write_bytes(content.replace(sha256(bytes(1_000_000)).hexdigest().encode(), sha256(bytes(1000)).hexdigest().encode()))

    with pytest.raises(LocalragError):
        unpack_index(file, tmp_path / "there")
    assert everything(tmp_path) == ["lie"]


def test_packs_and_indexes_of_a_newer_localrag_are_refused(database, plain_town, tmp_path):
    """Each with the command that upgrades."""
    with pytest.raises(LocalragError, match="newer localrag") as newer:
        unpack_index(sealed(tmp_path / "a", {"index/index.db": database}, manifest={"format": 2}), tmp_path / "there")
    assert newer.value.hint == upgrade_hint()
    shutil.copytree(plain_town, tmp_path / "town")
    db = open_index(tmp_path / "town" / ".localrag", create=True)
    db.execute("PRAGMA user_version = 999")
    db.close()
    with (tmp_path / "town" / ".localrag" / "index.db").open("rb") as f:
        file = sealed(tmp_path / "b", {"index/index.db": f.read()})
    with pytest.raises(IndexMismatch):
        unpack_index(file, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_nothing_is_overwritten(packed, plain_town, tmp_path):
    """Neither a pack, nor an index, nor a document."""
    with pytest.raises(UsageError):
        pack_index(packed, plain_town)
    unpack_index(packed, tmp_path / "there")
    with pytest.raises(UsageError, match="index in"):
        unpack_index(packed, tmp_path / "there")
    shutil.rmtree(tmp_path / "there" / ".localrag")
    with pytest.raises(UsageError, match="already"):
        unpack_index(packed, tmp_path / "there")


KILLED = """
import os, signal, sys
from pathlib import Path
from localrag.exchange import pack
def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)
pack.update_cache_files = die  # every member is written by then
pack.unpack_index(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.ci
def test_what_a_killed_unpack_left_goes_with_the_next(packed, tmp_path):
    """Also where the next one is refused; the place of one that still runs is left alone, and so is what others named alike."""
    there = tmp_path / "there"
    call = [sys.executable, "-c", KILLED, str(packed), str(there)]

    def kill_one():
        assert subprocess.run(call, cwd=ROOT, env=os.environ, check=False).returncode == -signal.SIGKILL
        return [p for p in there.iterdir() if p.name.startswith(".localrag-unpack-")]

    (left,) = kill_one()
    assert (left / "index" / "index.db").is_file()
    with temp_folder(there, UNPACK_FOLDER) as running:
        foreign = there / ".localrag-unpack-notes"
        foreign.mkdir()
        assert unpack_index(packed, there).folder == there / ".localrag"
        assert sorted(p.name for p in there.iterdir()) == sorted([".localrag", "docs", foreign.name, running.name])
    foreign.rmdir()
    shutil.rmtree(there)
    kill_one()
    (there / ".localrag").mkdir()
    with pytest.raises(UsageError, match="index in"):
        unpack_index(packed, there)
    assert everything(there) == [".localrag"]


def test_check_verifies_and_writes_nothing(packed, tmp_path):
    """`unpack_index --check` says what is in the file."""
    done = run_localrag("unpack", "--check", str(packed), "--json", cwd=tmp_path)

    assert done.returncode == 0
    assert json.loads(done.stdout)["folder"] is None
    assert json.loads(done.stdout)["files"] == 3
    assert everything(tmp_path) == []
