"""A question and a passage as the tokens that a reranker was trained to see."""

import llama_cpp

from localrag.engine.llama.pooled import Pooled
from localrag.engine.llama.vocabulary import tokenize


def pair(pooled: Pooled, question: str, passage: str) -> list[int]:
    """A question and a passage as the model was trained to see them: by the file's own template, else as a cross-encoder's pair."""
    vocab = pooled.vocab
    if template := llama_cpp.llama_model_chat_template(pooled.model, b"rerank"):
        before, after = template.decode().replace("{query}", question).split("{document}")
        parts = [tokenize(vocab, text, special=True, start=n == 0) for n, text in enumerate((before, passage, after))]
    else:
        asked, end = tokenize(vocab, question, special=False, start=False), llama_cpp.llama_vocab_eos(vocab)
        separator = llama_cpp.llama_vocab_sep(vocab)
        start = [llama_cpp.llama_vocab_bos(vocab)] * llama_cpp.llama_vocab_get_add_bos(vocab)
        close = [end if end >= 0 else separator] * llama_cpp.llama_vocab_get_add_eos(vocab)
        between = [separator] * llama_cpp.llama_vocab_get_add_sep(vocab)
        body = tokenize(vocab, passage, special=False, start=False)
        parts = [[*start, *asked[: pooled.window // 2], *close, *between], body, close]
    room = max(0, pooled.window - len(parts[0]) - len(parts[2]))
    return [*parts[0], *parts[1][:room], *parts[2]][: pooled.window]
