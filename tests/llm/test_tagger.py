"""The bundled tagger: names with their types and what relates them, in place of the bundled chat model."""

import asyncio
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localrag.engine.embedder import load_bert
from localrag.engine.settings import EngineOptions
from localrag.engine.weights import load_adapter
from localrag.indexing.documents import split_document
from localrag.indexing.extraction.extract import extract_chunk, extraction_hash
from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.extraction.nlp import can_tag
from localrag.llm.tagger import BIO_TAGS, ENTITY_TYPES, WINDOW_TOKENS, Tagger, decode_bio, token_windows, tokenizer_of
from localrag.model_files import ModelFile, find_adapter, find_chat_model
from localrag.project import tagger_for
from localrag.records import Document
from localrag.settings import Domain, IndexSettings
from tests.conftest import DATA, run_module

TEXT = (
    "Ingrid Halvorsen founded Nordic Sails in Bergen in 1962. Her brother Olav Halvorsen sailed to Lisbon with the German painter "
    "Karl Vogt. The Baltic Regatta of 1970 was won by Peter Lindqvist of the Royal Yacht Club."
)


@pytest.fixture(scope="module")
def tagger():
    return Tagger()


def extracted(text, tagger, settings=None):
    """The extraction of a text of one chunk; a model is not there to be asked."""
    (piece,) = split_document(Document("d", "d.txt", "d", text, "h"), lambda texts: [len(t.split()) for t in texts], size=2000, overlap=0)
    return asyncio.run(extract_chunk(piece, DocumentCasing(text), None, settings or IndexSettings(), "extractive", tagger=tagger))


def test_names_have_their_types_and_related_ones_are_joined(tagger):
    """A text about a few people, bodies and places; two names that it says nothing of together stay apart."""
    found = extracted(TEXT, tagger)
    kinds = {e.name: e.type for e in found.entities}
    pairs = {frozenset((r.source, r.target)) for r in found.relationships}

    assert {"Ingrid Halvorsen": "person", "Nordic Sails": "organization", "Bergen": "place"}.items() <= kinds.items()
    assert {"Olav Halvorsen": "person", "Lisbon": "place", "Royal Yacht Club": "organization"}.items() <= kinds.items()
    assert frozenset(("Ingrid Halvorsen", "Nordic Sails")) in pairs
    assert frozenset(("Lisbon", "Royal Yacht Club")) not in pairs


def test_a_relationship_says_how_in_the_words_of_the_text(tagger):
    """Where a verb stands between two names near each other: the text from one to the other."""
    how = {r.description for r in extracted(TEXT, tagger).relationships if r.description}

    assert "Ingrid Halvorsen founded Nordic Sails" in how
    assert all(phrase in TEXT for phrase in how)


def test_types_that_are_not_asked_for_are_things(tagger):
    """Where only persons are asked for, places and bodies stay in the graph, without a type of their own."""
    found = extracted(TEXT, tagger, IndexSettings(entity_types=("person",)))

    assert {e.type for e in found.entities} == {"person", "thing"}


@pytest.mark.ci
def test_the_states_are_those_that_torch_computes():
    """Merged with its adapter, the model gives the states of transformers with the same differences."""
    import torch
    from transformers import AutoModel

    path, base = find_adapter("tagger")
    adapter = load_adapter(path)
    ids = tokenizer_of(base.path).encode(TEXT).ids
    import gguf

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 6)
    model = AutoModel.from_pretrained(base.path, add_pooling_layer=False, local_files_only=True)
    state = {}
    for name, weights in model.state_dict().items():
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        changed = known is not None and adapter.modifies(known)
        state[name] = torch.from_numpy(adapter.merged(known, weights.numpy())) if changed else weights
    model.load_state_dict(state)
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
    (got,) = load_bert(base.path, adapter).hidden_states([ids])
    cosine = (expected * got).sum(1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(got, axis=1)

    assert got.shape == expected.shape
    assert cosine.min() > 0.999


def test_a_sentence_longer_than_the_window_is_read_in_several(tagger):
    """A name beyond the first is found."""
    long = " ".join(f"Captain Number{n} of Port Nowhere saw Anna Lee and" for n in range(150))

    assert any(e.name.endswith("Anna Lee") for e in extracted(long, tagger).entities)  # one sentence of several windows


@given(st.lists(st.integers(1, WINDOW_TOKENS * 2), min_size=1, max_size=30))
def test_windows_hold_every_token_and_whole_sentences(lengths):
    """No window is too long; none begins or ends inside a sentence that would fit one; each two have a sentence in common or follow on."""
    sentences = [n for n, length in enumerate(lengths) for _ in range(length)]
    found = list(token_windows(sentences))

    assert {i for a, b in found for i in range(a, b)} == set(range(len(sentences)))
    assert all(0 < b - a <= WINDOW_TOKENS - 2 for a, b in found)
    for (_, end), (start, _) in pairwise(found):
        assert start <= end
    for a, b in found:
        inside = [n for n in {sentences[a], sentences[b - 1]} if lengths[n] <= WINDOW_TOKENS - 2]
        whole = [n for n in inside if sum(sentences[i] == n for i in range(a, b)) == lengths[n]]
        assert inside == whole or any(length > WINDOW_TOKENS - 2 for length in lengths)


@given(st.lists(st.sampled_from(range(len(BIO_TAGS))), max_size=30))
def test_tags_become_spans_that_do_not_overlap(tags):
    """Each tag but O lies in one span of its type, whether or not a B came before it."""
    found = decode_bio(np.eye(len(BIO_TAGS), dtype=np.float32)[tags] if tags else np.zeros((0, len(BIO_TAGS)), np.float32), ENTITY_TYPES)

    covered = [n for m in found for n in range(m.first, m.last + 1)]
    assert sorted(covered) == [n for n, tag in enumerate(tags) if tag]
    assert all(BIO_TAGS[tags[n]].endswith(m.type) for m in found for n in range(m.first, m.last + 1))


def test_only_the_bundled_chat_model_has_a_tagger(tiny, home):
    """Another chat model does its own extraction, as the bundled one does where the user goes without adapters."""
    assert tagger_for(find_chat_model(None), EngineOptions()) is not None
    assert tagger_for(find_chat_model(None), EngineOptions.of("adapter=no")) is None
    assert tagger_for(tiny("llama"), EngineOptions()) is None
    assert tagger_for(ModelFile("m", "chat", find_chat_model(None).path, "http://127.0.0.1:1/v1"), EngineOptions()) is None


def test_what_the_tagger_was_not_taught_is_left_to_the_chat_model():
    """Chinese, types of one's own, and a domain that the user tuned."""
    assert can_tag(TEXT, IndexSettings())
    assert not can_tag("林黛玉到了荣国府，见了贾母。", IndexSettings())
    assert not can_tag(TEXT, IndexSettings(entity_types=("person", "ship")))
    assert not can_tag(TEXT, IndexSettings(domain=Domain(description="sailing")))


def test_an_extraction_by_another_tagger_is_redone(tagger):
    """The recipe names the tagger, where the style uses one."""
    plain, tagged = (extraction_hash(IndexSettings(), "model", "extractive", t) for t in (None, tagger))
    other = Tagger()
    other.fingerprint = "another"

    assert len({plain, tagged, extraction_hash(IndexSettings(), "model", "extractive", other)}) == 3
    assert extraction_hash(IndexSettings(), "model", "abstractive", tagger) == extraction_hash(IndexSettings(), "model", "abstractive")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("They elected President Harold Brandt in May.", "President Harold Brandt"),
        ("She moved from Boston, Mass., to Dover.", "Mass."),
        ("The treaty was signed in Vienna. Nobody came.", "Vienna"),
        ("Anna Marsh works for Dover Lines in Oslo.", "Dover Lines"),
    ],
)
def test_a_name_is_whole(tagger, text, name):
    """With a person's title, what goes on and the point of an abbreviation, and without that of a sentence."""
    assert name in {e.name for e in extracted(text, tagger).entities}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not DATA.exists(), reason="needs the annotated sets beside the checkout")
def test_the_recipe_runs_from_nothing(tmp_path):
    """A tenth of the texts and a few steps: the loss falls, the checkpoint is gone on from, and the file holds what the tagger needs."""
    run_module("scripts.train.names_data", DATA, tmp_path)
    rows = (tmp_path / "names.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "names.jsonl").write_text("\n".join(rows[::10]), encoding="utf-8")
    first = run_module("scripts.train.tagger", tmp_path, tmp_path / "out", "--steps", 10)
    second = run_module("scripts.train.tagger", tmp_path, tmp_path / "out", "--steps", 40)
    losses = [float(loss) for loss in re.findall(r"step \d+ loss ([\d.]+)", first + second)]
    made = load_adapter(tmp_path / "out" / "tagger.gguf")

    assert "step 10\n" in second.splitlines()[0] + "\n"
    assert losses[-1] < 0.8 * losses[0]
    assert {"names", "typed", "relations"} <= json.loads(second[second.rindex("\n{") :])["redocred"].keys()
    assert made.tensors.keys() == load_adapter(find_adapter("tagger")[0]).tensors.keys()
