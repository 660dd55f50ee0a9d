"""The state of a sentence that a model wrote: supported, related, contradicted or unsupported, the same in every interface."""

import pytest

from localrag import serializers
from localrag.cli.views.answers import answer_json
from localrag.query.answer_markdown import parse_units
from localrag.query.attribution import support_checker
from localrag.query.citations import Citer, unit_point
from localrag.query.question import AnswerDraft, AnswerPoint, DraftSource
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Answer, Chunk, Document, Quote
from localrag.serve import mcp_results
from localrag.store import answers, documents
from localrag.store.opening import open_index
from localrag.text.markdown import NeutralStream

HOLIDAY = "Every employee gets 25 days of paid leave in a year. The office in Lund is closed on Mondays."
REVIEW = "Salaries are reviewed twice a year, in June and December. The board may not raise its own pay."


@pytest.fixture
def db(tmp_path):
    made = open_index(tmp_path / "index", create=True)
    for name, text in (("holiday", HOLIDAY), ("review", REVIEW)):
        documents.save_document(made, Document(name, f"{name}.txt", name, text, name), [Chunk(name, name, 0, 0, len(text), text, 30)])
    return made


SOURCES = [DraftSource("", (Quote("holiday", 0, len(HOLIDAY), HOLIDAY),)), DraftSource("", (Quote("review", 0, len(REVIEW), REVIEW),))]
PROSE = (
    "The office in Lund is closed on Mondays. [1]\n\nFor rest and travel, the staff may take 25 days off with pay. [1]\n\n"
    "Salaries are reviewed once a year. [2]\n\nThe canteen serves soup. [2]"
)


def cited(prose, db, embed, **how):
    """The checked answer made of a model's prose."""
    points = tuple(unit_point(unit, SOURCES) for unit in parse_units(prose))
    return Citer(db, support_checker(embed), **how).result(AnswerDraft(points))


def answered(found):
    """An `Answer` made of a checked text."""
    return Answer(
        "How much leave is there?",
        found.text,
        "mix",
        citations=found.citations,
        citation_marks=found.citation_marks,
        sentences=found.sentences,
        unsupported_sentences=found.count(UNSUPPORTED_STATE),
        related=found.count(RELATED_STATE),
        contradicted=found.count(CONTRADICTED_STATE),
    )


@pytest.mark.parametrize(
    ("sentence", "state", "why"),
    [
        ("Salaries are reviewed twice a year, in June and December.", SUPPORTED_STATE, ""),
        ("The pay of the staff is looked at in June and in December.", RELATED_STATE, ""),
        ("Salaries are looked at in June and October.", CONTRADICTED_STATE, "date:october"),
        ("Salaries are reviewed three times a year.", CONTRADICTED_STATE, "number:3"),
        ("The board may raise its own pay.", CONTRADICTED_STATE, "negation"),
        ("All salaries of the staff are reviewed after 900 days in June.", UNSUPPORTED_STATE, "missing:900"),
        ("Whales migrate north to feed.", UNSUPPORTED_STATE, "topic"),
    ],
)
def test_a_sentence_has_one_of_four_states(sentence, state, why, embed):
    """Proved; on the topic with all its numbers; contradicted by another number, date or a negation; or none of these."""
    found = support_checker(embed)(sentence, SOURCES[1].quotes, ())

    assert (found.state, found.why) == (state, why)
    assert all(REVIEW[q.start : q.end] == q.text for q in found.quotes)
    assert bool(found.quotes) == (state != UNSUPPORTED_STATE)


def test_the_numbers_of_a_sentence_may_stand_in_two_sources_that_it_names(embed):
    """A sentence that joins facts of two sources is related to them; each of its numbers must occur in one."""
    both = [source.quotes[0] for source in SOURCES]
    sentence = "The staff have 25 days of leave, and pay talks in June."

    assert support_checker(embed)(sentence, both, ()).state == RELATED_STATE
    assert support_checker(embed)(sentence.replace("June", "May"), both, ()).state != RELATED_STATE


@pytest.mark.parametrize("mark", ["", " [2]", " [9]"])
def test_a_sentence_is_checked_against_every_source_that_the_model_was_shown(mark, db, embed):
    """A sentence that cites no source, or the wrong one, is supported if another source proves it."""
    found = cited(f"The office in Lund is closed on Mondays.{mark}", db, embed)

    assert [s.state for s in found.sentences] == [SUPPORTED_STATE]
    assert [c.path for c in found.citations] == ["holiday.txt"]


def test_each_state_looks_different_and_a_contradicted_sentence_shows_the_source(db, embed):
    """A proved sentence has only its number; the others are marked, and a contradicting source is quoted behind the sentence."""
    found = cited(PROSE, db, embed)
    proved, related, contradicted, unsupported = found.text.split("\n\n")

    assert proved.endswith("Mondays. [1]")
    assert related.endswith("with pay. [related][2]")
    assert contradicted.endswith("once a year. ≠ “Salaries are reviewed twice a year, in June and December.” [contradicted][3]")
    assert unsupported.endswith("soup. [unsupported]")
    assert [s.state for s in found.sentences] == [SUPPORTED_STATE, RELATED_STATE, CONTRADICTED_STATE, UNSUPPORTED_STATE]
    assert [found.text[s.start : s.end][-7:] for s in found.sentences] == ["ondays.", "th pay.", "a year.", "s soup."]
    assert all(found.text[at:].startswith(f"[{n}]") for at, n in found.citation_marks)
    assert found.counts == (1, 1, 1, 1)


def test_strict_keeps_only_what_is_supported(db, embed):
    """Related, contradicted and unsupported sentences are left out with their citations, and counted."""
    found = cited(PROSE, db, embed, strict=True)

    assert found.text == "The office in Lund is closed on Mondays. [1]"
    assert (len(found.citations), found.counts) == (1, (1, 1, 1, 1))


def test_a_quote_that_is_not_in_its_document_is_no_citation(db, embed):
    """What does not stand at its place is not cited."""
    quotes = (Quote("holiday", 0, 9, "Somewhere"), Quote("holiday", 0, 14, "Every employee"))
    draft = AnswerDraft(tuple(AnswerPoint("Something.", (quote,)) for quote in quotes))
    found = Citer(db, support_checker(embed)).result(draft)

    assert [c.quote for c in found.citations] == ["Every employee"]
    assert found.count(UNSUPPORTED_STATE) == 1


def test_a_kept_answer_has_its_states(db, embed):
    """An answer is read back as it was kept."""
    kept = answers.save_answer(db, answered(cited(PROSE, db, embed)))

    assert answers.answer_by_id(db, kept.id)[1] == kept


def test_the_states_are_the_same_in_every_interface(db, embed, tmp_path):
    """The command line's JSON, the page's and MCP's answer name the state of each sentence and of each citation."""
    made = answered(cited(PROSE, db, embed))
    of_cli, of_page, of_mcp = (
        answer_json(made, tmp_path),
        serializers.serialize_answer(made),
        mcp_results.answer_result(serializers.serialize_answer(made)),
    )
    states = [(s.state, list(s.citations)) for s in made.sentences]

    for shown in (of_cli, of_page, of_mcp.structured_content):
        assert [(s["state"], s["citations"]) for s in shown["sentences"]] == states
        assert [c["state"] for c in shown["citations"]] == [SUPPORTED_STATE, RELATED_STATE, CONTRADICTED_STATE]
    assert '"state": "related"' in of_mcp.content[0].text
    assert (of_cli["unsupported_sentences"], of_cli["related"], of_cli["contradicted"]) == (1, 1, 1)


def test_the_marks_of_a_part_are_those_that_are_not_the_text_s_own():
    """While an answer is written, the page is told its citations: behind a state, in a cell, below a fence, never of a line of code."""
    parts = ["A \\[7\\] of its own. [1][2]\n", "| a | b [related][3] |\n", "```\n", "x[0] [8]\n", "```\n", "[4]\n"]
    stream = NeutralStream()
    written = [serializers.serialize_part(part, stream) for part in parts]

    assert [[s["n"] for s in one["segments"] if "n" in s] for one in written] == [[1, 2], [3], [], [], [], [4]]
    assert "".join(s.get("text") or f"[{s['n']}]" for one in written for s in one["segments"]) == "".join(parts)
