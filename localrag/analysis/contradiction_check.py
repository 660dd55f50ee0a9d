"""Whether two statements contradict each other in the judgment of a chat model."""

import json
from typing import NamedTuple

from localrag.llm.budgets import TokenDensity, max_json_tokens
from localrag.llm.grammar import json_object
from localrag.llm.model import CALL_ERRORS, INDEXING
from localrag.llm.prompts import load_prompt
from localrag.llm.shapes import Field, schema_of, shape_text
from localrag.project import Project

MAX_SUBJECT_CHARS = 80
_SUBJECT = {"type": "string", "maxLength": MAX_SUBJECT_CHARS}
_YES_NO = {"enum": ["yes", "no"]}
FIELDS = (  # the last is the verdict; naming the subjects first is part of the prompt that was measured
    Field("first", "what the first sentence is about", _SUBJECT),
    Field("second", "what the second sentence is about", _SUBJECT),
    Field("same", "yes or no", _YES_NO),
    Field("both_true", "yes or no", _YES_NO),
)


class ReadStatement(NamedTuple):
    """A sentence as a model reads it, and the title of its document."""

    text: str
    title: str


async def contradicts(first: ReadStatement, second: ReadStatement, project: Project) -> bool:
    """Whether the project's chat model says that two statements cannot both be true; False if the call fails."""
    schema = schema_of(FIELDS)
    messages = load_prompt("abstractive/contradiction", project.settings.prompts).fill(
        shape=shape_text(FIELDS), first=first.text, first_document=first.title, second=second.text, second_document=second.title
    )
    script = await TokenDensity.measure(project.model.count, f"{first.text} {second.text}", language=project.settings.language)
    most = await max_json_tokens(schema, script, project.model.count)
    try:
        reply = await project.model.ask("contradiction", messages, max_tokens=most, grammar=json_object(schema), priority=INDEXING)
    except CALL_ERRORS:
        return False
    return bool(json.loads(reply.text)["both_true"] == "no")
