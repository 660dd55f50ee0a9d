"""Texts of several words without quotes, and results as JSON that were printed as text only."""

import json
import re

from tests.terminals import invoke, out, runnable

ONE_TEXT = {"ask", "search", "entity", "timeline", "list", "sessions search"}


def arguments_of(command):
    return [parameter for parameter in command.params if parameter.param_type_name == "argument"]


def test_a_text_that_is_all_a_command_takes_needs_no_quotes():
    """As many words as are given; where there are other arguments, too, the error names quotes."""
    taking = {words: arguments_of(command) for words, command in runnable() if arguments_of(command)}

    assert all(len(taking[words]) == 1 and taking[words][0].nargs == -1 for words in ONE_TEXT)
    asking = {words for words, command in runnable() if any(p.required for p in command.params if p.param_type_name == "option")}
    limited = {w: sum(a.nargs for a in found) for w, found in taking.items() if w not in asking and all(a.nargs > 0 for a in found)}
    assert limited.keys() >= {"compare", "merges add", "collections rename"}
    for words, n in limited.items():
        refused = invoke(*words.split(), *(["csv", "out"] if words == "export" else ["1"] * n), "more", "words")
        assert refused.exit_code == 2
        assert "quotes" in refused.output, words


def test_words_without_quotes_are_the_text_with_them(in_own_town):
    """Options may stand between them."""
    quoted, plain = (
        out("search", *words, "--json") for words in (["Who bought the Skua?"], ["Who", "--index", ".", "bought", "the", "Skua?"])
    )

    assert plain == quoted


def test_the_source_of_an_answer_as_json(in_own_town):
    """The quote is where it says in the passage."""
    answer = json.loads(out("ask", "Who bought the Skua?", "--json"))
    source = json.loads(out("source", "1", "--json"))

    assert source.items() >= {k: v for k, v in answer["citations"][0].items() if k != "headings"}.items()
    at = source["start"] - source["passage_start"]
    assert source["passage"][at:].startswith(source["quote"])


def test_texts_and_lists_as_json(tmp_path, monkeypatch):
    """Prompts, pages of the documentation, saved benchmarks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "home"))
    (name, *_) = [row["name"] for row in json.loads(out("prompts", "list", "--json"))["prompts"]]

    assert json.loads(out("prompts", "show", name, "--json")) == {"name": name, "file": None, "text": out("prompts", "show", name)}
    topics = json.loads(out("help", "--json"))
    page = json.loads(out("help", "install", "--json"))
    assert {key: page[key] for key in ("topic", "title")} in topics
    assert page["text"].startswith("# ")
    assert json.loads(out("bench", "runs", "--json")) == []


def test_json_is_not_dropped_without_a_word(tmp_path, monkeypatch):
    """Where another word on the line contradicts it."""
    monkeypatch.chdir(tmp_path)
    refused = invoke("bench", "--json", "runs")

    assert re.search("--json", str(refused.exception))
