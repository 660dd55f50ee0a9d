"""What a server writes in another spelling than the text is repaired; what the text does not have is dropped and counted."""

import json
from itertools import pairwise

import pytest
from llguidance import LLMatcher, LLTokenizer

from localrag.engine.remote.replies import GrammarFilter
from localrag.index import Index
from localrag.indexing.reports import report_fields
from localrag.llm.budgets import MIN_BUDGETS
from localrag.llm.grammar import MAX_DESCRIPTION_CHARS, claim_lines, entity_lines, pair_lines, parse_lines
from localrag.llm.prompts import parse_prompt, shipped_prompt
from localrag.llm.repair import known_option, verbatim_name
from localrag.llm.shapes import schema_of, shape_text
from localrag.project import open_for_writing, open_read_only
from localrag.settings import DEFAULT_ENTITY_TYPES
from localrag.store import graph
from tests.servers import Server, llama

TEXT = "The O’Brien ferries “Skua” and “Tern” sail in May for the Northern Line. The US ambassador praised IT staff. In May they rest."


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("northern line", "Northern Line"),
        ("O'Brien ferry", "O’Brien ferries"),
        ('"Skua"', "Skua"),
        ("Northern Lines", "Northern Line"),
        ("a Northern Line", "Northern Line"),
        ("US", "US"),
        ("Atlantis", "Atlantis"),
    ],
)
def test_a_name_is_found_in_the_text_in_another_spelling(written, found):
    """Case, quotes, number and articles are the text's; a name that the text does not have stays as it was."""
    assert verbatim_name(written, TEXT) == found


PAGE = """![[obsidian-icon.svg]] See https://obsidian.md/account/interiors and notes/prune/sync.md. The interiors team, that is Interiors,
uses Obsidian for a Prune of [a Catalyst license](https://obsidian.md/buy/catalyst-license/for-everybody-who-wants-it) by Acme Inc. of
**Obsidian Sync**, [[Help and support and everything else|Insider channels]], `vip-lounge`. An obsidian is a stone, and sync.md a file."""


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("Interiors", "Interiors"),
        ("interiors", "interiors"),
        ("the Obsidian", "Obsidian"),
        ("catalyst licenses", "Catalyst license"),
        ("SYNC.MD", "sync.md"),
    ],
)
def test_the_spelling_of_the_text_comes_before_that_of_an_address(written, found):
    """A name that stands in the text as it is written stays; what stands only within an address or a path is no name."""
    assert verbatim_name(written, PAGE) == found


def test_a_name_ends_before_the_full_stop_of_a_sentence():
    """Only that of an abbreviation belongs to it."""
    grammar = entity_lines([], ["place"], span_of="They came to Dover. Acme Inc. paid.")
    matches = {name: LLMatcher(LLTokenizer("byte"), grammar.next_grammar(""), log_level=0) for name in ("Dover.", "Acme Inc.")}
    rows = {name: f'{{"name": "{name}", "type": "place"}}\n'.encode() for name in matches}

    assert {name: matcher.consume_tokens(list(rows[name])) for name, matcher in matches.items()} == {"Dover.": False, "Acme Inc.": True}


@pytest.mark.parametrize(
    ("written", "kind"),
    [("PERSON", "person"), ("Organisation", "organization"), ("Places", "place"), ("concepts", "concept"), ("weather", "weather")],
)
def test_a_type_is_known_in_another_spelling(written, kind):
    """Case, number and British spelling do not matter; an unknown type stays one."""
    assert known_option(written, DEFAULT_ENTITY_TYPES) == kind


def kept(grammar, answer):
    """The rows that are kept of a server's answer, and how many are dropped."""
    taken = GrammarFilter(grammar)
    taken.add(answer)
    return parse_lines(taken.finish()), taken.dropped_rows


ROWS = [
    {"name": "skua", "type": "Products", "description": 'A ferry of the "Northern Line".'},
    {"name": "Northern Line", "type": "organisation", "description": "word " * 90},
    {"name": "Atlantis", "type": "place", "description": "A city under the sea."},
]
LISTED = entity_lines([], DEFAULT_ENTITY_TYPES, span_of=TEXT, described=True)


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"items": ROWS}),
        json.dumps(ROWS),
        "\n".join(map(json.dumps, ROWS)),
        "Here they are:\n```json\n" + json.dumps({"entities": ROWS}, indent=1) + "\n```",
    ],
)
def test_a_list_is_read_in_every_usual_form(answer):
    """As an object, an array, lines, or in a code block; a name that is not in the text is dropped, and counted."""
    rows, dropped = kept(LISTED, answer)

    assert [(r["name"], r["type"]) for r in rows] == [("Skua", "product"), ("Northern Line", "organization")]
    assert dropped == 1
    assert rows[0]["description"] == "A ferry of the 'Northern Line'."


def test_a_description_that_is_too_long_ends_at_a_word():
    """It is cut, not dropped."""
    (_, row), _ = kept(LISTED, json.dumps(ROWS))

    assert len(row["description"]) <= MAX_DESCRIPTION_CHARS
    assert row["description"].endswith("word")


def test_relationships_are_repaired_too():
    """Ends in another case, a strength as text or beyond ten."""
    grammar = pair_lines([("Skua", "Northern Line")], described=True, most=5)
    row = {"source": "northern line", "target": "SKUA", "description": "It owns it.", "strength": "12"}
    rows, dropped = kept(grammar, json.dumps({"items": [row, row | {"target": "Atlantis"}]}))

    assert rows == [{"source": "Northern Line", "target": "Skua", "description": "It owns it.", "strength": 10}]
    assert dropped == 1


def test_claims_are_repaired_too():
    """Fields in another order, names, status and quotation in another spelling, no object and no dates."""
    row = {
        "status": "True",
        "type": "praise",
        "subject": "US",
        "object": None,
        "from": None,
        "to": "",
        "source": "the us ambassador praised IT staff",
    }
    rows, dropped = kept(claim_lines(["US", "Skua"], TEXT), json.dumps([row, row | {"subject": "Atlantis"}]))

    assert [list(r.values()) for r in rows] == [["US", "NONE", "The US ambassador praised IT staff", "praise", "TRUE", "", ""]]
    assert dropped == 1


def answers(entities, relationships=()):
    """A function that answers a chunk's conversation with these rows."""

    def answer(body):
        shape = body["response_format"]["json_schema"]["schema"]["properties"]["items"]["items"]["properties"]
        return json.dumps({"items": list(relationships if "source" in shape else entities)})

    return answer


def index_with(tmp_path, text, entities, relationships=()):
    """An index of one text, of which a server says this."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(text)
    model = llama("writer", window=8192, n_params=5_000_000_000)
    with (
        Server(answers(entities, relationships), model) as server,
        Index.open(tmp_path / ".localrag", model=f"{server.url}#writer", missing_ok=True) as opened,
        opened.write_session(extractor="model"),
    ):
        opened.add(tmp_path / "docs")
        with open_read_only(opened.folder) as index:
            return opened.entities(), graph.relationships(index.db), opened.status()


FAR = (
    "Ingrid Holm bought the ferry Skua in May. It rained for a week. Nobody was on the quay. The town slept. "
    "Then a letter came from the US embassy. Lars Holm, her brother, has kept the books since then."
)


@pytest.mark.usefixtures("hashed")
def test_any_two_listed_entities_may_be_related_and_each_has_its_sentence(tmp_path):
    """Names six sentences apart are related where the model says so; the evidence is a sentence of each."""
    people = [{"name": n, "type": "person", "description": f"{n} is of the family."} for n in ("Ingrid Holm", "Lars Holm")]
    pair = {"source": "Ingrid Holm", "target": "Lars Holm", "description": "Lars is Ingrid's brother.", "strength": 8}
    _, (related,), _ = index_with(tmp_path, FAR, people, [pair])

    with open_for_writing(tmp_path / ".localrag", extractor="phrases") as project:
        shown = project.db.execute("SELECT start, end FROM evidence WHERE relationship_id = ? ORDER BY start", [related.id]).fetchall()
    assert related.description == "Lars is Ingrid's brother."
    assert [FAR[a:b].split(maxsplit=1)[0] for a, b in shown] == ["Ingrid", "Lars"]


@pytest.mark.usefixtures("hashed")
def test_names_that_are_also_common_words_are_kept_if_they_are_written_as_names(tmp_path):
    """US in capitals and May inside a sentence are names; "it" is none, and the status says that a row was dropped."""
    rows = [("US", "place"), ("May", "date"), ("it", "concept"), ("Skua", "product")]
    listed = [{"name": n, "type": kind, "description": f"{n} is named in it."} for n, kind in rows]
    entities, _, status = index_with(tmp_path, FAR, listed)

    assert {e.name for e in entities} == {"US", "May", "Skua"}
    assert status["dropped_rows"] == 1


def test_what_prompts_show_is_what_is_asked_for():
    """Each line of an example has the fields of the grammar's schema, in their order, and the grammar allows it."""
    shown = {}
    for name in ("abstractive/entities", "extractive/claims"):
        messages = parse_prompt(name, shipped_prompt(name)).messages
        for (_, asked), (role, said) in pairwise(messages):
            if role == "assistant":
                shown[name, asked] = [json.loads(line) for line in said.splitlines()]
    assert len(shown) == 3
    for (name, asked), rows in shown.items():
        names = list(dict.fromkeys(n for row in rows for n in (row.get("source"), row.get("target")) if n))
        grammar = (
            claim_lines([n.strip() for n in asked.split("Entities:")[1].split(",")], " ".join(asked.split("Entities:")[0].split()))
            if name == "extractive/claims"
            else entity_lines([], DEFAULT_ENTITY_TYPES, span_of=asked, described=True)
            if "name" in rows[0]
            else pair_lines([(a, b) for a in names for b in names if a < b], described=True, most=9)
        )
        assert list(grammar.schema["properties"]["items"]["items"]["properties"]) == list(rows[0])
        taken = GrammarFilter(grammar)
        taken.add(json.dumps({"items": rows}))
        assert parse_lines(taken.finish()) == rows


def test_a_report_is_described_by_the_fields_of_its_schema():
    """The prompt names them in the order of the schema; the rating is the last."""
    fields = report_fields(["E1"], MIN_BUDGETS)
    words, schema = shape_text(fields), schema_of(fields)

    places = [words.index(f'"{name}"') for name in schema["properties"]]
    assert places == sorted(places)
    assert list(schema["properties"])[-1] == "rating"
    assert "$shape" in shipped_prompt("abstractive/report")
