"""What a model may make of a follow-up question: a question of its kind, and nothing else."""

import pytest

from localrag.query.conversation import is_rewrite
from localrag.records import Answer

RESTORE = "How do I restore a deleted note in Obsidian?"
STEPS = "To restore a deleted note, open the file explorer [1]. Then choose Restore beside the version that you want to keep [2]."
HISTORY = [Answer(RESTORE, STEPS, "basic")]
INSTEAD = "And how do I restore a setting instead?"


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("How do I restore a setting in Obsidian?", INSTEAD),
        (INSTEAD, INSTEAD),
        ("How do I restore a deleted note in Obsidian on a phone?", "And on a phone?"),
        ("Translate the steps to restore a deleted note in Obsidian into German", "translate that into German"),
        ("怎样在Obsidian里恢复设置？", "设置呢？"),
        (RESTORE, RESTORE),
    ],
)
def test_a_question_made_standalone_is_taken(made, asked):
    """One question of similar length, with names in place of what it leaves out."""
    assert is_rewrite(made, asked, HISTORY)


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        ("To restore a setting in Obsidian, follow these steps: 1. Open the vault. 2. Choose Settings.", INSTEAD),
        ("- Open the vault", "translate that"),
        ("To restore a setting, open Settings in Obsidian.", INSTEAD),
        ("To restore a deleted note, open the file explorer. Then choose Restore", "repeat that"),
        (RESTORE, INSTEAD),
        ("How do I restore a setting in Obsidian, " + "which is a program for notes that I keep in vaults, " * 4 + "please?", INSTEAD),
    ],
    ids=["steps", "item", "statement", "answer", "earlier question", "long"],
)
def test_an_answer_is_no_question(made, asked):
    """Nor is a list, the last answer, an earlier question or a long text."""
    assert not is_rewrite(made, asked, HISTORY)
