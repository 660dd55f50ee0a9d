"""Thousands of questions to one opened index: memory does not grow with their number."""

import random
import shutil

import psutil
import pytest

from localrag.index import Index
from tests.conftest import TOWN

MODES = ("basic", "mix", "local", "auto")
WORDS = sorted({word.strip(".,") for text in TOWN.values() for word in text.split()})
GROWS = 8 << 20  # bytes from one half of the questions to the next; 2,000 questions took 1.1 MB more, of 657


def used_memory(index, questions, each):
    """Search and ask in turn, each question a different one; the bytes of this process after every `each` questions."""
    rng, process, found = random.Random(0), psutil.Process(), []
    for n in range(1, questions + 1):
        text = f"Who {' '.join(rng.sample(WORDS, 3))} in {rng.randrange(10_000)}?"
        if n % 2:
            assert index.search(text)
        else:
            assert index.ask(text, mode=MODES[n // 2 % len(MODES)], style="extractive").answer
        if n % each == 0:
            found.append(process.memory_info().rss)
    return found


@pytest.mark.slow
def test_memory_stays_flat_over_hundreds_of_questions(plain_town, tmp_path):
    """Once the first questions have filled the caches, memory does not grow; the answers are kept in the index."""
    with Index.open(shutil.copytree(plain_town, tmp_path / "town")) as index:
        used = used_memory(index, 600, 200)

    assert used[2] - used[1] < GROWS, used
