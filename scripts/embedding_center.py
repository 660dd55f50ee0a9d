"""The mean of multilingual-e5-small's vectors, which its embedder subtracts: `python -m scripts.embedding_center DATA OUT`.

DATA has `train/reader_en_clear.jsonl.gz` and `train/reader_zh.jsonl.gz`; taken are questions and beginnings of passages of both. OUT gets
e5_center.safetensors. Printed are the cosines of pairs that mean the same and of pairs drawn by chance, before and after, beside those of
all-MiniLM-L6-v2, on which thresholds were fitted.
"""

import random
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from localrag.engine.embedder import E5Embedder, open_embedder
from localrag.model_files import find_embedder
from scripts.reader_data import rows

ENGLISH, CHINESE, PAIRS, PASSAGE_CHARS = 1500, 500, 300, 300


def main() -> None:
    data, out = (Path(argument) for argument in sys.argv[1:3])
    chance = random.Random(1)
    taken = [*chance.sample(list(rows(data / "train/reader_en_clear.jsonl.gz")), ENGLISH)]
    taken += chance.sample(list(rows(data / "train/reader_zh.jsonl.gz")), CHINESE)
    texts = [text for n, row in enumerate(taken) for text in (row["question"], row["context"][:PASSAGE_CHARS])[n % 2 : n % 2 + 1]]
    plain = E5Embedder(find_embedder("multilingual-e5-small"), centered=False).embed
    center = plain(texts).mean(axis=0)
    save_file({"center": center}, out / "e5_center.safetensors")

    pairs = [r for r in rows(data / "train/nli_en_clear.jsonl.gz") if r["supported"] and len(r["premise"]) < PASSAGE_CHARS]
    pairs = chance.sample(pairs, PAIRS)
    sides = [[row[side] for row in pairs] for side in ("premise", "hypothesis")]
    _print_cosines("all-MiniLM-L6-v2", *map(open_embedder(find_embedder("all-minilm-l6-v2")).embed, sides))
    _print_cosines("multilingual-e5-small", *map(plain, sides))
    _print_cosines("… centered", *(_centered(plain(side), center) for side in sides))


def _centered(vectors: NDArray[np.float32], center: NDArray[np.float32]) -> NDArray[np.float32]:
    moved = vectors - center
    return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)


def _print_cosines(name: str, first: NDArray[np.float32], second: NDArray[np.float32]) -> None:
    cosines = first @ second.T
    others = cosines[~np.eye(len(cosines), dtype=bool)]
    for what, values in (("pairs", np.diag(cosines)), ("by chance", others)):
        print(f"{name}, {what}: mean {values.mean():.2f}, 5 % {np.percentile(values, 5):.2f}, 95 % {np.percentile(values, 95):.2f}")


if __name__ == "__main__":
    main()
