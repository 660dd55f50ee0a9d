"""The annotated paragraphs and the questions that are shipped."""

import json
from pathlib import Path

import pytest

from localrag.bench.tasks import GOLD_FOLDER, load_paragraphs
from localrag.demo import CORPUS
from localrag.errors import UsageError
from localrag.eval.datasets import load_gold
from localrag.indexing.extraction.names import find_name_spans
from localrag.llm.prompts import load_prompt
from localrag.system.files import shipped_data_path


def test_every_place_of_a_marked_name_is_marked():
    """A name that is marked once is marked wherever it stands, and no paragraph keeps a mark in its text."""
    for d in load_paragraphs():
        assert "[[" not in d.text
        assert "]]" not in d.text
        for name in {d.text[m.start : m.end] for m in d.mentions}:
            assert all(any(m.start <= s.start and s.end <= m.end for m in d.mentions) for s in find_name_spans(d.text, name)), (d.id, name)


def test_the_names_of_the_paragraphs_are_in_no_prompt():
    """What a prompt says cannot be taken for what a model found."""
    prompts = "\n".join(
        text
        for file in sorted(shipped_data_path("prompts").rglob("*.md"))
        for _, text in load_prompt(f"{file.parent.name}/{file.stem}").messages
    )
    names = {d.text[m.start : m.end] for d in load_paragraphs() for m in d.mentions}
    assert not [n for n in names if find_name_spans(prompts, n)]


def test_the_ten_questions_can_be_answered_from_the_demo():
    """One way of saying each expected thing stands in the documents, and none in the question."""
    text = "\n".join(p.read_text(encoding="utf-8") for p in CORPUS.rglob("*") if p.is_file())
    asked = [json.loads(line) for line in (GOLD_FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()]

    assert len(asked) == 10
    for one in asked:
        for ways in one["expected"]:
            assert any(way in text for way in ways)
            assert not any(way in one["question"] for way in ways)


def test_marks_are_read_with_their_places(tmp_path: Path):
    """A mark becomes a mention where its name stands; another name of an entity belongs to it; relations join entities."""
    file = tmp_path / "a.md"
    file.write_text(
        "Notes.\n\n## one\nMs [[Ada Bo|person]] of [[Rill|place]]. [[Bo|person|Ada Bo]] left.\n\nrelations: Ada Bo + Rill\nyes: Did she?\n"
    )

    (d,) = load_gold(file, "marked")

    assert d.text == "Ms Ada Bo of Rill. Bo left."
    assert [(d.text[m.start : m.end], m.type, m.group) for m in d.mentions] == [
        ("Ada Bo", "person", "Ada Bo"),
        ("Rill", "place", "Rill"),
        ("Bo", "person", "Ada Bo"),
    ]
    assert d.relations == {frozenset(("Ada Bo", "Rill"))}


def test_a_relation_of_an_unmarked_name_is_named(tmp_path: Path):
    """A pair whose end is not marked is an error that says which."""
    file = tmp_path / "a.md"
    file.write_text("## one\n[[Ada|person]] left.\n\nrelations: Ada + Rill\n")
    with pytest.raises(UsageError, match="Rill"):
        load_gold(file, "marked")
