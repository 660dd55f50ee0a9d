"""How many themes of a list "What are the main themes?" brings up, against as many sentences drawn at random from the same reports.

    python -m scripts.measure.themes ../shared/data tests/query/data/themes.json [BOOK …]

Each book is indexed without a language model in a temporary folder; printed are the answer's titles, the themes found and the chance.
"""

import asyncio
import json
import random
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from localrag.asking import answer_question
from localrag.demo import CORPUS
from localrag.engine.settings import EngineOptions
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.query.question import QueryOptions
from localrag.store import graph

DRAWS = 2000


def found(texts: Sequence[str], cues: Mapping[str, str]) -> set[str]:
    """The themes whose cue stands in one of the texts."""
    return {name for name, cue in cues.items() if any(re.search(cue, text) for text in texts)}


def chance(pool: Sequence[str], n: int, cues: Mapping[str, str]) -> float:
    """How many themes `n` sentences of the pool bring up on average."""
    draw = random.Random(0)
    return sum(len(found(draw.sample(pool, min(n, len(pool))), cues)) for _ in range(DRAWS)) / DRAWS


def measure(name: str, source: Path, cues: Mapping[str, str]) -> None:
    """Index a book, ask for its themes and print what came up."""
    with tempfile.TemporaryDirectory() as folder, open_for_writing(Path(folder), extractor="phrases", engine=EngineOptions()) as project:
        asyncio.run(build_index([source], project, lambda _: None))
        given = asyncio.run(answer_question("What are the main themes?", project, QueryOptions("global")))
        reports = graph.reports(project.db)
    pool = sorted({q.text for r in reports for f in r.findings for q in f.quotes})
    said = [c.quote for c in given.citations]
    up = found(said, cues)
    print(f"{name}: {len(up)} of {len(cues)} in {len(said)} sentences; at random {chance(pool, len(said), cues):.1f} (of {len(pool)})")
    print(f"  missing: {', '.join(sorted(set(cues) - up)) or 'none'}")
    for title in re.findall(r"^\*\*(.+)\*\*$", given.answer, re.MULTILINE):
        print(f"  {title}")


def main() -> None:
    """All books of the list, or those named."""
    data, lists = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    for name, book in lists.items():
        if name != "note" and (name in sys.argv[3:] or not sys.argv[3:]):
            measure(name, CORPUS if book["source"] == "demo" else data / book["source"], book["themes"])


if __name__ == "__main__":
    main()
