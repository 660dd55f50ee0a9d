"""The models worth downloading, and which of them suits a machine."""

from localrag.catalog.listing import best_chat_model, memory_fit, recommended_models


def test_the_curated_list_is_whole_and_in_order():
    """Every entry has a name, a repository, a licence and a size; each kind goes from small to large, from 0.4B to 14B."""
    models = recommended_models()
    chats = [m for m in models if m.kind == "chat"]

    assert len({m.name for m in models}) == len(models)
    assert all(m.repo.count("/") == 1 and m.licence and m.languages and m.good_for for m in models)
    assert [m.size for m in chats] == sorted(m.size for m in chats)
    assert {m.kind for m in models} == {"chat", "embedder", "reranker"}
    assert (chats[0].parameters, chats[-1].parameters) == ("0.4B", "14B")


def test_the_best_model_is_one_that_fits(monkeypatch):
    """Few cores get a small one, a GPU of 16 GB the largest, and a machine without memory none."""
    monkeypatch.setattr("localrag.catalog.listing.memory_fit", lambda needs: "fits" if needs < 8e9 else "too big")
    monkeypatch.setattr("localrag.catalog.listing.available_cores", lambda: 2)
    assert best_chat_model(0).name == "qwen3-1.7b"
    assert best_chat_model(16 << 30).name == "qwen3-14b"
    monkeypatch.setattr("localrag.catalog.listing.available_cores", lambda: 16)
    assert best_chat_model(0).name == "qwen3-8b"
    monkeypatch.setattr("localrag.catalog.listing.memory_fit", lambda _: "too big")
    assert best_chat_model(0) is None


def test_what_fits_is_judged_by_the_memory_of_the_machine():
    """A small model does, one larger than all memory does not."""
    assert memory_fit(1 << 20) == "fits"
    assert memory_fit(1 << 50) == "too big"
