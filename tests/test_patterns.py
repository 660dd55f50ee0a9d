"""Patterns that search untrusted text take at most quadratic time: each is tried on strings made to be slow for it."""

import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.entailment.comparison import _close_together
from tests.conftest import mostly_ci
from tests.patterns import is_steep, patterns

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a search cannot be interrupted here")

# Libraries in Python whose patterns search documents, questions and names.
LIBRARIES = (
    *("jieba", "textblob", "nltk.tokenize", "lemminflect", "html", "email", "csv", "json", "tomllib", "yaml"),
    *("pylatexenc", "xlrd", "olefile", "chardet", "defusedxml"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(.+?)\s*<[^<>]+>",
        *mostly_ci(
            [
                r"(?<=[^\d\s])(\.|∯)((\[(\d{1,3},?\s?-?\s?)*\b\d{1,3}\])+|((\d{1,3}\s?)?\d{1,3}))(\s)(?=[A-Z])",  # of pysbd
                r"\s*(?P<key>[^=!,\"']+?)\s*(?P<sign>!=|=)",
                r"V?[JN]+(?:V?[JN]+)*D[JN]*N",
                r"^(?:.+/)?[^/]*a[^/]*a[^/]*a[^/]*b$",
                r"(a|a)*b",
            ]
        ),
    ],
)
def test_a_pattern_of_cubic_or_exponential_time_is_found(pattern):
    """Among them are some that localrag and pysbd once had."""
    assert is_steep(re.compile(pattern))


@pytest.mark.parametrize("pattern", [r"\w+ = 1", r"\s+$", r"[^<]*<a[^>]*>", r"(?:a|b)*c", r"a*+a*+b", r"(?>(?:a+)+)b"])
def test_a_pattern_of_quadratic_time_at_most_is_not(pattern):
    """Nor one that possessive or atomic repetition makes linear."""
    assert not is_steep(re.compile(pattern))


def test_patterns_are_found_wherever_they_are_written(tmp_path, monkeypatch):
    """In a module, a class or a table, and where they are used, with what only a call knows left open."""
    source = 'import re\nA = re.compile("a1")\nB = {"x": [re.compile("b2")]}\nclass C:\n    D = re.compile("c3")\n\n\n'
    source += 'def f(x):\n    return re.sub("d4", "", x) or re.search(rf"e5{x}", x, re.I) or re.compile("|".join(["f6"]))\n'
    (tmp_path / "foreign_patterns.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)

    assert sorted((p.pattern, bool(p.flags & re.I)) for p in patterns("foreign_patterns").values()) == [
        *[("a1", False), ("b2", False), ("c3", False), ("d4", False), ("e5x", True), ("f6", False)]
    ]


def slow_patterns(*packages):
    """What `tests.patterns` says of packages, in a process of its own, so that a search that hangs fails this test only."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-W", "ignore", "-m", "tests.patterns", *packages]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=1200).stdout.splitlines()[-1])


@pytest.mark.ci
def test_no_pattern_of_the_package_takes_more_than_quadratic_time():
    """Every pattern, with strings derived from each of its repetitions, in three lengths."""
    result = slow_patterns("localrag")

    assert result["count"] > 300
    assert result["steep"] == {}


@pytest.mark.ci
def test_no_pattern_of_a_library_that_sees_documents_takes_more_than_quadratic_time():
    """They are searched in what anybody may have written."""
    result = slow_patterns(*LIBRARIES)

    assert result["count"] > 100
    assert result["steep"] == {}


def test_a_word_is_looked_for_with_gaps_in_linear_time():
    """The characters of a word close together in a text: the same as a regular expression finds by backtracking."""
    for seed in range(3000):
        draw = random.Random(seed)
        word, text = "".join(draw.choices("abc", k=draw.randint(2, 5))), "".join(draw.choices("abcd", k=draw.randint(0, 30)))
        found = re.search(".{0,2}?".join(word), text)
        assert _close_together(word, text)[0] == (found.start() if found else 0)
        assert (_close_together(word, text)[1] > 0) == (found is not None)

    code = "from localrag.entailment.comparison import _close_together; print(_close_together('a' * 60 + 'c', 'a' * 20_000))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout == "(0, 0)\n"
