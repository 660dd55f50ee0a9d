"""Which kind of FAISS index finds most, for what time and space: one line for each setting.

    python scripts/compare_vector_indexes.py REAL.npy KIND… --vectors 250000

KIND: ivf-sq8, ivf-flat, hnsw-sq8, hnsw-flat. Vectors are those of `scale_vectors.py`, whose `--saved` gives the real ones. Recall at 10
against exact comparison: as the index ranks, and with the cosines of its first 40 computed exactly. Times are of single questions on one
thread.
"""

import argparse
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from localrag.store.vectors import TRAINING_VECTORS_PER_LIST, n_lists
from scripts.scale_vectors import QUESTIONS, enlarged


def made(kind, matrix):
    """An index, how it is told to look at more, and the settings to try."""
    n, width = matrix.shape
    by, byte = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_8bit
    sample = matrix[np.random.default_rng(0).choice(n, min(n, TRAINING_VECTORS_PER_LIST * n_lists(n)), replace=False)]
    if kind.startswith("hnsw"):
        index = faiss.IndexHNSWFlat(width, 32, by) if kind == "hnsw-flat" else faiss.IndexHNSWSQ(width, byte, 32, by)
        settings, more = (32, 64, 128, 256), lambda v: setattr(index.hnsw, "efSearch", v)
    else:
        given = (faiss.IndexFlatIP(width), width, n_lists(n))
        index = faiss.IndexIVFFlat(*given, by) if kind == "ivf-flat" else faiss.IndexIVFScalarQuantizer(*given, byte, by)
        settings, more = (n_lists(n) // 16, n_lists(n) // 8, n_lists(n) // 4), lambda v: setattr(index, "nprobe", v)
    index.train(sample)
    index.add(matrix)
    return index, more, settings


def main():
    """Make each index, ask it, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("real", type=Path)
    parser.add_argument("kinds", nargs="+")
    parser.add_argument("--vectors", type=int, default=250_000)
    args = parser.parse_args()
    faiss.omp_set_num_threads(1)
    real = np.load(args.real)
    questions = real[:QUESTIONS]
    matrix = np.concatenate(list(enlarged(real[QUESTIONS:], args.vectors, np.random.default_rng(0))))
    truth = [set(row) for row in np.argpartition(-(questions @ matrix.T), 10, axis=1)[:, :10].tolist()]
    for kind in args.kinds:
        begun = time.process_time()
        index, more, settings = made(kind, matrix)
        spent = time.process_time() - begun
        with tempfile.NamedTemporaryFile() as f:
            faiss.write_index(index, f.name)
            size = Path(f.name).stat().st_size >> 20
        for setting in settings:
            more(setting)
            took, bare, again = [], [], []
            for question, best in zip(questions, truth, strict=True):
                begun = time.perf_counter()
                found = index.search(question[None, :], 40)[1][0]
                took.append(1000 * (time.perf_counter() - begun))
                found = found[found >= 0]
                bare.append(len(best & set(found[:10].tolist())) / 10)
                again.append(len(best & set(found[np.argsort(-(matrix[found] @ question))[:10]].tolist())) / 10)
            p50, p95 = np.quantile(took, (0.5, 0.95))
            recalls = f"recall {np.mean(bare):.3f}, exact cosines {np.mean(again):.3f}"
            print(f"{kind} {args.vectors}: {spent:.1f} s CPU, {size} MB; {setting}: {recalls}, {p50:.2f} ms ({p95:.2f})")


if __name__ == "__main__":
    main()
