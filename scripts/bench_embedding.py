"""How fast texts are embedded, in several ways in turn, and whether what is found stays the same.

    python scripts/bench_embedding.py PATH… --chunks 96 --cores 2
    python scripts/bench_embedding.py --retrieval DIR     # a folder with corpus.jsonl and queries.jsonl, as `localrag eval retrieval` reads

Chunks are those that an index would be made of, drawn at random. Tokens are the embedder's own, without padding. Seconds are those of the
clock and those that the process had a core: where other programs run too, only the latter say something, and only with one core. Recall is
that of vectors alone, of passages embedded in one way and questions as `ask` embeds them; the difference to float32's is of the
same questions, with a 95 % interval.
"""

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np

from localrag.engine.embedder import SentenceTransformersEmbedder, load_folder, load_folder_by_llama
from localrag.engine.tokenizer import Tokenizer
from localrag.engine.weights import window_tokenizer
from localrag.eval.datasets import as_markdown, load_task
from localrag.eval.metrics import mean, paired_difference
from localrag.indexing.documents import split_document
from localrag.indexing.tasks import EMBED_BATCH
from localrag.model_files import find_chat_model, find_embedder
from localrag.records import Document
from localrag.system.resources import limit_cores

TYPES = (".md", ".rst", ".txt")


def chunks_of(paths, size, overlap=100):
    """The chunks of text files and of those in folders."""
    counts = Tokenizer(find_chat_model(None)).counts
    files = [f for p in paths for f in ([p] if p.is_file() else sorted(p.rglob("*"))) if f.is_file() and (f == p or f.suffix in TYPES)]
    made = (Document(str(f), str(f), f.name, f.read_text(encoding="utf-8", errors="replace"), "") for f in files)
    return [c.text for d in made if d.text.strip() for c in split_document(d, counts, size=size, overlap=overlap)]


def ways():
    """Name → function that embeds. `float32` is what all are compared with."""
    from sentence_transformers import SentenceTransformer

    file = find_embedder(None)
    exact = SentenceTransformersEmbedder(file)
    exact._model = SentenceTransformer(str(file.path), device="cpu", local_files_only=True)
    return {
        "float32 (sentence-transformers)": exact.embed,
        "sentence-transformers": SentenceTransformersEmbedder(file).embed,
        "torch": load_folder(file),
        "llama.cpp": load_folder_by_llama(file),
    }


def embed(embedder, texts):
    """Vectors of texts, in the jobs of an index."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    found = [embedder([texts[n] for n in order[at : at + EMBED_BATCH]]) for at in range(0, len(order), EMBED_BATCH)]
    return np.concatenate(found)[np.argsort(order)]


def speed(texts, rounds):
    """Tokens a second of each way, and how its vectors lie to those of float32."""
    windows = window_tokenizer(find_embedder(None).path)
    tokens = sum(len(w) for text in texts for w in windows(text))
    made, vectors, seconds = ways(), {}, {}
    for embedder in made.values():
        embedder(texts[:1])  # loads it
    for _ in range(rounds):
        for name, embedder in made.items():
            clock, own = time.perf_counter(), time.process_time()
            vectors[name] = embed(embedder, texts)
            seconds.setdefault(name, []).append((time.perf_counter() - clock, time.process_time() - own))
    exact = next(iter(vectors.values()))
    for name, spent in seconds.items():
        cosine = (vectors[name] * exact).sum(axis=1)
        clock, own = (np.array(s) for s in zip(*spent, strict=True))
        row = {"way": name, "chunks": len(texts), "tokens": tokens, "tokens_a_second": np.round(tokens / clock).tolist()}
        row |= {"tokens_a_core_second": np.round(tokens / own).tolist(), "cosine": round(float(cosine.mean()), 5)}
        print(json.dumps(row | {"least_cosine": round(float(cosine.min()), 5)}), flush=True)


def recall(task, passages, questions, k):
    """For each question the share of its gold passages among the nearest k."""
    ids = [key for key, *_ in task.passages]
    nearest = np.argsort(-(questions @ passages.T), axis=1)[:, :k]
    return np.array([len(gold & {ids[n] for n in row}) / len(gold) for row, (_, gold) in zip(nearest, task.questions, strict=True)])


def retrieval(folder):
    """Recall of each way in percent, its difference to float32's, and the interval of that."""
    task, made = load_task(folder), ways()
    texts = [as_markdown(title, text) for _, title, text in task.passages]
    questions = made["llama.cpp"].embed([question for question, _ in task.questions])
    exact = {}
    for name, embedder in made.items():
        passages, row = embed(embedder, texts), {"task": task.name, "way": name, "questions": len(questions)}
        for k in (5, 10):
            found = recall(task, passages, questions, k)
            away = paired_difference(exact.setdefault(k, found)[:, None], found[:, None], mean)
            row[f"R@{k}"] = [round(100 * x, 1) for x in (away.second, away.value, away.low, away.high)]
        print(json.dumps(row), flush=True)


def main():
    """Measure; print one JSON object a line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--chunks", type=int, default=96)
    parser.add_argument("--chunk-tokens", type=int, default=680)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--retrieval", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    limit_cores(args.cores)
    if args.paths:
        texts = chunks_of(args.paths, args.chunk_tokens)
        random.Random(0).shuffle(texts)
        speed(texts[: args.chunks], args.rounds)
    for folder in args.retrieval:
        retrieval(folder)


if __name__ == "__main__":
    main()
