"""Patterns that search untrusted text take time in proportion to its length: each is tried on strings made to be slow for it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import mostly_ci
from tests.patterns import LINEAR, QUADRATIC, is_steep, main_process_modules, patterns

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a search cannot be interrupted here")

# Libraries in Python whose patterns search documents, questions and names.
LIBRARIES = (
    *("jieba", "textblob", "nltk.tokenize", "lemminflect", "html", "email", "csv", "json", "tomllib", "yaml"),
    *("pylatexenc", "xlrd", "olefile", "chardet", "defusedxml"),
)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s+$",
        *mostly_ci(
            [
                r"\w+ = 1",
                r"[^<]*<a[^>]*>",
                r"(?:a|b)*c",
                r"(?>(?:a+)+)b",
                r"a*+a*+b",
                r"(?m)^(\s*)(#|>)",
                r"x(?=[^\n]*y)",
                r"import \{([^}]*)\} from",
                r"(?i:ﬀ+[[:^alpha:]]*)x|[a-c]+(?<=b)z",
                r"\\(input|include|usepackage)\s*(?:\[[^\[\]]{0,200}\])?\s*\{([^{}\n]{1,200})\}",
                r"(.+?)\s*<[^<>]+>",
                r"(?<=[^\d\s])(\.|∯)((\[(\d{1,3},?\s?-?\s?)*\b\d{1,3}\])+|((\d{1,3}\s?)?\d{1,3}))(\s)(?=[A-Z])",  # of pysbd
                r"\s*(?P<key>[^=!,\"']+?)\s*(?P<sign>!=|=)",
                r"V?[JN]+(?:V?[JN]+)*D[JN]*N",
                r"^(?:.+/)?[^/]*a[^/]*a[^/]*a[^/]*b$",
                r"(a|a)*b",
            ]
        ),
    ],
)
def test_a_pattern_that_takes_more_than_linear_time_is_found(pattern):
    """Quadratic, cubic or exponential; among them are some that localrag and pysbd once had."""
    assert is_steep(re.compile(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\w+", r"(?<!\s)\s+$", r"(?<!\w)\w+ = 1", r"<a[^<>]*>", r"(?<![ab])(?:a|b)*+c", r"\bab*+c", r"(?m)^([^\S\n]*)#"),
        *(r"x(?=[^\nx]*y)", r"[^\n]*", r"a{0,50}b", r'"((?:[^"\\]|\\.)*)"|\\.', r"(?<!a)(?:a+b)+"),
    ],
)
def test_a_pattern_of_linear_time_is_not(pattern):
    """Nor one that an assertion, or a possessive repetition, makes linear."""
    assert not is_steep(re.compile(pattern))


def test_a_pattern_that_only_matches_is_not_tried_at_each_start():
    """But a text may still be split in it in many ways."""
    assert not is_steep(re.compile(r"\s+x"), frozenset({"match", "fullmatch"}))
    assert is_steep(re.compile(r"\s*y?\s*x"), frozenset({"match"})).startswith("match")


def test_the_square_passes_where_that_is_allowed():
    """As for what the confined process reads, which has a deadline."""
    assert not is_steep(re.compile(r"\w+ = 1"), power=QUADRATIC)
    assert is_steep(re.compile(r"\s*\s*\s*x"), power=QUADRATIC)


def test_patterns_are_found_wherever_they_are_written(tmp_path, monkeypatch):
    """In a module, a class or a table, and where they are used, with what only a call knows left open; each with its uses."""
    source = 'import re\nA = re.compile("a1")\nB = {"x": [re.compile("b2")]}\nclass C:\n    D = re.compile("c3")\n\n\n'
    source += 'def f(x):\n    return re.sub("d4", "", x) or re.search(rf"e5{x}", x, re.I) or re.compile("|".join(["f6"]))\n'
    source += 'def g(x):\n    h = re.compile(f"g7{x}")\n    return A.match(x) or h.fullmatch(x)\n\n\n'
    source += 'def h(x):\n    return re.compile("h8").fullmatch(x) or re.match("i9", x)\n'
    (tmp_path / "foreign_patterns.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import foreign_patterns

    assert sorted((p.pattern, bool(p.flags & re.I), *uses) for p, uses in patterns([foreign_patterns]).values()) == [
        *[("a1", False, "match"), ("b2", False, "finditer"), ("c3", False, "finditer"), ("d4", False, "finditer")],
        *[
            ("e5x", True, "finditer"),
            ("f6", False, "finditer"),
            ("g7x", False, "fullmatch"),
            ("h8", False, "fullmatch"),
            ("i9", False, "match"),
        ],
    ]


@pytest.mark.ci
def test_parsers_are_no_modules_of_the_main_process():
    """The confined process loads them by name; what reads a file before it gets it, and what it sends, is of the main one."""
    found = {name.removeprefix("localrag.") for name in main_process_modules()}

    assert found > {"loaders.reader", "loaders.latex_inputs", "loaders.containers", "loaders.parser_process", "text.markdown", "index"}
    assert found.isdisjoint({"loaders.html", "loaders.pdf", "loaders.latex", "loaders.mail", "loaders.quote_boxes"})


def slow_patterns(power, *packages):
    """What `tests.patterns` says of packages, in a process of its own, so that a search that hangs fails this test only."""
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-W", "ignore", "-m", "tests.patterns", str(power), *packages]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=1200).stdout.splitlines()[-1])


@pytest.mark.ci
def test_no_pattern_of_the_main_process_takes_more_than_linear_time():
    """It has no deadline, and `re` cannot be interrupted; with the patterns of dates in words, which are made when needed."""
    result = slow_patterns(LINEAR)

    assert result["count"] > 400
    assert result["steep"] == {}


@pytest.mark.ci
def test_no_pattern_of_a_parser_takes_more_than_quadratic_time():
    """They run in the confined process, which is ended at its deadline."""
    result = slow_patterns(QUADRATIC, "localrag.loaders")

    assert result["count"] > 100
    assert result["steep"] == {}


@pytest.mark.ci
def test_no_pattern_of_a_library_that_sees_documents_takes_more_than_quadratic_time():
    """They are searched in what anybody may have written."""
    result = slow_patterns(QUADRATIC, *LIBRARIES)

    assert result["count"] > 100
    assert result["steep"] == {}
