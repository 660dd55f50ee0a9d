"""Counting tokens with the model's own vocabulary, without loading the model.

A tiktoken `Encoding` is built from the GGUF's vocabulary and merges where its pre-tokenizer is known here; llama.cpp's own tokenizer
serves otherwise. Nothing is downloaded: tiktoken's named encodings, which would be, are never used.
"""

import base64
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tiktoken

from localrag.errors import ModelError
from localrag.models import ModelFile, fingerprint, whole_header
from localrag.system.files import cache_dir, private_folder, replace_file
from localrag.text.plain import is_cjk

# What precedes the merges, by the GGUF's `tokenizer.ggml.pre`. llama.cpp applies `smollm`'s two expressions one after the other; one
# alternation does the same when whitespace before a digit is its own case.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": _GPT2,
    "smollm": r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+",
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
}


class Tokenizer:
    """Counts tokens of plain text as one model would."""

    def __init__(self, file: ModelFile) -> None:
        """Read the vocabulary of `file`, from the cache after the first time (seconds). Raises ModelError."""
        self._encoding = _encoding(file)
        self._llama: Any = None if self._encoding else _LlamaTokenizer(file)
        self._facts = next((f for f in file.facts if f.counts), None)  # of a server that counts: how its vocabulary differs from this one

    def count(self, text: str) -> int:
        """The number of tokens of `text`; control tokens in it are read as plain text. Of a served model it is an estimate."""
        return self._scaled(len(self._encoding.encode_ordinary(text) if self._encoding else self._llama.encode(text)), text)

    def _scaled(self, count: int, text: str) -> int:
        if self._facts is None:
            return count
        return math.ceil(count * (self._facts.chinese if is_cjk(text) else self._facts.latin))

    def counts(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text."""
        return [self.count(t) for t in texts]  # tiktoken's own batches start a task for each text, which takes longer


class _LlamaTokenizer:
    """llama.cpp's tokenizer, for the vocabularies that are no byte-pair encodings."""

    def __init__(self, file: ModelFile) -> None:
        from localrag.engine.hardware.opened import check_vocabulary
        from localrag.engine.llama.vocabulary import open_vocabulary

        check_vocabulary(file)
        self.encode = open_vocabulary(file.path)


def _encoding(file: ModelFile) -> tiktoken.Encoding | None:
    cached = cache_dir() / "vocabularies" / f"{fingerprint(file.path)}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing, or damaged: it is read from the model again
        return _made(file.name, json.loads(cached.read_text()))
    table = _read_vocabulary(file.path)
    with suppress(OSError):  # a cache that cannot be written to costs the seconds again
        private_folder(cached.parent)
        replace_file(cached, json.dumps(table).encode())
    return _made(file.name, table)


def _made(name: str, table: dict[str, Any]) -> tiktoken.Encoding | None:
    if not table["ranks"]:
        return None
    ranks = {base64.b64decode(t): i for i, t in enumerate(table["ranks"])}
    return tiktoken.Encoding(name, pat_str=PATTERNS[table["pre"]], mergeable_ranks=ranks, special_tokens={})


def _read_vocabulary(path: Path) -> dict[str, Any]:
    """Byte sequences in merge order (base64); empty where tiktoken cannot stand in for llama.cpp."""
    import gguf  # only on the first use of a model

    whole_header(path)
    try:
        fields = gguf.GGUFReader(path).fields
    except (ValueError, OSError, IndexError, KeyError, OverflowError) as error:
        raise ModelError(f"The vocabulary of {path} cannot be read: {error}", "Give a .gguf chat model with --model.") from error

    def value(key: str) -> Any:
        return fields[key].contents() if key in fields else None

    pre = value("tokenizer.ggml.pre")
    if value("tokenizer.ggml.model") != "gpt2" or pre not in PATTERNS:
        return {"pre": pre, "ranks": []}
    to_byte = {c: b for b, c in _byte_alphabet().items()}
    ordered = {bytes([b]): None for b in range(256)}
    try:
        for merge in value("tokenizer.ggml.merges"):
            left, right = merge.split(" ", 1)
            ordered.setdefault(bytes(to_byte[c] for c in left + right))
    except (KeyError, ValueError, TypeError):  # merges that are no byte pairs, or none at all: llama.cpp knows what to make of them
        return {"pre": pre, "ranks": []}
    return {"pre": pre, "ranks": [base64.b64encode(t).decode() for t in ordered]}


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's printable stand-in for every byte (Radford et al. 2019, `bytes_to_unicode`)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
