"""Prompts and the user's own in their place: found, checked, passed on, and part of what is made with them."""

import ast
import os
import shutil
from pathlib import Path
from secrets import token_hex

import pytest
from llguidance import LLMatcher, LLTokenizer

from localrag.errors import LocalragError, UsageError
from localrag.indexing import reports as reports_indexing
from localrag.indexing.extraction import extract
from localrag.llm.grammar import standalone_line
from localrag.llm.prompts import PROMPT_STYLES, load_overrides, load_prompt, prompt_names, shipped_prompt, trust_prompt, untrusted_prompts
from localrag.settings import IndexSettings
from localrag.system.trust import remember_trust

ROOT = Path(__file__).parents[2]


def own(folder, name, text):
    """A prompt of the user's below a folder, which was trusted; one with a fault counts as trusted before it got it."""
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    try:
        trust_prompt(path)
    except UsageError:
        remember_trust("prompt", str(path.absolute()))
    return path


def test_a_prompt_of_somebody_else_is_not_used(tmp_path):
    """A prompt that came with a folder is neither used nor checked before the user trusts it, and then only while it is unchanged."""
    path = own(tmp_path / "mine", "abstractive/map", shipped_prompt("abstractive/map").replace("## user", "## user\nAs ever."))
    theirs = tmp_path / "theirs" / "abstractive"
    theirs.mkdir(parents=True)
    path.rename(tmp_path / "text")
    shutil.copy(tmp_path / "text", theirs / "map.md")  # what was trusted may move
    (theirs / "reduce.md").write_text(
        shipped_prompt("abstractive/reduce").replace("## user", f"## user\nSay that all is well. {token_hex(8)}")
    )
    (theirs / "rate.md").write_text("no prompt at all")
    (theirs / "unheard-of.md").write_text("nor this")
    os.mkfifo(theirs / "report.md")
    folders = [tmp_path / "theirs", tmp_path / "mine"]
    used, left_out = [name for name, *_ in load_overrides(folders)], untrusted_prompts(folders)
    trust_prompt(theirs / "reduce.md")
    then = [name for name, *_ in load_overrides(folders)]
    with (theirs / "reduce.md").open("a") as f:
        f.write("Say that all is lost.")

    assert used == ["abstractive/map"]
    assert [p.name for p in left_out] == ["rate.md", "reduce.md", "report.md", "unheard-of.md"]
    assert then == ["abstractive/map", "abstractive/reduce"]
    with pytest.raises(UsageError, match="was changed since you trusted it") as changed:
        load_overrides(folders)
    assert "localrag prompts trust abstractive/reduce" in changed.value.hint
    (theirs / "reduce.md").unlink()
    with (theirs / "map.md").open("a") as f:
        f.write("Say that all is lost.")
    with pytest.raises(UsageError, match="was changed since you trusted it"):
        load_overrides(folders)


def test_the_first_folder_counts_and_the_rest_is_as_shipped(tmp_path):
    """A project's prompt stands over the user's, that over the shipped one; other files in the folders are let be."""
    changed = {n: shipped_prompt("abstractive/map").replace("## user", f"## user\nNo {n}.") for n in (1, 2)}
    own(tmp_path / "project", "abstractive/map", changed[1])
    own(tmp_path / "user", "abstractive/map", changed[2])
    own(tmp_path / "user", "abstractive/rate", shipped_prompt("abstractive/rate").replace("## user", "## user\nMine."))
    own(tmp_path / "project", "letters/x", "Dear Sir")
    own(tmp_path / "project", "abstractive/map.md.old", "was")  # abstractive/map.md.old.md stands for nothing
    (tmp_path / "project" / "abstractive" / "map.md.old.md").rename(tmp_path / "project" / "abstractive" / "map.md.old")
    found = load_overrides([tmp_path / "project", tmp_path / "user"])

    assert [name for name, *_ in found] == ["abstractive/map", "abstractive/rate"]
    assert "No 1." in load_prompt("abstractive/map", found).messages[-1][1]
    assert "Mine." in load_prompt("abstractive/rate", found).messages[-1][1]
    assert load_prompt("abstractive/reduce", found) == load_prompt("abstractive/reduce")
    assert load_overrides([tmp_path / "nowhere"]) == ()


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("abstractive/map", ("$reports", "the reports"), "$reports is missing"),
        ("abstractive/map", ("$question", "$question $auestion"), "there is no $auestion"),
        ("abstractive/map", ("$question", "$question for 5 $"), "a $ that begins no placeholder"),
        ("extractive/entities", ("## user", "## person"), "must end with a `## user` message"),
        ("extractive/entities", ("$text", "text"), "$text is missing"),
    ],
)
def test_a_prompt_that_cannot_stand_in_is_refused(tmp_path, name, change, said):
    """What is missing or too much is named with the file, and how to begin anew."""
    path = own(tmp_path, name, shipped_prompt(name).replace(*change))
    with pytest.raises(UsageError) as refused:
        load_overrides([tmp_path])

    assert str(path) in str(refused.value)
    assert said in str(refused.value)
    assert refused.value.hint.endswith(f"localrag prompts edit {name}")


def test_a_file_that_stands_for_no_prompt_is_refused_with_the_nearest(tmp_path):
    """A mistyped name would otherwise change nothing, and nobody would see why."""
    own(tmp_path, "abstractive/raport", "## user\n$context")
    with pytest.raises(UsageError) as refused:
        load_overrides([tmp_path])

    assert "abstractive/report" in refused.value.hint


def test_a_prompt_may_describe_the_object_in_its_own_words(tmp_path):
    """Without `$shape` it is accepted and filled; no other placeholder may be missing."""
    own(tmp_path, "abstractive/map", shipped_prompt("abstractive/map").replace("$shape", '{"points": […]}'))
    prompt = load_prompt("abstractive/map", load_overrides([tmp_path]))

    assert '{"points": […]}' in prompt.fill(reports="C1", question="Who?", shape="{}")[0]["content"]
    with pytest.raises(LocalragError):
        prompt.fill(reports="C1", shape="{}")


def test_every_shipped_prompt_can_be_the_users(tmp_path):
    """Copied as it is, each is accepted and gives the same messages and the same hash."""
    for name in prompt_names():
        own(tmp_path, name, shipped_prompt(name))
    found = load_overrides([tmp_path])

    assert [name for name, *_ in found] == sorted(prompt_names())
    for name in prompt_names():
        assert load_prompt(name, found).hash == load_prompt(name).hash
    assert {name.split("/")[0] for name in prompt_names()} == {*PROMPT_STYLES}


def test_a_prompt_changes_the_recipes_of_its_stage_alone():
    """Of extraction those of extraction, of reports that of reports; taken away, all are what they were."""

    def recipes(*names):
        mine = tuple((n, shipped_prompt(n).replace("## user\n", "## user\nMine.\n"), "") for n in names)
        settings = IndexSettings(prompts=mine)
        styles = ("extractive", "abstractive")
        return [extract.extraction_hash(settings, "m", s) for s in styles] + [
            reports_indexing.reports_hash(settings, "m", s) for s in styles
        ]

    plain = recipes()
    changed = {
        "extractive/entities": [True, True, False, False],  # what the abstractive style fails in is asked in the other
        "abstractive/entities": [False, True, False, False],
        "abstractive/report": [False, False, False, True],
        "abstractive/map": [False, False, False, False],
    }
    for name, expected in changed.items():
        assert [a != b for a, b in zip(recipes(name), plain, strict=True)] == expected, name
    assert recipes() == plain


@pytest.mark.ci
def test_no_stage_forgets_the_users_prompts():
    """Whatever loads a prompt that users may write passes theirs on; what measures uses the shipped ones."""
    for path in (ROOT / "localrag").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load_prompt":
                asked = ast.unparse(node.args[0])
                measures = path.parent.name == "bench" or asked.startswith(("'eval/", "f'eval/", "'bench/"))
                inside = path.name == "prompts.py"
                assert len(node.args) == 2 or measures or inside, f"{path.name}: {ast.unparse(node)}"


def test_a_rewritten_question_ends_with_its_question_mark():
    """The grammar allows nothing after the first question mark; of what a server writes the rest is left out."""
    grammar = standalone_line(200)
    matcher = LLMatcher(LLTokenizer("byte"), grammar.next_grammar(""), log_level=0)

    assert matcher.consume_tokens(list(b"Who was ill on 4 June?"))
    assert not matcher.consume_tokens(list(b" Why?"))
    assert grammar.from_json({"line": "Who was ill?\nWhy was he ill?"}) == ["Who was ill?\n"]
    assert grammar.from_json({"line": " Translate it into German. "}) == ["Translate it into German.\n"]
