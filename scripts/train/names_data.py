"""The set that the tagger is trained and measured on: texts in which people marked names and said which of them are related.

    python -m scripts.train.names_data DATA OUT

DATA holds `extraction/`. OUT/names.jsonl gets a text a line: `mentions` as [start, end, type, group, whether it is a name], and `pairs` of
related groups, null where nobody said. A type is one of `ENTITY_TYPES`, or "" where the set's type is none of them and nothing is learned
there.
A fifth of every set, by text, is `kept`: it is never trained on, nor are the documents that `localrag eval extraction` takes for 20 texts.
DATA's licences: CrossNER and Re-DocRED MIT, CrossRE GPL-3.0, LitBank and Wikigold CC BY 4.0.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localrag.eval.datasets import GoldDocument, GoldMention, join_tokens, load_gold
from localrag.llm.tagger import ENTITY_TYPES
from localrag.text.sentences import cached_sentences
from scripts.train.splits import part

OTHER = "other"
TYPED = {
    **dict.fromkeys(("person", "politician", "writer", "musicalartist", "scientist", "researcher", "PER"), "person"),
    **dict.fromkeys(("organisation", "politicalparty", "band", "university", "ORG"), "organization"),
    **dict.fromkeys(("location", "country", "LOC", "GPE", "FAC"), "place"),
    **dict.fromkeys(("event", "election", "conference"), "event"),
}
NUMBERS = ("TIME", "NUM")  # of Re-DocRED: no names
LONGEST = 1500  # characters of a row


def is_name(text: str) -> bool:
    """Whether what people marked is a name: its last word begins with no small letter."""
    words = text.split()
    return bool(words) and not words[-1][0].islower()


def row(source: str, document: GoldDocument, *, paired: bool, kept: bool = False) -> dict[str, Any]:
    text = document.text
    mentions = [
        [m.start, m.end, TYPED.get(m.type, OTHER if is_name(text[m.start : m.end]) else ""), m.group, is_name(text[m.start : m.end])]
        for m in document.mentions
        if m.type not in NUMBERS and text[m.start : m.end].strip()
    ]
    groups = {m[3] for m in mentions}
    pairs = sorted(sorted(p) for p in document.relations if p <= groups) if paired else None
    return {
        "source": source,
        "part": "kept" if kept else part(text[:200]),
        "text": text,
        "mentions": sorted(mentions, key=lambda m: (m[0], -m[1])),
        "pairs": pairs,
        "nominals": source == "litbank",
    }


def pieces(document: GoldDocument) -> Iterator[GoldDocument]:
    """A long text in pieces of whole sentences."""
    spans = [(s.start, s.end) for s in cached_sentences(document.text)]
    while spans:
        start = spans[0][0]
        taken = max(1, sum(end - start <= LONGEST for _, end in spans))
        end = spans[taken - 1][1]
        inside = (m for m in document.mentions if start <= m.start and m.end <= end)
        moved = tuple(GoldMention(m.start - start, m.end - start, m.type, m.group) for m in inside)
        yield GoldDocument(document.id, document.text[start:end], moved, document.relations)
        spans = spans[taken:]


def crossre(folder: Path) -> Iterator[GoldDocument]:
    """CrossRE's sentences, a JSON object a line; a mention's group is its place."""
    for file in sorted(folder.glob("*.json")):
        for line in file.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            text, places = join_tokens(found["sentence"])
            mentions = tuple(GoldMention(places[a][0], places[b][1], kind, f"{a}-{b}") for a, b, kind in found["ner"])
            pairs = frozenset(frozenset((f"{r[0]}-{r[1]}", f"{r[2]}-{r[3]}")) for r in found["relations"])
            yield GoldDocument(found["doc_key"], text, mentions, frozenset(p for p in pairs if len(p) == 2))


def wikigold(file: Path) -> Iterator[GoldDocument]:
    """Wikigold's sentences, five at a time; its tags are IOB1 without B."""
    blocks = [[line.split() for line in b.splitlines() if line.strip()] for b in file.read_text(encoding="utf-8").split("\n\n")]
    blocks = [[w for w in b if w[0] != "-DOCSTART-"] for b in blocks]
    for at in range(0, len(blocks), 5):
        words = [w for block in blocks[at : at + 5] for w in block]
        text, places = join_tokens([w for w, _ in words])
        mentions, first = [], 0
        for n, (_, tag) in enumerate(words):
            if n and tag != words[n - 1][1]:
                first = n
            if tag != "O" and (n + 1 == len(words) or words[n + 1][1] != tag):
                mentions.append(GoldMention(places[first][0], places[n][1], tag.removeprefix("I-"), f"{first}"))
        yield GoldDocument(str(at), text, tuple(mentions))


def rows_of(data: Path) -> Iterator[dict[str, Any]]:
    folder = data / "extraction"
    related = list(crossre(folder / "crossre"))
    for document in related:
        yield row("crossre", document, paired=True)
    known = {d.text for d in related}
    for file in sorted((folder / "crossner").glob("*.txt")):
        for document in load_gold(file, "crossner"):
            if document.text not in known:
                yield row("crossner", document, paired=False)
    measured = {d.id for d in load_gold(folder / "redocred_dev.json", "redocred", limit=20)}
    for document in load_gold(folder / "redocred_dev.json", "redocred"):
        yield row("redocred", document, paired=True, kept=document.id in measured)
    measured = {d.id for d in load_gold(folder / "litbank", "litbank", limit=20)}
    for document in load_gold(folder / "litbank", "litbank"):
        kept = document.id in measured or part(document.id) == "kept"
        for piece in pieces(document):
            yield row("litbank", piece, paired=False, kept=kept) | {"part": "kept" if kept else "train"}
    for document in wikigold(folder / "wikigold.conll.txt"):
        yield row("wikigold", document, paired=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = list(rows_of(args.data))
    assert {m[2] for r in rows for m in r["mentions"]} <= {*ENTITY_TYPES, ""}
    with (args.out / "names.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    for source in dict.fromkeys(r["source"] for r in rows):
        counts = [sum(r["source"] == source and r["part"] == p for r in rows) for p in ("train", "kept")]
        print(source, *counts, sum(len(r["mentions"]) for r in rows if r["source"] == source), "mentions")


if __name__ == "__main__":
    main()
