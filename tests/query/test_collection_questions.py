"""Questions about the files themselves are answered from the store; those about what the files say are not taken for them."""

from pathlib import Path

import pytest

from localrag.project import open_for_query
from localrag.query.collection_questions import COLLECTION_KINDS, collection_kind
from tests.query import made

DOCUMENTS = {
    "minutes-2023-03.md": "# Minutes of the board\n\nThe board met on a Tuesday. The kiln was repaired by Odile Marsh.\n",
    "minutes-2024-06.md": "# Minutes of the board\n\nThe board elected Idris Kovac as chairman. Lena Brandl was absent.\n",
    "charter.txt": "The works makes flasks of glass. It has a kiln and two halls.\n",
    "letters/report.md": "# Report on the accident of 19 August 2022\n\nThe apprentice Mirko Sand was cut on the left hand.\n",
}


@pytest.fixture(scope="module")
def folder(indexed, tmp_path_factory):
    """An index of four files, three with a date in their name or title."""
    return indexed(DOCUMENTS, "--extractor", "phrases")


@pytest.fixture
def ask(folder):
    """A function that asks a question without a chat model."""

    def asked(question, **options):
        with open_for_query(folder / ".localrag", logs=False) as project:
            return made.ask(project, question, style="extractive", **options)

    return asked


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How many documents are there?", ["Documents: 4 (3 md, 1 txt)"]),
        ("List all files", ["Documents: 4", "- `docs/charter.txt`", "- `docs/letters/report.md` — Report on the accident", "(2022-08-19)"]),
        ("Which are the oldest minutes?", ["The oldest", "minutes-2023-03.md", "(2023-03)"]),
        ("Which document is the latest?", ["The newest", "minutes-2024-06.md", "(2024-06)"]),
        ("Which file is the oldest?", ["The oldest", "docs/letters/report.md"]),
        ("Which documents mention the kiln?", ["“kiln” is in 2 of 4 documents", "charter.txt", "minutes-2023-03.md"]),
        ("Wie viele Dokumente gibt es?", ["Dokumente: 4"]),
        ("列出所有文件", ["文档数: 4"]),
        ("Which files were added today?", ["Added or changed since", "charter.txt", "report.md"]),
    ],
)  # fmt: skip
def test_a_question_about_the_files_is_answered_with_them(ask, question, said):
    """How many, which, the newest and oldest, those that mention a word, those that changed; in the question's language."""
    made = ask(question)

    assert made.is_answerable
    assert made.reason == "it asks about the files"
    assert [part for part in said if part not in made.answer] == []


def test_a_question_that_names_a_file_is_answered_from_it_alone(ask):
    """Whatever other files say on the words of the question; the next question is about all files again."""
    made = ask("Who was there, by minutes-2024-06.md?")
    newest = ask("What does the newest document say?")

    assert {passage.path for passage in made.passages} == {"docs/minutes-2024-06.md"}
    assert {passage.path for passage in newest.passages} == {"docs/minutes-2024-06.md"}
    assert made.filter_text == ""


def test_a_mode_that_was_chosen_is_kept(ask):
    """Who chooses a mode gets passages, also for a question about files."""
    assert ask("How many documents are there?", mode="basic").reason == ""


@pytest.mark.ci
def test_questions_about_what_files_say_are_not_about_files(folder):
    """Of 88 questions that nothing was learned from at least 78 are told right; none about content is taken for one about files."""
    rows = [line.split("\t") for line in (Path(__file__).parent / "data" / "collection_questions.tsv").read_text("utf-8").splitlines()]
    with open_for_query(folder / ".localrag", logs=False) as project:
        told = [(label, collection_kind(text, project)) for label, text in rows]

    assert {label for label, _ in rows} == set(COLLECTION_KINDS)
    assert sum(label == kind for label, kind in told) >= 78
    assert [kind for label, kind in told if label == "other" and kind != "other"] == []
