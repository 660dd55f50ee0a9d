"""`localrag eval support`: its figures are right, its input is checked."""

import json

import pytest

from localrag.errors import UsageError
from localrag.eval.metrics import EntailmentCase, evaluate_entailment, load_cases
from localrag.query.attribution import Verdict
from localrag.records import RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE
from tests.conftest import run_localrag

ROWS = [
    {"source": "Ann sold the boat to Ben in 1971.", "sentence": "Ann sold the boat.", "supported": True, "kind": "shortened"},
    {"source": "Ann sold the boat to Ben in 1971.", "sentence": "Ann did not sell the boat.", "supported": False, "kind": "negation"},
    {"source": "Ann sold the boat to Ben in 1971.", "sentence": "Ann sold the boat in 1917.", "supported": False, "kind": "number"},
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.ci
def test_the_command_prints_one_object(tmp_path):
    """`--json` is one object with the shares, all together and by kind; without it a table; neither needs an index."""
    file = write(tmp_path / "rows.jsonl", ROWS)
    done = run_localrag("eval", "support", str(file), "--json", cwd=tmp_path)
    table = run_localrag("eval", "support", str(file), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    states = {label: [n for n in counts.values() if n] for label, counts in found.pop("states").items()}
    kinds = {kind: (row["rows"], row["kept"], row["refused"]) for kind, row in found.pop("by_kind").items()}
    assert found == {"kept": 1.0, "refused": 1.0, "precision": 1.0, "recall": 1.0}
    assert kinds == {"negation": (1, None, 1.0), "number": (1, None, 1.0), "shortened": (1, 1.0, None)}
    assert states == {"true": [1], "false": [2]}  # both false ones are contradicted
    assert all(state in table.stdout for state in ("supported", "related", "contradicted", "unsupported"))
    assert "100.0" in table.stdout
    assert "negation" in table.stdout


def test_shares_are_of_the_true_and_of_the_false_sentences():
    """kept counts true sentences, refused false ones, precision what is true among those kept; a share of nothing is None."""
    cases = [
        EntailmentCase("s", name, name.startswith("true")) for name in ("true 1", "true 2", "false 1", "false 2", "false 3", "false 4")
    ]
    kept = {"true 1", "false 1"}

    found = evaluate_entailment(cases, lambda sentence, *_: Verdict(SUPPORTED_STATE if sentence in kept else RELATED_STATE))

    assert (found["kept"], found["refused"], found["precision"], found["recall"], found["by_kind"]) == (0.5, 0.75, 0.5, 0.5, {})
    assert found["states"] == {
        "true": {"supported": 1, "related": 1, "contradicted": 0, "unsupported": 0},
        "false": {"supported": 1, "related": 3, "contradicted": 0, "unsupported": 0},
    }
    assert evaluate_entailment(cases[2:], lambda *_: Verdict(UNSUPPORTED_STATE))["precision"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (json.dumps(ROWS[0]) + "\nnot json", "line 2 is not JSON"),
        ("[1, 2]", "line 1 is not a JSON object"),
        (json.dumps({"source": "a", "sentence": "b"}), 'line 1 has no "supported"'),
        (json.dumps(ROWS[0] | {"supported": "yes"}), "line 1.*neither true nor false"),
        (json.dumps(ROWS[0] | {"sentence": " "}), 'line 1: "sentence" is not a text'),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path, text, message):
    """A file that cannot be measured is refused in a sentence that names the line."""
    file = tmp_path / "rows.jsonl"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match=message):
        load_cases(file)


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    """The command ends with 2 and says which file."""
    done = run_localrag("eval", "support", "none.jsonl", "--json", cwd=tmp_path)

    assert done.returncode == 2
    assert "none.jsonl" in done.stderr
