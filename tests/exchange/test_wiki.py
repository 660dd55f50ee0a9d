"""A wiki kept up to date: what changed is written, what a person wrote stays, what is gone goes unless somebody wrote there."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from localrag.errors import UsageError
from localrag.exchange import wiki as wiki_module
from localrag.exchange.wiki import GONE_TEXT, read_wiki, update_wiki
from localrag.project import open_read_only
from tests.conftest import run_localrag
from tests.exchange.made import NAMES, make_index

SOME = ("Ada", "Bob", "Cid", "Dan", "Eve", "Fay")


def notes(folder):
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in folder.rglob("*.md")}


def note_of(folder, name):
    """The path and text of the page of the entity of that name."""
    return next((p, text) for p, text in notes(folder).items() if f"\n# {name}\n" in text and "kind: entity" in text)


def change(folder, name, old, new):
    """Edit the page of an entity as a person would; its path and new text."""
    path, text = note_of(folder, name)
    assert old in text
    (folder / path).write_text(text.replace(old, new), encoding="utf-8")
    return path, text.replace(old, new)


@pytest.fixture
def changed(tmp_path):
    """A wiki, and the same index with one entity gone, one new and the others related otherwise."""
    update_wiki(make_index(tmp_path / "a", SOME), tmp_path / "wiki")
    return tmp_path / "wiki", make_index(tmp_path / "b", (*SOME[:5], "Gil"))


def test_an_update_without_changes_writes_nothing(opened, tmp_path):
    """Every file keeps its time."""
    first = update_wiki(opened, tmp_path / "wiki")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "wiki").rglob("*.md")}
    assert len(first.written) == len(before) == sum(first.counts.values()) + 1
    again = update_wiki(opened, tmp_path / "wiki")
    assert (again.written, again.deleted, again.gone, again.edited, again.busy) == ((), (), (), (), ())
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "wiki").rglob("*.md")} == before


@pytest.fixture(scope="module")
def edited_town(plain_town, tmp_path_factory):
    """A wiki of the town, wikis made anew before and after one document was edited, and what the update of the first said."""
    folder = tmp_path_factory.mktemp("edited")
    shutil.copytree(plain_town, folder, dirs_exist_ok=True)
    for name in ("wiki", "before"):
        with open_read_only(folder / ".localrag") as index:
            update_wiki(index, folder / name)
    text = (folder / "docs" / "b.txt").read_text(encoding="utf-8").replace("that the Skua leaks", "that the Skua leaks at the bow")
    (folder / "docs" / "b.txt").write_text(text, encoding="utf-8")
    assert run_localrag("index", "docs", cwd=folder).returncode == 0
    with open_read_only(folder / ".localrag") as index:
        result = update_wiki(index, folder / "wiki")
        update_wiki(index, folder / "after")
    return folder, result


def contents(folder):
    """The properties and the generated block of each page, by its subject; a link is the subject that it leads to, and what it shows."""
    pages = read_wiki(folder).pages
    keys = {Path(page.path).stem: key for key, page in pages.items()}

    def shown(text):
        return re.sub(r"\[\[([^|\]]+)(?:\|([^\]]+))?\]\]", lambda found: f"[[{keys[found[1]]}|{found[2] or found[1]}]]", text)

    return {key: (page.text[: page.block.start], shown(page.block.text)) for key, page in pages.items()}


def test_after_an_edit_the_wiki_says_what_a_new_one_says(edited_town):
    """Each page has the properties and the generated part of a page made anew."""
    folder, _ = edited_town
    assert contents(folder / "wiki") == contents(folder / "after") != contents(folder / "before")


def test_an_edited_document_changes_only_pages_that_say_something_else(edited_town):
    """The page of the document itself keeps its name; the others keep their bytes."""
    folder, result = edited_town
    before, after = contents(folder / "before"), contents(folder / "after")
    pages = {page.path: key for key, page in read_wiki(folder / "wiki").pages.items()}
    assert {pages[path] for path in result.written} == {key for key in after if after[key] != before.get(key)}
    assert 0 < len(result.written) < len(after)
    assert (folder / "wiki" / "Documents" / "b (txt).md").exists()
    assert result.deleted == ()
    unchanged = notes(folder / "before").items() & notes(folder / "wiki").items()
    assert len(unchanged) == len(after) - len(result.written)


def test_what_a_person_wrote_stays_while_the_page_changes(changed):
    """Above and below the block, also where the page was moved and renamed; links lead to its new name."""
    wiki, index = changed
    path, text = note_of(wiki, "Eve")
    own = text.replace("%%localrag:begin", "Before it.\r\n%%localrag:begin", 1) + "My own words.\n\n%% a comment %%\nLast"
    (wiki / "Suspects").mkdir()
    (wiki / "Suspects" / "The widow.md").write_bytes(own.encode())
    (wiki / path).unlink()
    result = update_wiki(index, wiki)
    now = (wiki / "Suspects" / "The widow.md").read_bytes().decode()
    assert now.endswith("%%localrag:end%%\nMy own words.\n\n%% a comment %%\nLast")
    assert "\n\nBefore it.\r\n%%localrag:begin" in now
    assert "Gil" in now  # Eve is related to Gil now, and was to Fay
    assert "Fay" not in now
    assert "[[The widow|Eve]]" in note_of(wiki, "Dan")[1]
    assert not (wiki / path).exists()
    assert (result.edited, result.gone) == ((), ())


def test_what_is_gone_goes_unless_somebody_wrote_there(changed):
    """Its page is deleted where nobody wrote; elsewhere it says that its subject is gone, and goes on when it is there again."""
    wiki, index = changed
    path, text = note_of(wiki, "Fay")
    assert path in update_wiki(index, wiki).deleted
    assert not (wiki / path).exists()
    (wiki / path).write_text(text + "Mine.\n", encoding="utf-8")
    result = update_wiki(index, wiki)
    now = (wiki / path).read_text(encoding="utf-8")
    assert result.gone == (path,)
    assert GONE_TEXT in now
    assert now.endswith("%%localrag:end%%\nMine.\n")
    assert "Eve" not in now
    again = update_wiki(index, wiki)
    assert (again.written, again.gone) == ((), (path,))
    update_wiki(make_index(index.folder.parent.parent / "c", SOME), wiki)
    assert (wiki / path).read_text(encoding="utf-8") == text + "Mine.\n"


def test_a_changed_block_stays_and_is_told_of(changed):
    """Also that of a page whose subject is gone."""
    wiki, index = changed
    eve, mine = change(wiki, "Eve", "# Eve", "# Eve the first")
    fay, left = change(wiki, "Fay", "# Fay", "# Fay, who left")
    ada, own = change(wiki, "Ada", "kind: entity", "kind: queen")
    result = update_wiki(index, wiki)
    assert (set(result.edited), result.gone) == ({eve}, (fay,))
    assert not {eve, fay, ada} & {*result.deleted}
    assert (wiki / eve).read_text(encoding="utf-8") == mine
    assert (wiki / fay).read_text(encoding="utf-8") == left
    assert (wiki / ada).read_text(encoding="utf-8").split("%%")[0] == own.split("%%")[0]
    assert update_wiki(index, wiki).written == ()


def test_files_of_the_person_are_never_touched(changed):
    """Notes of their own keep their names, also where an entity has the same one; a copy of a page is theirs, too."""
    wiki, index = changed
    _, text = note_of(wiki, "Eve")
    own = {
        "Gil.md": "mine",
        "Inbox/idea.md": "x",
        ".obsidian/app.json": "{}",
        "A copy of Eve.md": text,
        "zz.md": "\ufeff---\nlocalrag: no\n",
    }
    for name, content in own.items():
        (wiki / name).parent.mkdir(exist_ok=True)
        (wiki / name).write_text(content, encoding="utf-8")
    (wiki / "bytes.md").write_bytes(b"\xff\xfe")
    update_wiki(index, wiki)
    assert (wiki / "bytes.md").read_bytes() == b"\xff\xfe"
    assert {name: (wiki / name).read_text(encoding="utf-8") for name in own} == own
    (wiki / "bytes.md").unlink()
    (wiki / "A copy of Eve.md").unlink()
    assert Path(note_of(wiki, "Gil")[0]).name == "Gil (2).md"
    assert "[[Gil (2)|Gil]]" in note_of(wiki, "Eve")[1]


def test_a_folder_that_is_no_wiki_and_not_empty_is_refused(opened, tmp_path):
    """Nothing is written; with force it is written beside the other files. The folder of the index never is one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes.md").write_text("# Mine")
    with pytest.raises(UsageError, match="holds other files"):
        update_wiki(opened, folder)
    assert [p.name for p in folder.iterdir()] == ["notes.md"]
    update_wiki(opened, folder, force=True)
    assert (folder / "notes.md").read_text() == "# Mine"
    assert update_wiki(opened, folder).written == ()
    with pytest.raises(UsageError, match="is a file"):
        update_wiki(opened, folder / "notes.md", force=True)
    with pytest.raises(UsageError, match="the index folder"):
        update_wiki(opened, opened.folder / "wiki")


def test_a_page_that_changes_while_the_wiki_is_written_is_left_for_the_next_time(changed, monkeypatch):
    """Nothing that somebody writes meanwhile is lost."""
    wiki, index = changed
    path, text = note_of(wiki, "Eve")
    real = wiki_module.vault_pages

    def slowly(*args):
        (wiki / path).write_text(text + "Written meanwhile.\n", encoding="utf-8")
        return real(*args)

    monkeypatch.setattr(wiki_module, "vault_pages", slowly)
    result = update_wiki(index, wiki)
    assert result.busy == (path,)
    assert path not in result.written
    assert (wiki / path).read_text(encoding="utf-8") == text + "Written meanwhile.\n"
    monkeypatch.undo()
    result = update_wiki(index, wiki)
    assert (result.busy, result.written) == ((), (path,))
    assert (wiki / path).read_text(encoding="utf-8").endswith("Written meanwhile.\n")


def test_whatever_an_entity_is_called_its_page_is_a_file_of_the_wiki(tmp_path):
    """Paths, devices of Windows, emoji, long names, names that differ in case alone; all are found again."""
    names = (
        *NAMES,
        "../../etc/passwd",
        "NUL",
        "x" * 300,
        "字" * 300,
        "👩‍👩‍👧",
        "ada lovelace",
        "Ada Lovelace",
        "%%localrag:end%%",
        "a\n---\nb",
    )
    index = make_index(tmp_path / "index", names)
    result = update_wiki(index, tmp_path / "wiki")
    assert result.counts["entities"] == len(names)
    assert {p.name for p in tmp_path.iterdir()} == {"index", "wiki"}
    pages = read_wiki(tmp_path / "wiki").pages
    assert sum(key.startswith("entity:") for key in pages) == len(names)
    assert all(page.is_only_generated for page in pages.values())
    found = [name for text in notes(tmp_path / "wiki").values() if (name := yaml.safe_load(text.split("\n---\n", 1)[0][4:]).get("aliases"))]
    assert ["../../etc/passwd"] in found
    assert update_wiki(index, tmp_path / "wiki").written == ()


def test_a_community_without_a_report_is_called_by_its_entities(tmp_path):
    """Its number may change with any document."""
    update_wiki(make_index(tmp_path / "a", SOME, reports=False), tmp_path / "wiki")
    titles = [Path(name).stem for name in notes(tmp_path / "wiki") if name.startswith("Communities/")]
    assert titles
    assert all(set(re.split(", | and ", title)) <= {*SOME} for title in titles)


def test_the_command_writes_a_wiki_and_checks_it(plain_town, tmp_path):
    """It says what was written and what needs the person; problems end in exit code 1."""
    shutil.copytree(plain_town, tmp_path, dirs_exist_ok=True)
    done = run_localrag("wiki", "wiki", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 documents" in done.stderr
    said = json.loads(run_localrag("wiki", "wiki", "--json", cwd=tmp_path).stdout)
    assert (said["written"], said["counts"]["documents"]) == ([], 3)
    page = next((tmp_path / "wiki").rglob("Ingrid Holm.md"))
    page.write_text(page.read_text(encoding="utf-8") + "> Nobody wrote this.\n> — [[a (md)]]\n", encoding="utf-8")
    checked = run_localrag("wiki", "wiki", "--check", cwd=tmp_path)
    assert checked.returncode == 1
    assert re.search(r"Ingrid Holm\.md:\d+  dead quote: Nobody wrote this", checked.stdout)
    assert "1 problems in" in checked.stderr
    values = json.loads(run_localrag("wiki", "wiki", "--check", "--json", cwd=tmp_path).stdout)
    assert [f["problem"] for f in values["findings"]] == ["dead quote"]
    assert run_localrag("wiki", "docs", cwd=tmp_path).returncode == 2
    assert run_localrag("wiki", "docs", "--check", cwd=tmp_path).returncode == 2
