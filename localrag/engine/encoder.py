"""A question and the passages it is asked of → the tokens that the bundled reader was trained on, each with its place in its passage."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

QUESTION = -1  # the passage of a token that is in none
MOST_ASKED = 64  # tokens of a question
RARE, MOST_CHARACTERS = 3, 3000


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tokens, and for each its place: (passage, start, end) in characters; the passage is QUESTION where it belongs to none."""

    ids: list[int]
    places: list[tuple[int, int, int]]


class Encoder:
    """Turns texts into tokens with the tokenizer of the model in `folder`; `characters` it does not know have tokens of their own."""

    def __init__(self, folder: Path, characters: Sequence[str]) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        vocabulary = self._tokenizer.get_vocab()
        self._unknown, self._start, self._end = (vocabulary[t] for t in ("[UNK]", "[CLS]", "[SEP]"))
        first = self._tokenizer.get_vocab_size()
        self._characters = {c: first + n for n, c in enumerate(characters)}

    def encode(self, question: str, passages: Sequence[str], length: int) -> Encoded:
        """`[start] question [end] passage [end] …`, cut off after `length` tokens."""
        ids = [self._start, *(i for i, _, _ in self.tokens(question)[:MOST_ASKED]), self._end]
        places = [(QUESTION, 0, 0)] * len(ids)
        for n, passage in enumerate(passages):
            found = self.tokens(passage)
            ids += [*(i for i, _, _ in found), self._end]
            places += [*((n, a, b) for _, a, b in found), (QUESTION, 0, 0)]
        return Encoded(ids[:length], places[:length])

    def tokens(self, text: str) -> list[tuple[int, int, int]]:
        """(token, start, end) of a text."""
        whole = self._tokenizer.encode(text, add_special_tokens=False)
        unknown = self._unknown
        return [
            (self._characters.get(text[a:b], unknown) if i == unknown else i, a, b)
            for i, (a, b) in zip(whole.ids, whole.offsets, strict=True)
        ]


def missing_characters(folder: Path, texts: Iterable[str]) -> list[str]:
    """The characters that the tokenizer in `folder` does not know and that stand in `texts` a few times, the commonest first."""
    encoder = Encoder(folder, ())
    counts = Counter(text[a:b] for text in texts for i, a, b in encoder.tokens(text) if i == encoder._unknown and b == a + 1)
    return [c for c, n in counts.most_common(MOST_CHARACTERS) if n >= RARE]
