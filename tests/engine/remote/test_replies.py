"""What a model wrote is read in every usual shape, without its thinking, however long it is."""

import json
import time
from contextlib import suppress

import pytest

from localrag.engine.remote.refusals import HttpError
from localrag.engine.remote.replies import EmptyResponse, GrammarFilter, MalformedResponse, StreamState, read_value, strip_reasoning
from localrag.llm.grammar import choice_of, entity_lines, json_object, pair_lines, parse_lines, single_line, standalone_line
from localrag.llm.shapes import PERCENT, Field, schema_of
from tests.question_lines import question_lines

TEXT = "Ingrid Holm bought the ferry Skua in Vardby."


def kept(grammar, *parts):
    """What is kept of an answer that arrives in these parts."""
    answer = GrammarFilter(grammar)
    for part in parts:
        answer.add(part)
    return answer.finish()


@pytest.mark.parametrize(
    "said",
    [
        '{"answer": "yes"}',
        '[{"answer": "yes"}]',
        '{"result": "Yes"}',
        "yes",
        "**Yes.**",
        "```\nyes\n```",
        "I have read the text.\n\nAnswer: yes",
    ],
)
def test_a_choice_is_read_from_json_and_from_text(said):
    """As an object, a word, a sentence that begins with it, or the only option in the last line."""
    assert kept(choice_of(["yes", "no"]), said) == "yes"


@pytest.mark.parametrize("said", ["It may be yes or no", "perhaps", '{"answer": "maybe"}', "The text says neither.", "{}"])
def test_what_names_no_option_or_two_is_no_choice(said):
    """It is not guessed."""
    with pytest.raises(MalformedResponse):
        kept(choice_of(["yes", "no"]), said)


@pytest.mark.parametrize(
    "said",
    [
        '{"items": ["Is it a ferry?", "Who sails it?"]}',
        '{"questions": [{"question": "Is it a ferry?"}, {"question": "Who sails it?"}]}',
        "Is it a ferry?\nWho sails it?",
        "Here are two questions:\n\n1. Is it a ferry?\n2. Who sails it?\n",
        '- "Is it a ferry?"\n- Who sails it?',
        '```json\n["Is it a ferry?",\n "Who sails it?"]\n```',
    ],
)
def test_a_list_of_texts_is_read_from_json_and_from_lines(said):
    """Numbers, bullets, quotation marks, a code block and a heading are no part of a line."""
    assert kept(question_lines(2), said) == "Is it a ferry?\nWho sails it?\n"


@pytest.mark.parametrize("said", ['{"line": "The Skua is a ferry"}', "The Skua is a ferry", '"The Skua is a ferry"\n\nShe sails.'])
def test_a_line_is_read_from_json_and_from_text(said):
    """The first line that is one, without quotation marks; brackets within a text are no JSON."""
    assert kept(single_line(60), said) == "The Skua is a ferry\n"
    assert kept(standalone_line(60), "Who sails the Skua in (1974), in {Vardby?"[:29]) == "Who sails the Skua in (1974),\n"


@pytest.mark.parametrize(
    "said",
    [
        '["Skua", "Vardby"]\n["Ingrid Holm", "Skua"]',
        '{"items": [["Skua", "Vardby"], ["Ingrid Holm", "Skua"]]}',
        '{"relationships": [{"source": "Skua", "target": "Vardby"}, {"source": "Ingrid Holm", "target": "Skua", "note": 1}]}',
    ],
)
def test_pairs_are_read_from_lists_and_objects(said):
    """As the prompt's examples show them, and as the schema asks for them."""
    names = ["Skua", "Vardby", "Ingrid Holm"]
    grammar = pair_lines([(a, b) for a in names for b in names if a < b], most=5)

    assert parse_lines(kept(grammar, said)) == [["Skua", "Vardby"], ["Ingrid Holm", "Skua"]]


TYPED, FOUND = entity_lines(["Skua", "Vardby"], ["place", "thing"]), entity_lines([], ["place", "thing"], span_of=TEXT)
ROWS = {
    "types of names": (TYPED, '{"Skua": "Things", "Vardby": "place"}'),
    "lines": (TYPED, '{"name": "Skua", "type": "thing"}\n{"name": "Vardby", "type": "place"}'),
    "types in a block": (TYPED, 'Types:\n```json\n{"entities": {"Skua": "thing", "Vardby": "PLACE"}}\n```'),
    "another list": (FOUND, '{"thoughts": ["hm"], "found": [{"name": "Skua", "type": "thing"}, {"name": "Vardby", "type": "place"}]}'),
    "lists": (FOUND, '[["Skua", "thing"], ["Vardby", "place"]]'),
    "single quotes and commas": (
        FOUND,
        "The [1] rows:\n```json\n{'items': [{'name': 'Skua', 'type': 'thing',}, {'name': 'Vardby', 'type': 'place'},]}\n```\nDone {ok}.",
    ),
    "bare names": (FOUND, '- {name: "Skua", type: "thing"}\n- {name: "Vardby", type: "place",}'),
    "curly quotes": (FOUND, "{“name”: “Skua”, “type”: “thing”}\n{“name”: “Vardby”, “type”: “place”}"),
    "cut": (FOUND, '{"items": [{"name": "Skua", "type": "thing"} {"name": "Vardby", "type": "place"}, {"name": "Ing'),
}


@pytest.mark.parametrize(("grammar", "said"), ROWS.values(), ids=ROWS)
def test_rows_are_read_in_the_usual_forms_and_with_the_usual_mistakes(grammar, said):
    """As lines, objects and lists under any name, in prose; with other quotes, bare names, other commas or a missing end; none is lost."""
    rows = parse_lines(kept(grammar, said))

    assert [(r["name"], r["type"]) for r in rows] == [("Skua", "thing"), ("Vardby", "place")]


POINT = (
    Field("score", "0 to 100", PERCENT),
    Field("description", "in a sentence", {"type": "string", "maxLength": 60}),
    Field("evidence", "ids", {"type": "array", "minItems": 1, "maxItems": 2, "items": {"enum": ["C1", "C2"]}}),
)
POINTS = schema_of([Field("points", "the points", {"minItems": 0, "maxItems": 2}, POINT)])


@pytest.mark.parametrize(
    "said",
    [
        {"points": [{"score": 80, "description": "It sails.", "evidence": ["C1"]}]},
        [{"score": "80 %", "description": "It sails.", "evidence": "[C1]"}],
        {"score": 80.2, "evidence": ["c1", "C7"], "description": "It sails.", "more": True},
        {"answer": {"points": [{"evidence": ["C1"], "score": 80, "description": "It sails."}]}},
    ],
)
def test_an_object_is_read_in_other_orders_forms_and_spellings(said):
    """Numbers as text, ids in brackets or unknown, a list without its name, other fields; limits hold all the same."""
    assert json.loads(kept(json_object(POINTS), json.dumps(said))) == {
        "points": [{"score": 80, "description": "It sails.", "evidence": ["C1"]}]
    }


def test_an_object_is_cut_to_its_limits():
    """A text that is too long ends at a word, a list at its last place, a number at its bounds."""
    point = {"score": 400, "description": "word " * 40, "evidence": ["C1", "C2", "C1"]}
    points = json.loads(kept(json_object(POINTS), json.dumps([point] * 3)))["points"]

    assert len(points) == 2
    assert (points[0]["score"], points[0]["evidence"]) == (100, ["C1", "C2"])
    assert points[0]["description"] == ("word " * 12).strip()


THOUGHTS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>\n"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
]


@pytest.mark.parametrize(("opener", "closer"), THOUGHTS)
def test_thinking_that_holds_json_is_no_answer(opener, closer):
    """Each family's tags are taken off, also where braces stand between them; so are end marks."""
    said = f'{opener}We need JSON like {{"items": [...]}}, perhaps {{"answer": "no"}}.{closer}'

    assert kept(choice_of(["yes", "no"]), said + '{"answer": "yes"}<|im_end|>') == "yes"
    assert kept(None, said + "It is a ferry.<|end|>\n") == "It is a ferry."


@pytest.mark.parametrize(("opener", "closer"), THOUGHTS)
def test_thinking_is_never_shown(opener, closer):
    """Of an answer that comes character by character, the text after the thinking is shown, and nothing of an end mark."""
    shown = []
    answer = GrammarFilter(None, shown.append)
    for character in f"{opener}A ferry? {{}}{closer}It is < one.</s>":
        answer.add(character)

    assert answer.finish() == "It is < one."
    assert shown[-1] == "It is < one."
    assert all("It is < one.".startswith(text) for text in shown)


def test_thinking_whose_start_the_template_wrote_is_taken_off():
    """Its end mark alone tells it; a block that does not end has no answer."""
    assert strip_reasoning('Is it {"answer": "no"}?</think>\nyes') == "yes"
    assert strip_reasoning("<think>Is it?") == ""
    assert strip_reasoning("<thi") == ""
    assert strip_reasoning("<think>a</think><think>b</think>c") == "c"


def test_marks_that_an_answer_is_about_stay_in_it():
    """Within JSON they are text, and struck-out text in HTML is no end of an answer."""
    row = {"name": "Skua", "type": "thing", "description": "A tag like </think> or [/THINK] in a text"}

    assert parse_lines(kept(entity_lines([], ["thing"], span_of=TEXT, described=True), json.dumps([row]))) == [row]
    assert kept(None, "It is <s>two</s>") == "It is <s>two</s>"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_an_answer_in_the_field_of_thinking_is_found(name):
    """Where a server's parser takes the whole answer for thinking, it is read from there, without the thinking in it."""
    state, answer = StreamState(), GrammarFilter(choice_of(["yes", "no"]))
    for text in ('Is it {"answer": "no"}?</think>', '{"answer": "yes"}'):
        answer.add(state.read({"choices": [{"delta": {"content": None, name: text}}]}))

    assert answer.finish("".join(state.reasoning)) == "yes"


def test_thoughts_are_no_answer():
    """Only JSON is read in the place of an answer that is missing."""
    for grammar in (None, choice_of(["yes", "no"])):
        with pytest.raises(EmptyResponse):
            GrammarFilter(grammar).finish("Hmm. Is it yes?")


@pytest.mark.parametrize(
    ("message", "finish_reason", "why"),
    [
        ({"content": ""}, "stop", "wrote nothing"),
        ({"content": None, "reasoning": "Hm."}, "stop", "only thought"),
        ({"content": None}, "content_filter", "content filter"),
    ],
)
def test_an_empty_answer_says_why(message, finish_reason, why):
    """Nothing written, only thought, or withheld."""
    state = StreamState()
    state.read({"choices": [{"message": message, "finish_reason": finish_reason}]})

    assert why in state.why_empty()


def test_an_error_in_the_place_of_an_answer_is_raised():
    """With its status and its words."""
    with pytest.raises(HttpError) as error:
        StreamState().read({"object": "error", "message": "maximum context length is 4096", "code": 400})
    assert (error.value.status, "context length" in error.value.words) == (400, True)


MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    "said",
    [
        "x" * MEGABYTE,
        '{"a":' * (MEGABYTE // 5),
        "[" * MEGABYTE,
        "[1,1,1,1" * (MEGABYTE // 8),
        '["\\"{' * (MEGABYTE // 5),
        '{"items": ["' + "x" * MEGABYTE,
        "<think>" * (MEGABYTE // 7),
        "<think></think>" * (MEGABYTE // 15),
        "<|im_end|>" * (MEGABYTE // 10),
        " " * MEGABYTE,
        "1." * (MEGABYTE // 2),
        json.dumps({"items": [{"name": "x" * MEGABYTE, "type": "y" * MEGABYTE}]}),
    ],
)
@pytest.mark.ci
def test_a_megabyte_in_one_line_is_read_to_its_end(said):
    """Brackets that never close, marks without an end, names of a megabyte: nothing is read more often than a few times."""
    for grammar in (
        choice_of(["yes", "no"]),
        entity_lines([], ["place"], span_of=TEXT),
        pair_lines([("Skua", "Vardby")], most=3),
        question_lines(1),
        json_object(POINTS),
    ):
        with suppress(MalformedResponse):
            assert kept(grammar, *(said[i : i + 997] for i in range(0, len(said), 997))) == ""


@pytest.mark.parametrize("said", ["{'description': 'A user's licence',}", '{"description": "A user\'s licence",}'])
def test_an_apostrophe_is_no_quotation_mark(said):
    """Mended texts keep theirs."""
    assert read_value(said, schema_of((Field("description", "", {"type": "string"}),)))["description"] == "A user's licence"


@pytest.mark.parametrize("said", ["{'" * 50_000, "{name: '" * 20_000, "[" * 200_000, "{'a': 'b', " * 10_000])
def test_hostile_json_is_given_up_soon(said):
    """What never closes is refused in a few seconds, however long it is."""
    began = time.perf_counter()
    with pytest.raises(MalformedResponse):
        kept(entity_lines([], ["place"], span_of=TEXT), said)
    assert time.perf_counter() - began < 5
