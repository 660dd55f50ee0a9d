"""Imported folders with cyclic communities, invalid levels and values of unexpected types: nothing loops or crashes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.errors import UsageError
from localrag.exchange.foreign import read_graphrag
from tests.exchange.test_imported_town import write

ROOT = Path(__file__).resolve().parents[2]
NAN = float("nan")
DEADLINE = 60  # seconds: what loops needs longer
READ = """
import json, sys
from pathlib import Path
from localrag.errors import UsageError
from localrag.exchange.foreign import choose_communities, read_graphrag
try:
    skipped = {}
    found = choose_communities(read_graphrag(Path(sys.argv[1])).tables, skipped)
    print(json.dumps([[row["number"] for row in found], skipped]))
except UsageError as error:
    print(json.dumps(str(error)))
"""


def read(folder):
    """Read the folder in another process: the communities it kept and what it left out, or the error."""
    call = [sys.executable, "-c", READ, str(folder)]
    done = subprocess.run(call, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def graphrag(folder, groups, **other):
    """An output of Microsoft GraphRAG with these communities, as (number, level, parent), all of one entity, and with other tables."""
    report = {"summary": "s", "rank": 1.0, "rating_explanation": "", "findings": []}
    reports = [{"community": n, "title": f"r{n}"} | report for n, *_ in groups]
    listed = [{"community": n, "level": level, "parent": parent, "entity_ids": ["SKUA"]} for n, level, parent in groups]
    return write(folder, **{"communities": listed, "community_reports": reports} | other)


CIRCLES = {
    "its own parent": ([(0, 0, -1), (1, 1, 1)], [0]),
    "parents of each other": ([(0, 0, -1), (1, 1, 2), (2, 1, 1)], [0]),
    "a circle of three levels": ([(0, 0, -1), (1, 1, 3), (2, 2, 1), (3, 3, 2)], [0]),
    "below a circle": ([(0, 0, -1), (1, 1, 1), (2, 2, 1)], [0]),
    "a parent that is not there": ([(0, 0, -1), (5, 2, 99)], [0]),
    "levels that are no numbers": ([(0, 0.0, -1.0), (1, NAN, 0.0), (2, float("inf"), 0.0), (3, -1.0, 0.0), (4, 1e300, 0.0)], [0]),
    "half a level": ([(0, 0.0, -1), (1, 0.5, 0)], [0]),
    "as they are written": ([(0, 0, -1), (1, 1, 0), (2, 2, 1)], [0, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("kind", CIRCLES)
def test_communities_that_are_in_no_tree_are_listed(tmp_path, kind):
    """Each with the reason, and in finite time; the trees beside them are kept."""
    communities, kept = CIRCLES[kind]
    found, skipped = read(graphrag(tmp_path / "output", communities))

    assert found == kept
    assert len(skipped) == len(communities) - len(kept)
    assert all(name.startswith("community ") and reason for name, reason in skipped.items())


@pytest.mark.ci
def test_many_communities_are_read_in_finite_time(tmp_path):
    """A table of an early version says no parents."""
    many = [{"community": n, "level": n % 2, "entity_ids": ["SKUA"]} for n in range(20_000)]
    found, _ = read(graphrag(tmp_path / "output", [(0, 0, -1)], communities=many))
    assert found == [0]  # no report but one


@pytest.mark.parametrize(
    "other",
    [{"entities": [{"id": ["e"], "human_readable_id": 0, "title": "A", "type": "", "description": "", "text_unit_ids": ["t"]}]},
     {"entities": [{"id": "e", "human_readable_id": 0, "title": "A", "type": "", "description": "", "text_unit_ids": 7}]},
     {"communities": [{"community": 0, "level": 0, "parent": -1, "entity_ids": 3}]},
     {"community_reports": [{"community": {"a": 1}, "title": "", "summary": "", "rank": 1, "rating_explanation": "", "findings": []}]}],
)  # fmt: skip
def test_ids_of_another_kind_are_refused_with_a_sentence(tmp_path, other):
    """No traceback: the folder is named, and what to do."""
    with pytest.raises(UsageError, match="not as Microsoft GraphRAG writes it") as error:
        read_graphrag(graphrag(tmp_path / "output", [(0, 0, -1)], **other))
    assert error.value.hint
