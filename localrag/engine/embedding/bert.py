"""A BERT computed by torch on the CPU: tokens of many texts in full batches, each batch by one thread.

Threads that share a batch wait for each other at its every step: here each core has a batch of its own. Where vectors are wanted a batch is
always of the same number of rows, so that a text's is bit for bit the same in any company and on any number of cores: an index that is
continued or updated must be equal to one made at once. States are wanted of one text's windows, which always come together.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.engine.adapter import Adapter
from localrag.engine.bert_folder import pooling, read, tensors, window
from localrag.errors import EngineFailed
from localrag.system.cores import own_cores

ROWS = 512  # tokens of a batch: enough for full speed, and one question takes 70 ms
PART = 128  # of states: rows of a batch are a multiple of it
STEP = 16  # what a text takes rows in multiples of: the first text of a new length costs milliseconds more


@dataclass
class Batch:
    """Texts (their number, their rows) that are computed together, the longest first."""

    left: int
    texts: list[tuple[int, int]] = field(default_factory=list)


class Bert:
    """The model in a folder for which `bert_folder.is_bert` holds, merged with an adapter. `window`: the most tokens of a text."""

    def __init__(self, folder: Path, adapter: Adapter | None = None) -> None:
        """Load it. Raises OSError, KeyError, SafetensorError."""
        import torch

        able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        native = able.get("avx512_bf16") or able.get("amx_bf16")
        # Twice as fast there; cosine to float32's vectors over 0.9999 (measured). Elsewhere it would be slower than float32.
        self._dtype = torch.bfloat16 if native else torch.float32
        config = read(folder / "config.json")
        self.window, self._mean = window(folder, of_states=adapter is not None), pooling(folder) == "MEAN"
        self._rows = max(ROWS, _up(self.window, STEP))
        self._multiple = PART if adapter else self._rows
        self._heads, self._eps = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
        loaded = {name: torch.from_numpy(np.array(weights, np.float32)) for name, weights in tensors(folder, adapter)}
        self._of: dict[str, Any] = {}
        self._take(loaded, int(config["num_hidden_layers"]))

    def _take(self, loaded: dict[str, Any], layers: int) -> None:
        """Keep the weights as they are computed with: the three of an attention as one, its scale in them."""
        import torch

        for n in range(layers):
            for kind in ("weight", "bias"):
                q, k, v = (loaded.pop(f"blk.{n}.attn_{part}.{kind}") for part in "qkv")
                loaded[f"blk.{n}.qkv.{kind}"] = torch.cat([q * (len(q) / self._heads) ** -0.5, k, v])
        loaded["position_embd.weight"] = loaded["position_embd.weight"] + loaded.pop("token_types.weight")[0]
        self._of, self._layers = {name: weights.to(self._dtype) for name, weights in loaded.items()}, layers
        self.width = int(self._of["token_embd.weight"].shape[1])

    def vectors(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(n, width) float32, each row L2-normalised, of texts given as tokens, none longer than the window. Raises EngineFailed."""
        found = [s.mean(axis=0) if self._mean else s[0] for s in self.states(texts)]
        made = np.array(found, np.float32).reshape(len(texts), self.width)
        return np.asarray(made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12), np.float32)

    def states(self, texts: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """For each text, given as tokens, (tokens, width) float32; equal ones are computed once. Raises EngineFailed."""
        import torch

        if any(not 0 < len(tokens) <= self.window for tokens in texts):
            raise EngineFailed(f"A text is longer than the {self.window} tokens that the model reads, or has none.")
        distinct = list(dict.fromkeys(map(tuple, texts)))
        found: dict[tuple[int, ...], NDArray[np.float32]] = {}

        def compute(batch: Batch) -> None:
            torch.set_num_threads(1)  # of this thread
            with torch.inference_mode():
                found.update(self._compute([(distinct[n], rows) for n, rows in batch.texts]))

        with ThreadPoolExecutor(own_cores()) as threads:
            list(threads.map(compute, self._batches(distinct)))
        return [found[tuple(tokens)] for tokens in texts]

    def _batches(self, texts: Sequence[Sequence[int]]) -> list[Batch]:
        """The longest first, each where there is room for it: short ones fill what long ones leave."""
        made: list[Batch] = []
        first = 0  # those before it are full
        for n in sorted(range(len(texts)), key=lambda n: -len(texts[n])):
            rows = _up(len(texts[n]), STEP)
            batch = next((b for b in made[first:] if b.left >= rows), None)
            if batch is None:
                made.append(batch := Batch(self._rows))
            batch.texts.append((n, rows))
            batch.left -= rows
            while first < len(made) and made[first].left < STEP:
                first += 1
        return made

    def _compute(self, texts: list[tuple[tuple[int, ...], int]]) -> Iterator[tuple[tuple[int, ...], NDArray[np.float32]]]:
        """The texts of a batch, each with the rows it takes, and their states."""
        import torch
        from torch.nn.functional import gelu

        starts = np.cumsum([0, *(rows for _, rows in texts)]).tolist()
        tokens, places = torch.zeros((2, _up(starts[-1], self._multiple)), dtype=torch.int64)
        for start, (text, _) in zip(starts, texts, strict=False):
            tokens[start : start + len(text)] = torch.tensor(text)
            places[start : start + len(text)] = torch.arange(len(text))
        x = self._norm("token_embd_norm", self._of["token_embd.weight"][tokens] + self._of["position_embd.weight"][places])
        groups = self._groups(texts)
        for n in range(self._layers):
            x = self._norm(f"blk.{n}.attn_output_norm", x + self._linear(f"blk.{n}.attn_output", self._attention(n, x, groups)))
            inner = gelu(self._linear(f"blk.{n}.ffn_up", x))
            x = self._norm(f"blk.{n}.layer_output_norm", x + self._linear(f"blk.{n}.ffn_down", inner))
        states = x.float().numpy()
        return ((text, states[start : start + len(text)].copy()) for start, (text, _) in zip(starts, texts, strict=False))

    def _groups(self, texts: list[tuple[tuple[int, ...], int]]) -> list[tuple[int, int, int, Any]]:
        """Texts that take as many rows each: the first row of them, how many texts, the rows of each, what hides the rows left over."""
        import torch

        made, at = [], 0
        for rows, some in groupby(texts, key=lambda text: text[1]):
            lengths = torch.tensor([len(text) for text, _ in some])
            hidden = torch.arange(rows)[None, :] >= lengths[:, None]
            mask = torch.zeros(hidden.shape, dtype=self._dtype).masked_fill_(hidden, -torch.inf)[:, None, None, :]
            made.append((at, len(lengths), rows, mask if bool(hidden.any()) else None))
            at += rows * len(lengths)
        return made

    def _attention(self, n: int, x: Any, groups: list[tuple[int, int, int, Any]]) -> Any:
        """What the rows of each text take from one another."""
        rows = self._linear(f"blk.{n}.qkv", x)
        made = rows.new_zeros(x.shape)
        for at, count, length, mask in groups:
            part = rows[at : at + count * length].view(count, length, 3, self._heads, -1)
            q, k, v = part.permute(2, 0, 3, 1, 4).contiguous()
            scores = q @ k.transpose(-1, -2)
            if mask is not None:
                scores += mask
            made[at : at + count * length] = (scores.softmax(-1) @ v).transpose(1, 2).reshape(count * length, -1)
        return made

    def _linear(self, name: str, x: Any) -> Any:
        from torch.nn.functional import linear

        return linear(x, self._of[f"{name}.weight"], self._of[f"{name}.bias"])

    def _norm(self, name: str, x: Any) -> Any:
        from torch.nn.functional import layer_norm

        return layer_norm(x, (self.width,), self._of[f"{name}.weight"], self._of[f"{name}.bias"], self._eps)


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
