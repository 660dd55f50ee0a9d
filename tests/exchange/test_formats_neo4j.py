"""The files for Neo4j, read back by their own rules: the headers of `neo4j-admin`, and the Cypher statements."""

import csv
import io
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrag.exchange.export import export_index
from localrag.exchange.formats import ARRAY_DELIMITER, _cell, _literal
from localrag.store import export_rows, graph
from localrag.text.sentences import replace_control_characters
from tests.exchange.made import make_index

_HEADER = re.compile(r"(?P<name>\w*):(?P<kind>ID|START_ID|END_ID|LABEL|TYPE|long|double|string\[\]|string)(?:\((?P<space>\w+)\))?")
_STRING = r"'(?:[^'\\]|\\.)*'"
_TOKEN = re.compile(
    rf"\s*(?:(?P<string>{_STRING}(?: \+ {_STRING})*)|(?P<number>-?[\d.]+(?:e-?\d+)?)|(?P<name>\w+)(?=:)|(?P<sign>[\[\]{{}},:]))"
)
_BACK = {"n": "\n", "t": "\t", "\\": "\\", "'": "'"}


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


def literal(text):
    """A Cypher list of maps, as Python values; `\\u` in a string would be an escape, so it must not occur."""
    tokens = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found, text[at : at + 80]
        tokens.append(found)
        at = found.end()
    stack = [[]]
    key = None
    for token in tokens:
        if token["sign"] in ("[", "{"):
            stack.append([] if token["sign"] == "[" else {})
            stack[-1:] = [(stack[-1], key)]
        elif token["sign"] in ("]", "}"):
            value, key = stack.pop()
            put(stack, key, value)
        elif token["name"]:
            key = token["name"]
        elif token["string"]:
            put(stack, key, string(token["string"]))
        elif token["number"]:
            put(stack, key, float(token["number"]) if "." in token["number"] or "e" in token["number"] else int(token["number"]))
    return stack[0][0]


def put(stack, key, value):
    inner = stack[-1][0] if isinstance(stack[-1], tuple) else stack[-1]
    if isinstance(inner, dict):
        inner[key] = value
    else:
        inner.append(value)


def string(text):
    assert "\\u" not in text
    parts = [part[1:-1] for part in re.findall(_STRING, text)]
    return re.sub(r"\\(.)", lambda found: _BACK[found[1]], "".join(parts), flags=re.S)


def filled(row):
    return {name: value for name, value in row.items() if value != ""}


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


def test_the_cypher_file_says_the_same(folder):
    """Statement by statement the rows of the CSV files, in batches, with MERGE only, so that it can run again."""
    text = (folder / "graph.cypher").read_text(encoding="utf-8")
    assert "apoc" not in text.lower()
    assert not re.search(r"^CREATE (?!CONSTRAINT)", text, re.MULTILINE)
    found = {}
    for rows, merge in re.findall(r"^UNWIND (\[\n.*?\n\]) AS row\n([^\n]*);$", text, re.MULTILINE | re.DOTALL):
        found.setdefault(re.search(r"MERGE .*?:(\w+)", merge)[1], []).extend(literal(rows))
    files = {"Entity": "entities", "Chunk": "chunks", "Document": "documents", "Community": "communities", "Claim": "claims"}
    for label, name in files.items():
        own = [{k: v for k, v in row.items() if k != "LABEL"} for row in read_csv(folder / f"{name}.csv")]
        assert list(map(filled, found[label])) == list(map(filled, own))
    related = [(row["START_ID"], row["END_ID"], row["weight"]) for row in read_csv(folder / "related.csv")]
    assert [(row["a"], row["b"], row["weight"]) for row in found["RELATED"]] == related


def test_the_readme_names_every_file(folder):
    """The command for `neo4j-admin` is one command, and takes each CSV file just once."""
    command = re.search(r"^neo4j-admin .*?(?=^```)", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
    words = shlex.split(command)
    assert words[:4] == ["neo4j-admin", "database", "import", "full"]
    named = [word.partition("=")[2] for word in words if word.startswith(("--nodes", "--relationships"))]
    assert sorted(named) == sorted(p.name for p in folder.glob("*.csv"))
    assert {"--multiline-fields=true", "--array-delimiter=U+001F"} <= set(words)


def test_files_without_rows_are_not_in_the_command(tmp_path):
    """Neo4j refuses a node file without nodes: what an index has none of is left out of the command."""
    export_index(make_index(tmp_path, ("Ada", "Bob"), claims=False), "csv", tmp_path / "out")
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "entities.csv" in readme
    assert "claims.csv" not in readme


@given(st.text())
def test_any_text_is_read_as_it_was_written(text):
    """In a cell of CSV and in a string of Cypher."""
    cleaned = replace_control_characters(text)
    assert list(csv.reader(io.StringIO(f"{_cell(cleaned)},x\n", newline=""), strict=True)) == [[cleaned, "x"]]
    assert literal(f"[{{a: {_literal(cleaned)}}}]") == [{"a": cleaned}]
