"""What a sentence-transformers folder says of its model: whether it is a plain BERT, its tokens, its weights under their names in GGUF."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from localrag.engine.adapter import Adapter

LONGEST = 2048  # tokens of one call: a model whose texts may be longer gets them in windows of that
_MADE_OF = {"Transformer", "Pooling", "Normalize"}


def read(path: Path) -> Any:
    """The JSON of a file. Raises OSError, ValueError."""
    return json.loads(path.read_text(encoding="utf-8"))


def is_bert(folder: Path) -> bool:
    """Whether the model is made of nothing that would have to be computed otherwise. Raises OSError, ValueError, KeyError, TypeError."""
    config, modules, own = read(folder / "config.json"), read(folder / "modules.json"), {}
    with suppress(FileNotFoundError):
        own = read(folder / "config_sentence_transformers.json")
    return (
        config["model_type"] == "bert"
        and config["hidden_act"] == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and {module["type"].rpartition(".")[2] for module in modules} <= _MADE_OF
        and (folder / "tokenizer.json").exists()
        and pooling(folder) is not None
        and not own.get("default_prompt_name")
    )


def pooling(folder: Path) -> str | None:
    """Its name in GGUF; None for another one, or several. Written as one name since sentence-transformers 6, as switches before."""
    (place,) = (module["path"] for module in read(folder / "modules.json") if module["type"].endswith(".Pooling"))
    modes = read(folder / place / "config.json")
    switches = (name.removeprefix("pooling_mode_") for name, is_on in modes.items() if name.startswith("pooling_mode_") and is_on)
    named = modes.get("pooling_mode", list(switches))
    chosen = [named] if isinstance(named, str) else named
    return {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS"}.get(chosen[0]) if len(chosen) == 1 else None


def window(folder: Path, *, of_states: bool = False) -> int:
    """The most tokens of a text; where states are wanted all that the model was made for, not what its vectors were taught on."""
    own = None if of_states else read(folder / "sentence_bert_config.json").get("max_seq_length")
    return int(min(LONGEST, own or read(folder / "config.json")["max_position_embeddings"]))


def windows_of(folder: Path) -> Callable[[str], list[list[int]]]:
    """What gives a text's tokens by the model's own tokenizer, in pieces that fit its window."""
    from tokenizers import Tokenizer

    tokenizer, most = Tokenizer.from_file(str(folder / "tokenizer.json")), window(folder)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    room = most - tokenizer.num_special_tokens_to_add(is_pair=False)

    def windows(text: str) -> list[list[int]]:
        whole = tokenizer.encode(text)
        if len(whole.ids) <= most:
            return [whole.ids]
        spans = [span for span, special in zip(whole.offsets, whole.special_tokens_mask, strict=True) if not special]
        pieces = (spans[at : at + room] for at in range(0, len(spans), room))
        return [tokenizer.encode(text[piece[0][0] : piece[-1][1]]).ids[:most] for piece in pieces]

    return windows


def tensors(folder: Path, adapter: Adapter | None = None) -> Iterator[tuple[str, NDArray[Any]]]:
    """The weights under their names in GGUF, merged with an adapter, without those of the pooler: it is no part of these models' pooling.

    Raises OSError, KeyError, SafetensorError.
    """
    import gguf
    from safetensors.numpy import load_file

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, read(folder / "config.json")["num_hidden_layers"])
    for name, weights in load_file(folder / "model.safetensors").items():
        known = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        if known is not None and "pooler" not in name:
            yield known, adapter.merged(known, weights) if adapter and adapter.changes(known) else weights
