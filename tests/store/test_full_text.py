"""Words that were deleted leave the full-text index's own files."""

import random
from contextlib import closing

import pytest

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


def test_common_words_are_weighed_only_where_rare_ones_are(tmp_path, monkeypatch):
    """In a large index the passages with rare words are looked at, and have the scores that they have among all of them."""
    chance = random.Random(2)
    common, rare = [f"common{n}" for n in range(4)], [f"rare{n}" for n in range(200)]
    with closing(open_index(tmp_path, create=True)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        texts = [
            (f"c{n:04}", " ".join(chance.choices(common, k=40) + chance.choices(rare, k=10) + ["usual"] * (n % 5 < 2))) for n in range(2000)
        ]
        full_text.index_chunks(db, [*texts, ("c9999", "漢字 rare0 common0")])
        for query in ("common0 rare1 common1 rare2", "rare0 漢字 common2", "usual"):
            monkeypatch.setattr(full_text, "MAX_SCORED_CHUNKS", 1 << 30)
            whole = full_text.search_chunks(db, query, 20)
            monkeypatch.setattr(full_text, "MAX_SCORED_CHUNKS", 300)
            asked = []
            db.conn.set_trace_callback(asked.append)
            found = full_text.search_chunks(db, query, 20)
            db.conn.set_trace_callback(None)

            assert dict(found) == pytest.approx(dict(whole)), query
            assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
            assert sum("+rowid IN" in sql for sql in asked) == (query != "usual")
        assert len(full_text.search_chunks(db, "nowhere usual", 20)) == 20
