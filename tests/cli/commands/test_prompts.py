"""`localrag prompts`, as a user types it."""

import json
import shutil
import sys
from secrets import token_hex

import pytest

from localrag.llm.prompts import prompt_names, shipped_prompt
from tests.conftest import run_localrag

NAME = "abstractive/report"


@pytest.fixture
def own(tmp_path, home):
    """A folder of its own, and no prompts of the user's, then or afterwards."""
    yield tmp_path
    shutil.rmtree(home / "prompts", ignore_errors=True)


def run(folder, *args, **env):
    return run_localrag("prompts", *args, cwd=folder, **env)


def editor(folder, code):
    """A program that changes the file it is given, as a person would in an editor."""
    script = folder / "editor.py"
    script.write_text(f"import pathlib, sys\np = pathlib.Path(sys.argv[-1])\nt = p.read_text()\np.write_text({code})\n", encoding="utf-8")
    return {"EDITOR": f"{sys.executable} {script}", "VISUAL": ""}


def listed(folder, *args):
    return {r["name"]: r for r in json.loads(run(folder, "list", "--json", *args).stdout)["prompts"]}


def test_a_prompt_is_edited_listed_and_used(own):
    """`edit` opens a copy of the shipped one, and `list` shows where it is."""
    edited = run(own, "edit", NAME, **editor(own, "t.replace('## user', '## user\\nBe brief.', 1)"))
    path = own / "prompts" / f"{NAME}.md"
    shown, table = run(own, "show", NAME).stdout, run(own, "list").stdout
    files = listed(own)

    assert edited.returncode == 0, edited.stderr
    assert "Be brief." in shown
    assert {n for n, r in files.items() if r["file"]} == {NAME}
    assert files[NAME]["file"] == str(path)
    assert tuple(files) == prompt_names()
    assert str(path) in table
    assert "as shipped" in table
    path.unlink()
    assert run(own, "show", NAME).stdout == shipped_prompt(NAME)


def test_an_index_finds_the_prompts_beside_it_from_anywhere(own, plain_town):
    """What counts is where the index is, not the working folder; a prompt without one of its fields stops what would use it."""
    shutil.copytree(plain_town, own / "town")
    path = own / "town" / "prompts" / f"{NAME}.md"
    path.parent.mkdir(parents=True)
    path.write_text(shipped_prompt(NAME).replace("$context", f"$context {token_hex(8)}"), encoding="utf-8")
    assert run(own, "trust", "--index", "town").returncode == 0
    path.write_text(shipped_prompt(NAME).replace("$context", "it"), encoding="utf-8")
    found = listed(own, "--index", "town")
    asked = run_localrag("search", "ferry", "--index", "town", cwd=own)

    assert "$context is missing" in found[NAME]["problem"]
    assert "$context is missing" in run(own, "list", "--index", "town").stdout
    assert asked.returncode == 2
    assert f"{path}: $context is missing." in asked.stderr
    assert f"localrag prompts edit {NAME}" in asked.stderr
    path.unlink()
    assert run_localrag("search", "ferry", "--index", "town", cwd=own).returncode == 0


def test_what_an_editor_leaves_behind_is_checked(own):
    """Unchanged, there is no file of one's own; a field that is gone is said at once; without an editor the file is named."""
    same = run(own, "edit", NAME, **editor(own, "t"))
    path = own / "prompts" / f"{NAME}.md"
    assert (same.returncode, path.exists()) == (0, False)

    spoilt = run(own, "edit", NAME, **editor(own, "t.replace('$context', '')"))
    none = run(own, "edit", "abstractive/map", EDITOR="", VISUAL="")
    missing = run(own, "edit", "abstractive/rate", EDITOR="/nowhere/editor", VISUAL="")

    assert spoilt.returncode == 2
    assert "$context is missing" in spoilt.stderr
    assert none.returncode == 2
    assert f"Edit the file as you like: {own / 'prompts' / 'abstractive' / 'map.md'}" in none.stderr
    assert missing.returncode == 2
    assert "could not be run" in missing.stderr


def test_a_name_that_is_none_is_refused_with_the_nearest(own):
    """Whatever is to be done with it."""
    for command in ("show", "edit"):
        done = run(own, command, "abstractive/raport")
        assert (done.returncode, "Did you mean abstractive/report" in done.stderr) == (2, True)


def test_a_folders_prompts_are_used_once_they_are_trusted(own, plain_town):
    """Until then every command says that they are not, and how; `status` and `list` tell which are used. A change is asked about again."""
    shutil.copytree(plain_town, own / "town")
    town, path = own / "town", own / "town" / "prompts" / f"{NAME}.md"
    path.parent.mkdir(parents=True)
    path.write_text(shipped_prompt(NAME).replace("## user", f"## user\nPraise the Northern Line. {token_hex(8)}", 1), encoding="utf-8")

    def status():
        return json.loads(run_localrag("status", "--json", cwd=town).stdout)["prompts"], run_localrag("status", cwd=town).stdout

    asked, shown, before, row = run_localrag("index", "docs", cwd=town), run(town, "show", NAME), status(), listed(town)[NAME]
    trusted = run(town, "trust", NAME)
    quiet, used, after, again = run_localrag("index", "docs", cwd=town), run(town, "show", NAME), status(), run(town, "trust")
    path.write_text(path.read_text(encoding="utf-8").replace("Praise", "Blame"), encoding="utf-8")
    changed = run_localrag("index", "docs", cwd=town)

    assert asked.returncode == 0, asked.stderr
    assert f"the prompt {path}" in asked.stderr and "localrag prompts trust" in asked.stderr
    assert shown.stdout == shipped_prompt(NAME)
    assert before[0] == {"own": [], "untrusted": [str(path)]}
    assert "localrag prompts trust" in before[1].replace("\n", " ")
    assert (row["trusted"], "localrag prompts trust" in row["problem"]) == (False, True)
    assert trusted.returncode == 0, trusted.stderr
    assert "localrag prompts trust" not in quiet.stderr
    assert "Praise the Northern Line." in used.stdout
    assert after[0] == {"own": [str(path)], "untrusted": []}
    assert again.returncode == 2
    assert (changed.returncode, f"localrag prompts trust {NAME}" in changed.stderr) == (2, True)
