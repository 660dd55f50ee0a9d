"""How often a question is refused that the documents answer, and how often one is answered that they do not.

    python scripts/answerable.py DATA CACHE [SET…]

DATA holds `retrieval/`, `qa_spans/`, `graphrag_bench/` and `qmsum/`. Every question is asked of an index that holds its passages and of
one that does not: another half of the collection, another novel, another meeting. `glassworks/` and `docqa.jsonl`, whose questions people
have labelled, are reported, and nothing is set on them. CACHE keeps the indexes and the figures between runs.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from dataclasses import asdict, fields, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np

from localrag.eval.datasets import as_markdown, load_qa_dataset, load_rows
from localrag.filters import NO_FILTER, DocumentFilter
from localrag.indexing.documents import update_documents
from localrag.indexing.embeddings import embed_chunks
from localrag.indexing.extraction.stage import split_sentences
from localrag.indexing.progress import ProgressReporter
from localrag.indexing.workers.pool import LocalPool, task_context
from localrag.project import open_for_query, open_for_writing
from localrag.query.answerability import Signals, should_refuse, signals, standing
from localrag.query.question import Question
from localrag.store.database import snapshot
from localrag.store.filtered import open_filtered

RETRIEVAL = ("hotpot_dev100", "musique_dev100", "2wiki_fg101", "zh_cmrc_trial")
REPORTED = ("glassworks", "docqa")
SPANS = ("xquad_en", "xquad_de", "xquad_es", "xquad_zh", "policyqa")
PAIRED, PAIRS = ("xquad_en", "policyqa"), 60  # what the threshold is set on: so many questions, of their own paragraph and of another's
MOST = 50  # questions of a kind asked of each index
FILLING = 100  # passages of an index that are gold to no question
MEETINGS = 4
NOVELS = 2


def side(key, salt=""):
    """0 or 1, the same in every run."""
    return blake2b(f"{salt}{key}".encode(), digest_size=1).digest()[0] % 2


def sample(rows, most, seed):
    return random.Random(seed).sample(rows, most) if len(rows) > most else rows


def passages_index(name, passages, questions):
    """An index of the gold passages of half of the questions, and of others that are gold to none.

    passages: id → text; questions: (id, text, gold ids).
    """
    gold = {i for *_, some in questions for i in some}
    inside = {i for *_, some in sample([q for q in questions if not side(q[0])], MOST, 0) for i in some}
    inside |= set(sample(sorted(set(passages) - gold), FILLING, 0))
    yes = [(key, text, True) for key, text, some in questions if inside >= set(some)]
    no = [(key, text, False) for key, text, some in questions if not inside & set(some)]
    return name, name, [passages[i] for i in sorted(inside)], sample(yes, MOST, 1) + sample(no, MOST, 2)


def collections(data):
    """(index name, set, texts or files, questions (id, text, answerable, and the number of the only text that it is asked of, if any))."""
    for name, file, folders in (
        ("glassworks", data / "glassworks" / "questions.jsonl", [data / "glassworks" / "docs"]),
        ("docqa", data / "docqa.jsonl", [data / "docs", data / "texts" / "christmas_carol.txt"]),
    ):
        rows = [r for r in load_rows(file, "question") if "answerable" in r]
        yield name, name, folders, [(r.get("id", str(n)), r["question"], r["answerable"]) for n, r in enumerate(rows)]
    for name in SPANS:
        rows = load_rows(data / "qa_spans" / f"{name}.jsonl", "id", "context", "question")
        ids = dict.fromkeys(r["context"] for r in rows)
        half = {c: side(c) for c in ids}  # of the paragraphs: each has several questions
        inside = [c for c in ids if not half[c]]
        if name in PAIRED:
            own = sample([r for r in rows if not half[r["context"]]], PAIRS, 3)
            others = random.Random(4).choices(inside, k=len(own))
            asked = [(f"{r['id']} {yes}", r["question"], yes, inside.index(c)) for r, o in zip(own, others, strict=True)
                     for yes, c in ((True, r["context"]), (False, o)) if yes or o != r["context"]]  # fmt: skip
            yield f"{name}_paragraphs", f"{name}, its paragraph", inside, asked
        if name != "policyqa":  # whose questions every policy answers
            yes = [(r["id"], r["question"], True) for r in rows if not half[r["context"]]]
            no = [(r["id"], r["question"], False) for r in rows if half[r["context"]]]
            yield name, name, inside, sample(yes, MOST, 1) + sample(no, MOST, 2)
    for name in RETRIEVAL:
        folder = data / "retrieval" / name
        passages = {r["id"]: as_markdown(r.get("title", ""), r["text"]) for r in load_rows(folder / "corpus.jsonl", "id", "text")}
        rows = load_rows(folder / "queries.jsonl", "question", "gold")
        yield passages_index(name, passages, [(r["id"], r["question"], r["gold"]) for r in rows])
    for name, golds in (("novels", shortest(load_qa_dataset(data / "graphrag_bench"))[:NOVELS]), ("meetings", meetings(data))):
        for n, gold in enumerate(golds):
            own = [(f"{gold.name}:{q.id}", q.text, True) for q in gold.questions if q.type != "general"]
            other = golds[(n + 1) % len(golds)]
            foreign = [(f"{other.name}:{q.id}", q.text, False) for q in other.questions if q.type != "general"]
            yield gold.name, name, [t for _, t in gold.documents], sample(own, MOST // 2, 1) + sample(foreign, MOST // 2, 2)


def shortest(golds):
    """Those with the shortest documents first."""
    return sorted(golds, key=lambda g: sum(len(t) for _, t in g.documents))


def meetings(data):
    """The shortest meeting of each project: those of one project are about the same thing."""
    first = {}
    for gold in shortest(load_qa_dataset(data / "qmsum")):
        first.setdefault("product" if gold.name[:2] in ("ES", "IS", "TS") else gold.name[:3], gold)
    return list(first.values())[:MEETINGS]


def ask(name, kind, texts, asked, cache):
    docs = cache / name / "docs"
    files = [t for t in texts if isinstance(t, Path)] or [docs]
    if files == [docs] and not docs.exists():
        docs.mkdir(parents=True)
        for n, text in enumerate(texts):
            (docs / f"{n:05}.md").write_text(text, encoding="utf-8")
    with open_for_writing(cache / name / ".localrag", extractor="phrases") as project:
        quiet = ProgressReporter(project, None, lambda _: None)
        # all that the figures are made from: the passages, their words, vectors and sentences
        update_documents(files, project, quiet)
        worker_pool = LocalPool(task_context(project))
        asyncio.run(embed_chunks(project, worker_pool, quiet))
        asyncio.run(split_sentences(project.db, worker_pool, quiet))
    with open_for_query(cache / name / ".localrag") as project:
        vectors = project.embedder.embed([text for _, text, *_ in asked])
        return asyncio.run(rows_of(kind, name, asked, vectors, project))


async def rows_of(kind, name, asked, vectors, project):
    """A row for each question: its signals, where there are any, and whether the product refuses it."""
    rows = []
    for (key, text, yes, *only), vector in zip(asked, vectors, strict=True):
        with snapshot(project.folder) as db:
            here = replace(project, db=open_filtered(db, DocumentFilter(f"path=**/{only[0]:05}.md") if only else NO_FILTER, project.root))
            refuses, sure = await should_refuse(Question(text, vector, "extractive"), here)
            known = sure is not None and signals(text, vector, here)
        row = {"set": kind, "index": name, "id": key, "question": text, "answerable": yes, "refused": refuses}
        rows.append(row | (asdict(known) if known else {}))
    return rows


def fitted(rows, names):
    """Logistic weights of the signals `names`, then of 1; every set weighs the same."""
    x = np.array([[r[n] for n in names] + [1.0] for r in rows])
    y = np.array([float(r["answerable"]) for r in rows])
    sizes = Counter(r["set"] for r in rows)
    weight = np.array([100 / sizes[r["set"]] for r in rows])
    theta, ridge = np.zeros(x.shape[1]), 0.2 * np.diag([1.0] * len(names) + [1e-6])
    for _ in range(40):
        p = 1 / (1 + np.exp(-x @ theta))
        theta -= np.linalg.solve(x.T @ (x * (weight * p * (1 - p))[:, None]) + ridge, x.T @ (weight * (p - y)) + ridge @ theta)
    return theta


def report(rows):
    """The weights that the tuned half gives, then both shares of errors on the kept half, set by set."""
    told = [r for r in rows if "passage" in r and r["set"] not in REPORTED]  # a question of the whole has no signals, and is answered
    tuned, kept = (
        [r for r in told if not side(r["id"], "half")],
        [r for r in rows if r["set"] in REPORTED or "paragraph" in r["set"] or side(r["id"], "half")],
    )
    for cjk, names in ((False, ("passage", "sentence", "together", "cosine", "unnamed")), (True, ("passage", "sentence", "together"))):
        if some := [r for r in tuned if r["cjk"] == cjk]:
            theta = fitted(some, names)
            scores = sorted(theta[-1] + sum(t * r[n] for t, n in zip(theta, names, strict=False)) for r in some if r["answerable"])
            weights = dict(zip((*names, "1"), theta.round(2).tolist(), strict=True))
            print("cjk" if cjk else "words", weights, "floor", round(scores[len(scores) // 20], 2))
    print("| set | answerable | refused | not answerable | recognised | AUC | calibration error |\n|---|---:|---:|---:|---:|---:|---:|")
    for name in [*dict.fromkeys(r["set"] for r in kept), "all"]:
        some = [r for r in kept if name in (r["set"], "all")]
        yes, no = [r for r in some if r["answerable"]], [r for r in some if not r["answerable"]]
        known = [r for r in some if "passage" in r]
        figures = f"{auc(known):.3f} | {calibration_error(known):.3f}"
        print(f"| {name} | {len(yes)} | {sum(r['refused'] for r in yes)} | {len(no)} | {sum(r['refused'] for r in no)} | {figures} |")


def sureness(row):
    """The product's probability that a question is answerable."""
    return 1 / (1 + np.exp(-standing(Signals(**{f.name: row[f.name] for f in fields(Signals)}))))


def auc(rows):
    """How often an answerable question has a higher probability than one that is not; ties count half."""
    yes, no = (np.array([sureness(r) for r in rows if r["answerable"] == known]) for known in (True, False))
    return float(((yes[:, None] > no) + 0.5 * (yes[:, None] == no)).mean())


def calibration_error(rows, bins=10):
    """Expected calibration error (Naeini et al. 2015) over bins of equal width."""
    sure, known = np.array([sureness(r) for r in rows]), np.array([float(r["answerable"]) for r in rows])
    of = np.minimum((sure * bins).astype(int), bins - 1)
    return float(sum((of == b).mean() * abs(sure[of == b].mean() - known[of == b].mean()) for b in set(of)))


def main():
    cache, rows = Path(ARGS.cache).resolve(), []
    for name, kind, texts, asked in collections(Path(ARGS.data)):
        if ARGS.sets and kind not in ARGS.sets:
            continue
        file = cache / f"{name}.jsonl"
        if not file.exists():
            found = ask(name, kind, texts, asked, cache)
            file.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in found), encoding="utf-8")
        rows += load_rows(file, "answerable")
    report(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("cache")
    parser.add_argument("sets", nargs="*")
    ARGS = parser.parse_args()
    sys.exit(main())
