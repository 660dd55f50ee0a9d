"""Passages: how-tos with their code, lists with their items, rows of a table; verbatim, under file and headings."""

import asyncio

import pytest

from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.query.answer import answer_question
from localrag.query.question import QueryOptions

PAGES = {
    "deploy.md": "# Deploying\n\nThere are several ways.\n\n## Running with systemd\n\nCreate a unit file in `/etc/systemd/system`:\n\n"
    "```ini\n[Service]\nExecStart=/usr/bin/tidewatch serve\nRestart=always\n```\n\n"
    "Then enable it:\n\n```\nsystemctl enable tidewatch\n```\n\n"
    "## Running with Docker\n\nUse the image:\n\n```\ndocker run tidewatch\n```\n",
    "limits.md": "# Limits\n\n## Query time\n\nA query may take 1000 ms by default. Change it with `--query-limit`.\n\n## Facets\n\n"
    "Facets are computed within 200 ms.\n",
    "team.md": "# Team\n\n## Benefits\n\nEveryone gets:\n\n- 20 days of vacation\n- a sabbatical of six weeks every three years\n"
    "- parental leave of 16 weeks\n\n## Office\n\nThe office is in Bergen.\n",
    "prices.csv": "item,price,stock\n" + "".join(f"lamp {n},{n * 3 + 7}.50,{n}\n" for n in range(200)),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, text in PAGES.items():
        (folder / name).write_text(text, encoding="utf-8")
    with open_for_writing(folder / ".localrag", extractor="phrases") as opened:
        asyncio.run(build_index([folder], opened, lambda _: None))
    with open_for_query(folder / ".localrag") as opened:
        yield opened


def asked(project, text, **options):
    return asyncio.run(answer_question(text, project, QueryOptions(**options)))


WEAK = pytest.mark.xfail(strict=True, reason="the reader prefers the introduction above the section")


@pytest.mark.parametrize("verb", ["run", pytest.param("deploy", marks=WEAK)])
def test_a_how_to_shows_its_code_and_its_steps(project, verb):
    """The section with the unit file, with its lines as they stand, and not the one after it."""
    first = asked(project, f"How do I {verb} tidewatch with systemd?").passages[0]

    assert first.path == "deploy.md"
    assert first.headings == ("Deploying", "Running with systemd")
    assert "[Service]\nExecStart=/usr/bin/tidewatch serve\nRestart=always" in first.text
    assert "systemctl enable tidewatch" in first.text
    assert "docker run" not in first.text


def test_a_list_comes_whole(project):
    """All items below the line that ends in a colon."""
    first = asked(project, "What benefits does everyone get?").passages[0]

    assert first.text.startswith("Everyone gets:")
    assert all(item in first.text for item in ("vacation", "sabbatical", "parental leave"))
    assert "Bergen" not in first.text


def test_a_list_that_is_asked_for_has_no_short_answer(project):
    """Nor have steps: a few words stand above the passages of facts only."""
    assert asked(project, "How long may a query take by default?").short_answer == "1000 ms"
    for question in ("List all benefits of the team.", "How do I run tidewatch with Docker?"):
        assert asked(project, question).short_answer is None


def test_a_comparison_shows_both_sides(project):
    """The first two passages are the two sections, each with its code."""
    found = asked(project, "What is the difference between running with systemd and running with Docker?").passages[:2]

    assert {p.headings[-1] for p in found} == {"Running with systemd", "Running with Docker"}
    assert any("systemctl enable tidewatch" in p.text for p in found)
    assert any("docker run tidewatch" in p.text for p in found)


def test_a_row_of_a_table_is_found(project):
    """The row that is asked for is in the first passage."""
    assert "lamp 42" in asked(project, "What is the price of lamp 42?").passages[0].text


def test_every_passage_is_verbatim_and_cited(project):
    """Each passage is the document's text at its place, has a citation with the same words, and stands in the answer below its headings."""
    for question in ("How long may a query take?", "Where is the office?", "How do I run it with Docker?"):
        found = asked(project, question)

        assert found.passages
        for passage in found.passages:
            text = (project.root / passage.path).read_text(encoding="utf-8") if passage.path.endswith(".md") else passage.text
            assert passage.text in text
            citation = next(c for c in found.citations if c.n == passage.n)
            assert (citation.quote, citation.start, citation.end) == (passage.text, passage.start, passage.end)
            assert passage.text.replace("[", "").splitlines()[0] in found.answer.replace("\\", "").replace("[", "")


def test_a_kept_answer_has_its_passages(project):
    """What is stored comes back with the same passages."""
    from localrag.store import answers

    found = asked(project, "Where is the office?")

    assert answers.answer_by_id(project.db, found.id)[1].passages == found.passages
    assert found.passages[0].text == "The office is in Bergen."


@pytest.mark.parametrize("question", ["x" * 2000, "limit", "the of and", "wo iz teh ofice"])
def test_odd_questions_are_answered(project, question):
    """A question of 2,000 characters, of one word, of stop words, misspelt: passages or a refusal with the closest, no error."""
    found = asked(project, question)

    assert found.answer
    assert found.passages or not found.is_answerable or found.mode == "global"
