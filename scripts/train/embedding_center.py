"""A part of the mean of multilingual-e5-small's vectors, which its embedder subtracts: `python -m scripts.train.embedding_center DATA OUT`.

DATA has `train/reader_en_clear.jsonl.gz` and `train/reader_zh.jsonl.gz`; taken are questions and beginnings of passages of both. OUT gets
e5_center.safetensors. Printed are the cosines of pairs that mean the same, of questions with the sentences that answer them, and of both
paired by chance, for several shares of the mean, beside those of all-MiniLM-L6-v2, on which thresholds were fitted.
"""

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from localrag.engine.embedder import load_e5, open_embedder, recenter
from localrag.model_files import find_embedder
from localrag.text.sentences import cached_sentences
from scripts.train.reader_data import rows

ENGLISH, CHINESE, PAIRS, PASSAGE_CHARS = 1500, 500, 300, 300
SHARE, SHARES = 0.85, (1.0, 0.9, 0.85, 0.8, 0.0)  # of the mean that is subtracted; those that are measured


def main() -> None:
    data, out = (Path(argument) for argument in sys.argv[1:3])
    chance = random.Random(1)
    english, chinese = (rows(data / f"train/reader_{name}.jsonl.gz") for name in ("en_clear", "zh"))
    taken = [*chance.sample(english, ENGLISH), *chance.sample(chinese, CHINESE)]
    texts = [row["context"][:PASSAGE_CHARS] if n % 2 else row["question"] for n, row in enumerate(taken)]
    file = find_embedder("multilingual-e5-small")
    model = load_e5(replace(file, bound_fingerprint=file.fingerprint))
    mean = model(texts).vectors.mean(axis=0)
    save_file({"center": SHARE * mean}, out / "e5_center.safetensors")

    pairs = [r for r in rows(data / "train/nli_en_clear.jsonl.gz") if r["supported"] and len(r["premise"]) < PASSAGE_CHARS]
    asked = chance.sample(english, PAIRS)
    chosen = chance.sample(pairs, PAIRS)
    sides = {
        "pairs": ([row["premise"] for row in chosen], [row["hypothesis"] for row in chosen]),
        "questions": ([row["question"] for row in asked], [_answering_sentence(row) for row in asked]),
    }
    small = open_embedder(find_embedder("all-minilm-l6-v2")).embed
    for what, (first, second) in sides.items():
        _print_cosines(f"all-MiniLM-L6-v2, {what}", small(first), small(second))
        vectors = model(first).vectors, model(second).vectors
        for share in SHARES:
            _print_cosines(f"multilingual-e5-small less {share} of the mean, {what}", *(recenter(v, share * mean) for v in vectors))


def _answering_sentence(row: dict[str, Any]) -> str:
    text, start = row["context"], row["starts"][0]
    return next((text[a:b] for a, b in cached_sentences(text) if a <= start < b), text[:PASSAGE_CHARS])


def _print_cosines(name: str, first: NDArray[np.float32], second: NDArray[np.float32]) -> None:
    cosines = first @ second.T
    same, others = np.diag(cosines), cosines[~np.eye(len(cosines), dtype=bool)]
    print(f"{name}: mean {same.mean():.2f}, deviation {same.std():.2f}; by chance {others.mean():.2f}, {others.std():.2f}", flush=True)


if __name__ == "__main__":
    main()
