"""Conditions on documents as they are written: what is read, and what each error names."""

import subprocess
import sys
from contextlib import suppress
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrag.errors import UsageError
from localrag.filters import (
    DocumentFilter,
    FilterCondition,
    day_from_metadata,
    day_of_file,
    matches_path,
    parse_collection_names,
    parse_day,
    parse_filter,
    suffix_of,
    suffixes_of_type,
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", []),
        ("path=contracts/*", ["path=contracts/*"]),
        ('path=a/*,after=2024-01-01,type=pdf,meta.author="A. Holm"', ["path=a/*", "after=2024-01-01", "type=pdf", "meta.author=A. Holm"]),
        ('meta.author="Holm, A.",meta.author=\'Sand, "R."\'', ['meta.author="Holm, A."', r'meta.author="Sand, \"R.\""']),
        ("meta.author=O'Brien", ['meta.author="O\'Brien"']),
        ("meta.Created By!=x", ["meta.Created By!=x"]),
        ("PATH!=合同/**,Meta.作者=王海明", ["path!=合同/**", "meta.作者=王海明"]),
        ("meta.note=a=b", ["meta.note=a=b"]),
    ],
)
def test_conditions_are_read(text, read):
    """Keys and signs in any spacing, values bare or in either kind of quotes, dates down to their first day."""
    assert [str(c) for c in parse_filter(text)] == read


@pytest.mark.parametrize(
    ("text", "names", "hint"),
    [
        ("pth=a", "'pth'", "Did you mean path?"),
        ("path=a,b", "'b' is not a condition", "must be quoted"),
        ("path=", "'path=' has no value", "--filter"),
        ('meta.author="Holm', 'does not end with "', "--filter"),
        ("after=yesterday", "'yesterday' is not a date", "2024-03-31"),
        ("type=pdf,before=2024-02-30", "'before=2024-02-30': '2024-02-30' is not a date", "2024-03-31"),
        ("after!=2024", "'after!=2024'", "before="),
        ("=x", "not a condition", "Keys: path, type, after, before, meta.KEY"),
        ("path=" + "a" * 10_000, "10000 at most are read", "collection"),
    ],
)
def test_an_error_names_the_condition(text, names, hint):
    """And the keys that there are, or what to write."""
    with pytest.raises(UsageError) as wrong:
        parse_filter(text)
    assert names in str(wrong.value)
    assert hint in wrong.value.hint


@given(st.lists(st.tuples(st.sampled_from(["path", "meta.author", "meta.Created By"]), st.text(min_size=1), st.booleans()), max_size=4))
def test_what_is_written_is_read_back(wanted):
    """Any value, once it is quoted where that is needed."""
    conditions = tuple(FilterCondition(key, value, no) for key, value, no in wanted if value.strip())
    assert parse_filter(",".join(map(str, conditions))) == conditions


@given(st.text())
def test_any_text_is_read_or_refused(text):
    """Nothing but a UsageError is raised."""
    try:
        parse_filter(text)
    except UsageError as wrong:
        assert wrong.hint


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        ("a", ["a", "a/b.md", "a/c/d.md"], ["ab", "b/a", "ab/c"]),
        ("a/*", ["a/b.md", "a/.b"], ["a", "a/c/d.md"]),
        ("a/**", ["a/b.md", "a/c/d.md"], ["ab/c"]),
        ("**/d.md", ["d.md", "a/d.md", "a/c/d.md"], ["a/bd.md", "d.md/e"]),
        ("a/**/d.md", ["a/d.md", "a/b/c/d.md"], ["b/d.md"]),
        ("notes [2031].md", ["notes [2031].md", "a/notes [2031].md"], ["notes 2.md"]),
        ("a/b?.[md]", ["a/b1.[md]"], ["a/b.[md]", "a/b1.m"]),
        ("合同/*", ["合同/甲.md"], ["合同书/甲.md"]),
        ("caf\u00e9/*", ["cafe\u0301/a.md"], ["cafe/a.md"]),
        (".", ["a", "a/b"], []),
        ("d.md", ["d.md", "a/b/d.md"], ["a/d.md.txt", "d.md.d"]),
        ("d.md/", ["d.md/e"], ["a/d.md"]),
    ],
)
def test_patterns_of_paths(pattern, fits, others):
    """`*` stays in a folder, `**` does not; without either it is a file or a folder, and a name with a suffix a file in any folder;
    accents fit however they are written."""
    assert [p for p in (*fits, *others) if matches_path(p, pattern)] == fits


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_pattern_fits_or_not(path, pattern):
    """No pattern raises anything but a UsageError, and every path fits itself unless it has wild cards."""
    with suppress(UsageError):
        matches_path(path, pattern)
    if not set("*?") & set(path):
        assert matches_path(path, path) or path.endswith("/") or path.startswith("./")


@given(st.text("ab.", max_size=12), st.lists(st.sampled_from(["a", "b", ".", "*", "?"]), max_size=8))
def test_a_name_fits_a_pattern_as_pythons_fnmatch_has_it(name, parts):
    """Within one folder the wildcards mean the same as in fnmatch."""
    pattern = "".join(parts)
    if set("*?") & set(pattern) and "**" not in pattern and not pattern.startswith("./"):
        assert matches_path(name, pattern) == fnmatchcase(name, pattern)


@pytest.mark.parametrize("pattern", ["docs/*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?zz", "**/*a" * 40 + "z", "*a" * 4000 + "z"])
def test_a_pattern_of_many_wild_cards_is_matched_in_the_time_of_a_short_one(pattern):
    """Matched in another process, because a search cannot be interrupted."""
    code = (
        "import sys; from localrag.filters import matches_path; print([matches_path('docs/' + 'a' * 250, sys.argv[1]) for _ in range(20)])"
    )
    assert "False" in subprocess.run([sys.executable, "-c", code, pattern], check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_condition_of_blanks_is_read_in_the_time_of_a_short_one():
    """At the longest length that is allowed, with the blanks in every place."""
    code = (
        "from localrag.filters import *\nfor t in (' ' * 9999, 'path=a,' + ' ' * 9000, 'path' + ' ' * 9000, 'path=' + ' ' * 9000 + '\"'):\n"
    )
    code += "    try: print(parse_filter(t))\n    except UsageError as error: print(error)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)


def test_types():
    """A family stands for its suffixes, any other word for itself; a hidden file has none."""
    assert suffixes_of_type("word") == ("docx", "docm", "dotx", "dotm", "doc", "dot", "odt", "ott", "fodt", "rtf")
    assert suffixes_of_type("pdf") == ("pdf",)
    assert [suffix_of(p) for p in ("a/B.PDF", "a.tar.gz", "a/.env", "README", "a.b/c")] == ["pdf", "gz", "", "", ""]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-03-01T10:00:00Z", "2024-03-01"),
        ("D:20240301120000+01'00'", "2024-03-01"),
        ("March 3, 2024", "2024-03-03"),
        ("Mon, 3 Mar 2024 10:00:00 +0100", "2024-03-03"),
        ("2024年3月1日", "2024-03-01"),
        ("2024", "2024-01-01"),
        ("3/4/2024", ""),
        ("2024-13-01", ""),
        ("soon", ""),
        ("", ""),
    ],
)
def test_the_day_of_a_text(text, day):
    """In the forms that files have; what may be one day or another is none."""
    assert parse_day(text) == day


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("minutes/2019-03-02 board.md", "2019-03-02"),
        ("2019-03-02/2020-01-05.txt", "2020-01-05"),
        ("scan20240301.pdf", "2024-03-01"),
        ("Minutes March 2019.docx", "2019-03-01"),
        ("budget 1974.csv", "1970-01-02"),
        ("2019-13-40.txt", "1970-01-02"),
    ],
)
def test_the_day_of_a_file(path, day):
    """In its name or its folder's, if there is a month; otherwise it is the file's."""
    assert day_of_file(path, 86_400 * 1.5) == (day, "file" if day.startswith("1970") else "name")


def test_the_day_of_metadata():
    """`date` comes before `published`; what names no day is passed over."""
    assert day_from_metadata([("Published", "2020-01-02"), ("date", "2021-01-02")]) == "2021-01-02"
    assert day_from_metadata([("Published", "2020-01-02"), ("date", "soon")]) == "2020-01-02"
    assert day_from_metadata([("author", "2020")]) == ""


def test_names_of_collections():
    """Several with commas; what would not fit a list or the name of a model is refused."""
    assert parse_collection_names(" a, 合同 ,a,") == ("a", "合同")
    for bad in ("a/b", "a:b", 'a"', "x" * 101, "a\tb"):
        with pytest.raises(UsageError, match="cannot be the name"):
            parse_collection_names(bad)


def test_a_selection_says_what_it_is():
    """As a person reads it."""
    assert str(DocumentFilter("path=a", ("x", "y"))) == "path=a in collection x or y"
    assert str(DocumentFilter("", ("x",))) == "collection x"
    assert not DocumentFilter(" ")
