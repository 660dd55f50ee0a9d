"""Edit documents in known ways, compare each with its edited version, and count the edits that are found, by kind.

    python -m scripts.measure.document_diff --half tune FILE…

A `.jsonl` file holds one passage a line (`title`, `context`); the contexts of a title are one document. Half of the documents, by a
hash of their text, is for tuning and half is kept apart. An edit counts as found if a row has its kind and both its passages.
"""

import argparse
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from localrag.analysis.comparable_passages import passages_of
from localrag.analysis.document_diff import PassageDifference, find_differences
from localrag.analysis.placed_sentences import OpenedDocument
from localrag.engine.embedder import open_embedder
from localrag.entailment.lexicon import synonyms_of
from localrag.model_files import find_embedder
from localrag.records import Document
from localrag.text.sentences import collapse_whitespace, is_cjk

MIN_PASSAGES = 12
MODALS = {"may": "shall", "shall": "may", "must": "may", "will": "may", "can": "must", "should": "may"}
Edit = tuple[str, str, str]  # kind, passage of the first document, passage of the second one


def opened(text: str) -> OpenedDocument:
    return OpenedDocument(Document("d", "d", "d", text, ""), [])


def documents(files: list[Path]) -> Iterator[str]:
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix != ".jsonl":
            yield text
            continue
        by_title = defaultdict[str, dict[str, None]](dict)
        for row in map(json.loads, text.splitlines()):
            by_title[row["title"]][row["context"]] = None
        yield from ("\n\n".join(contexts) for contexts in by_title.values())


def new_number(text: str, rng: random.Random) -> str:
    found = [m for m in re.finditer(r"(?<![\w.])\d{1,4}(?![\w.])", text) if m.start() > 3]
    if not found:
        return text
    m = rng.choice(found)
    return f"{text[: m.start()]}{int(m[0]) + rng.randint(2, 40)}{text[m.end() :]}"


def new_modal(text: str, rng: random.Random) -> str:
    found = [m for m in re.finditer(r"\b(?:may|shall|must|will|can|should)\b", text)]
    m = rng.choice(found) if found else None
    return f"{text[: m.start()]}{MODALS[m[0]]}{text[m.end() :]}" if m else text


def negated(text: str, rng: random.Random) -> str:
    found = [m for m in re.finditer(r"\b(?:may|shall|must|will|should|is|are|was|were)\b(?! not)", text)]
    m = rng.choice(found) if found else None
    return f"{text[: m.end()]} not{text[m.end() :]}" if m else text


def reworded(text: str, rng: random.Random) -> str:
    """With up to a third of the words replaced by synonyms."""
    words = re.split(r"(\W+)", text)
    places = [n for n, w in enumerate(words) if w.islower() and len(w) > 3 and synonyms_of(w, "en") - {w}]
    for n in rng.sample(places, min(len(places), max(1, len(words) // 6))):
        words[n] = rng.choice(sorted(synonyms_of(words[n], "en") - {words[n]}))
    return "".join(words)


REWRITES: dict[str, Callable[[str, random.Random], str]] = {
    "number": new_number,
    "modal": new_modal,
    "negation": negated,
    "reword": reworded,
}


@dataclass
class Piece:
    """A passage with the white space and signs after it."""

    text: str
    gap: str


def pieces_of(text: str) -> list[Piece]:
    """The passages of a text; prose is on one line, as if it had been wrapped again."""
    passages = passages_of(opened(text))
    pieces = [Piece(text[p.start : p.end], text[p.end : q.start]) for p, q in pairwise(passages)]
    pieces.append(Piece(text[passages[-1].start : passages[-1].end], text[passages[-1].end :]))
    for piece in pieces:
        if is_prose(piece.text):
            piece.text = collapse_whitespace(piece.text)
            piece.gap = " " if piece.gap == "\n" else piece.gap
    return pieces


def is_prose(text: str) -> bool:
    return (12 if is_cjk(text) else 40) < len(text) < 400 and text[0].isalpha() and text[-1] in ".!?。！？" and "|" not in text


def removed(pieces: list[Piece], n: int) -> Piece:
    """Take a piece out; of the gaps before and after it the one with more lines stays."""
    piece = pieces.pop(n)
    if n:
        pieces[n - 1].gap = max(pieces[n - 1].gap, piece.gap, key=lambda gap: gap.count("\n"))
    return piece


def inserted(pieces: list[Piece], n: int, text: str) -> None:
    """Insert a text after a piece, in the same paragraph."""
    pieces.insert(n + 1, Piece(text, pieces[n].gap))
    pieces[n].gap = " "


def move_paragraph(pieces: list[Piece], n: int, free: set[str], rng: random.Random) -> list[str]:
    """Move two to four passages behind a far one, over more text than they have; their texts."""
    texts = [piece.text for piece in pieces[n : n + rng.randint(2, 4)]]
    length, n_far = sum(map(len, texts)), 0
    for m, piece in enumerate(pieces[n + len(texts) :], n + len(texts)):
        n_far += len(piece.text)
        if n_far > 2 * length and is_prose(piece.text) and free.issuperset(texts[1:]):
            for _ in texts:
                removed(pieces, n)
            for offset, text in enumerate(texts):
                inserted(pieces, m - len(texts) + offset, text)
            free.difference_update(piece.text for piece in pieces[m - len(texts) - 1 : m + 2])
            free.difference_update(piece.text for piece in pieces[max(0, n - 1) : n + 1])
            return texts
    return []


def edited(text: str, other: list[str], rng: random.Random, n_edits: int) -> tuple[str, list[tuple[str, Edit]]]:
    """An edited version of a text, and its edits, each with the name of what was done."""
    pieces = pieces_of(text)
    counts = Counter(piece.text for piece in pieces)
    free = {piece.text for piece in pieces if counts[piece.text] == 1 and is_prose(piece.text)}
    edits = list[tuple[str, Edit]]()
    for what in rng.sample([*REWRITES, "delete", "insert", "move", "move and change", "move paragraph"] * n_edits, n_edits):
        places = [n for n, piece in enumerate(pieces) if piece.text in free]
        if not places:
            break
        n = rng.choice(places)
        if what == "move paragraph":
            edits += [(what, ("moved", moved, moved)) for moved in move_paragraph(pieces, n, free, rng)]
            continue
        old = pieces[n].text
        free -= {piece.text for piece in pieces[max(0, n - 1) : n + 2]}
        if what in REWRITES:
            pieces[n].text = REWRITES[what](old, rng)
            edits += [(what, ("changed", old, pieces[n].text))] if pieces[n].text != old else []
        elif what == "delete":
            removed(pieces, n)
            edits.append((what, ("only in first", old, "")))
        elif what == "insert":
            added = rng.choice([sentence for sentence in rng.sample(other, min(len(other), 20)) if sentence not in text] or ["Added."])
            inserted(pieces, n, added)
            edits.append((what, ("only in second", "", added)))
        elif far := [m for m, piece in enumerate(pieces) if abs(n - m) > 8 and is_prose(piece.text)]:
            new = old if what == "move" else new_modal(new_number(old, rng), rng)
            new = reworded(old, rng) if new == old and what != "move" else new
            target = pieces[rng.choice(far)]
            removed(pieces, n)
            inserted(pieces, pieces.index(target), new)
            edits.append((what, ("moved" if new == old else "moved and changed", old, new)))
    return "".join(piece.text + piece.gap for piece in pieces), edits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--half", choices=("tune", "kept"), default="tune")
    parser.add_argument("--edits", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print what was missed or wrong")
    args = parser.parse_args()
    project: Any = SimpleNamespace(embedder=open_embedder(find_embedder(None)), reader=None)
    texts = [
        t for t in documents(args.files) if crc32(t.encode()) % 2 == (args.half == "kept") and len(passages_of(opened(t))) >= MIN_PASSAGES
    ]
    pool = [p.text for t in texts[::7] for p in passages_of(opened(t)) if is_prose(p.text)]
    done, found, rows, right = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for n, text in enumerate(texts):
        rng = random.Random(args.seed * 1000 + n)
        new, edits = edited(text, pool, rng, args.edits)
        differences, _, _ = find_differences(opened(text), opened(new), project)
        seen = Counter(map(as_edit, differences))
        gold = Counter(edit for _, edit in edits)
        for what, edit in edits:
            done[what] += 1
            found[what] += seen[edit] > 0
            if args.show and not seen[edit]:
                print("MISSED", what, *edit, sep="\n   ")
        for edit in seen:
            if edit[0] != "same":
                rows[edit[0]] += 1
                right[edit[0]] += edit in gold
                if args.show and edit not in gold:
                    print("WRONG", *edit, sep="\n   ")
    print(f"{len(texts)} documents, {sum(done.values())} edits, {sum(rows.values())} rows")
    for what in done:
        print(f"found   {what:<18} {found[what]:>4} of {done[what]:<4} {found[what] / done[what]:.3f}")
    for kind in rows:
        print(f"correct {kind:<18} {right[kind]:>4} of {rows[kind]:<4} {right[kind] / rows[kind]:.3f}")


def as_edit(d: PassageDifference) -> Edit:
    return str(d.kind), d.first.text if d.first else "", d.second.text if d.second else ""


if __name__ == "__main__":
    main()
