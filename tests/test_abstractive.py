"""The abstractive style, for models that write reliable prose: its mechanics hold with any model, also with the bundled one."""

import asyncio
import re
from dataclasses import replace

import pytest

from localrag.asking import answer_question
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.query.question import QueryOptions
from localrag.store import chunks, documents, graph, runs
from tests.conftest import TOWN

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Two short documents indexed in the abstractive style."""
    folder = tmp_path_factory.mktemp("abstractive")
    for name in ("a.md", "b.txt"):
        (folder / name).write_text(TOWN[name], encoding="utf-8")
    with open_for_writing(folder / ".localrag") as opened:
        project = replace(opened, settings=replace(opened.settings, style="abstractive", claims=True, max_gleanings=1))
        runs.save_settings(project.db, settings=project.settings.to_json())
        outcome = asyncio.run(build_index([folder], project, lambda _: None))
        assert not outcome.failures
    return folder / ".localrag"


def test_descriptions_and_reports_are_written(index):
    """Every entity and relationship is described; reports have a rating and findings that rest on passages."""
    with open_for_query(index) as project:
        entities, relationships, reports = (
            graph.entities(project.db),
            graph.relationships(project.db),
            graph.reports(project.db),
        )

    assert entities
    assert all(e.description for e in entities)
    assert all(r.description for r in relationships)
    for r in reports:
        assert 0 <= r.rating <= 10
        assert r.findings
        assert all(f.quotes for f in r.findings)


def test_claims_are_complete_and_quote_their_source(index):
    """Every chunk is asked for claims; each has a subject that is an entity, a status, ISO dates or none, and its place in the file."""
    with open_for_query(index) as project:
        (asked,) = project.db.execute("SELECT count(*) FROM llm_calls WHERE task = 'claims'").fetchone()
        claims, known = graph.claims(project.db), {e.id for e in graph.entities(project.db)}
        path = {c.id: documents.document_path(project.db, c.id) for c in chunks.all_chunks(project.db)}

    assert asked >= len(path)
    for c in claims:
        assert c.subject_id in known
        assert c.object_id is None or c.object_id in known
        assert c.status in ("TRUE", "FALSE", "SUSPECTED")
        assert all(re.fullmatch(r"(\d{4}(-\d{2}(-\d{2})?)?)?", date) for date in (c.start_date, c.end_date))
        assert TOWN[path[c.chunk_id]][c.start : c.end].strip()


@pytest.mark.parametrize("mode", ["basic", "mix", "local", "global", "drift", "ts"])
def test_prose_is_cited_sentence_by_sentence(index, mode):
    """Each line of the answer ends in its citations or a mark that it has none; the citations are verbatim, and each is used."""
    with open_for_query(index) as project:
        question = f"What is wrong with the {'ferry ' * (mode == 'mix')}Skua?"  # of equal passages the ledger has the answer
        found = asyncio.run(answer_question(question, project, QueryOptions(mode)))

    assert found.style == "abstractive"
    assert found.llm_calls > 0
    assert found.output_tokens > 0
    paragraphs = found.answer.split("\n\n")[0 if found.is_answerable else 2 :]  # that it declines, and "Closest:", are no claims
    assert all(re.search(r"(\[\d+\]|\[unsupported\])$", p.rstrip()) for p in paragraphs)
    assert {int(n) for n in re.findall(r"\[(\d+)\]", found.answer)} == {c.n for c in found.citations}
    for state in ("unsupported", "related", "contradicted"):
        assert found.answer.count(f"[{state}]") == getattr(found, state)
    for c in found.citations:
        text = TOWN[c.path]
        assert text[c.start : c.end] == c.quote
