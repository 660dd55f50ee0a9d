"""The baseline: the same model asked for the same facts as one JSON object of a schema, with nothing that ties it to the text."""

import json
import re

from localrag.config import Settings
from localrag.engine.engine import Engine
from localrag.engine.request import Request
from localrag.errors import UsageError
from localrag.llm.grammar import json_object
from localrag.llm.model import Model
from localrag.llm.prompts import parse_prompt
from localrag.records import Chunk, ExtractedEntity, ExtractedRelationship, Extraction

ROOM = 300  # tokens an answer may have beyond those of its chunk: a model that repeats itself fills any room
_OBJECT = re.compile(r"\{[^{}\[\]]*\}")
_PROMPT = parse_prompt(
    "freeform",
    """
## system
You extract a knowledge graph from a text: its named entities, each with its type ($types), and which of them are related.

## user
Text:
The council of Tilbury wrote to Anna Marsh, who runs Marsh & Sons in Dover, about the Great Flood of 1953.

## assistant
{"entities": [{"name": "Tilbury", "type": "$place"}, {"name": "Anna Marsh", "type": "$person"}, {"name": "Marsh & Sons", "type": \
"$organization"}, {"name": "Dover", "type": "$place"}], "relationships": [{"source": "Anna Marsh", "target": "Marsh & Sons"}]}

## user
Text:
$text
""",
)


async def extract_freely(chunk: Chunk, model: Model, settings: Settings) -> Extraction:
    """What the model writes, repeats and inventions included; of an answer cut off at the limit, the items that are whole."""
    engine = await model.engine()
    if not isinstance(engine, Engine):
        raise UsageError("The freeform baseline runs on a model file.", "Give one: --model PATH.gguf")
    types = settings.entity_types
    example = {kind: kind if kind in types else types[0] for kind in ("person", "organization", "place")}
    messages = tuple(_PROMPT.fill(text=chunk.text, types=", ".join(types), **example))
    item = {"type": "object", "additionalProperties": False}
    name = {"type": "string"}
    entity = item | {"properties": {"name": name, "type": {"enum": list(types)}}, "required": ["name", "type"]}
    related = item | {"properties": {"source": name, "target": name}, "required": ["source", "target"]}
    lists = {"entities": {"type": "array", "items": entity}, "relationships": {"type": "array", "items": related}}
    grammar = json_object(item | {"properties": lists, "required": list(lists)})
    cells = engine.backend.chat.cells(messages)
    answer = await engine.generate(Request(cells, chunk.tokens + ROOM, grammar, task="freeform", messages=messages))
    model.output_tokens += answer.output_tokens
    rows = [json.loads(found) for found in _OBJECT.findall(answer.text)]
    entities = tuple(ExtractedEntity(row["name"], row["type"]) for row in rows if "name" in row)
    pairs = tuple(ExtractedRelationship(row["source"], row["target"]) for row in rows if "source" in row)
    return Extraction(chunk.id, entities, pairs)
