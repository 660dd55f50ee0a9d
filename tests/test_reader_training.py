"""The recipe of the reader (scripts/train/reader.py): examples, targets, its file; and a run of a few steps."""

import gzip
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scripts.train.judge import OLD_SETS
from scripts.train.reader_data import NONE, SETS, Examples, Marks, Question, Sets, Texts, encoded
from scripts.train.reader_model import Reader, Start, minilm, read_reader
from tests.conftest import run_module

pytestmark = pytest.mark.ci
CHECKPOINT = Path(__file__).resolve().parents[1] / "adapters" / "reader_e5.safetensors"
FILLING = "The harbour was quiet that year, and few ships came in before the winter storms. " * 30


def asked(question, passage, answer, **more):
    return Question(question, passage, "invented", ((answer, passage.index(answer)),), **more)


SPANS = [
    asked("Who built the lighthouse?", "The lighthouse of Skarn was built by Ada Quist in 1871.", "Ada Quist"),
    asked("When did the bank fail?", f"{FILLING}The Herring Bank failed in March 1907. {FILLING}", "March 1907"),
    asked("大灯塔是谁造的？", "大灯塔由王子于1871年造成。", "王子"),
]
PREMISE = "Ada Quist sold 40 boats to Olav Berg in 1871, after the storm."


@pytest.fixture(scope="module")
def start():
    """The bundled model's tokenizer, with a body of one layer by chance."""
    whole = minilm()
    shape = {**whole.shape, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    torch.manual_seed(0)
    from transformers import BertConfig, BertModel

    tensors = {n: p.detach().numpy() for n, p in BertModel(BertConfig(**shape), add_pooling_layer=False).named_parameters()}
    return replace(whole, shape=shape, tensors=tensors)


@pytest.fixture
def sets():
    clapnq = [Question("Who fished?", FILLING, "invented", answerable=False), Question("Who built it?", SPANS[0].passage, "invented")]
    return Sets(SPANS, [Question("Who sold boats?", PREMISE, "SQuAD")], clapnq, [])


@pytest.fixture
def texts(start, sets):
    found = Texts(start.tokenizer, start.marks)
    found.learn(sets.texts())
    return found


def made(sets, texts, seed=0):
    """The examples of an epoch, each with its tokens."""
    return [(e, encoded(e, texts)) for e in Examples(sets, texts, random.Random(seed)).epoch()]


def test_the_marked_tokens_are_the_answer(sets, texts, start):
    """Whatever window of the passage an example shows: in the middle of a long one, too, and in Chinese."""
    answers = {q.question: q.answers[0][0] for q in SPANS}
    seen = Counter()
    for seed in range(20):
        for e, read in made(sets, texts, seed):
            if e.answer not in (None, NONE):
                first, last = read.span
                said = start.tokenizer.decode(read.pair[0][first : last + 1].tolist()).replace(" ", "")
                assert said == answers[e.first].lower().replace(" ", "")
                seen[e.first] += 1

    assert min(seen[q.question] for q in SPANS) == 20


def test_the_kept_checkpoint_fits_the_model():
    """A reader of multilingual-e5-small's shape takes all of its tensors, and another model's are refused."""
    tensors, metadata = read_reader(CHECKPOINT)
    shape = {"vocab_size": 4, "hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536}
    shape |= {"max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12}
    from transformers import BertConfig, BertModel

    body = {n: p.detach().numpy() for n, p in BertModel(BertConfig(**shape), add_pooling_layer=False).named_parameters()}
    model = Reader(Start("e5", shape, None, Marks(0, 2, 1, 3), body, 1e-4)).take(tensors)

    assert torch.equal(model.span.weight, tensors["span.weight"])
    assert (metadata["encoder"], metadata["steps"], metadata["examples"]) == ("e5", "1703", "494453")
    assert metadata["sets"].split() == [*SETS, *OLD_SETS]
    with pytest.raises(ValueError, match="another model"):
        model.take({n: t for n, t in tensors.items() if "layer.11" not in n})


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def invented(folder):
    """A folder with every set, by a pattern: who founded the mill of whom, and when."""
    people = [f"{a} {b}" for a in ("Ada", "Olav", "Mira", "Karl") for b in ("Quist", "Berg", "Lund", "Vogt")]
    facts = [(p, f"founded the mill of {t}", 1800 + n) for n, (p, t) in enumerate(zip(people, people[::-1], strict=True))]
    texts = [f"In {year} {who} {did}. Nobody else was there." for who, did, year in facts]
    spans = [
        {"title": "Mills", "question": f"Who {did}?", "context": text, "answers": [who], "starts": [text.index(who)], "source": "invented"}
        for (who, did, _), text in zip(facts, texts, strict=True)
    ]
    ranked = [{"question": s["question"], "passage": s["context"], "source": "SQuAD"} for s in spans]
    judged = [{**r, "answerable": n % 4 < 2} for n, r in enumerate(ranked)]
    kinds = {"reader": spans, "rank": ranked, "clapnq": judged}
    for name in SETS:
        write(folder / "train" / f"{name}.jsonl.gz", kinds[name.split("_")[0]])
    write(folder / "qa_spans" / "xquad_en.jsonl", spans)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_training_goes_on_from_its_checkpoint(tmp_path):
    """A few steps on invented rows: what was measured is in the curve, a checkpoint goes on, another encoder's reader is refused."""
    invented(tmp_path / "data")
    few = ["--tokens", 2048, "--evals", 4, "--final", 8, "--minutes", 60, "--rate", 2e-2]
    where = [tmp_path / "data", tmp_path / "out"]
    run_module("scripts.train.reader", *where, *few, "--steps", 6)
    second = run_module("scripts.train.reader", *where, *few, "--steps", 20, "--resume", tmp_path / "out" / "checkpoint.pt")
    curve = json.loads((tmp_path / "out" / "curve.json").read_text(encoding="utf-8"))

    assert "checkpoint.pt: after 6 steps" in second
    assert {"em", "f1", "auc", "auc_rel"} <= curve[-1]["xquad_en"].keys()
    metadata = read_reader(tmp_path / "out" / "reader.safetensors")[1]
    assert (metadata["encoder"], metadata["steps"]) == ("minilm", "20")
    with pytest.raises(AssertionError, match="Give --encoder e5"):
        run_module("scripts.train.reader", *where, *few, "--resume", CHECKPOINT)
