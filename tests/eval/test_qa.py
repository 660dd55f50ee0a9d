"""`localrag eval qa`: the formats are read, the scores are right, a stopped run goes on."""

import asyncio
import json

import numpy as np
import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.datasets import EvidenceSpan, load_qa_dataset
from localrag.eval.metrics import evidence_recall, exact_match, is_quoted, rouge, strip_marks_and_titles, word_f1
from localrag.eval.qa import QaSetup, averages, evaluate_answers
from localrag.query.question import QueryOptions
from localrag.records import Quote

MEETING = {
    "general_query_list": [{"query": "Summarize the meeting", "answer": "They chose a red remote control."}],
    "specific_query_list": [{"query": "What did Ruth Sand say of the colour?", "answer": "Red sells.", "relevant_text_span": [["1", "2"]]}],
    "meeting_transcripts": [
        {"speaker": "Ann Lee", "content": "Good morning to all of you, we have the remote control to discuss today."},
        {"speaker": "Ruth Sand", "content": "The colour of the remote control should be red, because red sells best."},
        {"speaker": "Ann Lee", "content": "Then red it is, as Ruth Sand says."},
    ],
}


@pytest.fixture
def meetings(tmp_path):
    folder = tmp_path / "meetings"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(MEETING), encoding="utf-8")
    return folder


def test_meetings_are_read_with_the_places_of_their_evidence(meetings):
    """A turn is a line; a specific question's evidence are the characters of its turns, a general one has none."""
    (gold,) = load_qa_dataset(meetings)
    text = gold.documents[0][1]
    general, specific = gold.questions

    assert (general.type, general.evidence, specific.type) == ("general", (), "specific")
    assert [text[e.start : e.end].split(":")[0] for e in specific.evidence] == ["Ruth Sand", "Ann Lee"]


def test_novels_and_passages_are_read(tmp_path):
    """GraphRAG-Bench questions go to their novel with statements as evidence, passages are evidence as whole files."""
    novels, passages = tmp_path / "n", tmp_path / "p"
    (novels / "novels").mkdir(parents=True)
    (novels / "novels" / "Novel-1.txt").write_text("The jug was half full.", encoding="utf-8")
    row = {"id": "a", "source": "Novel-1", "question": "Q?", "answer": "Whisky", "question_type": "Fact", "evidence": ["It was full."]}
    (novels / "novel_questions.jsonl").write_text(json.dumps(row), encoding="utf-8")
    passages.mkdir()
    (passages / "corpus.jsonl").write_text('{"id": 7, "title": "T", "text": "x"}', encoding="utf-8")
    (passages / "queries.jsonl").write_text(
        '{"id": "q", "question": "Q?", "answers": ["x"], "gold": [7], "type": "bridge"}', encoding="utf-8"
    )

    assert load_qa_dataset(novels)[0].questions[0].evidence == ("It was full.",)
    (gold,) = load_qa_dataset(passages)
    assert gold.documents == (("0000000.md", "# T\n\nx"),)
    assert gold.questions[0].evidence == (EvidenceSpan("0000000.md"),)


def test_a_sample_is_decided_by_its_seed(meetings):
    """So many questions are drawn, the same ones for the same seed."""
    drawn = {load_qa_dataset(meetings, limit=1, seed=s)[0].questions[0].id for s in range(12)}

    assert drawn == {"general-0", "specific-0"}
    assert load_qa_dataset(meetings, limit=1, seed=3) == load_qa_dataset(meetings, limit=1, seed=3)


def test_what_is_no_set_of_questions_is_refused(tmp_path):
    """An empty folder and a file that is no meeting are named."""
    with pytest.raises(UsageError, match="no questions in a known format"):
        load_qa_dataset(tmp_path)
    (tmp_path / "x.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(UsageError, match=r"x\.json is not a meeting"):
        load_qa_dataset(tmp_path)


@pytest.mark.parametrize(
    ("answer", "gold", "em", "f1"),
    [
        ("The Skua!", ["skua"], 1, 1.0),
        ("A red boat", ["the red ferry"], 0, 0.5),
        ("红色的船", ["红船"], 0, 2 * 2 / 6),
        ("nothing", ["42"], 0, 0.0),
        ("blue", ["red", "blue"], 1, 1.0),
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


def test_rouge_counts_words_pairs_and_the_common_subsequence():
    """The worked example of the paper (Lin 2004): "police killed the gunman" against "police kill the gunman"; stems count."""
    assert rouge("police kill the gunman", ["police killed the gunman"]) == {"R-1": 1.0, "R-2": 1.0, "R-L": 1.0}
    assert rouge("the gunman kill police", ["police killed the gunman"])["R-L"] == pytest.approx(0.5)
    assert rouge("狗咬人", ["人咬狗"])["R-1"] == 1.0


def test_marks_and_titles_are_no_part_of_an_answer():
    """What is compared is the prose alone."""
    assert strip_marks_and_titles("**Ruth Sand**\nRed sells. [1][2]\n\nSo it is red. [unsupported]") == "Red sells. So it is red."


def test_evidence_is_found_by_place_and_by_what_it_says(tmp_path):
    """A place counts where a passage overlaps it, a whole file where any passage is of it, a statement where a sentence supports it."""

    def embed(texts):
        return np.array([[1, 0] if "red" in t else [0, 1] for t in texts], np.float32)

    passages = [("a.txt", Quote("c", 10, 30, "The boat was red."))]
    evidence = (EvidenceSpan("a.txt", 25, 40), EvidenceSpan("a.txt", 30, 40), EvidenceSpan("a.txt"), "A red boat", "Nobody came")

    assert evidence_recall(evidence, passages, embed) == pytest.approx(3 / 5)
    assert evidence_recall((), passages, embed) is None
    assert evidence_recall(evidence, [], embed) == 0


@pytest.mark.slow
@pytest.mark.ci
def test_answers_are_scored_and_a_stopped_run_goes_on(meetings, tmp_path, tiny):
    """Every question is asked in every mode once: what an earlier run wrote is kept, its torn last line is asked again."""
    setup = QaSetup(("mix", "global", "none"), "phrases", str(tiny("llama").path), QueryOptions(), EngineOptions())
    sets = load_qa_dataset(meetings)
    rows = asyncio.run(evaluate_answers(sets, setup, tmp_path / "out", lambda _: None))
    file = tmp_path / "out" / "answers.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()

    specific = next(r for r in rows if r["type"] == "specific" and r["mode"] == "mix")
    assert specific["evidence_shown"] == 1
    assert specific["supported"] == 1
    assert specific["R-1"] > 0
    assert all(r["evidence_shown"] == 0 for r in rows if r["mode"] == "none" and r["type"] == "specific")
    assert {(r["type"], r["mode"], r["failed"]) for r in averages(rows)} == {
        (t, m, 0) for t in ("general", "specific") for m in ("mix", "global", "none")
    }

    file.write_text("\n".join([*lines[:3], lines[3][:40]]), encoding="utf-8")
    again = asyncio.run(evaluate_answers(sets, setup, tmp_path / "out", lambda _: None))

    assert [r["answer"] for r in again] == [r["answer"] for r in rows]
    assert file.read_text(encoding="utf-8").splitlines()[:3] == lines[:3]
    assert len(load_lines(file)) == 6


@pytest.mark.ci
def test_a_question_that_failed_is_asked_again(meetings, tmp_path):
    """The next run answers what failed, keeps the rest as it is, and a third has nothing left to ask."""
    setup = QaSetup(("mix",), "phrases", None, QueryOptions(), EngineOptions())
    sets, file = load_qa_dataset(meetings), tmp_path / "out" / "answers.jsonl"
    first = asyncio.run(evaluate_answers(sets, setup, tmp_path / "out", lambda _: None))
    rows = load_lines(file)
    failed = {k: rows[0][k] for k in ("set", "id", "type", "asked_mode", "setup")} | {"error": "The server is gone."}
    file.write_text("".join(json.dumps(r) + "\n" for r in (failed, *rows[1:])), encoding="utf-8")
    again = asyncio.run(evaluate_answers(sets, setup, tmp_path / "out", lambda _: None))
    asyncio.run(evaluate_answers(sets, setup, tmp_path / "out", lambda _: None))

    assert [r.get("answer") for r in again] == [r["answer"] for r in first]
    assert len(load_lines(file)) == len(rows) + 1
    assert sum("error" in r for r in load_lines(file)) == 1


def load_lines(file):
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def test_a_mode_there_is_none_of_is_refused(meetings, tmp_path):
    """The modes there are are named before anything is indexed."""
    setup = QaSetup(("best",), "phrases", None, QueryOptions(), EngineOptions())

    with pytest.raises(UsageError, match="no mode 'best'"):
        asyncio.run(evaluate_answers(load_qa_dataset(meetings), setup, tmp_path / "out", lambda _: None))
