"""Sentences and chunks: exact offsets, nothing lost, overlap of whole sentences."""

import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localrag.indexing.documents import split_document
from localrag.records import Document

WORDS = st.sampled_from(
    "Anna sold the boat. Mr. Holm, 3.5 kg of fish!\n\n # Heading\n - item one\n 王海明走了。 他没有回来！ “Why?” ".split(" ")
)
texts = st.lists(WORDS, max_size=80).map(" ".join)


def words(texts):
    """A stand-in for the model's tokenizer: one token per four characters."""
    return [(len(t) + 3) // 4 for t in texts]


def document(text):
    return Document("d", "d.txt", "d", text, "h")


@given(texts, st.integers(5, 40), st.integers(0, 10))
@example("boat. boat. Anna Anna 王海明走了。 one\n Anna", 9, 7)  # most of a chunk is overlap, and its end could be chosen within it
def test_chunks_are_exact_stretches_that_cover_the_text(text, size, overlap):
    """`split_document.text == text[start:end]`, no chunk is over the size, every sentence is in one, and each chunk adds something."""
    chunks = split_document(document(text), words, size=size, overlap=min(overlap, size - 1))

    for c in chunks:
        assert c.text == text[c.start : c.end]
        assert c.tokens <= size or len(c.text) <= 4
    covered = {i for c in chunks for i in range(c.start, c.end)}
    assert all(i in covered for i, character in enumerate(text) if not character.isspace() and character != "\ufeff")
    assert all(a.end < b.end and a.start < b.start for a, b in pairwise(chunks))


def test_the_next_chunk_repeats_whole_sentences():
    """The overlap is made of whole sentences of the chunk before."""
    text = " ".join(f"Sentence number {n:02d} is here." for n in range(12))
    chunks = split_document(document(text), words, size=30, overlap=10)

    assert len(chunks) > 2
    for a, b in pairwise(chunks):
        assert b.start < a.end
        assert b.text.startswith("Sentence number")


@pytest.mark.parametrize("text", ["x" * 5000, "多" * 3000])
def test_a_sentence_longer_than_a_chunk_is_cut(text):
    """A text without any sentence end is cut into chunks of the size, nothing lost."""
    chunks = split_document(document(text), words, size=50, overlap=10)

    assert "".join(text[c.start : c.end] for c in chunks) == text
    assert all(c.tokens <= 50 for c in chunks)


def test_a_row_of_a_table_is_not_divided():
    """A row that carries its headers is one sentence: no chunk begins within it, whatever full stops it holds."""
    rows = [f"Name: Dr. N. Sand {n} · Note: She left. He stayed. It rained for a day or so. · Port: Brannock" for n in range(20)]
    chunks = split_document(document("\n".join(rows)), words, size=60, overlap=0)

    assert len(chunks) > 5
    assert all(line in rows for c in chunks for line in c.text.strip().split("\n"))


@pytest.mark.parametrize("block", [
    "\n".join(f"Name: Sand {n} · Port: Brannock {n}" for n in range(6)),
    "| Name | Port |\n|---|---|\n" + "\n".join(f"| Sand {n} | Vardby {n} |" for n in range(6)),
    "```\n" + "\n".join(f"sail({n}); anchor({n})" for n in range(8)) + "\n```",
])  # fmt: skip
@pytest.mark.parametrize("before", range(1, 9))
def test_a_table_or_code_that_fits_into_a_chunk_is_whole_in_one(block, before):
    """With the heading above it, wherever the chunk before ends; only one that is too long for a chunk is divided."""
    prose = "The harbour was quiet, and few ships came in that week. " * before
    text = f"{prose}\n\n## The list\n\n{block}\n\n{'It rained for a day or so in the town. ' * 5}"

    whole = [c for c in split_document(document(text), words, size=90, overlap=20) if f"## The list\n\n{block}" in c.text]
    divided = [c for c in split_document(document(text), words, size=30, overlap=5) if block in c.text]

    assert whole
    assert divided == []


def test_a_header_counts_as_part_of_every_chunk():
    """With a header before it, no chunk is over the size; its text is verbatim all the same."""
    text = " ".join(f"Sentence number {n:02d} is here." for n in range(30))
    header = "Title: The log · Author: Ruth Sand"
    chunks = split_document(document(text), words, size=40, overlap=0, header=header)

    assert all(c.tokens <= 40 and c.tokens == words([f"{header}\n{c.text}"])[0] for c in chunks)
    assert "".join(c.text for c in chunks).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("seed", range(5))
def test_an_edit_leaves_the_chunks_of_the_rest_as_they_were(seed):
    """A sentence put in, and one taken out, change a few chunks around them; all others are the same texts."""
    rng = random.Random(seed)
    said = [
        f"{rng.choice(['Anna', 'Lars', 'The keeper'])} {rng.choice(['sold', 'saw', 'mended'])} boat {rng.randrange(9999)}"
        for _ in range(900)
    ]
    text = "".join(f"{s}.{rng.choice([' ', ' ', ' ', chr(10) * 2])}" for s in said)
    before = {c.text for c in split_document(document(text), words, size=150, overlap=20)}
    at = text.index(said[300 + seed * 40])
    edits = [text[:at] + "Nobody knew why. " + text[at:], text.replace(f"{said[200 + seed * 50]}.", "", 1)]

    changed = [sum(c.text not in before for c in split_document(document(edit), words, size=150, overlap=20)) for edit in edits]

    assert len(before) > 40
    assert max(changed) <= 10, changed
    assert min(changed) >= 1
