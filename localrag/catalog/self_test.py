"""Does a model do here what localrag needs of it? Tried first in processes of their own, as every first use of a model is."""

import asyncio
import time

import numpy as np

from localrag.catalog.about import read_about
from localrag.engine.embedding.embedder import open_embedder, open_reranker
from localrag.engine.engine import Engine
from localrag.engine.hardware.opened import open_with
from localrag.engine.request import Request
from localrag.engine.settings import EngineSettings
from localrag.errors import LocalragError, ModelError
from localrag.llm.grammar import fixed
from localrag.models import ModelFile
from localrag.records import Line
from localrag.system.cores import free_cores

_FACT = "The ferry Skua belongs to Ingrid Holm."
_JSON = 'start: "{\\"owner\\": \\"" /[A-Z][a-z]+( [A-Z][a-z]+)?/ "\\"}"'
_PAIRS = (
    ("The ferry was sold to a woman from the harbour.", "A boat got a new owner.", "Add two spoons of sugar and stir."),
    ("The council met on Monday.", "There was a meeting of the town's government.", "Whales breathe air."),
)
_QUESTION = "Who owns the ferry?"
_PASSAGES = (_FACT, "Add two spoons of sugar and stir.", "Whales breathe air.")


def self_test(file: ModelFile) -> list[Line]:
    """What was tried, a line each; a model that fails a line marked `fail` is of no use here."""
    tests = {"chat": _chat, "embedder": _embedder, "reranker": _reranker}
    try:
        return tests[file.kind](file)
    except LocalragError as error:
        return [Line("loads", "fail", str(error), error.hint)]


def _chat(file: ModelFile) -> list[Line]:
    about, lines = read_about(file.path), []
    if about.kind != "chat":
        mend = f"Add it as what it is: --kind {about.kind}"
        raise ModelError(f"{file.path.name} is no chat model, but a{'n' * (about.kind == 'embedder')} {about.kind}.", mend)
    started = time.perf_counter()
    engine = Engine(lambda: open_with(file, EngineSettings(threads=free_cores(), slots=1, context=512)))
    try:
        ask = [{"role": "user", "content": f"{_FACT} Who owns it? Answer with JSON."}]
        cells = engine.backend.chat.cells(ask)
        lines.append(Line("loads", "ok", f"in {time.perf_counter() - started:.1f} s"))
        held = asyncio.run(engine.generate(Request(cells, 64, fixed(_JSON))))
        free = asyncio.run(engine.generate(Request(cells, 64)))
    finally:
        engine.close()
    owner = held.text[len('{"owner": "') : -2]
    said = f"held to a grammar it answers {owner!r}, which is {'right' if 'Ingrid' in owner or 'Holm' in owner else 'wrong'}"
    lines.append(Line("answers", "ok" if held.complete else "fail", said, "" if held.complete else "Take another model."))
    if not free.text.strip():
        lines.append(Line("writes", "warn", "nothing, when left free", "Check that the file is an instruct model, not a base model."))
    speed = free.output_tokens / max(free.seconds, 1e-3)
    lines.append(Line("speed", "ok" if speed >= 2 else "warn", f"{speed:.1f} tokens/s, one answer at a time, not tuned"))
    if not about.template:
        lines.append(Line("template", "warn", "the file has no chat template; a usual one is used", "Prefer a file that has its own."))
    return lines


def _embedder(file: ModelFile) -> list[Line]:
    embedder = open_embedder(file)
    vectors = embedder.embed([text for group in _PAIRS for text in group])
    norms = np.linalg.norm(vectors, axis=1)
    if not np.isfinite(vectors).all() or np.abs(norms - 1).max() > 0.01:
        return [Line("loads", "fail", "its vectors do not have length 1", "Take another file of this model.")]
    near = [float(a @ b) for a, b, _ in zip(*[iter(vectors)] * 3, strict=True)]
    far = [float(a @ c) for a, _, c in zip(*[iter(vectors)] * 3, strict=True)]
    right = all(n > f for n, f in zip(near, far, strict=True))
    said = f"{vectors.shape[1]} dimensions; alike {min(near):.2f}, unlike {max(far):.2f}"
    return [
        Line("loads", "ok", "and gives unit vectors"),
        Line("meaning", "ok" if right else "fail", said, "" if right else "Take another file of this model."),
    ]


def _reranker(file: ModelFile) -> list[Line]:
    scores = open_reranker(file)(_QUESTION, _PASSAGES)
    # Some conversions of rerankers lack their last layer: every score is then nearly 0.
    right = bool(np.isfinite(scores).all()) and int(np.argmax(scores)) == 0 and float(np.ptp(scores)) > 1e-6
    said = "scores the passage that answers highest" if right else f"its scores tell nothing apart: {np.round(scores, 6).tolist()}"
    mend = "Its file may lack the last layer: take one that llama.cpp's own tools converted."
    return [Line("loads", "ok", ""), Line("meaning", "ok" if right else "fail", said, "" if right else mend)]
