"""Themes: groups of passages that are about the same, whatever document they are of."""

import re
from contextlib import closing

import numpy as np
import pytest

from localrag.index import Index
from localrag.store.chunks import chunks_by_id
from localrag.store.opening import open_index
from localrag.store.passages import PassageSet, load_passages, passage_texts
from localrag.text.sentences import STOP_WORDS, word_prefixes
from localrag.themes import (
    describe_groups,
    find_themes,
    load_subjects,
    missing_subject_names,
    nearest_passages,
    stored_themes,
    subject_names,
    subjects_file,
    update_themes,
)
from tests.conftest import write_documents

SUBJECTS = {
    "light": """The lighthouse keeper lit the lamp at dusk and trimmed its wick. From the lighthouse he saw the storm reach the rocks.
A lens of the lighthouse was cracked, and its beam fell short. The keeper's log of the lighthouse names each ship that passed.
Fog hid the lighthouse for a week, so the horn was sounded. Oil for the lamp of the lighthouse came by boat in spring.
The lighthouse was painted white, with a red band below the lantern. Boys rowed to the lighthouse to bring the keeper his letters.""",
    "bread": """The baker kneaded rye dough long before dawn. Bread from his bakery was sold warm out of the oven.
Flour was dear that year, so the bakery sold smaller loaves of bread. An apprentice of the bakery burnt forty loaves in one morning.
Yeast of the old bakery was kept in a stone jar. People queued before the bakery for bread with caraway.
The oven of the bakery was rebuilt with new bricks. Stale bread was given by the bakery to the poor.""",
    "sheep": """The shepherd drove his flock to the high pasture in May. He sheared the wool of his sheep with his brothers.
Two lambs of the flock were lost in a gully. A dog kept the sheep of the shepherd together at night.
Wool of the flock was washed in the brook and sold by weight. The shepherd counted his sheep each evening at the fold.
A ram broke the fence, and the flock followed it. In snow the shepherd fed hay to his sheep.""",
}
HEADER = "Present: Ann Lee, Bob Ray, Cy Dow. Minutes taken by Ann Lee. Next meeting on Monday at nine in the hall, with tea. " * 4


def index_valley(folder, written=str):
    """Six documents: two paragraphs each of two of three subjects, below the same list of participants."""
    pairs = [("light", "bread"), ("bread", "sheep"), ("sheep", "light")] * 2
    for n, pair in enumerate(pairs):
        lines = [SUBJECTS[s].splitlines()[(n // 2 + k) % 4] for s in pair for k in (0, 1)]
        parts = [f"{written(line)} {1950 + n} was a year of which much was told, and little was written down." for line in lines]
        write_documents(folder / "docs", {f"{n}.txt": "\n\n".join([HEADER, *(part + " " + part for part in parts)])})
    with Index.create(folder, extractor="phrases") as index:
        index.add(folder / "docs")
    return folder


@pytest.fixture(scope="module")
def valley(tmp_path_factory):
    """Their index."""
    return index_valley(tmp_path_factory.mktemp("valley"))


@pytest.fixture
def db(valley):
    opened = open_index(valley / ".localrag")
    yield opened
    opened.close()


def about(db, theme):
    """The subjects that the passages of a theme are about."""
    words = {"light": "lighthouse", "bread": "baker", "sheep": "shepherd|flock"}
    return {name for text in passage_texts(db, theme.passages) for name, cue in words.items() if re.search(cue, text)}


def test_a_theme_is_one_subject_of_all_its_documents(db):
    """Three subjects are three themes, each counted in documents with a passage that has its label."""
    themes = find_themes(db, load_passages(db))

    assert sorted(name for theme in themes for name in about(db, theme)) == sorted(SUBJECTS)
    assert all(2 <= len(theme.documents) <= 4 for theme in themes)
    assert all(word_prefixes(t.label) - STOP_WORDS <= word_prefixes(text) for t in themes for text in passage_texts(db, t.passages))


def test_quotes_stand_in_the_documents_where_they_say(db):
    """Each sentence of a theme is the text of its chunk at its characters."""
    quotes = [q for theme in find_themes(db, load_passages(db)) for q in theme.quotes]
    chunks = {c.id: c for c in chunks_by_id(db, [q.chunk_id for q in quotes])}

    assert quotes
    assert all(chunks[q.chunk_id].text[q.start - chunks[q.chunk_id].start : q.end - chunks[q.chunk_id].start] == q.text for q in quotes)


def test_a_theme_is_called_by_the_subject_of_its_passages(db, valley):
    """The passages about sheep have a common subject, whose name is their label; what has none keeps a phrase of its own."""
    themes = stored_themes(db, valley / ".localrag")
    labels = {name: theme.label for theme in themes for name in about(db, theme)}

    assert labels["sheep"] == "Sheep and herding"
    assert labels["bread"] not in subject_names("en")


def test_subjects_have_names_in_five_languages():
    """Each language has all of them, none twice; other languages have none."""
    tables = [subject_names(language) for language in ("en", "de", "es", "fr", "zh")]

    assert {len(set(names)) for names in tables} == {len(tables[0])}
    assert all(name.strip() for names in tables for name in names)
    assert subject_names("fi") == ()


@pytest.mark.ci
def test_documents_in_a_language_without_names_of_subjects_have_themes_of_their_own(tmp_path):
    """The run notes it, and the next one has nothing to embed."""
    told = [
        "Majakanvartija sytytti lampun illalla ja kirjoitti päiväkirjaan, mitä laivoja saaren ohi oli kulkenut sinä vuonna.",
        "Leipuri paistoi ruisleipää jo ennen aamunkoittoa, ja kylän lapset hakivat sen lämpimänä kotiin.",
        "Lammaspaimen ajoi laumansa ylängölle toukokuussa ja laski eläimet joka ilta ennen nukkumaanmenoa.",
    ]
    write_documents(tmp_path / "docs", {f"{n}.txt": text for n, text in enumerate(told)})
    with Index.create(tmp_path, extractor="phrases") as index:
        index.add(tmp_path / "docs")
    with closing(open_index(tmp_path / ".localrag")) as db:
        assert subjects_file(db, tmp_path / ".localrag").exists()
        assert load_subjects(db, tmp_path / ".localrag") is None
        assert stored_themes(db, tmp_path / ".localrag")
        assert missing_subject_names(db) == ()


def test_what_all_documents_repeat_is_no_theme(db):
    """A list of participants at the head of every document is in no theme and no sentence."""
    themes = find_themes(db, load_passages(db))

    assert not any("Present:" in text for theme in themes for text in passage_texts(db, theme.passages))
    assert not any("Ann Lee" in quote.text for theme in themes for quote in theme.quotes)


def test_the_same_passages_give_the_same_themes(db, valley):
    """Made twice, and read from the file that the run wrote."""
    once, again = (find_themes(db, load_passages(db), subjects=load_subjects(db, valley / ".localrag")) for _ in range(2))

    assert once == again == update_themes(db) == stored_themes(db, valley / ".localrag")
    assert len(list((valley / ".localrag").glob("themes.*.json"))) == 1


def test_a_file_that_another_machine_wrote_is_not_read(db, valley):
    """Themes are made anew, and the file is replaced."""
    (file,) = (valley / ".localrag").glob("themes.*.json")
    written = file.read_text(encoding="utf-8")
    file.write_text(written.replace("lighthouse", "casino"), encoding="utf-8")

    assert not any("casino" in q.text for theme in update_themes(db) for q in theme.quotes)
    assert file.read_text(encoding="utf-8") == written


def test_a_group_keeps_its_passages_and_gets_a_label(db):
    """Groups that are given are described as they are."""
    passages = load_passages(db)
    themes = describe_groups(db, passages, [[0, 1], [2]])

    assert [list(theme.passages) for theme in themes] == [list(passages.places[:2]), [passages.places[2]]]
    assert all(theme.label for theme in themes)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["place", "person"])
def test_no_theme_is_called_by_a_person(tmp_path, kind):
    """A name that all passages of a theme have is its label, unless it is a person's."""
    folder = index_valley(tmp_path, lambda line: line.replace("lighthouse", "lighthouse of Rudd Rock"))
    with closing(open_index(folder / ".localrag")) as db:
        db.execute("UPDATE entities SET type = ? WHERE name LIKE '%Rudd Rock'", [kind])
        labels = [theme.label for theme in find_themes(db, load_passages(db))]

    assert any("Rudd Rock" in label for label in labels) == (kind == "place")


def test_few_passages_are_themes_by_document(db):
    """Of fewer than can be grouped, each document is one."""
    passages = load_passages(db).some(range(6))

    assert len(find_themes(db, passages)) == len({p.document for p in passages.places})


def test_no_passages_give_no_theme(db):
    """An index without vectors has none."""
    assert find_themes(db, PassageSet([], np.empty((0, 384), np.float32))) == ()


@pytest.mark.ci
def test_many_passages_are_compared_by_lists():
    """Beyond the number that is compared exactly, nine in ten of the nearest are still found."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((60, 32))
    vectors = (centers[rng.integers(0, 60, 6000)] + 0.5 * rng.standard_normal((6000, 32))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found, _ = nearest_passages(vectors, 9)
    exact = np.argsort(-(vectors[:300] @ vectors.T), axis=1)[:, :9]

    assert np.mean([len(set(a) & set(b)) / 9 for a, b in zip(found[:300], exact, strict=True)]) > 0.9


def test_the_library_gives_themes_of_a_topic(valley):
    """Only what is near it, and nothing of a topic the documents do not speak of."""
    with Index.open(valley) as index:
        told = index.themes("keeping a lighthouse")
        assert "lighthouse" in told[0]["quotes"][0]["text"]
        assert told[0]["of_documents"] == 6
        assert index.themes("quarterly tax returns of a bank") == []
        assert len(index.themes()) == 3
