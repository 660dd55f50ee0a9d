"""Words that were deleted leave the full-text index's own files."""

import random
from contextlib import closing

from localrag.store import full_text
from localrag.store.database import truncate_wal
from localrag.store.opening import open_index


def test_deleted_words_leave_the_segments(tmp_path, monkeypatch):
    """Of a small index at once; of a large one when that is asked for."""
    chance, words = random.Random(1), [f"w{n:05d}" for n in range(20_000)]
    with closing(open_index(tmp_path, create=True)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        for at in range(0, 2000, 50):
            texts = [(f"c{n}", " ".join(chance.choices(words, k=200)) + " xanthorpe" * (at == 500)) for n in range(at, at + 50)]
            full_text.index_chunks(db, texts)
        full_text.unindex_chunks(db, [f"c{n}" for n in range(500, 550)])
        held = []
        for limit in (100, 10_000):
            monkeypatch.setattr(full_text, "OPTIMIZED_CHUNKS", limit)
            full_text.merge_segments_if_small(db)
            truncate_wal(db)
            held.append(b"xanthorp" in (tmp_path / "index.db").read_bytes())

        assert held == [True, False]
        assert len(full_text.search_chunks(db, "w00001", 50)) > 5


def test_common_words_count_only_in_a_small_index(tmp_path, monkeypatch):
    """In a large one the passages with the rare words are found, by these."""
    with closing(open_index(tmp_path, create=True)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        full_text.index_chunks(db, [(f"c{n}", "common" * (n % 3 > 0) + f" rare{n}") for n in range(30)])
        small = {key for key, _ in full_text.search_chunks(db, "common rare4", 30)}
        monkeypatch.setattr(full_text, "MAX_SCORED_CHUNKS", 10)

        assert len(small) == 20
        assert [key for key, _ in full_text.search_chunks(db, "common rare4", 30)] == ["c4"]


def test_words_that_most_chunks_have_find_nothing_in_a_large_index(tmp_path, monkeypatch):
    """To BM25 words of more than half of the chunks are worth nothing: of a million of them none comes before another."""
    with closing(open_index(tmp_path, create=True)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        full_text.index_chunks(db, [(f"c{n}", "everywhere" + " seldom" * (n == 5)) for n in range(50)])

        assert len(full_text.search_chunks(db, "everywhere", 10)) == 10
        monkeypatch.setattr(full_text, "MAX_SCORED_CHUNKS", 20)
        assert full_text.search_chunks(db, "everywhere", 10) == []
        assert [key for key, _ in full_text.search_chunks(db, "seldom everywhere", 10)] == ["c5"]
