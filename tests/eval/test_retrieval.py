"""`localrag eval retrieval`: its figures are right, its input is checked."""

import asyncio
import json

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.eval.datasets import load_task
from localrag.eval.retrieval import evaluate_retrieval

PASSAGES = [
    {"id": "p/1", "title": "Skua", "text": "The ferry Skua was ordered by Ingrid Holm."},
    {"id": "p/2", "title": "Ingrid Holm", "text": "Ingrid Holm grew up in Molde."},
    {"id": "p/3", "title": "Bread", "text": "Bread rests overnight."},
]


def write(folder, passages, queries):
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, passages)), encoding="utf-8")
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")


def test_recall_is_counted_in_percent(tmp_path):
    """A question all of whose gold passages come first counts in full, one with half of them by half."""
    write(tmp_path, PASSAGES, [{"id": "1", "question": "Where did the one who ordered the Skua grow up?", "gold": ["p/1", "p/2"]},
                               {"id": "2", "question": "Does bread rest?", "gold": ["p/3", "p/2"]}])  # fmt: skip
    mix, words = asyncio.run(evaluate_retrieval(load_task(tmp_path), ["mix", "words"], "phrases", None, EngineOptions()))

    assert (mix["mode"], mix["questions"], mix["passages"]) == ("mix", 2, 3)
    assert mix["R@2"] >= 75
    assert mix["all@2"] >= 50
    assert words["R@8"] <= mix["R@8"]
    assert mix["skipped"] == mix["failures"] == 0


@pytest.mark.parametrize(
    ("passages", "queries", "message"),
    [
        ([], [], "is empty"),
        ([{"id": 1}], [], "line 1"),
        (PASSAGES + PASSAGES[:1], [{"question": "q", "gold": ["p/1"]}], "an id twice"),
        (PASSAGES, [{"question": "q", "gold": ["p/9"]}], "not all in corpus"),
    ],
)
def test_a_broken_task_is_named(tmp_path, passages, queries, message):
    """A file that cannot be used is refused in a sentence that names it."""
    write(tmp_path, passages, queries)

    with pytest.raises(UsageError, match=message):
        load_task(tmp_path)


def test_an_unknown_mode_is_refused(tmp_path):
    """The modes there are are named."""
    write(tmp_path, PASSAGES, [{"question": "q", "gold": ["p/1"]}])

    with pytest.raises(UsageError, match="no retrieval mode"):
        asyncio.run(evaluate_retrieval(load_task(tmp_path), ["best"], "phrases", None, EngineOptions()))
