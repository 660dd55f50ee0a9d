"""The recipe of the judge (scripts/train/judge.py): which rows it learns from, and a run of a few steps."""

import gzip
import hashlib
import json
import random
from collections import Counter

import pytest

from scripts.train.judge import CLASSES, NOT_ENTAILED, OLD_SETS, READER, encoded, judge_of, labelled_rows, load_pairs
from scripts.train.reader_model import read_reader
from tests.conftest import run_module

pytestmark = pytest.mark.ci
LABELS = ("entailment", "neutral", "contradiction")


def line_of(n, **more):
    row = {"premise": f"The mill of Lund has {n:04} wheels.", "hypothesis": f"Lund has a mill of {n} wheels.", "label": LABELS[n % 3]}
    return json.dumps(row | {"source": "invented"} | more)


@pytest.fixture
def data(tmp_path):
    """Every set with forty invented rows; the first of each old set is listed as measured elsewhere."""
    sets = {f"train/{name}": [line_of(n + 100 * k) for n in range(40)] for k, name in enumerate(OLD_SETS)}
    sets["train2/nli_hans"] = [line_of(n + 1000, licence_group="permissive") for n in range(40)]
    sets["train2/nli_lingnli"] = [line_of(n + 2000, licence_group="unstated") for n in range(40)]
    for name, lines in sets.items():
        path = tmp_path / "data" / f"{name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    listed = [f"{name}.jsonl.gz\t{hashlib.sha1(sets[f'train/{name}'][0].encode()).hexdigest()[:16]}" for name in OLD_SETS]
    (tmp_path / "data" / "train2" / "drop_from_train.txt").write_text("# listed\n" + "\n".join(listed) + "\n", encoding="utf-8")
    return tmp_path / "data"


def test_no_row_that_is_measured_is_learned_from(data):
    """Rows that are listed are in neither part; no premise is in both."""
    premises = {group: {row["premise"] for _, row in labelled_rows(data, group)} for group in ("train", "kept")}

    assert not premises["train"] & premises["kept"]
    assert not {f"The mill of Lund has {100 * k:04} wheels." for k in range(len(OLD_SETS))} & (premises["train"] | premises["kept"])
    assert len(premises["train"] | premises["kept"]) == 5 * 40 - len(OLD_SETS)


def test_sets_without_a_stated_licence_are_left_out(data):
    """Unless they are asked for; a set of two classes says only that nothing follows."""
    stated, every = ({p: label for p, _, label in load_pairs(data, random.Random(1), unstated=u)} for u in (False, True))

    assert not any(" 20" in premise for premise in stated)
    assert any(" 20" in premise for premise in every)
    of_two = {label for premise, label in stated.items() if " 10" in premise}
    assert NOT_ENTAILED in of_two
    assert CLASSES["neutral"] not in of_two


def test_premises_about_something_else_say_nothing():
    """Beside its own premise, a tenth of the hypotheses have other sentences, up to the longest that is read: neither one nor the other."""
    _, texts = judge_of()
    pairs = [
        (f"The mill of Lund has {n} wheels and stands on the left bank.", f"Lund has {n} mills.", CLASSES["entailment"]) for n in range(200)
    ]
    texts.learn(t for p, h, _ in pairs for t in (p, h))
    labels = Counter((label, len(ids) > 60) for (ids, _), label in encoded(texts, pairs, random.Random(3)))

    assert labels[CLASSES["entailment"], False] + labels[CLASSES["entailment"], True] == 200
    assert 10 < labels[CLASSES["neutral"], False] + labels[CLASSES["neutral"], True] < 32
    assert labels[CLASSES["neutral"], True]


@pytest.mark.timeout(600)
def test_the_lower_layers_and_other_heads_stay_the_readers(data, tmp_path):
    """A run of a step writes upper layers and one head; a second run goes on from its checkpoint."""
    out = tmp_path / "out"
    run_module("scripts.train.judge", data, out, "--minutes", 0.001)
    run_module("scripts.train.judge", data, out, "--minutes", 5, "--steps", 2, "--resume", out / "checkpoint.pt")
    tensors, metadata = read_reader(out / "judge.safetensors")
    layers = {int(name.split(".")[3]) for name in tensors if name.startswith("bert.encoder.layer.")}

    assert layers == set(range(6, 12))
    assert {name.split(".")[0] for name in tensors} == {"bert", "nli"}
    assert tensors.keys() < read_reader(READER)[0].keys()
    assert metadata["steps"] == "2"
    assert len(json.loads((out / "curve.json").read_text(encoding="utf-8"))) == 3
