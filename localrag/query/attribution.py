"""Attribution of what a model wrote: which sentences of its sources prove a sentence, a list item, a table row or a code block.

Every unit gets a state. Supported: sentences of the sources entail it, as a whole or clause by clause (`is_entailed`). Contradicted: the
nearest sentence differs in a detail about the same subject (`entailment.comparison.contradiction`). Related: the nearest sentence is on its
topic, and its passage has all its numbers and dates. Unsupported: none of these.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.entailment import MAX_SENTENCE_CHARS, parse_sentence
from localrag.entailment.comparison import contradiction, unsupported_reason
from localrag.entailment.english import COUNTED_TIMES
from localrag.entailment.lexicon import ParsedSentence, ParsedWord
from localrag.entailment.normalization import normalize_sentence
from localrag.errors import ModelError
from localrag.llm.reader import PassageReader
from localrag.query.answer_markdown import AnswerUnit, UnitKind, row_cells
from localrag.query.support_score import (
    MAX_CONTRADICTED,
    MIN_PROVED,
    MIN_RELATED,
    PARSED_LANGUAGES,
    SupportScorer,
    covered_share,
    load_weights,
)
from localrag.query.table_rows import compare_row, lines_of, stating_row, table_rows
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Quote
from localrag.store import chunks, documents, graph
from localrag.text.language import detect_language
from localrag.text.quotes import EmbedSentences
from localrag.text.sentences import cached_sentences, collapse_whitespace, is_cjk

TOPIC = 0.4  # minimal cosine of a source sentence on the topic of a written one
MAX_SUPPORTING_QUOTES = 2  # per sentence of an answer
MAX_COMPARED = 12  # sentences of the passages with one of an answer


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a written sentence, with the supporting or nearest quotes; `why`: the reason that it is not supported."""

    state: str
    quotes: tuple[Quote, ...] = ()
    why: str = ""


SupportCheck = Callable[[str, Sequence[Quote], Sequence[Quote]], Verdict]
AliasLookup = Callable[[str], Iterable[str]]
PlaceLookup = Callable[[str], str]  # where a chunk stands: its file, the document's title and the headings above it

_NAMES = re.compile(r"[A-Z][\w’'-]*(?:\s+(?:(?:of|de|von|van|the|du|da)\s+)?[A-Z][\w’'-]*)*")


def support_checker(
    embed: EmbedSentences,
    aliases: AliasLookup = lambda _: (),
    reader: PassageReader | None = None,
    places: PlaceLookup = lambda _: "",
) -> SupportCheck:
    """A function that checks a sentence against the passages that it cites, then against all others that the model was shown.

    The quotes of its verdict are verbatim sentences of the passages, best first. `aliases` returns other names of a named entity, any of
    which a source may use; what `places` returns of a passage's chunk counts as said in the passage. With a `reader`, a learned score
    decides, too: whether a proof holds, and what is related.
    """
    vectors = SentenceVectors(embed)
    scorer = _usable_scorer(vectors, reader)

    def check(sentence: str, cited: Sequence[Quote], shown: Sequence[Quote] = ()) -> Verdict:
        said = normalize_sentence(sentence)
        uncited = [quote for quote in shown if quote not in cited]
        passage_groups = [passages for passages in (cited, uncited) if passages]
        if row := next(filter(None, (stating_row(sentence, passages) for passages in passage_groups)), None):
            return Verdict(SUPPORTED_STATE, (row,))
        proof = next(filter(None, (supporting_quotes(sentence, passages, aliases, places, vectors) for passages in passage_groups)), [])
        estimate = _estimate(scorer, sentence, [*cited, *uncited], aliases, places, is_proved=bool(proof)) if scorer else None
        if proof and (estimate is None or estimate >= MIN_PROVED):
            scores = vectors.cosines(said, [normalize_sentence(p.text) for p in proof])
            return Verdict(SUPPORTED_STATE, tuple(proof[int(i)] for i in np.argsort(-scores, kind="stable")[:MAX_SUPPORTING_QUOTES]))
        verdicts = [_unproved(sentence, passages, vectors, aliases, places, cited, estimate) for passages in passage_groups]
        best = next((v for v in verdicts if v.state != UNSUPPORTED_STATE), None)
        return best or next(iter(verdicts), Verdict(UNSUPPORTED_STATE, (), "no passage"))

    return check


def _usable_scorer(vectors: "SentenceVectors", reader: PassageReader | None) -> SupportScorer | None:
    """The learned score; None without a reader, or where a file of either cannot be used here."""
    if reader is None:
        return None
    try:
        reader.load()
        return SupportScorer(vectors.cosines, reader, load_weights())
    except ModelError:
        return None


def _estimate(
    scorer: SupportScorer, sentence: str, passages: Sequence[Quote], aliases: AliasLookup, places: PlaceLookup, *, is_proved: bool
) -> float | None:
    """The learned score of a sentence, in which names are those that the passages use."""
    claim = _with_names_of(normalize_sentence(sentence), " ".join(passage.text for passage in passages), aliases)
    for place in dict.fromkeys(places(passage.chunk_id) for passage in passages):
        if (shorter := strip_location(claim, place, " ".join(scorer.views(claim, passages) or ()))) != claim:
            claim = shorter
            break
    return scorer.estimate(claim, list(dict.fromkeys(passages)), is_proved=is_proved, language=detect_language(sentence))


class SentenceVectors:
    """Embeds the sentences of passages, each once."""

    def __init__(self, embed: EmbedSentences) -> None:
        self._embed = embed
        self._known: dict[str, NDArray[np.float32]] = {}

    def nearest(self, sentence: str, passages: Sequence[Quote]) -> tuple[Quote, Quote, float] | None:
        """The sentence of some passages nearest to a written one, its passage, and the cosine; None if the passages have no sentences."""
        parts = [(part, passage) for passage in passages for part, _ in _quote_sentences(passage)]
        if not parts:
            return None
        cosines = self.cosines(sentence, [normalize_sentence(part.text) for part, _ in parts])
        best = int(np.argmax(cosines))
        return *parts[best], float(cosines[best])

    def closest(self, claim: str, sentences: Sequence[tuple[Quote, str]]) -> Iterator[tuple[Quote, str]]:
        """The MAX_COMPARED of some sentences, each with the one before it, that are nearest to a claim by cosine and shared words."""
        texts = [normalize_sentence(part.text) for part, _ in sentences]
        shares = np.array([covered_share(claim, text) for text in texts], np.float32)
        near = np.argsort(-shares - self.cosines(claim, texts), kind="stable")[:MAX_COMPARED]
        return (sentences[n] for n in sorted(near.tolist()))

    def cosines(self, sentence: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """The cosine of a sentence with each text."""
        if new := [text for text in dict.fromkeys([sentence, *texts]) if text not in self._known]:
            self._known |= dict(zip(new, self._embed(new), strict=True))
        return np.array([self._known[text] for text in texts], np.float32) @ self._known[sentence]


def _unproved(
    sentence: str,
    passages: Sequence[Quote],
    vectors: SentenceVectors,
    aliases: AliasLookup,
    places: PlaceLookup,
    cited: Sequence[Quote],
    estimate: float | None,
) -> Verdict:
    """The verdict on a sentence that the rules do not prove, from the nearest sentence of the passages.

    Its numbers and dates may occur anywhere in that sentence's passage or in the passages that it cites. Whether it is on the topic, an
    estimate tells, else the cosine.
    """
    written = normalize_sentence(sentence)
    nearest_match = vectors.nearest(written, passages)
    if nearest_match is None:
        return Verdict(UNSUPPORTED_STATE, (), "no passage")
    source, passage, cosine = nearest_match
    place = places(source.chunk_id)
    said = strip_location(_with_names_of(written, source.text, aliases), place, source.text)
    claim, has_figure = parse_sentence(said), _numbers_in_passages({passage, *cited}, place)
    reason = contradiction(
        claim, parse_sentence(normalize_sentence(source.text)), has_figure, names=detect_language(sentence) in PARSED_LANGUAGES
    )
    if reason and (estimate is None or estimate < MAX_CONTRADICTED or reason.startswith(("number", "date", "name"))):
        return Verdict(CONTRADICTED_STATE, (source,), reason)
    if estimate is not None:
        is_on_topic = estimate >= MIN_RELATED
    else:  # a sentence may combine what several of a passage say
        is_on_topic = max(cosine, float(vectors.cosines(said, [normalize_sentence(passage.text)])[0])) >= TOPIC
    if not is_on_topic:
        return Verdict(UNSUPPORTED_STATE, (), "topic")
    missing = next((word.text for word in claim.words if word.figure and not word.keys & COUNTED_TIMES and not has_figure(word)), "")
    missing = missing or _unknown_name(claim, [place, *(p.text for p in passages)], sentence)
    return Verdict(UNSUPPORTED_STATE, (), f"missing:{missing}") if missing else Verdict(RELATED_STATE, (source,))


def _unknown_name(claim: ParsedSentence, texts: Sequence[str], sentence: str) -> str:
    """The first name of a claim, in a language in which capitals mark names, that stands in none of the texts; empty if there is none."""
    if detect_language(sentence) not in PARSED_LANGUAGES or is_cjk(sentence):
        return ""
    said = " ".join(texts).lower()
    names = (word for word in claim.words if word.kind == "name" and not word.soft)
    return next((word.text for word in names if not any(form.lower() in said for form in (word.text, *word.keys))), "")


def _numbers_in_passages(passages: Iterable[Quote], place: str) -> Callable[[ParsedWord], bool]:
    """A predicate: does a number or date occur in any of the passages, or in a place?"""
    texts = [place, *(part.text for passage in passages for part, _ in _quote_sentences(passage))]
    words = [word for text in texts for word in parse_sentence(normalize_sentence(text)).words]
    numbers = {(word.text, word.unit) for word in words if word.kind == "number"}
    bare = {text for text, _ in numbers}
    dates = {key for word in words if word.when for key in word.keys}

    def has(word: ParsedWord) -> bool:
        if word.kind != "number":
            return not word.keys.isdisjoint(dates)
        return word.text in bare and (not word.unit or (word.text, word.unit) in numbers or (word.text, "") in numbers)

    return has


def alias_lookup(db: Database) -> AliasLookup:
    """A function that returns the other names of the graph's entities with a name."""

    @cache
    def others(name: str) -> tuple[str, ...]:
        ids = graph.entity_ids_by_name(db, [name]).get(name.lower(), ())
        return tuple(dict.fromkeys(alias for names in graph.aliases_of(db, ids).values() for alias in names if alias != name))

    return others


def place_lookup(db: Database) -> PlaceLookup:
    """A function that returns the path and title of the document that a chunk is of, and the headings above the chunk."""

    @cache
    def place(chunk_id: str) -> str:
        path, title = documents.document_path(db, chunk_id), documents.document_titles(db, [chunk_id]).get(chunk_id, "")
        headings = (h for chunk in chunks.chunks_by_id(db, [chunk_id]) for h in chunk.headings)
        return " › ".join((path, title, *headings))

    return place


def supporting_quotes(
    text: str,
    cited: Sequence[Quote],
    aliases: AliasLookup = lambda _: (),
    places: PlaceLookup = lambda _: "",
    vectors: SentenceVectors | None = None,
) -> list[Quote]:
    """The sentences of passages that entail `text`; empty unless every sentence of `text` is entailed by one of them.

    With `vectors`, a sentence is compared with those nearest to it alone.
    """
    sources = list(dict.fromkeys(pair for quote in cited for pair in _quote_sentences(quote)))
    quotes: list[Quote] = []
    for start, end in cached_sentences(text):
        claim = normalize_sentence(text[start:end])
        entailing = [
            part
            for part, before in (vectors.closest(claim, sources) if vectors and len(sources) > MAX_COMPARED else sources)
            if is_entailed(strip_location(claim, places(part.chunk_id), part.text), normalize_sentence(part.text), before, aliases)
        ]
        if not entailing:
            return []
        quotes += entailing
    return list(dict.fromkeys(quotes))


def _quote_sentences(quote: Quote) -> Iterator[tuple[Quote, str]]:
    """The sentences of a passage, each with the text of the previous one."""
    before = ""
    for start, end in cached_sentences(quote.text):
        part = quote.text[start:end]
        yield Quote(quote.chunk_id, quote.start + start, quote.start + end, part), before
        before = normalize_sentence(part)


def is_entailed(claim: str, source: str, before: str = "", aliases: AliasLookup = lambda _: ()) -> bool:
    """Whether a sentence of a source entails the claim.

    A leading pronoun of the source refers to the subject of the sentence `before`; names may be replaced by aliases.
    """
    if len(claim) > MAX_SENTENCE_CHARS:
        return False
    parsed = parse_sentence(_with_names_of(claim, source, aliases))
    texts = (source, _resolve_pronoun(source, before))
    return any(text and not unsupported_reason(parsed, parse_sentence(text)) for text in texts)


_LEADING = re.compile(
    r"^((?:[A-Z][a-z]+ed\s|When\s|While\s|After\s|Before\s|As\s|If\s|In \d{4},?\s|Later,?\s|Then,?\s|But\s|And\s)?)"
    r"(He|She|It|They|he|she|it|they)\b"
)
_LEADING_POSSESSIVE = re.compile(r"^((?:In \d{4},?\s)?)(His|Her|Its|Their)\b")


def _resolve_pronoun(source: str, before: str) -> str:
    """The source with a leading pronoun replaced by the subject of the previous sentence; empty if neither is found."""
    if not before:
        return ""
    subject = parse_sentence(before).subject
    if not subject:
        return ""
    if _LEADING.match(source):
        return _LEADING.sub(lambda m: m[1] + subject, source, count=1)
    if _LEADING_POSSESSIVE.match(source):
        return _LEADING_POSSESSIVE.sub(lambda m: f"{m[1]}{subject}’s", source, count=1)
    return ""


def _with_names_of(claim: str, source: str, aliases: AliasLookup) -> str:
    """The claim with names missing in the source replaced by aliases that occur there."""
    for name in dict.fromkeys(_NAMES.findall(claim)):
        if not _holds(source, name):
            other = next((a for a in aliases(name) if a != name and _holds(source, a)), None)
            claim = claim.replace(name, other) if other else claim
    return claim


_WORD_PATTERN = re.compile(r"\w+")
_PLACE_WORDS = frozenset("in of for on at from within by im in von für aus laut en de para dans pour".split())
_ARTICLES = frozenset("the this a an der die das dem den el la los las le les".split())
_AS_SAID = re.compile(
    r"(?:(?<!\s)|(?=,)),?\s*(?:\bas\s+)?\b(?:stated|mentioned|described|noted|said|found|listed|shown|reported|recorded)\s*$", re.IGNORECASE
)


def strip_location(claim: str, place: str, source: str) -> str:
    """The claim without phrases that only say where its source stands, such as "in Flask" of a sentence in Flask's documentation.

    A phrase is a preposition with names that all occur in `place` (words in capitals, numbers, and parts of the path before the first "›"),
    none of which is in the source: that would have to say the same.
    """
    path = _lower_words(place.partition(" › ")[0])
    known, in_source = path | _lower_words(place), _lower_words(source)
    words = list(_WORD_PATTERN.finditer(claim))
    kept, at, n = "", 0, 0
    while n < len(words):
        end = n
        if words[n].group().lower() in _PLACE_WORDS:
            last = n + 1
            while last < len(words) and (lower := (word := words[last].group()).lower()) in known | _ARTICLES | _PLACE_WORDS:
                is_name = not word.islower() or lower in path
                end = last if is_name and lower not in _PLACE_WORDS | _ARTICLES else end
                last += 1
        names = {w.group().lower() for w in words[n : end + 1]} - _PLACE_WORDS - _ARTICLES
        if end > n and names and not names & in_source:
            kept += _AS_SAID.sub("", claim[at : words[n].start()].rstrip())
            at, n = words[end].end(), end
        n += 1
    return (kept + claim[at:]).strip() if at else claim


def _lower_words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD_PATTERN.findall(text))


def _holds(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None if not is_cjk(name) else name in text


_CLAUSE_BREAK = re.compile(
    r"(?:;|，|；|\s[–—]\s|,?\s(?:and|but|while|whereas|although|because|since|so|und|aber|während|weil)\s|,\s(?:which|who|die|der|das)\s)"
)
_DECLINES = re.compile(
    r"\b(?:(?:source|document|passage|text|context|file|excerpt|information)s?(?: (?:provided|given|above))?,?"
    r" (?:do|does|did)(?:n[’']t| not)"
    r"|(?:there is|contains?|provides?|gives?|have|has|found) no(?:t any)? (?:\w+ )?(?:information|mention|details?|data|record)"
    r"|(?:is|are|was|were) not (?:\w+ )?(?:mentioned|stated|specified|provided|given|described|included|found|said|answered) "
    r"(?:in|by) (?:(?:the|these|any|your|this) (?:\w+ )?(?:source|document|passage|text|context|file)|the (?:provided|given) \w+)s?"
    r"|\bnowhere (?:mentioned|stated|said|given)|(?:mentioned|stated|said|given) nowhere"
    r"|(?:quelle|dokument|text|passage|unterlage)\w* (?:\w+ )?(?:nicht|kein\w*)\b|keine (?:angaben?|informationen?))",
    re.IGNORECASE,
)
_ON_SOURCES = re.compile(
    r"^(?:(?:this|these|the|all|that) )?(?:information|answer|details?|statements?|facts?|sources?)\b.{0,120}"
    r"\b(?:sources?|documents?|files?|section|minutes|\w{1,40}\.\w{2,5})\b"
    r"|^(?:i hope|let me know|if you (?:have|need)|please (?:let|note that the sources)|you[’']re (?:very )?welcome|(?:yes, )?i[’']m sure"
    r"|(?:yes, )?i am sure|happy to help|gern geschehen|de nada|de rien)\b",
    re.IGNORECASE,
)
_DECLINES_CJK = re.compile(r"(?:文档|资料|来源|文件|文本)[^，。]{0,8}(?:没有|未|不)(?:提|说|包含|给出|回答)|没有(?:相关)?信息")
MIN_CLAUSE_WORDS = 3
MAX_CLAUSES = 6
SAME_CODE = 0.6  # share of a code block's lines in a passage from which on it is related to that


def declines(text: str) -> bool:
    """Whether a sentence says only that the sources do not say something, which no source can prove."""
    return bool(_DECLINES_CJK.search(text) if is_cjk(text) else _DECLINES.search(text))


def unit_verdict(
    unit: AnswerUnit, cited: Sequence[Quote], shown: Sequence[Quote], check: SupportCheck, previous: str = ""
) -> Verdict | None:
    """The verdict on a unit of an answer; None if it makes no claim. `previous` is the claim before it, which a pronoun may refer to."""
    if unit.kind is UnitKind.LAYOUT or not any(map(str.isalnum, unit.claim)):
        return None
    if len(unit.claim) > MAX_SENTENCE_CHARS and unit.kind is not UnitKind.CODE:
        return Verdict(UNSUPPORTED_STATE, (), "too long")
    if unit.kind is UnitKind.CODE:
        return _code_verdict(unit.claim, [*cited, *shown])
    if unit.kind is UnitKind.ROW:
        return _row_verdict(unit, cited, shown, check)
    if declines(unit.claim) or _ON_SOURCES.match(unit.claim):
        return None
    return _sentence_verdict(unit, cited, shown, check, previous)


def _sentence_verdict(unit: AnswerUnit, cited: Sequence[Quote], shown: Sequence[Quote], check: SupportCheck, previous: str) -> Verdict:
    """The verdict on a sentence, else on it with its pronoun resolved or below its list's introduction, else on its clauses together."""
    verdict = check(unit.claim, cited, shown)
    if verdict.state == SUPPORTED_STATE and unit.lead and not _is_about(unit.lead[0], verdict.quotes, [*cited, *shown]):
        verdict = Verdict(RELATED_STATE, verdict.quotes[:1])
    variants = [_resolve_pronoun(unit.claim, previous), *[f"{lead} {unit.claim}" for lead in unit.lead]]
    for variant in filter(None, variants):
        if verdict.state == SUPPORTED_STATE:
            return verdict
        other = check(variant, cited, shown)
        if other.state == SUPPORTED_STATE or (verdict.state == UNSUPPORTED_STATE != other.state):
            verdict = other
    if verdict.state == SUPPORTED_STATE:
        return verdict
    parts = clauses(unit.claim)
    verdicts = [check(part, cited, shown) for part in parts]
    if verdicts and all(v.state == SUPPORTED_STATE for v in verdicts):
        return Verdict(SUPPORTED_STATE, tuple(dict.fromkeys(v.quotes[0] for v in verdicts)))
    against = next((v for v in verdicts if v.state == CONTRADICTED_STATE), None)
    proved = [v.quotes[0] for v in verdicts if v.state == SUPPORTED_STATE]
    if against and verdict.state in (UNSUPPORTED_STATE, RELATED_STATE):
        return against
    if verdict.state == UNSUPPORTED_STATE and proved and all(v.state in (SUPPORTED_STATE, RELATED_STATE) for v in verdicts):
        return Verdict(RELATED_STATE, tuple(dict.fromkeys(proved))[:MAX_SUPPORTING_QUOTES])
    return verdict


def _is_about(lead: str, quotes: Sequence[Quote], passages: Sequence[Quote]) -> bool:
    first, *rest = [*_NAMES.findall(lead), ""]
    names = [n for n in ([first] if " " in first or is_cjk(lead) else []) + rest if len(n) > 2]  # a first word has its capital anyway
    around = [p.text for p in passages if any(q.chunk_id == p.chunk_id for q in quotes)]
    return all(any(_holds(text, name) for text in around) for name in names)


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence that say something by themselves, those without a subject with that of the first; empty if it has one."""
    pieces = [piece.strip(" ,.;，；") for piece in _CLAUSE_BREAK.split(sentence)]
    if not 1 < len(pieces) <= MAX_CLAUSES:
        return []
    if is_cjk(sentence):
        return list(filter(None, pieces))
    if any(len(piece.split()) < MIN_CLAUSE_WORDS for piece in pieces):
        return []
    parsed = [parse_sentence(piece) for piece in pieces]
    subject = parsed[0].subject
    if not subject or not all(any(clause.verb is not None for clause in part.clauses) for part in parsed):
        return []
    return [f"{piece}." if own.subject else f"{subject} {piece}." for piece, own in zip(pieces, parsed, strict=True)]


def _code_verdict(code: str, passages: Sequence[Quote]) -> Verdict:
    """A code block is supported by the passage that has all its lines, in their order."""
    wanted = [collapse_whitespace(line) for line in code.splitlines() if line.strip()]
    best, share = None, 0.0
    for passage in dict.fromkeys(passages):
        lines = list(lines_of(passage))
        found: list[int] = []
        for line in wanted:
            after = found[-1] + 1 if found else 0
            place = next((n for n in range(after, len(lines)) if line in collapse_whitespace(lines[n].text)), None)
            found += [] if place is None else [place]
        if len(found) / len(wanted) > share:
            share = len(found) / len(wanted)
            start, end = lines[found[0]].start, lines[found[-1]].end
            best = Quote(passage.chunk_id, start, end, passage.text[start - passage.start : end - passage.start])
    if best is None or share < SAME_CODE:
        return Verdict(UNSUPPORTED_STATE, (), "code")
    return Verdict(SUPPORTED_STATE if share == 1 else RELATED_STATE, (best,))


def _row_verdict(unit: AnswerUnit, cited: Sequence[Quote], shown: Sequence[Quote], check: SupportCheck) -> Verdict:
    """The verdict on a table's row: what a table of the sources says, else that on its cells as a sentence, which proves no row."""
    found = compare_row(row_cells(unit.text), unit.lead, table_rows([*cited, *shown]))
    if found.is_said is not None:
        return Verdict(SUPPORTED_STATE if found.is_said else CONTRADICTED_STATE, found.lines[:MAX_SUPPORTING_QUOTES], found.value)
    verdict = check(unit.claim, cited, shown)
    return Verdict(RELATED_STATE, verdict.quotes[:1]) if verdict.state == SUPPORTED_STATE else verdict
