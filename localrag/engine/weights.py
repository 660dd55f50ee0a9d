"""LoRA adapters in GGUF files; metadata and weights of sentence-transformers folders.

Adapter tensors have llama.cpp's names (LoRA, Hu et al. 2021): `blk.0.attn_q.weight.lora_a`. Heads on an embedding model's states are stored
beside them: `tags.0.weight`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
ALPHA_KEY = "adapter.lora.alpha"


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """An adapter file in memory."""

    alpha: float
    tensors: Mapping[str, Array]

    def modifies(self, name: str) -> bool:
        """Whether the adapter changes the weights with this GGUF name."""
        return f"{name}.lora_a" in self.tensors

    def merged(self, name: str, weights: Array) -> Array:
        """The weights with this GGUF name, (out, in), plus the adapter's difference: alpha / rank · B · A."""
        a, b = self.tensors[f"{name}.lora_a"], self.tensors[f"{name}.lora_b"]
        return np.asarray(weights + self.alpha / len(a) * (b @ a), np.float32)


def load_adapter(path: Path) -> LoraAdapter:
    """The adapter in a GGUF file. Raises OSError, ValueError, KeyError if it is none."""
    import gguf  # a tenth of a second

    reader = gguf.GGUFReader(path)
    values: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: np.asarray(t.data, np.float32) for t in reader.tensors}
    return LoraAdapter(float(values[ALPHA_KEY]), tensors)


MAX_WINDOW = 2048  # tokens of one call; longer texts are split even if the model allows more
_SUPPORTED_MODULES = {"Transformer", "Pooling", "Normalize"}


def read_json(path: Path) -> Any:
    """The JSON of a file. Raises OSError, ValueError."""
    return json.loads(path.read_text(encoding="utf-8"))


def is_bert(folder: Path) -> bool:
    """Whether a folder holds a plain BERT that `BertModel` can compute. Raises OSError, ValueError, KeyError, TypeError."""
    config, modules, st_config = read_json(folder / "config.json"), read_json(folder / "modules.json"), {}
    with suppress(FileNotFoundError):
        st_config = read_json(folder / "config_sentence_transformers.json")
    return (
        config["model_type"] == "bert"
        and config["hidden_act"] == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and {module["type"].rpartition(".")[2] for module in modules} <= _SUPPORTED_MODULES
        and (folder / "tokenizer.json").exists()
        and pooling(folder) is not None
        and not st_config.get("default_prompt_name")
    )


def pooling(folder: Path) -> str | None:
    """GGUF name of the folder's pooling, before or since sentence-transformers 6; None if it is another kind, or several."""
    (pooling_folder,) = (module["path"] for module in read_json(folder / "modules.json") if module["type"].endswith(".Pooling"))
    modes = read_json(folder / pooling_folder / "config.json")
    switches = (name.removeprefix("pooling_mode_") for name, is_on in modes.items() if name.startswith("pooling_mode_") and is_on)
    enabled = modes.get("pooling_mode", list(switches))
    chosen = [enabled] if isinstance(enabled, str) else enabled
    return {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS"}.get(chosen[0]) if len(chosen) == 1 else None


def max_tokens(folder: Path, *, of_states: bool = False) -> int:
    """Maximal tokens of a text: for hidden states the model's positions, otherwise the length its vectors were trained with."""
    max_seq_length = None if of_states else read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return int(min(MAX_WINDOW, max_seq_length or read_json(folder / "config.json")["max_position_embeddings"]))


def window_tokenizer(folder: Path) -> Callable[[str], list[tuple[list[int], tuple[int, int]]]]:
    """A function that splits a text, with the model's own tokenizer, into token lists that fit its window, each with its characters."""
    from tokenizers import Tokenizer

    tokenizer, window = Tokenizer.from_file(str(folder / "tokenizer.json")), max_tokens(folder)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    room = window - tokenizer.num_special_tokens_to_add(is_pair=False)

    def windows(text: str) -> list[tuple[list[int], tuple[int, int]]]:
        encoding = tokenizer.encode(text)
        if len(encoding.ids) <= window:
            return [(encoding.ids, (0, len(text)))]
        spans = [span for span, special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True) if not special]
        parts = ((spans[at][0], spans[min(at + room, len(spans)) - 1][1]) for at in range(0, len(spans), room))
        return [(tokenizer.encode(text[start:end]).ids[:window], (start, end)) for start, end in parts]

    return windows


def gguf_tensors(folder: Path, adapter: LoraAdapter | None = None) -> Iterator[tuple[str, NDArray[Any]]]:
    """The weights with GGUF names, merged with an adapter, without the unused pooler. Raises OSError, KeyError, SafetensorError."""
    import gguf
    from safetensors.numpy import load_file

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, read_json(folder / "config.json")["num_hidden_layers"])
    for name, weights in load_file(folder / "model.safetensors").items():
        gguf_name = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        if gguf_name is not None and "pooler" not in name:
            yield gguf_name, adapter.merged(gguf_name, weights) if adapter and adapter.modifies(gguf_name) else weights
