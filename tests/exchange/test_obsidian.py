"""The vault: links that lead somewhere, names that every file system takes, and whatever a person wrote."""

import re
import unicodedata
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from localrag.exchange.export import export_index
from localrag.exchange.obsidian import NoteNames, escape_markdown, front_matter, join_note, read_note, safe_file_name, wiki_link
from localrag.store import graph
from tests.exchange.made import make_index

LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")
SOME = ("Ada", "Bob", "Cid", "Dan", "Eve", "Fay")


@pytest.fixture(scope="module")
def vault(opened, tmp_path_factory):
    path = tmp_path_factory.mktemp("vault") / "vault"
    export_index(opened, "obsidian", path)
    return path


def notes(folder):
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in folder.rglob("*.md")}


def properties(text):
    return yaml.safe_load(text.split("\n---", 1)[0].removeprefix("---\n"))


def note_of(folder, name):
    """The path and text of the note of the entity of that name."""
    return next((p, text) for p, text in notes(folder).items() if f"\n# {name}\n" in text and "kind: entity" in text)


def test_everything_has_a_note(opened, vault):
    """Every entity in the folder of its type, every community, every document; each says what it is of."""
    counts, kinds = graph.counts(opened.db), [properties(text).get("kind") for text in notes(vault).values()]
    for kind, table in (("entity", "entities"), ("community", "communities"), ("document", "documents")):
        assert kinds.count(kind) == counts[table]
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
        assert rest.count("%%") == 2  # the line
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


def test_a_second_export_of_the_same_index_changes_nothing(opened, vault):
    """Not one note is written, so that no sync has anything to do."""
    before = {p: p.stat().st_mtime_ns for p in vault.rglob("*.md")}
    made = export_index(opened, "obsidian", vault)
    assert made.files == made.kept == made.removed == ()
    assert {p: p.stat().st_mtime_ns for p in vault.rglob("*.md")} == before


@pytest.fixture
def changed(tmp_path):
    """A vault, and the same index with one entity gone, one new and the others related otherwise."""
    export_index(make_index(tmp_path / "a", SOME), "obsidian", tmp_path / "vault")
    return tmp_path / "vault", make_index(tmp_path / "b", (*SOME[:5], "Gil"))


def test_what_is_below_the_line_stays(changed):
    """Letter by letter, while the part above is made anew, also where the note was moved and renamed."""
    vault, index = changed
    path, text = note_of(vault, "Eve")
    (vault / path).write_text(text + "My own words.\n\n%% localrag 123: no line of ours %%\nLast", encoding="utf-8")
    (vault / "Suspects").mkdir()
    (vault / path).rename(vault / "Suspects" / "The widow.md")
    made = export_index(index, "obsidian", vault)
    now = (vault / "Suspects" / "The widow.md").read_text(encoding="utf-8")
    assert now.endswith("%%\nMy own words.\n\n%% localrag 123: no line of ours %%\nLast")
    assert "Gil" in now  # Eve is related to Gil now, and was to Fay
    assert "Fay" not in now
    assert "[[The widow|Eve]]" in note_of(vault, "Dan")[1]
    assert not (vault / path).exists()
    assert made.kept == ()


def test_what_is_gone_goes_unless_somebody_wrote_there(changed):
    """Its note is removed where nobody wrote in it, and kept where somebody did, wherever in the note."""
    vault, index = changed
    path, text = note_of(vault, "Fay")
    made = export_index(index, "obsidian", vault)
    assert path in made.removed
    assert not (vault / path).exists()
    for mine in (text + "Mine.", text.replace("# Fay", "# Fay, who left")):
        (vault / path).write_text(mine, encoding="utf-8")
        made = export_index(index, "obsidian", vault)
        assert path in made.kept
        assert (vault / path).read_text(encoding="utf-8") == mine


def test_a_note_that_was_changed_above_the_line_stays_as_it_is(changed):
    """Also one whose line was taken out, and one of which only the properties were changed."""
    vault, index = changed
    mine = {}
    for name, change in (
        ("Ada", lambda t: t.replace("# Ada", "# Ada the first")),
        ("Bob", lambda t: re.sub(r"^%% .*%%$", "", t, flags=re.MULTILINE)),
        ("Cid", lambda t: t.replace("kind: entity", "kind: entity\ntags: [mine]")),
    ):
        path, text = note_of(vault, name)
        mine[path] = change(text)
        assert mine[path] != text
        (vault / path).write_text(mine[path], encoding="utf-8")
    made = export_index(index, "obsidian", vault)
    assert set(made.kept) == set(mine)
    assert {p: text for p, text in notes(vault).items() if p in mine} == mine


def test_files_of_the_person_are_never_touched(changed):
    """Notes of their own keep their names, also where an entity has the same one; a copy of a note is theirs, too."""
    vault, index = changed
    _, text = note_of(vault, "Ada")
    own = {"Gil.md": "mine", "Inbox/idea.md": "x", ".obsidian/app.json": "{}", "Copy of Ada.md": text, "zz.md": "\ufeff---\nlocalrag: no\n"}
    for name, content in own.items():
        (vault / name).parent.mkdir(exist_ok=True)
        (vault / name).write_text(content, encoding="utf-8")
    (vault / "bytes.md").write_bytes(b"\xff\xfe")
    export_index(index, "obsidian", vault)
    assert (vault / "bytes.md").read_bytes() == b"\xff\xfe"
    (vault / "bytes.md").unlink()
    assert {name: (vault / name).read_text(encoding="utf-8") for name in own} == own
    assert Path(note_of(vault, "Gil")[0]).name == "Gil (2).md"
    assert "[[Gil (2)|Gil]]" in note_of(vault, "Eve")[1]


def test_a_vault_saved_with_other_line_ends_is_still_known(changed):
    """An editor on Windows may write them; the notes are not taken for changed."""
    vault, index = changed
    for path in vault.rglob("*.md"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert export_index(index, "obsidian", vault).kept == ()


def test_the_level_is_the_deepest_of_the_vault(opened, tmp_path):
    """No note and no link of a community below it."""
    export_index(opened, "obsidian", tmp_path / "vault", level=0)
    numbers = [properties(text)["level"] for text in notes(tmp_path / "vault").values() if properties(text).get("kind") == "community"]
    assert set(numbers) == {0}
    stems = {Path(p).stem for p in notes(tmp_path / "vault")}
    for text in notes(tmp_path / "vault").values():
        assert {target for target, _ in LINK.findall(re.sub(r"\\.", "", text))} <= stems


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
    assert name.partition(".")[0].strip().upper() not in {
        "CON",
        "PRN",
        "AUX",
        "NUL",
        *(f"{d}{n}" for d in ("COM", "LPT") for n in "123456789"),
    }
    assert not re.search(r"\.(md|pdf|png|txt)$", name, re.IGNORECASE)
    assert safe_file_name(title) == name


@given(st.lists(anything, max_size=8), st.lists(anything, max_size=3))
def test_no_two_names_are_one_file(titles, taken):
    """In whatever case or form of Unicode, nor one that is somebody else's."""
    names = NoteNames(taken)
    given = [names.assign(str(n), title) for n, title in enumerate(titles)]
    forms = [unicodedata.normalize("NFKD", name).casefold() for name in [*given, *set(taken)]]
    assert len(set(forms[: len(given)])) == len(given)
    assert not set(forms[: len(given)]) & set(forms[len(given) :])


@given(st.text(), st.text())
def test_any_note_is_read_as_it_was_divided(text, below):
    """Whatever the texts are: what is below the line is found again, and the part above is known to be untouched."""
    above = f"{front_matter({'localrag': 'entity:x', 'aliases': [text]})}\n\n# {escape_markdown(text)}\n\n{wiki_link('n', text)}"
    below = below.replace("\r\n", "\n")
    note = read_note("a.md", join_note(above, below))
    assert note is not None
    assert (note.key, note.user_text, note.is_unedited) == ("entity:x", below, True)
    assert yaml.safe_load(front_matter({"aliases": [text]}).strip("-"))["aliases"] is not None
