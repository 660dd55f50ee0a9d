"""Teach the bundled chat model to read: a low-rank adapter (LoRA, Hu et al. 2021) that gives the short answer in the text's own words.

    python -m scripts.train_adapter SETS OUT [--steps 1000] [--threads 1]

SETS holds reader.jsonl (`scripts/training_data.py`). A prompt is a stretch of a few sentences and a question; the answer is the stretch's
own words, yes, no, or none. Weights are read from the packaged GGUF file; the loss is that of the answer's tokens alone. OUT keeps a
checkpoint every few minutes; the same command goes on from it. Needs torch, transformers and peft; a GPU is used where there is one.
"""

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from localrag.engine.weights import write_adapter
from localrag.eval.metrics import exact_match, word_f1
from localrag.model_files import find_chat_model
from localrag.text.sentences import cached_sentences, collapse_whitespace
from scripts.lora import ALPHA, Training, arguments, differences, with_adapter

STRETCH = 420  # characters of the sentences that are shown around an answer, at most
BATCH = 1200  # tokens of a step, padding included
WINDOW = 512  # tokens of a prompt with its answer
RATE, WARM = 5e-4, 30
SHARE = {"xquad_en": 1.0, "xquad_de": 0.3, "xquad_es": 0.3, "policyqa": 0.15, "hotpot_dev100": 1.0, "musique_dev100": 1.0, "made": 0.1}
SHARE |= {"made_yes_no": 0.3}
HELD = 240  # kept questions that are asked at the end, half of them while it trains
NONE = "none"


def prompt_of(text: str, question: str) -> str:
    """What the model is shown, in its chat format."""
    system = "Answer with words of the text."
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{text}\n\nQuestion: {question}<|im_end|>\n<|im_start|>assistant\n"


def stretch(row: dict[str, Any], rng: random.Random) -> tuple[str, str]:
    """A few sentences of a row's passages, and what they answer: about the answer's place if it has one, else from anywhere."""
    answer = row["answer"]
    if isinstance(answer, list):
        number, start, end = answer
        passage = row["passages"][number]
    elif answer is None:
        passage = rng.choice(row["passages"])
        start = end = rng.randrange(len(passage))
    else:
        return collapse_whitespace(" ".join(p.replace("# ", "") for p in row["passages"]))[: 2 * STRETCH], answer
    spans = cached_sentences(passage)
    holding = [n for n, s in enumerate(spans) if s.start <= start and end <= s.end] or [0]
    first = last = holding[0]
    while True:
        able = [(first - 1, last)] * (first > 0) + [(first, last + 1)] * (last + 1 < len(spans))
        able = [(a, b) for a, b in able if spans[b].end - spans[a].start <= STRETCH]
        if not able:
            break
        first, last = rng.choice(able)
    title = passage.split("\n")[0][2:] + ". " if passage.startswith("# ") and first > 0 else ""
    text = collapse_whitespace(title + passage[spans[first].start : spans[last].end].replace("# ", ""))
    return text, collapse_whitespace(passage[start:end]) if answer else NONE


class Examples:
    """Rows as tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def of(self, row: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """The tokens of a prompt and of its answer."""
        text, answer = stretch(row, rng)
        prompt = self._tokenizer(prompt_of(text, row["question"]), add_special_tokens=False)["input_ids"]
        said = self._tokenizer(f"{answer}<|im_end|>", add_special_tokens=False)["input_ids"]
        return {"row": row, "prompt": prompt, "said": said, "text": text, "answer": answer}


def batches(rows: list[dict[str, Any]], examples: Examples, rng: random.Random) -> Any:
    """Batches of about equal length, without end."""
    while True:
        pool = [r for r in rows if rng.random() < SHARE.get(r["source"], 0)]
        rng.shuffle(pool)
        for at in range(0, len(pool), 96):
            some = sorted((examples.of(r, rng) for r in pool[at : at + 96]), key=lambda e: len(e["prompt"]))
            made, batch = [], []
            for e in some:
                if batch and (len(batch) + 1) * (len(e["prompt"]) + 12) > BATCH:
                    made.append(batch)
                    batch = []
                batch.append(e)
            made.append(batch)
            rng.shuffle(made)
            yield from made


def loss_of(model: Any, batch: list[dict[str, Any]], device: str) -> torch.Tensor:
    """Cross entropy of the answers' tokens; the head is computed for them alone."""
    full = [e["prompt"] + e["said"] for e in batch]
    width = max(map(len, full))
    ids = torch.zeros(len(full), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    wanted = torch.zeros_like(ids, dtype=torch.bool)
    for n, (tokens, e) in enumerate(zip(full, batch, strict=True)):
        ids[n, : len(tokens)] = torch.tensor(tokens)
        mask[n, : len(tokens)] = 1
        wanted[n, len(e["prompt"]) - 1 : len(tokens) - 1] = True
    base = model.get_base_model()
    states = base.model(input_ids=ids.to(device), attention_mask=mask.to(device)).last_hidden_state
    targets = torch.roll(ids, -1, 1)[wanted].to(device)
    return nn.functional.cross_entropy(base.lm_head(states[wanted.to(device)]), targets)


@torch.no_grad()
def measure(model: Any, tokenizer: Any, items: list[dict[str, Any]], device: str) -> dict[str, dict[str, float]]:
    """Exact match and F1 of greedy answers to what is answered; how well the rest is told apart by the probability of none (AUC)."""
    model.eval()
    scores: dict[str, list[tuple[float, float, float, bool]]] = defaultdict(list)
    (none,) = tokenizer(NONE, add_special_tokens=False)["input_ids"][:1]
    for e in items:
        ids = torch.tensor([e["prompt"]], device=device)
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=24,
            do_sample=False,
            output_scores=True,
            return_dict_in_generate=True,
            eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
            pad_token_id=0,
        )
        first = out.scores[0][0].log_softmax(-1)
        said = tokenizer.decode(out.sequences[0, ids.shape[1] :], skip_special_tokens=True).strip()
        known = e["answer"] != NONE
        scores[e["row"]["source"]].append((exact_match(said, [e["answer"]]), word_f1(said, [e["answer"]]), -float(first[none]), known))
    model.train()
    found = {}
    for source, some in sorted(scores.items()):
        yes, no = [s[2] for s in some if s[3]], [s[2] for s in some if not s[3]]
        auc = float(np.mean([(a > b) + 0.5 * (a == b) for a in yes for b in no])) if yes and no else float("nan")
        exact, f1 = (round(100 * float(np.mean([s[n] for s in some if s[3]])), 1) for n in (0, 1)) if yes else (0.0, 0.0)
        found[source] = {"EM": exact, "F1": f1, "AUC": round(auc, 3), "n": len(some)}
    return found


def export(model: Any, path: Path) -> None:
    """Write the differences as a GGUF adapter; rows of queries and keys in llama.cpp's order (it rotates halves, torch pairs)."""
    config = model.config
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    tensors = []
    for known, a, b in differences(model, names):
        n = heads.get(known.rpartition(".")[2])
        ordered = b.reshape(n, 2, len(b) // n // 2, b.shape[1]).swapaxes(1, 2).reshape(b.shape) if n else b
        tensors += [(f"{known}.weight.lora_a", a), (f"{known}.weight.lora_b", ordered)]
    write_adapter(path, tensors, alpha=ALPHA)


def taught() -> tuple[Any, Any]:
    """The bundled chat model with an adapter, and its tokenizer."""
    file = find_chat_model(None).path
    base = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return with_adapter(base, modules), AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def main() -> None:
    args, device = arguments(__doc__, 1000)
    model, tokenizer = taught()
    training = Training(model.to(device), args.out, steps=args.steps, rate=RATE, warm=WARM)
    rows = [json.loads(line) for line in (args.sets / "reader.jsonl").read_text(encoding="utf-8").splitlines()]
    examples, rng = Examples(tokenizer), random.Random(7)
    kept = [r for r in rows if r["part"] == "kept" and r["source"] in SHARE and not r["id"].endswith("/both")]
    held = [examples.of(r, rng) for r in rng.sample(kept, HELD)]
    source = batches([r for r in rows if r["part"] == "train"], examples, random.Random(training.step))

    def loss() -> tuple[torch.Tensor, int]:
        batch = next(source)
        return loss_of(model, batch, device), sum(len(e["prompt"]) + len(e["said"]) for e in batch)

    some = held[: HELD // 2]
    training.run(loss, lambda: measure(model, tokenizer, some, device), 200, lambda: export(model, args.out / "reader.gguf"))
    print(json.dumps(measure(model, tokenizer, held, device), indent=1))


if __name__ == "__main__":
    main()
