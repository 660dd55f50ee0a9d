"""Token budgets of prompts and answers, and the throughput measured on this machine.

Budgets depend on the model's window and size, and on the tokens per character of the text. Contexts stop growing at 8,000 tokens: in the
paper (section 4) longer ones gave no better answers. A prompt, its context and the longest answer always fit the window together.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from localrag.model_files import ModelFile
from localrag.system.files import cache_dir, write_atomically

DECODE_FACTOR = 4  # times as long as reading a token takes writing one, on a CPU; speeds are measured mostly on reading
CountTokens = Callable[[str], Awaitable[int]]  # `ChatModel.count`

DEFAULT_TOKENS_PER_CHAR = 0.5  # assumed by limits in characters: English takes 0.25, German 0.4, with any vocabulary
SAFETY_FACTOR = 1.25  # an answer may be denser than its sources
MIN_SAMPLE_CHARS = 200  # of Latin script; the density of shorter texts is not measured
# Sample texts by language, for answers in another language than the documents'.
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
class TokenBudgets:
    """Token budgets of prompts, and limits of answers in numbers and characters. Characters are those of Latin script."""

    report_context: int = 2000  # entities, relationships and reports that a report is written from
    findings: int = 5
    report_summary: int = 400  # characters
    explanation: int = 300  # characters, of a finding
    long_reports: bool = False  # findings have several sentences
    descriptions: int = 1500  # per summary; the remaining ones are summarised together with its result
    description: int = 600  # characters of a summary
    map_batch: int = 1800  # reports or passages of one map call
    points: int = 4  # of a map call
    sources: int = 2400  # passages, entities, relationships and reports that an answer is written from
    passages: int = 10  # retrieved for an answer
    reduce_context: int = 2000  # points that an answer is composed of
    max_answer_sentences: int = 8
    max_answer_chars: int = 1600  # the answer ends with the line that exceeds this

    @classmethod
    def of(cls, window: int, *, small: bool = False) -> "TokenBudgets":
        """The budgets for a window of so many tokens (0: unknown), in four sizes. A small model writes worse from more context."""
        if 0 < window < 4096 and not small:
            return TINY
        if small or window < 8192:
            return cls()
        return _MEDIUM_BUDGETS if window < 16384 else _LARGE_BUDGETS


_MEDIUM_BUDGETS = TokenBudgets(
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
    reduce_context=4000,
    max_answer_sentences=12,
    max_answer_chars=2400,
)
_LARGE_BUDGETS = TokenBudgets(
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
    reduce_context=8000,
    max_answer_sentences=20,
    max_answer_chars=4000,
)
MIN_BUDGETS = TokenBudgets()
TINY = TokenBudgets(  # for a window of 2,048 tokens
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
    reduce_context=600,
    max_answer_sentences=5,
    max_answer_chars=900,
)


def less_than(budgets: TokenBudgets) -> TokenBudgets | None:
    """The next smaller budgets, for a window that has become smaller; None below the smallest."""
    return None if budgets == TINY else TINY if budgets == MIN_BUDGETS else MIN_BUDGETS


@dataclass(frozen=True, slots=True)
class TokenDensity:
    """Tokens per character of an answer."""

    tokens_per_char: float = DEFAULT_TOKENS_PER_CHAR

    @classmethod
    async def measure(cls, count: CountTokens, *texts: str, language: str = "") -> "TokenDensity":
        """The measured density of answers from these texts or in a language; of a text in another script only that script counts."""
        samples = [_non_ascii_part(t) for t in (*texts, _SAMPLES.get(language.strip().lower(), language))]
        measured = [t for t in samples if len(t) >= MIN_SAMPLE_CHARS or not t.isascii()]
        return cls(max([DEFAULT_TOKENS_PER_CHAR, *[SAFETY_FACTOR * await count(t) / len(t) for t in measured]]))

    def max_chars(self, latin: int) -> int:
        """The limit in characters of this script that takes as many tokens as `latin` characters of Latin script."""
        return max(10, int(latin * DEFAULT_TOKENS_PER_CHAR / self.tokens_per_char))

    def max_tokens(self, characters: int) -> int:
        """The most tokens of so many characters of this script."""
        return ceil(characters * self.tokens_per_char)


def _non_ascii_part(text: str) -> str:
    """The non-ASCII characters if they are a fifth of the text or more, else the text."""
    other = "".join(c for c in text if not c.isascii())
    return other if 5 * len(other) >= len(text) else text


async def max_json_tokens(schema: dict[str, Any], script: TokenDensity, count: CountTokens) -> int:
    """Tokens of the longest JSON that a schema of bounded strings and arrays allows."""
    fixed, free = _longest(schema)
    return await count(json.dumps(fixed, ensure_ascii=False)) + script.max_tokens(free) + 2


def _longest(schema: dict[str, Any]) -> tuple[Any, int]:
    """The largest value of a schema with its free strings empty, and the total characters of these strings."""
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


KEPT_RUNS = 5
MIN_PREFILL_TOKENS = 200
_PREFILL = " prefill"  # behind a model's fingerprint


def model_throughput() -> dict[str, list[float]]:
    """Tokens per second of the last runs on this machine by model fingerprint, newest last."""
    try:
        return {str(model): [float(speed) for speed in speeds] for model, speeds in _read_stored("speeds.json").items()}
    except (ValueError, TypeError):  # damaged
        return {}


def estimate_seconds(tokens: int, model: ModelFile) -> float | None:
    """Seconds for a model to compute so many tokens, by the median of its last runs; None if there were none on this machine."""
    speed = _median_speed(model.fingerprint)
    return None if speed is None else tokens / speed


def record_throughput(model: ModelFile, figures: dict[str, Any]) -> None:
    """Store the tokens per second of an engine's metrics, unless they cover too few tokens."""
    if figures.get("rows", 0) >= 1000 and figures.get("seconds"):
        _record_speed(model.fingerprint, figures["rows"] / figures["seconds"])


def prefill_speed(model: ModelFile) -> float | None:
    """Tokens of a prompt per second, by the median of the model's last answers on this machine; None if there were none."""
    return _median_speed(f"{model.fingerprint}{_PREFILL}")


def _median_speed(key: str) -> float | None:
    speeds = sorted(model_throughput().get(key, []))
    return speeds[len(speeds) // 2] if speeds else None


def record_prefill_speed(model: ModelFile, tokens: int, seconds: float) -> None:
    """Store how fast a model read its prompts, unless they were too short to tell."""
    if tokens >= MIN_PREFILL_TOKENS and seconds > 0:
        _record_speed(f"{model.fingerprint}{_PREFILL}", tokens / seconds)


def _record_speed(key: str, speed: float) -> None:
    speeds = model_throughput()
    _write_stored("speeds.json", speeds | {key: [*speeds.get(key, []), round(speed, 1)][-KEPT_RUNS:]})


def stage_speeds(key: str) -> dict[str, list[list[float]]]:
    """Chunks and seconds of the last runs by stage, newest last. `key` identifies comparable runs, by their models above all."""
    try:
        stages = _read_stored("paces.json")[key]
        return {stage: [[float(chunks), float(seconds)] for chunks, seconds in runs] for stage, runs in stages.items()}
    except (ValueError, TypeError, AttributeError, KeyError):  # missing or damaged
        return {}


def record_stage_speeds(key: str, took: Mapping[str, tuple[float, float]]) -> None:
    """Store the chunks and seconds of each stage of a run, except stages without chunks."""
    speeds = stage_speeds(key)
    new = {stage: [*speeds.get(stage, []), [float(chunks), seconds]][-KEPT_RUNS:] for stage, (chunks, seconds) in took.items() if chunks}
    _write_stored("paces.json", _read_stored("paces.json") | {key: speeds | new})


def _read_stored(name: str) -> dict[str, Any]:
    try:
        stored = json.loads((cache_dir() / name).read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _write_stored(name: str, values: dict[str, Any]) -> None:
    with suppress(OSError):  # the next plan then has no time estimate
        write_atomically(cache_dir() / name, json.dumps(values).encode())
