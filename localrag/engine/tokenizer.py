"""Tokenizer: counts tokens with the model's own vocabulary, without loading the model.

A tiktoken `Encoding` is built from the GGUF's vocabulary and merges if its pre-tokenizer is known here; otherwise llama.cpp's tokenizer is
used. tiktoken's named encodings are not used: they would be downloaded.
"""

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import tiktoken

from localrag.errors import ModelError
from localrag.model_files import ModelFile, checked_header, fingerprint
from localrag.system.files import cache_dir, ensure_private_folder, write_atomically

# Pre-tokenizer patterns by the GGUF's `tokenizer.ggml.pre`. llama.cpp applies `smollm`'s two expressions one after the other; one
# alternation is equivalent if whitespace before a digit is a case of its own.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PRETOKENIZER_PATTERNS = {
    "gpt-2": _GPT2,
    "smollm": r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+",
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "qwen2": _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"),
}


class Tokenizer:
    """Counts the tokens of plain text for one model."""

    def __init__(self, file: ModelFile) -> None:
        """Read the vocabulary of `file`, from a cache after the first time (seconds). Raises ModelError."""
        self._encoding = _encoding(file)
        if self._encoding is None:  # a vocabulary other than byte-pair encodings
            from localrag.engine.llama.chat_template import open_vocabulary

            self._encode = open_vocabulary(file.path)
        else:
            self._encode = self._encoding.encode_ordinary

    def count(self, text: str) -> int:
        """Number of tokens of `text`; control tokens in it count as plain text. For a served model it is an estimate."""
        return len(self._encode(text))

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text."""
        return [self.count(t) for t in texts]  # tiktoken's batch method starts a task per text, which is slower


def _encoding(file: ModelFile) -> tiktoken.Encoding | None:
    cached = cache_dir() / "vocabularies" / f"{fingerprint(file.path)}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing or damaged: read the model again
        return _load_encoding(file.name, json.loads(cached.read_text()))
    table = _read_vocabulary(file.path)
    with suppress(OSError):  # without the cache the vocabulary is read again
        ensure_private_folder(cached.parent)
        write_atomically(cached, json.dumps(table).encode())
    return _load_encoding(file.name, table)


def _load_encoding(name: str, table: dict[str, Any]) -> tiktoken.Encoding | None:
    if not table["ranks"]:
        return None
    ranks = {base64.b64decode(t): i for i, t in enumerate(table["ranks"])}
    return tiktoken.Encoding(name, pat_str=PRETOKENIZER_PATTERNS[table["pre"]], mergeable_ranks=ranks, special_tokens={})


def _read_vocabulary(path: Path) -> dict[str, Any]:
    """Byte sequences in merge order (base64); empty if tiktoken cannot replace llama.cpp."""
    import gguf  # only on the first use of a model

    checked_header(path)
    try:
        fields = gguf.GGUFReader(path).fields
    except (ValueError, OSError, IndexError, KeyError, OverflowError) as error:
        raise ModelError(f"The vocabulary of {path} cannot be read: {error}", "Give a .gguf chat model with --model.") from error

    def value(key: str) -> Any:
        return fields[key].contents() if key in fields else None

    pre = value("tokenizer.ggml.pre")
    if value("tokenizer.ggml.model") != "gpt2" or pre not in PRETOKENIZER_PATTERNS:
        return {"pre": pre, "ranks": []}
    to_byte = {c: b for b, c in _byte_alphabet().items()}
    ordered = {bytes([b]): None for b in range(256)}
    try:
        for merge in value("tokenizer.ggml.merges"):
            first, second = merge.split(" ", 1)
            ordered.setdefault(bytes(to_byte[c] for c in first + second))
    except (KeyError, ValueError, TypeError):  # no byte-pair merges: use llama.cpp
        return {"pre": pre, "ranks": []}
    return {"pre": pre, "ranks": [base64.b64encode(t).decode() for t in ordered]}


def _byte_alphabet() -> dict[int, str]:
    """GPT-2's printable character for every byte (Radford et al. 2019, `bytes_to_unicode`)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(unprintable)}
