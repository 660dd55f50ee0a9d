"""How often what an answer quotes first is a sentence, and how often the passage that answers is among what it quotes.

    python scripts/quoted_sentences.py DOCS INDEX [--answers FILE] [--wants KIND,…] [--label]

DOCS is shared/data/docs or a part of it, INDEX an index of it (`localrag index DOCS -i ARCHIVE_INDEX --extractor phrases`). The questions
are in
tests/data/quoted_sentences.jsonl, each with the file and a few verbatim words (`anchor`) of the passage that answers; a third is held out.
What was quoted is judged by hand: tests/data/quoted_labels.json holds, for the hash of each quote seen so far, whether a reader takes it
for a sentence ("prose"), a row, code, or something else. `--label` prints the quotes that have no label yet.
"""

import argparse
import asyncio
import json
from hashlib import blake2b
from pathlib import Path
from time import perf_counter

from localrag.asking import answer_question
from localrag.project import open_for_query
from localrag.query.question import QueryOptions
from localrag.store import documents
from localrag.text.sentences import collapse_whitespace

DATA = Path(__file__).parents[1] / "tests" / "data"
REPEATED = 0.8  # of the words of the shorter of two quotes that the other has as well
MARKS = ("](", "``", "**", ":class:", ":func:", ":meth:", ":data:", ":doc:", "<div", "<p>", "&amp;", "&lt;", "```", ".. ", "`_")


def key(text):
    return blake2b(collapse_whitespace(text).encode(), digest_size=6).hexdigest()


def words(text):
    return set("".join(c if c.isalnum() else " " for c in text.lower()).split())


def repeated(quotes):
    """For each quote, whether it has most words in common with an earlier one."""
    sets = [words(q) for q in quotes]
    return [any(len(a & b) >= REPEATED * max(1, min(len(a), len(b))) for a in sets[:n]) for n, b in enumerate(sets)]


def anchored(quote, text, anchor):
    """Whether a quote shares a stretch with the anchor: it holds it, or lies across it."""
    if not anchor:
        return False
    if collapse_whitespace(anchor) in collapse_whitespace(quote):
        return True
    at, flat = collapse_whitespace(text).find(collapse_whitespace(anchor)), collapse_whitespace(text)
    here = flat.find(collapse_whitespace(quote))
    return at >= 0 and here >= 0 and here < at + len(collapse_whitespace(anchor)) and at < here + len(collapse_whitespace(quote))


async def ask_all(project, rows):
    found = []
    for row in rows:
        start = perf_counter()
        said = await answer_question(row["question"], project, QueryOptions(style="extractive"))
        seconds = perf_counter() - start
        quotes = [c.quote for c in said.citations]
        of_file = [c.path.endswith(row["path"]) and bool(row["path"]) for c in said.citations]
        texts = [documents.find_document(project.db, c.path).text for c in said.citations]
        hits = [
            (mine or collapse_whitespace(row["anchor"]) in collapse_whitespace(q)) and anchored(q, t, row["anchor"])
            for q, t, mine in zip(quotes, texts, of_file, strict=True)
        ]
        found.append({**row, "mode": said.mode, "answer": said.answer, "quotes": quotes, "hits": hits, "seconds": seconds})
        print(".", end="", flush=True)
    print()
    return found


def share(some):
    some = list(some)
    return f"{sum(some)}/{len(some)}"


def figures(name, rows, labels):
    if not rows:
        return
    exact = [r for r in rows if r["anchor"]]
    prose = [r for r in rows if r["quotes"] and r["wants"] in ("prose", "overview")]
    judged = [labels.get(key(r["quotes"][0]), "?") for r in prose]
    print(f"{name}: {len(rows)} questions, {sum(r['seconds'] for r in rows) / len(rows):.2f} s each")
    every = [labels.get(key(q), "?") for r in prose for q in r["quotes"]]
    print(f"  sentences, where prose is asked: first quotes {share(j == 'prose' for j in judged)} ({judged.count('?')} without label),")
    print(f"    all quotes {share(j == 'prose' for j in every if j != '?')} ({every.count('?')} without label)")
    for kind in ("prose", "row", "code"):
        some = [r["hits"] for r in exact if r["wants"] == kind]
        first = share(h[:1] == [True] for h in some)
        print(f"  the passage that answers, where {kind} is asked: quoted {share(map(any, some))}, first {first}")
    print(f"  near repeats: {share(n for r in rows for n in repeated(r['quotes']))} quotes")
    print(f"  answers with marks of markup: {share(any(m in r['answer'] for m in MARKS) for r in rows)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("--answers", type=Path, help="where what was answered is written to")
    parser.add_argument("--wants", default="prose,row,code,overview", help="the questions that want this")
    parser.add_argument("--label", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in (DATA / "quoted_sentences.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [r for r in rows if r["wants"] in options.wants and (not r["path"] or (options.docs / r["path"]).exists())]
    kept = DATA / "quoted_labels.json"
    labels = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    with open_for_query(options.index) as project:
        found = asyncio.run(ask_all(project, rows))
    if options.answers:
        options.answers.write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")
    if options.label:
        for r in found:
            for quote in r["quotes"] if r["wants"] in ("prose", "overview") else ():
                if key(quote) not in labels:
                    print(key(quote), quote[:300].replace("\n", "⏎"), sep="\t")
    figures("tuned on", [r for r in found if not r["held_out"]], labels)
    figures("held out", [r for r in found if r["held_out"]], labels)


if __name__ == "__main__":
    main()
