"""A question that names a time finds first the documents of that time."""

from datetime import date

import pytest

from localrag.query.retriever import documents_of_dates, retrieve
from localrag.store import documents
from tests.query.made import index_of

TODAY = date(2024, 9, 10)
MONTHS = range(1, 10)
FACTS = "The council met in the town hall. It decided on the harbour fees, the lamps of the pier and the keeper's pay."


@pytest.fixture(scope="module")
def minutes(tmp_path_factory):
    """Minutes of nine months with nearly the same words: the date is in the file's name, or in its header."""
    documents = {f"budget_{year}.txt": f"{FACTS} The budget was {n} crowns." for year, n in ((1974, 500), (1975, 600))}
    for month in MONTHS:
        name, header = (f"minutes-2024-{month:02}", "") if month % 2 else (f"council-{month}", f"---\ndate: 2024-{month:02}-07\n---\n")
        documents[f"{name}.md"] = f"{header}# Minutes\n\n{FACTS} The fee was set at {month * 11} crowns.\n"
    with index_of(tmp_path_factory.mktemp("minutes"), documents) as opened:
        yield opened


def dated(project, question):
    return {documents.document_paths(project.db)[i] for i in documents_of_dates(question, project, TODAY)}


@pytest.mark.parametrize(
    ("question", "paths"),
    [
        ("Which fee do last March's minutes set?", {"minutes-2024-03.md"}),
        ("What was decided in April 2024?", {"council-4.md"}),
        ("What did the council decide in 1974?", {"budget_1974.txt"}),
        ("What was decided since July 2024?", {"minutes-2024-07.md", "council-8.md", "minutes-2024-09.md"}),
        ("Was wurde im Februar 2024 beschlossen?", {"council-2.md"}),
        ("What did the council decide in 1931?", set()),
        ("What is the fee?", set()),
    ],
)
def test_documents_of_the_time_of_a_question(minutes, question, paths):
    """Months, days and years are looked for in the metadata and in the names of files; without a time there are none."""
    assert dated(minutes, question) == paths


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Which fee was set in April 2024?", "council-4.md"),
        ("What was the budget in 1974?", "budget_1974.txt"),
    ],
)
def test_a_document_of_that_time_comes_first(minutes, question, first):
    """Among passages with the same words the one of the time that the question names is the best."""
    found = retrieve(question, minutes.embedder.embed([question])[0], minutes, 3)
    assert documents.document_path(minutes.db, found[0][0].id) == first
