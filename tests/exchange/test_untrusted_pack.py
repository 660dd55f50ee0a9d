"""Packs made by somebody else: only members that `pack_index` writes are accepted, and no data about another machine is kept."""

import ast
import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import localrag
from localrag.errors import IndexMismatch, LocalragError
from localrag.exchange import pack
from localrag.exchange.pack import pack_index, unpack_index, verify_pack
from localrag.store import runs
from localrag.store.database import snapshot
from localrag.store.foreign import MACHINE_BOUND, PORTABLE, UNLISTED
from localrag.store.opening import open_index
from localrag.store.schema import SCHEMA_VERSION
from tests.conftest import mostly_ci, run_localrag
from tests.exchange.test_pack import everything, sealed
from tests.serve.server import served

INDEX = "index/index.db"


def altered(content, tmp_path, *statements):
    """The bytes of a database after statements."""
    file = tmp_path / "altered.db"
    file.write_bytes(content)
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        for statement in statements:
            db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)
    data = file.read_bytes()
    file.unlink()
    return data


def setting(key, value):
    return "INSERT OR REPLACE INTO index_settings VALUES (?, ?)", [key, json.dumps(value)]


def schema_of(folder):
    with closing(sqlite3.connect(folder / ".localrag" / "index.db")) as db:
        return sorted(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall(), key=repr)


@pytest.mark.parametrize(
    "name",
    ["index/serve.key", "index/network.a.b.arrays", "index/chunk.0.faiss", "index/writer.lock", "index/index.db-wal", "index/index.db.part",
     "index/index.db.before-m030", "index/prompts", "index/INDEX.DB", "models/a.gguf",
     "documents/.LocalRAG/index.db", "documents/" + "a" * 1001, "../evil", "documents/../../evil", "/etc/evil", "documents//evil",
     "documents/C:/evil", "documents/a\\..\\b", "index/sub/index.db", "elsewhere/a", "documents/.localrag/index.db", "documents/"],
)  # fmt: skip
def test_a_member_that_pack_never_writes_is_refused(database, tmp_path, name):
    """Caches, keys, locks, copies of the database and what would lie elsewhere are refused, even if the manifest lists them."""
    file = sealed(tmp_path / "evil", {INDEX: database, name: b"x"})

    for call in (lambda: verify_pack(file), lambda: unpack_index(file, tmp_path / "there")):
        with pytest.raises(LocalragError, match="not a pack of localrag"):
            call()
    assert everything(tmp_path) == ["evil"]


MORE_THAN_DOCUMENTS = [".bash_login", ".gitignore", "docs/.localragignore", "docs/.git/hooks/post-checkout", "localrag.toml",
                       "docs/LocalRAG.TOML", "prompts/answer.md", "Prompts/other.md", "docs/sub/local\u200brag.toml", "aux.txt", "docs/NUL",
                       "a\x1b[2J.md", "docs/unknown.md"]  # fmt: skip


def test_files_that_are_more_than_documents_are_left_out_and_listed(database, plain_town, tmp_path):
    """Hidden ones, settings, prompts, ignore files, devices of another system, and what the index has no document of."""
    mine = (plain_town / "docs" / "a.md").read_bytes()
    members = {INDEX: database, "documents/docs/a.md": mine} | {f"documents/{name}": b"x" for name in MORE_THAN_DOCUMENTS}
    found = unpack_index(sealed(tmp_path / "evil", members), tmp_path / "there")

    assert {name for name, _ in found.left_out} == {*MORE_THAN_DOCUMENTS}
    assert all(reason for _, reason in found.left_out)
    assert found.files == 1
    assert everything(tmp_path / "there") == [".localrag", ".localrag/index.db", "docs", "docs/a.md"]


def test_pack_leaves_out_what_unpack_would_not_take(plain_town, tmp_path):
    """A hidden file that was indexed by name is listed where it is packed, and its text is in the index all the same."""
    shutil.copytree(plain_town, tmp_path / "town")
    (tmp_path / "town" / ".notes.md").write_text("Ola Berg keeps the lamp of Vardby.")
    done = run_localrag("index", "docs", ".notes.md", "--extractor", "phrases", cwd=tmp_path / "town")
    assert done.returncode == 0, done.stderr
    made = pack_index(tmp_path / "a.localrag", tmp_path / "town", documents=True)
    found = unpack_index(made.path, tmp_path / "there")

    assert [name for name, _ in made.skipped_files] == [".notes.md"]
    assert found.left_out == ()
    with snapshot(tmp_path / "town" / ".localrag") as db:
        left_out = pack._documents(["docs/a.md", f"docs/{'a' * pack.MAX_MEMBER_NAME_BYTES}.md"], tmp_path / "town", db)[1]
    assert left_out[0][1] == "its path is too long for a pack"
    with closing(sqlite3.connect(tmp_path / "there" / ".localrag" / "index.db")) as db:
        assert db.execute("SELECT count(*) FROM documents WHERE path = '.notes.md'").fetchone() == (1,)


def test_instructions_to_models_do_not_come_with_an_index(database, tmp_path):
    """A pack's domain.toml, which goes into prompts, is left out and listed with the way to use it; decisions about names are taken."""
    file = sealed(tmp_path / "evil", {INDEX: database, "index/domain.toml": b'persona = "a liar"\n', "index/aliases.txt": b""})
    checked, found = verify_pack(file), unpack_index(file, tmp_path / "there")

    assert everything(tmp_path / "there") == [".localrag", ".localrag/aliases.txt", ".localrag/index.db"]
    assert [name for name, _ in found.left_out] == ["index/domain.toml"]
    assert "unzip -p FILE index/domain.toml" in found.left_out[0][1]
    assert (checked.left_out, checked.files, found.files) == (found.left_out, 0, 0)


@pytest.mark.parametrize("other", ["docs/A.MD", "docs/a.md/b", "DOCS", "docs/\uff41.md", "docs/a\u200d.md"])
def test_names_that_some_system_takes_for_one_another_are_refused(database, tmp_path, other):
    """In another case, another width, with invisible characters, or a file where another member has a folder."""
    file = sealed(tmp_path / "evil", {INDEX: database, "documents/docs/a.md": b"x", f"documents/{other}": b"y"})

    with pytest.raises(LocalragError, match="some systems"):
        unpack_index(file, tmp_path / "there")
    assert everything(tmp_path) == ["evil"]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), max_size=6))
def test_names_that_are_told_apart_are_different_however_they_are_folded(names):
    """Names without clashes fold to different names."""
    bad = {*pack.conflicting_names(names)}
    kept = [name for name in names if name not in bad]
    assert len({pack.fold_member_name(name) for name in kept}) == len(kept)
    assert all(isinstance(pack.reason_to_leave_out(name, windows=True), str) for name in names)


def test_a_manifest_larger_than_its_members_need_is_refused_unread(database, tmp_path):
    """A small manifest cannot expand to gigabytes in memory, and deep nesting does not crash the parser."""
    for name, manifest in (("wide", {"x": [[]] * 2_000_000}), ("deep", {"x": 0})):
        file = sealed(tmp_path / name, {INDEX: database}, manifest=manifest)
        if name == "deep":
            file = nested(file, database)
        with pytest.raises(LocalragError, match="manifest"):
            verify_pack(file)


def nested(file, content):
    """A pack whose manifest nests lists deeper than Python's stack."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(INDEX, content)
        archive.writestr("manifest.json", '{"x":' + "[" * 200_000 + "]" * 200_000 + "}")
    return file


# What an index says of its machine


def test_an_unpacked_index_deletes_no_folder_of_its_user(database, plain_town, tmp_path):
    """`rm` and `sessions rm` leave folders alone that a foreign index names as studies, and `unpack_index` lists them."""
    home = tmp_path / "home"
    (home / "index").mkdir(parents=True)
    shutil.copy(plain_town / ".localrag" / "index.db", home / "index" / "index.db")
    (home / "answers.jsonl").write_text("mine")
    evil = altered(database, tmp_path, setting("studies", [str(home)]), setting("studies_with_text", [str(home)]))
    found = unpack_index(sealed(tmp_path / "evil", {INDEX: evil}), tmp_path / "there")
    before = {p: p.read_bytes() for p in home.rglob("*") if p.is_file()}
    removed = run_localrag("rm", "docs/a.md", cwd=tmp_path / "there")
    run_localrag("sessions", "rm", "--all", cwd=tmp_path / "there")

    assert removed.returncode == 0, removed.stderr
    assert {p: p.read_bytes() for p in home.rglob("*") if p.is_file()} == before
    assert ("study", str(home)) in found.dropped


def test_what_is_bound_to_another_machine_is_dropped_and_listed(database, plain_town, tmp_path):
    """Folders, addresses, permissions, runs, file stats, index files, and unknown or unreadable settings."""
    with closing(open_index(plain_town / ".localrag")) as db:
        settings = runs.load_settings(db)
    chat = settings["chat_model"] | {"path": "http://10.0.0.9:8080/v1#mine", "name": "mine", "fingerprint": "f" * 16}
    evil = altered(
        database, tmp_path,
        setting("source_paths", ["/home/other/secret", "docs"]), setting("chat_model", chat), setting("executable", "/bin/sh"),
        setting("settings", settings["settings"] | {"follow_links": True, "chunk_tokens": "many", "own": 1}), setting("id", "n"),
        ("INSERT OR REPLACE INTO index_settings VALUES ('deep', ?)", ["[" * 200_000 + "]" * 200_000]),
        "INSERT OR REPLACE INTO file_stats VALUES ('docs/a.md', 1, 2, 3, 'd')",
        setting("chunk_index_file", ["/dev/zero", 9]),
        "INSERT INTO runs (pid, state, engine_metrics) VALUES (1, 'running', '{\"host\": \"other\"}')",
    )  # fmt: skip
    found = unpack_index(sealed(tmp_path / "evil", {INDEX: evil}), tmp_path / "there")
    db = open_index(tmp_path / "there" / ".localrag")
    kept = runs.load_settings(db)

    assert {("indexed folder", "/home/other/secret"), ("indexed folder", "docs"), ("setting executable", "/bin/sh"),
            ("address of the chat model mine", "http://10.0.0.9:8080/v1")} <= {*found.dropped}  # fmt: skip
    assert {what for what, _ in found.dropped} >= {"setting deep", "setting follow_links"}
    assert kept["chat_model"] == {"name": "mine", "path": "", "fingerprint": "f" * 16}
    assert not {"source_paths", "executable", "deep", *UNLISTED} & kept.keys()
    assert kept["settings"]["follow_links"] is False
    assert not {"chunk_tokens", "own"} & kept["settings"].keys()
    assert db.execute("SELECT count(*) FROM file_stats").fetchone() == (0,)
    assert db.execute("SELECT DISTINCT pid, engine_metrics, progress FROM runs").fetchall() == [(0, "{}", "{}")]
    assert db.execute("SELECT count(*) FROM runs WHERE state = 'running' OR ended_at IS NULL").fetchone() == (0,)
    db.close()


@pytest.mark.ci
def test_every_setting_is_either_of_the_index_or_of_the_machine(plain_town):
    """What the package saves, and what an index has, is named in one of the lists, so that nobody forgets to decide on a new setting."""
    saved = {
        word.arg
        for file in Path(localrag.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) == "save_settings"
        for word in call.keywords
        if word.arg
    }
    with closing(open_index(plain_town / ".localrag")) as db:
        saved |= runs.load_settings(db).keys()

    assert len(saved) > 20
    assert saved - PORTABLE - MACHINE_BOUND.keys() - UNLISTED == set()


def test_the_address_of_a_server_is_asked_for_again_and_nothing_is_sent_to_it(database, tmp_path):
    """`ask` names the command, and no connection is tried."""
    chat = {"name": "mine", "path": "http://127.0.0.1:9/v1#mine", "fingerprint": "f" * 16}
    sealed(tmp_path / "evil", {INDEX: altered(database, tmp_path, setting("chat_model", chat))})
    done = run_localrag("unpack", "evil", "there", cwd=tmp_path)
    asked = run_localrag("ask", "Who bought the ferry Skua?", cwd=tmp_path / "there")

    assert done.returncode == 0
    assert "dropped" in done.stderr
    assert asked.returncode != 0
    assert "Name it once" in asked.stderr
    assert "--model http://HOST:PORT/v1#mine" in asked.stderr
    assert "127.0.0.1:9" not in asked.stderr


def test_vectors_that_fit_no_matrix_are_dropped_and_questions_answered(database, tmp_path):
    """Of another length, no bytes at all, or of a kind that is no text: they are counted, and `index` makes them again."""
    nth = "WHERE vector_id = (SELECT vector_id FROM embeddings WHERE kind = 'entity' ORDER BY vector_id LIMIT 1 OFFSET {})"
    values = ("x'0102'", "7", "zeroblob(4000004)")
    changes = [f"UPDATE embeddings SET vector = {value} {nth.format(n)}" for n, value in enumerate(values)]
    changes.append("UPDATE embeddings SET kind = x'ff' WHERE vector_id = (SELECT min(vector_id) FROM embeddings WHERE kind = 'chunk')")
    evil = altered(database, tmp_path, *changes)
    found = unpack_index(sealed(tmp_path / "evil", {INDEX: evil}), tmp_path / "there")
    asked = run_localrag("ask", "Who bought the ferry Skua?", "--json", cwd=tmp_path / "there")

    assert [what for what, _ in found.dropped if "embeddings" in what] == ["4 rows of embeddings"]
    assert asked.returncode == 0, asked.stderr


@pytest.mark.ci
def test_a_document_elsewhere_on_the_machine_is_not_taken_for_one_that_was_read_here(database, tmp_path):
    """An index may name any path: the page shows no such file, and the button that indexes again does not go there."""
    from localrag.store import browse

    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    evil = altered(
        database, tmp_path, ("UPDATE documents SET path = ? WHERE path = 'docs/a.md'", [str(secret)]),
        "UPDATE documents SET path = '../secret.txt' WHERE path = 'docs/b.txt'",
    )  # fmt: skip
    unpack_index(sealed(tmp_path / "evil", {INDEX: evil}), tmp_path / "there")
    with closing(open_index(tmp_path / "there" / ".localrag")) as db:
        assert browse.top_level_paths(db) == ["docs"]
        ids = [key for (key,) in db.execute("SELECT id FROM documents WHERE path LIKE '%secret.txt'")]
    with served(tmp_path / "there") as server, server.client() as client:
        answers = [client.get(f"/api/documents/{key}/original") for key in ids]

    assert len(ids) == 2
    assert {a.status_code for a in answers} == {410}
    assert not any("mine" in a.text for a in answers)


# The database itself


FOREIGN = {
    "trigger": ["CREATE TRIGGER evil AFTER UPDATE ON index_settings BEGIN DELETE FROM documents; END"],
    "view": ["DROP TABLE failures", "CREATE VIEW failures AS SELECT '' AS stage, '' AS subject, '' AS reason, '' AS failed_at, '' AS kind"],
    "virtual table": ["CREATE VIRTUAL TABLE evil USING fts5(x, content='settings')"],
    "default": ["DROP TABLE staged_deletions",
                "CREATE TABLE staged_deletions (path TEXT PRIMARY KEY DEFAULT (hex(randomblob(900000000))))"],
    "computed column": ["DROP TABLE staged_deletions", "CREATE TABLE staged_deletions (path TEXT AS (hex(zeroblob(400000000))), x)",
                        "INSERT INTO staged_deletions (x) VALUES (1)"],
    "index": ["CREATE INDEX evil ON documents(hex(text))"],
    "dropped index": ["DROP INDEX chunks_by_document"],
    "another table": ["CREATE TABLE evil (x)"],
}  # fmt: skip


@pytest.mark.parametrize("kind", mostly_ci(FOREIGN, *(kind for kind in FOREIGN if kind != "computed column")))
def test_nothing_of_a_foreign_schema_is_taken_over(database, plain_town, tmp_path, kind):
    """Triggers, views, virtual tables and the like are gone, the rows are there, and the index is sound."""
    evil = altered(database, tmp_path, *FOREIGN[kind])
    found = unpack_index(sealed(tmp_path / "evil", {INDEX: evil}), tmp_path / "there")

    assert schema_of(tmp_path / "there") == schema_of(plain_town)
    assert bool(found.dropped) or kind == "dropped index"
    assert run_localrag("check", cwd=tmp_path / "there").returncode == 0
    done = run_localrag("ask", "Who bought the ferry Skua?", "--json", cwd=tmp_path / "there")
    assert json.loads(done.stdout)["citations"], done.stderr


def test_a_pack_of_an_older_schema_is_refused(database, tmp_path):
    """With what to do: to index and pack there again."""
    older = altered(database, tmp_path, f"PRAGMA user_version = {SCHEMA_VERSION - 1}")
    with pytest.raises(IndexMismatch, match="older localrag") as refused:
        unpack_index(sealed(tmp_path / "older", {INDEX: older}), tmp_path / "there")

    assert "pack again" in refused.value.hint
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("kind", ["no index", "no database", "torn pages"])
def test_a_database_that_is_no_sound_index_is_refused(database, tmp_path, kind):
    """Nothing is left behind, and the error says which file and what to do."""
    if kind == "no index":
        evil = altered(b"", tmp_path, "CREATE TABLE documents (x)")
    elif kind == "no database":
        evil = b"SQLite format 3\0" + b"\xff" * 5000
    else:
        at = len(database) // 2 // 4096 * 4096
        evil = database[:at] + b"\xff" * 65_536 + database[at + 65_536 :]
    file = sealed(tmp_path / "evil", {INDEX: evil})

    with pytest.raises(LocalragError) as error:
        unpack_index(file, tmp_path / "there")
    assert error.value.hint
    assert everything(tmp_path) == ["evil"]
