"""Checks of a wiki: quotes that are dead, and what a person wrote that the documents do not say."""

import shutil
from pathlib import Path

import pytest

from localrag.errors import UsageError
from localrag.exchange import wiki_check
from localrag.exchange.wiki import update_wiki
from localrag.exchange.wiki_check import WikiProblem, check_wiki
from localrag.project import open_for_query, open_read_only
from tests.conftest import run_localrag


@pytest.fixture(scope="module")
def made(plain_town, tmp_path_factory):
    """The town with its wiki."""
    folder = tmp_path_factory.mktemp("checked")
    shutil.copytree(plain_town, folder, dirs_exist_ok=True)
    with open_read_only(folder / ".localrag") as index:
        update_wiki(index, folder / "wiki")
    return folder


@pytest.fixture
def town_wiki(made, tmp_path):
    """A copy of it, to be changed."""
    return shutil.copytree(made, tmp_path / "town")


def check(folder, **options):
    with open_for_query(folder / ".localrag", **options) as project:
        return check_wiki(project, folder / "wiki")


def write(folder, text, name="Ingrid Holm"):
    """Write below the block of an entity's page; the number of the first new line."""
    page = next((folder / "wiki").rglob(f"{name}.md"))
    old = page.read_text(encoding="utf-8")
    page.write_text(old + text, encoding="utf-8")
    return old.count("\n") + 1


def found(result):
    return [(f.problem, f.line, f.text) for f in result.findings]


def test_a_new_wiki_has_no_problem(town_wiki):
    """Each of its quotes stands in a document."""
    result = check(town_wiki)
    assert result.findings == ()
    assert result.counts["quotes"] > 10
    assert result.counts["statements"] == result.counts["unchecked_statements"] == 0


def test_a_quote_that_no_longer_stands_in_its_document_is_dead(town_wiki):
    """Those of the person, too; white space and escapes do not matter, nor where the document moved."""
    line = write(
        town_wiki,
        "> The town of Vardby had waited\n> two years for a ferry.\n> — [[a (md)]], my copy\n\n"
        "> Nobody wrote this.\n> — [[a (md)|a]]\n\n> Of no document.\n> — [[Lars Holm]]\n",
    )
    assert found(check(town_wiki)) == [(WikiProblem.DEAD_QUOTE, line + 4, "Nobody wrote this.")]
    document = town_wiki / "docs" / "a.md"
    document.write_text(document.read_text().replace("the mate of the Skua", "the cook of the Skua"))
    assert run_localrag("index", "docs", cwd=town_wiki).returncode == 0
    dead = {f.text for f in check(town_wiki).findings if f.problem is WikiProblem.DEAD_QUOTE}
    assert dead == {"Nobody wrote this.", "Her brother Lars Holm is the mate of the Skua."}
    with open_read_only(town_wiki / ".localrag") as index:
        update_wiki(index, town_wiki / "wiki")
    assert found(check(town_wiki)) == [(WikiProblem.DEAD_QUOTE, line + 4, "Nobody wrote this.")]


def test_pages_with_a_changed_block_are_told(town_wiki):
    """Those without their markers, too."""
    ingrid, lars = (next((town_wiki / "wiki").rglob(f"{name} Holm.md")) for name in ("Ingrid", "Lars"))
    ingrid.write_text(ingrid.read_text().replace("# Ingrid Holm", "# Ingrid"))
    lars.write_text(lars.read_text().replace("%%localrag:", "%%"))
    edited = [f for f in check(town_wiki).findings if f.problem is WikiProblem.EDITED]
    assert [Path(f.path).name for f in edited] == ["Ingrid Holm.md", "Lars Holm.md"]


def test_what_a_person_states_is_compared_with_the_documents(town_wiki):
    """What they prove is right; what they contradict or do not say is told, with the sentence that tells otherwise."""
    line = write(
        town_wiki,
        "## My notes\n\nIngrid Holm bought the ferry Skua. She has a [dog](x.md) that is called [[Skua|Rex]].\n\n"
        "The town of Vardby had waited nine years for a ferry.\n",
    )
    result = check(town_wiki)
    assert [(f.problem, f.line) for f in result.findings] == [(WikiProblem.UNSUPPORTED, line + 2), (WikiProblem.CONTRADICTED, line + 4)]
    assert result.findings[0].text == "She has a dog that is called Rex."
    source = result.findings[1].citation
    assert (source.path, source.quote) == ("docs/a.md", "The town of Vardby had waited two years for a ferry.")
    text = (town_wiki / "docs" / "a.md").read_text()
    assert text[source.start : source.end] == source.quote
    assert result.counts["statements"] == 3


def test_what_states_nothing_is_not_compared(town_wiki):
    """Headings, tasks, questions, code, comments, tags, embedded notes, and quotes with their source."""
    write(
        town_wiki,
        "# The dog of Ingrid Holm is old\n\n- [ ] ask whether the dog of Ingrid Holm is old\n\nIs the dog of Ingrid Holm very old?\n\n"
        "```\nThe dog of Ingrid Holm is old.\n```\n\n%% The dog of Ingrid\n\nHolm is old. %%\n\n#dog ![[dog.png]]\n\n"
        "> [!note] The dog is very old\n\n"
        "> Ingrid Holm bought the ferry Skua from the Northern Line in Vardby.\n> — [[a (md)]]\n\nOld dog.\n",
    )
    assert check(town_wiki).counts["statements"] == 0


def test_more_statements_than_can_be_checked_are_counted(town_wiki, monkeypatch):
    """Nothing is left out without a word."""
    monkeypatch.setattr(wiki_check, "MAX_STATEMENTS", 2)
    write(town_wiki, "".join(f"Dog number {n} belongs to the baker.\n\n" for n in range(5)))
    counts = check(town_wiki).counts
    assert (counts["statements"], counts["unchecked_statements"]) == (2, 3)


def test_a_folder_without_pages_is_no_wiki(town_wiki):
    """The hint says how to write one."""
    with open_for_query(town_wiki / ".localrag") as project:
        for folder in (town_wiki / "docs", town_wiki / "none"):
            with pytest.raises(UsageError, match="holds no wiki") as refused:
                check_wiki(project, folder)
            assert "localrag wiki" in refused.value.hint
