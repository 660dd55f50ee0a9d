"""What takes minutes: a whole novel. Run by `make test-all`."""

import json
import sys
import time

import pytest

from tests.cli.commands.test_index import check_citations, rows
from tests.conftest import DATA, TOWN, run_process, write_town

pytestmark = pytest.mark.slow
GRAPH = {
    "entities": "SELECT * FROM entities ORDER BY id",
    "relationships": "SELECT * FROM relationships ORDER BY id",
    "mentions": "SELECT * FROM mentions ORDER BY entity_id, chunk_id, start",
    "evidence": "SELECT * FROM evidence ORDER BY relationship_id, chunk_id, start",
    "members": "SELECT * FROM community_members ORDER BY community_id, entity_id",
    "reports": "SELECT * FROM reports ORDER BY community_id",
    "answers of the model": "SELECT key, text FROM llm_calls ORDER BY key",
}

EDGES = "SELECT a.name, b.name FROM relationships r JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id"


def many_documents(folder):
    write_town(folder / "docs")
    for n in range(12):
        people = f"Ada Quist met Number{n} Berg in Port{n} after the Harvest Fair. Number{n} Berg owns the Hotel Polar with Ada Quist."
        (folder / "docs" / f"more{n}.txt").write_text(f"{people} {TOWN['b.txt']}", encoding="utf-8")


@pytest.mark.skipif(not DATA.exists(), reason="A Christmas Carol is not here")
def test_a_christmas_carol(tmp_path):
    """The novel's people are persons connected to each other, its index is whole, and the themes are cited."""
    book = DATA / "texts" / "christmas_carol.txt"
    started = time.monotonic()
    done = run_process("index", str(book), cwd=tmp_path, timeout=3000)
    assert done.returncode == 0, done.stderr
    sys.stderr.write(f"A Christmas Carol: {time.monotonic() - started:.0f} s\n")

    people = {"Scrooge", "Bob Cratchit", "Marley", "Fezziwig", "Tiny Tim", "Belle"}
    named = dict(rows(tmp_path, "SELECT alias, e.name FROM entity_aliases JOIN entities e ON e.id = entity_id WHERE type = 'person'"))
    assert people <= named.keys()
    joined = {frozenset(pair) for pair in rows(tmp_path, EDGES)}
    pairs = [
        ("Scrooge", "Marley"),
        ("Scrooge", "Bob Cratchit"),
        ("Bob Cratchit", "Tiny Tim"),
        ("Scrooge", "Fezziwig"),
        ("Belle", "the husband"),  # beside whom the story itself names her once
    ]
    assert {frozenset((named[a], named[b])) for a, b in pairs} <= joined
    shown = "SELECT 1 FROM mentions m JOIN chunks c ON c.id = m.chunk_id WHERE m.entity_id = e.id AND instr(c.text, e.name)"
    assert rows(tmp_path, f"SELECT name FROM entities e WHERE NOT EXISTS ({shown})") == []
    homes = "SELECT 1 FROM community_members m JOIN communities c ON c.id = m.community_id GROUP BY level, entity_id HAVING count(*) <> 1"
    assert rows(tmp_path, homes) == []
    assert rows(tmp_path, "SELECT count(*) FROM communities WHERE id NOT IN (SELECT community_id FROM reports)") == [(0,)]
    answer = json.loads(run_process("ask", "--mode", "global", "What are the main themes?", "--json", cwd=tmp_path).stdout)
    assert len(answer["citations"]) >= 3
    check_citations(tmp_path, answer)
