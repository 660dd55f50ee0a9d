"""Extraction without the chat model: candidate names, noun phrases and the bundled tagger.

Phrase extraction takes milliseconds a chunk, so that a graph exists at once; the model's extractions replace it chunk by chunk.

Small models list few names unasked and do not stop; candidates they type well. Measured with the bundled model on entity spans of CoNLL04:
listing from the text's spans F1 0.17 (40 sentences), typing candidates F1 0.70 (200). It cannot reject names: allowed to call a capitalised
candidate no entity, it was wrong 33 times of 49. It can reject noun phrases: of those it called things, 9 in 10 were no mention of
LitBank's; of definite ones it called persons or places, 6 in 10 were mentions.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property

from localrag.indexing.extraction.names import (
    CAPITALIZED_RUN,
    TITLES,
    DocumentCasing,
    capitalized_names,
    cooccurring_pairs,
    drop_nested_spans,
    find_all_name_spans,
    find_name_spans,
    sentence_numbers,
)
from localrag.llm.grammar import DEFAULT_ENTITY_TYPE
from localrag.llm.tagger import ENTITY_TYPES, TaggedSpan, Tagger
from localrag.records import Chunk, ExtractedEntity, ExtractedRelationship, Extraction, content_id
from localrag.settings import DEFAULT_ENTITY_TYPES, Domain, IndexSettings
from localrag.text.markdown import without_deleted
from localrag.text.parts_of_speech import chinese_noun_phrases, dictionary_tag, is_english, noun_phrases, tag_chinese
from localrag.text.sentences import CJK, Span, cached_sentences, collapse_whitespace, is_cjk
from localrag.text.title_phrases import is_not_a_name


class ChunkText:
    """A chunk's text with its document's casing; each derived value is computed once. `place`: its file and the headings above it."""

    def __init__(self, text: str, case: DocumentCasing, place: str = "") -> None:
        self.text, self.case, self.place = without_deleted(text), case, place
        self._spans: dict[str, list[Span]] = {}

    @cached_property
    def without_boilerplate(self) -> str:
        """The text with page headers and licences replaced by spaces; offsets stay."""
        return self.case.furniture.mask(self.text)

    @cached_property
    def capitalised(self) -> tuple[str, ...]:
        """The capitalised names of its plain text, one for each occurrence."""
        return tuple(capitalized_names(self.without_boilerplate, self.case))

    @cached_property
    def single_line(self) -> str:
        """The text on one line, for prompts."""
        return collapse_whitespace(self.text)

    @cached_property
    def cjk(self) -> bool:
        """Whether the text is Chinese, Japanese or Korean."""
        return is_cjk(self.without_boilerplate)

    @cached_property
    def english(self) -> bool:
        """Whether the text is English."""
        return is_english(self.without_boilerplate)

    @cached_property
    def sentences(self) -> tuple[Span, ...]:
        """The spans of its sentences."""
        return cached_sentences(self.text)

    @cached_property
    def chinese_words(self) -> tuple[tuple[str, str], ...]:
        """The words of a Chinese text without boilerplate, with parts of speech: the slowest step of its extraction."""
        return tuple(tag_chinese(self.without_boilerplate)) if self.cjk else ()

    @cached_property
    def noun_phrases(self) -> tuple[Span, ...]:
        """The spans of its noun phrases, without boilerplate; English and Chinese only."""
        return tuple(chinese_noun_phrases(self.chinese_words) if self.cjk else noun_phrases(self.without_boilerplate))

    def sentence(self, first: int, last: int | None = None) -> str:
        """A sentence, or the sentences from `first` to `last`, on one line."""
        return collapse_whitespace(self.text[self.sentences[first].start : self.sentences[first if last is None else last].end])

    def spans(self, name: str) -> list[Span]:
        """Every occurrence of `name`, see `find_name_spans`."""
        if name not in self._spans:
            self._spans[name] = find_name_spans(self.text, name)
        return self._spans[name]

    def non_nested_spans(self, names: Iterable[str]) -> dict[str, list[Span]]:
        """The spans of each name, without those inside a longer name's."""
        return drop_nested_spans({name: self.spans(name) for name in names})

    def sort_by_position(self, names: Iterable[str]) -> list[str]:
        """The names in order of their first occurrence; names that do not occur come last."""
        return sorted(names, key=lambda n: min((s.start for s in self.spans(n)), default=len(self.text)))

    def sentence_numbers(self, names: Iterable[str]) -> dict[str, list[int]]:
        """For each name, the numbers of the sentences that contain it, ascending."""
        return sentence_numbers({name: self.spans(name) for name in names}, self.sentences)


_QUOTED_CJK = re.compile(rf"[《“「『]([{CJK}A-Za-z0-9·]{{2,12}})[》”」』]")
_NAME_FLAGS = ("nr", "ns", "nt", "nz")
_CJK_SUFFIX = frozenset(
    """
    港 岛 镇 市 县 省 村 路 街 巷 河 山 湖 号 学校 公司 委员会 银行 教堂 医院 合作社 报 周报 灯塔 码头 沙洲 协会 法庭 船长 杂货店
    """.split()
)
_ARTICLE = re.compile(r"\b[Tt]he\s$")
MAX_NAMES_FOR_CONCEPTS = 12  # a chunk with fewer names gets noun phrases as well
MAX_CONCEPTS = 24  # noun phrases of one chunk: the most frequent


def candidate_names(passage: ChunkText) -> list[str]:
    """The candidate names of a passage in order of first occurrence; verbatim spans with whitespace collapsed."""
    forms: dict[str, Counter[str]] = {}
    for name in [*passage.capitalised, *(_chinese(passage) if passage.cjk else ())]:
        if not is_not_a_name(name):
            forms.setdefault(name.casefold(), Counter())[name] += 1
    most_frequent = sorted(forms, key=lambda n: -forms[n].total())[:MAX_CONCEPTS]
    return [forms[n].most_common(1)[0][0] for n in forms if n in most_frequent]


def recurring_noun_phrases(passage: ChunkText, names: Sequence[str]) -> list[str]:
    """Noun phrases of a passage that recur in its document, the most frequent first, if it has few names; verbatim spans of it.

    A preceding "the" is part of the phrase: "the surgeon" denotes one person as a name does, "a surgeon" does not.
    """
    text, case = passage.without_boilerplate, passage.case
    phrases: dict[str, str] = {}
    words = {word for name in names for word in name.lower().split()}
    for start, end in passage.noun_phrases:
        phrase = collapse_whitespace(text[start:end])
        if case.phrases[phrase.lower()] > 1 and words.isdisjoint(phrase.lower().split()):
            article = _ARTICLE.search(text, 0, start)
            written = collapse_whitespace(text[article.start() if article else start : end])
            if article or phrase.lower() not in phrases:
                phrases[phrase.lower()] = "the " + written[4:] if article else written
    ranked = sorted(phrases, key=lambda p: -case.phrases[p] * (1 + p.count(" ")))[: max(0, MAX_NAMES_FOR_CONCEPTS - len(names))]
    return [phrases[p] for p in phrases if p in ranked]


def _chinese(passage: ChunkText) -> Iterator[str]:
    yield from _QUOTED_CJK.findall(passage.without_boilerplate)
    run: list[tuple[str, bool]] = []
    for word, flag in [*passage.chinese_words, ("\n", "x")]:
        named = flag.startswith(_NAME_FLAGS)
        if named or (run and (word == "·" or word in _CJK_SUFFIX)):
            run.append((word, named))
            continue
        name = collapse_whitespace("".join(w for w, _ in run).strip("·"))
        if 2 <= len(name) <= 12:
            yield name
        run = []


PHRASES_HASH = content_id("phrases 6")  # everything that this extraction depends on besides its document
UNTYPED_NAME = "name"  # the type of a name that no model has seen


def extract_noun_phrases(chunk: Chunk, case: DocumentCasing) -> Extraction:
    """Extract the names and recurring noun phrases of a chunk; those that share a sentence are related."""
    passage = ChunkText(chunk.text, case)
    names = candidate_names(passage)
    phrases = recurring_noun_phrases(passage, names)
    pairs = cooccurring_pairs(passage.sentence_numbers([*names, *phrases]))
    entities = [ExtractedEntity(n, UNTYPED_NAME) for n in names] + [ExtractedEntity(p, DEFAULT_ENTITY_TYPE) for p in phrases]
    return Extraction(
        chunk.id,
        tuple(entities),
        tuple(ExtractedRelationship(a, b) for a, b in pairs),
        (),
        "phrases",
        max(0, len(CAPITALIZED_RUN.findall(passage.text)) - len(passage.capitalised)),  # runs that are no names, or are in boilerplate
    )


MAX_PHRASE_CHARS = 60  # characters between two names that count as the phrase relating them
MAX_ABBREVIATION_CHARS = 7  # characters of an abbreviation
_THE = ("the ", "The ")
_WORDS = re.compile(r"\w[\w.&'’-]*\w|\w")
_PART = re.compile(r"-(?=[^\W\d_a-z])\w+")
_BEFORE = re.compile(r"\b([^\W\d_a-z]\w*)\.?\s$")
_GOES_ON = re.compile(r"\.(?=[,;)]|\s[a-z(])")  # a full stop that ends no sentence
_STOP = re.compile(r"[.;:!?()“”\"]")
MIN_NOMINAL_SCORE = 0.6  # least probability that a common noun denotes a person or a place
MIN_RELATION_SCORE = 0.35  # least probability that two names are related


def has_tagger_types(settings: IndexSettings) -> bool:
    """Whether the tagger finds what the settings ask for: it knows four types of entities, and no description of the corpus."""
    usual = settings.entity_types == DEFAULT_ENTITY_TYPES or set(settings.entity_types) <= set(ENTITY_TYPES)
    return usual and settings.domain == Domain()


def can_tag(text: str, settings: IndexSettings) -> bool:
    """Whether the tagger can extract from a text: it was trained on European languages."""
    return not is_cjk(text) and (settings.extractor == "tagger" or has_tagger_types(settings))


async def extract_with_tagger(
    passage: ChunkText, tagger: Tagger, settings: IndexSettings
) -> tuple[list[ExtractedEntity], list[ExtractedRelationship]]:
    """Extract the entities of a passage and their relationships with the tagger.

    A noun that denotes somebody, such as "the surgeon", is an entity, and so are recurring noun phrases; these are related to everything in
    their sentence.

    Raises ModelError.
    """
    text = passage.without_boilerplate
    likely = find_all_name_spans(text, candidate_names(passage))
    tagged = await tagger.tag(text, [(s.start, s.end) for spans in likely.values() for s in spans])
    names = [_complete_name(text, n) for n in _extend_names(tagged.names, likely)]
    written = [collapse_whitespace(text[n.start : n.end]) for n in names]
    votes: defaultdict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, n in zip(written, names, strict=True):
        if not n.is_nominal and len(name) > 1 and not is_not_a_name(name):
            votes[name][n.type] += n.score
    named = {name: _question_for_type(max(kinds, key=lambda k: kinds[k]), settings) for name, kinds in votes.items()}
    for name in _uncovered_names(passage, list(named), list(likely)):
        named[name] = DEFAULT_ENTITY_TYPE
    somebody = {
        "the " + phrase[4:]: n.type
        for phrase, n in zip(written, names, strict=True)
        if n.is_nominal and n.score >= MIN_NOMINAL_SCORE and phrase[:4] in _THE
    }
    folded = {name.casefold() for name in named}
    phrases = [p for p in dict.fromkeys([*somebody, *recurring_noun_phrases(passage, list(named))]) if p.casefold() not in folded]
    places = passage.sentence_numbers([*named, *phrases])
    entities = [ExtractedEntity(name, kind) for name, kind in named.items()]
    entities += [ExtractedEntity(p, _question_for_type(somebody.get(p, DEFAULT_ENTITY_TYPE), settings)) for p in phrases]
    entities = [e for e in entities if places[e.name]]  # a name cut out of a longer word occurs nowhere as a word
    related = _related(passage, names, written, tagged.related, {e.name for e in entities})
    met = [pair for pair, (i, j) in cooccurring_pairs(places).items() if i == j and not set(pair).isdisjoint(phrases)]
    return entities, [*related, *(ExtractedRelationship(*pair) for pair in met)]


def _question_for_type(kind: str, settings: IndexSettings) -> str:
    return kind if kind in settings.entity_types else DEFAULT_ENTITY_TYPE


def _uncovered_names(passage: ChunkText, covered: Sequence[str], candidates: Sequence[str]) -> list[str]:
    return [name for name, spans in passage.non_nested_spans([*covered, *candidates]).items() if spans and name not in covered]


def _extend_names(names: Sequence[TaggedSpan], likely: Mapping[str, Sequence[Span]]) -> list[TaggedSpan]:
    """Extend each name to the likely name that begins with it, unless the rest is another name: "Dover Lines", not Dover alone."""
    ends = {span.start: span.end for spans in likely.values() for span in spans}
    taken = {n.start for n in names}
    return [
        replace(n, end=ends[n.start])
        if not n.is_nominal and ends.get(n.start, 0) > n.end and taken.isdisjoint(range(n.start + 1, ends[n.start]))
        else n
        for n in names
    ]


def _complete_name(text: str, n: TaggedSpan) -> TaggedSpan:
    """A name completed by the capitalised part of a compound after it, an abbreviation's full stop, and a person's titles.

    Articles, function words and punctuation at its ends are dropped; a name without a capital becomes empty. Common nouns stay as they are.
    """
    if n.is_nominal:
        return n
    words = list(_WORDS.finditer(text, n.start, n.end))
    while words and (words[0].group().islower() or words[0].group() == "The"):
        words = words[1:]
    while words and words[-1].group().islower():
        words = words[:-1]
    if not words:
        return replace(n, end=n.start)
    start, end = words[0].start(), words[-1].end()
    if part := _PART.match(text, end):
        end = part.end()
    if _GOES_ON.match(text, end) and len(text[start:end].rsplit(maxsplit=1)[-1]) < MAX_ABBREVIATION_CHARS:
        end += 1
    while n.type == "person" and (title := _BEFORE.search(text[max(0, start - 24) : start])) and title[1].lower() in TITLES:
        start -= len(title.group())
    return replace(n, start=start, end=end)


def _related(
    passage: ChunkText, names: Sequence[TaggedSpan], written: Sequence[str], related: Sequence[tuple[int, int, float]], named: Set[str]
) -> list[ExtractedRelationship]:
    """The related names, the most probable first, each pair in its most probable place."""
    best: dict[frozenset[str], tuple[float, int, int]] = {}
    for i, j, p in related:
        a, b = written[i], written[j]
        if p >= MIN_RELATION_SCORE and a in named and b in named and a not in b and b not in a:
            key = frozenset((a, b))
            best[key] = max(best.get(key, (0.0, 0, 0)), (p, i, j))
    return [
        ExtractedRelationship(
            written[i], written[j], _connecting_text(passage.without_boilerplate, names[i], names[j]) if passage.english else ""
        )
        for _, i, j in sorted(best.values(), reverse=True)
    ]


def _connecting_text(text: str, a: TaggedSpan, b: TaggedSpan) -> str:
    """The text between two names if it is short and has a verb; else empty."""
    between = collapse_whitespace(text[a.end : b.start])
    if len(between) > MAX_PHRASE_CHARS or _STOP.search(between) or not any(dictionary_tag(w).startswith("VB") for w in between.split()):
        return ""
    return collapse_whitespace(text[a.start : b.end])
