"""Questions that the documents do not answer: said so, in the question's language, with the closest passages; before the model is asked."""

import shutil

import pytest

from localrag.cli.views.answers import answer_json
from localrag.project import open_for_query
from localrag.query import answerability
from tests.conftest import mostly_ci
from tests.fakes import Scripted, answered_by
from tests.query.made import ask, index_of


@pytest.fixture(scope="module")
def index(demo_town, tmp_path_factory):
    """A copy of the demo, indexed without a model."""
    return shutil.copytree(demo_town, tmp_path_factory.mktemp("demo") / "town") / ".localrag"


@pytest.fixture(scope="module")
def project(index):
    """The demo, opened once."""
    with open_for_query(index) as opened:
        yield opened


UNANSWERED = [
    ("What is the capital of Mongolia?", "The documents do not say."),
    ("Who won the 2018 World Cup in football?", "The documents do not say."),
    ("Wie heißt die Hauptstadt der Mongolei?", "Das steht nicht in den Dokumenten."),
    ("¿Cuál es la capital de Mongolia?", "Los documentos no lo dicen."),
    ("蒙古的首都是哪里？", "文档中没有提到。"),
]


@pytest.mark.parametrize(("text", "said"), mostly_ci(UNANSWERED, UNANSWERED[0], UNANSWERED[-1]))
def test_what_the_documents_do_not_say_is_not_answered(project, text, said):
    """The answer says so in the question's language and quotes the closest passages verbatim."""
    given = ask(project, text, style="extractive")

    assert given.answer.startswith(said)
    assert not given.is_answerable
    assert given.citations
    for citation in given.citations:
        assert project.root.joinpath(citation.path).read_text(encoding="utf-8").count(citation.quote)


@pytest.mark.parametrize("mode", mostly_ci(["mix", "local", "basic", "ss", "drift", "global"], "mix"))
def test_no_mode_answers_what_the_documents_do_not_say(project, mode):
    """Every mode is held to the same floor."""
    assert not ask(project, "What is the capital of Mongolia?", mode=mode, style="extractive").is_answerable


@pytest.mark.parametrize(
    "text",
    [
        "What happened to the Old Quay?",
        "tl;dr",
        *mostly_ci([
            "Who is Hannah Quill?",
            "What are the main themes?",
            "Worum geht es in diesen Dokumenten?",
        ]),
    ],
)  # fmt: skip
def test_what_the_documents_say_is_answered(project, text):
    """Questions of particulars that stand there, and of the whole, are answered."""
    given = ask(project, text, style="extractive")

    assert given.is_answerable
    assert given.citations


def declining(request):
    return "The capital of Mongolia is mentioned nowhere in these sources."


@pytest.mark.parametrize("mode", mostly_ci(["basic", "mix", "local"], "basic"))
def test_a_model_that_writes_is_asked_and_declines_in_its_own_words(index, mode):
    """Its words are the answer, not marked as unsupported; the closest passages follow, and JSON says that the question is not answered."""
    with open_for_query(index) as project:
        project.db.execute("DELETE FROM llm_calls")
        scripted = answered_by(project, Scripted(declining, window=4096))
        given = ask(project, "What is the capital of Mongolia?", style="abstractive", mode=mode)

    assert scripted.tasks == ["answer"]
    assert given.answer.startswith("The capital of Mongolia is mentioned nowhere in these sources.\n\nClosest:")
    assert answer_json(given, project.root)["is_answerable"] is False
    assert given.citations
    assert given.unsupported_sentences == 0
    assert "[unsupported]" not in given.answer


def test_the_programs_own_phrase_for_no_answer_is_recognised(index):
    """A model that uses the program's own phrase has declined, even if it cites a source."""
    text = "Das steht nicht in den Dokumenten."
    with open_for_query(index) as project:
        answered_by(project, Scripted(lambda _: f"{text} [1]", window=4096))
        given = ask(project, "Wie heißt die Hauptstadt der Mongolei?", style="abstractive", mode="basic")

    assert not given.is_answerable
    assert given.answer.startswith(text)


@pytest.mark.slow
@pytest.mark.ci
def test_an_answer_that_goes_on_after_such_words_is_one(index):
    """If more lines follow, the model has answered, and every line is kept."""
    lines = ["The documents do not say when she came.", "Hannah Quill is a harbour master."]
    with open_for_query(index) as project:
        answered_by(project, Scripted(lambda _: " ".join(lines), window=4096))
        given = ask(project, "When did Hannah Quill come?", style="abstractive", mode="basic")

    assert given.is_answerable
    assert all(text in given.answer for text in lines)


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    """An index of one short document."""
    text = "The melting furnace of the works is delivered by Halberg & Dunn. It was ordered in March 2024 for 104,000 crowns."
    with index_of(tmp_path_factory.mktemp("works"), {"xq-7.txt": text}, reports=False) as small:
        yield small


def test_what_is_asked_in_other_words_is_not_refused(works):
    """A question that shares no word with the documents is answered if the reader finds an answer."""
    given = ask(works, "Which firm brings the new oven?", style="extractive")

    assert given.is_answerable
    assert "Halberg & Dunn" in given.answer


@pytest.mark.ci
def test_in_a_large_collection_the_words_need_not_be_far(project, monkeypatch):
    """A question near its topic, in its words, that no passage answers; a small collection shows what is closest instead."""
    text = "Which airline flies to the harbour?"
    assert ask(project, text, style="extractive").is_answerable
    monkeypatch.setattr(answerability, "SMALL_COLLECTION_CHUNKS", 1)

    assert not ask(project, text, style="extractive").is_answerable
    assert ask(project, "Who is Hannah Quill?", style="extractive").is_answerable


def test_the_context_is_shown_even_so(project):
    """`--context-only` shows what a model would be shown, whatever it is worth."""
    assert ask(project, "What is the capital of Mongolia?", context_only=True).is_answerable


def test_a_small_index_answers_of_what_all_its_passages_name(tmp_path):
    """What every passage names is not rare, and yet a question of it is answered."""
    letters = {f"{n}.txt": f"The Skua leaks, wrote Lars Holm in letter {n} to the Northern Line." for n in range(3)}
    with index_of(tmp_path, letters, reports=False) as small:
        assert ask(small, "What is wrong with the Skua?", style="extractive").is_answerable
        assert not ask(small, "What is the capital of Mongolia?", style="extractive").is_answerable


@pytest.mark.ci
def test_confidence_is_a_probability_that_parts_answered_questions_from_others(project):
    """An answer says how likely the documents answer its question: more for one they answer; nothing for one about everything."""
    said, unsaid_, whole = (
        ask(project, text, style="extractive")
        for text in ("What did Margaret Lisle write to Catherine?", "What is the capital of Mongolia?", "What are the main themes?")
    )

    assert 0 < unsaid_.confidence < 0.5 < said.confidence < 1
    assert whole.confidence is None
    assert answer_json(said, project.root)["confidence"] == round(said.confidence, 3)
