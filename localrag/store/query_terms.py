"""The terms of a full-text query: words with their inflected forms, corrected words, identifiers and quoted phrases; and what is excluded.

The full-text index stems English (Porter 1980). Words of other languages are looked for in all forms in the index that have the same
Snowball stem, and a word that the index does not have in the forms that differ from it by a letter.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rapidfuzz import process
from rapidfuzz.distance import OSA
from sqlite_utils import Database

from localrag.text.sentences import STOP_WORDS, cjk_bigrams, is_cjk, without_accents

TOKENIZER = "porter unicode61 remove_diacritics 2"  # tokenizer of `chunks_fts`; a change needs a new schema version
SNOWBALL = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
}
MIN_STEM_CHARS = 4  # a shorter stem is that of too many words
MAX_FORMS = 8  # of a word, the most frequent ones
MIN_TYPO_CHARS, TWO_TYPOS_CHARS = 5, 9  # of a word in which one letter may be wrong, and two
MAX_CORRECTED = 3  # words of a query
SHORT_QUERY_WORDS = 2  # of which each may be misspelt
LARGE_INDEX_CHUNKS = 100_000  # from which on a misspelt word must begin as it should, with three letters instead of one
_ENDINGS = ("", "e", "s", "es", "ed", "y", "ing")  # that stemming removes
_SEARCH_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r'"([^"“”„«»\n]{2,200})"|[“„]([^"“”„\n]{2,200})[”“]|«([^«»\n]{2,200})»')
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]{1,50}(?:[-_./:#@+][^\W_]{1,50}){1,20}")
_EXCLUDED = re.compile(r'(?<!\S)-(?:"([^"\n]{2,200})"|([^\W\d_][\w-]{2,50}))')


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """Words or phrases in a column of the full-text index, of which a chunk has one."""

    column: str
    alternatives: tuple[str, ...]

    @property
    def expression(self) -> str:
        """The term in the query language of FTS5."""
        quoted = [f'"{a}"' for a in self.alternatives]
        return f"{self.column} : ({' OR '.join(quoted)})"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What a query asks for: its text without what is excluded, quoted phrases, and excluded words and phrases."""

    text: str
    phrases: tuple[SearchTerm, ...] = ()
    excluded: tuple[SearchTerm, ...] = ()


def parse_query(query: str) -> SearchQuery:
    """A query with `"phrases in quotes"` and words that are excluded by `-word` or `-"phrase"`."""
    text = _EXCLUDED.sub(" ", query).strip()
    excluded = _phrases(quoted or word for quoted, word in _EXCLUDED.findall(query))
    return SearchQuery(text, quoted_phrases(text), excluded) if text else SearchQuery(query, quoted_phrases(query))


def quoted_phrases(query: str) -> tuple[SearchTerm, ...]:
    """The phrases in quotation marks."""
    return _phrases("".join(found) for found in _QUOTED.findall(query))


def compound_terms(query: str) -> tuple[SearchTerm, ...]:
    """Identifiers such as KB-7731-Q and max_open_files, whose parts must stand side by side."""
    return _phrases(_COMPOUND.findall(query))


def _phrases(texts: Iterable[str]) -> tuple[SearchTerm, ...]:
    terms = dict[SearchTerm, None]()
    for text in texts:
        if is_cjk(text):
            terms[SearchTerm("cjk", (cjk_bigrams(text),))] = None
        elif words := _SEARCH_WORD.findall(text):
            terms[SearchTerm("text", (" ".join(words),))] = None
    return tuple(terms)


def plain_words(query: str) -> tuple[list[str], list[str]]:
    """The words of a query that are looked for, without function words if it has others; and its Chinese, Japanese and Korean bigrams."""
    words = list(dict.fromkeys(w for w in _SEARCH_WORD.findall(query) if not cjk_bigrams(w)))
    return [w for w in words if w.lower() not in STOP_WORDS] or words, list(dict.fromkeys(cjk_bigrams(query).split()))


def inflected_forms(db: Database, tokens: Mapping[str, str], language: str, occurs: Callable[[str], bool]) -> dict[str, tuple[str, ...]]:
    """Word → the words with its Snowball stem that occur, itself first. `tokens`: each word's token in the index."""
    stem = _stemmer(language)
    return {word: _inflections(db, word, token, stem, occurs) if stem else (word,) for word, token in tokens.items()}


def _inflections(db: Database, word: str, token: str, stem: Callable[[str], str], occurs: Callable[[str], bool]) -> tuple[str, ...]:
    wanted = without_accents(stem(word.lower()))
    if len(wanted) < MIN_STEM_CHARS or not word.isalpha():
        return (word,)
    found = [t for t in _vocabulary(db, token[: len(wanted)]) if t != token and without_accents(stem(t)) == wanted]
    return (word, *[form for form in _words_of(found) if occurs(form)][: MAX_FORMS - 1])


@cache
def _stemmer(language: str) -> Callable[[str], str] | None:
    if language not in SNOWBALL:
        return None
    from nltk.stem.snowball import SnowballStemmer

    stem: Callable[[str], str] = SnowballStemmer(SNOWBALL[language]).stem
    return stem


def corrections(
    db: Database, words: Sequence[str], tokens: Mapping[str, str], n_chunks: int, occurs: Callable[[str], bool]
) -> dict[str, tuple[str, ...]]:
    """Word → words that occur and differ from it by a letter, or by two if it is long; for words that do not occur.

    Empty where most words of a longer query are missing: it is then in another language than the documents, or about something else.
    """
    missing = [w for w in words if not occurs(w)]
    if len(words) > SHORT_QUERY_WORDS and 2 * len(missing) > len(words):
        return {}
    prefix = 3 if n_chunks >= LARGE_INDEX_CHUNKS else 1
    found = {w: _similar(db, tokens[w], prefix, occurs) for w in missing if w in tokens and w.isalpha() and len(w) >= MIN_TYPO_CHARS}
    return {w: similar for w, similar in list(found.items())[:MAX_CORRECTED] if similar}


def _similar(db: Database, token: str, prefix: int, occurs: Callable[[str], bool]) -> tuple[str, ...]:
    """Words whose tokens are fewest edits away (optimal string alignment)."""
    allowed = 2 if len(token) >= TWO_TYPOS_CHARS else 1
    close = process.extract(token, _vocabulary(db, token[:prefix]), scorer=OSA.distance, score_cutoff=allowed, limit=None)
    for edits in range(1, allowed + 1):
        if words := [w for w in _words_of([t for t, distance, _ in close if distance == edits]) if occurs(w)]:
            return tuple(words[:MAX_FORMS])
    return ()


def _words_of(tokens: Sequence[str]) -> tuple[str, ...]:
    """For each token of the index a word that has it: the token of a token may be another one."""
    words = [token + ending for token in tokens for ending in _ENDINGS]
    found = {parts[0]: word for word, parts in zip(reversed(words), reversed(tokenize(words)), strict=True) if len(parts) == 1}
    return tuple(found[token] for token in tokens if token in found)


def _vocabulary(db: Database, prefix: str) -> list[str]:
    ranged = "SELECT term FROM chunks_fts_vocab WHERE term >= ? AND term < ? ORDER BY length(term), term"
    return [term for (term,) in db.execute(ranged, [prefix, prefix + "\U0010ffff"])] if prefix else []


def stem_words(words: Sequence[str]) -> dict[str, str]:
    """Word → its form in the full-text index; the first part if the tokenizer splits it."""
    return {w: tokens[0] for w, tokens in zip(words, tokenize(words), strict=True) if tokens}


def tokenize(words: Sequence[str]) -> list[list[str]]:
    """The tokens of each word, folded and split by SQLite's own tokenizer."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE VIRTUAL TABLE t USING fts5(word, tokenize = '{TOKENIZER}')")
    db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(t, instance)")
    db.executemany("INSERT INTO t (rowid, word) VALUES (?, ?)", enumerate(words))
    tokens: list[list[str]] = [[] for _ in words]
    for n, term in db.execute('SELECT doc, term FROM stems ORDER BY doc, "offset"'):
        tokens[n].append(term)
    db.close()
    return tokens
