"""The command line in one process: which values and options commands take, and which of them need a model."""

import json
import os
import re
from pathlib import Path

import pytest

from localrag.cli.commands import evaluate
from localrag.eval.extraction import EVALUATED_EXTRACTORS
from localrag.eval.retrieval import RETRIEVERS
from localrag.query.modes import MODE_FUNCTIONS
from localrag.settings import QUERY_MODES
from localrag.store import llm_cache, runs
from localrag.store.opening import open_index
from localrag.system.trust import remember_trust
from tests.terminals import commands, invoke, out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("ask x --mode best", "There is no mode 'best'. Choose auto, mix,"),
        ("ask x --style poetic", "There is no style 'poetic'. Choose extractive or abstractive."),
        ("index docs --extractor magic", "There is no extractor 'magic'. Choose auto, tagger, model or phrases."),
        ("eval retrieval x --extractor magic", "There is no extractor 'magic'"),
        ("eval retrieval x --mode mix --mode best", "There is no mode 'best'"),
        ("eval qa x --mode best", "There is no mode 'best'"),
        ("bench --style poetic", "There is no style 'poetic'"),
        ("mcp --config emacs", "There is no program 'emacs'. Choose claude,"),
    ],
)
def test_a_value_that_is_no_choice_is_refused_with_the_choices(args, said, tmp_path, monkeypatch):
    """Exit code 2 and what there is to choose from, before anything is opened."""
    monkeypatch.chdir(tmp_path)
    done = invoke(*args.split())

    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_a_command_line_that_is_none_is_quoted_without_its_orders():
    """A file name that the shell put on the command line reaches the terminal as signs, not as orders."""
    for args in (["source", "1", "a\x1b[31m.txt"], ["ask", "x", "--mode", "a\x1b[31m"], ["source", "a\x1b[31m"], ["\x1b[31m"]):
        done = invoke(*args)

        assert done.exit_code == 2
        assert "\x1b" not in done.output


def test_the_choices_are_those_there_are():
    """The help names just the modes, extractors and formats that the library knows."""
    assert ("auto", *MODE_FUNCTIONS) == QUERY_MODES
    assert tuple(EVALUATED_EXTRACTORS) == evaluate.GOLD_EXTRACTORS
    assert tuple(RETRIEVERS) == evaluate.RETRIEVAL_MODES
    assert "|".join(QUERY_MODES) in " ".join(out("ask", "--help").split())


def test_what_may_ask_a_server_takes_the_option_its_error_recommends():
    """A model on another machine is refused with `--allow-host`: every command that may ask a model has it. Files go to `--out`."""
    have = {name: {o for p in one.params for o in p.opts} for name, one in commands()}
    asking = "index ask chat questions tune rm bench".split()
    asking += ["merges undo", "merges add", "eval extraction", "eval retrieval", "eval qa"]

    assert {name for name in asking if "--allow-host" not in have[name]} == set()
    assert not [name for name, options in have.items() if "--output" in options]


def test_what_prints_a_result_prints_it_as_json():
    """Every command takes --json, or stands in the reference among those that print nothing which a program could take."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    others = page.partition("The other commands print none:")[2].partition("## ")[0]
    have = {name: {o for p in one.params for o in p.opts} for name, one in commands()}
    groups = {name.rpartition(" ")[0] for name in have} - {""}

    assert {name for name, options in have.items() if "--json" not in options} - groups == set(re.findall(r"`(.+?)`", others))


def test_a_look_at_an_index_needs_no_model(in_own_town):
    """Where the GGUF file has moved, everything that asks no model works; a question names the missing file."""
    answer = json.loads(out("ask", "Who is Lars Holm?", "--style", "extractive", "--json"))
    db = open_index(in_own_town / ".localrag", create=True)
    remember_trust("model", llm_cache.identity(db), str(in_own_town / "gone.gguf"))  # it was there when the index was made
    runs.save_settings(db, chat_model={"name": "gone", "path": str(in_own_town / "gone.gguf"), "fingerprint": "0"})
    db.close()

    assert answer["citations"][0]["quote"] in out("source", "1")
    assert "Lars Holm" in out("entity", "Lars Holm")
    assert out("report", json.loads(out("tree", "--json"))[0]["id"]).startswith("# ")
    assert "docs/" in out("search", "Who wrote to the mayor?")
    for command in ("logs", "files", "status", "tree", "merges list"):
        out(*command.split())
    asked = invoke("ask", "Who is Lars Holm?")
    assert "gone.gguf" in str(asked.exception)


@pytest.mark.ci
def test_logs_have_the_paths_that_the_answer_had(in_own_town, monkeypatch):
    """`logs --json` is what `ask --json` printed, from whichever folder it is asked."""
    (in_own_town / "docs" / "deep").mkdir()
    for folder in (in_own_town, in_own_town / "docs" / "deep", in_own_town.parent):
        monkeypatch.chdir(folder)
        index = ["--index", os.path.relpath(in_own_town / ".localrag")]
        asked = json.loads(out("ask", "Who is Lars Holm?", "--style", "extractive", *index, "--json"))
        (logged,) = json.loads(out("logs", "-n", "1", *index, "--json"))

        assert {k: v for k, v in logged.items() if k not in ("id", "at")} == asked
        assert all(os.path.exists(c["path"]) for c in asked["citations"])  # noqa: PTH110


def test_an_answer_is_also_written_to_a_file(in_own_town):
    """With footnotes; a file that exists, or that has another format, is refused before the question is asked."""
    asked = ("ask", "Who is Lars Holm?", "--style", "extractive", "--out", "answer.md")
    answer = out(*asked)
    written = (in_own_town / "answer.md").read_text(encoding="utf-8")
    assert "Lars Holm" in answer
    assert "[^1]" in written
    assert "--force" in invoke(*asked).exception.hint
    assert ".docx" in invoke(*asked[:-1], "answer.pdf").exception.hint
