"""JSON Lines: every table, every row, every text exactly as it is stored."""

import json
import re
from pathlib import Path

from localrag.exchange.export import export_index
from localrag.store import export_rows, graph


def test_every_row_comes_back(opened, tmp_path):
    """All tables, with texts as they are, control characters and all."""
    made = export_index(opened, "jsonl", tmp_path / "out")
    found = {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for path in (tmp_path / "out").glob("*.jsonl")
    }
    assert {name: len(rows) for name, rows in found.items()} == made.counts
    counts = graph.counts(opened.db)
    assert {name: n for name, n in made.counts.items() if name in counts} == {n: counts[n] for n in counts if n in made.counts}
    assert {row["id"]: row["name"] for row in found["entities"]} == {e.id: e.name for e in graph.entities(opened.db)}
    assert {(r["source_id"], r["target_id"], r["weight"]) for r in found["relationships"]} == {
        (r.source_id, r.target_id, r.weight) for r in graph.relationships(opened.db)
    }
    assert [row["text"] for row in found["documents"]] == [row["text"] for row in export_rows.documents(opened.db)]
    text = {row["id"]: row["text"] for row in found["documents"]}
    home = {row["id"]: row["document_id"] for row in found["chunks"]}
    for m in found["mentions"]:
        assert text[home[m["chunk_id"]]][m["start"] : m["end"]] == m["name"]
    quote = found["reports"][0]["findings"][0]["quotes"][0]
    assert text[home[quote["chunk_id"]]][quote["start"] : quote["end"]] == quote["text"]
    assert found["chunks"][0]["part"] == "page 1"
    assert found["documents"][0]["parts"] == [{"label": "page 1", "start": 0, "end": 60}]
    assert found["documents"][0]["metadata"] == {"author": "R. Sand: 'x'"}


def test_the_reference_names_every_field(opened, tmp_path):
    """Of every table, in the order in which they are written."""
    export_index(opened, "jsonl", tmp_path / "out")
    page = (Path(__file__).parents[2] / "docs" / "reference" / "export-tables.md").read_text(encoding="utf-8")
    listed = {}
    for name, fields in re.findall(r"^\| `(\w+)\.jsonl` \| (.*) \|$", page, re.MULTILINE):
        listed[name] = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", fields))
    written = {p.stem: list(json.loads(p.read_text(encoding="utf-8").split("\n")[0])) for p in (tmp_path / "out").glob("*.jsonl")}
    assert listed == written
