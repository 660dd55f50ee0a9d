"""The standard index: the demo documents indexed with a model, and ten questions about them whose answers are known."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from localrag.bench.leaks import Wording, leaks, wording
from localrag.bench.paragraphs import GOLD, Tell
from localrag.demo import CORPUS
from localrag.engine.engine import Engine
from localrag.engine.prefixes import Prefixes
from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError
from localrag.index.pipeline import build_index
from localrag.index.progress import Progress
from localrag.opening import open_for_writing
from localrag.project import Project, choose_style
from localrag.query.answer import Options, answer
from localrag.records import Answer
from localrag.store import graph

_MARKED = re.compile(r"(?:\[\d+\]|\[unsupported\])$")
_UNPROVED = re.compile(r"\[(?:unsupported|related|contradicted)\](?:\[\d+\])*$")


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a question. Of `sentences`, `supported` cite passages that stand word for word in a file, `leaked` repeat prompts.

    `right`: whether the answer holds what it must; `error` says why there is none.
    """

    question: str
    right: bool
    sentences: int = 0
    supported: int = 0
    leaked: int = 0
    mode: str = ""
    calls: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    error: str = ""


async def index_and_ask(model: str | None, options: EngineOptions, style: str, tell: Tell) -> dict[str, Any]:
    """Index the demo documents in a folder that is thrown away and ask the questions; JSON-ready figures of both.

    Loading the models is not counted. Raises ModelError.
    """
    with TemporaryDirectory() as folder, open_for_writing(Path(folder) / "index", model=model, engine=options, style=style) as project:
        await _load(project, Path(folder) / "prefixes")
        indexed = await _index(project, tell)
        prompts = wording(await choose_style(project))
        asked = [json.loads(line) for line in (GOLD / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
        answers = []
        for n, one in enumerate(asked):
            tell("questions", n, len(asked))
            answers.append(await ask_one(one["question"], one["expected"], project, prompts))
    return {"index": indexed, "questions": [asdict(a) for a in answers]}


async def _load(project: Project, folder: Path) -> None:
    engine = await project.model.engine()
    if isinstance(engine, Engine):
        engine.prefixes = Prefixes(folder)  # no beginning is taken over from earlier runs
    project.embedder.embed(["to load it"])


async def _index(project: Project, tell: Tell) -> dict[str, Any]:
    def step(progress: Progress) -> None:
        tell(progress.stage, progress.done, progress.total)

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


async def ask_one(question: str, expected: Sequence[Sequence[str]], project: Project, prompts: Wording) -> Answered:
    """Ask a question; of each of the `expected` lists one must stand in the answer."""
    try:
        given = await answer(question, project, Options())
    except LocalragError as error:
        return Answered(question, False, error=str(error))
    said = sentences(given.answer)
    text = "\n".join([question, *(p.read_text(encoding="utf-8") for p in sorted(CORPUS.rglob("*")) if p.is_file())])
    right = all(any(way in given.answer for way in ways) for ways in expected)
    kept = verified(given, project.root)
    supported = sum(not _UNPROVED.search(s) and bool({int(n) for n in re.findall(r"\[(\d+)\]", s)} & kept) for s in said)
    leaked = sum(leaks(re.sub(r"\[\w+\]", "", s), text, prompts) for s in said)
    return Answered(question, right, len(said), supported, leaked, given.mode, given.calls, given.output_tokens, given.seconds)


def sentences(text: str) -> list[str]:
    """The stretches of an answer that say where they come from, or that they come from nowhere."""
    return [part.strip() for part in text.split("\n\n") if _MARKED.search(part.strip())]


def verified(given: Answer, root: Path) -> set[int]:
    """The numbers of an answer's citations whose quote stands in its file word for word, whitespace aside."""
    return {c.n for c in given.citations if "".join(c.quote.split()) in "".join((root / c.path).read_text(encoding="utf-8").split())}
