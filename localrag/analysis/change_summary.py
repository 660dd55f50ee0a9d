"""What changed between two documents in a chat model's words.

A point is left out if it has a figure that its differences lack, or repeats a passage, which may be one that is gone, as if it held.
"""

import json
from collections.abc import Sequence

from localrag.analysis.amounts import figures_of
from localrag.llm.budgets import TokenDensity, max_json_tokens
from localrag.llm.grammar import json_object
from localrag.llm.model import CALL_ERRORS, PERSON
from localrag.llm.prompts import load_prompt
from localrag.llm.shapes import Field, schema_of, shape_text
from localrag.project import Project, resolve_token_budgets
from localrag.text.language import LANGUAGE_NAMES, detect_language
from localrag.text.sentences import collapse_whitespace

MAX_POINTS, MAX_POINT_CHARS, MAX_POINT_CHANGES = 6, 240, 8
MAX_PASSAGE_CHARS = 300  # of a passage in the prompt
CHARS_PER_TOKEN = 3
MIN_REPEATED_CHARS = 20  # of a passage that a point repeats


async def summarize_changes(changes: Sequence[tuple[int, str, str, str]], first: str, second: str, project: Project) -> list[str]:
    """The points that the project's chat model writes, each with the rows that it is about; none if there is no change or the call fails.

    `changes`: number of the row, kind, passage of the first and of the second document, those that matter most first; as many are told as
    the model's window has room for.
    """
    room = (await resolve_token_budgets(project)).sources * CHARS_PER_TOKEN
    told: dict[int, str] = {}
    for number, kind, old, new in changes:
        told[number] = f"{number}. {kind}: {_quoted_passage(old)} → {_quoted_passage(new)}"
        room -= len(told[number])
        if room < 0:
            break
    if not told:
        return []
    listed = "\n".join(told.values())
    language = detect_language(next(iter(told.values())))
    schema = schema_of(_fields(list(told)))
    messages = load_prompt("abstractive/changes", project.settings.prompts).fill(
        shape=shape_text(_fields(list(told))),
        first=first,
        second=second,
        changes=listed,
        language=project.settings.language or LANGUAGE_NAMES.get(language, "the language of the documents"),
    )
    script = await TokenDensity.measure(project.model.count, listed, language=project.settings.language)
    most = await max_json_tokens(schema, script, project.model.count)
    try:
        reply = await project.model.ask("changes", messages, max_tokens=most, grammar=json_object(schema), priority=PERSON)
    except CALL_ERRORS:
        return []
    passages = [flat for _, _, *pair in changes for passage in pair if len(flat := collapse_whitespace(passage)) >= MIN_REPEATED_CHARS]
    points = (_checked_point(row["text"], row["rows"], told, passages) for row in json.loads(reply.text)["points"])
    return [point for point in points if point]


def _fields(numbers: Sequence[int]) -> tuple[Field, ...]:
    rows = Field("rows", "[numbers of differences]", {"type": "array", "items": {"enum": list(numbers)}, "maxItems": MAX_POINT_CHANGES})
    text = Field("text", "one sentence", {"type": "string", "maxLength": MAX_POINT_CHARS})
    return (Field("points", "at most six points", {"minItems": 1, "maxItems": MAX_POINTS}, (rows, text)),)


def _quoted_passage(passage: str) -> str:
    flat = collapse_whitespace(passage)
    return f"“{flat[:MAX_PASSAGE_CHARS]}”" if flat else "nothing"


def _checked_point(text: str, rows: Sequence[int], told: dict[int, str], passages: Sequence[str]) -> str:
    """The point with its rows; empty if it names none or a figure that is in none of them, or repeats a passage word for word."""
    known = figures_of(" ".join(told[row].partition(". ")[2] for row in rows))
    flat = collapse_whitespace(text)
    if not rows or not flat or not figures_of(flat) <= known or any(passage in flat for passage in passages):
        return ""
    numbers = sorted(set(rows))
    return f"{flat} ({'row' if len(numbers) == 1 else 'rows'} {', '.join(map(str, numbers))})"
