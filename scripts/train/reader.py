"""Train the reader: a small encoder that finds answers in passages, and says which passages are relevant.

    python -m scripts.train.reader DATA OUT --encoder minilm --minutes 3.2
    python -m scripts.train.reader DATA OUT --encoder e5 --minutes 5 [--resume FILE]

DATA holds the sets of `scripts/train/reader_data.py` in `train/`, and for measuring `qa_spans/`; what of the latter is not there
is not measured. OUT gets reader.safetensors (without the embeddings of words), curve.json, kept_pieces.npy (the ids of the
pieces that a trimmed vocabulary keeps) and, every few minutes, checkpoint.pt. `--resume` goes on from either: from checkpoint.pt where the
run stood, with the minutes that were left; from a reader.safetensors with its weights alone. Needs torch and transformers; a GPU is used
where there is one.
"""

import argparse
import json
import random
import re
import string
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from localrag.text.sentences import is_cjk
from scripts.train.reader_data import SETS, Batches, Examples, Question, Sets, Texts, load_sets, question, rows
from scripts.train.reader_model import STARTS, Reader, read, read_reader, vectors, write_reader

WARM = 200  # steps
LEAST_RATE = 0.02  # of the rate, at the end
SAVED_EVERY = 180.0  # seconds
SAID_EVERY = 200  # steps
SURE = 4.0  # log odds of an answer that is learned from
SPAN_SETS = ("xquad_en", "xquad_zh", "xquad_de", "xquad_es", "policyqa")
ALL = 1_000_000


def hard_negatives(model: Reader, texts: Texts, questions: Sequence[Question]) -> list[Question]:
    """The questions, each with up to eight passages of others that the model's own vectors find nearest and that have no answer."""
    passages = list(dict.fromkeys(q.passage for q in questions))
    known = vectors(model, texts, passages, texts.marks.passage)
    asked = vectors(model, texts, [q.question for q in questions])
    found = []
    for at in range(0, len(questions), 2048):
        near = (asked[at : at + 2048] @ known.T).topk(min(12, len(passages)), dim=1).indices.tolist()
        for q, places in zip(questions[at : at + 2048], near, strict=True):
            others = [passages[n] for n in places if passages[n] != q.passage]
            found.append(replace(q, hard=tuple(p for p in others if not q.is_answered_in(p))[:8]))
    return found


def loss_of(model: Reader, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The weighted losses of both heads, by example; a head learns nothing of examples that have no target for it."""
    ids, mask, types, starts, ends, relevant, weights = (t.to(model.device, non_blocking=True) for t in batch)
    span, relevance, _ = model(ids, mask, types)
    possible = (mask == 1) & (types == 1)
    possible[:, 0] = True  # where "none" is said
    span = span.masked_fill(~possible[:, :, None], -1e4)
    of = nn.functional
    has_span = starts >= 0
    first = of.cross_entropy(span[has_span, :, 0], starts[has_span], reduction="none")
    last = of.cross_entropy(span[has_span, :, 1], ends[has_span], reduction="none")
    loss = ((first + last) / 2 * weights[has_span]).sum()
    said = of.binary_cross_entropy_with_logits(relevance, relevant.float(), reduction="none")
    return (loss + (said * weights).sum()) / len(ids)


# Measuring; nothing of these sets is trained on.


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is measured: span questions of `DATA/qa_spans` with their titles, and the held-out half of CLAPnq."""

    spans: dict[str, list[tuple[str, Question]]]
    clapnq: list[Question]

    def texts(self) -> Iterator[str]:
        """Every text of it."""
        for q in (*self.clapnq, *(q for found in self.spans.values() for _, q in found)):
            yield from (q.question, q.passage)


def load_evaluation(data: Path, query: str, clapnq: list[Question]) -> Evaluation:
    """The sets for measuring that are there; span questions in an order by chance that is always the same."""
    spans = {}
    for name in SPAN_SETS:
        if (path := data / "qa_spans" / f"{name}.jsonl").exists():
            found = [(row["title"], question(row | {"source": name}, query)) for row in rows(path)]
            random.Random(5).shuffle(found)
            spans[name] = found
    missing = sorted({*SPAN_SETS} - {*spans})
    print("not there, and not measured:", ", ".join(missing) or "nothing", flush=True)
    return Evaluation(spans, clapnq)


def measure(model: Reader, texts: Texts, sets: Evaluation, most: int) -> dict[str, dict[str, float]]:
    """Scores of each set: of its first `most` questions."""
    found = {name: measure_spans(model, texts, asked[:most]) for name, asked in sets.spans.items()}
    readings, known = read(model, texts, sets.clapnq), [q.answerable for q in sets.clapnq]
    aucs = {"auc": [r.score for r in readings], "auc_rel": [r.relevance for r in readings]}
    found["clapnq"] = {"n": len(known), **{name: auc(known, scores) for name, scores in aucs.items()}}
    return found


def measure_spans(model: Reader, texts: Texts, asked: list[tuple[str, Question]]) -> dict[str, float]:
    """Exact match and F1 of answers; AUC of passages that answer against others, of any title and of the same one."""
    passages, of_title = list(dict.fromkeys(q.passage for _, q in asked)), defaultdict(list)
    for title, q in asked:
        of_title[title].append(q.passage)
    others, same, rng = [], [], random.Random(5)
    for n, (title, q) in enumerate(asked):
        turned = passages[n % len(passages) :] + passages
        others.append(replace(q, passage=next((p for p in turned if p not in of_title[title]), passages[0])))
        near = [p for p in dict.fromkeys(of_title[title]) if p != q.passage and not has_answer(p, q)]
        same += [replace(q, passage=rng.choice(near))] if near else []
    right = read(model, texts, [q for _, q in asked])
    golds = [[answer for answer, _ in q.answers] for _, q in asked]
    exact = [max(plain(r.answer) == plain(g) for g in gold) for r, gold in zip(right, golds, strict=True)]
    f1s = [max(f1(r.answer, g, is_cjk(q.passage)) for g in gold) for r, gold, (_, q) in zip(right, golds, asked, strict=True)]
    found = {"n": len(asked), "em": round(100 * float(np.mean(exact)), 1), "f1": round(100 * float(np.mean(f1s)), 1)}
    for name, wrong in (("", read(model, texts, others)), ("_same_title", read(model, texts, same))):
        if wrong:
            known = [True] * len(right) + [False] * len(wrong)
            found[f"auc{name}"] = auc(known, [r.score for r in (*right, *wrong)])
            found[f"auc_rel{name}"] = auc(known, [r.relevance for r in (*right, *wrong)])
    return found


def auc(known: Sequence[bool], scores: Sequence[float]) -> float:
    return round(float(roc_auc_score(known, scores)), 3)


def plain(text: str) -> str:
    """A text without case, punctuation and articles (SQuAD, Rajpurkar et al. 2016)."""
    lower = unicodedata.normalize("NFKC", text).lower()
    bare = "".join(c for c in lower if c not in string.punctuation and not unicodedata.category(c).startswith("P"))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def f1(answer: str, gold: str, by_character: bool) -> float:
    """The F1 of an answer's words, or characters."""
    said, wanted = (list(plain(t).replace(" ", "")) if by_character else plain(t).split() for t in (answer, gold))
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted)) if common else float(said == wanted)


def has_answer(passage: str, q: Question) -> bool:
    return any(plain(answer) in plain(passage) for answer, _ in q.answers)


# Training.


class Clock:
    """Seconds of training, without those in which it is stopped."""

    def __init__(self, before: float) -> None:
        self._from = time.monotonic() - before

    def seconds(self) -> float:
        return time.monotonic() - self._from

    @contextmanager
    def stopped(self) -> Iterator[None]:
        at = time.monotonic()
        yield
        self._from += time.monotonic() - at


@dataclass(slots=True)
class Progress:
    """How far a run has come; `earlier_` counts what the weights that it started from had seen."""

    steps: int = 0
    examples: int = 0
    epochs: int = 0
    seconds: float = 0.0
    earlier_steps: int = 0
    earlier_examples: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a run goes on from; a reader's file alone has no optimizer."""

    tensors: dict[str, torch.Tensor]
    progress: Progress
    optimizer: dict[str, Any] | None = None


def resumed(path: Path, encoder: str) -> Resumed:
    """The checkpoint, or reader, at a path. Exits where it was trained from another encoder."""
    if path.suffix == ".safetensors":
        tensors, kept = read_reader(path)
        steps, examples = (int(kept.get(name, 0)) for name in ("steps", "examples"))
        found = Resumed(tensors, Progress(earlier_steps=steps, earlier_examples=examples))
    else:
        kept = torch.load(path, map_location="cpu", weights_only=True)
        found = Resumed(kept["model"], Progress(**kept["progress"]), kept["optimizer"])
    if kept.get("encoder") != encoder:
        raise SystemExit(f"{path} was trained from {kept.get('encoder')}, not from {encoder}. Give --encoder {kept.get('encoder')}.")
    print(f"{path.name}: after {found.progress.earlier_steps + found.progress.steps} steps", flush=True)
    return found


class Training:
    """A reader in training, and what OUT holds of it; `before` is what it goes on from."""

    def __init__(
        self, model: Reader, args: argparse.Namespace, rate: float, measured: Callable[[int], dict[str, Any]], before: Resumed | None
    ) -> None:
        self.model, self.args, self.rate, self.progress, self._measured = model, args, rate, Progress(), measured
        self._weights = [p for p in model.parameters() if p.requires_grad]
        on_gpu = model.device.type == "cuda"
        self._optimizer = torch.optim.AdamW(self._weights, lr=rate, weight_decay=0.01, betas=(0.9, 0.98), fused=on_gpu)
        if before is not None:
            self.progress = before.progress
            model.take(before.tensors)
            if before.optimizer is not None:
                self._optimizer.load_state_dict(before.optimizer)
        self.clock, self._saved = Clock(self.progress.seconds), time.monotonic()

    def share(self) -> float:
        """How much of the time, or of the steps, is over."""
        return max(self.clock.seconds() / (60 * self.args.minutes), self.progress.steps / self.args.steps)

    def run(self, epoch: Callable[[int, bool], Batches]) -> None:
        """Train to the end; `epoch` makes an epoch's batches, with the reader's own answers or without them."""
        while self.share() < 1:
            batches = epoch(self.progress.epochs, self.progress.epochs > 0 and self.share() > 0.5)
            self.model.train()
            workers = self.args.workers
            loader = torch.utils.data.DataLoader(batches, None, num_workers=workers, prefetch_factor=8 if workers else None)
            for batch in loader:
                self._learn(batch)
                if self.share() >= 1:
                    break
                if time.monotonic() - self._saved > SAVED_EVERY:
                    self.save()
            self.progress.epochs += 1
            if self.share() < 1:
                self.measure(f"epoch {self.progress.epochs}", self.args.evals)
        self.save()
        self.measure("end", ALL)
        self.save()

    def _learn(self, batch: tuple[torch.Tensor, ...]) -> None:
        done = self.progress
        for group in self._optimizer.param_groups:
            group["lr"] = self.rate * min(1, (done.steps + 1) / WARM) * max(LEAST_RATE, 1 - self.share())
        loss = loss_of(self.model, batch)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._weights, 1.0)
        self._optimizer.step()
        done.steps += 1
        done.examples += len(batch[0])
        if done.steps % SAID_EVERY == 0 or done.steps in (1, self.args.steps):
            said = f"step {done.steps} loss {loss.item():.3f} examples {done.examples}"
            print(f"{said}, {100 * self.share():.0f} % over, {self.clock.seconds():.0f} s", flush=True)

    def measure(self, label: str, most: int) -> None:
        """Add the scores to the curve, and tell them; the time that it takes does not count."""
        seconds = round(self.clock.seconds())
        with self.clock.stopped():
            scores = self._measured(min(most, self.args.final))
        self.progress.curve.append({"at": label, "seconds": seconds, **scores})
        (self.args.out / "curve.json").write_text(json.dumps(self.progress.curve, indent=1), encoding="utf-8")
        print(label, json.dumps(scores), flush=True)

    def save(self) -> None:
        """Write the checkpoint and the reader; a process that is killed leaves the last ones whole."""
        done = self.progress
        done.seconds, tensors = self.clock.seconds(), self.model.trained()
        state = {"encoder": self.args.encoder, "model": tensors, "optimizer": self._optimizer.state_dict(), "progress": asdict(done)}
        part = self.args.out / "checkpoint.part"
        torch.save(state, part)
        part.replace(self.args.out / "checkpoint.pt")
        steps, examples = done.earlier_steps + done.steps, done.earlier_examples + done.examples
        metadata = {"encoder": self.args.encoder, "seed": self.args.seed, "steps": steps, "examples": examples, "sets": " ".join(SETS)}
        write_reader(self.args.out / "reader.safetensors", tensors, metadata)
        self._saved = time.monotonic()


def self_labelled(model: Reader, texts: Texts, questions: Sequence[Question]) -> list[Question]:
    """SQuAD's sentences, of which only the question is known, with the answers that the reader is sure of."""
    asked = [q for q in questions if q.source.startswith("SQuAD")]
    found = []
    for q, reading in zip(asked, read(model, texts, asked), strict=True):
        if reading.score > SURE and reading.answer:
            found.append(replace(q, answers=((reading.answer, q.passage.index(reading.answer)),), source="self-labelled"))
    print(f"self-labelled {len(found)} of {len(asked)}", flush=True)
    return found


def train(
    model: Reader, texts: Texts, sets: Sets, evaluation: Evaluation, args: argparse.Namespace, rate: float, before: Resumed | None
) -> None:
    """Train a reader on the sets; hard negatives are found with the vectors that it starts from."""
    sets = replace(sets, spans=hard_negatives(model, texts, sets.spans), ranked=hard_negatives(model, texts, sets.ranked))
    examples = Examples(sets, texts, random.Random(args.seed))
    training = Training(model, args, rate, lambda most: measure(model, texts, evaluation, most), before)
    labelled: list[Question] = []

    def epoch(number: int, with_own: bool) -> Batches:
        if with_own and not labelled:
            with training.clock.stopped():
                labelled.extend(self_labelled(model, texts, sets.ranked))
        found = examples.epoch(labelled)
        batches = Batches(found, texts, tokens=args.tokens, seed=args.seed + number)
        print(f"epoch {number}: {len(found)} examples, {len(batches)} steps", flush=True)
        return batches

    training.run(epoch)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--encoder", choices=sorted(STARTS), default="minilm")
    parser.add_argument("--resume", type=Path, help="checkpoint.pt or reader.safetensors")
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, without measuring")
    parser.add_argument("--steps", type=int, default=ALL, help="at most")
    parser.add_argument("--rate", type=float, help="learning rate, if not the encoder's own")
    parser.add_argument("--tokens", type=int, default=32_768, help="of a step, padding included")
    parser.add_argument("--limit", type=int, help="rows of each kind of set")
    parser.add_argument("--evals", type=int, default=400, help="questions of each set that are measured after an epoch")
    parser.add_argument("--final", type=int, default=ALL, help="and at the end")
    parser.add_argument("--workers", type=int, default=6 if torch.cuda.is_available() else 0, help="processes that make batches")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    before = resumed(args.resume, args.encoder) if args.resume else None
    start = STARTS[args.encoder]()
    texts = Texts(start.tokenizer, start.marks)
    sets = load_sets(args.data, start.marks.query, random.Random(args.seed), args.limit)
    evaluation = load_evaluation(args.data, start.marks.query, sets.held_out)
    texts.learn((*sets.texts(), *evaluation.texts()))
    kept = None
    if args.encoder == "e5":  # of its 250,000 pieces the sets have a fifth
        texts.learn([start.marks.passage])
        kept = texts.trim()
        np.save(args.out / "kept_pieces.npy", kept)
    model = Reader(start, kept).to("cuda" if torch.cuda.is_available() else "cpu")
    counts = f"{len(sets.spans)} span questions, {len(sets.ranked)} with a passage"
    print(f"{counts}; vocabulary of {len(model.bert.embeddings.word_embeddings.weight)}", flush=True)
    train(model, texts, sets, evaluation, args, args.rate or start.rate, before)


if __name__ == "__main__":
    main()
