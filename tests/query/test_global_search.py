"""The extractive answer to a question about everything, against the themes a reader names."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from localrag.asking import answer_question
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.query.question import QueryOptions
from localrag.text.sentences import collapse_whitespace
from tests.conftest import DATA

# Written down before any answer was looked at: a theme, and words that stand in a sentence about it.
LISTS = json.loads((Path(__file__).parents[0] / "data" / "themes.json").read_text(encoding="utf-8"))
TITLE = re.compile(r"^\*\*(.+) \(in (\d+) of (\d+) documents\)\*\*$", re.MULTILINE)


def themes_in(given, book):
    said = " ".join(c.quote for c in given.citations)
    return {name for name, cue in LISTS[book]["themes"].items() if re.search(cue, said)}


def ask_for_themes(folder):
    with open_for_query(folder / ".localrag") as project:
        return asyncio.run(answer_question("What are the main themes?", project, QueryOptions("global")))


@pytest.fixture(scope="module")
def harbour(demo_town, tmp_path_factory):
    return ask_for_themes(shutil.copytree(demo_town, tmp_path_factory.mktemp("harbour") / "town"))


@pytest.mark.ci
def test_the_themes_of_the_demo_are_covered(harbour):
    """Eight of the nine story lines of the harbour town come up."""
    assert len(themes_in(harbour, "demo")) >= 8, themes_in(harbour, "demo")
    assert harbour.mode == "global"


@pytest.mark.ci
def test_no_theme_is_said_twice(harbour):
    """Twelve themes at most, of one to three sentences each; no sentence comes twice, and no two titles are the same."""
    quotes = [collapse_whitespace(c.quote) for c in harbour.citations]
    titles = [t for t, *_ in TITLE.findall(harbour.answer)]

    assert len(set(quotes)) == len(quotes)
    assert 3 <= len(titles) <= 12
    assert len(titles) <= len(quotes) <= 3 * len(titles)
    assert len(set(titles)) == len(titles)


@pytest.mark.ci
def test_each_sentence_below_a_theme_is_an_item_with_its_own_source(harbour):
    """Below the number of documents the sentences of a theme are a list, each with the number of its source."""
    summary, *lines = harbour.answer.splitlines()
    items = [line for line in lines if line and not line.startswith("**")]

    assert summary.startswith("Documents: 17 (19")
    assert len(items) > 10
    assert all(re.fullmatch(r"- .*\S \[\d+\]", line) for line in items)


def test_each_theme_says_how_far_it_runs_and_the_broadest_comes_first(harbour):
    """Behind each title stands in how many of the documents it occurs."""
    found = TITLE.findall(harbour.answer)
    counts = [int(n) for _, n, _ in found]

    assert len(found) == harbour.answer.count("**") // 2 > 0
    assert all(0 < n <= int(total) == 17 for n, (*_, total) in zip(counts, found, strict=True))
    assert counts == sorted(counts, reverse=True)


PERSONS = ["Chen Guoliang", "Edwin Rourke", "Hannah Quill", "Marian Dace", "Philip Rowe", "Tobias Lisle", "Walter Muir"]


@pytest.mark.ci
def test_a_question_for_the_people_names_those_of_most_documents(demo_town, tmp_path):
    """The persons of the graph, those of most documents first, each with sentences that name them."""
    folder = shutil.copytree(demo_town, tmp_path / "town")
    with open_for_writing(folder / ".localrag", extractor="phrases") as project, project.db.conn:
        project.db.execute(f"UPDATE entities SET type = 'person' WHERE name IN ({', '.join('?' * len(PERSONS))})", PERSONS)
    with open_for_query(folder / ".localrag") as project:
        answer = asyncio.run(answer_question("Who are the most important people?", project, QueryOptions("global")))
    sections = re.split(r"^(?=\*\*)", answer.answer, flags=re.MULTILINE)[1:]
    found = [TITLE.match(section).groups() for section in sections]

    assert {name.removeprefix("Captain ") for name, *_ in found} == set(PERSONS)
    assert [int(n) for _, n, _ in found] == sorted((int(n) for _, n, _ in found), reverse=True)
    assert all(
        set(name.split()) & set(re.findall(r"\w+", section.partition("\n")[2])) for section, (name, *_) in zip(sections, found, strict=True)
    )


def of_book(book, tmp_path_factory):
    if not DATA.exists():
        pytest.skip("the real texts are not beside this checkout")
    folder = tmp_path_factory.mktemp(book)
    with open_for_writing(folder / ".localrag", extractor="phrases") as project:
        asyncio.run(build_index([DATA / LISTS[book]["source"]], project, lambda _: None))
    return ask_for_themes(folder)


@pytest.fixture(scope="module")
def carol(tmp_path_factory):
    return of_book("christmas_carol", tmp_path_factory)


@pytest.mark.slow
def test_nothing_of_the_publisher_is_a_theme(carol):
    """Nothing of the licence or the list of illustrations is quoted, and nothing twice."""
    quotes = [c.quote for c in carol.citations]

    assert not re.search(r"Gutenberg|Illustration|Tailpiece|LIPPINCOTT", carol.answer)
    assert len(set(quotes)) == len(quotes)


@pytest.mark.slow
def test_the_themes_of_a_christmas_carol_are_covered_beyond_chance(carol):
    """Five of eight themes come up; as many sentences drawn at random from the same reports hold 4.0 on average."""
    assert len(themes_in(carol, "christmas_carol")) >= 5, themes_in(carol, "christmas_carol")


@pytest.mark.slow
def test_the_themes_of_operation_dulce_are_covered_beyond_chance(tmp_path_factory):
    """Seven of eight themes come up; as many sentences drawn at random from the same reports hold 4.6 on average."""
    given = of_book("operation_dulce", tmp_path_factory)

    assert len(themes_in(given, "operation_dulce")) >= 7, themes_in(given, "operation_dulce")
