"""What of a good writer's extraction an index keeps: labelled entities and relations are replayed as the answers of a chat model.

    python -m scripts.measure_extraction_losses REDOCRED.json [--documents 30] [--seed 1]

REDOCRED.json has documents as Re-DocRED does: `sents`, `vertexSet`, `labels`. A server on loopback answers each request for names or pairs
with the labelled ones of its text, of which a third is written as models do: in another case, number or kind of quotes, with an article;
types with a capital. Prints how many labelled entities and pairs are in the graph afterwards, by how they were written, and how many rows
were dropped.
"""

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localrag.indexing.graph.entity_resolution import name_key
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.store import runs
from tests.servers import Server, llama

TYPES = {"PER": "person", "ORG": "organization", "LOC": "place", "TIME": "date", "NUM": "number", "MISC": "event"}
WAYS: dict[str, Callable[[str], str]] = {
    "lower case": str.lower,
    "capitals": str.upper,
    "plural": lambda name: f"{name}s",
    "curly quotes": lambda name: f"“{name}”",
    "article": lambda name: f"the {name}",
}
SHARE_CHANGED = 1 / 3


class Replay:
    """Answers requests for the names and pairs of a text with its labels."""

    def __init__(self, documents: list[dict[str, Any]], rng: random.Random) -> None:
        self.texts = [" ".join(" ".join(s) for s in d["sents"]) for d in documents]
        self.names: list[dict[int, str]] = []
        self.written: list[dict[int, tuple[str, str]]] = []
        self.types: list[dict[int, str]] = []
        self.pairs: list[set[tuple[int, int]]] = []
        for document, text in zip(documents, self.texts, strict=True):
            named = {
                n: mentions[0]["name"] for n, mentions in enumerate(document["vertexSet"]) if mentions[0]["type"] not in ("NUM", "TIME")
            }
            named = {n: name for n, name in named.items() if name in text}
            self.names.append(named)
            self.types.append({n: TYPES.get(document["vertexSet"][n][0]["type"], "event") for n in named})
            ways = {n: rng.choice(list(WAYS)) if rng.random() < SHARE_CHANGED else "as it stands" for n in named}
            self.written.append({n: (WAYS[way](named[n]) if way in WAYS else named[n], way) for n, way in ways.items()})
            self.pairs.append({(label["h"], label["t"]) for label in document["labels"] if {label["h"], label["t"]} <= named.keys()})

    def __call__(self, body: dict[str, Any]) -> Any:
        prompt = " ".join(m["content"] for m in body["messages"])
        number = next((n for n, text in enumerate(self.texts) if text[:80] in prompt), None)
        if number is None:
            return 500
        asked = body["messages"][-1]["content"]
        if "Which of these entities are related" in asked:
            rows = [self._pair(number, a, b) for a, b in sorted(self.pairs[number])]
            return json.dumps({"items": rows}, ensure_ascii=False)
        if asked.startswith("From: "):
            rows = [
                {
                    "name": written,
                    "type": self.types[number][n].capitalize(),
                    "description": f"{self.names[number][n]} is named in the text.",
                }
                for n, (written, _) in self.written[number].items()
            ]
            return json.dumps({"items": rows}, ensure_ascii=False)
        return json.dumps({"items": []})

    def _pair(self, number: int, a: int, b: int) -> dict[str, Any]:
        source, target = (self.written[number][n][0] for n in (a, b))
        return {"source": source, "target": target, "description": f"{source} and {target} are related.", "strength": 7}


def measure(documents: list[dict[str, Any]], seed: int) -> None:
    """Index the documents with the replayed model and print what is kept."""
    replay = Replay(documents, random.Random(seed))
    with tempfile.TemporaryDirectory() as made, Server(replay, llama("writer", window=16384, slots=4, n_params=8_000_000_000)) as server:
        folder = Path(made) / "docs"
        folder.mkdir()
        for n, text in enumerate(replay.texts):
            (folder / f"{n:03}.txt").write_text(text, encoding="utf-8")
        with open_for_writing(folder / ".localrag", model=f"{server.url}#writer", extractor="model", chunk_tokens=1200) as project:
            asyncio.run(build_index([folder], project, lambda _: None, reports=False))
            db = project.db
            keys = {name_key(alias): entity for alias, entity in db.execute("SELECT alias, entity_id FROM entity_aliases")}
            related = {frozenset(row) for row in db.execute("SELECT source_id, target_id FROM relationships")}
            dropped = runs.load_settings(db).get("dropped_rows", {})
    kept, total = Counter[str](), Counter[str]()
    for named, written, pairs in zip(replay.names, replay.written, replay.pairs, strict=True):
        for n, name in named.items():
            total[f"entities, {written[n][1]}"] += 1
            kept[f"entities, {written[n][1]}"] += name_key(name) in keys
        for a, b in pairs:
            ends = frozenset(keys.get(name_key(named[n]), named[n]) for n in (a, b))
            total["pairs"] += 1
            kept["pairs"] += ends in related or len(ends) == 1
    for what in sorted(total):
        print(f"{what}: {kept[what]} of {total[what]} kept ({kept[what] / total[what]:.1%})")
    print(f"dropped rows: {sum(dropped.values())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    documents = json.loads(args.data.read_text(encoding="utf-8"))
    measure(random.Random(args.seed).sample(documents, args.documents), args.seed)


if __name__ == "__main__":
    main()
