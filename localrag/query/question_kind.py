"""What kind of answer a question wants, and whether it is about the last answer: small classifiers on the reader's vector of the question.

Multinomial logistic regression, trained by `scripts/train/question_kinds.py` on questions in a dozen languages
(`adapters/question_kinds.md`). Where they are not sure, callers fall back to what suits any question.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import ModelError
from localrag.llm.reader import PassageReader
from localrag.model_files import shipped_weights
from localrag.project import Project

MIN_SURE = 0.5  # probability of a kind that decides the form of an answer; of a fact and of yes or no together, for a few words
MIN_ABOUT_ANSWER = 0.6  # probability from which on the last line of a conversation is about the answer before it


class QuestionKind(StrEnum):
    """What is asked for: the documents as a whole, a few words, yes or no, items, steps, a description or reason, two sides."""

    GLOBAL = "global"
    FACT = "fact"
    YES_NO = "yes_no"
    LIST = "list"
    HOW_TO = "how_to"
    EXPLANATION = "explanation"
    COMPARISON = "comparison"


class WholeForm(StrEnum):
    """What a question about the whole asks for: everything, one topic, what changed, what differs or is most frequent, or its people."""

    ALL = "all"
    TOPIC = "topic"
    CHANGE = "change"
    COMPARISON = "comparison"
    PEOPLE = "people"


QUESTION_KINDS = tuple(QuestionKind)
WHOLE_FORMS = tuple(WholeForm)


@dataclass(frozen=True, slots=True)
class KindProbabilities:
    """The probability of each kind, in the order of `QUESTION_KINDS`; all zero for a question that could not be read."""

    values: tuple[float, ...] = (0.0,) * len(QUESTION_KINDS)

    def of(self, kind: QuestionKind) -> float:
        """The probability of a kind."""
        return self.values[QUESTION_KINDS.index(kind)]

    @property
    def kind(self) -> QuestionKind | None:
        """The likeliest kind; None if it is not sure."""
        best = max(QUESTION_KINDS, key=self.of)
        return best if self.of(best) >= MIN_SURE else None

    @property
    def wants_few_words(self) -> bool:
        """Whether a few words can answer."""
        return self.of(QuestionKind.FACT) + self.of(QuestionKind.YES_NO) >= MIN_SURE


UNKNOWN_KIND = KindProbabilities()


def question_kind(question: str, project: Project) -> KindProbabilities:
    """The kind of a question; unknown without a reader, or where a file of it is damaged, which is said once."""
    known: dict[Hashable, Any] = {} if project.search_cache is None else project.search_cache
    if ("kind", question) not in known:
        known["kind", question] = KindProbabilities(
            tuple(classifier_probabilities("question_kinds", question, project) or UNKNOWN_KIND.values)
        )
    found: KindProbabilities = known["kind", question]
    return found


def whole_form(question: str, project: Project) -> WholeForm:
    """The likeliest form of a question about the documents as a whole; `ALL` without a reader."""
    probabilities = classifier_probabilities("whole_forms", question, project)
    return WHOLE_FORMS[int(np.argmax(probabilities))] if probabilities else WholeForm.ALL


def is_about_answer(question: str, project: Project) -> bool:
    """Whether the last line of a conversation is about the answer before it, as "Shorter, please" is, or thanks for it."""
    about_answer, _ = classifier_probabilities("follow_ups", question, project) or (0.0, 0.0)
    return about_answer >= MIN_ABOUT_ANSWER


def classifier_probabilities(classifier: str, question: str, project: Project) -> list[float] | None:
    """What a classifier says of a question; None without a reader, or where a file is damaged, which is said once."""
    if project.reader is None:
        return None
    try:
        vector = _question_vector(project.reader, question)
    except ModelError as error:
        project.reader.report(project.model.options.notify, error)
        return None
    try:
        return load_classifier(classifier).probabilities(vector)
    except ModelError as error:
        project.reader.report(project.model.options.notify, error, "Kinds of questions are not told apart")
        return None


@lru_cache(maxsize=64)
def _question_vector(reader: PassageReader, question: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = reader.question_vectors([question])[0]
    return vector


@dataclass(frozen=True, slots=True)
class KindClassifier:
    """Logistic regression: `weight` (kinds, width) and `bias` (kinds,)."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def probabilities(self, vector: NDArray[np.float32]) -> list[float]:
        """Of each kind, for a question's vector, (width,)."""
        logits = self.weight @ vector + self.bias
        raised = np.exp(logits - logits.max())
        values: list[float] = (raised / raised.sum()).tolist()
        return values


@cache
def load_classifier(name: str) -> KindClassifier:
    """A classifier that ships: `question_kinds`, `whole_forms`, `follow_ups` or `collection_questions`.

    Raises ModelError if its file is missing or damaged.
    """
    tensors = {name: np.asarray(values, np.float32) for name, values in shipped_weights(name).items()}
    return KindClassifier(tensors["weight"], tensors["bias"])
