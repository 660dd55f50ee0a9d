"""How the stages of indexing that ask no model grow with the corpus: time, growth and peak memory of each.

    python scripts/scale_index.py                              # 10 %, 30 % and 100 % of the full size, one after another
    python scripts/scale_index.py --share 0.01 --share 0.03    # a quick look

The full size is 100,000 chunks in 5,000 documents, 1 million mentions and 1 million stated relationships of 200,000 entities. The corpus
is made up: names of syllables, surnames and words drawn by Zipf's law, two thirds of a chunk's names from its document's own circle and
the others from everybody; a person stands in full, with Mr., by surname or by initial; companies with and without their form. Vectors
are random (nothing here depends on what they mean). Each share runs in a process of its own. The growth is
that of the last share against the first: 1.0 is linear, n log n is up to 1.1 here. `ask` answers with verbatim sentences; most of its time
is the start of the embedder.
"""

import argparse
import asyncio
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from localrag.config import Settings
from localrag.index.crew.here import Here
from localrag.index.extraction.phrases import PHRASES
from localrag.index.graph.clustering.cluster import cluster
from localrag.index.graph.merging.update import Update
from localrag.index.graph.variants import Decisions
from localrag.index.jobs import Tools
from localrag.index.reports.stage import write_reports
from localrag.models import find_chat_model, find_embedder
from localrag.query.retrieval.retrieve import nearest_chunks
from localrag.records import Chunk, Document, ExtractedEntity, ExtractedRelationship, Extraction
from localrag.store import corpus, generations, ledger, vectors
from localrag.store import graph as store
from localrag.store.network import bring_files_up_to_date, load_network
from localrag.store.schema import open_index
from localrag.store.search import search_chunks
from localrag.store.staged import Staged
from localrag.text.plain import sentence_bounds

CHUNKS, ENTITIES, PER_DOCUMENT = 100_000, 200_000, 20
PAIRS = 5  # sentences of a chunk with two names each
DIMENSIONS = 384
PROCESS_RUNS = 3
KINDS = ("Company", "Institute", "Society", "Bank", "Union", "Museum", "Council", "Society")


def words(n: int, rng: np.random.Generator) -> list[str]:
    """`n` different capitalised words of syllables, which no dictionary has."""
    heads, vowels, tails = (
        "b br d dr f g gr h j k kr l m n p r s sk st t tr v".split(),
        "a e i o u au ei".split(),
        "l n r s t ck ld rn sk".split(),
    )
    found: dict[str, None] = {}
    while len(found) < n:
        syllables = ("".join((str(rng.choice(heads)), str(rng.choice(vowels)))) for _ in range(int(rng.integers(2, 4))))
        found["".join((*syllables, str(rng.choice(tails)))).capitalize()] = None
    return list(found)


def zipf(n: int, size: int, rng: np.random.Generator) -> Any:
    """`size` numbers below `n`, the k-th as likely as 1 / k."""
    total = np.cumsum(1 / np.arange(1, n + 1))
    return np.searchsorted(total, rng.random(size) * total[-1]).clip(0, n - 1)


def make_names(n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """`n` different names with their types: six of ten are people's, three organisations', one a place's."""
    surnames, given, places = words(max(50, n // 10), rng), words(400, rng), words(n // 10 + 1, rng)
    found: dict[str, str] = {}
    at = iter(zipf(len(surnames), 4 * n, rng).tolist())
    while len(found) < n:
        kind, surname = len(found) % 10, surnames[next(at)]
        first, second, place = (some[int(rng.integers(len(some)))] for some in (given, given, places))
        if kind < 6:
            found.setdefault(f"{first} {surname}" if kind < 4 else f"{first} {second} {surname}", "person")
        elif kind < 9:
            head = KINDS[int(rng.integers(len(KINDS)))]
            found.setdefault(f"{head} of {surname} {place}" if kind < 8 else f"{surname} {place} Company", "organization")
        else:
            found.setdefault(f"{place} {second}", "place")
    return list(found.items())


def written(name: str, kind: str, luck: float) -> str:
    """A name as a text might have it: in full, or as one of its variants."""
    parts = name.split()
    if kind == "person":
        variants = (f"Mr. {parts[-1]}", parts[-1], f"{parts[0][0]}. {parts[-1]}")
        return name if luck < 0.7 else variants[int((luck - 0.7) * 9.99)]
    return name.removesuffix(" Company") if kind == "organization" and luck > 0.9 else name


@dataclass(frozen=True)
class Corpus:
    """What indexing would have made of files before the first stage that is measured."""

    documents: list[tuple[Document, list[Chunk]]]
    extractions: list[Extraction]
    chunks: dict[str, Chunk]


def vocabulary() -> tuple[list[str], list[str]]:
    """English nouns and past tenses, of the dictionary that finding names uses."""
    import textblob.en

    textblob.en.lexicon.load()
    tagged = [(w, t) for w, t in textblob.en.lexicon.items() if w.isalpha() and w.islower() and w.isascii() and len(w) > 3]
    return [w for w, t in tagged if t == "NN"], [w for w, t in tagged if t == "VBD"]


def make_corpus(share: float) -> Corpus:
    """Documents, chunks and extractions; the same share gives the same ones."""
    rng = np.random.default_rng(7)
    n = round(CHUNKS * share)
    names = make_names(round(ENTITIES * share), rng)
    nouns, verbs = vocabulary()
    circle = 2 * PER_DOCUMENT * PAIRS  # names a document has to itself, so that every entity is mentioned
    documents, extractions, chunks = [], [], {}
    for d, first in enumerate(range(0, n, PER_DOCUMENT)):
        size = min(PER_DOCUMENT, n - first)
        own = (d * len(names) // math.ceil(n / PER_DOCUMENT) + np.arange(circle // 4)) % len(names)
        drawn = np.where(
            rng.random((size, 2 * PAIRS)) < 0.67,
            own[zipf(len(own), size * 2 * PAIRS, rng)].reshape(size, -1),
            zipf(len(names), size * 2 * PAIRS, rng).reshape(size, -1),
        )
        flat = drawn.reshape(-1)
        flat[rng.permutation(len(flat))[: len(own)]] = own[: len(flat)]
        at, of_document = 0, []
        for k in range(size):
            people = list(
                dict.fromkeys((written(*names[i], luck), names[i][1]) for i, luck in zip(drawn[k], rng.random(2 * PAIRS), strict=True))
            )
            text = make_text(people, nouns, verbs, rng, defined=k == 0)
            chunk = Chunk(f"c{first + k:07}", f"d{d:06}", k, at, at + len(text), text, len(text) // 4)
            of_document.append(chunk)
            at += len(text)
            extractions.append(make_extraction(chunk, people))
        whole = "".join(c.text for c in of_document)
        documents.append((Document(f"d{d:06}", f"notes/d{d:06}.txt", f"Notes {d}", whole, str(d)), of_document))
        chunks |= {c.id: c for c in of_document}
    return Corpus(documents, extractions, chunks)


def make_text(people: list[tuple[str, str]], nouns: list[str], verbs: list[str], rng: np.random.Generator, *, defined: bool) -> str:
    """Sentences of two names each with one without between them; `defined`: one says in brackets how an organisation is abbreviated."""
    thing, deed = iter(zipf(len(nouns), 60, rng).tolist()), iter(zipf(len(verbs), 30, rng).tolist())
    lines = []
    for (a, _), (b, _) in zip(people[::2], [*people[1::2], people[0]], strict=False):
        lines.append(f"{a} {verbs[next(deed)]} {b} about the {nouns[next(thing)]} of the {nouns[next(thing)]}.")
        lines.append(f"It was a {nouns[next(thing)]} that nobody {verbs[next(deed)]} in the {nouns[next(thing)]}.")
    long = next((name for name, kind in people if kind == "organization"), "")
    if defined and long:
        lines.append(f"The {long} ({acronym(long)}) met again.")
        people.append((acronym(long), "organization"))
    return " ".join(lines) + "\n\n"


def acronym(name: str) -> str:
    return "".join(c for c in name if c.isupper())


def make_extraction(chunk: Chunk, people: list[tuple[str, str]]) -> Extraction:
    """What would be found in the chunk: its names, related where they share a sentence or stand in adjacent ones."""
    found = list(dict(people).items())
    named = [n for n, _ in found][: 2 * PAIRS]
    pairs = [*pairwise(named), *([(named[0], named[2])] if len(named) > 2 else [])]
    related = tuple(ExtractedRelationship(a, b) for a, b in pairs if a not in b and b not in a)
    return Extraction(chunk.id, tuple(ExtractedEntity(n, t) for n, t in found), related, by="phrases")


@dataclass
class Meter:
    """Times stages and prints one JSON line for each: seconds, and the highest memory while it ran."""

    share: float

    def __call__(self, stage: str, work: Callable[[], Any], runs: int = 1) -> Any:
        """Do the work; of several runs the fastest counts."""
        reset_peak()
        spent = []
        for _ in range(runs):
            begun = time.perf_counter()
            result = work()
            spent.append(time.perf_counter() - begun)
        self._print(stage, min(spent), peak_mib())
        return result

    def process(self, stage: str, call: list[str]) -> None:
        """Run a command several times; the fastest counts, and the most memory that one of them was seen to take."""
        spent, peaks = [], [0]
        for _ in range(PROCESS_RUNS):
            begun = time.perf_counter()
            child = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while child.poll() is None:  # the figure that wait4 gives counts this process too, of which the child is a copy at first
                with suppress(OSError, IndexError):
                    peaks.append(peak_of(child.pid))
                time.sleep(0.02)
            spent.append(time.perf_counter() - begun)
            if child.returncode:
                raise SystemExit(f"failed: {' '.join(call)}")
        self._print(stage, min(spent), max(peaks))

    def _print(self, stage: str, seconds: float, mib: int) -> None:
        print(json.dumps({"share": self.share, "stage": stage, "seconds": seconds, "mib": mib}), flush=True)


def reset_peak() -> None:
    """Begin to measure the highest memory anew, where the kernel can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def peak_mib() -> int:
    """The highest memory since then; without /proc, of the whole process."""
    try:
        return peak_of("self")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def peak_of(process: int | str) -> int:
    """The highest memory of a process so far, in MiB (Linux). Raises OSError, IndexError where it has ended."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))[0]) // 1024


def run_share(share: float, folder: Path) -> None:
    """Every stage on an index of this size."""
    meter = Meter(share)
    db = open_index(folder, create=True)
    models = {"chat_model": find_chat_model(None), "embedder": find_embedder(None)}
    ledger.save_settings(db, **{kind: {"name": f.name, "path": f.given, "fingerprint": f.fingerprint} for kind, f in models.items()})
    run_graph(db, meter)
    run_reports(db, meter)
    run_questions(db, folder, meter)
    print(json.dumps({"share": share, "counts": store.counts(db) | {"mentions": db["mentions"].count}}), flush=True)


def run_graph(db: Any, meter: Meter) -> None:
    """From chunks and extractions to the stored graph."""
    made = meter("(making the corpus)", lambda: make_corpus(meter.share))
    meter("documents, chunks and full text stored", lambda: [corpus.add_document(db, *pair) for pair in made.documents])
    meter("extractions stored", lambda: corpus.save_extractions(db, PHRASES, made.extractions))
    meter("extractions read", lambda: corpus.extractions(db, PHRASES))
    meter("sentences split and stored", lambda: corpus.save_sentences(db, {c.id: sentence_bounds(c.text) for c in made.chunks.values()}))
    staged = Staged(db)
    meter("names, entities, relationships and weights", lambda: merge(staged, made))
    entities = list(staged.rows("entities"))
    staged.put("entities", ((*row[:3], f"{row[1]} is a {row[2]}.", *row[4:]) for row in entities))
    meter("communities", lambda: cluster(staged, {}, list, max_size=10, seed=0))
    meter("graph published", lambda: generations.publish(db, staged, settings={"graph": "first"}))


def merge(staged: Staged, made: Corpus) -> None:
    """Make the graph of all documents."""
    of_chunk = {x.chunk_id: x for x in made.extractions}
    documents = {d.id: ({c.id: c for c in cs}, [of_chunk[c.id] for c in cs]) for d, cs in made.documents}
    Update(staged, documents.__getitem__, Decisions()).run(list(documents), [])


def unit_vectors(n: int, seed: int) -> Any:
    """`n` random unit vectors."""
    made = np.random.default_rng(seed).standard_normal((n, DIMENSIONS), np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def run_reports(db: Any, meter: Meter) -> None:
    """Quotes, topics, contexts and extractive reports of every community; what is embedded is random."""
    model: Any = SimpleNamespace(file=find_chat_model(None))
    embedder: Any = SimpleNamespace(embed=lambda texts: unit_vectors(len(texts), 1))
    project: Any = SimpleNamespace(db=db, settings=Settings(), model=model)
    crew = Here(Tools(model, embedder, None, Settings(), lambda _: ""))
    written = meter(
        "report contexts and extractive reports", lambda: asyncio.run(write_reports(project, "extractive", crew, lambda *_: None))
    )
    meter("reports published", lambda: generations.publish(db, without_report=written.failed))


def run_questions(db: Any, folder: Path, meter: Meter) -> None:
    """Vectors and their index, the network, and what a question costs before it reaches a model."""

    fingerprint = find_embedder(None).fingerprint

    def save(kind: str) -> None:
        ids = list(vectors.texts(db, kind))
        vectors.save(db, kind, fingerprint, ids, dict.fromkeys(ids, "h"), unit_vectors(len(ids), 2))

    meter("vectors stored", lambda: [save(kind) for kind in ("chunk", "entity", "report")])
    meter("index files of vectors and network", lambda: bring_files_up_to_date(db))
    query = unit_vectors(1, 3)[0]
    meter(
        "first vector search",
        lambda: [vectors.nearest(db, folder, kind, query, 50) for kind in ("chunk", "entity", "report")],
    )
    meter("vector search", lambda: vectors.nearest(db, folder, "chunk", query, 50), 5)
    question = "Who met about the " + " ".join(re.findall(r"\w+", next(db.query("SELECT text FROM chunks LIMIT 1 OFFSET 77"))["text"])[:12])
    meter("full-text search", lambda: search_chunks(db, question, 50), 5)
    meter("network built", lambda: load_network(db, folder))
    meter("passages for ask --mode basic", lambda: nearest_chunks(question, query, SimpleNamespace(db=db, folder=folder), 10), 5)
    ask = ["ask", question, "--style", "extractive", "--mode"]
    calls = {"localrag status": ["status"], "localrag ask --mode global --dynamic": [*ask, "global", "--dynamic"]}
    calls |= {f"localrag ask --mode {mode}": [*ask, mode] for mode in ("basic", "local", "drift", "global", "ts")}
    for name, words in calls.items():
        meter.process(f"{name} (a process)", [sys.executable, "-m", "localrag", *words, "--index", str(folder)])


def table(rows: list[dict[str, Any]], shares: list[float]) -> Iterator[str]:
    """Stage, seconds at each share, growth exponent, peak memory at the last."""
    of_stage: defaultdict[str, dict[float, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        if "stage" in row:
            of_stage[row["stage"]][row["share"]] = row
    yield "| stage | " + " | ".join(f"{s:.0%}, s" for s in shares) + " | growth | peak MiB |"
    yield "|---" * (len(shares) + 3) + "|"
    for stage, at in of_stage.items():
        if set(at) != set(shares):
            continue
        first, last = at[shares[0]], at[shares[-1]]
        growth = math.log(last["seconds"] / first["seconds"]) / math.log(shares[-1] / shares[0]) if len(shares) > 1 else math.nan
        seconds = " | ".join(f"{at[s]['seconds']:.3g}" for s in shares)
        yield f"| {stage} | {seconds} | {growth:.2f} | {last['mib']} |"


def main() -> None:
    """Run every share in a process of its own, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, action="append")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where to make the indexes (5 GB at 100 %%)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        if args.one:
            run_share(args.one, Path(place))
            return
        shares, rows = sorted(args.share or [0.1, 0.3, 1.0]), []
        for share in shares:
            call = [sys.executable, __file__, "--one", str(share), "--folder", place]
            with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
                for line in process.stdout or ():
                    rows.append(json.loads(line))
                    print(line, end="", file=sys.stderr, flush=True)
            if process.returncode:
                raise SystemExit(f"{share:.0%} failed")
    print(*table(rows, shares), sep="\n")
    print(*(f"{r['share']:.0%}: {r['counts']}" for r in rows if "counts" in r), sep="\n")


if __name__ == "__main__":
    main()
