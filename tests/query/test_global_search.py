"""The extractive answer to a question about everything, against the themes a reader names."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from localrag.asking import answer_question
from localrag.demo import CORPUS
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_query, open_for_writing
from localrag.query.global_search import is_same_title
from localrag.query.question import QueryOptions
from localrag.store import graph
from localrag.text.sentences import collapse_whitespace
from tests.conftest import DATA

# Written down before any answer was looked at: a theme, and words that stand in a sentence about it.
LISTS = json.loads((Path(__file__).parents[0] / "data" / "themes.json").read_text(encoding="utf-8"))
TITLE = re.compile(r"^\*\*(.+) \(in (\d+) of (\d+) (documents|passages)\)\*\*$", re.MULTILINE)


def themes_in(given, book):
    said = " ".join(c.quote for c in given.citations)
    return {name for name, cue in LISTS[book]["themes"].items() if re.search(cue, said)}


def ask_for_themes(folder):
    with open_for_query(folder / ".localrag") as project:
        given = asyncio.run(answer_question("What are the main themes?", project, QueryOptions("global")))
        reports = graph.reports_at(project.db, given.level)
        return given, reports, graph.coverage_of(project.db, [r.community_id for r in reports])


@pytest.fixture(scope="module")
def harbour(demo_town, tmp_path_factory):
    return ask_for_themes(shutil.copytree(demo_town, tmp_path_factory.mktemp("harbour") / "town"))


@pytest.mark.ci
def test_the_themes_of_the_demo_are_covered_beyond_chance(harbour):
    """Eight of the nine story lines of the harbour town come up; as many sentences drawn at random from the reports hold 5.2."""
    given, *_ = harbour

    assert len(themes_in(given, "demo")) >= 8, themes_in(given, "demo")
    assert given.mode == "global"


def test_no_theme_is_said_twice(harbour):
    """Six themes at most, of one or two sentences each; no sentence comes twice, and no two titles say the same."""
    given, *_ = harbour
    quotes = [collapse_whitespace(c.quote) for c in given.citations]
    titles = [t for t, *_ in TITLE.findall(given.answer)]

    assert len(set(quotes)) == len(quotes)
    assert 3 <= len(titles) <= 6
    assert len(titles) <= len(quotes) <= 2 * len(titles)
    assert not any(is_same_title(a, b) for n, a in enumerate(titles) for b in titles[:n])


def test_each_theme_says_how_far_it_runs_and_the_broadest_comes_first(harbour):
    """Behind each title stands in how many of the documents it occurs; none is ten times narrower than another."""
    given, reports, covered = harbour
    found = TITLE.findall(given.answer)
    shares = [max(covered[r.community_id] for r in reports if r.title == title) for title, *_ in found]

    assert found
    assert len(found) == given.answer.count("**") // 2
    assert all(0 < int(n) <= int(total) == 17 and unit == "documents" for _, n, total, unit in found)
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] * 10 >= shares[0]


def test_titles_of_reports_are_words_of_the_text(harbour):
    """Every title is one or two stretches of at most eight words of a document."""
    _, reports, _ = harbour
    texts = [collapse_whitespace(p.read_text(encoding="utf-8")).lower() for p in CORPUS.rglob("*") if p.is_file()]
    titles = [r.title.lower() for r in reports]
    stretches = {part for t in titles if not any(t in text for text in texts) for part in re.split(r" and |, |和|、", t)}

    assert all(any(part in text for text in texts) for part in stretches), stretches
    assert all(len(t.split()) <= 9 for t in titles)


def of_book(book, tmp_path_factory):
    if not DATA.exists():
        pytest.skip("the real texts are not beside this checkout")
    folder = tmp_path_factory.mktemp(book)
    with open_for_writing(folder / ".localrag", extractor="phrases") as project:
        asyncio.run(build_index([DATA / LISTS[book]["source"]], project, lambda _: None))
    return ask_for_themes(folder)[0]


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
