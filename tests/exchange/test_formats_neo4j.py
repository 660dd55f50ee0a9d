"""The files for Neo4j, read back by the rules of the headers of `neo4j-admin`."""

import csv
import re
import shlex

import pytest

from localrag.exchange.export import export_index
from localrag.exchange.formats import ARRAY_DELIMITER
from localrag.store import export_rows, graph
from localrag.text.sentences import replace_control_characters

_HEADER = re.compile(r"(?P<name>\w*):(?P<kind>ID|START_ID|END_ID|LABEL|TYPE|long|double|string\[\]|string)(?:\((?P<space>\w+)\))?")


@pytest.fixture(scope="module")
def folder(opened, tmp_path_factory):
    path = tmp_path_factory.mktemp("neo4j") / "out"
    export_index(opened, "csv", path)
    return path


def read_csv(path):
    """A file by the rules of its header: rows of typed values; an empty cell is no value."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = [_HEADER.fullmatch(cell) for cell in header]
    assert all(columns), header
    turn = {"long": int, "double": float, "string[]": lambda text: text.split(ARRAY_DELIMITER)}
    return [
        {(c["name"] or c["kind"]): turn.get(c["kind"], str)(v) for c, v in zip(columns, row, strict=True) if v or c["kind"] == "string"}
        for row in rows
    ]


def test_every_node_and_relationship_comes_back(opened, folder):
    """Names with quotes, line breaks and what a spreadsheet would compute are the texts they were; weights and ends are exact."""
    entities = {row["id"]: row for row in read_csv(folder / "entities.csv")}
    for e in graph.entities(opened.db):
        row = entities[e.id]
        assert (row["name"], row["description"], row["degree"], row["LABEL"]) == (
            replace_control_characters(e.name),
            replace_control_characters(e.description),
            e.degree,
            "Entity",
        )
        assert replace_control_characters(e.name) in row["names"]
    related = {row["id"]: row for row in read_csv(folder / "related.csv")}
    for r in graph.relationships(opened.db):
        assert (related[r.id]["START_ID"], related[r.id]["END_ID"], related[r.id]["weight"]) == (r.source_id, r.target_id, r.weight)
    assert [row["text"] for row in read_csv(folder / "chunks.csv")] == [
        replace_control_characters(row["text"]) for row in export_rows.chunks(opened.db)
    ]
    counts = graph.counts(opened.db)
    for name in ("documents", "chunks", "entities", "communities", "claims"):
        assert len(read_csv(folder / f"{name}.csv")) == counts[name]
    assert len(related) == counts["relationships"]


def test_every_end_is_a_node_of_its_id_space(folder):
    """Ids that relationships name are ids of the files with that label."""
    ids = {}
    for path in folder.glob("*.csv"):
        header = path.read_text(encoding="utf-8").splitlines()[0]
        if space := re.search(r"id:ID\((\w+)\)", header):
            ids[space[1]] = {row["id"] for row in read_csv(path)}
    assert set(ids) == {"Document", "Chunk", "Entity", "Community", "Claim"}
    for path in folder.glob("*.csv"):
        header = path.read_text(encoding="utf-8").splitlines()[0]
        if ends := re.search(r":START_ID\((\w+)\),:END_ID\((\w+)\)", header):
            found = read_csv(path)
            assert {row["START_ID"] for row in found} <= ids[ends[1]]
            assert {row["END_ID"] for row in found} <= ids[ends[2]]


def test_the_readme_names_every_file(folder):
    """The command for `neo4j-admin` is one command, and takes each CSV file just once."""
    command = re.search(r"^neo4j-admin .*?(?=^```)", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
    words = shlex.split(command)
    assert words[:4] == ["neo4j-admin", "database", "import", "full"]
    named = [word.partition("=")[2] for word in words if word.startswith(("--nodes", "--relationships"))]
    assert sorted(named) == sorted(p.name for p in folder.glob("*.csv"))
    assert {"--multiline-fields=true", "--array-delimiter=U+001F"} <= set(words)
