"""Reading gold annotation: what each format holds, and that every mention is where it says."""

import json

import pytest

from localrag.bench.tasks import GOLD_FOLDER
from localrag.errors import UsageError
from localrag.eval.datasets import append_jsonl, load_gold, read_jsonl
from tests.conftest import DATA

PLACES = {
    "conll04": "conll04_dev.json",
    "crossner": "crossner/ai-dev.txt",
    "litbank": "litbank",
    "redocred": "redocred_dev.json",
    "marked": GOLD_FOLDER / "paragraphs.md",
}


def test_bilou_and_bio_tags_become_mentions(tmp_path):
    """A run of tags is one mention, two adjacent ones are two; relations join mentions by number."""
    row = {
        "tokens": ["Anna", "Marsh", "runs", "Dover", "Lines", "."],
        "tags": ["B-Peop", "L-Peop", "O", "U-Loc", "U-Org", "O"],
        "relations": [{"head": 0, "tail": 2, "type": "Work_For"}],
        "orig_id": 1,
    }
    (tmp_path / "c.json").write_text(json.dumps([row]))
    (tmp_path / "n.txt").write_text("Anna\tB-person\nMarsh\tI-person\nDover\tB-location\n\nx\tO\n")

    (conll,) = load_gold(tmp_path / "c.json", "conll04")
    ner = load_gold(tmp_path / "n.txt", "crossner")[0]

    assert [conll.text[m.start : m.end] for m in conll.mentions] == ["Anna Marsh", "Dover", "Lines"]
    assert conll.relations == {frozenset(("0", "2"))}
    assert [(ner.text[m.start : m.end], m.type) for m in ner.mentions] == [("Anna Marsh", "person"), ("Dover", "location")]


@pytest.mark.ci
@pytest.mark.parametrize("form", PLACES)
def test_every_format_is_read_from_the_real_thing(form):
    """The public sets load; no mention is empty or beyond its text; most begin and end at a word."""
    path = DATA / "extraction" / PLACES[form]
    if not path.exists():
        pytest.skip(f"{path} is not there")

    documents = load_gold(path, form, limit=15, seed=3)

    assert len(documents) == 15
    assert [d.id for d in documents] == [d.id for d in load_gold(path, form, limit=15, seed=3)]
    for d in documents:
        assert d.text.strip()
        groups = {m.group for m in d.mentions}
        assert all(0 <= m.start < m.end <= len(d.text) and d.text[m.start : m.end].strip() for m in d.mentions)
        assert all(pair <= groups for pair in d.relations)
    assert any(d.mentions for d in documents)


def test_a_wrong_path_or_format_is_named(tmp_path):
    """What cannot be read says so, with what to do."""
    (tmp_path / "x.json").write_text("[1, 2]")
    with pytest.raises(UsageError, match="does not exist"):
        load_gold(tmp_path / "no", "conll04")
    with pytest.raises(UsageError, match="no format"):
        load_gold(tmp_path / "x.json", "xml")
    with pytest.raises(UsageError, match="not in the format"):
        load_gold(tmp_path / "x.json", "conll04")


def test_a_line_torn_by_a_crash_is_left_out(tmp_path):
    """A half-written last line is no row, and the next row stands on a line of its own."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": 1}\n{"a": ')
    with append_jsonl(file) as append:
        append({"a": 2})

    assert read_jsonl(file) == [{"a": 1}, {"a": 2}]
