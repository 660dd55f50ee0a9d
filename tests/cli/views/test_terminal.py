"""What reaches a terminal: verified text while it is written, and nothing of a document that a terminal would obey."""

import json
import re
import shutil
import signal
import subprocess
import unicodedata

import pytest

from localrag.cli.views.terminal import escape_controls, escape_line
from tests.conftest import mostly_slow, run_localrag
from tests.forked import Forked
from tests.terminals import STYLE, Terminal, in_terminal, out, plain

EVIL = "\x1b]0;owned\x07\x1b[31m\x1b[2J\x9b5A\x08\x7f\u202e:smile:"
NAME = "b\x1b[31m:smile:\u202e\n.txt"


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """An index of a document and a file name full of orders to terminals and emoji codes."""
    folder = tmp_path_factory.mktemp("evil")
    (folder / "docs").mkdir()
    text = f"Ingrid Holm bought the ferry Skua {EVIL} in Vardby :date: from the Northern Line.\n\n"
    text += "The town of Vardby had waited two years for a ferry, and the Northern Line had none to give to Ingrid Holm. " * 4
    (folder / "docs" / NAME).write_text(text, encoding="utf-8")
    (folder / "docs" / "b.txt").write_text("Ingrid Holm sold the ferry Skua to the Northern Line.\n", encoding="utf-8")
    shown = Terminal("index", "docs", "--extractor", "phrases", cwd=folder)
    assert shown.end() == 0, shown.text("err")
    assert_obeyed_nothing(shown)
    return folder


def assert_obeyed_nothing(shown):
    """Nothing but styles, the status line, the cursor and lines of a progress bar; no window title, no colour of the document's."""
    for name in ("out", "err"):
        text = re.sub(r"\x1b\[\?25[lh]|\x1b\[2?K|\x1b\[1A", "", STYLE.sub("", shown.text(name)))
        ours = {"\n", "\r"} if name == "err" else {"\n"}
        bad = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in ours]
        assert not bad, (name, bad, text)
    assert "\x1b[31m" not in shown.text("out")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["ask", "What did Ingrid Holm buy?", "--style", "extractive"], [":date:", "5A␡"]),
        (["logs"], [":date:", "5A␡"]),
        (["source", "1"], [":date:", "5A␡", "b␛[31m:smile:"]),
        (["files"], ["b␛[31m:smile:", "␊.txt"]),
        (["search", "Who bought the ferry?"], [":date:", "b␛[31m:smile:"]),
        (["entity", "Ingrid Holm"], ["b␛[31m:smile:"]),
        (["report", "0.0"], [":date:"]),
        (["tree"], ["entities"]),
        (["status"], ["documents"]),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else "",
)
@pytest.mark.ci
def test_a_document_cannot_give_orders_to_a_terminal(evil, monkeypatch, args, words):
    """Escapes are shown as signs and emoji codes as they are written, in every command that shows documents and file names."""
    if args[0] in ("logs", "source"):
        monkeypatch.chdir(evil)
        out("ask", "What did Ingrid Holm buy?", "--style", "extractive")
    shown = in_terminal(*args, cwd=evil)

    assert_obeyed_nothing(shown)
    for word in words:
        assert word in STYLE.sub("", shown.text("out")), shown.text("out")


def test_json_escapes_what_a_terminal_would_obey(evil, monkeypatch):
    """`--json` has the text as it is, written in ASCII wherever a terminal would obey it; so it may be shown anywhere."""
    monkeypatch.chdir(evil)
    for args in (["ask", "What did Ingrid Holm buy?", "--style", "extractive"], ["search", "ferry"], ["files"], ["logs"]):
        printed = out(*args, "--json")

        assert not [c for c in printed if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]
        values = [json.loads(line) for line in printed.splitlines()]
        assert "\x1b" in json.dumps(values, ensure_ascii=False).replace("\\u001b", "\x1b")


def test_signs_stand_for_orders_and_everything_else_stays():
    """Each order of C0, C1, DEL and the marks of direction becomes one sign; tabs, lines and every script stay."""
    plain = "a\tb\nc é 王 עברית العربية \U0001f600 \u200f"

    assert escape_controls(plain) == plain
    assert escape_controls("\x1b[1m\x07\x7f\x9b\u202e\ud800") == "␛[1m␇␡\ufffd\ufffd\ufffd"
    assert escape_line("a\nb\tc") == "a␊b␉c"


@pytest.fixture(scope="module")
def town(plain_town, tmp_path_factory):
    """The town, indexed without a model, to ask in prose."""
    folder = tmp_path_factory.mktemp("prose") / "town"
    shutil.copytree(plain_town, folder)
    return folder


QUESTION = ["What is wrong with the Skua?", "--style", "abstractive", "--mode"]


@pytest.mark.parametrize(
    "options",
    mostly_slow([["basic"], ["basic", "--strict"], ["global"]], ["basic", "--strict"]),
    ids=" ".join,
)
@pytest.mark.ci
def test_the_terminal_shows_the_answer_that_is_kept(town, monkeypatch, options):
    """Prose on a terminal, in `--json` and in `logs` is the same text: checked, marked, with the numbers of the list below it."""
    monkeypatch.chdir(town)
    answer = json.loads(out("ask", *QUESTION, *options, "--json"))  # first: it says so where it measures how the model runs best
    shown = in_terminal("ask", *QUESTION, *options, cwd=town)
    kept = json.loads(out("logs", "-n", "2", "--json"))

    text = plain(shown.text("out"))
    assert text.startswith(answer["answer"] + "\n")
    assert [k["answer"] for k in kept] == [answer["answer"]] * 2
    assert answer["style"] == "abstractive"
    below = text.removeprefix(answer["answer"])
    for c in answer["citations"]:
        assert f"[{c['n']}]" in answer["answer"]
        assert f"\n[{c['n']}] {' › '.join([c['path'], *c['headings']])}, {c['start']}-{c['end']}  “" in below
    assert answer["answer"].count("[unsupported]") == (0 if "--strict" in options else answer["unsupported_sentences"])
    assert re.search(r"reading \d+ (passages|points) …", shown.text("err"))
    assert shown.text("err").split("mode:")[0].rstrip().endswith("\x1b[K")


@pytest.mark.parametrize("begun", [False, pytest.param(True, marks=pytest.mark.ci)], ids=["before the first sentence", "after it"])
@pytest.mark.ci
def test_ctrl_c_says_what_is_kept_of_an_answer(town, tmp_path, monkeypatch, begun):
    """Ctrl-C ends a question in 130 and says what is kept: the sentences written so far, which `logs` and `source` then have."""
    shutil.copytree(town, tmp_path / "town")
    here = tmp_path / "town"
    monkeypatch.chdir(here)
    before = json.loads(out("logs", "-n", "99", "--json"))
    shown = Terminal("ask", "Tell all about the Skua and Lars Holm.", *QUESTION[1:], "mix", cwd=here)
    written = shown.wait_for(*(("out", r"\](?:\x1b\[0m)?\s") if begun else ("err", "reading")))
    shown.interrupt()

    assert shown.end() == 130
    logs = json.loads(out("logs", "-n", "99", "--json"))
    assert "Stopped." in shown.text("err")
    assert len(logs) == len(before) + begun
    if begun:
        assert "The part that was written is stored: localrag logs -n 1." in shown.text("err")
        assert plain(shown.text("out")).startswith(logs[0]["answer"])
        assert logs[0]["answer"].startswith(plain(written).rstrip())
        assert "Stopped before its end." in logs[0]["note"]
    else:
        assert "No sentence had been written yet." in shown.text("err")


@pytest.mark.ci
def test_a_pipe_that_closes_ends_a_command_quietly(tmp_path):
    """`localrag … | head` ends in 0 or 141, and says nothing, however much there was to print."""
    (tmp_path / "docs").mkdir()
    for n in range(3000):
        (tmp_path / "docs" / f"{'long' * 20}{n}.bin").write_bytes(b"\x00\x01\xff")
    (tmp_path / "docs" / "a.txt").write_text("Ingrid Holm bought the ferry Skua in Vardby.")
    run_localrag("index", "docs", "--extractor", "phrases", cwd=tmp_path)
    for command in ("files", "files --json", "status", "--help"):
        process = Forked(*command.split(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout.readline().endswith("\n")
        process.stdout.close()
        assert process.stderr.read() == "", command
        assert process.wait(60) in (0, 141, -signal.SIGPIPE), command
