"""Training with low-rank adapters (LoRA, Hu et al. 2021): steps, the checkpoint that a later run goes on from, and what is exported."""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import nn

RANK, ALPHA = 16, 32
SAVED_EVERY = 300.0  # seconds
SAID_EVERY = 10  # steps


def arguments(doc: str | None, steps: int) -> tuple[argparse.Namespace, str]:
    """A training's arguments `sets`, `out` (made if missing), `steps` and `threads`, and the device; seeds and threads are set."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)
    return args, "cuda" if torch.cuda.is_available() else "cpu"


def with_adapter(model: nn.Module, modules: list[str]) -> PeftModel:
    """The model with an adapter on those of its linear layers; only the adapter is trained."""
    return get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=modules, lora_dropout=0.0))


def differences(model: PeftModel, names: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The adapter's layers by their name in GGUF, each with its A and B."""
    for name, module in model.get_base_model().named_modules():
        if isinstance(module, LoraLayer):
            a, b = (part["default"].weight.detach().cpu().float().numpy() for part in (module.lora_A, module.lora_B))
            yield names.get_name(name), a, b


class Training:
    """A model in training, and what its checkpoint in `folder` holds; what is there already is gone on from."""

    def __init__(self, model: nn.Module, folder: Path, *, steps: int, rate: float, warm: int) -> None:
        self.model, self.steps, self.step, self._file = model, steps, 0, folder / "checkpoint.pt"
        self.weights = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._optimizer = torch.optim.AdamW(self.weights.values(), lr=rate, weight_decay=0.01)
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, lambda n: min((n + 1) / warm, max(0.05, 1 - n / steps)))
        if self._file.exists():
            kept = torch.load(self._file, weights_only=True)
            model.load_state_dict(kept["model"], strict=False)
            self._optimizer.load_state_dict(kept["optimizer"])
            self._schedule.last_epoch = self.step = kept["step"]
        print(f"{sum(p.numel() for p in self.weights.values()) / 1e6:.2f} M parameters, step {self.step}", flush=True)

    def run(
        self, loss: Callable[[], tuple[torch.Tensor, int]], measured: Callable[[], Any], every: int, export: Callable[[], None]
    ) -> None:
        """Train to the last step, telling how it goes. `loss` gives a batch's loss and its tokens; scores are said `every` so many."""
        saved = said = time.monotonic()
        losses: list[float] = []
        tokens = 0
        while self.step < self.steps:
            found, size = loss()
            self._learn(found)
            losses.append(float(found.detach()))
            tokens += size
            if self.step % SAID_EVERY == 0:
                print(f"step {self.step} loss {np.mean(losses[-30:]):.3f} {tokens / (time.monotonic() - said):.0f} tok/s", flush=True)
                said, tokens = time.monotonic(), 0
            if self.step % every == 0:
                print(json.dumps(measured()), flush=True)
            if time.monotonic() - saved > SAVED_EVERY or self.step == self.steps:
                self._save()
                export()
                saved = time.monotonic()

    def _learn(self, loss: torch.Tensor) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0)
        self._optimizer.step()
        self._schedule.step()
        self._optimizer.zero_grad()
        self.step += 1

    def _save(self) -> None:
        """Write the checkpoint; a process that is killed leaves the last one whole."""
        state = {"model": {n: p.detach() for n, p in self.weights.items()}, "optimizer": self._optimizer.state_dict(), "step": self.step}
        torch.save(state, self._file.with_suffix(".part"))
        self._file.with_suffix(".part").replace(self._file)
