"""Sentences of texts: how many are remembered."""

from localrag.text import plain


def test_sentences_are_remembered_of_so_many_texts_and_no_more(monkeypatch):
    """Those that came last; of the others they are found again."""
    texts = [f"This is text {n}. It has two sentences." for n in range(8)]
    monkeypatch.setattr(plain, "REMEMBERED", 5)
    plain._bounds.clear()
    first = [plain.sentence_bounds(t) for t in texts]

    assert len(plain._bounds) == 5
    assert [plain.sentence_bounds(t) for t in texts] == first
    assert len(first[0]) == 16
