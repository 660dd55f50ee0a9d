"""How long retrieval takes at a given number of chunks: full text, vectors and the walk, each alone and together, and both searches ranked.

    python -m scripts.scale_retrieval TEXT… --chunks 100000

Then the same of 1, 10, 50 and 100 % of the documents, chosen anew for every question.

Chunks are windows of consecutive sentences of the given texts, drawn at random. Vectors are those of 2,000 of them with noise added (it
is not measured what is found). Each chunk mentions 10 of as many entities as there are chunks, drawn by Zipf's law; each entity has 5
relationships. Questions are sentences of the texts that name two entities.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from localrag.engine.embedder import open_embedder
from localrag.filters import DocumentFilter
from localrag.llm.model import ChatModel
from localrag.llm.reader import PassageReader
from localrag.model_files import find_chat_model, find_embedder
from localrag.pagerank import personalized_pagerank
from localrag.project import Project, filter_project
from localrag.query import retriever
from localrag.query.basic_search import CANDIDATES_PER_HOP, retrieve_two_hop
from localrag.records import Chunk, Document, Entity, Graph, Mention, Relationship
from localrag.settings import IndexSettings
from localrag.store import documents, graph, runs, vectors
from localrag.store.entity_network import load_entity_network
from localrag.store.full_text import search_chunks
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index
from localrag.text.sentences import sentences
from tests.graphs import replace_graph

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SENTENCES = 6
PER_DOCUMENT = 100


def fill(db, texts, n, embed, rng):
    """An index of `n` chunks with its graph."""
    spans = [(t, sentences(t[:400_000])) for t in texts]
    ids, samples = [], []
    for d in range(0, n, PER_DOCUMENT):
        chunks, at = [], 0
        for k in range(d, min(n, d + PER_DOCUMENT)):
            text, found = spans[rng.integers(len(spans))]
            first = int(rng.integers(len(found) - SENTENCES))
            body = text[found[first].start : found[first + SENTENCES - 1].end] + "\n\n"
            chunks.append(Chunk(f"c{k:07}", f"d{d:07}", k - d, at, at + len(body), body, len(body) // 4))
            at += len(body)
        documents.save_document(db, Document(f"d{d:07}", f"d{d:07}.txt", f"d{d:07}", "".join(c.text for c in chunks), str(d)), chunks)
        ids += [c.id for c in chunks]
        samples += [c.text for c in chunks if len(samples) < 2000]
    base = embed(samples[:2000])
    for at in range(0, n, 10_000):
        some = ids[at : at + 10_000]
        made = base[rng.integers(len(base), size=len(some))] + rng.normal(0, 0.03, (len(some), base.shape[1]))
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        vectors.save_vectors(db, "chunk", "m", some, dict.fromkeys(some, "h"), made.astype(np.float32))
    zipf = 1 / np.arange(1, n + 1)
    zipf /= zipf.sum()
    who = rng.choice(n, size=(n, 10), p=zipf)
    mentions = [Mention(f"e{e:07}", c, f"Name{e:07}", 0, 11) for c, row in zip(ids, who, strict=True) for e in set(row.tolist())]
    pairs = {tuple(sorted(p)) for p in rng.choice(n, size=(5 * n, 2), p=zipf).tolist() if p[0] != p[1]}
    edges = tuple(Relationship(f"r{k}", f"e{a:07}", f"e{b:07}") for k, (a, b) in enumerate(sorted(pairs)))
    people = tuple(Entity(f"e{e:07}", f"Name{e:07}", "person") for e in range(n))
    replace_graph(db, Graph(people, edges, tuple(mentions)), [], f"graph of {n}")
    return samples


def timed(work, questions):
    """Milliseconds of `work` on each question: median and 95th percentile, after one run to fill caches."""
    work(questions[0])
    spent = []
    for q in questions:
        begun = time.perf_counter()
        work(q)
        spent.append(1000 * (time.perf_counter() - begun))
    return {"p50_ms": round(float(np.median(spent)), 1), "p95_ms": round(float(np.quantile(spent, 0.95)), 1)}


def selected_rows(project, share, questions, embedded):
    """What a question costs that is put to a share of the documents: choosing them, and searching among them, each question anew."""
    n = graph.counts(project.db, ["documents"])["documents"]
    step = round(1 / share)
    names = [f"d{d * PER_DOCUMENT:07}.txt" for d in range(n) if d % step == 0]
    with project.db.atomic():
        project.db.execute("DELETE FROM collection_documents")
        project.db.conn.executemany("INSERT INTO collection_documents VALUES ('some', ?)", [(name,) for name in names])
    chosen = DocumentFilter("path=**,type=txt", ("some",))

    def of(work):
        def asked(question):
            with filter_project(project, chosen) as narrowed:
                work(question, narrowed)

        return timed(asked, questions)

    return {
        "documents": len(names),
        "choosing": of(lambda *_: None),
        "full_text": of(lambda q, p: search_chunks(p.db, q, retriever.CANDIDATE_CHUNKS)),
        "vectors": of(lambda q, p: vectors.nearest(p.db, p.folder, "chunk", embedded[q], retriever.CANDIDATE_CHUNKS)),
        "search": of(lambda q, p: retriever.retrieve(q, embedded[q], p, CANDIDATES_PER_HOP)),
    }


def main():
    """Fill an index, measure, print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=50)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    texts = [t.read_text(encoding="utf-8", errors="ignore") for t in args.texts]
    embedder = open_embedder(find_embedder(None))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        db = open_index(folder, create=True)
        begun = time.perf_counter()
        samples = fill(db, texts, args.chunks, embedder.embed, rng)
        filled = time.perf_counter() - begun
        runs.save_settings(db, settings={})
        project = Project(
            folder, folder, db, db, IndexSettings(), ChatModel(SqliteLlmCache(db), find_chat_model(None)), embedder, reader=PassageReader()
        )
        begun = time.perf_counter()
        net = load_entity_network(db, folder)
        built = time.perf_counter() - begun
        of = [samples[i] for i in rng.integers(len(samples), size=args.questions)]
        questions = [f"{s[sentences(s)[1].start : sentences(s)[1].end][:200]} Name{i:07} Name{7 * i:07}" for i, s in enumerate(of)]
        embedded = dict(zip(questions, embedder.embed(questions), strict=True))

        def both_searches(question):
            asyncio.run(retrieve_two_hop(question, embedded[question], replace(project, search_cache={}), 10))

        rows = {
            "chunks": args.chunks,
            "mentions": int(net.entity_to_chunk.nnz),
            "relationships": int(net.entity_to_entity.nnz // 2),
            "fill_seconds": round(filled, 1),
            "network_seconds": round(built, 1),
            "full_text": timed(lambda q: search_chunks(db, q, retriever.CANDIDATE_CHUNKS), questions),
            "vectors": timed(lambda q: vectors.nearest(db, folder, "chunk", embedded[q], retriever.CANDIDATE_CHUNKS), questions),
            "names": timed(lambda q: retriever.named_entities(q, project), questions),
            "walk": timed(lambda q: personalized_pagerank(net, {len(q): 1.0}, {len(q): 1.0}, {}), questions),
            "search_of_10": timed(lambda q: retriever.retrieve(q, embedded[q], project, 10), questions),
            "search": timed(lambda q: retriever.retrieve(q, embedded[q], project, CANDIDATES_PER_HOP), questions),
            "both_searches_ranked": timed(both_searches, questions),
            "embedding": timed(lambda q: embedder.embed([q]), questions),
            "selected": {f"{share:.0%}": selected_rows(project, share, questions, embedded) for share in (0.01, 0.1, 0.5, 1.0)},
        }
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
