"""Reports as a stage: which are written, what they cost, and what a later run finds ready."""

import asyncio
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from localrag.demo import CORPUS
from localrag.engine.settings import EngineOptions
from localrag.indexing import report_stage
from localrag.indexing.extraction.nlp import PHRASES_HASH
from localrag.indexing.pipeline import build_index, write_model_reports
from localrag.indexing.report_stage import ReportSourceReader
from localrag.project import open_for_writing
from localrag.query.question import QueryOptions, Question
from localrag.query.reading_budget import rank_by_relevance
from localrag.records import ExtractedClaim, content_id
from localrag.serializers import NO_REPORT, serialize_report
from localrag.store import browse, graph, runs
from localrag.store import chunks as chunks_store
from tests.fakes import Scripted, answered_by, example

pytestmark = pytest.mark.usefixtures("hashed_module")


def index(folder, seen=None, **settings):
    """Index a folder without a model; `seen` takes every text that is embedded."""
    with open_for_writing(folder / ".localrag", extractor="phrases", engine=EngineOptions(), **settings) as project:
        embed = project.embedder.embed
        project.embedder.embed = lambda texts: (seen.extend(texts) if seen is not None else None, embed(texts))[1]
        asyncio.run(build_index([folder / "docs"], project, lambda _: None))
        return graph.communities(project.db), {r.community_id: r for r in graph.reports(project.db)}


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """An index of the demo's documents."""
    folder = tmp_path_factory.mktemp("town")
    shutil.copytree(CORPUS, folder / "docs")
    return folder, *index(folder)


def due(folder, communities):
    """The communities that differ from those above, and have two chunks which each mention two of their entities."""
    with open_for_writing(folder / ".localrag", engine=EngineOptions()) as project:
        named = {}
        for chunk, entity in project.db.execute("SELECT chunk_id, entity_id FROM mentions"):
            named.setdefault(chunk, set()).add(entity)
    members = {c.id: {*c.entity_ids} for c in communities}
    own = [c.id for c in communities if members.get(c.parent_id) != members[c.id]]
    return {key for key in own if sum(len(names & members[key]) > 1 for names in named.values()) > 1}


def test_reports_are_of_communities_that_several_passages_speak_of(town):
    """A community of one passage has none, and one that a level repeats unchanged has that of the first."""
    folder, communities, reports = town
    assert reports.keys() == due(folder, communities)
    assert 0 < len(reports) < 0.8 * len(communities)


def test_a_second_passage_brings_a_report_and_its_loss_takes_it(tmp_path):
    """A community gets a report when another document speaks of it, and loses it when that is about something else."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Ann Miller met Bert Baker in Hull.")
    alone, none = index(tmp_path)
    (tmp_path / "docs" / "b.txt").write_text("Ann Miller wrote to Bert Baker from Hull.")
    communities, reported = index(tmp_path)
    of_two = due(tmp_path, communities)
    (tmp_path / "docs" / "b.txt").write_text("It rained.")
    _, again = index(tmp_path)

    assert alone
    assert (none, again) == ({}, {})
    assert reported.keys() == of_two != set()


def test_a_repeated_community_is_shown_as_the_first_and_one_without_a_report_by_its_names(town):
    """In the tree, in the graph and by its report; below it are the communities that it is divided into."""
    folder, communities, reports = town
    members = {c.id: c.entity_ids for c in communities}
    with open_for_writing(folder / ".localrag", engine=EngineOptions()) as project:
        tree = {row["id"]: row for row in browse.community_tree(project.db)}
        labels = browse.community_labels(project.db, list(members))
        shown = {c.id: serialize_report(c.id, project.db) for c in communities}
        names = {e.id: e.name for e in graph.entities(project.db)}
    copies = {c.id: c.parent_id for c in communities if members.get(c.parent_id) == c.entity_ids}
    assert copies
    for key, first in copies.items():
        assert (tree[key]["title"], labels[key]["title"], shown[key]) == (tree[first]["title"], labels[first]["title"], shown[first])
    assert not {part["id"] for report in shown.values() for part in report["children"]} & copies.keys()
    for key in members.keys() - reports.keys() - copies.keys():
        assert {*tree[key]["title"].split(", ")} <= {names[e] for e in members[key]}
        assert shown[key]["summary"] == NO_REPORT


def test_written_reports_are_used_at_once_and_a_stopped_run_goes_on(town, tmp_path, monkeypatch):
    """They are published branch by branch, the broadest first, with their vectors; after a stop only the others are written."""
    shutil.copytree(town[0], tmp_path / "town")
    monkeypatch.setattr(report_stage, "WRITTEN_PER_GROUP", 2)
    monkeypatch.setattr(report_stage, "MAX_GROUPS_IN_FLIGHT", 1)

    def write(most):
        with open_for_writing(tmp_path / "town" / ".localrag", engine=EngineOptions()) as project:
            engine = answered_by(project, Scripted(lambda r: example(r.grammar.schema) if r in engine.requests[:most] else OSError()))
            with suppress(OSError):
                asyncio.run(write_model_reports(project, lambda _: None))
            reports = {r.community_id: r for r in graph.reports(project.db)}
            hashes = dict(project.db.execute("SELECT subject_id, content_hash FROM embeddings WHERE kind = 'report'"))
        assert hashes == {key: content_id(r.lead) for key, r in reports.items()}
        prompts = [r.messages[-1]["content"] for r in engine.requests if r.task == "report"]
        return prompts, {key for key, r in reports.items() if r.rating is not None}

    tops = {c.id: {*c.entity_ids} for c in town[1] if c.level == 0}
    inside = Counter(top for c in town[1] for top, members in tops.items() if members.issuperset(c.entity_ids))
    ((broadest, n),) = inside.most_common(1)
    asked, first = write(n)
    asked_then, every = write(1000)

    assert broadest in first < every
    assert not {*asked[:n]} & {*asked_then}
    assert every == due(tmp_path / "town", town[1])


def test_sentences_of_another_splitter_are_not_used(town):
    """What was kept by another version of the splitter counts as missing."""
    folder, *_ = town
    with open_for_writing(folder / ".localrag", engine=EngineOptions()) as project:
        project.db.execute("UPDATE sentence_spans SET splitter_version = 0")
        assert list(chunks_store.chunks_without_sentences(project.db)) == chunks_store.all_chunks(project.db) != []


def made_vectors(texts):
    """Unit vectors that depend on each text alone."""
    made = np.stack([np.random.default_rng(crc32(t.encode())).standard_normal(64, np.float32) for t in texts])
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def of_today(folder, *, recluster=False):
    """Index a folder in short chunks; of every community its report, its coverage, and its place among those that bear on a question."""
    chosen = {"extractor": "phrases", "chunk_tokens": 100, "chunk_overlap": 0, "recluster": recluster}
    with open_for_writing(folder / ".localrag", engine=EngineOptions(), **chosen) as project:
        project.embedder.embed = made_vectors
        asyncio.run(build_index([folder / "docs"], project, lambda _: None))
        found = graph.communities(project.db)
        reports = {r.community_id: r for r in graph.reports(project.db)}
        covered = graph.coverage_of(project.db, reports)
        order = list(
            rank_by_relevance(Question("q", made_vectors(["q"])[0], "extractive", QueryOptions()), list(reports), covered, project)
        )
        chunks = graph.counts(project.db)["chunks"]
    found = [c for c in found if c.id in reports]
    inside = {c.id: frozenset(o.entity_ids for o in found if {*o.entity_ids} < {*c.entity_ids}) for c in found}
    key = {c.id: (c.level, c.entity_ids, inside[c.id]) for c in found}  # a report is written from those of the communities inside
    said = {
        key[c.id]: (r.title, r.summary, r.rating, r.rating_explanation, r.findings, covered[c.id]) for c in found for r in [reports[c.id]]
    }
    return said, [key[i] for i in order], chunks


def unrelated(lines, things):
    """A text of people that no other document knows, and of these things."""
    rng = np.random.default_rng(5)
    names = [
        f"{a}{b} {c}{d}" for a, c in (("Ulm", "Varg"), ("Ost", "Brek"), ("Zin", "Dorv")) for b in ("a", "i") for d in ("en", "us", "o")
    ]
    said = []
    for n in range(lines):
        a, b = rng.choice(names, 2, replace=False)
        said.append(f"{a} wrote to {b} about the {rng.choice(things)} and the {rng.choice(things)} of the year {n}, which nobody had seen.")
    return "\n\n".join(" ".join(said[at : at + 3]) for at in range(0, lines, 3))


@pytest.mark.ci
def test_reports_are_the_same_whether_all_of_a_level_are_written_or_branch_by_branch(tmp_path, monkeypatch):
    """Those of communities inside others are written before theirs."""
    said = []
    for name, group in (("level", 10_000), ("branch", 1)):
        monkeypatch.setattr(report_stage, "COMMUNITIES_PER_GROUP", group)
        shutil.copytree(CORPUS, tmp_path / name / "docs")
        said.append(of_today(tmp_path / name))

    assert len(said[0][0]) > 50
    assert said[0] == said[1]


@pytest.mark.slow
def test_reports_are_of_today_however_they_came_about(tmp_path):
    """After thousands of unrelated passages they are those of an index made at once: of common communities, and of all once found anew."""
    shutil.copytree(CORPUS, tmp_path / "grown" / "docs")
    before, _, few = of_today(tmp_path / "grown")
    titled = sorted({word.lower() for title, *_ in before.values() for word in title.split()})
    (tmp_path / "grown" / "docs" / "unrelated.txt").write_text(unrelated(6000, titled))
    shutil.copytree(tmp_path / "grown" / "docs", tmp_path / "fresh" / "docs")
    grown, order, many = of_today(tmp_path / "grown")
    fresh, fresh_order, _ = of_today(tmp_path / "fresh")
    common = grown.keys() & fresh.keys()

    assert many > few + 1500
    assert len(common) > 10
    assert {k: grown[k] for k in common} == {k: fresh[k] for k in common}
    for level in {level for level, *_ in common}:  # a community carried down has the same place on both levels
        assert [k for k in order if k in common and k[0] == level] == [k for k in fresh_order if k in common and k[0] == level]
    stayed = common & before.keys()
    assert all(grown[k][-1] < 0.2 * before[k][-1] for k in stayed)
    first, last = ({key[:2]: title for key, (title, *_) in found.items()} for found in (before, grown))
    assert any(first[k] != last[k] for k in first.keys() & last.keys())  # titles, which the words of all documents decide
    assert of_today(tmp_path / "grown", recluster=True)[0] == fresh


def test_claims_are_quoted_in_reports_and_local_answers(tmp_path):
    """The sentence of a claim is what an extractive report on its subject may quote, and is among a local answer's candidates."""
    (tmp_path / "docs").mkdir()
    text = "Ruth Sand met Lars Holm in Vardby.\n\nIt was said that she took money for the quay."
    (tmp_path / "docs" / "a.txt").write_text(text)
    (tmp_path / "docs" / "b.txt").write_text("Ruth Sand saw Lars Holm again.")
    with open_for_writing(tmp_path / ".localrag", extractor="phrases", engine=EngineOptions()) as project:
        asyncio.run(build_index([tmp_path / "docs"], project, lambda _: None))
        assert not any("took money" in f.explanation for r in graph.reports(project.db) for f in r.findings)
        first = next(c.id for c in chunks_store.all_chunks(project.db) if c.text.startswith("Ruth Sand met"))
        found = next(e for e in chunks_store.extractions(project.db, PHRASES_HASH) if e.chunk_id == first)
        start = text.index("It was said")
        claim = ExtractedClaim("Ruth Sand", "", "bribery", "SUSPECTED", "", "", "she took money", start, len(text))
        chunks_store.save_extractions(project.db, PHRASES_HASH, [replace(found, claims=(claim,))])
        runs.save_settings(project.db, graph_hash=None, reports_state=None)
        asyncio.run(build_index([tmp_path / "docs"], project, lambda _: None))

        assert any("took money" in f.explanation for r in graph.reports(project.db) for f in r.findings)


@pytest.mark.ci
def test_a_rename_writes_no_report_anew(tmp_path):
    """The reports stay; what they quote is found in the document under its new name."""
    shutil.copytree(CORPUS, tmp_path / "docs")
    _, before = index(tmp_path)
    for file in sorted((tmp_path / "docs").rglob("*.*")):
        file.rename(file.with_name(f"{file.stem} 2{file.suffix}"))
    seen = []
    _, after = index(tmp_path, seen)
    with open_for_writing(tmp_path / ".localrag", engine=EngineOptions()) as project:
        chunks = {c.id: c for c in chunks_store.all_chunks(project.db)}
    said = {f.explanation for r in before.values() for f in r.findings if f.explanation.endswith(".")}  # headings are names as well

    for quote in (q for r in after.values() for f in r.findings for q in f.quotes):
        chunk = chunks[quote.chunk_id]
        assert chunk.text[quote.start - chunk.start : quote.end - chunk.start] == quote.text
    assert not said & set(seen)
    assert {i: (r.summary, r.input_hash) for i, r in after.items()} == {i: (r.summary, r.input_hash) for i, r in before.items()}


@pytest.mark.ci
def test_an_edit_looks_only_at_reports_that_something_new_bears_on(tmp_path, monkeypatch):
    """A first paragraph moves every sentence of its document: few reports are looked at; where all are, none says anything else."""
    shutil.copytree(CORPUS, tmp_path / "docs")
    short = {"chunk_tokens": 100, "chunk_overlap": 0}
    _, before = index(tmp_path, **short)
    looked = []
    sources = ReportSourceReader.sources
    monkeypatch.setattr(ReportSourceReader, "sources", lambda self, community: (looked.append(community.id), sources(self, community))[1])
    file = max((f for f in (tmp_path / "docs").rglob("*.*") if f.suffix in (".md", ".txt")), key=lambda f: f.stat().st_size)
    file.write_text("Zebulon Quarrington greeted Hildegund Perrywinkle.\n\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    _, after = index(tmp_path, **short)
    few = len(looked)
    with open_for_writing(tmp_path / ".localrag", engine=EngineOptions()) as project:
        runs.save_settings(project.db, reports_state=None, reports_hash=None)
    _, again = index(tmp_path, **short)

    assert 0 < few < 0.2 * len(after)
    assert sum(i in after and after[i].summary == r.summary for i, r in before.items()) > 0.9 * len(before)
    assert len(looked) - few > 0.5 * len(again)  # of a community carried down the report is taken over
    assert again == after
