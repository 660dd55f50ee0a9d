"""The Parquet tables: those of Microsoft GraphRAG 3, column by column, and read by its own loaders where it is installed."""

import json

import pytest

from localrag.exchange.export import export_index
from localrag.exchange.formats import parquet_schema
from localrag.store import export_rows, graph
from tests.conftest import DATA

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


@pytest.fixture(scope="module")
def folder(opened, tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "out"
    export_index(opened, "parquet", path)
    return path


def rows(folder, name):
    return parquet.read_table(folder / f"{name}.parquet").to_pylist()


def test_every_row_of_the_index_is_there(opened, folder):
    """As many rows as the index has of each; texts and weights as they are stored."""
    counts = graph.counts(opened.db)
    assert len(rows(folder, "documents")) == counts["documents"]
    assert len(rows(folder, "text_units")) == counts["chunks"]
    assert len(rows(folder, "communities")) == counts["communities"] == len(rows(folder, "community_reports"))
    assert len(rows(folder, "covariates")) == counts["claims"] == 2
    entities = {row["id"]: row for row in rows(folder, "entities")}
    for e in graph.entities(opened.db):
        assert (entities[e.id]["description"], entities[e.id]["degree"]) == (e.description, e.degree)
    related = {row["id"]: row for row in rows(folder, "relationships")}
    for r in graph.relationships(opened.db):
        own = related[r.id]
        assert {own["source"], own["target"]} == {entities[r.source_id]["title"], entities[r.target_id]["title"]}
        assert own["weight"] == r.weight
        assert own["combined_degree"] == entities[r.source_id]["degree"] + entities[r.target_id]["degree"]
    assert [row["text"] for row in rows(folder, "text_units")] == [row["text"] for row in export_rows.chunks(opened.db)]


def test_titles_name_one_entity_each(folder):
    """The ends of relationships are titles, so two entities of one name have two of them."""
    titles = [row["title"] for row in rows(folder, "entities")]
    assert len(titles) == len(set(titles))


def test_ids_lead_from_table_to_table(folder):
    """Every id in a list is one of the table that it names; parents and children are those of each other."""
    found = {name: rows(folder, name) for name in parquet_schema()}
    ids = {name: {row["id"] for row in some} for name, some in found.items()}
    for some in found.values():
        for row in some:
            for column, name in (("text_unit_ids", "text_units"), ("entity_ids", "entities"), ("relationship_ids", "relationships")):
                assert set(row.get(column) or ()) <= ids[name]
            assert set(row.get("covariate_ids") or ()) <= ids["covariates"]
    communities = {row["community"]: row for row in found["communities"]}
    for number, row in communities.items():
        assert all(communities[child]["parent"] == number for child in row["children"])
        assert row["parent"] == -1 or number in communities[row["parent"]]["children"]
        assert row["size"] == len(row["entity_ids"])
    for row in found["community_reports"]:
        assert json.loads(row["full_content_json"])["title"] == row["title"]
        assert row["parent"] == communities[row["community"]]["parent"]


@pytest.mark.ci
@pytest.mark.skipif(not (DATA / "texts" / "dulce_ms_graphrag_output").is_dir(), reason="the example of GraphRAG's output is not here")
@pytest.mark.parametrize("name", [name for name in parquet_schema() if name != "documents"])
def test_columns_and_types_are_those_of_graphrag(folder, name):
    """Against its own files: the same columns with the same types; the order is that of its version 3, in which one table was changed."""
    theirs = parquet.read_schema(DATA / "texts" / "dulce_ms_graphrag_output" / f"{name}.parquet").remove_metadata()
    ours = parquet.read_schema(folder / f"{name}.parquet").remove_metadata()
    assert ours.names == theirs.names
    for field in theirs:
        assert str(ours.field(field.name).type).replace("item", "element") == str(field.type).replace("item", "element")


def test_documents_have_the_columns_of_version_3(folder):
    """Which calls the last one raw_data, where version 2 had metadata."""
    names = parquet.read_schema(folder / "documents.parquet").names
    assert names == ["id", "human_readable_id", "title", "text", "text_unit_ids", "creation_date", "raw_data"]
    assert json.loads(rows(folder, "documents")[0]["raw_data"]) == {"author": "R. Sand: 'x'"}
