"""BERT models of sentence-transformers as GGUF files: llama.cpp has one ready in a fifth of a second, torch takes eight."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from localrag.engine.adapter import Adapter
from localrag.engine.llama.pooled import LONGEST
from localrag.gguf_header import is_whole
from localrag.models import ModelFile
from localrag.system.files import cache_dir, new_file, private_folder, was_used

_MADE_OF = {"Transformer", "Pooling", "Normalize"}


def as_gguf(file: ModelFile, adapter: Adapter | None = None) -> ModelFile | None:
    """The same model as a GGUF file of 16-bit floats in the user cache, made if it is missing or damaged; None where it cannot be one.

    With an `adapter` it is the model merged with it, and gives the state of every token instead of a text's vector.

    It can if it is a BERT with mean or first-token pooling, as most small embedding models are. Cosine to the vectors of
    sentence-transformers over 0.9998 (measured with all-MiniLM-L6-v2 and 16-bit floats on both sides).
    """
    from safetensors import SafetensorError

    try:
        name = f"{file.fingerprint}-{adapter.fingerprint}" if adapter else file.fingerprint
        target = cache_dir() / "embedders" / f"{name}.gguf"
        if not is_whole(target):
            if not _is_bert(file.path):
                return None
            private_folder(target.parent)
            with new_file(target) as part:
                _write(file.path, part, adapter)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):  # no place to write to, or not laid out as expected: torch loads it
        return None
    was_used(target)
    return replace(file, path=target)


def windows_of(folder: Path) -> Callable[[str], list[list[int]]]:
    """What gives a text's tokens by the model's own tokenizer, in pieces that fit its window."""
    from tokenizers import Tokenizer

    tokenizer, window = Tokenizer.from_file(str(folder / "tokenizer.json")), _window(folder)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    room = window - tokenizer.num_special_tokens_to_add(is_pair=False)

    def windows(text: str) -> list[list[int]]:
        whole = tokenizer.encode(text)
        if len(whole.ids) <= window:
            return [whole.ids]
        spans = [span for span, special in zip(whole.offsets, whole.special_tokens_mask, strict=True) if not special]
        pieces = (spans[at : at + room] for at in range(0, len(spans), room))
        return [tokenizer.encode(text[piece[0][0] : piece[-1][1]]).ids[:window] for piece in pieces]

    return windows


def _window(folder: Path) -> int:
    own = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    return int(min(LONGEST, own or _read(folder / "config.json")["max_position_embeddings"]))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _is_bert(folder: Path) -> bool:
    """Whether the model is made of nothing that llama.cpp would compute otherwise."""
    config, modules, own = _read(folder / "config.json"), _read(folder / "modules.json"), {}
    with suppress(FileNotFoundError):
        own = _read(folder / "config_sentence_transformers.json")
    return (
        config["model_type"] == "bert"
        and config["hidden_act"] == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and {module["type"].rpartition(".")[2] for module in modules} <= _MADE_OF
        and (folder / "tokenizer.json").exists()
        and _pooling(folder) is not None
        and not own.get("default_prompt_name")
    )


def _pooling(folder: Path) -> str | None:
    """Its name in GGUF; None for another one, or several. Written as one name since sentence-transformers 6, as switches before."""
    (place,) = (module["path"] for module in _read(folder / "modules.json") if module["type"].endswith(".Pooling"))
    modes = _read(folder / place / "config.json")
    switches = (name.removeprefix("pooling_mode_") for name, is_on in modes.items() if name.startswith("pooling_mode_") and is_on)
    named = modes.get("pooling_mode", list(switches))
    chosen = [named] if isinstance(named, str) else named
    return {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS"}.get(chosen[0]) if len(chosen) == 1 else None


def _write(folder: Path, target: Path, adapter: Adapter | None) -> None:
    import gguf
    import numpy as np
    from safetensors.numpy import load_file

    config = _read(folder / "config.json")
    window = min(config["max_position_embeddings"], LONGEST) if adapter else _window(folder)
    writer = gguf.GGUFWriter(target, "bert")
    writer.add_context_length(window)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType["NONE" if adapter else str(_pooling(folder))])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("no_vocab")  # texts come as tokens: llama.cpp's own would split some writings otherwise
    writer.add_vocab_size(config["vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, full in load_file(folder / "model.safetensors").items():
        known = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        if known is None or "pooler" in name:  # the pooler is not part of these models' pooling
            continue
        weights = full[:window] if known.startswith("position_embd") else full
        if adapter and adapter.changes(known):
            weights = adapter.merged(known, weights)
        small = weights.ndim == 1 or known.startswith(("position_embd", "token_types"))
        writer.add_tensor(known, weights.astype(np.float32 if small else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
