"""Passages: how-tos with their code, lists with their items, rows of a table; verbatim, under file and headings."""

from dataclasses import replace

import pytest

from localrag.index import Index
from localrag.llm.reader import PassageReading
from localrag.project import open_for_query
from localrag.query.passages import ReadWindow, chunk_windows, passages_of
from localrag.query.retriever import hybrid_search
from tests.conftest import mostly_ci
from tests.query.made import ask, index_of

PAGES = {
    "deploy.md": "# Deploying\n\nThere are several ways.\n\n## Running with systemd\n\nCreate a unit file in `/etc/systemd/system`:\n\n"
    "```ini\n[Service]\nExecStart=/usr/bin/tidewatch serve\nRestart=always\n```\n\n"
    "Then enable it:\n\n```\nsystemctl enable tidewatch\n```\n\n"
    "## Running with Docker\n\nUse the image:\n\n```\ndocker run tidewatch\n```\n",
    "limits.md": "# Limits\n\n## Query time\n\nA query may take 1000 ms by default. Change it with `--query-limit`.\n\n## Facets\n\n"
    "Facets are computed within 200 ms.\n",
    "team.md": "# Team\n\n## Benefits\n\nEveryone gets:\n\n- 20 days of vacation\n- a sabbatical of six weeks every three years\n"
    "- parental leave of 16 weeks\n\n## Office\n\nThe office is in Bergen.\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with index_of(tmp_path_factory.mktemp("pages"), PAGES) as made, open_for_query(made.folder) as opened:
        yield opened


WEAK = pytest.mark.xfail(strict=True, reason="the reader prefers the introduction above the section")


@pytest.mark.parametrize("verb", ["run", pytest.param("deploy", marks=WEAK)])
def test_a_how_to_shows_its_code_and_its_steps(project, verb):
    """The section with the unit file, with its lines as they stand, and not the one after it."""
    first = ask(project, f"How do I {verb} tidewatch with systemd?").passages[0]

    assert first.path == "deploy.md"
    assert first.headings == ("Deploying", "Running with systemd")
    assert "[Service]\nExecStart=/usr/bin/tidewatch serve\nRestart=always" in first.text
    assert "systemctl enable tidewatch" in first.text
    assert "docker run" not in first.text


def test_unmarked_headings_are_read_and_shown_with_what_follows(tmp_path):
    """No window is a heading alone, and no passage ends with the heading of what does not fit; a name below a letter stays."""
    bodies = [" ".join([f"{boat} was painted in May and sailed again."] * 17) for boat in ("Skua", "Petrel")]
    text = "\n\n".join(["Table of Contents", "Our Boats", bodies[0], "Market Overview", bodies[1], "Yours sincerely,", "Ruth Sand"])
    with index_of(tmp_path, {"report.txt": text}, reports=False) as small:
        windows = list(chunk_windows(hybrid_search("boats", small.embedder.embed(["boats"])[0], small, 9), small))
        shown = {w.text: passages_of([ReadWindow(w, PassageReading(0, 0, -9.0, 1.0))], None)[0].text for w in windows}

    first = next(text for text in shown if text.startswith("Table of Contents"))
    assert first == f"Table of Contents\n\nOur Boats\n\n{bodies[0]}"
    assert shown[first] == first
    assert any(text.startswith("Market Overview\n\nPetrel") and text.endswith("Ruth Sand") for text in shown)


@pytest.mark.parametrize(("words", "whole"), [(60, True), (100, False)])
def test_a_section_is_shown_from_its_beginning(tmp_path, words, whole):
    """Where it fits, also if its end answers best; else as much as fits before that, and nothing of another section."""
    steps = [f"{verb} the server of the harbour office {'and wait ' * words}." for verb in ("Stop", "Empty")]
    text = "\n\n".join(["# Backing up", "Copy.", "# Restoring", *steps, "Start it."])
    with index_of(tmp_path, {"restore.md": text}, reports=False) as small:
        found = hybrid_search("start", small.embedder.embed(["start"])[0], small, 9)
        windows = [w for w in chunk_windows(found, small) if "Start" in w.text]
        (shown,) = passages_of([ReadWindow(windows[0], PassageReading(0, 0, -9.0, 1.0))], None)

    assert shown.headings[-1] == "Restoring"
    assert shown.text.endswith("Start it.")
    assert shown.text.startswith("Stop" if whole else "Empty")
    assert len(shown.text) <= 1200


def test_a_list_comes_whole(project):
    """All items below the line that ends in a colon."""
    first = ask(project, "What benefits does everyone get?").passages[0]

    assert first.text.startswith("Everyone gets:")
    assert all(item in first.text for item in ("vacation", "sabbatical", "parental leave"))
    assert "Bergen" not in first.text


@pytest.mark.ci
def test_a_list_that_is_asked_for_has_no_short_answer(project):
    """Nor have steps: a few words stand above the passages of facts only."""
    assert ask(project, "How long may a query take by default?").short_answer == "1000 ms"
    for question in ("List all benefits of the team.", "How do I run tidewatch with Docker?"):
        assert ask(project, question).short_answer is None


def test_a_comparison_shows_both_sides(project):
    """The first two passages are the two sections, each with its code."""
    found = ask(project, "What is the difference between running with systemd and running with Docker?").passages[:2]

    assert {p.headings[-1] for p in found} == {"Running with systemd", "Running with Docker"}
    assert any("systemctl enable tidewatch" in p.text for p in found)
    assert any("docker run tidewatch" in p.text for p in found)


@pytest.mark.ci
def test_every_passage_is_verbatim_and_cited(project):
    """Each passage is the document's text at its place, has a citation with the same words, and stands in the answer below its headings."""
    for question in ("How long may a query take?", "Where is the office?", "How do I run it with Docker?"):
        found = ask(project, question)

        assert found.passages
        for passage in found.passages:
            assert passage.text in (project.root / passage.path).read_text(encoding="utf-8")
            citation = next(c for c in found.citations if c.n == passage.n)
            assert (citation.quote, citation.start, citation.end) == (passage.text, passage.start, passage.end)
            assert passage.text.replace("[", "").splitlines()[0] in found.answer.replace("\\", "").replace("[", "")


def test_a_kept_answer_has_its_passages(project):
    """What is stored comes back with the same passages."""
    from localrag.store import answers

    found = ask(project, "Where is the office?")

    assert answers.answer_by_id(project.db, found.id)[1].passages == found.passages
    assert found.passages[0].text == "The office is in Bergen."


@pytest.mark.parametrize("question", mostly_ci(["x" * 2000, "limit", "the of and", "wo iz teh ofice", "ཡིག་ཚང་ག་པར་ཡོད།"], "limit"))
def test_odd_questions_are_answered(project, question):
    """A question of 2,000 characters, of one word, of stop words, misspelt, in an unknown language: passages or a refusal, no error."""
    found = ask(project, question)

    assert found.answer
    assert found.passages or not found.is_answerable or found.mode == "global"


def test_a_found_chunk_has_the_headings_above_it(project):
    """In the library's hit, and in the chunk of a citation."""
    index = Index.open(project.folder)
    hit = index.search("unit file of systemd", k=1)[0]
    cited = ask(project, "Where is the office?").citations[0]

    assert (hit.path, hit.headings) == ("deploy.md", ("Deploying",))
    assert index.passage(cited).headings == ("Team",)


@pytest.fixture(scope="module")
def odd_project(tmp_path_factory):
    """A file of code, one of one letter, and a table of 500 rows."""
    code = "def tide_height(hours):\n    return 2.4 * math.sin(hours / 1.97)\n" * 20
    rows = "".join(f"| berth {n} | {n * 3 + 7} m |\n" for n in range(500))
    table = f"# Berths\n\n| name | length |\n|---|---|\n{rows}"
    documents = {"tides.py": code, "letter.txt": "q", "berths.md": table}
    with index_of(tmp_path_factory.mktemp("odd"), documents) as made, open_for_query(made.folder) as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "path", "words"),
    [
        ("How is tide_height computed?", "tides.py", "math.sin(hours / 1.97)"),
        ("What is the length of berth 321?", "berths.md", "berth 321"),
        ("q", "letter.txt", "q"),
    ],
)
@pytest.mark.ci
def test_odd_documents_are_shown(odd_project, question, path, words):
    """Code as it stands, the row of a long table, and a text of one letter."""
    shown = [p for p in ask(odd_project, question).passages if p.path == path]

    assert any(words in passage.text for passage in shown)
    assert all(len(passage.text) <= 2000 for passage in shown)


def test_without_a_reader_the_sentence_with_most_words_of_the_question_is_quoted(project):
    """Where one sentence is asked for and nothing reads, neither a heading nor the first sentence stands for the passage."""
    found = ask(replace(project, reader=None), "How do I change the time of a query?", response_type="single sentence")

    assert [c.quote for c in found.citations] == ["Change it with `--query-limit`."]
