"""Microsoft GraphRAG's output is taken over: what its text proves is kept, with its reports; the rest is listed."""

import json
import shutil

import pytest

from localrag.errors import UsageError
from localrag.exchange.foreign import choose_communities, read_graphrag
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.records import IMPORTED_MARK
from localrag.store import chunks as chunks_store
from localrag.store import documents, graph
from localrag.store.opening import open_index
from tests.conftest import DATA, run_localrag, write_town

DULCE = DATA / "texts" / "dulce_ms_graphrag_output"
pytestmark = [pytest.mark.ci, pytest.mark.skipif(not DULCE.exists(), reason="needs the annotated data")]
parquet = pytest.importorskip("pyarrow.parquet")


def imported(folder, source=DULCE):
    done = run_localrag("import", "graphrag", str(source), "--json", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def dulce(tmp_path_factory):
    """An index made of nothing but the imported output, and what the import said."""
    folder = tmp_path_factory.mktemp("dulce")
    return folder, imported(folder)


@pytest.fixture
def copy(dulce, tmp_path):
    shutil.copytree(dulce[0], tmp_path / "copy")
    return tmp_path / "copy"


def opened(folder):
    return open_index(folder / ".localrag")


def reports_of(folder):
    db = opened(folder)
    return graph.imported_reports(db)


def wrongs(folder):
    done = run_localrag("check", cwd=folder)
    return done.stdout + done.stderr if done.returncode else ""


def test_chunks_and_mentions_are_verbatim_and_the_index_is_sound(dulce):
    """`localrag check` finds nothing wrong; the chunks are those that were paid for."""
    db = opened(dulce[0])
    chunks = chunks_store.all_chunks(db)
    (text,) = [text for (text,) in db.execute("SELECT text FROM documents")]

    assert [c.text for c in chunks] == [t["text"].strip() for t in parquet.read_table(DULCE / "text_units.parquet").to_pylist()]
    assert all(text[m.start : m.end] == m.name for m in graph.mentions(db) if "\n" not in text[m.start : m.end])
    assert {"Alex Mercer", "Taylor Cruz", "Jordan Hayes", "Sam Rivera"} <= {e.name for e in graph.entities(db)}
    mercer = next(e for e in graph.entities(db) if e.name == "Alex Mercer")
    assert (mercer.type, mercer.description[:17]) == ("person", "Agent Alex Mercer")
    assert wrongs(dulce[0]) == ""


def test_reports_are_kept_word_for_word_with_quotes_in_place_of_numbers(dulce):
    """Title, summary, rating and findings are GraphRAG's; what `[Data: …]` pointed to is quoted from the documents."""
    theirs = {row["full_content"][:400]: row for row in parquet.read_table(DULCE / "community_reports.parquet").to_pylist()}
    ours = {r.markdown[:400]: r for r in graph.imported_reports(opened(dulce[0])).values() if r.markdown[:400] in theirs}

    assert len(theirs) == 10
    assert ours.keys() == theirs.keys()
    for key, report in ours.items():
        row = theirs[key]
        assert (report.title, report.summary, report.rating) == (row["title"], row["summary"], row["rank"])
        assert [f.summary for f in report.findings] == [f["summary"] for f in row["findings"]]
        for finding, theirs_too in zip(report.findings, row["findings"], strict=True):
            assert "[Data:" not in finding.explanation
            assert theirs_too["explanation"].startswith(finding.explanation[:60])
    ours = reports_of(dulce[0])
    assert sum(bool(f.quotes) for r in ours.values() for f in r.findings) > 0.75 * sum(len(r.findings) for r in ours.values())


def test_indexing_a_folder_into_it_keeps_what_was_imported(copy):
    """Documents, descriptions, communities and reports stay as they are beside what is new; so after a second file, and a removal."""
    db = opened(copy)
    before, entities = reports_of(copy), {e.name: e.description for e in graph.entities(db)}
    groups = {c.id: {*c.entity_ids} for c in graph.communities(db)}
    db.close()
    write_town(copy / "docs")
    for step in ("index . --extractor phrases", "index . --extractor phrases", "rm docs/b.txt -q"):
        done = run_localrag(*step.split(), cwd=copy)
        assert done.returncode == 0, done.stderr
        db = opened(copy)
        assert reports_of(copy) == before, step
        now = {e.name: e.description for e in graph.entities(db)}
        assert entities.items() <= now.items()
        assert {"Ingrid Holm", "Alex Mercer"} <= now.keys()
        assert {c.id: {*c.entity_ids} for c in graph.communities(db) if c.id in groups} == groups
        assert db.execute("SELECT count(*) FROM documents WHERE content_hash LIKE ?", [f"{IMPORTED_MARK} %"]).fetchone()[0] == 1
        assert wrongs(copy) == ""


def test_a_damaged_document_waits_to_be_imported_again(copy):
    """Repaired, it is not taken for one whose file is gone; the next import of the same output makes it sound."""
    db = opened(copy)
    with db.atomic():
        db.execute("UPDATE documents SET text = text || '!' WHERE id = (SELECT min(id) FROM documents)")
    db.close()
    run_localrag("check", "--repair", cwd=copy)
    write_town(copy / "docs")
    before = len(documents.document_hashes(opened(copy)))
    assert run_localrag("index", "docs", "--extractor", "phrases", "-q", cwd=copy).returncode == 0
    assert len(documents.document_hashes(opened(copy))) == before + 3
    imported(copy)

    assert len(documents.document_hashes(opened(copy))) == before + 3
    assert not wrongs(copy)


def test_no_chat_model_reads_what_was_read(copy, dulce):
    """Indexing with the model's extraction asks it about the new document only."""
    (copy / "docs").mkdir()
    (copy / "docs" / "a.txt").write_text("Ingrid Holm bought the ferry Skua in Vardby.")
    done = run_localrag("index", "docs", cwd=copy)
    assert done.returncode == 0, done.stderr
    db = opened(copy)

    recipes = db.execute(
        "SELECT d.path, e.config_hash FROM extractions e JOIN chunks c ON c.id = e.chunk_id JOIN documents d ON d.id = c.document_id"
    )
    by_model = {path for path, recipe in recipes if recipe not in (PHRASES_HASH, IMPORTED_MARK)}
    assert by_model == {"docs/a.txt"}
    assert {r.title for r in reports_of(copy).values()} == {r.title for r in reports_of(dulce[0]).values()}


def test_what_an_imported_document_said_goes_with_it(copy):
    """After `localrag rm` no report that was made of it is left."""
    write_town(copy / "docs")
    run_localrag("index", "docs", "--extractor", "phrases", cwd=copy)
    (path,) = [p for p, h in documents.document_hashes(opened(copy)).items() if h.startswith(IMPORTED_MARK)]
    done = run_localrag("rm", path, "-q", cwd=copy)

    assert done.returncode == 0, done.stderr
    assert reports_of(copy) == {}
    assert b"Paranormal" not in (copy / ".localrag" / "index.db").read_bytes()
    assert wrongs(copy) == ""


def rewritten(target, rename, columns):
    """The Dulce output under other names of files and columns; a column renamed to None is left out."""
    target.mkdir()
    for file in DULCE.glob("*.parquet"):
        table = parquet.read_table(file)
        names = {c: columns.get((file.stem, c), c) for c in table.column_names}
        table = table.select([c for c, new in names.items() if new]).rename_columns([new for new in names.values() if new])
        parquet.write_table(table, target / f"{rename(file.stem)}.parquet")
    return target


def test_versions_1_to_3_are_read_alike(tmp_path):
    """Names of files before 2.0, several documents of a chunk, no parents of communities, another word for a reason."""
    first = rewritten(
        tmp_path / "one",
        lambda stem: f"create_final_{stem}",
        {("communities", "parent"): None, ("communities", "children"): None, ("entities", "frequency"): None,
         ("entities", "degree"): None, ("community_reports", "rating_explanation"): "rank_explanation"},
    )  # fmt: skip
    units = parquet.read_table(first / "create_final_text_units.parquet").to_pylist()
    import pyarrow

    rows = [{k: v for k, v in u.items() if k != "document_id"} | {"document_ids": [u["document_id"]]} for u in units]
    parquet.write_table(pyarrow.Table.from_pylist(rows), first / "create_final_text_units.parquet")
    (tmp_path / "project").mkdir()
    shutil.copytree(DULCE, tmp_path / "project" / "output")
    third, second = read_graphrag(DULCE), read_graphrag(first)

    assert read_graphrag(tmp_path / "project") == third
    for name in ("documents", "chunks", "entities", "relationships", "reports"):
        assert second.tables[name] == third.tables[name], name
    assert [c["level"] for c in choose_communities(second.tables, {})].count(0) == len(choose_communities(second.tables, {})) > 0


def test_other_versions_and_damaged_tables_are_refused_by_name(tmp_path):
    """With what was expected and what was found; no index is made."""
    old = rewritten(tmp_path / "old", lambda stem: f"create_final_{stem}", {("entities", "title"): "name"})
    with pytest.raises(UsageError, match=r"expected a column title, found .*name"):
        read_graphrag(old)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "stats.json").write_text("{}")
    with pytest.raises(UsageError, match=r"expected documents\.parquet.*found stats\.json"):
        read_graphrag(tmp_path / "empty")
    shutil.copytree(DULCE, tmp_path / "torn")
    (tmp_path / "torn" / "entities.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(UsageError, match=r"entities\.parquet cannot be read"):
        read_graphrag(tmp_path / "torn")
    done = run_localrag("import", "graphrag", str(old), cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / ".localrag").exists()
