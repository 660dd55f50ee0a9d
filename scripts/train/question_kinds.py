"""Train the classifiers of questions: multinomial logistic regression on the reader's vectors of labelled questions.

    python -m scripts.train.question_kinds OUT DATA… [--share 1.0] [--seed 1]

Each DATA folder holds some of the sets of `scripts/train/question_kinds_data.py`; a set that none has is left out. OUT gets
question_kinds.safetensors, whole_forms.safetensors (the form of a question about the documents as a whole), follow_ups.safetensors (whether
the last line of a conversation is about the answer), collection_questions.safetensors (whether a question is about the files themselves),
and vectors.npz, which the same command reads instead of computing the vectors again. Prints what they get right of questions that they did
not learn from: those of tests/query/data, and of DATA/docqa.jsonl where there is one.
"""

import argparse
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from localrag.llm.reader import PassageReader
from localrag.query.collection_questions import COLLECTION_KINDS, MIN_COLLECTION, CollectionKind
from localrag.query.question_kind import (
    MIN_ABOUT_ANSWER,
    QUESTION_KINDS,
    WHOLE_FORMS,
    KindClassifier,
    KindProbabilities,
    QuestionKind,
)
from scripts.train.question_kinds_data import (
    COLLECTION_QUESTIONS,
    FOLLOW_UPS,
    PARTICULAR,
    LabelledQuestion,
    jsonl,
    noise_questions,
    public_questions,
    varied,
    written_questions,
)

Array = NDArray[np.float32]
DECAY = 0.004  # of weights on standardized vectors
STEPS = 60  # of L-BFGS
GLOBAL_WEIGHT = 1.5  # of the questions about the documents as a whole, which have several forms, beside 1 of each other kind
KEPT = Path(__file__).resolve().parents[2] / "tests" / "query" / "data"
ABOUT_DOCUMENTS = "documents"
FOLLOW_UP_KINDS = ("answer", ABOUT_DOCUMENTS)  # what the last line of a conversation is about
DOCQA_KINDS = {"fact": "fact", "howto": "how_to", "list": "list", "explain": "explanation", "compare": "comparison"}


def examples(folders: Sequence[Path], seed: int, share: float) -> list[LabelledQuestion]:
    """The questions to learn from, each with variants."""
    public = public_questions(folders, random.Random(seed), share)
    return [*part_with_variants([*written_questions()], seed, share), *with_variants(public, seed), *noise_questions(random.Random(seed))]


def part_with_variants(questions: Sequence[LabelledQuestion], seed: int, share: float) -> list[LabelledQuestion]:
    """A share of the questions by chance, each with variants."""
    return with_variants(random.Random(seed).sample(questions, round(share * len(questions))), seed)


def with_variants(questions: Iterable[LabelledQuestion], seed: int) -> list[LabelledQuestion]:
    """Each question with its variants, which stay the same, and their kept vectors with them, when other questions are added."""
    return [variant for q in questions for variant in varied(q, random.Random(f"{seed} {q.text}"))]


def vectors_of(texts: Iterable[str], cache: Path) -> dict[str, Array]:
    """The reader's vector of each text; those in the cache are not computed again."""
    known: dict[str, Array] = {}
    if cache.exists():
        with np.load(cache) as stored:
            known = dict(zip(stored["texts"].tolist(), stored["vectors"], strict=True))
    new = [text for text in dict.fromkeys(texts) if text not in known]
    if new:
        known |= zip(new, PassageReader().question_vectors(new), strict=True)
        np.savez(cache, texts=np.array(list(known)), vectors=np.array(list(known.values()), np.float32))
    return known


def _allowed_kinds(label: str) -> set[str]:
    return {kind for kind in QUESTION_KINDS if kind is not QuestionKind.GLOBAL} if label == PARTICULAR else {label}


def fit(questions: Sequence[LabelledQuestion], vectors: dict[str, Array], kinds: Sequence[str] = QUESTION_KINDS) -> KindClassifier:
    """The classifier; of a question that is only known to be particular, the probability of all kinds but global is raised.

    Every kind but global weighs the same. Vectors are standardized for training, which the weights that are returned undo.
    """
    x = np.array([vectors[q.text] for q in questions], np.float32)
    mean, scale = x.mean(0), x.std(0) + 1e-6
    allowed = torch.tensor([[kind in _allowed_kinds(q.label) for kind in kinds] for q in questions])
    total: dict[str, float] = defaultdict(float)
    for q in questions:
        total[q.label] += q.weight
    weights = torch.tensor([q.weight / total[q.label] * (GLOBAL_WEIGHT if q.label == QuestionKind.GLOBAL else 1) for q in questions])
    weights /= weights.sum()
    given = torch.from_numpy((x - mean) / scale)
    weight, bias = torch.zeros(len(kinds), x.shape[1], requires_grad=True), torch.zeros(len(kinds), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        chances = (given @ weight.T + bias).log_softmax(1)
        said = -torch.logsumexp(chances.masked_fill(~allowed, -torch.inf), 1)
        found = (weights * said).sum() + DECAY * weight.square().sum()
        found.backward()
        return found

    optimizer.step(loss)
    final = weight.detach().numpy() / scale
    return KindClassifier(final.astype(np.float32), (bias.detach().numpy() - final @ mean).astype(np.float32))


def kept_questions() -> dict[str, list[tuple[str, str]]]:
    """Labelled questions that nothing is learned from: all kinds by language; the kept half of those about everything or a particular."""
    rows = [line.split("\t") for line in (KEPT / "question_kinds.tsv").read_text(encoding="utf-8").splitlines()]
    routes = [line.split("\t") for line in (KEPT / "routes.tsv").read_text(encoding="utf-8").splitlines()]
    return {
        "kept": [(kind, text) for kind, _, text in rows],
        "routes": [(label, text) for label, text in routes if blake2b(text.encode(), digest_size=1).digest()[0] % 2],
    }


def kept_follow_ups() -> list[tuple[str, str]]:
    """Last lines of conversations that nothing is learned from, each with what it is about."""
    rows = (line.split("\t") for line in (KEPT / "last_lines.tsv").read_text(encoding="utf-8").splitlines())
    return [(label, text) for label, text in rows]


def docqa_questions(folders: Sequence[Path]) -> list[tuple[str, str]]:
    """The answerable questions of docqa that have one of the kinds."""
    path = next((p for folder in folders if (p := folder / "docqa.jsonl").exists()), None)
    return [(DOCQA_KINDS[row["kind"]], row["question"]) for row in jsonl(path) if row["kind"] in DOCQA_KINDS] if path else []


def tell(name: str, rows: Sequence[tuple[str, str]], classifier: KindClassifier, vectors: dict[str, Array]) -> None:
    """Print how many questions are told right, wrong, or not told, and which are taken for which."""
    right = wrong = 0
    taken: Counter[str] = Counter()
    for label, text in rows:
        kind = KindProbabilities(tuple(classifier.probabilities(vectors[text]))).kind
        is_right = kind is not QuestionKind.GLOBAL if label == PARTICULAR else kind == label
        right += is_right
        wrong += not is_right and kind is not None
        taken[f"{label} as {kind or 'unsure'}"] += not is_right
    errors = ", ".join(f"{n} {what}" for what, n in taken.most_common() if n)
    print(f"{name}: {right} of {len(rows)} right, {wrong} wrong, {len(rows) - right - wrong} unsure; {errors}", flush=True)


def whole_questions(seed: int, share: float) -> list[LabelledQuestion]:
    """The written questions about the documents as a whole, as such of their form."""
    return part_with_variants([replace(q, label=q.form) for q in written_questions() if q.form], seed, share)


def follow_ups(seed: int, share: float) -> list[LabelledQuestion]:
    """Last lines of conversations, and questions of all kinds that are about the documents, but for those about all of them."""
    others = [replace(q, label=ABOUT_DOCUMENTS) for q in written_questions() if q.label != QuestionKind.GLOBAL]
    rows = [*written_questions(FOLLOW_UPS), *others]
    return part_with_variants(rows, seed, share)


def collection_questions(seed: int, share: float) -> list[LabelledQuestion]:
    """Questions about the files, and questions of all kinds about what they say."""
    others = [replace(q, label=CollectionKind.OTHER, weight=q.weight / 4) for q in (*written_questions(), *written_questions(FOLLOW_UPS))]
    rows = [*written_questions(COLLECTION_QUESTIONS), *others]
    return part_with_variants(rows, seed, share)


def tell_collection_questions(classifier: KindClassifier, vectors: dict[str, Array]) -> None:
    """Print how many of the kept questions about files are told right, and which not."""
    wrong = []
    for label, text in kept_collection_questions():
        chances = classifier.probabilities(vectors[text])
        best = max(range(len(COLLECTION_KINDS)), key=chances.__getitem__)
        told = COLLECTION_KINDS[best] if chances[best] >= MIN_COLLECTION else CollectionKind.OTHER
        wrong += [f"{text} ({told})"] if told != label else []
    total = len(kept_collection_questions())
    print(f"questions about the files: {total - len(wrong)} of {total} right; wrong: {', '.join(wrong)}", flush=True)


def kept_collection_questions() -> list[tuple[str, str]]:
    """Questions about the files and others, that nothing is learned from."""
    rows = (line.split("\t") for line in (KEPT / "collection_questions.tsv").read_text(encoding="utf-8").splitlines())
    return [(label, text) for label, text in rows]


def tell_follow_ups(classifier: KindClassifier, vectors: dict[str, Array]) -> None:
    """Print how many of the kept last lines are told right, and which not."""
    wrong = [
        text
        for label, text in kept_follow_ups()
        if (classifier.probabilities(vectors[text])[0] >= MIN_ABOUT_ANSWER) != (label == FOLLOW_UP_KINDS[0])
    ]
    print(f"follow-ups: {len(kept_follow_ups()) - len(wrong)} of {len(kept_follow_ups())} right; wrong: {', '.join(wrong)}", flush=True)


def save(classifier: KindClassifier, path: Path, kinds: Sequence[str], learned: Sequence[LabelledQuestion]) -> None:
    """Write a classifier, with its kinds and the sets that it learned from, and print these."""
    sets = Counter(q.source for q in learned)
    tensors = {"weight": classifier.weight.astype(np.float16), "bias": classifier.bias.astype(np.float32)}
    save_file(tensors, path, {"kinds": " ".join(kinds), "examples": json.dumps(sets)})
    print(f"{path.stem}: {len(learned)} examples, variants included: {dict(sets)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--share", type=float, default=1.0, help="of the questions that are learned from")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # the matrices are small
    learned = examples(args.data, args.seed, args.share)
    last_lines = follow_ups(args.seed, args.share)
    measured = {**kept_questions(), "docqa": docqa_questions(args.data)}
    about_files = collection_questions(args.seed, args.share)
    wholes = whole_questions(args.seed, args.share)
    kept = (*measured.values(), kept_follow_ups(), kept_collection_questions())
    texts = [*(q.text for q in (*learned, *wholes, *last_lines, *about_files)), *(text for rows in kept for _, text in rows)]
    vectors = vectors_of(texts, args.out / "vectors.npz")
    about_answer = fit(last_lines, vectors, FOLLOW_UP_KINDS)
    save(about_answer, args.out / "follow_ups.safetensors", FOLLOW_UP_KINDS, last_lines)
    tell_follow_ups(about_answer, vectors)
    files = fit(about_files, vectors, COLLECTION_KINDS)
    save(files, args.out / "collection_questions.safetensors", COLLECTION_KINDS, about_files)
    tell_collection_questions(files, vectors)
    save(fit(wholes, vectors, WHOLE_FORMS), args.out / "whole_forms.safetensors", WHOLE_FORMS, wholes)
    classifier = fit(learned, vectors)
    save(classifier, args.out / "question_kinds.safetensors", QUESTION_KINDS, learned)
    for name, rows in measured.items():
        if rows:
            tell(name, rows, classifier, vectors)


if __name__ == "__main__":
    main()
