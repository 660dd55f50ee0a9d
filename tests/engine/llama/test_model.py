"""The engine on the real bundled model: exactness, grammar, tokens, bad model files."""

import asyncio
import json

import pytest

from localrag.engine.llama.chat_template import open_vocabulary
from localrag.engine.request import Request
from localrag.engine.sampler import Sampling
from localrag.engine.tokenizer import Tokenizer
from localrag.llm.grammar import choice_of, entity_lines, json_object, pair_lines, parse_lines, parse_pairs
from tests.conftest import TOWN

TEXT = TOWN["a.md"]


def ask(engine, text, **options):
    prompt = engine.backend.chat.encode([{"role": "user", "content": text}])
    return Request(prompt, options.pop("max_tokens", 40), **options)


def run(engine, *requests):
    async def gather():
        return await asyncio.gather(*(engine.generate(r) for r in requests))

    return asyncio.run(gather())


@pytest.mark.ci
def test_batched_answers_are_bit_for_bit_those_of_one_at_a_time(engine):
    """Ten prompts of uneven length give the same tokens together as one after the other."""
    words = (TEXT * 6).split()
    prompts = [ask(engine, "Continue the story. " + " ".join(words[n : n + 10 + 23 * n])) for n in range(10)]

    together = run(engine, *prompts)
    apart = [run(engine, p)[0] for p in prompts]

    assert [g.token_ids for g in together] == [g.token_ids for g in apart]


def test_entities_are_verbatim_and_listed_once(engine):
    """Bounded to spans of the text, the smallest model names only what is there, each name once."""
    (answer,) = run(engine, ask(engine, TEXT, max_tokens=900, grammar=entity_lines([], ["person", "place"], span_of=TEXT, most=12)))
    names = [row["name"] for row in parse_lines(answer.text)]

    assert names
    assert all(name in TEXT for name in names)
    assert len(set(names)) == len(names)
    assert {row["type"] for row in parse_lines(answer.text)} <= {"person", "place"}


def test_candidates_are_each_typed_once(engine):
    """Given names are all written, each exactly once, each with one of the types."""
    names = ["Ingrid Holm", 'The "Skua"', "Vardby", "王海明"]
    (answer,) = run(engine, ask(engine, TEXT, max_tokens=400, grammar=entity_lines(names, ["person", "place"])))

    assert sorted(row["name"] for row in parse_lines(answer.text)) == sorted(names)


def test_pairs_are_allowed_different_and_not_repeated(engine):
    """Relationships join allowed pairs only, in either order, none twice, no more than asked for."""
    pairs = [("Ingrid Holm", "Skua"), ("Skua", "Vardby"), ("Lars Holm", "Skua")]
    (answer,) = run(engine, ask(engine, TEXT, max_tokens=400, grammar=pair_lines(pairs, most=2)))
    found = [frozenset(p) for p in parse_pairs(answer.text)]

    assert len(found) == len(set(found)) <= 2
    assert set(found) <= {frozenset(p) for p in pairs}


def test_a_schema_is_followed_to_its_end(engine):
    """A JSON schema gives one complete object with the properties in their order."""
    schema = {"type": "object", "properties": {"title": {"type": "string", "maxLength": 30}, "rating": {"type": "integer", "minimum": 0,
              "maximum": 10}}, "required": ["title", "rating"], "additionalProperties": False}  # fmt: skip
    (answer,) = run(engine, ask(engine, TEXT, max_tokens=100, grammar=json_object(schema)))

    assert answer.is_complete
    assert list(json.loads(answer.text)) == ["title", "rating"]


def test_truncation_is_said(engine):
    """An answer cut off by its limit is not complete."""
    (answer,) = run(engine, ask(engine, "Count to one hundred.", max_tokens=5))

    assert not answer.is_complete
    assert answer.output_tokens == 5


def test_choices_and_seeds(engine):
    """A choice is one of its options; the same seed draws the same text."""
    hot = Sampling(temperature=1.2, seed=7)
    picked, first, second = run(
        engine,
        ask(engine, "Is it raining?", grammar=choice_of(["yes", "no"])),
        ask(engine, "Tell me a story.", sampling=hot),
        ask(engine, "Tell me a story.", sampling=hot),
    )

    assert picked.text in {"yes", "no"}
    assert first.text == second.text


def test_text_streams_as_it_comes(engine):
    """The streamed pieces put together are the answer."""
    pieces = []
    (answer,) = run(engine, ask(engine, "Tell me a story.", on_text=pieces.append))

    assert "".join(pieces) == answer.text
    assert len(pieces) > 5


def test_tokens_are_cut_as_llama_cpp_would(chat_file, engine):
    """The tiktoken encoding built from the GGUF cuts text exactly like llama.cpp's tokenizer."""
    ours, theirs = Tokenizer(chat_file)._encoding, open_vocabulary(chat_file.path)
    texts = [
        *TOWN.values(),
        "In 1974, 3.5 kg  of\t\tfish\n\n\ncost £12 000; naïve café, 北京2024年\r\n",
        "<|im_end|> is plain text",
        "  a 7  b",
        "\n \n",
    ]

    for text in texts:
        assert ours.decode_tokens_bytes(ours.encode_ordinary(text)) == [engine.backend.token_to_piece(t) for t in theirs(text)]


@pytest.mark.ci
def test_chinese_names_are_stretches_of_characters(engine):
    """In Chinese text a name is any stretch of characters; a long list over a whole newspaper piece stays within the grammar's means."""
    from localrag.demo import CORPUS

    text = (CORPUS / "press" / "1974-02-23-haiqiao-weekly.md").read_text(encoding="utf-8")[200:900]
    (answer,) = run(engine, ask(engine, text, max_tokens=900, grammar=entity_lines([], ["person", "place"], span_of=text, most=8)))
    names = [row["name"] for row in parse_lines(answer.text)]

    assert names
    assert all(name in text and len(name) <= 20 for name in names)
