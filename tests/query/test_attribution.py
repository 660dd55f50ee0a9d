"""Attribution of units: clauses over several passages, items below their list's line, rows, code, and sentences that claim nothing."""

import time

import pytest

from localrag.entailment import MAX_SENTENCE_CHARS, parse_sentence
from localrag.query.answer_markdown import parse_units
from localrag.query.attribution import declines, is_entailed, support_checker, unit_verdict
from localrag.query.table_rows import stating_row
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Quote

HANDBOOK = """Every employee gets 20 days of paid vacation in a year. Interns get 5 days of paid vacation.

| Role | Salary | Bonus |
|------|--------|-------|
| Programmer | 85,000 | 10 % |
| Lead Programmer | 112,000 | 15 % |

Start the server with:

    [Service]
    ExecStart=/usr/bin/datasette serve
    Restart=always

The board meets in March and elects the chairman."""
MINUTES = "Ingrid Holm sold the ferry Skua in 1971. The mayor promised a new pier."
SHOWN = [Quote("a", 0, len(HANDBOOK), HANDBOOK), Quote("b", 0, len(MINUTES), MINUTES)]


@pytest.fixture
def check(embed):
    return support_checker(embed)


@pytest.fixture
def states(check):
    """A function that gives the state of every unit of an answer that makes a claim, with the verdict."""

    def of(text):
        verdicts, previous = [], ""
        for unit in parse_units(text):
            verdict = unit_verdict(unit, (), SHOWN, check, previous)
            previous = unit.claim
            if verdict:
                verdicts.append(verdict)
                passages = {quote.chunk_id: quote.text for quote in SHOWN}
                assert all(passages[q.chunk_id][q.start : q.end] == q.text for q in verdict.quotes)
        return [v.state for v in verdicts]

    return of


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ("| Programmer | 85,000 | 10 % |", SUPPORTED_STATE),
        ("| Lead Programmer | 112000 | 15 % |", SUPPORTED_STATE),
        ("| Lead Programmer | 85,000 | 15 % |", CONTRADICTED_STATE),
        ("| Lead Programmer | 99,000 | 15 % |", CONTRADICTED_STATE),
        ("| Gardener | 40,000 | none |", UNSUPPORTED_STATE),
    ],
)
def test_a_row_is_checked_against_the_line_about_the_same_thing(row, state, states):
    """Its numbers must stand in the line that its first cell names, not in another row."""
    assert states(f"| Role | Salary | Bonus |\n|---|---|---|\n{row}\n") == [state]


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("[Service]\nExecStart=/usr/bin/datasette serve\nRestart=always", SUPPORTED_STATE),
        ("  ExecStart=/usr/bin/datasette   serve\n  Restart=always", SUPPORTED_STATE),
        ("[Service]\nExecStart=/usr/bin/datasette serve\nRestart=never", RELATED_STATE),
        ("Restart=always\n[Service]\nExecStart=/usr/bin/datasette serve", UNSUPPORTED_STATE),
        ("[Unit]\nAfter=network.target\nRestart=always", UNSUPPORTED_STATE),
    ],
)
def test_code_is_supported_by_the_passage_that_has_its_lines(code, state, states):
    """Space at the beginning of a line or inside it does not count; a changed line does, and so does another order."""
    assert states(f"```ini\n{code}\n```\n") == [state]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Employees get 20 days of paid vacation a year, and the mayor promised a new pier.", SUPPORTED_STATE),
        ("Ingrid Holm sold the ferry Skua in 1971, and the mayor refused a new pier.", CONTRADICTED_STATE),
        ("Ingrid Holm sold the ferry Skua in 1971, but whales migrate north in winter.", UNSUPPORTED_STATE),
    ],
)
def test_a_sentence_is_proved_clause_by_clause_from_several_passages(text, state, states):
    """Every clause needs a proof; one that a source contradicts is contradicted, one about nothing there leaves it unproved."""
    assert states(text) == [state]


def test_an_item_is_read_below_the_line_of_its_list(states):
    """What holds for employees is no proof of an item on interns, though the item alone would be one."""
    assert states("Every employee gets:\n\n- 20 days of paid vacation in a year\n") == [SUPPORTED_STATE]
    assert states("Ingrid Holm of Petersburg gets:\n\n- 20 days of paid vacation in a year\n") != [SUPPORTED_STATE]


@pytest.mark.parametrize(
    "text",
    [
        "The documents do not say who won.",
        "Das steht in den Dokumenten nicht.",
        "This information is found in the charter.md file, which is the source number 1.",
        "## Vacation",
        "Here is what is known:",
    ],
)
def test_what_claims_nothing_has_no_state(text, states):
    """Headings, lines that end in a colon, and sentences on what the documents do not say bear no mark."""
    assert states(text) == []


@pytest.mark.parametrize("text", ["He does not pay.", "The document names no price but the minutes do.", "The board did not meet."])
def test_a_sentence_that_denies_something_claims_it(text):
    """Only a sentence on what the documents lack declines to answer."""
    assert not declines(text)


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("A blueprint in Flask groups related views.", "A :class:`Blueprint` groups related views."),
        ("The suite uses the ports 8000 and 8001.", "The suite uses the ports **8000** and **8001**."),
        ("The harbour was opened on July 4, 2014.", "The harbour was opened on 2014-07-04."),
        ("The harbour was opened on the 4th of July 2014.", "The harbour was opened on 4 July 2014."),
    ],
)
def test_markup_and_the_form_of_a_date_make_no_difference(claim, source, embed):
    """Of Markdown and reStructuredText; a heading or a path counts as said."""
    check = support_checker(embed, places=lambda _: "flask/blueprints.rst")

    given = [Quote("a", 0, len(source), source)]
    other = claim.replace("Flask", "Django").replace("4", "5").replace("8001", "8002")

    assert check(claim, given, ()).state == SUPPORTED_STATE
    assert check(other, given, ()).state != SUPPORTED_STATE


@pytest.mark.parametrize(
    ("claim", "is_proved"),
    [
        ("The horsepower of the Volkswagen 1131 deluxe sedan is 46.", True),
        ("The Volkswagen 1131 deluxe sedan has a horsepower of 46 and a weight of 1835.", True),
        ("The horsepower of the Volkswagen 1131 deluxe sedan is 26.", False),  # the miles
        ("The horsepower of the Volkswagen 1131 deluxe sedan is not 46.", False),
        ("The horsepower of the Peugeot 504 is 46.", False),
        ("The horsepower is 46.", False),
    ],
)
def test_a_row_of_a_table_proves_what_its_cells_say(claim, is_proved):
    """A number below the key that is named, of the thing that is named."""
    rows = (
        "name: peugeot 504 · miles: 25 · horsepower: 87 · weight: 2672",
        "name: volkswagen 1131 deluxe sedan · miles: 26 · horsepower: 46 · weight: 1835",
    )
    text = "\n".join(rows)
    row = stating_row(claim, [Quote("a", 0, len(text), text)])

    assert (row is not None) == is_proved
    assert row is None or row.text == rows[1]


@pytest.mark.parametrize("unit", ["<think></think>", "the keepers of the light ", "who is ", "A, "])
def test_a_sentence_without_an_end_is_not_checked(states, unit):
    """The time to read a sentence grows faster than its length, so a very long one is supported by nothing, whatever it begins with."""
    start = time.thread_time()
    verdicts = states(f"Lead programmers get 15 % more, and {unit * 100_000}")

    assert set(verdicts) <= {UNSUPPORTED_STATE}
    assert time.thread_time() - start < 30  # the square would take hours
    assert len(parse_sentence(unit * 100_000).words) < MAX_SENTENCE_CHARS


def test_what_stands_beyond_the_part_that_is_read_is_never_proved():
    """Nor does a long source that begins with the claim lose what it proves."""
    claim = "The tower is old."
    assert is_entailed(claim, "The tower is old.")
    assert not is_entailed(f"The tower is old{' and old' * 300} and it fell.", f"The tower is old{' and old' * 300}.")
    assert is_entailed(claim, f"The tower is old, and {'a b ' * 1000}.")
