"""Kinds of questions: told in many languages and forms, unsure where nothing tells, unknown without the reader."""

import re
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace

import pytest

from localrag import model_files
from localrag.llm.reader import PassageReader
from localrag.query.question_kind import (
    QUESTION_KINDS,
    UNKNOWN_KIND,
    QuestionKind,
    WholeForm,
    is_about_answer,
    load_classifier,
    question_kind,
    whole_form,
)
from localrag.system.installation import reinstall_hint

DATA = Path(__file__).parent / "data"
READER = PassageReader()


def project_with(reader=READER):
    """A stand-in for a project, which keeps what it is notified of."""
    said = []
    return SimpleNamespace(reader=reader, search_cache=None, said=said, model=SimpleNamespace(options=SimpleNamespace(notify=said.append)))


def told(text):
    return question_kind(text, project_with())


def rows(file):
    return [line.split("\t") for line in (DATA / file).read_text(encoding="utf-8").splitlines()]


@pytest.mark.ci
def test_questions_kept_from_training_are_routed_right():
    """Of 200 labelled questions in a dozen languages, the kept half goes right in 95 % or more: about everything, or a particular."""
    kept = [(label, text) for label, text in rows("routes.tsv") if blake2b(text.encode(), digest_size=1).digest()[0] % 2]
    right = [(told(text).kind is QuestionKind.GLOBAL) == (label == "global") for label, text in kept]

    assert len(kept) > 90
    assert sum(right) >= 0.95 * len(kept)


@pytest.mark.ci
def test_kinds_of_questions_kept_from_training_are_told():
    """Of 219 questions in 13 languages, two of which were not trained on, nine in ten are told right; few are told wrong."""
    found = Counter(
        "right" if (kind := told(text).kind) == label else "wrong" if kind else "unsure" for label, _, text in rows("question_kinds.tsv")
    )

    assert found["right"] >= 0.9 * found.total()
    assert found["wrong"] <= 0.07 * found.total()


@pytest.mark.ci
def test_questions_about_the_whole_are_recognized_with_their_form():
    """Of 60 in five languages, kept from training, 93 % (the goal is 95), nine in ten with their form; of 60 others 97 % are left alone."""
    kept = [(form, told(text).kind is QuestionKind.GLOBAL, text) for form, _, text in rows("whole_questions.tsv")]
    recognized = [(form, text) for form, is_global, text in kept if form != "none" and is_global]

    assert len(recognized) >= 56
    assert sum(not is_global for form, is_global, _ in kept if form == "none") >= 0.97 * 60
    assert sum(whole_form(text, project_with()) == form for form, text in recognized) >= 0.9 * len(recognized)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("what are the main themes", QuestionKind.GLOBAL),
        ("How many documents are there?", QuestionKind.GLOBAL),
        ("overall cost of the bridge", QuestionKind.FACT),
        ("Tell me about Marian Dace", QuestionKind.EXPLANATION),
        ("how to isntall the programm", QuestionKind.HOW_TO),
        ("differnce betwen lease and licence", QuestionKind.COMPARISON),
    ],
)
def test_a_kind_is_told_without_case_signs_or_spelling(question, kind):
    """A broad word in a particular question does not make it one about everything."""
    assert told(question).kind is kind


@pytest.mark.parametrize("question", ["the of and", "x" * 2000, "what are the main themes " * 80, "ཀ་ཁ་ག་ང་", "Ruth", "\u200b"])
def test_an_odd_question_has_probabilities(question):
    """Stop words, 2,000 characters, an unknown script, one word: seven probabilities that sum to one; about everything is
    only what asks for it again and again."""
    found = told(question)

    assert len(found.values) == len(QUESTION_KINDS)
    assert sum(found.values) == pytest.approx(1, abs=1e-5)
    assert (found.kind is QuestionKind.GLOBAL) == question.startswith("what are")


def test_without_a_reader_the_kind_is_unknown():
    """Nothing is said of it, and neither a short answer nor an answer from the reports follows; its form is that without a topic."""
    project = project_with(reader=None)
    found = question_kind("What are the main themes?", project)

    assert found == UNKNOWN_KIND
    assert found.kind is None
    assert not found.wants_few_words
    assert whole_form("How did the minutes change?", project) is WholeForm.ALL
    assert not project.said


@pytest.mark.ci
def test_last_lines_of_a_conversation_are_about_the_answer_or_the_documents():
    """In five languages; without a reader every one is about the documents."""
    lines = rows("last_lines.tsv")
    project = project_with(PassageReader())
    right = [is_about_answer(text, project) == (label == "answer") for label, text in lines]

    assert sum(right) >= 0.9 * len(lines)
    assert is_about_answer("Summarize your reply in one sentence", project)
    assert not is_about_answer("Who was missing?", project)
    assert not is_about_answer("Summarize your reply in one sentence", project_with(reader=None))


@pytest.fixture
def damaged(monkeypatch, tmp_path):
    """The classifier's file, cut in the middle."""
    path = Path(model_files.shipped_data_path(model_files.shipped_models()["question_kinds"]["path"]))
    cut = tmp_path / path.name
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    load_classifier.cache_clear()
    found = model_files.shipped_data_path
    monkeypatch.setattr(model_files, "shipped_data_path", lambda name: cut if name.endswith(path.name) else found(name))
    yield
    load_classifier.cache_clear()


def test_a_damaged_file_is_said_once(damaged):
    """The kind is unknown, and a question can still be asked."""
    project = project_with(PassageReader())
    found = [question_kind(text, project) for text in ("What are the main themes?", "Who bought the ferry?")]

    assert found == [UNKNOWN_KIND, UNKNOWN_KIND]
    (said,) = project.said
    assert re.search(r"Kinds of questions are not told apart: \S+question_kinds\S* is damaged", said)
    assert reinstall_hint() in said
