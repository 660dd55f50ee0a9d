"""Who may work together: the same programs, and the same arithmetic.

Programs are compared by their versions and by the bytes of localrag's own. Arithmetic is tried: the models answer a few fixed texts, and
what they compute is hashed to its last bit. Machines with the same hash are of one class; an index made by one class is as if made by one
machine.
"""

import asyncio
import platform
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version

from localrag import __version__
from localrag.engine.engine import Engine
from localrag.engine.request import Request
from localrag.engine.settings import layout
from localrag.index.jobs import Tools
from localrag.system.files import PACKAGE, data_path

TEXTS = (
    "The ferry left the harbour at seven.",
    "Who bought the old mill, and for how much?",
    "Anna Berg wrote to the Northern Line on 3 May 1921: the boiler leaks, and nobody pays.",
    "1 + 1 = 2; 17 × 23 = 391; √2 ≈ 1.41421",
    "小镇因出售造船厂而分裂。",
    "Der Vertrag vom 12. März gilt für beide Häuser, auch für den Garten hinter der Mauer.",
    "a",
    "A list of things: nails, rope, tar, two lamps, a chart of the sound, bread, salt, and a letter that nobody had opened. " * 3,
)
WRITTEN = 16  # tokens of each answer
SHOWN = 8  # hex digits


@cache
def software() -> dict[str, str]:
    """What must be the same on all machines, by name."""
    digest = sha256()
    for path in [*sorted(PACKAGE.rglob("*.py")), *sorted(data_path("prompts").rglob("*.md")), data_path("models.toml")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    try:
        llama = version("llama-cpp-python")
    except PackageNotFoundError:
        llama = "?"
    return {
        "localrag": __version__,
        "localrag's own files": digest.hexdigest()[:SHOWN],
        "llama.cpp": llama,
        "Python": platform.python_version(),
    }


def difference(ours: dict[str, str], theirs: dict[str, str]) -> tuple[str, str] | None:
    """What differs between the programs of this machine and another, and what mends it; None where nothing does."""
    for name, own in ours.items():
        if (other := theirs.get(name, "none")) != own:
            mend = {
                "llama.cpp": f'pip install "llama-cpp-python=={own}"',
                "Python": f"make its environment with Python {own}",
            }.get(name, f'pip install --force-reinstall "localrag[ray]=={ours["localrag"]}", or the same checkout')
            return f"{name} {other} instead of {own}", mend
    return None


async def own_layout(tools: Tools) -> str:
    """The settings of this machine's engine that may change an answer, as written; empty where there is none. Raises ModelError."""
    engine = await tools.model.engine()
    return layout(engine.settings) if isinstance(engine, Engine) else ""


async def arithmetic(tools: Tools, *, asks: bool) -> str:
    """The class of this machine's arithmetic. Raises ModelError."""
    digest = sha256()
    digest.update(tools.embedder.embed(TEXTS).tobytes())
    if tools.tagger is not None:
        for text in TEXTS:
            digest.update(repr(await tools.tagger.tag(text, ())).encode())
    if asks:
        engine = await tools.model.engine()
        for text in TEXTS:
            messages = ({"role": "user", "content": text},)
            cells = engine.backend.chat.cells(messages) if isinstance(engine, Engine) else ()
            made = await engine.generate(Request(cells, WRITTEN, scored=True, task="probe", messages=messages))
            # The probability of what was written depends on every logit of every step.
            digest.update(repr((made.text, made.cells, made.log_probability)).encode())
    return digest.hexdigest()[:SHOWN]


class Vote:
    """What most of those who are looked at say. The same machines choose the same each time, whoever answers first."""

    def __init__(self) -> None:
        self.awaited = set[object]()  # those who have not said it yet
        self.chosen: str | None = None
        self._said: list[str] = []

    async def say(self, who: object, said: str) -> str:
        """What is chosen when all who are awaited have said it; who comes later changes nothing."""
        self._said.append(said)
        self.awaited.discard(who)
        while self.chosen is None and self.awaited:
            await asyncio.sleep(0.05)
        if self.chosen is None:
            self.chosen = max(sorted(set(self._said)), key=self._said.count)
        return self.chosen
