"""An index folder that came from somebody else: its schema, its links and what it says about the machine are not believed."""

import json
import os
import shutil
import sqlite3
from contextlib import closing, suppress

import pytest
from sqlite_utils import Database

from localrag.errors import IndexMismatch, LocalragError, UsageError
from localrag.exchange.pack import _documents, pack_index
from localrag.project import find_index, index_folder_or_default, is_own_place
from localrag.serve.context import error_response
from localrag.serve.mcp_server import _error_text
from localrag.store import entity_network, runs, vectors
from localrag.store.database import snapshot
from localrag.store.location import SCHEMA_HASH, schema_hash
from localrag.store.opening import open_index, writer_lock
from localrag.store.schema import SCHEMA_VERSION, current_schema, recompute_checksums
from localrag.system.trust import is_recorded_cache_file
from tests.conftest import run_localrag

SECRET = "The combination of the safe of Vardby is 4711."
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 1000)"  # without the limit it hangs
HOSTILE = {
    "a view in place of the settings": (
        "ALTER TABLE index_settings RENAME TO kept",
        f"CREATE VIEW index_settings AS {ENDLESS} SELECT key, value FROM kept, c",
    ),
    "a view in place of chunks": ("ALTER TABLE chunks RENAME TO kept", f"CREATE VIEW chunks AS {ENDLESS} SELECT kept.* FROM kept, c"),
    "a trigger": ("CREATE TRIGGER more AFTER INSERT ON answers BEGIN DELETE FROM documents; END",),
    "a trigger of localrag's that does more": (
        "DROP TRIGGER documents_title_updated",
        "CREATE TRIGGER documents_title_updated AFTER UPDATE ON documents BEGIN DELETE FROM chunks; END",
    ),
    "a table": ("CREATE TABLE more (a)",),
    "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5(a)",),
    "an index that computes": ("CREATE INDEX more ON chunks(zeroblob(length(text)))",),
    "a computed column": ("ALTER TABLE documents ADD COLUMN more AS (printf('%.*c', 9, 'x'))",),
    "a condition": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'mode TEXT NOT NULL', 'mode TEXT NOT NULL CHECK (length(mode) >= 0)')"
        " WHERE name = 'answers'",
    ),
    "a table less": ("DROP TABLE review_cells",),
}


@pytest.fixture
def clone(plain_town, tmp_path):
    """A folder with its index as a clone brings it."""
    shutil.copytree(plain_town, tmp_path / "clone")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "private.txt").write_text(SECRET)
    return tmp_path / "clone"


def edit(folder, *statements):
    """Change an index as somebody else does, with SQLite alone."""
    with closing(sqlite3.connect(folder / ".localrag" / "index.db", isolation_level=None)) as db:
        for statement in statements:
            db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)


def set_field(folder, name, value):
    edit(folder, ("UPDATE index_settings SET value = json_set(value, ?, json(?)) WHERE key = 'settings'", [f"$.{name}", json.dumps(value)]))


def texts(folder):
    with closing(sqlite3.connect(folder / ".localrag" / "index.db")) as db:
        return " ".join(text for (text,) in db.execute("SELECT text FROM documents"))


WAYS_IN = (open_index, lambda f: snapshot(f).__enter__(), lambda f: open_index(f, create=True))


# The schema


@pytest.mark.parametrize("kind", HOSTILE)
def test_an_index_with_another_schema_is_not_read(clone, kind):
    """Whatever runs by itself in a database is found before a table is read, by every way in; the rows are kept by a repair."""
    edit(clone, *HOSTILE[kind])
    folder = clone / ".localrag"
    for way_in in WAYS_IN:
        with pytest.raises((LocalragError, sqlite3.DatabaseError), match="schema is not localrag's own"):
            way_in(folder)
    refused = run_localrag("status", cwd=clone)
    repaired = run_localrag("check", "--repair", cwd=clone)
    shown = run_localrag("status", "--json", cwd=clone)

    assert refused.returncode == 1
    assert "localrag check --repair" in refused.stderr.partition("→")[2]
    assert repaired.returncode == 0, repaired.stderr
    assert json.loads(shown.stdout)["documents"] == 3


def test_the_schema_of_this_version_is_known_by_its_hash():
    """The hash is what makes the comparison cheap; who changes the schema changes it too."""
    assert schema_hash(current_schema()) == SCHEMA_HASH


def test_an_index_of_an_older_schema_is_refused_with_the_command_that_builds_it_anew(tmp_path):
    """One sentence says what is lost; the command keeps the old folder, and nothing of it is changed before."""
    folder = tmp_path / ".localrag"
    folder.mkdir()
    open_index(folder, create=True).close()
    edit(tmp_path, f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    content = (folder / "index.db").read_bytes()
    for way_in in WAYS_IN:
        with pytest.raises(IndexMismatch, match="none of its conversations, review decisions, merges and collections") as refused:
            way_in(folder)
        assert refused.value.hint == f"Build it anew: mv {folder} {folder}.old && localrag index PATH"

    assert (folder / "index.db").read_bytes() == content
    edit(tmp_path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(IndexMismatch, match="newer localrag"):
        open_index(folder)


def test_a_database_of_another_program_is_no_index(tmp_path):
    """It is named, and nothing is added to it."""
    (tmp_path / ".localrag").mkdir()
    edit(tmp_path, "CREATE TABLE letters (text)")
    with pytest.raises(LocalragError, match="not a usable index"):
        open_index(tmp_path / ".localrag", create=True)
    with closing(sqlite3.connect(tmp_path / ".localrag" / "index.db")) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("letters",)]


# Links


def test_an_index_folder_that_is_a_link_is_taken_only_by_name(clone, tmp_path, monkeypatch):
    """Otherwise a clone would write its documents into the index of another project, or begin one in a folder of the user's."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "z.md").write_text("Zelda Zorn sells ropes.")
    link = tmp_path / "other" / ".localrag"
    for target in (clone / ".localrag", tmp_path / "home", tmp_path / "nowhere"):
        link.symlink_to(target)
        refused = run_localrag("index", ".", cwd=tmp_path / "other")
        monkeypatch.chdir(tmp_path / "other")
        with pytest.raises(UsageError, match="is a link"):
            index_folder_or_default(None)
        if target == clone / ".localrag":
            with pytest.raises(UsageError, match="is a link"):
                find_index(tmp_path / "other")
        assert refused.returncode == 2
        assert f"--index {link}" in refused.stderr
        assert "Zelda" not in texts(clone)
        link.unlink()
    link.symlink_to(clone / ".localrag")

    assert find_index(link) == clone / ".localrag"
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["private.txt"]


@pytest.mark.parametrize(
    "name", ["index.db", "writer.lock", "index.db-wal", "index.db-journal", "index.db.before-repair.part", "serve.key"]
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_file_of_an_index_that_is_a_link_or_a_pipe_is_refused(clone, tmp_path, name, kind):
    """localrag would write to the user's file behind the link, or wait for ever; the file is named."""
    place, target = clone / ".localrag" / name, tmp_path / "home" / "private.txt"
    if name == "index.db":
        target = shutil.move(place, tmp_path / "home" / "moved.db")
    place.unlink(missing_ok=True)
    before = target.read_bytes()
    if kind == "link":
        place.symlink_to(target)
    else:
        os.mkfifo(place)
    folder = clone / ".localrag"
    for way_in in (*WAYS_IN, lambda f: writer_lock(f).__enter__()):
        with pytest.raises(UsageError, match=f"{name} .*no file of its own"):
            way_in(folder)
    refused = run_localrag("index", "docs", cwd=clone)

    assert refused.returncode == 2
    assert target.read_bytes() == before


def test_a_users_own_file_beside_an_index_may_be_a_link(clone, tmp_path):
    """domain.toml is read and never written through: many keep one for several projects."""
    (tmp_path / "domain.toml").write_text('persona = "a clerk"\n')
    (clone / ".localrag" / "domain.toml").symlink_to(tmp_path / "domain.toml")

    assert run_localrag("status", cwd=clone).returncode == 0


# What an index says about the machine


@pytest.mark.ci
def test_an_index_does_not_decide_that_links_are_followed(clone, tmp_path):
    """The run asks once, and nothing is read or lost; a choice counts for this index in this folder, also in a later version of it."""
    (clone / "docs" / "more").symlink_to(tmp_path / "home")
    set_field(clone, "follow_links", True)
    refused = [run_localrag("index", "docs", *options, cwd=clone) for options in ((), ("--plan",))]
    others = [run_localrag(*words, cwd=clone) for words in (("status",), ("rm", "docs/b.txt"), ("gc",))]
    before = texts(clone)
    stayed = run_localrag("index", "docs", "--no-follow-links", cwd=clone)
    without = texts(clone)
    set_field(clone, "follow_links", True)
    again = run_localrag("index", "docs", cwd=clone)
    agreed = run_localrag("index", "docs", "--follow-links", cwd=clone)
    known = run_localrag("index", "docs", cwd=clone)
    shutil.copytree(clone, tmp_path / "copy", symlinks=True)
    elsewhere = run_localrag("index", "docs", cwd=tmp_path / "copy")

    assert [r.returncode for r in (*refused, again, elsewhere)] == [2, 2, 2, 2], refused[0].stderr
    assert "--follow-links" in refused[0].stderr.partition("→")[2]
    assert [r.returncode for r in others] == [0, 0, 0]
    assert SECRET not in before + without
    assert [r.returncode for r in (stayed, agreed, known)] == [0, 0, 0], agreed.stderr
    assert SECRET in texts(clone)


@pytest.mark.ci
def test_places_outside_the_folder_are_an_indexs_own_only_where_it_was_read(clone, tmp_path):
    """A place that the index names, or one behind a link in its folder, is not; what was indexed here is, as long as the index stays."""
    home = tmp_path / "home"
    (clone / "docs" / "more").symlink_to(home)
    edit(clone, ("INSERT OR REPLACE INTO index_settings VALUES ('source_paths', ?)", [json.dumps(["docs", str(home), "docs/more"])]))
    with snapshot(clone / ".localrag") as db:
        before = [is_own_place(db, clone, path) for path in (clone / "docs", home, home / "private.txt", clone / "docs/more/private.txt")]
        packed, left_out = _documents(["docs/a.md", "docs/more/private.txt"], clone, db)
    done = run_localrag("index", "docs", "../home", cwd=clone)
    with snapshot(clone / ".localrag") as db:
        after = [is_own_place(db, clone, path) for path in (home, home / "private.txt", tmp_path)]
    shutil.copytree(clone, tmp_path / "copy", symlinks=True)
    with snapshot(tmp_path / "copy" / ".localrag") as db:
        copied = is_own_place(db, tmp_path / "copy", home)

    assert done.returncode == 0, done.stderr
    assert before == [True, False, False, False]
    assert ([*packed], [path for path, _ in left_out]) == (["docs/a.md"], ["docs/more/private.txt"])
    assert after == [True, True, False]
    assert not copied


def test_the_id_of_an_index_does_not_leave_the_machine(clone, tmp_path):
    """It names what was chosen for the index here; a pack has none, not even in a free page."""
    with closing(open_index(clone / ".localrag")) as db:
        index_id = runs.load_settings(db)["id"]
    made = pack_index(tmp_path / "town.localrag", clone)
    shutil.unpack_archive(made.path, tmp_path / "unpacked", "zip")

    assert index_id.encode() not in (tmp_path / "unpacked" / "index" / "index.db").read_bytes()
    with closing(open_index(clone / ".localrag")) as db:
        assert runs.load_settings(db)["id"] == index_id


def test_a_cache_that_this_machine_did_not_write_is_made_anew(clone, tmp_path):
    """Neither one that came with the folder nor one that was changed in place; the one that is made is taken, also after a move."""
    folder = clone / ".localrag"

    def network(folder):
        with closing(open_index(folder)) as db:
            entity_network.load_entity_network(db, folder)
            return entity_network.current_cache_files(db, folder)[0]

    file = network(folder)
    own = is_recorded_cache_file(file)
    copied = is_recorded_cache_file(shutil.copy2(file, tmp_path / "copied"))
    state = file.stat()
    with file.open("r+b") as f:
        f.write(b"\0")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    changed = is_recorded_cache_file(file)
    made = network(folder)
    clone.rename(tmp_path / "moved")

    assert (own, copied, changed) == (True, False, False)
    assert is_recorded_cache_file(tmp_path / "moved" / ".localrag" / made.name)
    assert made.read_bytes()[:1] != b"\0" if made.exists() else True


# Contents


def test_the_server_tells_damage_from_a_request_that_is_wrong(clone):
    """A client hears that the index is damaged, and never that its own request was; a wrong request costs no look at the index."""
    edit(clone, ("UPDATE index_settings SET value = ? WHERE key = 'settings'", [DEEP]))
    with pytest.raises(RecursionError) as deep, snapshot(clone / ".localrag") as db:
        runs.load_settings(db)
    edit(clone, "UPDATE embeddings SET vector = x'0102030405'")
    with pytest.raises(ValueError, match="buffer size") as cut, snapshot(clone / ".localrag") as db:
        list(vectors.vector_batches(db, "chunk"))
    request = ValueError("`n` can only be 1.")

    for damage in (deep.value, cut.value):
        assert "is damaged" in error_response(damage).body.decode()
        assert "localrag check" in _error_text(damage)
    assert error_response(request).status_code == 400
    assert _error_text(request) == "`n` can only be 1."


DEEP = "[" * 100_000 + "]" * 100_000
VALUES = {
    "deep JSON in a setting": "UPDATE index_settings SET value = :deep WHERE key = 'settings'",
    "deep JSON of a document": "UPDATE documents SET parts = :deep",
    "no JSON": "UPDATE chunks SET headings = 'x'",
    "a number for a list": "UPDATE documents SET metadata = '5'",
    "a list for an object": "UPDATE index_settings SET value = '[1]' WHERE key = 'chat_model'",
    "a text for a number": "UPDATE chunks SET start = 'here', ordinal = 'first'",
    "a blob for a text": "UPDATE chunks SET text = x'ff00', tokens = x'ff00'",
    "no UTF-8": "UPDATE documents SET title = cast(x'ff41' AS TEXT)",
    "a number beyond 64 bits": "UPDATE chunks SET tokens = 1e300, start = 1e300, end = 9e300",
    "a full-text index with pieces missing": "DELETE FROM chunks_fts_data WHERE id > 10",
    "a full-text index of noise": "UPDATE chunks_fts_data SET block = randomblob(40)",
    "vectors cut off": "UPDATE embeddings SET vector = x'0102030405'",
    "vectors of two numbers": "UPDATE embeddings SET vector = x'0102030405060708'",
    "vectors of text": "UPDATE embeddings SET vector = 'near'",
    "sentences that lie nowhere": "UPDATE sentence_spans SET spans = x'ff'",
    "a version of words": "UPDATE sentence_spans SET splitter_version = 'x'",
    "an answer that is none": "INSERT INTO answers (question, mode, answer_json) VALUES ('q', 'mix', '7')",
    "a run of words": "INSERT INTO runs (pid, state, progress, engine_metrics) VALUES ('x', 5, '[]', 'x')",
}
COMMANDS = (
    ("status",),
    ("search", "Who bought the ferry Skua?"),
    ("ask", "Who bought the ferry Skua?", "--style", "extractive"),
    ("logs",),
    ("files",),
    ("tree",),
    ("index", "docs"),
    ("check",),
)


@pytest.mark.ci
@pytest.mark.parametrize("recomputed", [False, True], ids=["changed", "changed with its check sums"])
@pytest.mark.parametrize("kind", VALUES)
def test_contents_of_another_kind_end_in_a_sentence(clone, kind, recomputed):
    """No command calls them unexpected: each works without them, or says that the index is damaged and which command helps."""
    if recomputed:
        edit(clone, (VALUES[kind], {"deep": DEEP}))
        with closing(sqlite3.connect(clone / ".localrag" / "index.db")) as db, suppress(sqlite3.OperationalError):
            recompute_checksums(Database(db))
    else:
        edit(clone, (VALUES[kind], {"deep": DEEP}))
    for command in COMMANDS:
        done = run_localrag(*command, cwd=clone)
        assert "unexpected" not in done.stderr, (command, done.stderr)
        assert done.returncode in (0, 1, 5), (command, done.stderr)
        if done.returncode and command != ("check",):
            assert "localrag check" in done.stderr + done.stdout, (command, done.stderr)
