"""Conversations on a real terminal: lines edited and recalled, commands, Ctrl-C and Ctrl-D; listed, searched, gone on with, deleted."""

import json
import re
import shutil
import time

import psutil
import pytest

from localrag.store import database
from tests.conftest import run_localrag, run_process
from tests.studies import make_study
from tests.terminals import Screen, out

pytestmark = pytest.mark.ci

QUICK = ["--style", "extractive", "--engine", "adapter=no"]  # no chat model is loaded
ANSWERED = r"open a source: /source 1[^>]*\n\n\w*> ?"
ENDED = r"abstractive · [^>]*\n\n\w*> ?"  # also an answer that cites nothing
PROSE = ["--style", "abstractive", "--mode", "basic"]


@pytest.fixture(scope="module")
def asked(plain_town, tmp_path_factory):
    """The town with one conversation of two answers."""
    folder = tmp_path_factory.mktemp("asked") / "town"
    shutil.copytree(plain_town, folder)
    for question in (["Who is Lars Holm?"], ["-c", "What did he write?"]):
        done = run_localrag("ask", *question, *QUICK, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def here(asked, tmp_path, monkeypatch):
    """A copy of it, as the working folder."""
    shutil.copytree(asked, tmp_path / "town")
    monkeypatch.chdir(tmp_path / "town")
    return tmp_path / "town"


def logs(n="9"):
    return json.loads(out("logs", "-n", n, "--json"))


def files_with(folder, text):
    """The files below a folder in whose bytes a text stands, as UTF-8 or as JSON writes it."""
    forms = {text.encode(), json.dumps(text)[1:-1].encode(), text.encode("utf-16-le")}
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and any(f in p.read_bytes() for f in forms)]


def test_a_line_is_edited_pasted_and_recalled(here):
    """A word in the middle is mended, a paste of several lines is one question, Up and Ctrl-R bring back those of the index."""
    chat = Screen("chat", *QUICK, cwd=here)
    chat.wait_for("> ?")
    chat.type("Who is Lars Hlm?" + "\x1b[D" * 3 + "o\n")
    chat.wait_for(ANSWERED)
    chat.paste("Who asked\nthe Northern Line\nto pay?")
    chat.wait_for(r"> Who asked\n  the Northern Line\n  to pay\?")
    chat.type("\n")
    chat.wait_for(ANSWERED)
    chat.type("\x12he write")
    chat.wait_for(r"What did he write\?")
    chat.type("\n")
    chat.wait_for(r"> What did he write\?")
    chat.type("\n")
    chat.wait_for(ANSWERED)
    chat.type("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A")
    chat.wait_for(r"> Who is Lars Holm\?")
    chat.type("\x15\x04")

    assert chat.end() == 0
    asked = [one["question"] for one in logs("3")]
    assert asked == ["What did he write?", "Who asked\nthe Northern Line\nto pay?", "Who is Lars Holm?"]


def test_every_command_does_what_it_says(here):
    """/help, /mode, /source and /quit; Tab completes commands and modes."""
    chat = Screen("chat", *QUICK, cwd=here)
    chat.wait_for("> ?")
    chat.type("/he\t\n")
    shown = chat.wait_for(r"modes: auto[^>]*Ctrl-D ends\.\n\n> ?")
    for usage in ("/mode [NAME]", "/source [N]", "/quit"):
        assert usage in shown
    chat.type("/mode ba\t\n")
    chat.wait_for(r"mode: basic\n\nbasic> ?")
    chat.type("Who is Ingrid Holm?\n")
    shown = chat.wait_for(r"open a source: /source 1\n\nbasic> ?")
    assert "> Who is Ingrid Holm?" in shown
    assert "mode: basic" in shown
    chat.type("/source\n")
    chat.wait_for(r"characters \d+-\d+\n[^>]*\n\nbasic> ?")
    chat.type("/source 99\n")
    chat.wait_for(r"has no citation 99\.[^>]*\n\nbasic> ?")
    chat.type("What did she buy?\n")
    chat.wait_for(r"open a source: /source 1\n\nbasic> ?")
    chat.type("/quit\n")

    assert chat.end() == 0
    assert logs("1")[0]["question"] == "What did she buy?"


def piped_chat(lines, here, *args, **env):
    return run_process("chat", *QUICK, *args, cwd=here, timeout=300, given=lines, **env)


def test_what_is_no_command_is_said_with_the_nearest(here):
    """A mistyped command or mode is answered with the nearest one; a path at the beginning of a line, or a space, makes it a question."""
    done = piped_chat("/sorce 1\n/xyzzy\n/mode globl\n/source x\n/etc/hosts names Lars Holm?\n /tmp holds what?\n", here)

    assert done.returncode == 0, done.stderr
    for said in (
        "There is no command /sorce. Did you mean /source? All: /help.",
        "There is no command /xyzzy. All: /help.",
        "There is no mode 'globl'. Did you mean global?",
        "/source takes the number of a citation, not 'x'.",
    ):
        assert said in done.stderr
    assert [one["question"] for one in logs("2")] == ["/tmp holds what?", "/etc/hosts names Lars Holm?"]


def test_ctrl_c_takes_a_line_back_and_ctrl_d_ends(here):
    """What was typed is gone without being asked; on an empty line Ctrl-C says how to end, and Ctrl-D ends in 0."""
    chat = Screen("chat", *QUICK, cwd=here)
    chat.wait_for("> ?")
    chat.type("Who is not to be asked")
    chat.wait_for("> Who is not to be asked")
    chat.type("\x03")
    chat.wait_for(r"Ctrl-D ends\.\n\n> ?")
    chat.type("\x03")
    chat.wait_for(r"\n\n>\n?/quit or Ctrl-D ends\.\n\n> ?")
    chat.type("\x04")

    assert chat.end() == 0
    assert len(logs()) == 2


@pytest.mark.slow
def test_ctrl_c_stops_an_answer_and_the_next_question_is_answered(here):
    """The engine is idle after it, the conversation goes on, and no status line is left on the screen."""
    out("ask", "What is wrong with the Skua?", *PROSE)  # what is measured and made once is made now
    chat = Screen("chat", *PROSE, cwd=here)
    chat.wait_for("> ?")
    chat.type("Tell all about the Skua and Lars Holm.\n")
    chat.wait_for_passing("reading 3 passages …")
    chat.type("\x03")
    chat.wait_for(r"Stopped\.[^>]*\n\nbasic> ?", 240)
    process = psutil.Process(chat.process.pid)
    time.sleep(1)
    before = process.cpu_times().user
    time.sleep(1)
    idle = process.cpu_times().user - before
    chat.type("Who is the mate of the Skua?\n")
    shown = chat.wait_for(ENDED, 240)
    chat.type("\x04")

    assert idle < 0.3
    assert "…" not in shown.split("Who is the mate")[1].split("\n  1  ")[0]
    assert chat.end() == 0
    assert logs("1")[0]["question"] == "Who is the mate of the Skua?"


def test_a_conversation_goes_on_in_another_process(here):
    """`chat -c` and `chat --resume N` go on with it: follow-ups lean on its answers; both, or a number that is none, are refused."""
    out("ask", "Who asked the Northern Line to pay?", *QUICK)
    assert piped_chat("Where is he mate?\n", here, "--resume", "1").returncode == 0
    found = logs("1")[0]
    assert (found["conversation"], "Lars Holm" in found["standalone_question"]) == (1, True)
    assert piped_chat("And the ferry?\n", here, "-c").returncode == 0
    assert [one["conversation"] for one in logs("2")] == [1, 1]

    assert run_localrag("chat", "-c", "--resume", "1", cwd=here).returncode == 2
    refused = run_localrag("chat", "--resume", "99", cwd=here)
    assert (refused.returncode, "There is no conversation 99." in refused.stderr) == (2, True)


def test_conversations_are_listed_searched_and_shown(here):
    """By number, first question, answers and time; found by words of question or answer in any case; printed whole."""
    out("ask", "Who asked the Northern Line to pay?", *QUICK)
    listed = json.loads(out("sessions", "list", "--json"))
    assert [(r["id"], r["title"], r["answers"]) for r in listed] == [
        (3, "Who asked the Northern Line to pay?", 1),
        (1, "Who is Lars Holm?", 2),
    ]
    assert re.search(r"3 +Who asked the Northern Line to pay\? +1 answer · \d{4}-", out("sessions", "list"))

    assert {r["id"] for r in json.loads(out("sessions", "search", "LINE to pay?", "--json"))} == {3}
    assert out("sessions", "search", "what he did").startswith("1  What did he write?")
    assert out("sessions", "search", "xyzzy") == "Nothing was found.\n"
    shown = out("sessions", "show", "1")
    assert shown.index("Who is Lars Holm?") < shown.index("What did he write?")
    assert [one["id"] for one in json.loads(out("sessions", "show", "1", "--json"))] == [1, 2]
    assert run_localrag("sessions", "show", "2", cwd=here).returncode == 2


@pytest.mark.slow
def test_a_deleted_conversation_leaves_no_byte(here, home):
    """Question, answer and what the model said of them stand in no file of the index any more, nor in the cache; the others stay."""
    secret = "Is Quibblewort the mate of the Skua, or who wrote to Quibblewort?"
    out("ask", secret, *PROSE)
    out("ask", "-c", "And what did Quibblewort write about it?", *PROSE)
    (here / ".localrag" / "index.db.before-m001_old").write_bytes((here / ".localrag" / "index.db").read_bytes())
    make_study(here / ".localrag", here / "study")
    assert files_with(here, "Quibblewort")
    (number,) = {row["id"] for row in json.loads(out("sessions", "search", "quibblewort", "--json"))}
    done = run_localrag("sessions", "rm", str(number), cwd=here)

    assert done.returncode == 0, done.stderr
    assert files_with(here, "Quibblewort") == []
    assert not [p for p in (home / "cache" / "prefixes").rglob("*") if p.is_file()]
    assert [row["id"] for row in json.loads(out("sessions", "list", "--json"))] == [1]
    assert (here / "study" / "index" / "index.db").exists()
    assert run_localrag("check", cwd=here).returncode == 0
    assert "Lars Holm" in out("ask", "-c", "What did he write?", *QUICK)


def test_a_deletion_that_another_process_holds_up_is_ended_later(here):
    """Where somebody reads the index, its log keeps what was deleted: that is said, and `sessions rm` without a number ends it."""
    out("ask", "Is Quibblewort the mate?", *QUICK)
    reader = database.connect_existing(here / ".localrag" / "index.db")
    database.pin_snapshot(reader)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "READER_BUSY_TIMEOUT_S", 0.5)
        held = run_localrag("sessions", "rm", "3", cwd=here)
    assert held.returncode == 1
    assert "Another process is reading" in held.stderr
    assert files_with(here, "Quibblewort")
    reader.close()

    ended = run_localrag("sessions", "rm", cwd=here)
    assert ended.returncode == 0, ended.stderr
    assert files_with(here, "Quibblewort") == []
    again = run_localrag("sessions", "rm", cwd=here)
    assert (again.returncode, "Name the conversations" in again.stderr) == (2, True)
    assert len(logs()) == 2


def test_all_conversations_go_only_when_that_is_meant(here):
    """`sessions rm --all` needs a yes; numbers that are none, or with --all, are refused and delete nothing."""
    for args, said in (
        (["--all"], "would be deleted; nothing was"),
        (["1", "--all"], "not both"),
        (["1", "9"], "There is no conversation 9."),
        ([], "Name the conversations"),
    ):
        done = run_localrag("sessions", "rm", *args, cwd=here)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert len(logs()) == 2
    assert run_localrag("sessions", "rm", "--all", "--yes", cwd=here).returncode == 0
    assert logs() == []
    assert out("sessions", "list") == "There are no conversations.\n"


def bytes_of(folder):
    """What every file below a folder holds, but for the map of the log's pages in memory; a log that is empty is as none."""
    held = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.name.endswith("-shm")}
    return {name: data for name, data in held.items() if data}


def changed(before, after):
    """The names of the files that are not the same."""
    return sorted(name for name in before | after if before.get(name) != after.get(name))


@pytest.mark.slow
def test_a_chat_that_is_not_logged_writes_nothing(here, home):
    """Neither while it runs nor after: the index has the same bytes, and no file of the index or the cache has a word of it."""
    out("ask", "What is wrong with the Skua?", *PROSE)  # what is measured and made once is made now
    before = bytes_of(here)
    chat = Screen("chat", "--no-history", *PROSE, cwd=here)
    chat.wait_for(r"Nothing is kept\.\n\nbasic> ?")
    for line, shown in (
        ("Is Quibblewort the mate of the Skua?", r"\nmode: basic[^>]*"),
        ("And what did he write about it?", r"\nmode: basic[^>]*open a source: /source 1[^>]*"),
        ("/source 1", r"characters \d+-\d+\n[^>]*"),
        ("Is Quibblewort the mate of the Skua?", r"\nmode: basic · abstractive[^>]*"),
    ):
        chat.type(f"{line}\n")
        chat.wait_for(rf"> {re.escape(line)}\n[^>]*{shown}\n\nbasic> ?", 240)
    running = changed(before, bytes_of(here)), files_with(here, "Quibblewort"), files_with(home, "Quibblewort")
    chat.type("\x04")

    assert chat.end() == 0
    assert running == ([], [], [])
    assert files_with(here, "Quibblewort") == []
    assert changed(before, bytes_of(here)) == []


def test_a_question_that_is_not_logged_writes_nothing(here):
    """`ask --no-history`, also in a conversation: it reads what was asked, and the next `ask -c` does not know of it."""
    before = bytes_of(here)
    done = run_process("ask", "--no-history", "-c", "Where is he mate?", *QUICK, cwd=here)

    assert done.returncode == 0, done.stderr
    assert "understood as: Where is he mate? (Lars Holm" in done.stderr
    assert "localrag source" not in done.stderr
    assert changed(before, bytes_of(here)) == []


def from_stdin(given, here, *args):
    return run_process("ask", *args, *QUICK, cwd=here, timeout=300, given=given)


def test_a_question_may_come_from_standard_input(here):
    """Without an argument or as `-`, several lines are one question; what is no question is a mistake in usage, said before any work."""
    assert from_stdin(b"Who is\nLars Holm?\n", here).returncode == 0
    assert from_stdin(b"Who is the mate?", here, "-").returncode == 0
    assert from_stdin(b"ignored", here, "Who wrote?").returncode == 0
    assert [one["question"] for one in logs("3")] == ["Who wrote?", "Who is the mate?", "Who is\nLars Holm?"]
    for given, said in (
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xff\xfe\x00", "is not valid UTF-8"),
        (b"x" * 10_001, "10000 at most are read"),
    ):
        done = from_stdin(given, here)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert piped_chat(b"\xff?\n\xfe?\n", here, PYTHONIOENCODING="utf-8:strict").stderr.count("is not valid UTF-8") == 2
    terminal = Screen("ask", cwd=here)
    assert terminal.end() == 2
    assert "There is no question." in "\n".join(terminal.lines)


def test_a_dumb_terminal_gets_plain_lines(here):
    """With TERM=dumb nothing but text is written; a line is read as the terminal gives it, Ctrl-C and Ctrl-D do what they do elsewhere."""
    chat = Screen("chat", *QUICK, cwd=here, TERM="dumb")
    chat.wait_for("> ?")
    chat.type("Who is Lars Holm?\n")
    chat.wait_for(ANSWERED)
    chat.type("half a question\x03")
    chat.wait_for(r"/quit or Ctrl-D ends\.\n\n> ?")
    chat.type("\x04")

    assert chat.end() == 0
    assert "\x1b" not in chat.written
