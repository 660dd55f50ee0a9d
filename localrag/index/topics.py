"""What a group of sentences is about, in a few of its own words: the title of an extractive report.

Small models invent here: asked for free titles, the embedded one put a person of the prompt's example into one of the six shown
for the demo corpus.
"""

from collections.abc import Sequence, Set
from itertools import islice

import numpy as np

from localrag.index.noise import is_noise
from localrag.index.nouns import word_tag
from localrag.text import CJK, enumeration

NAMES, WORDS = 3, 3


class Topics:
    """The vocabulary of a corpus, against which a group of sentences stands out."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Weigh every word of all sentences (tf-idf); words in fewer than two or in most sentences say nothing."""
        from sklearn.feature_extraction.text import TfidfVectorizer  # 0.7 s, which commands that only look at an index need not wait

        self._rows = {text: n for n, text in enumerate(texts)}
        self._words: list[str] = []
        vectorizer = TfidfVectorizer(
            stop_words="english", token_pattern=rf"(?u)\b[^\W\d_{CJK}]{{4,}}\b", min_df=2, max_df=0.2, binary=True, norm=None
        )
        try:
            self._matrix = vectorizer.fit_transform(texts)
        except ValueError:  # no word occurs twice
            return
        self._words = list(vectorizer.get_feature_names_out())
        self._everywhere = np.asarray(self._matrix.mean(axis=0)).ravel()

    def words(self, texts: Sequence[str], taken: Set[str]) -> list[str]:
        """The words that stand out in `texts`, none of those `taken` (by names); at least two of the sentences have them."""
        rows = [self._rows[t] for t in texts if t in self._rows]
        if not self._words or not rows:
            return []
        part = self._matrix[rows]
        columns = np.unique(part.indices)  # the others do not stand out
        part = part[:, columns]
        gain = np.asarray(part.mean(axis=0)).ravel() - self._everywhere[columns]
        often = np.asarray((part > 0).sum(axis=0)).ravel() >= min(2, len(rows))
        ranked = (self._words[columns[i]] for i in np.argsort(-gain, kind="stable") if often[i] and gain[i] > 0)
        found = (word for word in ranked if word not in taken)
        return list(islice(filter(_names_something, found), WORDS))


def _names_something(word: str) -> bool:
    """Whether a word is a noun, or none the dictionary knows; verbs, adjectives and days of the week tell nobody what a text is about."""
    tag = word_tag(word)
    return not is_noise(word) and (not tag or (tag.startswith("NN") and not tag.startswith("NNP")))


def title(names: Sequence[str], words: Sequence[str]) -> str:
    """`Magnus Ostler and Hugh Dunmore: herring, quota, landings`."""
    who = enumeration(names[:NAMES])
    return f"{who}: {', '.join(words)}" if words else who
