"""A connection that sees some of the documents, held against oracles: FTS5 over these alone, and a network of them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrag.errors import UsageError
from localrag.filters import DocumentFilter
from localrag.pagerank import PageRankGraph, build_graph, personalized_pagerank
from localrag.records import Chunk, Claim, Community, Document, Entity, Evidence, Finding, Graph, Mention, Quote, Relationship, Report
from localrag.store import collections, documents, generations, graph
from localrag.store.database import snapshot
from localrag.store.filtered import FilteredDatabase, NoMatchingDocuments, metadata_keys, open_filtered
from localrag.store.full_text import document_frequencies, exists_chunk_with_all, search_chunks
from localrag.store.opening import open_index
from tests.graphs import replace_graph

WORDS = ["ferry", "ferries", "skua", "leaks", "Vardby", "the", "and", "naïve", "x1", "हिन्दी", "渡轮", "海鸥号", "渡轮海鸥", "don't"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), min_size=2, max_size=8)


def chunk_of(n, text):
    return Chunk(f"c{n}", f"d{n}", 0, 0, len(text), text, 3)


def filled(folder, texts, only=None):
    """An index of a document for each text, or for some of them."""
    db = open_index(folder, create=True)
    for n, words in enumerate(texts):
        text = " ".join(words)
        if only is None or n in only:
            documents.save_document(db, Document(f"d{n}", f"{n}.txt", f"d{n}", text, str(n)), [chunk_of(n, text)])
    return db


@settings(max_examples=40)
@given(st.data(), TEXTS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
@pytest.mark.ci
def test_full_text_is_that_of_an_index_of_these_documents(tmp_path_factory, data, texts, query):
    """The same chunks as FTS5 finds in these alone; the same counts; in any script, for words that it takes apart."""
    only = data.draw(st.sets(st.integers(0, len(texts) - 1), min_size=1, max_size=len(texts) - 1))
    whole, part = (tmp_path_factory.mktemp(name) for name in ("whole", "part"))
    filled(whole, texts).close()
    alone = filled(part, texts, only)
    asked = " ".join(query)
    with snapshot(whole) as db:
        chosen = open_filtered(db, DocumentFilter(",".join(f"path={n}.txt" for n in only)), whole)
        assert isinstance(chosen, FilteredDatabase)
        found, wanted = search_chunks(chosen, asked, 10), search_chunks(alone, asked, 10)
        assert {c for c, _ in found} == {c for c, _ in wanted}
        assert [s for _, s in found] == sorted((s for _, s in found), reverse=True)
        assert document_frequencies(chosen, query) == document_frequencies(alone, query)
        plain = [w for w in query if w.isascii() and w.isalnum()]
        assert not plain or exists_chunk_with_all(chosen, plain) == exists_chunk_with_all(alone, plain)
    alone.close()


@settings(max_examples=40)
@given(st.data())
def test_a_walk_inside_is_one_over_a_network_of_these_chunks(data):
    """As long at each chunk as in a network made of the chunks inside, the entities that they mention, and how rare these are in all."""
    m, n = data.draw(st.integers(2, 6)), data.draw(st.integers(3, 7))
    pairs = data.draw(st.sets(st.tuples(st.integers(0, m - 1), st.integers(0, n - 1)), min_size=n, max_size=m * n))
    related = data.draw(st.sets(st.tuples(st.integers(0, m - 1), st.integers(0, m - 1)).filter(lambda p: p[0] < p[1]), max_size=5))
    inside = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=n - 1)))

    def made(mentions, edges):
        rows = np.array(sorted(mentions), np.int64).reshape(-1, 2)
        ones = np.ones(len(rows), np.float32)
        links = np.array(sorted(edges), np.int64).reshape(-1, 2)
        names = tuple(map(str, range(m))), tuple(map(str, range(n)))
        return build_graph(*names, rows, ones, 0 * ones, links, np.ones(len(links), np.float32))

    whole = made(pairs, related)
    kept = {(e, c) for e, c in pairs if c in inside}
    there = {e for e, _ in kept}
    part = made(kept, {(a, b) for a, b in related if a in there and b in there})
    # Rarity is of the whole: the columns of `chunk_to_entity` and the weights of relationships are those of the whole network.
    rebuilt = PageRankGraph(
        part.entities, part.chunks, part.entity_to_chunk, whole.chunk_to_entity, _within(whole.entity_to_entity, there), whole.rarity
    )
    starts = {c: 1.0 + c for c in inside}
    entities = {e: 1.0 for e in sorted(there)[:2]}
    favoured = {inside[0]: {next(iter(sorted(there)), 0): 3.0}}
    mask = np.zeros(n, np.float32)
    mask[inside] = 1
    found, wanted = (
        personalized_pagerank(whole, entities, starts, favoured, mask),
        personalized_pagerank(rebuilt, entities, starts, favoured),
    )

    assert found == pytest.approx(wanted, abs=1e-6)
    assert not found[mask == 0].any()
    if {e for e, _ in pairs} == set(range(m)):  # one that no chunk mentions is in no selection
        everywhere = personalized_pagerank(whole, entities, starts, favoured, np.ones(n, np.float32))
        assert everywhere == pytest.approx(personalized_pagerank(whole, entities, starts, favoured), abs=1e-6)


def _within(matrix, there):
    """The columns of a matrix scaled to sum to 1 over some rows."""
    dense = matrix.toarray().astype(np.float64)
    keep = np.zeros(dense.shape[0])
    keep[list(there)] = 1
    dense = dense * keep[:, None] * keep[None, :]
    total = dense.sum(axis=0)
    total[total == 0] = 1
    from scipy.sparse import csr_matrix

    return csr_matrix(dense / total, dtype=np.float32)


@pytest.fixture
def shelf(tmp_path):
    """Five documents with metadata and dates."""
    db = open_index(tmp_path, create=True)
    rows = [
        ("合同/甲.docx", "2023-12-31", (("author", "王海明"),)),
        ("contracts/a.pdf", "2024-01-01", (("author", "A. Holm; B. Sand"), ("Created By", "Scanner"))),
        ("contracts/old/b.pdf", "2019-05-05", (("author", "B. Sand"),)),
        ("mail/x.eml", "2024-12-31", (("author", "ingrid@holm.example"),)),
        ("notes.md", "", ()),
    ]
    for n, (path, day, metadata) in enumerate(rows):
        document = Document(f"d{n}", path, Path(path).stem, "words", str(n), metadata, (), (), day, "metadata")
        documents.save_document(db, document, [chunk_of(n, "words")])
    collections.add_to_collection(db, "two", ["notes.md", "mail/x.eml"])
    collections.add_to_collection(db, "one", ["notes.md"])
    db.close()
    return tmp_path


@pytest.mark.parametrize(
    ("where", "names", "numbers"),
    [
        ("path=contracts", "", [1, 2]),
        ("path=contracts/*", "", [1]),
        ("path=contracts/*,path=mail/*", "", [1, 3]),
        ("path!=contracts,path!=mail", "", [0, 4]),
        ("path=合同/*", "", [0]),
        ("path={root}/contracts/*.pdf", "", [1]),
        ("type=pdf", "", [1, 2]),
        ("type=word,type=mail", "", [0, 3]),
        ("type!=pdf", "", [0, 3, 4]),
        ("after=2024-01-01", "", [1, 3]),
        ("after=2024,before=2025", "", [1, 3]),
        ("before=2024", "", [0, 2]),
        ("meta.author=holm", "", [1, 3]),
        ('meta.author="B. Sand",meta.author=王', "", [0, 1, 2]),
        ("meta.author!=sand", "", [0, 3, 4]),
        ("meta.created by=SCAN", "", [1]),
        ("meta.title=notes", "", [4]),
        ("type=pdf,meta.author=sand,before=2020", "", [2]),
        ("", "two", [3, 4]),
        ("", "one,two", [3, 4]),
        ("type=md", "two", [4]),
    ],
)
def test_the_selected_documents(shelf, where, names, numbers):
    """By each key, joined by "and", a key given twice by "or", collections by their union."""
    selection = DocumentFilter(where.format(root=shelf), tuple(n for n in names.split(",") if n))
    with snapshot(shelf) as db:
        chosen = open_filtered(db, selection, shelf)
        assert sorted(key for (key,) in chosen.execute("SELECT id FROM documents")) == [f"d{n}" for n in numbers]


def test_what_there_is_is_said_where_nothing_matches(shelf):
    """For paths the folders, for types the types, for dates the span, for metadata the values; for several, how many each matches."""
    for where, said in (
        ("path=nowhere", "contracts/ (1)"),
        ("type=odt", "pdf (2)"),
        ("after=2030", "dated 2019-05-05 to 2024-12-31"),
        ("meta.author=nobody", "王海明 (1)"),
        ("type=pdf,path=mail", "Alone, type=pdf matches 2. Alone, path=mail matches 1."),
    ):
        with snapshot(shelf) as db, pytest.raises(NoMatchingDocuments) as nothing:
            open_filtered(db, DocumentFilter(where), shelf)
        assert said in nothing.value.hint


def test_the_keys_of_metadata_are_listed(shelf):
    """With how many documents have each; an unknown one is an error that lists them."""
    with snapshot(shelf) as db:
        assert metadata_keys(db) == {"title": 5, "author": 4, "Created By": 1}
        with pytest.raises(UsageError, match=r"metadata key 'auther', in 'meta\.auther=x'") as wrong:
            open_filtered(db, DocumentFilter("meta.auther=x"), shelf)
    assert "author (4)" in wrong.value.hint
    assert "Did you mean author?" in wrong.value.hint


def test_what_a_model_wrote_of_several_documents_is_not_shown(tmp_path):
    """A report, a relationship and an entity that speak of two documents: of one, only sentences and names inside; of both, all."""
    db = open_index(tmp_path, create=True)
    texts = ["Ada Quill sold the pier. Ada met Bo.", "Ada Quill bought a mine. Ada Quill owes Bo Lind money."]
    for n, text in enumerate(texts):
        documents.save_document(db, Document(f"d{n}", f"{n}.txt", f"d{n}", text, str(n)), [chunk_of(n, text)])
    people = (Entity("a", "Ada Quill", "person", ("x",), "A mine owner."), Entity("b", "Bo Lind", "person", (), "Creditor."))
    edge = Relationship("r", "a", "b", ("Ada owes Bo.",), "Ada met Bo and owes money.")
    mentions = tuple(
        Mention(e, c, text[a:b], a, b)
        for e, c, text, a, b in (
            ("a", "c0", texts[0], 0, 9), ("b", "c0", texts[0], 33, 35), ("a", "c1", texts[1], 0, 9), ("b", "c1", texts[1], 40, 47)
        )
    )  # fmt: skip
    evidence = (Evidence("r", "c0", 25, 36), Evidence("r", "c1", 25, 54))
    claims = tuple(Claim(f"k{n}", f"c{n}", "a", None, "deal", "TRUE", "", "", said, 0, 24) for n, said in enumerate(("Sold.", "Bought.")))
    community = Community("k", 0, 0, None, ("a", "b"))
    replace_graph(db, Graph(people, (edge,), mentions, evidence, claims), [community], "g")
    sold, bought = Quote("c0", 0, 24, texts[0][:24]), Quote("c1", 0, 24, texts[1][:24])
    written = Report(
        "k", "h", "A secret mine", "Of mines and piers.", 7.0, "It matters.",
        (Finding("Both", "Ada deals in piers and mines.", (sold, bought)), Finding("Pier", "Ada parted with it.", (sold,)),
         Finding("Mine", "Ada owns a mine.", (bought,))),
    )  # fmt: skip
    graph.save_reports(db, [written])
    generations.publish(db, without_report=[], kinds=[])
    db.close()

    with snapshot(tmp_path) as whole:
        assert graph.reports_of(whole, ["k"]) == [written]
        one = open_filtered(whole, DocumentFilter("path=0.txt"), tmp_path)
        (report,) = graph.reports_of(one, ["k"])
        assert report.title == "Ada Quill and Bo"
        assert [(f.summary, f.explanation, f.quotes) for f in report.findings] == [
            ("", "Ada Quill sold the pier.", (sold,)),
            ("Pier", "Ada parted with it.", (sold,)),
        ]
        assert report.summary == "Ada Quill sold the pier. Ada parted with it."
        assert "mine" not in report.markdown
        assert report.rating is None
        assert [(r.description, r.descriptions) for r in graph.relationships(one)] == [("", ())]
        assert [(e.name, e.description, e.descriptions) for e in graph.entities(one, ["a", "b"])] == [("Ada Quill", "", ()), ("Bo", "", ())]
        assert [c.description for c in graph.claims(one)] == ["Sold."]
        assert graph.coverage_of(one, ["k"]) == {"k": 1.0}
