"""What one large document costs: seconds of computing and peak memory of loading, splitting, chunking, finding names, a whole index.

    python scripts/document_size.py                                  # 1, 4, 16 and 64 MB of prose
    python scripts/document_size.py --mb 10 --shape capitals --shape line
    python scripts/document_size.py --mb 40 --index                  # the whole of `localrag index --extractor phrases`, by stage

The text is made up: paragraphs of sentences of English words, drawn by Zipf's law, with names among them. Every stage of every size runs
in a process of its own. The growth is that of the largest size against the smallest: 1.0 is linear. A time limit (--limit) ends a stage.
"""

import argparse
import asyncio
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from localrag.engine.tokenizer import Tokenizer
from localrag.indexing.documents import split_document
from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.extraction.nlp import extract_noun_phrases
from localrag.indexing.pipeline import build_index
from localrag.loaders.reader import load_files
from localrag.model_files import find_chat_model
from localrag.project import open_for_writing
from localrag.records import Document
from localrag.text.parts_of_speech import _textblob
from localrag.text.sentences import STOP_WORDS, sentences

STAGES = ("load", "split", "chunk", "names")
MB = 1_000_000


def prose(size: int) -> Iterator[str]:
    """Paragraphs of sentences, a name in about every second one; at least `size` characters."""
    rng = random.Random(1)
    known = sorted(w for w in _textblob().lexicon if w.isalpha() and w.islower() and 2 < len(w) < 12)
    rng.shuffle(known)
    common = sorted(STOP_WORDS)[:120]
    names = [f"{a.capitalize()} {b.capitalize()}" for a, b in zip(known[:4000], known[4000:8000], strict=True)]
    words = [w for pair in zip(known[8000:12000], common * 40, strict=False) for w in pair]
    by_word, by_name = (list(accumulate(1 / n for n in range(1, len(some) + 1))) for some in (words, names))
    made = 0
    while made < size:
        said = []
        for _ in range(rng.randint(2, 8)):
            drawn = rng.choices(words, cum_weights=by_word, k=rng.randint(6, 22))
            drawn[rng.randrange(len(drawn))] = rng.choices(names, cum_weights=by_name)[0] if rng.random() < 0.5 else "the"
            said.append(drawn[0].capitalize() + " " + " ".join(drawn[1:]) + rng.choice(".....?!"))
        yield " ".join(said) + "\n\n"
        made += sum(map(len, said)) + len(said) + 1


def _one_line(size: int) -> Iterator[str]:
    return (p.replace("\n\n", " ") for p in prose(size))


SHAPES: dict[str, Callable[[int], Iterator[str]]] = {
    "prose": prose,
    "line": _one_line,  # all of it
    "capitals": lambda size: (p.upper() for p in prose(size)),
    "capital line": lambda size: (p.upper() for p in _one_line(size)),
    "endless": lambda size: (p.translate(str.maketrans("", "", ".?!")) for p in _one_line(size)),  # no sentence ends
    "letter": lambda size: iter(["a" * size]),
    "capital": lambda size: iter(["A" * size]),
    "hyphens": lambda size: iter(["A-" * (size // 2)]),
    "spaces": lambda size: iter([" " * size, "End"]),
    "short": lambda size: iter(["No. " * (size // 4)]),
    "list": lambda size: iter(["1. a) 2. b) " * (size // 12)]),
    "nested": lambda size: iter(["(“[" * (size // 3)]),
    "chinese": lambda size: iter(["王海明说渡轮漏水。" * (size // 27)]),
    "chinese line": lambda size: iter(["王海明说渡轮漏水" * (size // 24)]),
    "names": lambda size: iter(["Lars Holm\n" * (size // 10)]),
}


def run_stage(stage: str, file: Path) -> dict[str, Any]:
    """Seconds of computing (the load on the machine hardly matters) and peak MiB of one stage; what precedes it is not timed."""
    text = "" if stage in ("load", "index") else file.read_text(encoding="utf-8")
    document = Document("d", file.name, "d", text, "")
    counts = Tokenizer(find_chat_model(None)).counts
    chunks = split_document(document, counts, size=600, overlap=100) if stage == "names" else []
    start = sum(os.times()[:4])
    found: Any = None
    if stage == "load":
        found = [type(d).__name__ + (f": {d.reason}" if hasattr(d, "reason") else "") for d in load_files([file], file.parent)]
    elif stage == "split":
        found = len(sentences(text))
    elif stage == "chunk":
        found = len(split_document(document, counts, size=600, overlap=100))
    elif stage == "names":
        case = DocumentCasing(text)
        found = sum(len(extract_noun_phrases(c, case).entities) for c in chunks)
    else:
        found = _index(file)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"seconds": sum(os.times()[:4]) - start, "mib": peak // 1024, "found": found}


def _index(file: Path) -> dict[str, float]:
    """Seconds of each stage of a whole index."""
    at = time.process_time()
    stages: dict[str, float] = {}

    def tell(progress: Any) -> None:
        nonlocal at
        now = time.process_time()
        stages[progress.stage] = stages.get(progress.stage, 0) + now - at
        at = now

    with open_for_writing(file.parent / "index", extractor="phrases") as project:
        asyncio.run(build_index([file], project, tell))
    return {name: round(seconds, 1) for name, seconds in stages.items()}


def rows(sizes: list[float], shapes: list[str], stages: list[str], limit: float) -> Iterator[str]:
    """A table of each shape, a row for a stage."""
    for shape in shapes:
        yield f"\n| {shape} | " + " | ".join(f"{s:g} MB, s" for s in sizes) + " | growth | peak MiB |"
        yield "|---" * (len(sizes) + 3) + "|"
        for stage in stages:
            found = [_measured(stage, shape, size, limit) for size in sizes]
            seconds = [f["seconds"] for f in found]
            known = len(sizes) > 1 and None not in seconds
            growth = f"{math.log(seconds[-1] / seconds[0]) / math.log(sizes[-1] / sizes[0]):.2f}" if known else ""
            cells = " | ".join("–" if s is None else f"{s:.3g}" for s in seconds)
            yield f"| {stage} | {cells} | {growth} | {', '.join(str(f['mib']) for f in found)} |"


def _measured(stage: str, shape: str, size: float, limit: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "text.txt")
        with file.open("w", encoding="utf-8") as f:
            f.writelines(SHAPES[shape](int(size * MB)))
        call = [sys.executable, __file__, "--stage", stage, "--file", str(file)]
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=limit, check=True)
        except subprocess.TimeoutExpired:
            return {"seconds": None, "mib": f"not in {limit:g} s"}
        except subprocess.CalledProcessError as error:
            return {"seconds": None, "mib": f"failed: {error.stderr.strip().splitlines()[-1:]}"}
    print(shape, f"{size:g} MB", stage, done.stdout.strip(), file=sys.stderr, flush=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    """Run each stage of each size and shape in a process of its own and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, action="append", help="sizes; 1, 4, 16 and 64")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="kinds of text; prose")
    parser.add_argument("--index", action="store_true", help="a whole index instead of single stages")
    parser.add_argument("--only", action="append", choices=STAGES, help="these stages")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a stage may take")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stage:
        print(json.dumps(run_stage(args.stage, args.file)))
        return
    stages = ["index"] if args.index else args.only or list(STAGES)
    for line in rows(sorted(args.mb or [1, 4, 16, 64]), args.shape or ["prose"], stages, args.limit):
        print(line, flush=True)


if __name__ == "__main__":
    main()
