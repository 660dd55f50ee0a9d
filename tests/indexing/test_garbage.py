"""What nothing needs any more is collected: by `localrag gc`, and after a run by age and size; what is still used is never lost."""

import asyncio
import os
import random
import shutil
import sys
import time
from contextlib import closing
from dataclasses import replace

import pytest

from localrag.asking import answer_question
from localrag.index import Index
from localrag.indexing.documents import DeletionPolicy
from localrag.indexing.garbage import collect_everything
from localrag.query.question import QueryOptions
from localrag.store import retention, runs
from localrag.store.database import back_up_database
from localrag.store.opening import open_index
from tests.conftest import run_localrag, write_town
from tests.indexing.runs import rows
from tests.indexing.test_documents_update import words_in
from tests.indexing.test_erasure import SECRET, SECRETS, index, opened

pytestmark = pytest.mark.usefixtures("hashed_module")
CALLS = "SELECT key FROM llm_calls"


@pytest.fixture(scope="module")
def made(hashed_module, tmp_path_factory):
    """Three documents, and one with words that no other has, described and reported on by a model."""
    folder = tmp_path_factory.mktemp("made")
    write_town(folder / "docs")
    (folder / "docs" / "secret.txt").write_text(SECRET)
    index(folder)
    return folder


@pytest.fixture
def town(made, tmp_path):
    """A copy of them, to be changed."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def collected(folder, *, only_say=False):
    with opened(folder) as project:
        found = asyncio.run(collect_everything(project, only_say=only_say))
    return {one.kind: one.n for one in found}


def age(folder, days, *tables):
    """Let so many days pass."""
    with closing(open_index(folder / ".localrag")) as db, db.atomic():
        for table in tables or ("llm_calls.unused_since", "llm_calls.created_at"):
            name, _, column = table.partition(".")
            db.execute(f"UPDATE {name} SET {column} = datetime({column}, '-{days} days')")


def test_what_is_stored_asks_for_stays(town):
    """After a collection everything is made anew from nothing, and the model is asked nothing: every answer in use was kept."""
    before = set(rows(town, CALLS))
    collected(town)
    with opened(town) as project, project.db.atomic():
        project.db.execute("DELETE FROM extractions")
        project.db.execute("DELETE FROM index_settings WHERE key IN ('graph_hash', 'reports_state', 'descriptions_hash')")
        for table in ("reports", "sentence_spans"):
            project.db.execute(f"DELETE FROM {table}")
    asked = index(town)

    assert asked == []
    assert set(rows(town, CALLS)) == before


def test_text_edited_away_leaves_every_file_within_a_run(town, home):
    """After the run that follows an edit no byte of the words is in any file of the index, but for answers that were given."""
    with opened(town) as project:
        asyncio.run(answer_question("Who is Zebulon Quarrick?", project, QueryOptions("basic", style="extractive")))
    assert words_in(town / ".localrag", *SECRETS)
    (town / "docs" / "secret.txt").write_text("Nothing of interest happened to Lars Holm.")
    index(town)
    told = rows(town, "SELECT count(*) FROM answers WHERE answer_json LIKE '%Quarrick%'")
    with closing(open_index(town / ".localrag", create=True)) as db:
        with db.atomic():
            db.execute("DELETE FROM answers")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    assert told == [(1,)]
    assert words_in(town / ".localrag", *SECRETS) == []


@pytest.mark.ci
def test_an_answer_that_two_texts_share_stays_as_long_as_either(town):
    """A document and its copy: the model's answers stay when one of them is edited, and go when both are."""
    (town / "docs" / "copy.txt").write_text(SECRET)
    index(town)
    key = "SELECT key FROM llm_calls WHERE task = 'entities' AND text LIKE '%Quarrick%'"
    (answers,) = [rows(town, key)]
    (town / "docs" / "secret.txt").write_text("Nothing.")
    index(town)
    one = rows(town, key)
    (town / "docs" / "copy.txt").write_text("Nothing either.")
    index(town)

    assert answers and one == answers
    assert rows(town, key) == []


@pytest.mark.ci
def test_a_setting_tried_and_taken_back_costs_nothing(town):
    """Answers of another setting are kept for a while, so that there and back again asks the model nothing the second time."""

    def run(**settings):
        with opened(town) as one:
            project = replace(one, settings=replace(one.settings, **settings))
            project.model._engine = one.model._engine
            from localrag.indexing.pipeline import build_index

            asyncio.run(build_index([town / "docs"], project, lambda _: None))
            return len(project.model._engine.tasks)

    other = {"entity_types": ("person", "ship")}
    first, back, again = run(**other), run(), run(**other)
    unused = retention.retained_garbage(open_index(town / ".localrag"), town / ".localrag")
    age(town, retention.RETENTION_DAYS + 1)
    (town / "docs" / "new.txt").write_text("Agnes Thorburn met Walter Muir at Castlemere.")
    run(**other)
    kept = retention.retained_garbage(open_index(town / ".localrag"), town / ".localrag")

    assert first > 0 and (back, again) == (0, 0)
    assert unused["unused_answers"] > 0 and kept["unused_answers"] == 0
    assert run(**other) == 0


def test_gc_says_first_and_then_does(town):
    """`--dry-run` says what would go and deletes nothing; the collection deletes just that, and a second one finds nothing."""
    with opened(town) as project, project.db.atomic():
        project.db.execute("INSERT INTO llm_calls SELECT 'x' || key, task, 'another model', prompt_hash, grammar, sampling, text, tokens,"
                           " 1, 1, 1.0, created_at, subject, config_hash, NULL FROM llm_calls WHERE subject <> ''")  # fmt: skip
        project.db.execute("INSERT INTO extractions SELECT chunk_id, 'another recipe', result FROM extractions LIMIT 2")
    with opened(town) as project:
        for label in ("m003_something", "m004_something"):
            back_up_database(project.db, project.folder / "index.db", label)
    (town / ".localrag" / "chunk.0123456789abcdef.faiss").write_text("of before")
    (town / ".localrag" / "chunk.1.faiss.localrag-999999999-00.part").write_text("of a process that was killed")
    before = set(rows(town, CALLS))
    said = collected(town, only_say=True)
    still = set(rows(town, CALLS))
    done = collected(town)
    after = set(rows(town, CALLS))

    assert before == still and after == {(k,) for (k,) in before if not k.startswith("x")}
    assert said == done and said["answers"] == len(before - after) and said["extractions"] == 2
    assert (said["backups"], said["caches"]) == (1, 2)
    assert collected(town) == {}


def test_what_a_stopped_run_asked_stays(town, monkeypatch):
    """A run that ended before its graph was published asked for descriptions that no stored entity has: a collection leaves them to it."""
    (town / "docs" / "new.txt").write_text("Lars Holm sold the Skua to Agnes Thorburn. Mayor Ruth Sand met Lars Holm.")
    with monkeypatch.context() as patch:
        patch.setattr("localrag.indexing.pipeline.generations.publish", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            index(town)
    before = set(rows(town, CALLS))
    collected(town)

    assert set(rows(town, CALLS)) == before
    assert index(town) == []


def test_what_users_made_stays(town):
    """Conversations, decisions about names, collections, settings and the domain are not touched."""
    with opened(town) as project:
        asyncio.run(answer_question("Who bought the ferry Skua?", project, QueryOptions("basic", style="extractive")))
    run_localrag("collections", "set", "letters", "docs/b.txt", cwd=town)
    tables = ("answers", "collection_documents", "removed_documents", "documents", "entities", "reports")
    before = [rows(town, f"SELECT * FROM {t}") for t in tables]
    settings = runs.load_settings(open_index(town / ".localrag"))
    collected(town)

    assert [rows(town, f"SELECT * FROM {t}") for t in tables] == before
    assert runs.load_settings(open_index(town / ".localrag")) == settings


def test_backups_go_by_age_and_the_last_one_stays_a_while(town):
    """Of copies of the database a run leaves the newest, and that one until it is as old as the limit says."""
    folder = town / ".localrag"
    with opened(town) as project:
        for label in ("m003_something", "repair"):
            back_up_database(project.db, folder / "index.db", label)
    os.utime(folder / "index.db.before-m003_something", (1, 1))
    (town / "docs" / "a.md").write_text("Ingrid Holm sold the ferry.")
    index(town)
    one = sorted(f.name for f in folder.glob("index.db.before-*"))
    old = time.time() - (retention.RETENTION_DAYS + 1) * 86_400
    os.utime(folder / "index.db.before-repair", (old, old))
    (town / "docs" / "a.md").write_text("Ingrid Holm sold the ferry again.")
    index(town)

    assert one == ["index.db.before-repair"]
    assert list(folder.glob("index.db.before-*")) == []


def test_files_of_the_engine_go_when_they_were_not_used_for_long(town, home):
    """Kept beginnings of prompts and copies of models, which every index shares, go by the time of their last use."""
    cache = home / "cache"
    for name in ("prefixes/some model/70-ab.kv", "models/other.ab.Q8_0.gguf"):
        for state, days in (("old", 100), ("new", 1)):
            path = cache / name.replace(".", f"-{state}.", 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
            os.utime(path, (time.time() - days * 86_400,) * 2)
    said = collected(town)
    left = {p.name for p in cache.rglob("*-old*")} | {p.name for p in cache.rglob("*-new*")}
    for path in cache.rglob("*-new*"):
        path.unlink()

    assert (said["prefixes"], said["copies of models"]) == (1, 1)
    assert left == {"70-ab-new.kv", "other-new.ab.Q8_0.gguf"}


def test_answers_to_questions_are_asked_for_again_for_a_while(town):
    """What the model said for a question is kept for so many days; the answer itself, with its citations, stays."""
    with opened(town) as project:
        with project.db.atomic():
            project.db.execute("UPDATE llm_calls SET subject = 'question' WHERE key = (SELECT key FROM llm_calls WHERE task = 'report')")
        asyncio.run(answer_question("Who bought the ferry Skua?", project, QueryOptions("basic", style="extractive")))
    collected(town)
    young = rows(town, "SELECT count(*) FROM llm_calls WHERE subject = 'question'")
    age(town, retention.RETENTION_DAYS + 1)
    collected(town)

    assert young == [(1,)]
    assert rows(town, "SELECT count(*) FROM llm_calls WHERE subject = 'question'") == [(0,)]
    assert rows(town, "SELECT count(*) FROM answers") == [(1,)]


def test_beyond_the_limit_of_size_the_oldest_go(town, monkeypatch):
    """Unused answers are kept up to so many bytes, the newest of them."""
    monkeypatch.setattr(retention, "RETENTION_BYTES", 1500)
    (town / "docs" / "secret.txt").write_text("Lars Holm wrote to Mayor Ruth Sand. Mayor Ruth Sand met Ingrid Holm.")
    index(town)
    (town / "docs" / "secret.txt").write_text("Lars Holm met Ingrid Holm.")
    index(town)

    assert retention.retained_garbage(open_index(town / ".localrag"), town / ".localrag")["unused_answer_bytes"] <= 1500


def letter(chance):
    """A short document of names that come again and of words that do not."""
    people = ["Ingrid Holm", "Lars Holm", "Ruth Sand", "Agnes Thorburn", "Walter Muir", "Peter Quist", "Anna Dahl", "Olaf Berg"]
    said = ("{} wrote to {} about the {}.", "{} met {} at the {}.", "{} owes {} a {}.")
    words = ["".join(chance.choices("abdeiklmnorstu", k=8)) for _ in range(40)]
    return " ".join(chance.choice(said).format(*chance.sample(people, 2), chance.choice(words)) for _ in range(8))


def size(folder):
    return sum(f.stat().st_size for f in folder.iterdir())


@pytest.mark.slow
def test_a_month_of_edits_leaves_an_index_as_small_as_a_new_one(tmp_path):
    """Thirty days of documents added, edited, renamed and deleted, each with a run: the folder is about that of a fresh index."""
    chance, docs = random.Random(3), tmp_path / "docs"
    docs.mkdir()
    for n in range(8):
        (docs / f"{n}.txt").write_text(letter(chance))
    sizes = []
    with Index.create(tmp_path, extractor="phrases") as month, month.write_session():
        for day in range(31):
            there = sorted(docs.iterdir())
            chance.shuffle(there)
            there[0].write_text(letter(chance))
            there[1].write_text(there[1].read_text() + " Ruth Sand signed it.")
            there[2].rename(docs / f"moved-{day}.txt")
            there[3].unlink()
            (docs / f"new-{day}.txt").write_text(letter(chance))
            month.add(docs, deletion=DeletionPolicy(prune=True))
            sizes.append(size(tmp_path / ".localrag"))
    with Index.create(tmp_path / "again", extractor="phrases") as fresh, fresh.write_session():
        shutil.copytree(docs, tmp_path / "again" / "docs")
        fresh.add(tmp_path / "again" / "docs")
        new = size(tmp_path / "again" / ".localrag")
    sys.stdout.write(f"first day {sizes[0]}, last {sizes[-1]}, fresh {new}")

    assert sizes[-1] < 1.5 * new
    assert max(sizes) < 2 * new


def test_themes_are_made_by_a_run_and_stay(town):
    """A run writes the themes of its graph, in place of those of the graph before; a collection leaves them."""
    index(town)
    (before,) = (town / ".localrag").glob("themes.*")
    (town / "docs" / "new.txt").write_text("Agnes Thorburn painted the Skua green. Lars Holm met Agnes Thorburn in Vardby.\n")
    index(town)
    (now,) = (town / ".localrag").glob("themes.*")
    collected(town)

    assert now != before
    assert now.exists()
