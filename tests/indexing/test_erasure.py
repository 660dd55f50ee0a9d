"""`localrag rm` leaves no byte of what only the removed documents said, whatever paths they had, and keeps what rests on the others."""

import asyncio
import json
import os
import re
import shutil
import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import pytest

from localrag.asking import answer_question
from localrag.errors import UsageError
from localrag.indexing.documents import DeletionPolicy
from localrag.indexing.graph import stage
from localrag.indexing.graph.entity_resolution import add_alias
from localrag.indexing.pipeline import build_index, documents_below, erase_documents
from localrag.llm.prompts import write_domain
from localrag.project import open_for_writing
from localrag.query.question import QueryOptions
from localrag.records import Answer, Citation, content_id
from localrag.settings import Domain, Example
from localrag.store import answers as answers_store
from localrag.store import database, documents, runs
from localrag.store.check import check_index, problems
from localrag.store.database import back_up_database
from localrag.store.erasure import STUDY_FILES
from tests.conftest import TOWN, run_localrag
from tests.fakes import Scripted, example
from tests.indexing.runs import put, rows
from tests.indexing.test_documents_update import words_in
from tests.studies import make_study

pytestmark = pytest.mark.usefixtures("hashed_module")
SECRET = (
    "Zebulon Quarrick met Lars Holm at Xanthorpe. Zebulon Quarrick paid Ingrid Holm in guilders. 夸里克先生付了钱。\n\n"
    "Lars Holm wrote to Mayor Ruth Sand that the Skua leaks.\n"
)
SECRETS = ("Zebulon", "Quarrick", "Xanthorpe", "guilders", "quarri", "zebulon quarrick", "夸里克")
SHARED = "Lars Holm wrote to Mayor Ruth Sand that the Skua leaks."
QUESTIONS = ("Who is Zebulon Quarrick?", "Who paid Ingrid Holm?")
KEPT = "Who bought the ferry Skua?"


def says(request):
    """Answers with the names and words of the text that is asked about."""
    said = request.messages[-1]["content"]
    if request.task == "entities":
        names = dict.fromkeys(re.findall(r"[A-Z]\w+ [A-Z]\w+", said))
        described = [{"name": n, "type": "person", "description": f"{n}: {said[said.find(n) :][:90]}"} for n in names]
        return {"items": described[:6]}
    if request.task == "describe":
        return {"line": " ".join(said.split())[-90:]}
    return {"items": []} if request.task == "relationships" else example(request.grammar.schema)


@contextmanager
def opened(folder, answers=says):
    with open_for_writing(folder / ".localrag") as one:
        project = replace(one, settings=replace(one.settings, style="abstractive"))
        project.model._engine = Scripted(answers)
        yield project


def index(folder, answers=says):
    with opened(folder, answers) as project:
        asyncio.run(build_index([folder / "docs"], project, lambda _: None, deletion=DeletionPolicy(prune=True)))
        return project.model._engine.tasks


def erase_loudly(project, said):
    """Remove the secret and append the messages to the user to `said`."""
    project.model.options = replace(project.model.options, notify=said.append)
    asyncio.run(erase_documents(documents_below([project.root / "docs" / "secret.txt"], project), project, lambda _: None))


def remove(folder, *paths):
    with opened(folder) as project:
        asyncio.run(erase_documents(documents_below([folder / p for p in paths], project), project, lambda _: None))
        return project.model._engine.tasks


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Four documents, one of them secret, with answers, a backup, a tuning and decisions on names."""
    folder = tmp_path_factory.mktemp("made")
    put(folder, TOWN | {"secret.txt": SECRET})
    index(folder)
    with opened(folder) as project:
        for question in QUESTIONS:
            asyncio.run(answer_question(question, project, QueryOptions("basic", style="extractive", response_type="single sentence")))
        back_up_database(project.db, project.folder / "index.db", "m003_something")
        example_of = Example(SECRET[:44], (("Zebulon Quarrick", "person"),))
        for domain in (Domain("letters of Zebulon Quarrick"), Domain("letters", "a clerk", examples=(example_of,))):
            write_domain(project.folder, domain)
        add_alias(project.folder, "Quarrick = Zebulon Quarrick")
        add_alias(project.folder, "Ruth Sand = Mayor Ruth Sand")
        for question in (KEPT, "Did Quarrick buy the ferry?"):
            citation = Citation(1, "docs/a.md", 13, 78, "Ingrid Holm bought the ferry Skua from the Northern Line in Vardby.")
            answers_store.save_answer(project.db, Answer(question, "Ingrid Holm. [1]", "basic", citations=(citation,)))
    return folder


@pytest.fixture
def town(made, tmp_path, home):
    """The same, with a study and with kept beginnings of prompts."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    make_study(tmp_path / ".localrag", tmp_path / ".localrag" / "study")
    (tmp_path / ".localrag" / "study" / "answers.jsonl").write_text(json.dumps({"answer": SECRET}, ensure_ascii=False))
    kept = home / "cache" / "prefixes" / "some model"
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    (kept / "1.kv").write_text(SECRET)
    assert {name for name, _ in words_in(tmp_path / ".localrag", *SECRETS)} >= {
        "index.db", "index.db.before-m003_something", "domain.toml", "domain.toml.before", "aliases.txt", "answers.jsonl"
    }  # fmt: skip
    yield tmp_path
    shutil.rmtree(kept, ignore_errors=True)  # not every test erases, and the user cache is the whole test run's


def written(docs):
    (docs / "secret.txt").write_text("Nothing of interest happened.")


def renamed(docs):
    (docs / "secret.txt").rename(docs / "new.txt")


def replaced(docs):
    (docs / "secret.txt").unlink()
    (docs / "new.txt").write_text("Nothing of interest happened.")


def deleted(docs):
    for path in (docs / "secret.txt", docs / "new.txt"):
        path.unlink(missing_ok=True)


def but_for_the_secret(db, path, real=documents.remove_document, **how):
    if "secret" not in path:
        real(db, path, **how)


def interrupted_in_a_rename(docs):
    """The new path is stored; then the process is killed, before the old one is taken out."""
    renamed(docs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("localrag.indexing.documents._skipped_in_run", lambda *_: 1 / 0)
        patch.setattr(documents, "remove_document", but_for_the_secret)
        with pytest.raises(ZeroDivisionError):
            index(docs.parent)


def stopped_in_the_removal(docs):
    """The documents are out; then the process is killed, before the graph is built from the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("localrag.indexing.pipeline.rebuild_graph", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            remove(docs.parent, "docs/secret.txt")
    deleted(docs)


# What happened to the file, each followed by a run, and by what path it is removed then; none where it was before.
HISTORIES = {
    "unchanged": ([], "secret"),
    "renamed": ([renamed], "new"),
    "renamed and edited": ([replaced], "secret"),
    "edited": ([written], "secret"),
    "deleted": ([deleted], "secret"),
    "deleted after a rename": ([renamed, deleted], "new"),
    "interrupted in a rename": ([interrupted_in_a_rename], "new"),
    "stopped in the removal": ([stopped_in_the_removal], ""),
}


@pytest.mark.parametrize(("history", "path"), HISTORIES.values(), ids=HISTORIES)
def test_no_byte_is_left(town, home, history, path):
    """Whatever became of the file before: no word of it is in any file of the index or the cache, and what others say is kept."""
    chunks = "SELECT c.text FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.path <> 'docs/secret.txt'"
    others = {content_id(text) for (text,) in rows(town, chunks)}
    calls = {(key,) for key, about in rows(town, "SELECT key, subject FROM llm_calls") if about in others}
    for change in history:
        change(town / "docs")
        index(town)
    if path:
        remove(town, f"docs/{path}.txt")

    assert words_in(town / ".localrag", *SECRETS) == []
    assert words_in(home / "cache" / "prefixes", *SECRETS) == []
    assert calls and calls <= set(rows(town, "SELECT key FROM llm_calls"))
    assert [q for (q,) in rows(town, "SELECT question FROM answers")] == [KEPT]
    assert (town / ".localrag" / "aliases.txt").read_text() == "Ruth Sand = Mayor Ruth Sand\n"
    assert 'about = "letters"' in (town / ".localrag" / "domain.toml").read_text()
    assert rows(town, "SELECT * FROM removed_documents") == []
    with opened(town) as project:
        assert list(problems(check_index(project.db, project.folder))) == []


def test_a_conversation_about_other_documents_stays(town):
    """Answers that rest on documents that stay are kept though they are about people whom the removed one names as well."""
    remove(town, "docs/c.txt")

    kept = [q for (q,) in rows(town, "SELECT question FROM answers")]
    assert KEPT in kept and "Who is Zebulon Quarrick?" in kept


def test_a_sentence_that_two_documents_share_stays(town):
    """A chunk that another document has as well keeps what the model said of it, and so does an answer that quotes the sentence there."""
    (town / "docs" / "copy.txt").write_text(SECRET)
    index(town)
    calls = set(rows(town, "SELECT key FROM llm_calls WHERE subject NOT IN ('', 'question') AND subject NOT LIKE 'of %'"))
    remove(town, "docs/secret.txt")

    assert calls <= set(rows(town, "SELECT key FROM llm_calls"))
    assert words_in(town / ".localrag", "Xanthorpe")
    remove(town, "docs/copy.txt")
    assert words_in(town / ".localrag", *SECRETS) == []
    assert SHARED in TOWN["b.txt"] and words_in(town / ".localrag", "Skua leaks")


def test_an_answer_that_quotes_what_is_gone_goes_whatever_its_path(town):
    """A citation is judged by its quote: one of the removed text under another path goes, one that another document holds stays."""
    with opened(town) as project:
        for n, quote in enumerate((SHARED, "Lars Holm at Xanthorpe.")):
            answers_store.save_answer(
                project.db, Answer(f"Question {n}", quote, "basic", citations=(Citation(1, "docs/b.txt", 0, 9, quote),))
            )
    remove(town, "docs/secret.txt")

    assert {q for (q,) in rows(town, "SELECT question FROM answers")} >= {"Question 0"}
    assert words_in(town / ".localrag", "Xanthorpe") == []


def test_one_removal_does_not_ask_for_all_descriptions_again(town, monkeypatch):
    """Removing a document that shares no name asks the model nothing, and the next one finds the kept summaries as well."""
    monkeypatch.setattr(stage, "MAX_JOINED_CHARS", 0)  # short ones are also summarised by the model
    (town / "docs" / "far.txt").write_text("Walter Muir met Agnes Thorburn at Castlemere.")
    index(town)
    summaries = rows(town, "SELECT count(*) FROM llm_calls WHERE task = 'describe'")
    asked = [remove(town, "docs/far.txt")]
    (town / "docs" / "far.txt").unlink()
    asked.append([t for t in index(town) if t == "describe"])

    assert summaries > [(0,)]
    assert asked == [[], []]
    assert rows(town, "SELECT count(*) FROM llm_calls WHERE task = 'describe'") == summaries


def test_an_edit_of_a_document_that_stays_costs_nothing(town):
    """What was replaced in another document is no part of a removal: the study that has its earlier text, and decisions on names, stay."""
    (town / "docs" / "secret.txt").write_text("Nothing of interest happened.")
    (town / "docs" / "far.txt").write_text("Walter Muir met Agnes Thorburn at Castlemere.")
    index(town)
    remove(town, "docs/far.txt")
    kept = words_in(town / ".localrag" / "study", "Quarrick"), words_in(town / ".localrag", "Quarrick = Zebulon")
    remove(town, "docs/secret.txt")

    assert all(kept)
    assert words_in(town / ".localrag", *SECRETS) == []


def test_a_text_that_moved_to_another_document_goes_from_studies_too(town):
    """The study has it in a document that stays."""
    (town / "docs" / "secret.txt").write_text("Nothing of interest happened.")
    (town / "docs" / "moved.txt").write_text(SECRET)
    index(town)
    assert words_in(town / ".localrag" / "study", "Quarrick")
    remove(town, "docs/moved.txt")

    assert words_in(town / ".localrag" / "study", *SECRETS) == []


@pytest.mark.ci
def test_a_reader_holds_up_the_end_of_an_erasure(town, monkeypatch):
    """Where another process still reads what was, the command fails and says so; the next one empties the log."""
    monkeypatch.setattr(database, "WRITER_BUSY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(database, "CHECKPOINT_TIMEOUT_S", 0.2)
    reader = sqlite3.connect(town / ".localrag" / "index.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM documents").fetchone()
    with pytest.raises(Exception, match="Another process is reading the index"):
        remove(town, "docs/secret.txt")
    held = words_in(town / ".localrag", *SECRETS)
    reader.close()
    (town / "docs" / "secret.txt").unlink()
    index(town)

    assert held
    assert words_in(town / ".localrag", *SECRETS) == []


def test_all_is_asked_about(town):
    """Without a yes `rm --all` removes nothing and says how it would; with --yes nothing of any document or study is left."""
    refused = run_localrag("rm", "--all", cwd=town)
    unnamed = run_localrag("rm", cwd=town)
    kept = rows(town, "SELECT count(*) FROM documents")
    done = run_localrag("rm", "--all", "--yes", cwd=town)

    assert (refused.returncode, unnamed.returncode, kept) == (2, 2, [(4,)])
    assert "Name what to remove" in unnamed.stderr
    assert "localrag rm --all --yes" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert words_in(town / ".localrag", *SECRETS, "Skua", "Holm") == []


def foreign_study(folder, *, record=None):
    """A folder of the user's that looks like a study and holds more, with a copy of an index that has the secret."""
    (folder / "index").mkdir(parents=True)
    for name in STUDY_FILES:
        (folder / name).write_text("mine")
    (folder / "index" / "thesis.odt").write_text("three years of work")
    copy = sqlite3.connect(folder / "index" / "index.db")
    copy.execute("CREATE TABLE documents (path TEXT, text TEXT)")
    copy.execute("INSERT INTO documents VALUES ('docs/secret.txt', ?)", [SECRET])
    copy.commit()
    copy.close()
    if record is not None:
        (folder / "study.json").write_text(json.dumps(record))
    return folder


def every_file(folder):
    return {p: (p.read_bytes(), p.stat().st_atime_ns) for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("record", [None, "the index's id", "[]", "{"])
def test_a_folder_that_an_index_only_names_is_neither_opened_nor_touched(town, tmp_path_factory, record):
    """An index from elsewhere may name any folder as its study, and bring a record that says so: nothing there is read or deleted."""
    thesis = foreign_study(tmp_path_factory.mktemp("user") / "thesis")
    with opened(town) as project:
        settings = runs.load_settings(project.db)
        named = {"index_id": settings.get("id"), "index": str(project.folder.resolve()), "folder": str(thesis)}
        if record:
            (thesis / "study.json").write_text(json.dumps(named) if record == "the index's id" else record)
        runs.save_settings(project.db, studies=[*settings["studies"], str(thesis)])
        for path in thesis.rglob("*"):
            os.utime(path, ns=(0, 0))
        before = every_file(thesis)
        said = []
        erase_loudly(project, said)

    assert every_file(thesis) == before
    assert any(str(thesis) in line and "nothing in it was touched" in line for line in said)
    assert words_in(town / ".localrag", *SECRETS) == []


def test_of_a_study_only_what_localrag_wrote_goes(town):
    """What the user put beside or among its files stays, and is listed; the rest is gone, with every word of the removed text."""
    study = town / ".localrag" / "study"
    notes = [study / "notes.txt", study / "index" / "notes.txt", study / "index" / "mine" / "notes.txt"]
    notes[2].parent.mkdir()
    for note in notes:
        note.write_text("mine")
    said = []
    with opened(town) as project:
        erase_loudly(project, said)

    assert sorted(p for p in study.rglob("*") if p.is_file()) == sorted(notes)
    assert [line for line in said if str(notes[0]) in line and str(notes[1]) in line]
    assert words_in(town / ".localrag", *SECRETS) == []


def test_an_index_folder_may_hold_files_of_the_users(town):
    """Indexing and `rm` delete only files that localrag named, not the user's files with similar names."""
    names = ["network.png", "network.arrays", "network.1.txt", "chunk.faiss", "chunk.notes.faiss", "mine.faiss", "film.part"]
    for name in names:
        (town / ".localrag" / name).write_text("mine")
    remove(town, "docs/secret.txt")
    (town / "docs" / "secret.txt").write_text("Another letter.")
    index(town)

    assert [name for name in names if not (town / ".localrag" / name).exists()] == []


def test_a_copy_of_an_index_leaves_the_studies_of_the_first_alone(town, tmp_path_factory):
    """A copied index names the same studies, but what is removed from the copy stays in them; a study that was moved away stays, too."""
    other = tmp_path_factory.mktemp("copy")
    shutil.copytree(town / ".localrag", other / ".localrag", ignore=shutil.ignore_patterns("study"))
    shutil.copytree(town / "docs", other / "docs")
    remove(other, "docs/secret.txt")
    kept = words_in(town / ".localrag" / "study", *SECRETS)
    (town / ".localrag" / "study").rename(other / "study")  # where it was made it is a study, elsewhere a folder of the user's
    remove(town, "docs/secret.txt")

    assert kept
    assert words_in(other / "study", *SECRETS)


def test_a_moved_index_still_erases_its_studies(town, tmp_path_factory):
    """The folder of an index may be renamed; a study elsewhere is still its own."""
    study = tmp_path_factory.mktemp("studies") / "one"
    make_study(town / ".localrag", study)
    home = tmp_path_factory.mktemp("moved") / "town"
    shutil.move(town, home)
    remove(home, "docs/secret.txt")

    assert words_in(study, *SECRETS) == []
    home.rename(town)


def test_a_path_that_never_was_is_refused(town):
    """`rm` takes what is or was in the index; a mistyped path is an error, also after a removal of another one."""
    deleted(town / "docs")
    index(town)
    for path in ("docs/sceret.txt", "doc"):
        with pytest.raises(UsageError, match="The index has no document at"):
            remove(town, path)
