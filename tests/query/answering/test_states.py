"""The state of a sentence that a model wrote: supported, related, contradicted or unsupported, the same in every interface."""

from dataclasses import replace

import pytest

from localrag import contents
from localrag.cli.views.answers import answer_json
from localrag.engine.embedding.embedder import open_embedder
from localrag.models import find_embedder
from localrag.query.answering.cite import cite, points_of
from localrag.query.answering.verify import checker
from localrag.query.draft import Draft, Source
from localrag.records import Answer, Chunk, Document, Quote
from localrag.serve import mcp_results
from localrag.states import CONTRADICTED, RELATED, SUPPORTED, UNSUPPORTED
from localrag.store import corpus, ledger
from localrag.store.schema import open_index

HOLIDAY = "Every employee gets 25 days of paid leave in a year. The office in Lund is closed on Mondays."
REVIEW = "Salaries are reviewed twice a year, in June and December. The board may not raise its own pay."


@pytest.fixture(scope="module")
def embed():
    return open_embedder(find_embedder(None)).embed


@pytest.fixture
def db(tmp_path):
    made = open_index(tmp_path / "index", create=True)
    for name, text in (("holiday", HOLIDAY), ("review", REVIEW)):
        corpus.add_document(made, Document(name, f"{name}.txt", name, text, name), [Chunk(name, name, 0, 0, len(text), text, 30)])
    return made


SOURCES = [Source("", (Quote("holiday", 0, len(HOLIDAY), HOLIDAY),)), Source("", (Quote("review", 0, len(REVIEW), REVIEW),))]
PROSE = (
    "The office in Lund is closed on Mondays. [1]\nFor rest and travel, the staff may take 25 days off with pay. [1]\n"
    "Salaries are reviewed once a year. [2]\nThe canteen serves soup. [2]"
)


def cited(prose, db, embed, **how):
    """The checked answer made of a model's prose."""
    return cite(Draft(tuple(points_of(prose, SOURCES))), db, checker(embed), **how)


def answered(found):
    """An `Answer` made of a checked text."""
    counts = {state: found.count(state) for state in (UNSUPPORTED, RELATED, CONTRADICTED)}
    return Answer(
        "How much leave is there?", found.text, "mix", citations=found.citations, marks=found.marks, sentences=found.sentences, **counts
    )


@pytest.mark.parametrize(
    ("sentence", "state", "why"),
    [
        ("Salaries are reviewed twice a year, in June and December.", SUPPORTED, ""),
        ("The pay of the staff is looked at in June and in December.", RELATED, ""),
        ("Salaries are looked at in June and October.", CONTRADICTED, "date:october"),
        ("Salaries are reviewed three times a year.", CONTRADICTED, "number:3"),
        ("The board may raise its own pay.", CONTRADICTED, "negation"),
        ("All salaries of the staff are reviewed after 900 days in June.", UNSUPPORTED, "missing:900"),
        ("Whales migrate north to feed.", UNSUPPORTED, "topic"),
    ],
)
def test_a_sentence_has_one_of_four_states(sentence, state, why, embed):
    """Proved; on the topic with all its numbers; contradicted by another number, date or a negation; or none of these."""
    found = checker(embed)(sentence, SOURCES[1].quotes, ())

    assert (found.state, found.why) == (state, why)
    assert all(REVIEW[q.start : q.end] == q.text for q in found.quotes)
    assert bool(found.quotes) == (state != UNSUPPORTED)


def test_a_sentence_without_passages_is_unsupported(embed):
    """No passage, blank ones, or ones of signs alone leave a sentence unsupported."""
    blank = [Quote("holiday", 0, len(text), text) for text in ("", " \n", "***")]

    assert checker(embed)("The office in Lund is closed on Mondays.", (), ()).state == UNSUPPORTED
    assert checker(embed)("The office in Lund is closed on Mondays.", blank[:2], blank[2:]).state == UNSUPPORTED


def test_the_numbers_of_a_sentence_may_stand_in_two_sources_that_it_names(embed):
    """A sentence that joins facts of two sources is related to them; each of its numbers must occur in one."""
    both = [source.quotes[0] for source in SOURCES]
    sentence = "The staff have 25 days of leave, and pay talks in June."

    assert checker(embed)(sentence, both, ()).state == RELATED
    assert checker(embed)(sentence.replace("June", "May"), both, ()).state != RELATED


@pytest.mark.parametrize("mark", ["", " [2]", " [9]"])
def test_a_sentence_is_checked_against_every_source_that_the_model_was_shown(mark, db, embed):
    """A sentence that cites no source, or the wrong one, is supported if another source proves it."""
    found = cited(f"The office in Lund is closed on Mondays.{mark}", db, embed)

    assert [s.state for s in found.sentences] == [SUPPORTED]
    assert [c.path for c in found.citations] == ["holiday.txt"]


def test_each_state_looks_different_and_a_contradicted_sentence_shows_the_source(db, embed):
    """A proved sentence has only its number; the others are marked, and a contradicting source is quoted behind the sentence."""
    found = cited(PROSE, db, embed)
    proved, related, contradicted, unsupported = found.text.split("\n\n")

    assert proved.endswith("Mondays. [1]")
    assert related.endswith("with pay. [related][2]")
    assert contradicted.endswith("once a year. ≠ “Salaries are reviewed twice a year, in June and December.” [contradicted][3]")
    assert unsupported.endswith("soup. [unsupported]")
    assert [s.state for s in found.sentences] == [SUPPORTED, RELATED, CONTRADICTED, UNSUPPORTED]
    assert [found.text[s.start : s.end][-7:] for s in found.sentences] == ["ondays.", "th pay.", "a year.", "s soup."]
    assert all(found.text[at:].startswith(f"[{n}]") for at, n in found.marks)


def test_strict_keeps_only_what_is_supported(db, embed):
    """Related, contradicted and unsupported sentences are left out with their citations, and counted."""
    found = cited(PROSE, db, embed, strict=True)

    assert found.text == "The office in Lund is closed on Mondays. [1]"
    assert len(found.citations) == 1
    assert found.counts == (1, 1, 1, 1)


def test_a_kept_answer_has_its_states_and_older_ones_have_none(db, embed):
    """An answer is read back as it was kept; one of an older version has no states."""
    kept = ledger.save_answer(db, answered(cited(PROSE, db, embed)))
    db.execute("UPDATE answers SET result = json_remove(result, '$.sentences', '$.related', '$.contradicted') WHERE id = ?", [kept.id])
    again = ledger.save_answer(db, kept)

    assert ledger.answer_numbered(db, again.id)[1] == again
    assert ledger.answer_numbered(db, kept.id)[1] == replace(kept, sentences=(), related=0, contradicted=0)


def test_the_states_are_the_same_in_every_interface(db, embed, tmp_path):
    """The command line's JSON, the page's and MCP's answer name the state of each sentence and of each citation."""
    made = answered(cited(PROSE, db, embed))
    of_cli, of_page, of_mcp = answer_json(made, tmp_path), contents.answer(made), mcp_results.answer(contents.answer(made))
    states = [(s.state, list(s.citations)) for s in made.sentences]

    for shown in (of_cli, of_page, of_mcp.structured_content):
        assert [(s["state"], s["citations"]) for s in shown["sentences"]] == states
        assert [c["state"] for c in shown["citations"]] == [SUPPORTED, RELATED, CONTRADICTED]
    assert "[2] (related) holiday.txt" in of_mcp.content[0].text
    assert (of_cli["unsupported"], of_cli["related"], of_cli["contradicted"]) == (1, 1, 1)


@pytest.mark.parametrize("end", ["[1][2]", "[related][3]", "[contradicted][4]"])
def test_the_marks_of_a_stretch_are_found_behind_its_state(end):
    """While an answer is written, the page is told the citations at the end of a stretch, whatever its state."""
    text = f"A sentence with a [7] of its own. {end}"

    assert [n for _, n in contents.marks_at_end(text)] == [int(c) for c in end if c.isdigit()]
