"""Fit the weights of `localrag.loaders.column_labels`: python -m scripts.train.column_labels PROPERTIES TABLES

PROPERTIES: a folder of JSON files that map the ids of Wikidata's properties to their labels in a language. TABLES: a folder of CSV files
with headers. The weights are written into the module.
"""

import csv
import json
import random
import re
import sys
from pathlib import Path

from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from localrag.loaders import column_labels
from localrag.loaders.column_labels import N_BUCKETS, ngram_counts

MODULE = Path(column_labels.__file__)
MAX_TABLE_BYTES, MAX_CELLS = 400_000, 150
WIKIDATA_WEIGHT = 0.5


def property_labels(folder: Path) -> list[str]:
    """The labels of properties other than identifiers."""
    texts = [text for file in sorted(folder.glob("*.json")) for text in json.loads(file.read_text(encoding="utf-8")).values()]
    return [text for text in texts if text and len(text) < 40 and not re.search(r"\bID\b|-ID|identif|Kennung", text)]


def headers_and_cells(folder: Path) -> tuple[list[str], list[str]]:
    """The cells with letters of the first rows of all tables, and of the others."""
    headers: dict[tuple[str, ...], None] = {}
    cells: list[str] = []
    for file in sorted(folder.rglob("*.csv")):
        if file.stat().st_size > MAX_TABLE_BYTES:
            continue
        rows = list(csv.reader(file.read_text(encoding="utf-8", errors="replace").splitlines()))[:300]
        if len(rows) >= 4 and tuple(rows[0]) not in headers:
            headers[tuple(rows[0])] = None
            texts = {c.strip() for row in rows[1:] for c in row if len(c.strip()) < 60 and re.search(r"[^\W\d_]{2}", c)}
            cells += random.Random(1).sample(sorted(texts), min(len(texts), MAX_CELLS))
    return [text for row in headers for text in row if len(text) < 60], cells


def main() -> None:
    """Fit, quantize, and write the constants."""
    labels = property_labels(Path(sys.argv[1]))
    headers, cells = headers_and_cells(Path(sys.argv[2]))
    examples = [(t, 1, WIKIDATA_WEIGHT) for t in labels] + [(t, 1, 1.0) for t in headers] + [(t, 0, 1.0) for t in cells]
    rows = [(ngram_counts(text), target, weight) for text, target, weight in examples]
    rows = [row for row in rows if row[0]]
    values = [n / counts.total() ** 0.5 for counts, *_ in rows for n in counts.values()]
    columns = [bucket for counts, *_ in rows for bucket in counts]
    starts = [0]
    for counts, *_ in rows:
        starts.append(starts[-1] + len(counts))
    model = LogisticRegression(C=3, class_weight="balanced", max_iter=500)
    matrix = csr_matrix((values, columns, starts), shape=(len(rows), N_BUCKETS))
    model.fit(matrix, [t for _, t, _ in rows], sample_weight=[w for *_, w in rows])
    numbers = [min(max(round(float(w) * 8), -44), 44) for w in model.coef_[0]]
    text = "".join(chr(80 + n + (n == 12)) for n in numbers)  # 92 is the backslash
    lines = "\n".join(f'    "{text[k : k + 128]}"' for k in range(0, len(text), 128))
    source = MODULE.read_text(encoding="utf-8")
    source = re.sub(r"_INTERCEPT = .*", f"_INTERCEPT = {model.intercept_[0]:.3f}", source)
    source = re.sub(r"_WEIGHTS = \((?s:.*?)\n\)", lambda _: f"_WEIGHTS = (\n{lines}\n)", source)
    MODULE.write_text(source, encoding="utf-8")
    print(len(labels), len(headers), len(cells), f"{model.score(matrix, [t for _, t, _ in rows]):.3f}")


if __name__ == "__main__":
    main()
