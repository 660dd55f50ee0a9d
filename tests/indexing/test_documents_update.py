"""An index that follows its files: what changed is redone, nothing else; what is removed leaves no trace."""

import asyncio
import json
import random
import re

import pytest

from localrag.engine.settings import EngineOptions
from localrag.indexing import documents
from localrag.indexing.pipeline import build_index
from localrag.loaders.reader import load_files
from localrag.project import open_for_writing
from localrag.records import content_id
from localrag.store import documents as documents_store
from localrag.store import erasure
from tests.conftest import TOWN, run_localrag
from tests.indexing.files import pdf
from tests.indexing.runs import index, put, rows
from tests.indexing.scans import remove_ocr

pytestmark = pytest.mark.usefixtures("hashed_module")
PEOPLE = ["Ruth Sand", "Lars Holm", "Ingrid Holm", "Walter Muir", "Agnes Thorburn", "Chen Guoliang"]
PLACES = ["Gannet Head", "Carrow Island", "Brannock Harbour", "Molde", "Castlemere"]
OF_CHUNK = "JOIN chunks c ON c.id = {} JOIN documents d ON d.id = c.document_id"
SAME = {  # by names, paths and places: the ids of documents that moved are made of the paths they had first
    "documents": "SELECT path, title, text, content_hash, date, title_source FROM documents ORDER BY path",
    "chunks": f"SELECT path, c.ordinal, c.start, c.end, c.text, c.tokens FROM chunks k {OF_CHUNK.format('k.id')} ORDER BY path, c.ordinal",
    "entities": "SELECT id, name, type, degree FROM entities ORDER BY id",
    "relationships": "SELECT id, source_id, target_id, weight, strength FROM relationships ORDER BY id",
    "mentions": f"SELECT entity_id, path, m.start, m.end, name FROM mentions m {OF_CHUNK.format('chunk_id')} ORDER BY 1, 2, 3",
    "evidence": f"SELECT relationship_id, path, e.start, e.end FROM evidence e {OF_CHUNK.format('chunk_id')} ORDER BY 1, 2, 3",
    "vectors": f"SELECT path, ordinal, v.content_hash, vector FROM embeddings v {OF_CHUNK.format('subject_id')} ORDER BY 1, 2",
    "full text": f"SELECT path, ordinal, s.text FROM chunks_fts s {OF_CHUNK.format('chunk_id')} ORDER BY 1, 2",
    "sentences": f"SELECT path, ordinal, spans FROM sentence_spans s {OF_CHUNK.format('chunk_id')} ORDER BY 1, 2",
}


def sentence(rng):
    a, b = rng.sample(PEOPLE, 2)
    return f"{a} {rng.choice(['wrote to', 'met', 'paid', 'blamed'])} {b} at {rng.choice(PLACES)} on day {rng.randrange(99)}."


@pytest.mark.ci
def test_another_chunk_size_cuts_unchanged_files_anew(tmp_path):
    """Indexed again with smaller chunks, the index is the one that smaller chunks give at once; the same size again changes nothing."""
    for name in ("a", "b"):
        put(tmp_path / name, {"one.txt": "\n\n".join(sentence(random.Random(n)) for n in range(80))})
    index(tmp_path / "a")
    again = index(tmp_path / "a", chunk_tokens=200, chunk_overlap=30)
    index(tmp_path / "b", chunk_tokens=200, chunk_overlap=30)

    assert again.changed and not index(tmp_path / "a").n_changed
    for name, sql in SAME.items():
        assert rows(tmp_path / "a", sql) == rows(tmp_path / "b", sql), name


def test_a_file_that_cannot_be_read_any_more_keeps_its_content(tmp_path):
    """A read file that is damaged later is listed as failed, its stored content stays; one that is gone is forgotten."""
    docs = put(tmp_path, {"table.csv": "Name,Port\nRuth Sand,Brannock Harbour\n", "a.txt": TOWN["b.txt"]})
    index(tmp_path)
    (docs / "table.csv").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 4)

    loaded = index(tmp_path)

    assert [(s.path, s.is_failure) for s in loaded.skipped] == [("docs/table.csv", True)]
    assert "earlier content is kept" in loaded.skipped[0].reason
    assert rows(tmp_path, "SELECT path FROM documents ORDER BY path") == [("docs/a.txt",), ("docs/table.csv",)]
    listed = map(json.loads, run_localrag("files", "--json", cwd=tmp_path).stdout.splitlines())
    assert [(f["path"], f["state"]) for f in listed] == [("docs/a.txt", "indexed"), ("docs/table.csv", "failed")]


@pytest.fixture
def opened(monkeypatch):
    """The names of files that are opened to be read."""
    names = []
    monkeypatch.setattr(documents, "load_files", lambda files, *rest: names.extend(f.name for f in files) or load_files(files, *rest))
    return names


@pytest.mark.parametrize("machine", ["as it is", "without OCR"])
def test_a_file_without_text_is_not_read_again_until_it_changes(machine, tmp_path, opened, monkeypatch):
    """What nothing can be read of is known by its content: later runs list it unread; a damaged file is tried again every time."""
    if machine == "without OCR":
        remove_ocr(monkeypatch, tmp_path)
    docs = put(tmp_path, {"a.txt": TOWN["b.txt"], "scan.pdf": pdf([]), "broken.csv": b"PK\x03\x04" + bytes(range(256)) * 4})
    first = index(tmp_path)
    opened.clear()

    second = index(tmp_path)
    (docs / "scan.pdf").write_bytes(pdf(["Ruth Sand bought the ferry Skua."]))
    third = index(tmp_path)

    assert {s.path: s.reason for s in second.skipped} == {s.path: s.reason for s in first.skipped}
    assert [s.path for s in third.skipped] == ["docs/broken.csv"]
    assert third.new == ("docs/scan.pdf",)
    assert opened == ["broken.csv", "broken.csv", "scan.pdf"]


def test_files_left_out_elsewhere_stay_listed(tmp_path):
    """Indexing one folder does not forget what was left out of another."""
    for name in ("docs", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(TOWN["b.txt"])
        (tmp_path / name / "empty.txt").write_text("")
    index(tmp_path)
    with open_for_writing(tmp_path / ".localrag", engine=EngineOptions()) as project:
        asyncio.run(build_index([tmp_path / "more"], project, lambda _: None, reports=False))
        assert [s.path for s in documents_store.skipped_files(project.db)] == ["docs/empty.txt", "more/empty.txt"]


def words_in(folder, *words):
    """The files of a folder that hold one of the words, in any of the ways text is stored."""
    found = []
    for file in (f for f in folder.rglob("*") if f.is_file()):
        data = file.read_bytes().lower()
        found += [(file.name, w) for w in words if w.lower().encode() in data or w.lower().encode("utf-16-le") in data]
    return found


@pytest.mark.ci
def test_removed_documents_leave_no_trace(tmp_path, home):
    """After `rm` no byte of a document's own words is in any file of the index or the cache: passages, entities, answers, conversations."""
    secret = "Zebulon Quarrick met Lars Holm at Xanthorpe. Zebulon Quarrick paid Ingrid Holm in guilders. Lars Holm kept it quiet."
    docs = put(tmp_path, TOWN | {"secret.txt": secret})
    assert run_localrag("index", "docs", cwd=tmp_path).returncode == 0
    for question in ("Who is Zebulon Quarrick?", "What are the main themes?", "Who is the mate of the Skua?"):
        run_localrag("ask", question, cwd=tmp_path)
    secrets = ("Zebulon", "Quarrick", "Xanthorpe", "guilders", "quarri", "zebulon quarrick")
    assert {name for name, _ in words_in(tmp_path / ".localrag", *secrets)} >= {"index.db"}
    others = {
        content_id(t)
        for (t,) in rows(tmp_path, "SELECT c.text FROM chunks c JOIN documents d ON d.id = document_id WHERE path <> 'docs/secret.txt'")
    }
    calls = {key for key, about in rows(tmp_path, "SELECT key, subject FROM llm_calls") if about in others}

    done = run_localrag("rm", "docs/secret.txt", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert words_in(tmp_path / ".localrag", *secrets) == []
    assert words_in(home, *secrets) == []
    assert (docs / "secret.txt").exists()
    assert calls and calls <= {key for (key,) in rows(tmp_path, "SELECT key FROM llm_calls")}
    assert run_localrag("check", cwd=tmp_path).returncode == 0
    assert "Lars Holm" in run_localrag("ask", "Who is the mate of the Skua?", cwd=tmp_path).stdout


def test_an_erasure_that_was_cut_off_is_finished_by_the_next_run(tmp_path):
    """Killed between forgetting and writing anew, the index is rid of the words after the next `index`."""
    docs = put(tmp_path, {"a.txt": TOWN["b.txt"], "secret.txt": "Zebulon Quarrick met Lars Holm at Xanthorpe."})
    index(tmp_path, reports=True)
    with open_for_writing(tmp_path / ".localrag", engine=EngineOptions()) as project:
        erasure.delete_documents(project.db, ["docs/secret.txt"])
    (docs / "secret.txt").unlink()
    index(tmp_path, reports=True)

    assert words_in(tmp_path / ".localrag", "Zebulon", "Quarrick", "Xanthorpe") == []


def test_an_erasure_takes_along_what_killed_processes_left(tmp_path, home):
    """Half-written copies, FAISS files and kept beginnings may hold its words: none is left, and no empty folder of the latter."""
    put(tmp_path, {"a.txt": TOWN["b.txt"], "secret.txt": "Zebulon Quarrick met Lars Holm at Xanthorpe."})
    index(tmp_path)
    kept = home / "cache" / "prefixes" / "some model"
    kept.mkdir(parents=True)
    left = [kept / "70-a.kv", kept / "70-a.kv.localrag-99999999-abcd.part"]
    names = ("index.db.before-1.part", "index.db.before-1.part-journal", "chunk.abc.part", "chunk.abc.faiss.localrag-99999999-abcd.part")
    for path in [*left, *(tmp_path / ".localrag" / name for name in names)]:
        path.write_text("Zebulon Quarrick")

    done = run_localrag("rm", "docs/secret.txt", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert words_in(tmp_path / ".localrag", "Zebulon", "Quarrick", "Xanthorpe") == []
    assert not kept.exists()


def test_a_plan_says_what_a_run_would_cost_and_does_nothing(tmp_path):
    """`index --plan` counts files, chunks and calls and names what cannot be read; no index is made, and an old one stays as it is."""
    docs = put(tmp_path, {"a.txt": TOWN["b.txt"], "b.bin": bytes(range(256)) * 9})
    planned = run_localrag("index", "docs", "--plan", "--engine", "adapter=no", cwd=tmp_path)
    tagged = run_localrag("index", "docs", "--plan", cwd=tmp_path)
    nothing_made = not (tmp_path / ".localrag").exists()
    index(tmp_path)
    (docs / "c.txt").write_text(TOWN["c.txt"])
    again = run_localrag("index", "docs", "--plan", "--extractor", "model", cwd=tmp_path)

    assert planned.returncode == again.returncode == 0, planned.stderr + again.stderr
    assert nothing_made
    assert "2: 1 to read, 0 unchanged, 1 cannot be read" in planned.stdout
    assert "docs/b.bin" in planned.stdout
    assert re.search("chunks +1 new", planned.stdout)
    assert re.search("calls +about 15 of", planned.stdout)
    assert re.search("calls +about 0 of", tagged.stdout)  # the tagger reads it
    assert "3: 1 to read, 1 unchanged, 1 cannot be read" in again.stdout
    assert rows(tmp_path, "SELECT path FROM documents") == [("docs/a.txt",)]
