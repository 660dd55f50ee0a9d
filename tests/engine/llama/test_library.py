"""What the engine says when something fails names the cause and never a text of the user's."""

import warnings

import llama_cpp
import pytest
from llguidance.llamacpp import lltokenizer_from_vocab

from localrag.engine.llama import library
from localrag.engine.llama.chat_template import Vocabulary
from localrag.engine.sampler import Grammar, GrammarMatcher
from localrag.errors import EngineError


@pytest.fixture(scope="module")
def tokenizers(chat_file):
    """llguidance's view of the bundled model's vocabulary, made by its own function and by ours."""
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = library.load_model(chat_file.path, params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # llguidance calls a renamed function
        made = lltokenizer_from_vocab(llama_cpp.llama_model_get_vocab(model), eos_token=[2])
    yield made, Vocabulary(llama_cpp.llama_model_get_vocab(model)).grammar_tokenizer([2])
    llama_cpp.llama_model_free(model)


def test_the_vocabulary_for_grammars_is_that_of_llguidance(tokenizers):
    """Every token is spelled as by llguidance's own function, and is special where it is there."""
    theirs, ours = tokenizers

    assert ours.vocab_size == theirs.vocab_size > 1000
    assert ours.eos_tokens == theirs.eos_tokens == [2]
    for token in range(theirs.vocab_size):
        assert ours.decode_bytes([token]) == theirs.decode_bytes([token])
        assert ours.is_special_token(token) == theirs.is_special_token(token)
    assert ours.tokenize_str("Zebulon <|im_end|> 1974") == theirs.tokenize_str("Zebulon <|im_end|> 1974")


@pytest.mark.parametrize(
    ("lark", "why"),
    [
        ('start: "Zebulon Quarrick" nothing', "unknown name"),
        ('start: "Zebulon Quarrick', "lexer error"),
        ("start: /Zebulon(/", "invalid regex"),
        ('start: "Zebulon" {3', "Expected token"),
    ],
)
def test_a_grammar_that_cannot_be_followed_is_not_quoted(tokenizers, lark, why):
    """Grammars are made of names and sentences of a document; the error says what is wrong with one, not what it holds."""
    with pytest.raises(EngineError, match=why) as error:
        GrammarMatcher(tokenizers[1], Grammar("key", lambda _: lark))

    assert "Zebulon" not in str(error.value)
