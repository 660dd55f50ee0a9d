"""Extractions to graph to communities to report contexts: pure functions with worked examples."""

import re
from dataclasses import replace

from localrag import records
from localrag.indexing.reports import ReportSources, build_report_context
from localrag.records import Chunk, Claim, Community, Entity, Finding, Graph, Quote, Relationship, Report
from tests.indexing.graph.in_memory_graph import build_graph_in_memory

TEXT = "Mr. Scrooge paid Bob\nCratchit. Scrooge's nephew Fred called. Bob Cratchit has a son, Tiny Tim. The counting-house was cold."


def chunk_of(text, ident="c", start=0):
    return Chunk(ident, "d", 0, start, start + len(text), text, 10)


def test_resolving_counts_chunks_votes_on_types_and_keeps_offsets():
    """Weight is the number of chunks that state a relationship in either direction; mentions are verbatim at their offsets."""
    one, two = chunk_of(TEXT, "c1", 0), chunk_of(TEXT, "c2", 1000)
    entity, related = records.ExtractedEntity, records.ExtractedRelationship
    extractions = [
        records.Extraction("c1", (entity("Scrooge", "person"), entity("Fred", "person")), (related("Scrooge", "Fred", strength=8),)),
        records.Extraction("c2", (entity("Mr. Scrooge", "place"), entity("Fred", "person"), entity("Scrooge", "person")),
                   (related("Fred", "Scrooge", strength=4), related("Mr. Scrooge", "Scrooge"))),
    ]  # fmt: skip

    graph = build_graph_in_memory(extractions, {"c1": one, "c2": two})

    assert [(e.name, e.type, e.degree) for e in graph.entities] == [("Fred", "person", 1), ("Scrooge", "person", 1)]
    assert [(r.weight, r.strength) for r in graph.relationships] == [(2.0, 6.0)]
    for m in graph.mentions:
        c = {"c1": one, "c2": two}[m.chunk_id]
        assert c.text[m.start - c.start : m.end - c.start] == m.name
    for e in graph.evidence:
        c = {"c1": one, "c2": two}[e.chunk_id]
        passage = c.text[e.start - c.start : e.end - c.start]
        assert "Scrooge" in passage
        assert "Fred" in passage


def graph_of(edges, extra=()):
    names = sorted({n for e in edges for n in e} | set(extra))
    degree = {n: sum(n in e for e in edges) for n in names}
    entities = tuple(Entity(n, n, "person", degree=degree[n]) for n in names)
    return Graph(entities, tuple(Relationship(f"{a}-{b}", a, b) for a, b in edges))


def ten(text):
    """Ten tokens a line; the label that begins it, which is counted by itself, has none."""
    return 0 if text.endswith(":") else 10


def context(below, budget, edges=(("a", "b"), ("b", "c"), ("d", "e"))):
    graph = graph_of(list(edges))
    sources = sources_of(graph)
    whole = Community("w", 0, 0, None, tuple(e.id for e in graph.entities))
    return [e.text for e in build_report_context(whole, below, sources, ten, budget)]


def sub(ident, members, title):
    return Community(ident, 1, 0, "w", members), Report(ident, "", title, "summary", 1, "")


def sources_of(graph, **passages):
    """All of a graph, to write reports from."""
    return ReportSources.build({e.id: e for e in graph.entities}, graph.relationships, graph.claims, **passages)


def test_a_report_reads_relationships_by_combined_degree_with_their_ends_first():
    """Paper, section 3.1.5: source, target, then the edge, the most connected edge first."""
    lines = context([], 1000)

    assert [line.split(":")[1].strip() for line in lines] == [
        "a (person)", "b (person)", "a – b", "c (person)", "b – c", "d (person)", "e (person)", "d – e"]  # fmt: skip


def test_over_budget_the_largest_sub_community_is_replaced_by_its_report():
    """The sub-community with most tokens gives way to its report; the others keep their elements."""
    below = [sub("s1", ("a", "b", "c"), "Big"), sub("s2", ("d", "e"), "Small")]
    lines = context(below, 45)

    assert lines[0].startswith("report C1 (3 entities): Big")
    assert [line.split(" ")[0] for line in lines[1:]] == ["entity", "entity", "relationship"]


def test_where_not_even_the_reports_fit_as_many_are_taken_as_do():
    """With every sub-community replaced and still over budget, the largest sub-communities' reports remain."""
    below = [sub("s1", ("a", "b", "c"), "Big"), sub("s2", ("d", "e"), "Small")]

    assert [line.split(":")[1].strip() for line in context(below, 10)] == ["Big"]


def test_a_leaf_is_cut_at_the_budget():
    """Without sub-communities the least connected relationships are left out."""
    assert len(context([], 30)) == 3


def test_a_report_no_shorter_than_what_it_stands_for_is_not_taken():
    """The elements of a sub-community whose report is longer stay, and the next one gives way."""
    long = sub("s1", ("a", "b", "c"), "Big " + "and long " * 30)
    graph = graph_of([("a", "b"), ("b", "c"), ("d", "e")])
    whole = Community("w", 0, 0, None, tuple(e.id for e in graph.entities))

    def lines(budget):
        found = build_report_context(whole, [long, sub("s2", ("d", "e"), "Small")], sources_of(graph), lambda t: len(t.split()), budget)
        return [e.text for e in found]

    everything = lines(1000)
    tokens = sum(len(line.split()) for line in everything)
    assert lines(tokens - 1)[0].startswith("report C2 (2 entities): Small")
    assert lines(tokens - 1)[1:] == [line for line in everything if not re.search(r": [de] ", line)]
    assert not any("Big" in line for line in lines(20))


def test_findings_come_along_where_they_fit():
    """A report that stands for a sub-community brings as many findings as there is room for, and never more than it stands for."""
    graph = graph_of([(f"n{a:02}", f"n{a + 1:02}") for a in range(20)])
    members = tuple(e.id for e in graph.entities)
    whole, findings = Community("w", 0, 0, None, members), tuple(Finding(f"Finding {n}", "said in six more words here") for n in range(9))
    below = [(Community("s", 1, 0, "w", members[:15]), Report("s", "", "Title", "summary", None, "", findings))]

    def report(budget):
        found = build_report_context(whole, below, sources_of(graph), lambda text: len(text.split()), budget)
        assert sum(e.tokens for e in found) <= budget
        assert all(e.tokens == len(e.text.split()) for e in found)
        return found[0].text

    everything = sum(e.tokens for e in build_report_context(whole, below, sources_of(graph), lambda text: len(text.split()), 9999))
    given = [report(budget).count("Finding") for budget in (60, 80, 100, everything - 1)]

    assert given == sorted(given)
    assert given[0] < given[-1] == 9
    assert report(everything - 1).startswith("report C1 (15 entities): Title: summary Finding 0: said in six more words here Finding 1:")


def test_claims_stand_behind_the_ends_of_the_relationship_and_before_it():
    """Paper, section 3.1.5: source, target, the claims on them, the edge; each claim once, with its status, dates and sentence."""
    base = graph_of([("a", "b"), ("b", "c")])
    claims = (
        Claim("k1", "c1", "b", "a", "fraud", "SUSPECTED", "1953-02-01", "1953-02-01", "b is said to have cheated a", 5, 20),
        Claim("k2", "c1", "c", None, "illness", "TRUE", "", "", "c was ill", 30, 39),
    )
    quotes = {"k1": Quote("c1", 5, 20, "b cheated a, so"), "k2": Quote("c1", 30, 39, "c was ill")}
    sources = sources_of(replace(base, claims=claims), of_claim=lambda c: [quotes[c.id]] if c.id in quotes else [])
    found = build_report_context(Community("w", 0, 0, None, ("a", "b", "c")), [], sources, ten, 1000)

    assert [e.text for e in found if e.id[0] == "K"] == [
        "claim K1: b – a (fraud, SUSPECTED, 1953-02-01): b is said to have cheated a",
        "claim K2: c (illness, TRUE): c was ill",
    ]
    assert [e.id for e in found] == ["E1", "E2", "K1", "R1", "E3", "K2", "R2"]
    assert [e.quotes for e in found if e.id[0] == "K"] == [(quotes["k1"],), (quotes["k2"],)]
