"""`localrag eval qa`: the formats are read, the scores are right, a stopped run goes on."""

import asyncio
import json

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.datasets import load_qa_dataset, read_jsonl
from localrag.eval.metrics import evidence_recall, exact_match, is_quoted, strip_marks_and_titles, word_f1
from localrag.eval.qa import QaSetup, averages, evaluate_answers
from localrag.query.question import QueryOptions

CORPUS = [
    {"id": 7, "title": "Morning", "text": "Ann Lee: Good morning to all of you, we have the remote control to discuss today."},
    {"id": 8, "text": "Ruth Sand: The colour of the remote control should be red, because red sells best."},
]
QUERIES = [
    {"id": "g", "question": "Summarize the meeting", "answers": ["They chose a red remote control."], "type": "general"},
    {"id": "s", "question": "What did Ruth Sand say of the colour?", "answers": ["Red sells."], "gold": [8], "type": "specific"},
]


@pytest.fixture
def meeting(tmp_path):
    folder = tmp_path / "meeting"
    folder.mkdir()
    for name, rows in (("corpus", CORPUS), ("queries", QUERIES)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def test_passages_are_read_with_their_evidence(meeting):
    """A passage is a file with its title as the heading; gold passages are the evidence of a question."""
    gold = load_qa_dataset(meeting)

    assert gold.documents == (("0000000.md", f"# Morning\n\n{CORPUS[0]['text']}"), ("0000001.md", CORPUS[1]["text"]))
    assert [(q.type, q.evidence) for q in gold.questions] == [("general", ()), ("specific", ("0000001.md",))]


def test_a_sample_is_decided_by_its_seed(meeting):
    """So many questions are drawn, the same ones for the same seed."""
    drawn = {load_qa_dataset(meeting, limit=1, seed=s).questions[0].id for s in range(12)}

    assert drawn == {"g", "s"}
    assert load_qa_dataset(meeting, limit=1, seed=3) == load_qa_dataset(meeting, limit=1, seed=3)


@pytest.mark.parametrize(
    ("answer", "gold", "em", "f1"),
    [
        ("The Skua!", ["skua"], 1, 1.0),
        ("A red boat", ["the red ferry"], 0, 0.5),
        ("红色的船", ["红船"], 0, 2 * 2 / 6),
        ("nothing", ["42"], 0, 0.0),
    ],
)
def test_words_are_compared_as_squad_does(answer, gold, em, f1):
    """Case, punctuation and articles do not count; the best gold answer does; Chinese is compared by character."""
    assert exact_match(answer, gold) == em
    assert word_f1(answer, gold) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("quotes", "gold", "stands"),
    [
        (["She was born in Molde, Norway."], ["Molde"], 1),
        (["She was born in Molde, Norway."], ["Oslo", "molde norway"], 1),
        (["She was born in Molde."], ["Mold"], 0),
        (["It sank.", "In 1974."], ["1974"], 1),
        (["她生于上海市。"], ["上海"], 1),
        ([], ["Molde"], 0),
        (["Yes, she said."], ["yes"], None),
    ],
)
def test_a_gold_answer_stands_in_a_quote_word_for_word(quotes, gold, stands):
    """Whole words, up to case, punctuation and articles; a yes or no stands nowhere."""
    assert is_quoted(quotes, gold) == stands


def test_marks_and_titles_are_no_part_of_an_answer():
    """What is compared is the prose alone."""
    assert strip_marks_and_titles("**Ruth Sand**\nRed sells. [1][2]\n\nSo it is red. [unsupported]") == "Red sells. So it is red."


def test_evidence_is_the_share_of_the_gold_files():
    """A file counts where any passage is of it; without gold files nothing is measured."""
    assert evidence_recall(("a.txt", "b.txt"), ["a.txt", "a.txt", "c.txt"]) == 0.5
    assert evidence_recall((), ["a.txt"]) is None
    assert evidence_recall(("a.txt",), []) == 0


@pytest.mark.slow
@pytest.mark.ci
def test_answers_are_scored_and_a_stopped_run_goes_on(meeting, tmp_path, tiny):
    """Every question is asked in every mode once: what an earlier run wrote is kept, its torn last line is asked again."""
    setup = QaSetup(("mix", "global", "local"), "phrases", str(tiny("llama").path), QueryOptions(), EngineOptions())
    gold = load_qa_dataset(meeting)
    rows = asyncio.run(evaluate_answers(gold, setup, tmp_path / "out", lambda _: None))
    file = tmp_path / "out" / "answers.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()

    specific = next(r for r in rows if r["type"] == "specific" and r["mode"] == "mix")
    assert specific["evidence_shown"] == 1
    assert specific["supported"] == 1
    assert specific["F1"] > 0
    assert {(r["type"], r["mode"], r["failed"]) for r in averages(rows)} == {
        (t, m, 0) for t in ("general", "specific") for m in ("mix", "global", "local")
    }

    file.write_text("\n".join([*lines[:3], lines[3][:40]]), encoding="utf-8")
    again = asyncio.run(evaluate_answers(gold, setup, tmp_path / "out", lambda _: None))

    assert [r["answer"] for r in again] == [r["answer"] for r in rows]
    assert file.read_text(encoding="utf-8").splitlines()[:3] == lines[:3]
    assert len(read_jsonl(file)) == 6


@pytest.mark.ci
def test_a_question_that_failed_is_asked_again(meeting, tmp_path):
    """The next run answers what failed, keeps the rest as it is, and a third has nothing left to ask."""
    setup = QaSetup(("mix",), "phrases", None, QueryOptions(), EngineOptions())
    gold, file = load_qa_dataset(meeting), tmp_path / "out" / "answers.jsonl"
    first = asyncio.run(evaluate_answers(gold, setup, tmp_path / "out", lambda _: None))
    rows = read_jsonl(file)
    failed = {k: rows[0][k] for k in ("set", "id", "type", "asked_mode", "setup")} | {"error": "The server is gone."}
    file.write_text("".join(json.dumps(r) + "\n" for r in (failed, *rows[1:])), encoding="utf-8")
    again = asyncio.run(evaluate_answers(gold, setup, tmp_path / "out", lambda _: None))
    asyncio.run(evaluate_answers(gold, setup, tmp_path / "out", lambda _: None))

    assert [r.get("answer") for r in again] == [r["answer"] for r in first]
    assert len(read_jsonl(file)) == len(rows) + 1
    assert sum("error" in r for r in read_jsonl(file)) == 1


def test_a_mode_there_is_none_of_is_refused(meeting, tmp_path):
    """The modes there are are named before anything is indexed."""
    setup = QaSetup(("best",), "phrases", None, QueryOptions(), EngineOptions())

    with pytest.raises(UsageError, match="no mode 'best'"):
        asyncio.run(evaluate_answers(load_qa_dataset(meeting), setup, tmp_path / "out", lambda _: None))
