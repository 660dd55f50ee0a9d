"""Teach the bundled embedding model to read: a low-rank adapter (LoRA, Hu et al. 2021) and small heads on its token states.

    python scripts/train_adapter.py SETS OUT [--steps 3000] [--threads 1]

SETS holds reader.jsonl (`scripts/training_data.py`). OUT keeps a checkpoint every few minutes; the same command goes on from it. What is
measured at the end is the part of SETS marked `kept`. Needs torch, transformers and peft; a GPU is used where there is one.
"""

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import AutoModel

from localrag.engine.adapter import write_adapter
from localrag.engine.encoder import Encoder, missing_characters
from localrag.eval.answer_scores import exact_match, word_f1
from localrag.models import find_embedder

RANK, ALPHA = 32, 64
LENGTH = 288  # tokens of a question with its passages
BATCH = 2048  # tokens of one step, padding included
RATE, WARM = 1e-3, 100
KINDS = ("span", "yes", "no", "none")
REPEATED = {"made": 1, "made_yes_no": 1, "policyqa": 1}  # the others, which people wrote, twice an epoch
LONGEST = 40  # tokens of a short answer
SAVED_EVERY = 300.0  # seconds


class Reader(nn.Module):
    """The embedding model with its adapter, rows for characters it does not know, and the heads.

    Of each token: the logits that an answer starts and ends there, (n, l) each; of a text: those of `KINDS`, (n, 4). The first token's
    start and end stand for no answer.
    """

    def __init__(self, folder: Path, extra: int) -> None:
        super().__init__()
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # drawing what to drop takes a fifth of a step on a CPU
        body = AutoModel.from_pretrained(folder, add_pooling_layer=False, local_files_only=True, **still)
        modules = ["query", "key", "value", "dense"]
        self.body = get_peft_model(body, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=modules, lora_dropout=0.0))
        self.words = body.embeddings.word_embeddings
        self.known, width = self.words.weight.shape
        self.characters = nn.Embedding(extra, width)
        nn.init.normal_(self.characters.weight, std=float(self.words.weight.std()))
        self.span = nn.Linear(width, 2)
        self.kind = nn.Linear(width, len(KINDS))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        known = self.words(ids.clamp(max=self.known - 1))
        other = self.characters((ids - self.known).clamp(min=0))
        embedded = torch.where((ids >= self.known)[..., None], other, known)
        states = self.body(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        return self.span(states), self.kind(states[:, 0])


def prepared(rows: list[dict[str, Any]], encoder: Encoder) -> list[dict[str, Any]]:
    """Rows with their tokens and the tokens of their answers; those whose answer is cut off are left out."""
    found = []
    for r in rows:
        item = encoder.encode(r["question"], r["passages"], LENGTH)
        kind = KINDS.index(r["answer"]) if r["answer"] in ("yes", "no") else 3 if r["answer"] is None else 0
        start = end = 0
        if kind == 0:
            passage, a, b = r["answer"]
            inside = [n for n, (p, x, y) in enumerate(item.places) if p == passage and x < b and y > a]
            if not inside:
                continue
            start, end = inside[0], inside[-1]
        found.append({"row": r, "item": item, "kind": kind, "start": start, "end": end})
    return found


def batches(items: list[dict[str, Any]], rng: random.Random) -> Any:
    """Batches of about equal length, in random order, without end."""
    while True:
        pool = [i for i in items for _ in range(REPEATED.get(i["row"]["source"], 2))]
        rng.shuffle(pool)
        made = []
        for at in range(0, len(pool), 800):
            some = sorted(pool[at : at + 800], key=lambda i: len(i["item"].ids))
            batch: list[dict[str, Any]] = []
            for item in some:
                if batch and (len(batch) + 1) * len(item["item"].ids) > BATCH:
                    made.append(batch)
                    batch = []
                batch.append(item)
            made.append(batch)
        rng.shuffle(made)
        yield from made


def tensors(batch: list[dict[str, Any]], device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """ids, attention mask, and the mask of tokens that an answer may hold (the first token stands for none), each (n, l)."""
    width = max(len(i["item"].ids) for i in batch)
    ids, mask, allowed = (torch.zeros(len(batch), width, dtype=torch.long) for _ in range(3))
    for n, i in enumerate(batch):
        length = len(i["item"].ids)
        ids[n, :length] = torch.tensor(i["item"].ids)
        mask[n, :length] = 1
        allowed[n, :length] = torch.tensor([p >= 0 for p, _, _ in i["item"].places])
        allowed[n, 0] = 1
    return ids.to(device), mask.to(device), allowed.bool().to(device)


def loss_of(model: Reader, batch: list[dict[str, Any]], device: str) -> torch.Tensor:
    ids, mask, allowed = tensors(batch, device)
    span, kind = model(ids, mask)
    span = span.masked_fill(~allowed[..., None], -1e4)
    kinds = torch.tensor([i["kind"] for i in batch], device=device)
    asked = kinds.eq(0) | kinds.eq(3)  # yes and no stand nowhere
    start = torch.tensor([i["start"] for i in batch], device=device)
    end = torch.tensor([i["end"] for i in batch], device=device)
    of = nn.functional.cross_entropy
    places = of(span[..., 0], start, reduction="none") + of(span[..., 1], end, reduction="none")
    return (places * asked).sum() / max(1, int(asked.sum())) / 2 + of(kind, kinds)


def export(model: Reader, characters: list[str], path: Path) -> None:
    """Write what was trained as a GGUF adapter (`localrag.engine.adapter`)."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 6)
    tensors = [("characters", model.characters.weight)]
    tensors += [(f"head.{name}.{kind}", p) for name in ("span", "kind") for kind, p in getattr(model, name).named_parameters()]
    for name, module in model.body.get_base_model().named_modules():
        if isinstance(module, LoraLayer):
            known = names.get_name(name)
            tensors += [
                (f"{known}.weight.lora_a", module.lora_A["default"].weight),
                (f"{known}.weight.lora_b", module.lora_B["default"].weight),
            ]
    write_adapter(path, ((n, p.detach().cpu().float().numpy()) for n, p in tensors), characters=characters, alpha=ALPHA, window=LENGTH)


@torch.no_grad()
def measure(model: Reader, items: list[dict[str, Any]], device: str) -> dict[str, dict[str, float]]:
    """Exact match and F1 of the best span of questions that are answered, and how well the rest are told apart (AUC), for each source."""
    model.eval()
    scores: dict[str, list[tuple[float, float, float, bool]]] = defaultdict(list)
    for at in range(0, len(items), 16):
        batch = items[at : at + 16]
        ids, mask, allowed = tensors(batch, device)
        span, kind = model(ids, mask)
        for n, i in enumerate(batch):
            s, e = (span[n, :, c].masked_fill(~allowed[n], -1e4).cpu().numpy() for c in (0, 1))
            said = best(s, e, i)
            k = kind[n].softmax(-1).cpu().numpy()
            if k[1] + k[2] > k[0]:
                said = "yes" if k[1] > k[2] else "no"
            row = i["row"]
            gold = gold_of(row)
            scores[row["source"]].append((exact_match(said, [gold]), word_f1(said, [gold]), 1 - float(k[3]), i["kind"] != 3))
    model.train()
    return {source: _summary(some) for source, some in sorted(scores.items())}


def gold_of(row: dict[str, Any]) -> str:
    """The answer of a row in words, empty where its passages do not say."""
    if isinstance(row["answer"], list):
        passage, start, end = row["answer"]
        return str(row["passages"][passage][start:end])
    return row["answer"] or ""


def best(start: np.ndarray, end: np.ndarray, item: dict[str, Any]) -> str:
    """The text of the best span."""
    total = start[1:, None] + end[None, 1:]
    total = np.where(np.triu(np.ones_like(total)) * (1 - np.triu(np.ones_like(total), LONGEST)) > 0, total, -1e9)
    a, b = np.unravel_index(int(total.argmax()), total.shape)
    places = item["item"].places
    (p, x, _), (_, _, y) = places[a + 1], places[b + 1]
    return str(item["row"]["passages"][p][x:y]) if p >= 0 else ""


def _summary(some: list[tuple[float, float, float, bool]]) -> dict[str, float]:
    yes, no = [s[2] for s in some if s[3]], [s[2] for s in some if not s[3]]
    auc = float(np.mean([(a > b) + 0.5 * (a == b) for a in yes for b in no])) if yes and no else float("nan")
    answered = [s for s in some if s[3]]
    exact, f1 = (round(100 * float(np.mean([s[n] for s in answered])), 1) for n in (0, 1))
    return {"EM": exact, "F1": f1, "AUC": round(auc, 3), "n": len(answered)}


def characters_of(rows: list[dict[str, Any]], folder: Path, file: Path) -> list[str]:
    """The characters that get rows of their own, kept in a file: the same in every run that goes on."""
    if not file.exists():
        texts = {t for r in rows if r["part"] == "train" for t in (r["question"], *r["passages"])}
        file.write_text("\n".join(missing_characters(folder, sorted(texts))), encoding="utf-8")
    return file.read_text(encoding="utf-8").split("\n")


class Training:
    """A model in training, with what its checkpoint holds."""

    def __init__(self, model: Reader, steps: int, rate: float, file: Path) -> None:
        self.model, self.file, self.step = model, file, 0
        self.weights = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._optimizer = torch.optim.AdamW(self.weights.values(), lr=rate, weight_decay=0.01)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, lambda n: min((n + 1) / WARM, max(0.02, 1 - n / steps)))
        if file.exists():
            kept = torch.load(file, weights_only=True)
            model.load_state_dict(kept["model"], strict=False)
            self._optimizer.load_state_dict(kept["optimizer"])
            self._schedule.last_epoch = self.step = kept["step"]

    def learn(self, loss: torch.Tensor) -> None:
        """One step."""
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0)
        self._optimizer.step()
        self._schedule.step()
        self._optimizer.zero_grad()
        self.step += 1

    def save(self) -> None:
        """Write the checkpoint; a process that is killed leaves the last one whole."""
        state = {"model": {n: p.detach() for n, p in self.weights.items()}, "optimizer": self._optimizer.state_dict(), "step": self.step}
        torch.save(state, self.file.with_suffix(".part"))
        self.file.with_suffix(".part").replace(self.file)


def train(training: Training, items: dict[str, list[dict[str, Any]]], steps: int, device: str, keep: Callable[[], None]) -> None:
    """Train to `steps`, telling how it goes; `keep` is called every few minutes and at the end."""
    source = batches(items["train"], random.Random(training.step))
    saved = said = time.monotonic()
    losses: list[float] = []
    training.model.train()
    while training.step < steps:
        loss = loss_of(training.model, next(source), device)
        training.learn(loss)
        losses.append(float(loss.detach()))
        if training.step % 50 == 0:
            print(f"step {training.step} loss {np.mean(losses[-50:]):.3f} {50 / (time.monotonic() - said):.2f} steps/s", flush=True)
            said = time.monotonic()
        if training.step % 500 == 0:
            print(json.dumps(measure(training.model, items["kept"][::3], device)), flush=True)
        if time.monotonic() - saved > SAVED_EVERY or training.step == steps:
            keep()
            saved = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    folder = find_embedder().path
    rows = [json.loads(line) for line in (args.sets / "reader.jsonl").read_text(encoding="utf-8").splitlines()]
    characters = characters_of(rows, folder, args.out / "characters.txt")
    encoder = Encoder(folder, characters)
    items = {part: prepared([r for r in rows if r["part"] == part], encoder) for part in ("train", "kept")}
    model = Reader(folder, len(characters)).to(device)
    training = Training(model, args.steps, RATE, args.out / "checkpoint.pt")
    print(
        f"{sum(p.numel() for p in training.weights.values()) / 1e6:.2f} M parameters, {len(items['train'])} rows, step {training.step}",
        flush=True,
    )

    def keep() -> None:
        training.save()
        export(model, characters, args.out / "reader.gguf")

    train(training, items, args.steps, device, keep)
    print(json.dumps(measure(model, items["kept"], device), indent=1))


if __name__ == "__main__":
    main()
