"""Whether retrieval gets better where chunks are searched together with the headings above them.

    python -m scripts.headed_chunks INDEX QUESTIONS.jsonl

On a copy of the index, full text and vectors are made of title, headings and text of each chunk that has headings. A question has its
`question` and `gold`: stretches that answer it, any one of them, or all where `need` says so. Printed: of how many questions the gold is in
the first one, three and five chunks of mode `mix`. A stretch counts where 70 % of its words are there.
"""

import argparse
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from localrag.engine.embedder import LazyEmbedder
from localrag.model_files import find_embedder
from localrag.project import open_for_query
from localrag.query.retriever import retrieve
from localrag.records import content_id
from localrag.store.chunks import all_chunks
from localrag.store.full_text import index_chunks, unindex_chunks
from localrag.store.opening import open_index
from localrag.store.vectors import save_vectors

RANKS = (1, 3, 5)
MIN_WORD_SHARE = 0.7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path)
    args = parser.parse_args()
    questions = [q for line in args.questions.read_text(encoding="utf-8").splitlines() if (q := json.loads(line)).get("gold")]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / ".localrag"
        shutil.copytree(args.index, folder)
        show("text alone", folder, questions)
        with closing(open_index(folder, create=True)) as db:
            titles = dict(db.execute("SELECT id, title FROM documents"))
            chunks = all_chunks(db)
            lines = {c.id: " › ".join(dict.fromkeys(filter(None, (titles[c.document_id], *c.headings)))) for c in chunks if c.headings}
            texts = {c.id: f"{lines[c.id]}\n{c.text}" for c in chunks if c.id in lines}
            print(f"{len(texts)} of {len(chunks)} chunks have headings", flush=True)
            unindex_chunks(db, list(texts))
            index_chunks(db, texts.items())
        show("headings in the full text", folder, questions)
        file = find_embedder(None)
        vectors = LazyEmbedder(file).embed(list(texts.values()))
        with closing(open_index(folder, create=True)) as db:
            hashes = {key: content_id(text) for key, text in texts.items()}
            save_vectors(db, "chunk", file.fingerprint, list(texts), hashes, vectors, waits=set())
        show("headings in full text and vectors", folder, questions)


def show(what: str, folder: Path, questions: Sequence[Mapping[str, Any]]) -> None:
    """Print how often the gold is in the first chunks."""
    found = Counter[int]()
    with open_for_query(folder, logs=False) as project:
        for question in questions:
            text = question["question"]
            chunks = [c.text for c, _ in retrieve(text, project.embedder.embed([text])[0], project, max(RANKS))]
            found.update(rank for rank in RANKS if holds(" ".join(chunks[:rank]), question))
    print(f"{what}: " + ", ".join(f"{found[rank]} in the first {rank}" for rank in RANKS) + f", of {len(questions)}", flush=True)


def holds(text: str, question: Mapping[str, Any]) -> bool:
    """Whether a text has the gold of a question."""
    have = Counter(words(text))
    hits = [(Counter(w := words(gold)) & have).total() >= MIN_WORD_SHARE * len(w) for gold in question["gold"]]
    return all(hits) if question.get("need") == "all" else any(hits)


def words(text: str) -> list[str]:
    """The words of a text, without markup."""
    return re.findall(r"\w+", re.sub(r"[*`_\[\]#|]+", " ", text.lower()))


if __name__ == "__main__":
    main()
