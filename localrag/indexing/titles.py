"""Titles of extractive reports: the heading above most of a community's sentences, else its one or two most typical noun phrases.

Noun phrases are weighed by class-based tf-idf, the community's sentences against those of the corpus (Grootendorst 2022, BERTopic). A title
names a topic, not a person: a phrase that ends in a person's name, or in what persons are called in the text, is none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import log, sqrt

from localrag.records import Document
from localrag.text.outline import Outline
from localrag.text.parts_of_speech import is_english
from localrag.text.sentences import is_cjk, join_names
from localrag.text.title_phrases import PREPOSITION, candidate_phrases, form_weight, is_readable, singular, title_words

TITLES_VERSION = "titles 6"  # reports with titles of another version get new ones
MAX_TITLE_NAMES = 3  # in a title without a phrase
MAX_JOINED_WORDS = 6  # of two phrases together
MIN_HEADING_SENTENCES, MIN_HEADING_SHARE = 3, 0.2  # of the community, below a heading that can be its title
CHARS_PER_SENTENCE = 120  # on average, by which the sentences below a heading are estimated
SINGLE_PHRASE_WEIGHT = 0.5  # of a phrase that occurs once
MIN_SECOND_SCORE = 0.5  # of the best phrase's score, for a second phrase in the title
SINGLE_OCCURRENCE_WEIGHT = 0.3  # weight of a word that occurs in only one sentence of the community


@dataclass(frozen=True, slots=True)
class TitleSource:
    """What the title of a community is made of.

    `texts`: its sentences. `headings`: above these → the number of its sentences, and of all characters, below. `person_words`: words of
    persons' names. `names`: of the entities, the most connected first. `document_frequencies`: words → in how many of the corpus's `total`
    sentences.
    """

    texts: tuple[str, ...]
    headings: Mapping[str, tuple[int, int]]
    person_words: frozenset[str]
    names: tuple[str, ...]
    document_frequencies: Mapping[str, int]
    total: int

    def title(self) -> str:
        """`Configuration Handling`, `Lifeboat and Coast Lights Board`, else names."""
        is_chinese = 2 * sum(map(is_cjk, self.texts)) > len(self.texts)
        texts = [t for t in dict.fromkeys(self.texts) if is_cjk(t) == is_chinese]
        scores, repeated = self.scores(texts)
        best = sorted(scores, key=lambda phrase: (-scores[phrase], phrase))
        second = [p for p in best[1:] if p in repeated and scores[p] >= MIN_SECOND_SCORE * scores[best[0]] and _can_join(best[0], p)][:1]
        chosen = second if second and form_weight(best[0]) < 1 else [*best[:1], *second]
        names = [n for n in self.names if not self._is_person(n)] or self.names
        return join_title(chosen or names[:MAX_TITLE_NAMES], texts)

    def scores(self, texts: Sequence[str]) -> tuple[dict[str, float], Set[str]]:
        """The phrases and headings that can be the title, with scores above 0; and those that are in, or above, several sentences."""
        counts = Counter(word for text in texts for word in title_words(text))
        worth = {w: self._tf_idf(n, max(n, self.document_frequencies.get(w, 0)), len(texts)) for w, n in counts.items()}
        spellings: dict[str, Counter[str]] = {}
        for text in texts:
            for phrase in candidate_phrases(text):
                spellings.setdefault(singular(phrase), Counter())[phrase] += 1
        scores, repeated = {}, set()
        for spelled in spellings.values():
            phrase = max(spelled, key=lambda p: (spelled[p], p))
            words = title_words(phrase)
            of_words = sum(sorted(worth.get(word, 0.0) for word in words)) / (len(words) + 1)  # a little more for several words
            repeated |= {phrase} if spelled.total() > 1 else set()
            scores[phrase] = of_words * (SINGLE_PHRASE_WEIGHT + log(spelled.total())) * form_weight(phrase)
        for heading, (n, chars) in self.headings.items():
            if n >= max(MIN_HEADING_SENTENCES, MIN_HEADING_SHARE * len(self.texts)) and is_cjk(heading) == is_cjk(texts[0]):
                repeated.add(heading)
                everywhere = max(n, min(self.total, chars // CHARS_PER_SENTENCE))
                scores[heading] = self._tf_idf(n, everywhere, len(self.texts)) * 2 / 3 * (1 + log(n)) * form_weight(heading)
        return {phrase: score for phrase, score in scores.items() if score > 0 and not self._is_person(phrase)}, repeated

    def _tf_idf(self, n: int, everywhere: int, of: int) -> float:
        """Class-based tf-idf of what is in `n` of `of` sentences here, and in `everywhere` of the corpus.

        The square root of the frequency, and the idf of BM25, keep common words down (both as in BERTopic).
        """
        weight = 1 if n >= min(2, of) else SINGLE_OCCURRENCE_WEIGHT
        return weight * sqrt(n / of) * log(1 + (self.total - everywhere + 0.5) / (everywhere + 0.5))

    def _is_person(self, phrase: str) -> bool:
        """Whether a phrase or a part of it ends in a person's name or in what persons are called: "harbour master", "mind of Tom".

        In languages other than English and Chinese only names of several words are, and surnames: nouns are often tagged wrongly.
        """
        if is_cjk(phrase):
            head = phrase.rpartition("的")[2]
            return any(name in head for name in self.person_words)
        last_words = {singular(part).split()[-1] for part in PREPOSITION.split(phrase)} & self.person_words
        is_surname = " " in phrase or any(name.lower().endswith(f" {phrase.lower()}") for name in self.names)
        return bool(last_words) and (is_surname or is_english(" ".join(self.texts)))


@dataclass(frozen=True, slots=True)
class Section:
    """A heading that can be a title, and the characters `start` to `end` of its document below it."""

    title: str
    start: int
    end: int


def titled_sections(document: Document) -> list[Section]:
    """The sections of a document whose headings can be titles."""
    text = document.text
    headings = Outline(text, document.blocks).headings
    found = []
    for n, heading in enumerate(headings):
        end = next((later.start for later in headings[n + 1 :] if later.level <= heading.level), len(text))
        if is_readable(heading.title):
            found.append(Section(heading.title, heading.start, end))
    return found


def _can_join(phrase: str, other: str) -> bool:
    """Whether a second phrase can stand beside a title: not a single common noun, not too long, and without a word in common."""
    stems = ({word[:5] for word in title_words(p)} for p in (phrase, other))
    return form_weight(other) == 1 and len(f"{phrase} {other}".split()) <= MAX_JOINED_WORDS and set.isdisjoint(*stems)


def join_title(phrases: Sequence[str], texts: Sequence[str]) -> str:
    """Phrases as a title in the language of the texts: `Templates and views`, `A, B`, 甲和乙."""
    known = is_english(" ".join(texts)) or all(map(is_cjk, phrases))
    title = join_names(phrases) if known else ", ".join(phrases)
    return title[:1].upper() + title[1:]
