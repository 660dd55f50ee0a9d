"""The tasks of a model's benchmark: annotated paragraphs, yes-or-no questions, and a standard index.

Forty annotated paragraphs: names, types and pairs that the model extracts, and repetitions. Yes or no: questions with known answers, half
of them no, so that a model that always says yes is noticed. The standard index: the demo documents, and ten questions about them with
known answers.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from localrag.asking import answer_question
from localrag.demo import CORPUS
from localrag.engine.engine import Engine
from localrag.engine.prefix_cache import PrefixCache
from localrag.engine.settings import EngineOptions
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import LocalragError
from localrag.eval.datasets import TYPE_MAPPINGS, GoldDocument, load_gold, marked_sections
from localrag.eval.extraction import ExtractionScores, PrecisionRecall, count_names, gold_chunks
from localrag.indexing.extraction.extract import extract_chunk
from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.pipeline import build_index
from localrag.indexing.progress import RunProgress
from localrag.llm.grammar import choice_of
from localrag.llm.model import CALL_ERRORS, ChatModel, bounded_map
from localrag.llm.prompts import Message, load_prompt
from localrag.llm.tagger import Tagger
from localrag.project import Project, open_for_writing
from localrag.query.question import QueryOptions
from localrag.records import Answer, Extraction, to_row
from localrag.settings import IndexSettings
from localrag.store import graph

GOLD_FOLDER = Path(__file__).parent / "gold"
PARALLEL_PARAGRAPHS = 8  # as many as indexing has in progress
LANGUAGE_NAMES = {"en": "English", "zh": "Chinese"}

Counts = tuple[int, int, int]  # correct, predicted, gold
ReportProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class KnownQuestion:
    """A question about a paragraph whose answer is known."""

    id: str
    text: str
    question: str
    answer: bool


@dataclass(frozen=True, slots=True)
class ParagraphResult:
    """The result of one paragraph. Without an answer, `error` is the reason, and all its gold items count as missed.

    `names`, `typed` and `relations` are counts; `listed` is the number of listed names, `in_text` of those that occur in the paragraph.
    `words` are the paragraph's.
    """

    id: str
    names: Counts
    typed: Counts
    relations: Counts
    listed: int = 0
    in_text: int = 0
    duplicates: int = 0
    words: int = 0
    error: str = ""

    @property
    def language(self) -> str:
        """The first part of its id."""
        return self.id.partition("-")[0]


@dataclass(frozen=True, slots=True)
class LanguageResult:
    """The results of all paragraphs of a language, and their seconds."""

    found: tuple[ParagraphResult, ...]
    seconds: float


def load_paragraphs(limit: int = 0) -> list[GoldDocument]:
    """The annotated paragraphs; with `limit`, a selection spread over languages and kinds of text."""
    paragraphs = load_gold(GOLD_FOLDER / "paragraphs.md", "marked")
    return _sample_evenly(paragraphs, limit)


def questions(limit: int = 0) -> list[KnownQuestion]:
    """The questions about those paragraphs."""
    text_of = {d.id: d.text for d in load_paragraphs(limit)}
    sections = marked_sections((GOLD_FOLDER / "paragraphs.md").read_text(encoding="utf-8"))
    return [
        KnownQuestion(name, text_of[name], rest, word == "yes")
        for name, _, below in sections
        for word, rest in below
        if name in text_of and word in ("yes", "no")
    ]


def _sample_evenly(paragraphs: list[GoldDocument], limit: int) -> list[GoldDocument]:
    if not 0 < limit < len(paragraphs):
        return paragraphs
    return [paragraphs[i * len(paragraphs) // limit] for i in range(limit)]


async def extract_paragraphs(
    documents: Sequence[GoldDocument],
    model: ChatModel,
    settings: IndexSettings,
    style: str,
    on_progress: ReportProgress,
    tagger: Tagger | None = None,
) -> LanguageResult:
    """Extract from the paragraphs as indexing does; one that fails is a result with its error, and the others go on."""
    tokenizer, done = Tokenizer(model.file), 0

    async def one(document: GoldDocument) -> ParagraphResult:
        nonlocal done
        try:
            chunks = gold_chunks(document, tokenizer, settings)
            extractions = [await extract_chunk(c, DocumentCasing(document.text), model, settings, style, tagger=tagger) for c in chunks]
            result = score_paragraph(document, extractions, settings)
        except CALL_ERRORS as error:
            result = score_paragraph(document, [], settings, error.kind)
        done += 1
        on_progress(f"{LANGUAGE_NAMES.get(result.language, '')} paragraphs".strip(), done, len(documents))
        return result

    started = time.perf_counter()
    results = await bounded_map((one(d) for d in documents), size=PARALLEL_PARAGRAPHS)
    return LanguageResult(tuple(results), time.perf_counter() - started)


def score_paragraph(document: GoldDocument, extractions: Sequence[Extraction], settings: IndexSettings, error: str = "") -> ParagraphResult:
    """The counts of one paragraph's extractions."""
    scores = ExtractionScores(TYPE_MAPPINGS["marked"], frozenset(settings.entity_types))
    count_names(scores, document, extractions)
    spans, typed, relations = (_tally_counts(tally) for tally in (scores.spans, scores.typed, scores.relations))
    counts = (scores.names, scores.verbatim, scores.duplicates, len(document.text.split()))
    return ParagraphResult(document.id, spans, typed, relations, *counts, error)


def _tally_counts(tally: PrecisionRecall) -> Counts:
    return tally.n_correct, tally.n_predicted, tally.gold


@dataclass(frozen=True, slots=True)
class YesNoAnswer:
    """An answer; `predicted_answer` is None after a failure, with the reason in `error`."""

    id: str
    answer: bool
    predicted_answer: bool | None
    error: str = ""


async def ask_questions(known_questions: Sequence[KnownQuestion], model: ChatModel, on_progress: ReportProgress) -> list[YesNoAnswer]:
    """The model's answers, by grammar yes or no; a failed call is a result with its error."""
    done = 0

    async def one(question: KnownQuestion) -> YesNoAnswer:
        nonlocal done
        try:
            reply = await model.ask("yes or no", _messages(question), max_tokens=4, grammar=choice_of(["yes", "no"]))
            result = YesNoAnswer(question.id, question.answer, reply.text == "yes")
        except CALL_ERRORS as error:
            result = YesNoAnswer(question.id, question.answer, None, error.kind)
        done += 1
        on_progress("yes or no", done, len(known_questions))
        return result

    return await bounded_map((one(q) for q in known_questions), size=8)


def _messages(question: KnownQuestion) -> list[Message]:
    return load_prompt("bench/yes_no").fill(text=question.text, question=question.question)


_MARKED = re.compile(r"(?:\[\d+\]|\[unsupported\])$")
_UNPROVED = re.compile(r"\[(?:unsupported|related|contradicted)\](?:\[\d+\])*$")


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The result of a question. Of `sentences`, `supported` cite passages that occur verbatim in a file.

    `is_correct`: whether the answer contains the expected words; `error` is the reason if there is no answer.
    """

    question: str
    is_correct: bool
    sentences: int = 0
    supported: int = 0
    mode: str = ""
    calls: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    error: str = ""


async def index_and_ask(model: str | None, options: EngineOptions, style: str, on_progress: ReportProgress) -> dict[str, Any]:
    """Index the demo documents in a temporary folder and ask the questions; JSON-ready figures of both.

    Loading the models is not counted. Raises ModelError.
    """
    with TemporaryDirectory() as folder, open_for_writing(Path(folder) / "index", model=model, engine=options, style=style) as project:
        await _load(project, Path(folder) / "prefixes")
        indexed = await _index(project, on_progress)
        question_rows = [json.loads(line) for line in (GOLD_FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
        answers = []
        for n, one in enumerate(question_rows):
            on_progress("questions", n, len(question_rows))
            answers.append(await ask_one(one["question"], one["expected"], project))
    return {"index": indexed, "questions": [to_row(a, {"is_correct": "right"}) for a in answers]}


async def _load(project: Project, folder: Path) -> None:
    engine = await project.model.engine()
    if isinstance(engine, Engine):
        engine.prefixes = PrefixCache(folder)  # no prefix of an earlier run is reused
    project.embedder.embed(["to load it"])


async def _index(project: Project, on_progress: ReportProgress) -> dict[str, Any]:
    def step(progress: RunProgress) -> None:
        on_progress(progress.stage, progress.done, progress.total)

    started, model = time.perf_counter(), project.model
    outcome = await build_index([CORPUS], project, step)
    seconds, counts = time.perf_counter() - started, graph.counts(project.db)
    return {
        "seconds": round(seconds, 2),
        **{name: counts[name] for name in ("documents", "chunks", "entities", "relationships", "communities", "reports")},
        "calls": model.calls + model.failed,
        "failed_calls": model.failed,
        "prompt_tokens": model.prompt_tokens,
        "output_tokens": model.output_tokens,
        "failures": [{"stage": f.stage, "kind": f.kind} for f in outcome.failures],
    }


async def ask_one(question: str, expected: Sequence[Sequence[str]], project: Project) -> QuestionResult:
    """Ask a question; the answer must contain one string of each of the `expected` lists."""
    try:
        answer = await answer_question(question, project, QueryOptions())
    except LocalragError as error:
        return QuestionResult(question, False, error=str(error))
    spans = sentences(answer.answer)
    right = all(any(way in answer.answer for way in ways) for ways in expected)
    verified_numbers = verified(answer, project.root)
    supported = sum(not _UNPROVED.search(s) and bool({int(n) for n in re.findall(r"\[(\d+)\]", s)} & verified_numbers) for s in spans)
    return QuestionResult(question, right, len(spans), supported, answer.mode, answer.llm_calls, answer.output_tokens, answer.seconds)


def sentences(text: str) -> list[str]:
    """The spans of an answer with a citation or marked as unsupported."""
    return [part.strip() for part in text.split("\n\n") if _MARKED.search(part.strip())]


def verified(answer: Answer, root: Path) -> set[int]:
    """The numbers of an answer's citations whose quote occurs verbatim in its file, ignoring whitespace."""
    return {c.n for c in answer.citations if "".join(c.quote.split()) in "".join((root / c.path).read_text(encoding="utf-8").split())}
