"""A small output of Microsoft GraphRAG is taken over into an empty index, into one with documents, and after an import that was stopped."""

import json
import shutil

import pytest

from localrag.exchange.foreign import GRAPHRAG
from localrag.store import documents as documents_store
from localrag.store import generations, graph
from localrag.store.opening import open_index
from tests.conftest import TOWN, run_localrag

pyarrow = pytest.importorskip("pyarrow")

ENTITIES = {
    "INGRID HOLM": ("PERSON", "Ingrid Holm bought the ferry Skua.", ("a.md", "b.txt")),
    "SKUA": ("ARTIFACT", "The Skua is a ferry.", ("a.md", "b.txt")),
    "NORTHERN LINE": ("ORGANIZATION", "The company that sold the Skua.", ("a.md", "b.txt")),
    "RUTH SAND": ("PERSON", "The mayor.", ("b.txt",)),
    "HARBOUR COMMITTEE": ("ORGANIZATION", "Nobody in the text.", ("b.txt",)),
}
EDGES = [
    ("INGRID HOLM", "SKUA", "Ingrid Holm owns the Skua.", 9.0, ("a.md",)),
    ("NORTHERN LINE", "SKUA", "The Northern Line sold the Skua.", 14.0, ("a.md", "b.txt")),
    ("RUTH SAND", "NORTHERN LINE", "She asked it to pay.", 6.0, ("b.txt",)),
    ("RUTH SAND", "HARBOUR COMMITTEE", "She chairs it.", 5.0, ("b.txt",)),
]
GROUPS = {0: (0, -1, [*ENTITIES]), 1: (1, 0, ["INGRID HOLM", "SKUA"]), 2: (1, 0, ["NORTHERN LINE", "RUTH SAND", "HARBOUR COMMITTEE"])}
FINDING = {"summary": "A sale", "explanation": "INGRID HOLM bought the ship."}


def write(folder, *, reports=True, **other):
    """The tables over the town's documents, a chunk each; `other`: rows of tables in place of these."""
    from pyarrow import parquet

    report = {"summary": "What it says.", "rank": 6.5, "rating_explanation": "It matters.", "findings": [FINDING]}
    tables = {
        "documents": [{"id": path, "title": path, "text": text} for path, text in TOWN.items()],
        "text_units": [{"id": f"t {path}", "text": text, "document_id": path} for path, text in TOWN.items()],
        "entities": [
            {"id": name, "human_readable_id": n, "title": name, "type": kind, "description": text, "text_unit_ids": [f"t {p}" for p in at]}
            for n, (name, (kind, text, at)) in enumerate(ENTITIES.items())
        ],
        "relationships": [
            {"human_readable_id": n, "source": a, "target": b, "description": text, "weight": w, "text_unit_ids": [f"t {p}" for p in at]}
            for n, (a, b, text, w, at) in enumerate(EDGES)
        ],
    }
    if reports:
        tables["communities"] = [{"community": n, "level": level, "parent": parent, "entity_ids": names}
                                 for n, (level, parent, names) in GROUPS.items()]  # fmt: skip
        tables["community_reports"] = [{"community": n, "title": f"The ferry trade {n}"} | report for n in GROUPS]
    folder.mkdir()
    for name, rows in (tables | other).items():
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def test_an_output_is_taken_over(tmp_path):
    """What the text proves is kept, what it does not is listed; questions are answered with verbatim citations; again is a no-op."""
    write(tmp_path / "work")
    done = run_localrag("import", "graphrag", "work", "--json", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    db = open_index(tmp_path / ".localrag")

    assert said["program"] == GRAPHRAG
    assert said["kept"] == {"documents": 3, "chunks": 3, "entities": 4, "relationships": 3, "reports": 3}
    assert {row["what"].casefold() for row in said["left_out"]} == {
        "entity harbour committee", "relationship ruth sand – harbour committee"}  # fmt: skip
    found = {e.name: e for e in graph.entities(db)}
    assert {"Ingrid Holm", "Skua", "Northern Line"} <= found.keys()
    assert any(name.endswith("Ruth Sand") for name in found)
    assert found["Skua"].description == "The Skua is a ferry."
    reports = graph.imported_reports(db)
    assert {(r.title[:-2], r.rating) for r in reports.values()} == {("The ferry trade", 6.5)}
    quotes = [q.text for r in reports.values() for f in r.findings for q in f.quotes]
    assert quotes and all("Ingrid Holm" in text for text in quotes)
    levels = {c.id: (c.level, len(c.entity_ids)) for c in graph.communities(db) if c.id in reports}
    assert sorted(levels.values()) == [(0, 4), (1, 2), (1, 2)]  # one of their entities is nowhere in the text
    assert run_localrag("check", cwd=tmp_path).returncode == 0
    answer = json.loads(run_localrag("ask", "Who bought the ferry Skua?", "--json", cwd=tmp_path).stdout)
    assert any("Ingrid Holm bought the ferry Skua" in c["quote"] for c in answer["citations"])
    assert sorted(documents_store.document_hashes(db)) == ["work/a.md", "work/b.txt", "work/c.txt"]
    rows = sorted(db.conn.iterdump())
    assert json.loads(run_localrag("import", "graphrag", "work", "--json", "-q", cwd=tmp_path).stdout)["known"] is True
    assert sorted(db.conn.iterdump()) == rows


def test_several_imports_and_own_documents_stand_beside_each_other(plain_town, tmp_path):
    """Each document under its own path, one entity for all of them, and a second import takes no community of the first."""
    shutil.copytree(plain_town, tmp_path / "town")
    write(tmp_path / "town" / "one")
    write(tmp_path / "town" / "two", reports=False)
    reports = []
    for folder in ("one", "two"):
        done = run_localrag("import", "graphrag", folder, "-q", cwd=tmp_path / "town")
        assert done.returncode == 0, done.stderr
        db = open_index(tmp_path / "town" / ".localrag")
        reports.append(graph.imported_reports(db))
        paths = {p.split("/")[0] for p in documents_store.document_hashes(db)}
        db.close()
        assert run_localrag("check", cwd=tmp_path / "town").returncode == 0
    assert reports[0] == reports[1] != {}
    assert paths == {"docs", "one", "two"}


def test_an_import_that_was_stopped_is_made_good_by_the_same_command(plain_town, tmp_path, monkeypatch):
    """What was stored by then is no obstacle."""
    shutil.copytree(plain_town, tmp_path / "town")
    write(tmp_path / "town" / "work")
    with monkeypatch.context() as patch:

        def stopped(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(generations, "publish", stopped)
        assert run_localrag("import", "graphrag", "work", "-q", cwd=tmp_path / "town").returncode != 0
    done = run_localrag("import", "graphrag", "work", "--json", "-q", cwd=tmp_path / "town")

    assert json.loads(done.stdout)["kept"]["reports"] == 3
    db = open_index(tmp_path / "town" / ".localrag")
    assert len({r.title for r in graph.imported_reports(db).values()}) == 3
    db.close()
    assert run_localrag("check", cwd=tmp_path / "town").returncode == 0
