"""Teach the bundled embedding model to tag names and to say which are related: a low-rank adapter (LoRA, Hu et al. 2021) and small heads.

    python -m scripts.train.tagger SETS OUT [--steps 1000] [--threads 1]

SETS holds names.jsonl (`scripts/train/names_data.py`). OUT keeps a checkpoint every few minutes; the same command goes on from it. What is
measured is the part of SETS marked `kept`. Needs torch, transformers and peft; a GPU is used where there is one.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import nn
from transformers import AutoModel

from localrag.engine.weights import ALPHA_KEY
from localrag.indexing.extraction.names import DocumentCasing, find_all_name_spans
from localrag.indexing.extraction.nlp import ChunkText, candidate_names
from localrag.llm.tagger import (
    BIO_TAGS,
    ENTITY_TYPES,
    N_PAIR_FEATURES,
    N_SHAPE_FEATURES,
    NOMINAL_BIO_TAGS,
    NOMINAL_TYPES,
    WINDOW_TOKENS,
    TaggedMention,
    TaggerToken,
    decode_bio,
    pair_features,
    shape_features,
    tokenizer_of,
)
from localrag.model_files import find_embedder
from localrag.text.sentences import cached_sentences
from scripts.train.lora import ALPHA, Training, arguments, differences, with_adapter

BATCH = 1536  # tokens of one step, padding included
RATE, WARM = 1e-3, 60
HIDDEN = 96
DROPPED = 0.1  # of states, and of the heads' input
NOTHING = -100  # a token nothing is learned of
MOST_PAIRS = 120  # mentions' pairs of one text a step
REPEATED = {"redocred": 2}


@dataclass(frozen=True, slots=True)
class Item:
    """A text as it is learned: tokens with the model's own first and last, tags, mentions with their groups, pairs of groups."""

    source: str
    text: str
    tokens: list[TaggerToken]
    ids: list[int]
    shape: np.ndarray
    tags: list[int]
    nominal: list[int]
    mentions: list[tuple[TaggedMention, str]]
    pairs: set[frozenset[str]] | None
    sentences: list[int]


class Tagger(nn.Module):
    """The embedding model with its adapter, and the heads of `localrag.llm.tagger.Heads`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        still = {"hidden_dropout_prob": DROPPED, "attention_probs_dropout_prob": 0.0}
        body = AutoModel.from_pretrained(folder, add_pooling_layer=False, local_files_only=True, **still)
        modules = ["query", "key", "value", "dense"]
        self.body = with_adapter(body, modules)
        width = body.config.hidden_size
        self.drop = nn.Dropout(DROPPED)
        self.tags = nn.Sequential(
            nn.Linear(width + 3 * N_SHAPE_FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, len(BIO_TAGS) + len(NOMINAL_BIO_TAGS))
        )
        self.pairs = nn.Sequential(nn.Linear(3 * width + N_PAIR_FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.body(input_ids=ids, attention_mask=mask).last_hidden_state

    def tag_logits(self, states: torch.Tensor, shape: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.tags(torch.cat([self.drop(states), shape], -1))
        return found[..., : len(BIO_TAGS)], found[..., len(BIO_TAGS) :]

    def pair_logits(self, states: torch.Tensor, pairs: list[tuple[TaggedMention, TaggedMention, list[float]]]) -> torch.Tensor:
        """Logits of pairs of mentions of one text, whose states are (l, width)."""
        sums = torch.cat([states.new_zeros(1, states.shape[1]), states.cumsum(0)])

        def mean(first: list[int], end: list[int]) -> torch.Tensor:
            count = torch.tensor([max(1, e - f) for f, e in zip(first, end, strict=True)], device=states.device)
            return (sums[torch.tensor(end)] - sums[torch.tensor(first)]) / count[:, None]

        a = mean([p[0].first for p in pairs], [p[0].last + 1 for p in pairs])
        b = mean([p[1].first for p in pairs], [p[1].last + 1 for p in pairs])
        between = mean([p[0].last + 1 for p in pairs], [max(p[0].last + 1, p[1].first) for p in pairs])
        known = torch.tensor([p[2] for p in pairs], device=states.device)
        return self.pairs(torch.cat([self.drop(a), self.drop(b), self.drop(between), known], -1))[:, 0]


def prepared(row: dict[str, Any], tokenizer: Any) -> Item:
    """A row with its tokens; what goes beyond the window is left out."""
    whole = tokenizer.encode(row["text"])
    size = min(len(whole.ids), WINDOW_TOKENS) - 2
    tokens = [TaggerToken(i, a, b) for i, (a, b) in zip(whole.ids[1 : size + 1], whole.offsets[1 : size + 1], strict=True)]
    ids = [*whole.ids[: size + 1], whole.ids[-1]]
    starts = [s.start for s in cached_sentences(row["text"])]
    found = find_all_name_spans(row["text"], candidate_names(ChunkText(row["text"], DocumentCasing(row["text"]))))
    likely = [(s.start, s.end) for spans in found.values() for s in spans]
    sentences = [max(0, sum(s <= t.start for s in starts) - 1) for t in tokens]
    tags, nominal = [0] * len(tokens), [0 if row["nominals"] else NOTHING] * len(tokens)
    mentions: list[tuple[TaggedMention, str]] = []
    # The longest name counts, and of common nouns the innermost.
    for start, end, kind, group, named in sorted(row["mentions"], key=lambda m: (m[1] - m[0]) * (-1 if m[4] else 1)):
        inside = [n for n, t in enumerate(tokens) if t.start < end and t.end > start]
        if not inside or tokens[inside[-1]].end < end:
            continue
        if named:
            if any(tags[n] for n in inside):
                continue
            write(tags, inside, ENTITY_TYPES.index(kind) if kind else None)
            mentions.append((TaggedMention(inside[0], inside[-1], kind, 1.0), group))
        elif row["nominals"]:
            if not any(nominal[n] > 0 for n in inside):
                write(nominal, inside, NOMINAL_TYPES.index(kind) if kind in NOMINAL_TYPES else None)
        elif not any(tags[n] for n in inside):
            write(tags, inside, None)
    mentions.sort(key=lambda m: m[0].first)
    pairs = None if row["pairs"] is None else {frozenset(p) for p in row["pairs"]}
    return Item(
        row["source"], row["text"], tokens, ids, shape_features(row["text"], tokens, likely), tags, nominal, mentions, pairs, sentences
    )


def write(tags: list[int], inside: list[int], kind: int | None) -> None:
    for n in inside:
        tags[n] = NOTHING if kind is None else 2 * kind + 1 + (n != inside[0])


def near(item: Item, mentions: list[tuple[TaggedMention, str]]) -> list[tuple[int, int, list[float]]]:
    """The pairs of mentions of different groups in one sentence or adjacent ones, as numbers, with their facts."""
    found = []
    for i, (a, one) in enumerate(mentions):
        for j in range(i + 1, len(mentions)):
            b, other = mentions[j]
            away = item.sentences[b.first] - item.sentences[a.first]
            if away > 1:
                break
            if one != other:
                found.append((i, j, pair_features(a, b, away == 0, j - i - 1)))
    return found


def batches(items: list[Item], rng: random.Random) -> Iterator[list[Item]]:
    """Batches of about equal length, in random order, without end."""
    while True:
        pool = [i for i in items for _ in range(REPEATED.get(i.source, 1))]
        rng.shuffle(pool)
        made: list[list[Item]] = []
        for at in range(0, len(pool), 400):
            batch: list[Item] = []
            for item in sorted(pool[at : at + 400], key=lambda i: len(i.ids)):
                if batch and (len(batch) + 1) * len(item.ids) > BATCH:
                    made.append(batch)
                    batch = []
                batch.append(item)
            made.append(batch)
        rng.shuffle(made)
        yield from made


def run(model: Tagger, batch: list[Item], device: str) -> torch.Tensor:
    """States of the texts' tokens without the model's own first and last, (n, l, width)."""
    width = max(len(i.ids) for i in batch)
    ids, mask = torch.zeros(len(batch), width, dtype=torch.long), torch.zeros(len(batch), width, dtype=torch.long)
    for n, i in enumerate(batch):
        ids[n, : len(i.ids)], mask[n, : len(i.ids)] = torch.tensor(i.ids), 1
    return model.states(ids.to(device), mask.to(device))[:, 1:-1]


def padded(batch: list[Item], length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = torch.zeros(len(batch), length, 3 * N_SHAPE_FEATURES)
    tags, nominal = (torch.full((len(batch), length), NOTHING) for _ in range(2))
    for n, i in enumerate(batch):
        size = len(i.tokens)
        shape[n, :size] = torch.from_numpy(i.shape)
        tags[n, :size], nominal[n, :size] = torch.tensor(i.tags), torch.tensor(i.nominal)
    return shape, tags, nominal


def loss_of(model: Tagger, batch: list[Item], device: str, rng: random.Random) -> torch.Tensor:
    states = run(model, batch, device)
    shape, tags, nominal = (t.to(device) for t in padded(batch, states.shape[1]))
    named, common = model.tag_logits(states, shape)
    of = nn.functional.cross_entropy
    loss = of(named.flatten(0, 1), tags.flatten(), ignore_index=NOTHING)
    if (nominal != NOTHING).any():
        loss = loss + 0.5 * of(common.flatten(0, 1), nominal.flatten(), ignore_index=NOTHING)
    related = []
    for n, i in enumerate(batch):
        pairs = near(i, i.mentions) if i.pairs is not None else []
        if not pairs:
            continue
        chosen = rng.sample(pairs, min(len(pairs), MOST_PAIRS))
        logits = model.pair_logits(states[n], [(i.mentions[a][0], i.mentions[b][0], known) for a, b, known in chosen])
        gold: dict[frozenset[str], list[int]] = defaultdict(list)
        for k, (a, b, _) in enumerate(chosen):
            gold[frozenset((i.mentions[a][1], i.mentions[b][1]))].append(k)
        best = torch.stack([logits[places].max() for places in gold.values()])  # one place that says it is enough
        said = torch.tensor([float(pair in (i.pairs or ())) for pair in gold], device=device)
        related.append(nn.functional.binary_cross_entropy_with_logits(best, said, reduction="none"))
    return loss + 0.5 * torch.cat(related).mean() if related else loss


@torch.no_grad()
def measure(model: Tagger, items: list[Item], device: str) -> dict[str, dict[str, float]]:
    """F1 of names with and without types, of common nouns, and of relations between the gold's names at the best threshold."""
    model.eval()
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 9)
    scored: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    golds: dict[str, int] = defaultdict(int)
    for at in range(0, len(items), 8):
        batch = items[at : at + 8]
        states = run(model, batch, device)
        shape, _, _ = (t.to(device) for t in padded(batch, states.shape[1]))
        named, common = (t.softmax(-1).cpu().numpy() for t in model.tag_logits(states, shape))
        for n, i in enumerate(batch):
            size, c = len(i.tokens), counts[i.source]
            free = {k for k, tag in enumerate(i.tags) if tag == NOTHING}
            said = {
                (m.first, m.last): m.type for m in decode_bio(named[n, :size], ENTITY_TYPES) if not free & set(range(m.first, m.last + 1))
            }
            gold = {(m.first, m.last): m.type for m, _ in i.mentions if m.type}
            add(c, 0, len(said.keys() & gold.keys()), len(said), len(gold))
            add(c, 3, len(said.items() & gold.items()), len(said), len(gold))
            if i.source == "litbank":
                own = {(m.first, m.last) for m in decode_bio(np.eye(len(NOMINAL_BIO_TAGS))[[max(0, t) for t in i.nominal]], NOMINAL_TYPES)}
                got = {(m.first, m.last) for m in decode_bio(common[n, :size], NOMINAL_TYPES)}
                add(c, 6, len(own & got), len(got), len(own))
            pairs = near(i, i.mentions) if i.pairs is not None else []
            if pairs:
                logits = model.pair_logits(states[n], [(i.mentions[a][0], i.mentions[b][0], known) for a, b, known in pairs])
                best: dict[frozenset[str], float] = defaultdict(lambda: -99.0)
                for (a, b, _), logit in zip(pairs, logits.tolist(), strict=True):
                    pair = frozenset((i.mentions[a][1], i.mentions[b][1]))
                    best[pair] = max(best[pair], logit)
                scored[i.source] += [(score, pair in (i.pairs or ())) for pair, score in best.items()]
            golds[i.source] += len(i.pairs or ())
    model.train()
    return {s: summary(c, scored[s], golds[s]) for s, c in sorted(counts.items())}


def add(counts: list[int], at: int, *values: int) -> None:
    for n, value in enumerate(values):
        counts[at + n] += value


def summary(c: list[int], scored: list[tuple[float, bool]], gold: int) -> dict[str, float]:
    kinds = (("names", 0), ("typed", 3), ("nominals", 6))
    found = {name: round(2 * c[k] / max(1, c[k + 1] + c[k + 2]), 3) for name, k in kinds if c[k + 2]}
    if scored:
        right, best = 0, (0.0, 0.0)
        for n, (score, is_gold) in enumerate(sorted(scored, reverse=True), 1):
            right += is_gold
            best = max(best, (2 * right / (n + gold), score))
        found |= {"relations": round(best[0], 3), "threshold": round(1 / (1 + float(np.exp(-best[1]))), 3)}
        found["together"] = round(2 * sum(g for _, g in scored) / (len(scored) + gold), 3)
    return found


def export(model: Tagger, path: Path) -> None:
    """Write what was trained as a GGUF adapter (`localrag.engine.use_adapters`)."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 6)
    tensors = [(f"{head}.{name}", p) for head in ("tags", "pairs") for name, p in getattr(model, head).named_parameters()]
    written = [(n, p.detach().cpu().float().numpy()) for n, p in tensors]
    for known, a, b in differences(model.body, names):
        written += [(f"{known}.weight.lora_a", a), (f"{known}.weight.lora_b", b)]
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32(ALPHA_KEY, ALPHA)
    for name, values in written:
        writer.add_tensor(name, np.ascontiguousarray(values, np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    args, device = arguments(__doc__, 1000)
    folder = find_embedder().path
    tokenizer = tokenizer_of(folder)
    rows = [json.loads(line) for line in (args.sets / "names.jsonl").read_text(encoding="utf-8").splitlines()]
    items = {p: [prepared(r, tokenizer) for r in rows if r["part"] == p and r["text"].strip()] for p in ("train", "kept")}
    model = Tagger(folder).to(device)
    training = Training(model, args.out, steps=args.steps, rate=RATE, warm=WARM)
    rng = random.Random(training.step)
    source = batches(items["train"], rng)

    def loss() -> tuple[torch.Tensor, int]:
        batch = next(source)
        return loss_of(model, batch, device, rng), sum(len(i.ids) for i in batch)

    model.train()
    training.run(loss, lambda: measure(model, items["kept"][::3], device), 200, lambda: export(model, args.out / "tagger.gguf"))
    print(json.dumps(measure(model, items["kept"], device), indent=1))


if __name__ == "__main__":
    main()
