"""Train the judge: what a premise says of a hypothesis, by the upper layers of the reader's encoder, copied and trained for that alone.

    python -m scripts.train.judge DATA OUT --minutes 100 [--resume FILE] [--unstated]

DATA holds `train/` and `train2/` with `drop_from_train.txt`, the rows that stand in sets which are measured; `judge_eval/dev` and
`support/` are measured where they are there. The lower LAYERS_KEPT layers stay the reader's own, so its other heads are what they were.
OUT gets judge.safetensors, curve.json and, every few minutes, checkpoint.pt, from which `--resume` goes on; it also goes on from a
judge.safetensors, with its weights alone. The rate is level and falls in the last fifth, so a run may be stopped early: a file OUT/finish
begins that last part. `--unstated` adds the sets whose licence nobody stated; what is shipped is trained without them.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from localrag.engine.embedder import has_bfloat16
from scripts.train.reader import auc
from scripts.train.reader_data import Ids, Texts, of_equal_length, rows
from scripts.train.reader_model import Reader, e5, logits, read_reader, windows, write_reader
from scripts.train.splits import part

LAYERS_KEPT = 6  # of 12, from below
ROOT = Path(__file__).resolve().parents[2]
READER = ROOT / "adapters" / "reader_e5.safetensors"
SUPPORT = ROOT / "tests" / "data" / "support"
ENTAILMENT, CONTRADICTION, NEUTRAL, NOT_ENTAILED = range(4)  # the last is said by sets of two classes: one of the two before it
CLASSES = {"entailment": ENTAILMENT, "contradiction": CONTRADICTION, "neutral": NEUTRAL, "not_entailment": NOT_ENTAILED}
# How much of each set is used in an epoch, by the beginning of its source or the name of its file; what is not named is used whole.
SHARES = {
    **{"made/": 0.25, "DNC": 0.1, "nli_snli": 0.2, "nli_hans": 0.2, "nli_med": 0.2, "nli_help": 0.2, "nli_breaking": 0.2},
    **{"nli_lingnli": 0.7, "nli_scitail": 0.2, "nli_climate": 0.2, "nli_healthver": 0.2, "made_joined": 0.5},
}
TWO_CLASSES = ("nli_scitail", "nli_hans", "nli_begin", "nli_help", "nli_med")  # whose "neutral" is anything but entailed
OLD_SETS = ("nli_en_clear", "nli_made_of_qa", "nli_zh_made_of_qa")
LONGEST, HYPOTHESIS = 200, 90  # tokens
AMONG_OTHERS = 0.3  # of short premises stand among sentences of others
ABOUT_OTHERS = 0.1  # of hypotheses are learned a second time, with sentences about something else, which say nothing of them
BATCH_TOKENS, WARM, LAST = 3072, 100, 0.2
MEASURED_EVERY, SAVED_EVERY = 900.0, 240.0  # seconds
LONGEST_STEP = 20.0  # seconds that a step counts; more is a pause
SOME = 300  # rows of a set that are measured on the way
SUPPORT_SETS = ("planted", "held_out", "later", "cnndm", "xsum", "faith")  # the last three, long ones, at the end alone
Pair = tuple[str, str, int]


def labelled_rows(data: Path, group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of all sets whose premise is in a group (`scripts.train.splits`), each with the name of its set; none that is measured."""
    listed = (data / "train2" / "drop_from_train.txt").read_text(encoding="utf-8").splitlines()
    dropped = {tuple(line.split("\t")[:2]) for line in listed if not line.startswith("#")}
    for path in [*(data / "train" / f"{name}.jsonl.gz" for name in OLD_SETS), *sorted((data / "train2").glob("*.jsonl.gz"))]:
        for row in rows(path):
            line = json.dumps(row, ensure_ascii=False).encode()
            is_dropped = path.parent.name == "train" and (path.name, hashlib.sha1(line).hexdigest()[:16]) in dropped
            if row["premise"].strip() and part(row["premise"]) == group and not is_dropped:
                yield path.name.partition(".")[0], row


def load_pairs(data: Path, rng: random.Random, *, unstated: bool) -> list[Pair]:
    """An epoch's pairs in random order: of each set its share, without a fifth of the premises, from which the score of support learns."""
    found = []
    for name, row in labelled_rows(data, "train"):
        share = next((s for key, s in SHARES.items() if row["source"].startswith(key) or name.startswith(key)), 1.0)
        label = CLASSES[row["label"]]
        if label == NEUTRAL and name.startswith(TWO_CLASSES):
            label = NOT_ENTAILED
        if (unstated or row.get("licence_group") != "unstated") and rng.random() < share:
            found.append((row["premise"], row["hypothesis"], label))
    rng.shuffle(found)
    return found


def encoded(texts: Texts, pairs: Sequence[Pair], rng: random.Random) -> Iterator[tuple[tuple[Ids, int], int]]:
    """Pairs as the model reads them, and their labels; those that are too long are left out."""
    short = [texts[p].ids for p, _, _ in pairs[:5000] if len(texts[p].ids) < 60]
    for premise, hypothesis, label in pairs:
        source, said = texts[premise].ids, texts[hypothesis].ids[:HYPOTHESIS]
        if len(source) + len(said) + 3 > LONGEST:
            continue
        if short and rng.random() < ABOUT_OTHERS:
            others = np.concatenate([rng.choice(short) for _ in range(rng.randint(1, 8))])
            yield texts.joined(others[: LONGEST - 3 - len(said)], said), NEUTRAL
        if len(source) < 60 and rng.random() < AMONG_OTHERS:
            before, after = ([rng.choice(short) for _ in range(rng.randint(0, 1))] for _ in range(2))
            together = np.concatenate([*before, source, *after])
            source = together if len(together) + len(said) + 3 <= LONGEST else source
        yield texts.joined(source, said), label


def losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy; `NOT_ENTAILED` wants contradiction and neither together, however they share it."""
    sure = logits.log_softmax(-1)
    one = sure.gather(1, labels.clamp(max=2)[:, None])[:, 0]
    return -torch.where(labels == NOT_ENTAILED, sure[:, 1:].logsumexp(-1), one)


def judge_of() -> tuple[Reader, Texts]:
    """A reader with the shipped weights, whose lower layers and other heads are frozen, and a tokenizer that keeps all pieces."""
    base = e5()
    model = Reader(base)
    model.take(read_reader(READER)[0])
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    own = tuple(f"bert.encoder.layer.{n}." for n in range(LAYERS_KEPT, 12))
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith((*own, "nli.")))
    return model, Texts(base.tokenizer, base.marks)


def log_probabilities(model: Reader, texts: Texts, pairs: Sequence[tuple[str, str]]) -> Any:
    """Of each pair the log probabilities of entailment, contradiction and neither; of a long premise by the window that entails most."""
    texts.learn(t for pair in pairs for t in pair)
    shown, of = [], []
    for n, (premise, hypothesis) in enumerate(pairs):
        said, source = texts[hypothesis].ids[:HYPOTHESIS], texts[premise].ids
        for window in windows(len(source), LONGEST - 3 - len(said)):
            shown.append((source[window], said))
            of.append(n)
    best = np.full((len(pairs), 3), -np.inf, np.float32)
    for n, (_, _, classes) in zip(of, logits(model, texts, shown), strict=True):
        if classes[0] > best[n, 0]:
            best[n] = classes
    return best


def measure(model: Reader, texts: Texts, data: Path, most: int) -> dict[str, float]:
    """Accuracy of three classes on MNLI mismatched and VitaminC's kept pages; AUC of supported sentences of the other sets."""
    found: dict[str, float] = {}
    for name in ("mnli_mm", "vitaminc"):
        if (path := data / "judge_eval" / "dev" / f"{name}.jsonl").exists():
            judged = rows(path)[:most]
            said = log_probabilities(model, texts, [(r["evidence"], r["claim"]) for r in judged])
            labels = np.array([CLASSES[r["label"]] for r in judged])
            found[name] = round(100 * float((said.argmax(1) == labels).mean()), 1)
    for name in SUPPORT_SETS[: 3 if most < 1000 else None]:
        path = next((p for p in (SUPPORT / f"{name}.jsonl", data / "support" / f"{name}.jsonl") if p.exists()), None)
        if path is not None:
            judged = rows(path)[:most]
            said = log_probabilities(model, texts, [(r["source"], r["sentence"]) for r in judged])
            found[name] = auc([bool(r["supported"]) for r in judged], said[:, 0])
    return found


class Run:
    """A judge in training, and what OUT holds of it."""

    def __init__(self, model: Reader, texts: Texts, args: argparse.Namespace) -> None:
        self.model, self.texts, self.args = model, texts, args
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.weights, lr=args.rate, weight_decay=0.01, betas=(0.9, 0.98))
        self.state: dict[str, Any] = {"steps": 0, "pairs": 0, "seconds": 0.0, "curve": []}
        self.falls_at = (1 - LAST) * 60 * args.minutes
        self.ends_at = 60.0 * args.minutes
        if args.resume is not None:
            self._resume(args.resume)
        self.saved = self.measured = self.state["seconds"]

    def _resume(self, path: Path) -> None:
        if path.suffix == ".safetensors":
            self.model.take(read_reader(path)[0])
            return
        kept = torch.load(path, map_location="cpu", weights_only=True)
        self.model.take(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.state = kept["state"]

    def rate(self) -> float:
        """The learning rate now; the file OUT/finish lets it fall from now on."""
        seconds = self.state["seconds"]
        finish = self.args.out / "finish"
        if finish.exists() and seconds < self.falls_at:
            self.falls_at, self.ends_at = seconds, seconds / (1 - LAST)
        left = (self.ends_at - seconds) / max(1e-6, self.ends_at - self.falls_at)
        return float(self.args.rate * min(1.0, (self.state["steps"] + 1) / WARM, max(0.01, left)))

    def is_over(self) -> bool:
        return bool(self.state["seconds"] >= self.ends_at or self.state["steps"] >= self.args.steps)

    def go(self, pairs: Sequence[Pair]) -> None:
        """Train to the end."""
        for batch in self.batches(pairs):
            if self.is_over():
                break
            self.learn(batch)
        self.save()
        self.report(1_000_000)
        self.save()

    def batches(self, pairs: Sequence[Pair]) -> Iterator[list[tuple[tuple[Ids, int], int]]]:
        """Batches of epoch after epoch, each in another order."""
        while True:
            rng = random.Random(f"judge {self.state['steps']}")
            shuffled = rng.sample(pairs, len(pairs))
            for at in range(0, len(shuffled), 20_000):
                some = shuffled[at : at + 20_000]
                self.texts.learn(t for p, h, _ in some for t in (p, h))
                found = list(encoded(self.texts, some, rng))
                made = of_equal_length(found, [len(ids) for (ids, _), _ in found], BATCH_TOKENS, together=2048)
                yield from rng.sample(made, len(made))

    def learn(self, batch: Sequence[tuple[tuple[Ids, int], int]]) -> None:
        began = time.monotonic()
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        ids, mask, types = self.texts.batch([pair for pair, _ in batch])
        labels = torch.tensor([label for _, label in batch], device=self.model.device)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.model.device.type == "cpu" and has_bfloat16()):
            states = self.model.states(ids, mask, types)
        loss = losses(self.model.nli(states[:, 0].float()), labels).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        state = self.state
        state["steps"] += 1
        state["pairs"] += len(batch)
        state["seconds"] += min(time.monotonic() - began, LONGEST_STEP)
        if state["steps"] % 100 == 0 or state["steps"] == 1:
            print(f"{state['seconds']:.0f} s step {state['steps']} pairs {state['pairs']} loss {loss.item():.3f}", flush=True)
        if state["seconds"] - self.measured > MEASURED_EVERY:
            self.measured = state["seconds"]
            self.report(SOME)
        if state["seconds"] - self.saved > SAVED_EVERY:
            self.saved = state["seconds"]
            self.save()

    def report(self, most: int) -> None:
        found = measure(self.model, self.texts, self.args.data, most)
        self.state["curve"].append({k: self.state[k] for k in ("steps", "pairs", "seconds")} | found)
        print(json.dumps(self.state["curve"][-1]), flush=True)
        (self.args.out / "curve.json").write_text(json.dumps(self.state["curve"], indent=1), encoding="utf-8")

    def save(self) -> None:
        """Write the weights, and all that a run goes on from."""
        trained: Mapping[str, torch.Tensor] = self.model.trained()
        write_reader(self.args.out / "judge.safetensors", trained, {"steps": self.state["steps"], "pairs": self.state["pairs"]})
        written = self.args.out / "checkpoint.part"
        torch.save({"model": dict(trained), "optimizer": self.optimizer.state_dict(), "state": self.state}, written)
        written.replace(self.args.out / "checkpoint.pt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=100.0)
    parser.add_argument("--steps", type=int, default=1_000_000, help="at most")
    parser.add_argument("--rate", type=float, default=1.5e-4)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--unstated", action="store_true", help="also the sets whose licence nobody stated")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    model, texts = judge_of()
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    run = Run(model, texts, args)
    pairs = load_pairs(args.data, random.Random("judge"), unstated=args.unstated)
    print(f"{len(pairs)} pairs an epoch", flush=True)
    if not run.state["steps"]:
        run.report(SOME)
    run.go(pairs)


if __name__ == "__main__":
    main()
