"""How much is put before a model and asked of it: by its window and size, and by how many tokens a character of the text takes.

Contexts stop growing at 8,000 tokens: in the paper (section 4) longer ones answered no better. A prompt, its context and the longest
answer always fit the window together.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

Count = Callable[[str], Awaitable[int]]  # `Model.count`

USUAL = 0.5  # tokens that limits in characters allow for one: English takes 0.25, German 0.4, with any vocabulary
MARGIN = 1.25  # an answer may be denser than what it is about
TELLING = 200  # characters of Latin script from which on its density is measured
# Text in a script, for a language that is asked for while the documents are in another: the model's vocabulary tells its density.
_SAMPLES = {
    "chinese": "小镇因出售造船厂而分裂。",
    "japanese": "町は造船所の売却をめぐって分裂した。",
    "korean": "마을은 조선소 매각을 두고 분열되었다.",
    "russian": "Город разделился из-за продажи верфи.",
    "ukrainian": "Місто розділилося через продаж верфі.",
    "greek": "Η πόλη διχάστηκε για την πώληση του ναυπηγείου.",
    "arabic": "انقسمت البلدة بسبب بيع حوض بناء القوارب.",
    "hebrew": "העיירה נחלקה בגלל מכירת המספנה.",
    "hindi": "नाव घाट की बिक्री को लेकर शहर बंट गया।",
    "thai": "เมืองแตกแยกเพราะการขายอู่ต่อเรือ",
}


@dataclass(frozen=True, slots=True)
class Budgets:
    """Tokens of what prompts hold, and numbers and characters of what answers may hold. Characters are those of Latin script."""

    report_context: int = 2000  # of entities, relationships and reports that a report is written from
    findings: int = 5
    report_summary: int = 400  # characters
    explanation: int = 300  # of a finding: characters
    long_reports: bool = False  # findings of several sentences are asked for
    descriptions: int = 1500  # handed to one summary; what is left over is summarised together with its result
    description: int = 600  # characters of a summary
    map_batch: int = 1800  # of reports or passages in one map call
    points: int = 4  # of a map call
    sources: int = 2400  # of passages, entities, relationships and reports that an answer is written from
    passages: int = 10  # looked up for them
    reduce: int = 2000  # of points that an answer is put together from
    sentences: int = 8  # of an answer
    prose: int = 1600  # characters after which an answer ends with its line

    @classmethod
    def of(cls, window: int, *, small: bool = False) -> "Budgets":
        """What fits a window of so many tokens. A small model writes worse from more, so it is given the least whatever its window.

        There are four sizes, so that a slightly different window on another day changes nothing. 0: the window is unknown.
        """
        if 0 < window < 4096 and not small:
            return TINY
        if small or window < 8192:
            return cls()
        return _MIDDLE if window < 16384 else _LARGE


_MIDDLE = Budgets(
    report_context=4000,
    findings=8,
    report_summary=600,
    explanation=400,
    long_reports=True,
    descriptions=3000,
    description=800,
    map_batch=4500,
    points=6,
    sources=4800,
    reduce=4000,
    sentences=12,
    prose=2400,
)
_LARGE = Budgets(
    report_context=8000,
    findings=10,
    report_summary=1000,
    explanation=600,
    long_reports=True,
    descriptions=4000,
    description=1000,
    map_batch=8000,
    points=8,
    sources=8000,
    passages=16,
    reduce=8000,
    sentences=20,
    prose=4000,
)
LEAST = Budgets()
TINY = Budgets(  # what a window of 2,048 tokens has room for
    report_context=700,
    findings=2,
    report_summary=250,
    explanation=200,
    descriptions=700,
    description=400,
    map_batch=500,
    points=3,
    sources=800,
    passages=6,
    reduce=600,
    sentences=5,
    prose=900,
)


def less_than(budgets: Budgets) -> Budgets | None:
    """The next smaller budgets, for when the window has no room for these today; None below the smallest."""
    return None if budgets == TINY else TINY if budgets == LEAST else LEAST


@dataclass(frozen=True, slots=True)
class Script:
    """How many tokens a character of an answer may take."""

    density: float = USUAL

    @classmethod
    async def of(cls, count: Count, *texts: str, language: str = "") -> "Script":
        """That of answers about these texts, or in a language that is asked for: the densest by the model's own count, at least USUAL.

        A few Latin words say nothing: "In 1953?" has a token for every character. Of a text in another script only that counts, not the
        Latin words that lists and prompts put between.
        """
        told = [_own_script(t) for t in (*texts, _SAMPLES.get(language.strip().lower(), language))]
        measured = [t for t in told if len(t) >= TELLING or not t.isascii()]
        return cls(max([USUAL, *[MARGIN * await count(t) / len(t) for t in measured]]))

    def characters(self, latin: int) -> int:
        """The limit for this script that takes as many tokens as so many characters of Latin script."""
        return max(10, int(latin * USUAL / self.density))

    def tokens(self, characters: int) -> int:
        """How many tokens so many characters of this script may take."""
        return ceil(characters * self.density)


def _own_script(text: str) -> str:
    """The characters beyond ASCII where they are a fifth of the text or more, else the text."""
    other = "".join(c for c in text if not c.isascii())
    return other if 5 * len(other) >= len(text) else text


async def room(schema: dict[str, Any], script: Script, count: Count) -> int:
    """Tokens that hold the longest JSON that a schema of bounded strings and arrays allows."""
    fixed, free = _longest(schema)
    return await count(json.dumps(fixed, ensure_ascii=False)) + script.tokens(free) + 2


def _longest(schema: dict[str, Any]) -> tuple[Any, int]:
    """A value as large as a schema allows, its free strings empty, and how many characters these may have in all."""
    if "enum" in schema:
        return max(schema["enum"], key=lambda v: len(str(v))), 0
    kind = schema["type"]
    if kind == "object":
        parts = {name: _longest(part) for name, part in schema["properties"].items()}
        return {name: value for name, (value, _) in parts.items()}, sum(free for _, free in parts.values())
    if kind == "array":
        value, free = _longest(schema["items"])
        return [value] * schema["maxItems"], free * schema["maxItems"]
    return (schema["maximum"], 0) if kind == "integer" else ("", schema["maxLength"])
