"""A new index gets the multilingual embedder where its documents need it and nobody has named another."""

import pytest

from localrag import Index
from localrag.engine.settings import EngineOptions
from localrag.errors import UsageError
from localrag.indexing.documents import SAMPLED_FILES, languages_beside_english
from localrag.model_files import set_default
from localrag.settings import IndexSettings

TEXTS = {
    "en": "The ferry leaves the harbour at nine in the morning, and it comes back in the evening with the mail for the islands. ",
    "de": "Die Fähre verlässt den Hafen um neun Uhr am Morgen, und sie kommt am Abend mit der Post für die Inseln zurück. ",
    "zh": "渡轮每天早上九点离开港口，晚上带着岛上的邮件回来。船上有一名轮机长和两名水手，他们都住在上海附近的小镇上。",
}


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of documents in the given languages."""

    def make(*languages):
        docs = tmp_path / "docs"
        docs.mkdir()
        for n, language in enumerate(languages):
            (docs / f"{n:03}.md").write_text(f"{20 * TEXTS[language]}\n", encoding="utf-8")
        return docs

    return make


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (["en"], ()),
        (["de"], ("de",)),
        (["zh"], ("zh",)),
        (["en", "en", "en", "de"], ("en", "de")),
        (["en"] * 9 + ["de"], ()),
        ([], ()),
        (["en"] * 3 * SAMPLED_FILES + ["de"] * 3 * SAMPLED_FILES, ("en", "de")),
    ],
)
def test_languages_are_told_if_a_quarter_of_the_documents_is_not_in_english(folder, languages, expected):
    """They are those of a sample over all files, most frequent first."""
    docs = folder(*languages)
    assert languages_beside_english([docs], docs.parent, IndexSettings()) == expected


def test_files_without_prose_have_no_say(folder):
    """Numbers, a few words, and what cannot be read."""
    docs = folder("en")
    for n in range(5):
        (docs / f"{n}.csv").write_text("7;8\n" * 1000)
        (docs / f"{n}.txt").write_text("Ja, nein, vielleicht, und das war es auch schon.")
        (docs / f"{n}.pdf").write_bytes(b"%PDF-1.4 damaged" * 100)
    assert languages_beside_english([docs], docs.parent, IndexSettings()) == ()
    with pytest.raises(UsageError, match="missing"):
        languages_beside_english([docs / "missing"], docs.parent, IndexSettings())


def embedder_of(docs, notes=None, **options):
    engine = EngineOptions(notify=notes.append if notes is not None else lambda _: None)
    index = Index.open(docs.parent, engine=engine, missing_ok=True)
    with index.write_session(sources=docs, extractor="phrases", **options):
        index.add(docs)
    return index.status()["models"]["embedder"]["name"]


@pytest.mark.ci
def test_german_documents_get_the_multilingual_embedder(folder):
    """It is said in one line, and later documents do not change it."""
    docs, notes = folder("de"), []

    assert embedder_of(docs, notes) == "multilingual-e5-small"
    assert [note for note in notes if "multilingual-e5-small" in note] == [
        "Languages: German. Embedding with multilingual-e5-small (another: --embedder NAME)."
    ]
    for n in range(9):
        (docs / f"more{n}.md").write_text(20 * TEXTS["en"], encoding="utf-8")
    assert embedder_of(docs, notes) == "multilingual-e5-small"


def test_a_plan_names_the_embedder_of_the_run(folder):
    """The one that the languages ask for, the one that is named, or the one that the index has; planning creates no index."""
    docs = folder("de")
    index = Index.open(docs.parent, missing_ok=True)

    assert index.plan(docs).embedder == "multilingual-e5-small"
    assert index.plan(docs, embedder="all-minilm-l6-v2").embedder == "all-minilm-l6-v2"
    assert not index.exists
    assert embedder_of(docs, embedder="all-minilm-l6-v2") == Index.open(docs.parent).plan(docs).embedder


def test_an_empty_index_is_chosen_for_when_documents_are_added(folder):
    """`Index.create` without an embedder leaves it open until then."""
    docs = folder("de")
    index = Index.create(docs.parent, extractor="phrases")
    index.add(docs)
    assert index.status()["models"]["embedder"]["name"] == "multilingual-e5-small"


@pytest.mark.parametrize("how", ["english", "option", "create", "default"])
def test_the_small_embedder_is_kept(folder, how):
    """For English, and where it was named: as an option, when the index was created, or as this machine's default."""
    docs, options = folder("en" if how == "english" else "de"), {}
    if how == "option":
        options = {"embedder": "all-minilm-l6-v2"}
    elif how == "create":
        Index.create(docs.parent, embedder="all-minilm-l6-v2")
    elif how == "default":
        set_default("embedder", "all-minilm-l6-v2")

    assert embedder_of(docs, **options) == "all-minilm-l6-v2"
