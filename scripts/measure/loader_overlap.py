"""How much of the expected text the loaders give, by format: the share of its words that ours has (as a multiset, lower case).

    python -m scripts.measure.loader_overlap DOCS [--files]

DOCS is a folder with `groundtruth/NAME.md` beside `sources/NAME`, or `expected_outputs/STEM.md` beside `STEM.*`, at any depth. Of the
expected Markdown, comments, images and the targets of links are no words.
"""

import argparse
import re
from collections import Counter, defaultdict
from html import unescape
from pathlib import Path

from localrag.loaders.reader import load_files
from localrag.records import SkippedFile


def words(text):
    return Counter(re.findall(r"[^\W_]+", text.lower()))


def expected(file):
    text = unescape(file.read_text(encoding="utf-8"))
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r"(\d\d\d\d-\d\d-\d\d) 00:00:00", r"\1", text)  # a day is written without the time it has not
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    return words(re.sub(r"\]\([^)\s]*\)", "]", text).replace("\\", ""))


def pairs(docs):
    """(file, its expected text)."""
    for gold in sorted(docs.rglob("groundtruth/*.md")):
        places = [p for p in (gold.parents[1] / "sources", gold.parents[1]) for p in (p / gold.stem, p / f"{gold.stem}.pdf") if p.is_file()]
        yield from [(places[0], gold)] if places else []
    for gold in sorted(docs.rglob("expected_outputs/*.md")):
        source = gold.parents[1] / f"{gold.stem}.pdf"
        yield from [(source, gold)] if source.is_file() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--files", action="store_true", help="every file, worst first")
    args = parser.parse_args()
    found = list(pairs(args.docs))
    scores = defaultdict(list)
    for (file, gold), document in zip(found, load_files([f for f, _ in found], args.docs), strict=True):
        wanted = expected(gold)
        if isinstance(document, SkippedFile):
            print(f"{file.name}: {document.reason}")
        have = Counter() if isinstance(document, SkippedFile) else words(f"{document.title} {document.text}")
        missing = wanted - have
        scores[file.suffix].append((1 - missing.total() / max(wanted.total(), 1), wanted.total(), missing, file))
    for suffix, rows in sorted(scores.items()):
        total = sum(n for _, n, *_ in rows)
        mean = sum(share for share, *_ in rows) / len(rows)
        whole = sum(share * n for share, n, *_ in rows) / max(total, 1)
        print(f"{suffix:10} {len(rows):3} files {total:7} words   mean of files {mean:6.1%}   of all words {whole:6.1%}")
        for share, n, missing, file in sorted(rows, key=lambda r: r[0]) if args.files else []:
            print(f"    {share:6.1%} {n:6}  {file.name}  {' '.join(w for w, _ in missing.most_common(12))}")


if __name__ == "__main__":
    main()
