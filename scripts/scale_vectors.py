"""How many vectors are found, how fast and in how much memory: an index of a given number of chunks, for vectors alone.

    python scripts/scale_vectors.py TEXT… --vectors 1000000 --real 10000

Real vectors are those of sentences of the texts. The others are drawn near them: a mixture of one with a neighbour and with any, and
noise that varies as they do. Questions are real vectors that are not in the index. Recall is the share of the ten nearest by exact
comparison that are found. Prints one JSON object: of the making of the index file, of a new process that asks, of edits, and of
questions to a share of the documents.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

from localrag.engine.embedder import open_embedder
from localrag.filters import DocumentFilter
from localrag.model_files import find_embedder
from localrag.records import Chunk, Document
from localrag.store import documents, vectors
from localrag.store.database import snapshot
from localrag.store.filtered import open_filtered
from localrag.store.opening import open_index
from localrag.text.sentences import sentences

PER_DOCUMENT = 500
QUESTIONS = 300
NOISE = 0.55  # of the deviation of real vectors
AT_ONCE = 50_000


def real_vectors(texts, n, rng):
    """The vectors of `n` sentences, in batches of similar lengths."""
    found = {t[s.start : s.end].strip()[:220] for t in texts for s in sentences(t[:600_000])}
    kept = sorted(s for s in found if len(s) > 60)
    chosen = [kept[i] for i in rng.permutation(len(kept))[:n]]
    chosen.sort(key=len)
    embedder = open_embedder(find_embedder(None))
    made = np.concatenate([embedder.embed(chosen[at : at + 32]) for at in range(0, len(chosen), 32)])
    return made[rng.permutation(len(made))]


def enlarged(real, n, rng):
    """The real vectors, and others near them, `n` together, in a random order; batch by batch."""
    near = np.concatenate([np.argsort(-(real[at : at + 500] @ real.T), axis=1)[:, :33] for at in range(0, len(real), 500)])
    spread = np.linalg.cholesky(np.cov(real.T) + 1e-6 * np.eye(real.shape[1])).astype(np.float32)
    kept = min(len(real), n // 2)
    for at in range(0, n, AT_ONCE):
        m = min(AT_ONCE, n - at)
        own = real[at * kept // n : (at + m) * kept // n]
        m -= len(own)
        first, third = rng.integers(len(real), size=(2, m))
        second = near[first, rng.integers(near.shape[1], size=m)]
        share = rng.dirichlet((2, 1.2, 0.6), size=m).astype(np.float32)
        made = share[:, :1] * real[first] + share[:, 1:2] * real[second] + share[:, 2:] * real[third]
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        made += NOISE * (rng.standard_normal(made.shape, np.float32) @ spread.T)
        made = np.concatenate([own, made / np.linalg.norm(made, axis=1, keepdims=True)])
        yield made[rng.permutation(len(made))]


def fill(db, real, n, rng):
    """An index of `n` chunks with their vectors."""
    at = 0
    for matrix in enlarged(real, n, rng):
        ids = [f"c{k:08}" for k in range(at, at + len(matrix))]
        with db.atomic():
            for d in range(0, len(ids), PER_DOCUMENT):
                some = ids[d : d + PER_DOCUMENT]
                key = f"d{(at + d) // PER_DOCUMENT:06}"
                chunks = [Chunk(c, key, k, 2 * k, 2 * k + 1, "x", 1) for k, c in enumerate(some)]
                documents.save_document(db, Document(key, f"{key}.txt", key, "x " * len(some), key), chunks)
            vectors.save_vectors(db, "chunk", "m", ids, dict.fromkeys(ids, "h"), matrix)
        at += len(matrix)


def seconds(work):
    begun = time.perf_counter()
    work()
    return round(time.perf_counter() - begun, 2)


def exact(db, questions):
    """The ten nearest of every question by comparing all: their ids."""
    found = [vectors.TopK(10) for _ in questions]
    for numbers, matrix in vectors.vector_batches(db, "chunk"):
        for best, cosines in zip(found, questions @ matrix.T, strict=True):
            best.add(numbers, cosines)
    return [[i for i, _ in best.results(db)] for best in found]


def asked(folder, questions, truth=None, share=None):
    """What questions cost, each put to a snapshot of its own, the first one apart; and the share of the truth that is found."""
    spent, hits = [], []
    for n, question in enumerate(questions):
        begun = time.perf_counter()
        with snapshot(folder) as whole:
            db = open_filtered(whole, DocumentFilter(f"path=d*{share}.txt"), folder) if share else whole
            found = vectors.nearest(db, folder, "chunk", question, 50)
        spent.append(1000 * (time.perf_counter() - begun))
        if truth:
            hits.append(len({i for i, _ in found[:10]} & set(truth[n])) / 10)
    p50, p95 = np.quantile(spent[1:], (0.5, 0.95))
    figures = {"first_ms": round(spent[0], 1), "p50_ms": round(p50, 1), "p95_ms": round(p95, 1)}
    return figures | ({"recall_at_10": round(float(np.mean(hits)), 4)} if hits else {})


def resident():
    """MB of memory that this process holds: its own, and pages of files, which the system may take back."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(found[name].split()[0]) // 1024 for name in ("RssAnon", "RssFile")}


def asking(folder):
    """Of a new process that asks: time of questions, recall, memory."""
    given = np.load(folder / "questions.npz")
    return {**asked(folder, given["questions"], given["truth"].tolist()), **resident()}


def edits(db, n, real, rng):
    """What it costs to bring the file up to date after 0.1 % of the vectors changed, and after 6 %."""
    rows = {}
    for share in (0.001, 0.06):
        some = [f"c{k:08}" for k in rng.choice(n, round(share * n), replace=False)]
        vectors.save_vectors(db, "chunk", "m", some, dict.fromkeys(some, "h"), np.concatenate(list(enlarged(real, len(some), rng))))
        rows[f"{share:.1%}"] = seconds(lambda: vectors.update_indexes(db))
    return rows


def alone(questions, real):
    """As `asking`, of real vectors only, so few that an index file has to be asked for."""
    with tempfile.TemporaryDirectory() as place, mock.patch.object(vectors, "INDEX_FROM_VECTORS", 1000):
        db = open_index(Path(place), create=True)
        ids = [f"c{k:08}" for k in range(len(real))]
        vectors.save_vectors(db, "chunk", "m", ids, dict.fromkeys(ids, "h"), real)
        vectors.update_indexes(db)
        return asked(Path(place), questions, exact(db, questions))


def main():
    """Fill an index, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--real", type=int, default=10_000)
    parser.add_argument("--saved", type=Path, help="real vectors (.npy) to use, or to keep, since embedding takes minutes")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--ask", action="store_true")
    args = parser.parse_args()
    if args.ask:
        print(json.dumps(asking(args.folder)))
        return
    rng = np.random.default_rng(0)
    if args.saved and args.saved.exists():
        real = np.load(args.saved)
    else:
        real = real_vectors([t.read_text(encoding="utf-8", errors="ignore") for t in args.texts], args.real + QUESTIONS, rng)
    if args.saved:
        np.save(args.saved, real)
    questions, real = real[:QUESTIONS], real[QUESTIONS:]
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        folder = Path(place)
        db = open_index(folder, create=True)
        rows = {"vectors": args.vectors, "real": len(real), "fill_s": seconds(lambda: fill(db, real, args.vectors, rng))}
        np.savez(folder / "questions.npz", questions=questions, truth=np.array(exact(db, questions)))
        rows["without_file"] = asked(folder, questions[:5])
        rows["peak_mb_before"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        rows["made_s"] = seconds(lambda: vectors.update_indexes(db))
        rows["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        rows["file_mb"] = sum(f.stat().st_size for f in folder.glob("*.faiss")) >> 20
        call = [sys.executable, __file__, "--ask", "--folder", place]
        rows["asking"] = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
        rows["selected"] = {s: asked(folder, questions[:20], share=p) for s, p in (("1 %", "00"), ("10 %", "0"), ("50 %", "[02468]"))}
        rows["up_to_date_s"] = edits(db, args.vectors, real, rng)
        rows["asking_after_edits"] = asked(folder, questions, exact(db, questions))
    rows["real_alone"] = alone(questions, real)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
