"""The pages of a vault: links that lead somewhere, and names that every file system takes."""

import re
import unicodedata
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localrag.exchange.obsidian import PageNames, safe_file_name
from localrag.exchange.wiki import update_wiki
from localrag.store import graph
from tests.exchange.test_wiki import note_of, notes

LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")


@pytest.fixture(scope="module")
def vault(opened, tmp_path_factory):
    path = tmp_path_factory.mktemp("vault") / "vault"
    update_wiki(opened, path)
    return path


def properties(text):
    return yaml.safe_load(text.split("\n---", 1)[0].removeprefix("---\n"))


def test_everything_has_a_note(opened, vault):
    """Every entity in the folder of its type, every document, every community that differs from its parent; each says what it is of."""
    counts, kinds = graph.counts(opened.db), [properties(text).get("kind") for text in notes(vault).values()]
    for kind, table in (("entity", "entities"), ("document", "documents")):
        assert kinds.count(kind) == counts[table]
    assert kinds.count("community") == len({c.entity_ids for c in graph.communities(opened.db)})
    found = {properties(text)["localrag"]: properties(text) for text in notes(vault).values()}
    assert len(found) == len(notes(vault))
    for e in graph.entities(opened.db):
        assert found[f"entity:{e.id}"]["type"] == e.type
    assert {p.partition("/")[0] for p in notes(vault)} == {"Entities", "Communities", "Documents", "Start here.md"}


def test_every_link_leads_to_a_note(vault):
    """To just one, in whatever case; and texts of documents make no link, tag or comment."""
    stems = [Path(p).stem for p in notes(vault)]
    folded = [unicodedata.normalize("NFKD", s).casefold() for s in stems]
    assert len(folded) == len(set(folded))
    for text in notes(vault).values():
        body = text.split("\n---\n", 1)[1]
        plain = re.sub(r"\\.", "", body)
        assert {target for target, _ in LINK.findall(plain)} <= set(stems)
        rest = LINK.sub("", plain)
        assert "[[" not in rest
        assert "<" not in rest
        assert rest.count("%%") == 4  # the two lines
        assert not re.search(r"(^|\s)#\w", rest)


def test_every_relationship_is_a_link_on_both_sides(opened, vault):
    """With its weight and what it is; quotes are words of the document, with the link to it."""
    stem = {properties(text)["localrag"]: (Path(p).stem, text) for p, text in notes(vault).items()}
    for r in graph.relationships(opened.db):
        for a, b in ((r.source_id, r.target_id), (r.target_id, r.source_id)):
            text, other = stem[f"entity:{a}"][1], stem[f"entity:{b}"][0]
            line = next(one for one in text.splitlines() if one.startswith((f"- [[{other}]]", f"- [[{other}|")))
            assert f"({r.weight:g})" in line
    text = note_of(vault, "Ingrid Holm")[1]
    assert re.search(r"^> The Ingrid Holm was there\.\n> — \[\[a \(txt\)\|a\.txt\]\], page 1$", text, re.MULTILINE)


anything = st.one_of(
    st.text(), st.sampled_from(["..", ".", "CON", "con.txt", "nul", " ", "a" * 500, "字" * 300, "x.md", "a/../b", "LPT¹.x"])
)


@given(anything)
def test_any_title_makes_a_name_that_every_system_takes(title):
    """No forbidden sign, no device of Windows, no dot or space at an end, not too long, never empty; and the same each time."""
    name = safe_file_name(title)
    assert name
    assert name == name.strip(". ")
    assert not re.search(r'[\\/:*?"<>|#^\[\]\x00-\x1f]|%%', name)
    assert len(f"{name} (1000).md".encode()) <= 255
    assert not re.fullmatch(r"CON|PRN|AUX|NUL|(COM|LPT)[1-9]", name.partition(".")[0].strip(), re.IGNORECASE)
    assert not re.search(r"\.(md|pdf|png|txt)$", name, re.IGNORECASE)
    assert safe_file_name(title) == name


@given(st.lists(anything, max_size=8), st.lists(anything, max_size=3))
def test_no_two_names_are_one_file(titles, taken):
    """In whatever case or form of Unicode, nor one that is somebody else's."""
    names = PageNames(taken)
    given = [names.assign(str(n), title) for n, title in enumerate(titles)]
    forms = [unicodedata.normalize("NFKD", name).casefold() for name in [*given, *set(taken)]]
    assert len(set(forms[: len(given)])) == len(given)
    assert not set(forms[: len(given)]) & set(forms[len(given) :])
