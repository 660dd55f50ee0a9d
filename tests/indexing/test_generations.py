"""Readers see one generation: until the next one is whole, every answer is that of the last, whatever became of the run that makes it."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from localrag.asking import answer_question
from localrag.engine.settings import EngineOptions
from localrag.indexing.pipeline import build_index, erase_documents, publish_imported, reembed
from localrag.model_files import ModelFile, find_chat_model
from localrag.project import open_for_query, open_for_writing
from localrag.query.modes import MODE_FUNCTIONS
from localrag.query.question import QueryOptions
from localrag.store import database, runs
from localrag.store.opening import open_index
from tests.conftest import TOWN
from tests.hashed_embedder import whole_texts
from tests.indexing.runs import put, wrong_in

STAGES = "documents, chunk embeddings, sentences, noun phrases, entity resolution, reports, entity embeddings, report embeddings".split(
    ", "
)
QUESTIONS = {
    "global": "What are the main themes?",
    "drift": "What is wrong with the Skua?",
    "ts": "What are the main themes?",
} | {mode: "Who is Lars Holm?" for mode in ("local", "mix", "basic", "ss")}
OLD = TOWN | {
    "d.txt": "Agnes Thorburn keeps the lighthouse of Gannet Head. Agnes Thorburn wrote to Mayor Ruth Sand about the Skua.\n",
    "e.txt": "Walter Muir paid Agnes Thorburn for the lamp oil. Walter Muir owns the Northern Line.\n",
    "f.txt": "Ruth Sand and Lars Holm dined in Vardby.\n",
}
SCRIPT = """
import asyncio, os, signal, sys
from pathlib import Path
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing

def progress(p):
    if p.stage == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

with open_for_writing(Path(sys.argv[1]) / ".localrag", extractor="phrases") as project:
    asyncio.run(build_index([Path(sys.argv[1]) / "docs"], project, progress))
"""


def index(folder, progress=lambda _: None, **options):
    with open_for_writing(folder / ".localrag", extractor="phrases", engine=EngineOptions(), **options) as project:
        return asyncio.run(build_index([folder / "docs"], project, progress))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """Six documents and their index; what every mode answers from it."""
    folder = tmp_path_factory.mktemp("generations")
    put(folder, OLD)
    index(folder)
    return folder, answers(folder)


@pytest.fixture
def town(indexed, tmp_path):
    """A copy of them, to be changed."""
    shutil.copytree(indexed[0], tmp_path / "town")
    return tmp_path / "town"


def edit(folder):
    """Two documents say something else, one is gone, one has another name."""
    docs = folder / "docs"
    (docs / "f.txt").write_text("Ruth Sand and Oskar Lund dined in Vardby.\n")
    (docs / "b.txt").write_text("Oskar Lund says that the Skua was sold. Oskar Lund never met Lars Holm. Ruth Sand met Oskar Lund.\n")
    (docs / "d.txt").unlink()
    (docs / "e.txt").rename(docs / "moved.txt")


def ask(project, mode):
    options = QueryOptions(mode, style="extractive")
    return asyncio.run(answer_question(QUESTIONS[mode], project, options))


def answers(folder):
    """What every mode answers: mode → (mode taken, text, citations)."""
    with open_for_query(folder / ".localrag", engine=EngineOptions()) as project:
        given = {mode: ask(project, mode) for mode in MODE_FUNCTIONS}
    return {mode: (a.mode, a.answer, a.citations) for mode, a in given.items()}


def under_new_names(found):
    """The same with the renamed document under its new name: readers see a rename at once, since it changes no text."""
    new = {"docs/e.txt": "docs/moved.txt"}
    return {mode: (*some, tuple(replace(c, path=new.get(c.path, c.path)) for c in cited)) for mode, (*some, cited) in found.items()}


def of_the_old_documents(found):
    """Whether every quote stands where it says in the documents as they were."""
    citations = [c for *_, some in found.values() for c in some]
    return citations and all(OLD[c.path.removeprefix("docs/")][c.start : c.end] == c.quote for c in citations)


def interrupt(folder, stage, how):
    """Index until a stage reports, then be interrupted or killed there."""
    if how == "SIGKILL":
        done = subprocess.run([sys.executable, "-c", SCRIPT, folder, stage], check=False, capture_output=True, text=True, env=os.environ)
        assert done.returncode == -signal.SIGKILL, done.stderr
        return

    def progress(p):
        if p.stage == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(folder, progress)


STOPPED = [pytest.param(s, "SIGINT", marks=pytest.mark.ci) for s in STAGES]
KILLED = [pytest.param(s, "SIGKILL", marks=pytest.mark.ci if s in ("chunk embeddings", "reports") else pytest.mark.slow) for s in STAGES]


@pytest.mark.parametrize(("stage", "how"), [*STOPPED, *KILLED])
def test_after_an_interrupt_in_any_stage_every_mode_answers_as_before(indexed, town, stage, how):
    """Each mode answers as before, quoting the old documents; the same command then ends with nothing wrong and nothing due."""
    _, before = indexed
    assert of_the_old_documents(before)
    edit(town)
    interrupt(town, stage, how)

    assert under_new_names(answers(town)) == under_new_names(before)
    assert not [problem for problem in wrong_in(town) if not problem.is_pending]
    index(town)
    assert wrong_in(town) == []
    after = answers(town)
    assert "Oskar Lund" in after["basic"][1] + after["ss"][1] + after["mix"][1]
    assert not any(c.path in ("docs/d.txt", "docs/e.txt") for *_, some in after.values() for c in some)


@pytest.mark.ci
def test_added_files_are_found_while_the_rest_is_made(indexed, town):
    """New files are found by words and meaning before the graph speaks of them; a changed file, and what is said of all, are as before."""
    _, before = indexed
    edit(town)
    (town / "docs" / "new.txt").write_text("Halvor Berg painted the ferry Skua green. Nobody had asked Halvor Berg to paint the Skua.\n")
    seen = {}

    def look():
        with open_for_query(town / ".localrag", engine=EngineOptions()) as project:
            for mode in ("basic", "ss", "mix"):
                seen[mode] = asyncio.run(answer_question("What did Halvor Berg paint?", project, QueryOptions(mode, style="extractive")))
            seen["global"] = ask(project, "global")

    def progress(p):
        if p.stage == "noun phrases" and not seen:
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()

    index(town, progress)

    for mode in ("basic", "ss", "mix"):
        assert "docs/new.txt" in {c.path for c in seen[mode].citations}, mode
        assert not any("Oskar Lund" in c.quote for c in seen[mode].citations), mode
    (_, answer, citations) = under_new_names({"global": ("global", seen["global"].answer, seen["global"].citations)})["global"]
    (_, said_before, cited_before) = under_new_names({"global": before["global"]})["global"]
    assert themes_named(answer) == themes_named(said_before)  # a new file that has a theme's name is counted at once
    assert {c.quote for c in citations} == {c.quote for c in cited_before}


def themes_named(answer):
    """The titles of an answer by theme, without what is counted."""
    return sorted(re.sub(r" \(in \d+ of \d+ documents\)", "", line) for line in answer.splitlines() if line.startswith("**"))


def test_every_transaction_that_writes_begins_as_a_writer(town):
    """No transaction of an update, a removal or an embedding anew begins by reading: who writes in between is waited for."""
    edit(town)
    said = []
    with open_for_writing(town / ".localrag", engine=EngineOptions()) as project:
        project.db.conn.set_trace_callback(said.append)
        asyncio.run(build_index([town / "docs"], project, lambda _: None))
        asyncio.run(erase_documents(["docs/moved.txt"], project, lambda _: None))
        asyncio.run(reembed(project, lambda _: None))
        project.db.conn.set_trace_callback(None)

    first = {(s, after if s == "BEGIN" else "") for s, after in pairwise(said) if s.upper().startswith("BEGIN")}
    assert first == {("BEGIN", database.TAKE_WRITE_LOCK)}


def test_while_an_index_is_embedded_anew_questions_use_the_vectors_there_are(indexed, town):
    """Interrupted in its last stage, it has changed no answer; finished, the index is bound to the model and has no vector of another."""
    file = ModelFile("other", "embedder", find_chat_model(None).path)

    def embed(texts):
        return np.eye(len(texts), 8, dtype=np.float32)

    other = SimpleNamespace(file=file, embed=embed, embed_windows=lambda texts: whole_texts(texts, embed(texts)))

    def stop(p):
        if p.stage == "report embeddings":
            raise KeyboardInterrupt

    with open_for_writing(town / ".localrag", engine=EngineOptions()) as project, pytest.raises(KeyboardInterrupt):
        asyncio.run(reembed(replace(project, embedder=other), stop))
    assert answers(town) == indexed[1]
    with open_for_writing(town / ".localrag", engine=EngineOptions()) as project:
        asyncio.run(reembed(replace(project, embedder=other), lambda _: None))
        kept = {row[0] for row in project.db.execute("SELECT DISTINCT embedder FROM embeddings")}
        assert runs.load_settings(project.db)["embedder"] == other.file.to_json
    assert kept == {other.file.fingerprint}


RUNS = {
    "index": lambda project: build_index([project.root / "docs"], project, lambda _: None),
    "import": lambda project: publish_imported(project, lambda _: None, lambda *_: ([], [])),
    "reembed": lambda project: reembed(project, lambda _: None),
}


@pytest.mark.parametrize(("error", "state"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")])
@pytest.mark.parametrize("command", RUNS)
def test_a_run_that_does_not_end_well_is_not_left_running(town, command, error, state):
    """Where its embedder fails or it is interrupted, every command that notes a run notes its end as well."""
    edit(town)

    def fails(_):
        raise error

    with open_for_writing(town / ".localrag", engine=EngineOptions()) as project, pytest.raises(error):
        broken = SimpleNamespace(file=ModelFile("other", "embedder", find_chat_model(None).path), embed=fails, embed_windows=fails)
        asyncio.run(RUNS[command](replace(project, embedder=broken)))
    with closing(open_index(town / ".localrag")) as db:
        run = runs.last_run(db)

    assert (run["state"], run["ended_at"] is None) == (state, False)


def test_an_interrupt_that_leaves_a_transaction_open_ends_the_run(town):
    """Python runs a signal handler also between the last line of a `with` block and its `__exit__`, which is then not called."""
    edit(town)
    left_open = []

    def interrupted(progress):
        if progress.stage == "noun phrases":
            left_open.append(project.db.atomic())
            left_open[0].__enter__()
            raise KeyboardInterrupt

    with open_for_writing(town / ".localrag", engine=EngineOptions()) as project:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(build_index([project.root / "docs"], project, interrupted))
        left_open[0].gen.close()
    with closing(open_index(town / ".localrag")) as db:
        run = runs.last_run(db)

    assert (len(left_open), run["state"]) == (1, "interrupted")


def test_an_answer_is_given_although_it_cannot_be_kept(town, monkeypatch):
    """While another process writes for longer than an asker waits, the answer comes all the same and says that it was not kept."""
    monkeypatch.setattr(database, "READER_BUSY_TIMEOUT_S", 0.2)
    writer = open_index(town / ".localrag", create=True)
    with open_for_query(town / ".localrag", engine=EngineOptions()) as project, writer.atomic():
        writer.execute("UPDATE index_settings SET value = value")
        given = ask(project, "local")
    writer.close()

    assert "Lars Holm" in given.answer
    assert given.note.endswith("The answer could not be stored: database is locked.")


WRITER = """
import asyncio, sys
from pathlib import Path
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing

folder, day = Path(sys.argv[1]), 100
while not (folder / "stop").exists():
    day += 1
    for file in (folder / "docs").iterdir():
        lines = file.read_text().splitlines()
        file.write_text("\\n".join(line.rpartition(" day ")[0] + f" day {day}." for line in lines))
    with open_for_writing(folder / ".localrag", extractor="phrases") as project:
        asyncio.run(build_index([folder / "docs"], project, lambda _: None))
"""


@pytest.mark.slow
def test_two_hundred_questions_while_another_process_indexes_edit_after_edit(tmp_path):
    """No question of any mode fails, no quote is unsupported, and all quotes of an answer are of the same day."""
    docs = tmp_path / "docs"
    docs.mkdir()
    people = ["Lars Holm", "Ingrid Holm", "Ruth Sand", "Walter Muir", "Agnes Thorburn", "Ada Quist"]
    for n in range(12):
        pairs = [(people[(n + k) % 6], people[(n + 2 * k + 1) % 6]) for k in range(8)]
        (docs / f"{n}.txt").write_text("\n".join(f"{a} wrote to {b} about the ferry Skua in letter {n} on day 100." for a, b in pairs))
    index(tmp_path)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    days, asked, cited = set(), 0, 0
    try:
        with open_for_query(tmp_path / ".localrag", engine=EngineOptions()) as project:
            while asked < 200 or len(days) < 8:
                given = ask(project, list(MODE_FUNCTIONS)[asked % len(MODE_FUNCTIONS)])
                of = {re.search(r" day (\d+)", c.quote)[1] for c in given.citations}
                assert given.unsupported_sentences == 0
                assert len(of) <= 1, given
                days |= of
                cited += bool(of)
                asked += 1
                assert writer.poll() is None
    finally:
        (tmp_path / "stop").touch()
        _, errors = writer.communicate(timeout=300)
    assert writer.returncode == 0, errors
    assert cited > 0.9 * asked
