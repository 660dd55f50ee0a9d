"""The recipe of the classifier of questions (scripts/train/question_kinds.py): labels of public sets, variants, and a run on a tenth."""

import csv
import json
import random

import pytest
from safetensors.numpy import load_file

from localrag.query.question_kind import QUESTION_KINDS, WHOLE_FORMS
from scripts.train.question_kinds_data import (
    KIND_LABELS,
    PARTICULAR,
    public_questions,
    written_questions,
)
from tests.conftest import run_module


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """Some of the public sets, a few invented rows each."""
    write_rows(tmp_path / "boolq" / "dev.jsonl", [{"question": "is the ferry green"}])
    (tmp_path / "comparative").mkdir()
    line = "[CLS] is a [MASK] or beetle more danger ##ous ? [SEP]\tcockroach\tQ1\tdangerous\n"
    (tmp_path / "comparative" / "animals.tsv").write_text(line, encoding="utf-8")
    (tmp_path / "nf_cats").mkdir()
    with (tmp_path / "nf_cats" / "train.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [("annotated_by", "category", "question"), ("x", "INSTRUCTION", "How to tie a knot?"), ("x", "DEBATE", "Is it bad?")]
        )
    meeting = {"general_query_list": [{"query": "Summarize it all."}], "specific_query_list": [{"query": "What did Ada say?"}]}
    (tmp_path / "qmsum").mkdir()
    (tmp_path / "qmsum" / "a.json").write_text(json.dumps(meeting), encoding="utf-8")
    return tmp_path


def test_public_sets_are_labelled(folder, capsys):
    """By what a set is, by its own classes, or by the form of a question; a set that is not there is left out and named."""
    found = {(q.text, q.label) for q in public_questions([folder], random.Random(0))}

    assert found == {
        ("is the ferry green", "yes_no"),
        ("is a cockroach or beetle more dangerous?", "comparison"),
        ("How to tie a knot?", "how_to"),
        ("Summarize it all.", "global"),
        ("What did Ada say?", PARTICULAR),
    }
    assert "MedQuAD: not there, and not learned from" in capsys.readouterr().out


def test_written_questions_have_every_kind_once_each():
    """In a dozen languages, those about the documents as a whole in every form; no question stands twice."""
    texts = [q.text for q in written_questions()]

    assert {q.label for q in written_questions()} == {kind.value for kind in QUESTION_KINDS} <= KIND_LABELS
    assert {q.form for q in written_questions() if q.label == "global"} == set(WHOLE_FORMS)
    assert len(texts) == len(set(texts))


@pytest.mark.slow
def test_a_tenth_of_the_questions_teaches_something(folder, tmp_path):
    """The recipe makes the file that is read, and says what the classifier gets right; with its vectors kept, the same again."""
    out = tmp_path / "out"
    first = run_module("scripts.train.question_kinds", out, folder, "--share", 0.1)
    tensors = load_file(out / "question_kinds.safetensors")
    second = run_module("scripts.train.question_kinds", out, folder, "--share", 0.1)

    assert tensors["weight"].shape == (len(QUESTION_KINDS), 3 * 384)
    assert load_file(out / "whole_forms.safetensors")["weight"].shape == (len(WHOLE_FORMS), 3 * 384)
    assert (out / "question_kinds.safetensors").stat().st_size < 100_000
    right = int(first.split("kept: ")[1].split()[0])
    assert right > 100
    assert first.splitlines()[-2:] == second.splitlines()[-2:]
