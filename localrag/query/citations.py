"""Verified citations: drafts become answers whose citations have a file, a character range and a verbatim quote.

Every sentence that a model wrote gets a state. Supported: a sentence of its sources entails it (`is_entailed`). Contradicted: the nearest
sentence differs in a detail about the same subject (`entailment.comparison.contradiction`). Related: the nearest sentence is on its topic,
and its passage has all its numbers and dates. Unsupported: none of these. Citation marks in texts of documents and models are escaped.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.entailment import parse_sentence
from localrag.entailment.comparison import contradiction, unsupported_reason
from localrag.entailment.lexicon import ParsedWord
from localrag.query.question import NO_CALLBACKS, AnswerCallbacks, AnswerDraft, AnswerPoint, DraftSource
from localrag.query.question_analysis import detect_language
from localrag.query.retriever import content_stems
from localrag.records import (
    CONTRADICTED_STATE,
    RELATED_STATE,
    SENTENCE_STATES,
    SUPPORTED_STATE,
    UNSUPPORTED_STATE,
    AnswerPassage,
    AnswerSentence,
    Citation,
    Document,
    Quote,
)
from localrag.store import documents as documents_store
from localrag.store import graph
from localrag.text.quotes import EmbedSentences
from localrag.text.sentences import RepetitionFilter, cached_sentences, collapse_whitespace, is_cjk, sentences

ANSWER_MARK = re.compile(rf"\[([0-9]+|{'|'.join(SENTENCE_STATES[1:])})\]")  # a citation, or the state of an unproved sentence
# Control characters, including those that change the direction of text.
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def escape_marks(text: str) -> str:
    r"""Escape the text's own `[n]` or `[unsupported]` as `\[n\]`, so that they are not read as marks; Markdown shows `[n]`."""
    return ANSWER_MARK.sub(r"\\[\1\\]", text)


def round_marks(text: str) -> str:
    """Replace the text's own `[n]` by `(n)` for prompts: a model may copy it, and its grammar allows square brackets only in real marks."""
    return ANSWER_MARK.sub(r"(\1)", text)


def to_one_line(text: str) -> str:
    """The text on one line, control characters replaced by U+FFFD, so that they cannot change how it is displayed."""
    return _CONTROL_CHARACTERS.sub("\ufffd", " ".join(text.split()))


def quote_as_json(text: str) -> str:
    """The text as a JSON string on one line, so that no quotation mark in it ends the quote."""
    return json.dumps(to_one_line(text), ensure_ascii=False)


def fence_texts(tag: str, texts: Sequence[str]) -> Callable[[str], str]:
    """A function that puts each of the texts between tags whose name occurs in none of them, so that no text can close its tag."""
    name = tag
    while any(name in text.casefold() for text in texts):
        name = f"{tag}-{blake2b(''.join([name, *texts]).encode(errors='surrogatepass'), digest_size=6).hexdigest()}"
    return lambda text: f"<{name}>\n{text}\n</{name}>"


# Minimal `similarity_matrix` value for two sentences with the same content: reached by 60 to 73 % of true paraphrases, and by 15 to 17 %
# of statements compared with other passages of the same book (scripts/support_threshold.py).
SUPPORT_THRESHOLD = 0.5
TOPIC = 0.4  # minimal cosine of a source sentence on the topic of a written one
MAX_SUPPORTING_QUOTES = 2  # per sentence of an answer


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a written sentence, with the supporting or nearest quotes; `why`: the reason that it is not supported."""

    state: str
    quotes: tuple[Quote, ...] = ()
    why: str = ""


SupportCheck = Callable[[str, Sequence[Quote], Sequence[Quote]], Verdict]
AliasLookup = Callable[[str], Iterable[str]]

_NAMES = re.compile(r"[A-Z][\w’'-]*(?:\s+(?:(?:of|de|von|van|the|du|da)\s+)?[A-Z][\w’'-]*)*")


def support_checker(embed: EmbedSentences, aliases: AliasLookup = lambda _: ()) -> SupportCheck:
    """A function that checks a sentence against the passages that it cites, then against all others that the model was shown.

    The quotes of its verdict are verbatim sentences of the passages, best first. `aliases` returns other names of a named entity, any of
    which a source may use.
    """
    nearest = _Nearest(embed)

    def check(sentence: str, cited: Sequence[Quote], shown: Sequence[Quote] = ()) -> Verdict:
        uncited = [quote for quote in shown if quote not in cited]
        passage_groups = [passages for passages in (cited, uncited) if passages]
        for passages in passage_groups:
            if parts := supporting_quotes(sentence, passages, aliases):
                scores = similarity_matrix([sentence], [collapse_whitespace(p.text) for p in parts], embed)[0]
                return Verdict(SUPPORTED_STATE, tuple(parts[int(i)] for i in np.argsort(-scores, kind="stable")[:MAX_SUPPORTING_QUOTES]))
        verdicts = [_unproved(sentence, passages, nearest, aliases, cited) for passages in passage_groups]
        best = next((v for v in verdicts if v.state != UNSUPPORTED_STATE), None)
        return best or next(iter(verdicts), Verdict(UNSUPPORTED_STATE, (), "no passage"))

    return check


class _Nearest:
    """Finds the sentence of some passages that is nearest to a written one; embeds each once."""

    def __init__(self, embed: EmbedSentences) -> None:
        self._embed = embed
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, sentence: str, passages: Sequence[Quote]) -> tuple[Quote, Quote, float] | None:
        """The nearest sentence, its passage, and the cosine; None if the passages have no sentences.

        The cosine with the whole passage is used if higher, since a written sentence may combine several sentences.
        """
        parts = [(part, passage) for passage in passages for part, _ in _quote_sentences(passage)]
        if not parts:
            return None
        vector = self._vectors([sentence])[0]
        cosines = self._vectors([collapse_whitespace(part.text) for part, _ in parts]) @ vector
        part, passage = parts[best := int(np.argmax(cosines))]
        return part, passage, max(float(cosines[best]), float(self._vectors([collapse_whitespace(passage.text)])[0] @ vector))

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known |= dict(zip(new, self._embed(new), strict=True))
        return np.array([self._known[text] for text in texts], np.float32)


def _unproved(sentence: str, passages: Sequence[Quote], nearest: _Nearest, aliases: AliasLookup, cited: Sequence[Quote]) -> Verdict:
    """The verdict on an unsupported sentence, from the nearest sentence of the passages.

    Its numbers and dates may occur anywhere in that sentence's passage or in the passages that it cites (`named`).
    """
    nearest_match = nearest(sentence, passages)
    if nearest_match is None:
        return Verdict(UNSUPPORTED_STATE, (), "no passage")
    source, passage, cosine = nearest_match
    claim, has_figure = (
        parse_sentence(_with_names_of(collapse_whitespace(sentence), source.text, aliases)),
        _numbers_in_passages({passage, *cited}),
    )
    if reason := contradiction(
        claim, parse_sentence(collapse_whitespace(source.text)), has_figure, names=detect_language(sentence) in ("en", "zh")
    ):
        return Verdict(CONTRADICTED_STATE, (source,), reason)
    if cosine < TOPIC:
        return Verdict(UNSUPPORTED_STATE, (), "topic")
    missing = next((word.text for word in claim.words if word.figure and not has_figure(word)), "")
    return Verdict(UNSUPPORTED_STATE, (), f"missing:{missing}") if missing else Verdict(RELATED_STATE, (source,))


def _numbers_in_passages(passages: Iterable[Quote]) -> Callable[[ParsedWord], bool]:
    """A predicate: does a number or date occur in any of the passages?"""
    words = [
        word
        for passage in passages
        for part, _ in _quote_sentences(passage)
        for word in parse_sentence(collapse_whitespace(part.text)).words
    ]
    numbers = {word.text for word in words if word.kind == "number"}
    dates = {key for word in words if word.when for key in word.keys}
    return lambda word: word.text in numbers if word.kind == "number" else not word.keys.isdisjoint(dates)


def alias_lookup(db: Database) -> AliasLookup:
    """A function that returns the other names of the graph's entities with a name."""

    @cache
    def others(name: str) -> tuple[str, ...]:
        ids = graph.entity_ids_by_name(db, [name]).get(name.lower(), ())
        return tuple(dict.fromkeys(alias for names in graph.aliases_of(db, ids).values() for alias in names if alias != name))

    return others


def supporting_quotes(text: str, cited: Sequence[Quote], aliases: AliasLookup = lambda _: ()) -> list[Quote]:
    """The sentences of passages that entail `text`; empty unless every sentence of `text` is entailed by one of them."""
    sources = list(dict.fromkeys(pair for quote in cited for pair in _quote_sentences(quote)))
    quotes: list[Quote] = []
    for start, end in cached_sentences(text):
        claim = collapse_whitespace(text[start:end])
        entailing = [part for part, before in sources if is_entailed(claim, collapse_whitespace(part.text), before, aliases)]
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
        before = collapse_whitespace(part)


def is_entailed(claim: str, source: str, before: str = "", aliases: AliasLookup = lambda _: ()) -> bool:
    """Whether a sentence of a source entails the claim.

    A leading pronoun of the source refers to the subject of the sentence `before`; names may be replaced by aliases.
    """
    return rejection_reason(claim, source, before, aliases) == ""


def rejection_reason(claim: str, source: str, before: str = "", aliases: AliasLookup = lambda _: ()) -> str:
    """Why a sentence does not entail the claim, in a word or two; empty if it does."""
    claim = _with_names_of(claim, source, aliases)
    reasons = []
    for text in (source, _resolve_pronoun(source, before)):
        if text:
            reason = unsupported_reason(parse_sentence(claim), parse_sentence(text))
            if not reason:
                return ""
            reasons.append(reason)
    return reasons[0] if reasons else "nothing said"


_LEADING = re.compile(
    r"^((?:[A-Z][a-z]+ed\s|When\s|While\s|After\s|Before\s|As\s|If\s|In \d{4},?\s|Later,?\s|Then,?\s|But\s|And\s)?)"
    r"(He|She|It|They|he|she|it|they)\b"
)
_LEADING_POSSESSIVE = re.compile(r"^((?:In \d{4},?\s)?)(His|Her|Its|Their)\b")
_LEADING_CHINESE = re.compile(
    r"^((?:后来|之后|随后|其后|当时|同年|次年|\d+年，?)?，?)(他们|她们|它们|他|她|它|该公司|该校|该市|该村|该馆|该书)"
)


def _resolve_pronoun(source: str, before: str) -> str:
    """The source with a leading pronoun replaced by the subject of the previous sentence; empty if neither is found."""
    if not before:
        return ""
    subject = parse_sentence(before).subject
    if not subject:
        return ""
    if is_cjk(source):
        return _LEADING_CHINESE.sub(lambda m: m[1] + subject, source, count=1) if _LEADING_CHINESE.match(source) else ""
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


def _holds(text: str, name: str) -> bool:
    """Whether a text contains a name as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None if not is_cjk(name) else name in text


def similarity_matrix(sentences: Sequence[str], texts: Sequence[str], embed: EmbedSentences) -> NDArray[np.float32]:
    """Similarity of each sentence and text, (sentences, texts): the mean of cosine and share of the sentence's words."""
    vectors = embed([*sentences, *texts])
    have = [content_stems(t) for t in texts]
    wanted = [content_stems(s) for s in sentences]
    words = np.array([[len(w & h) / max(1, len(w)) for h in have] for w in wanted], np.float32)
    return np.asarray((vectors[: len(sentences)] @ vectors[len(sentences) :].T + words) / 2, np.float32)


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """The text of an answer with `[n]` after each point, its citations, and the state of each of its sentences.

    `counts`: sentences of each state, in the order of SENTENCE_STATES, including those omitted from the text; `sentences`: only those in
    the text. `citation_marks`: offsets of all `[n]` in the text, with n, since quoted documents may contain such marks themselves.
    `n_repeated`: sentences omitted because they repeat others or themselves.
    """

    text: str
    citations: tuple[Citation, ...]
    counts: tuple[int, ...] = (0, 0, 0, 0)
    n_repeated: int = 0
    citation_marks: tuple[tuple[int, int], ...] = ()
    sentences: tuple[AnswerSentence, ...] = ()
    passages: tuple[AnswerPassage, ...] = ()

    def count(self, state: str) -> int:
        """Number of sentences with this state."""
        return self.counts[SENTENCE_STATES.index(state)]


MIN_SENTENCE_CHARS = 10  # shorter ones are checked together with the next
MAX_QUOTE_CHARS = 300  # of the source after a contradicted sentence


class Citer:
    """Receives the points of an answer one by one and adds each to the text, checked and with numbered citations.

    A sentence that a model wrote is cited by the sentences of its sources that support it. Otherwise it is marked with its state, and cited
    by the nearest sentence if related or contradicted; with `strict` it is omitted. Repeated sentences are omitted. A quote that is not
    verbatim in its document is not cited. `watch` receives every citation and every new part of the text.
    """

    def __init__(
        self, db: Database, check: SupportCheck, *, strict: bool = False, bullets: bool = False, watch: AnswerCallbacks = NO_CALLBACKS
    ) -> None:
        self._check, self._strict, self._bullets, self._watch = check, strict, bullets, watch
        self._verified = _verifier(db)
        self._numbers: dict[Quote, int] = {}
        self._citations: list[Citation] = []
        self._text = ""
        self._places: list[tuple[int, int]] = []
        self._sentences: list[AnswerSentence] = []
        self._counts = dict.fromkeys(SENTENCE_STATES, 0)
        self._said = RepetitionFilter()
        self._passages: list[AnswerPassage] = []
        self._taken = self._repeated = 0

    def add(self, point: AnswerPoint) -> None:
        """Add the next point of the answer."""
        self._taken += 1
        if point.passage:
            self._add_passage(point, *point.passage)
            return
        before = "\n\n" * bool(self._text) + (f"**{point.title}**\n" if point.title else "") + "- " * self._bullets
        for text in _prose_sentences(point.text) if point.is_generated else [point.text]:
            if point.is_generated and not self._said.is_new(text):
                self._repeated += 1
                continue
            verdict = self._check(text, point.quotes, point.given) if point.is_generated else Verdict(SUPPORTED_STATE, point.quotes)
            if self._strict and verdict.state != SUPPORTED_STATE:
                self._counts[verdict.state] += 1
                continue
            numbers = self._cite(verdict.quotes)
            state = verdict.state if numbers else UNSUPPORTED_STATE
            self._counts[state] += 1
            if self._strict and not numbers:
                continue
            self._say_sentence(before, text, Verdict(state, verdict.quotes), numbers)
            before = " "  # sentences of a point form one paragraph

    def _add_passage(self, point: AnswerPoint, headings: tuple[str, ...], marked: tuple[int, int] | None) -> None:
        """Add a passage as it stands, below its file and headings."""
        numbers = self._cite(point.quotes)
        if not numbers:
            return
        citation, quote = self._citations[numbers[0] - 1], point.quotes[0]
        place = to_one_line(" › ".join((citation.path, *filter(None, (citation.part,)), *headings)))
        before = "\n\n" * bool(self._text) + f"**{place}**\n"
        self._counts[SUPPORTED_STATE] += 1
        span = None if marked is None else (marked[0] - quote.start, marked[1] - quote.start)
        self._passages.append(AnswerPassage(citation.n, citation.path, headings, quote.start, quote.end, quote.text, span))
        if self._watch.on_passage:
            self._watch.on_passage(self._passages[-1])
        self._say_sentence(before, quote.text, Verdict(SUPPORTED_STATE, point.quotes), numbers)

    def result(self, draft: AnswerDraft | None = None) -> CitedAnswer:
        """The answer, after adding the remaining points of its draft; without a draft, the answer so far."""
        if draft:
            if draft.opening and not self._taken:
                self._say(escape_marks(draft.opening))
            for point in draft.points[self._taken :]:
                self.add(point)
        counts = tuple(self._counts.values())
        marks, sentences = tuple(self._places), tuple(self._sentences)
        return CitedAnswer(self._text, tuple(self._citations), counts, self._repeated, marks, sentences, tuple(self._passages))

    def _cite(self, quotes: Sequence[Quote]) -> list[int]:
        """The numbers of the verbatim quotes."""
        numbers = []
        for quote in dict.fromkeys(quotes):
            if quote not in self._numbers and (citation := self._verified(quote, len(self._citations) + 1)):
                self._numbers[quote] = citation.n
                self._citations.append(citation)
                if self._watch.on_citation:
                    self._watch.on_citation(citation)
            if quote in self._numbers:
                numbers.append(self._numbers[quote])
        return numbers

    def _say_sentence(self, before: str, text: str, verdict: Verdict, numbers: Sequence[int]) -> None:
        """Add a sentence, the source's words if they contradict it, its state if it is not supported, and its citation marks."""
        before, text = escape_marks(before), escape_marks(text)
        start = len(self._text) + len(before)
        self._sentences.append(AnswerSentence(start, start + len(text), verdict.state, tuple(numbers)))
        new = f"{before}{text} "
        if verdict.state == CONTRADICTED_STATE:
            source_text = escape_marks(collapse_whitespace(verdict.quotes[0].text))
            new += f"≠ “{source_text if len(source_text) <= MAX_QUOTE_CHARS else source_text[: MAX_QUOTE_CHARS - 1] + '…'}” "
        new += f"[{verdict.state}]" * (verdict.state != SUPPORTED_STATE)
        for n in numbers:
            self._places.append((len(self._text) + len(new), n))
            new += f"[{n}]"
        self._say(new)

    def _say(self, new: str) -> None:
        """Append to the text."""
        self._text += new
        if self._watch.on_text:
            self._watch.on_text(new)


def cite(draft: AnswerDraft, db: Database, check: SupportCheck, *, strict: bool = False, bullets: bool = False) -> CitedAnswer:
    """The cited answer of a draft, see `Citer`."""
    return Citer(db, check, strict=strict, bullets=bullets).result(draft)


def _prose_sentences(text: str) -> list[str]:
    """The sentences of a text; one too short to be checked is joined with the next."""
    parts: list[str] = []
    short = False
    for start, end in sentences(text):
        part = collapse_whitespace(text[start:end])
        parts[len(parts) - short :] = [f"{parts[-1]} {part}" if short else part]
        short = len(parts[-1]) < MIN_SENTENCE_CHARS
    return parts


def _verifier(db: Database) -> Callable[[Quote, int], Citation | None]:
    """A function that turns a quote into citation `n` if it is verbatim in its document; each document is read once."""
    documents: dict[str, Document | None] = {}

    def verified(quote: Quote, n: int) -> Citation | None:
        path = documents_store.document_path(db, quote.chunk_id)
        if path not in documents:
            documents[path] = documents_store.find_document(db, path)
        document = documents[path]
        if document is None or document.text[quote.start : quote.end] != quote.text:
            return None
        part = next((p.label for p in document.parts if p.start <= quote.start < p.end), "")
        return Citation(n, path, quote.start, quote.end, quote.text, quote.chunk_id, part)

    return verified


_CITATION_NUMBER = re.compile(r"\[(\d+)\]")


def parse_cited_prose(prose: str, sources: Sequence[DraftSource]) -> list[AnswerPoint]:
    """Points of prose whose sentences cite `[n]`: n counts `sources` from 1; other numbers are dropped."""
    points, all_quotes = [], tuple(dict.fromkeys(q for source in sources for q in source.quotes))
    for paragraph in filter(str.strip, prose.split("\n")):
        ids = [int(m) for m in _CITATION_NUMBER.findall(paragraph)]
        quotes = tuple(q for i in dict.fromkeys(ids) if 1 <= i <= len(sources) for q in sources[i - 1].quotes)
        points.append(
            AnswerPoint(_CITATION_NUMBER.sub("", paragraph).replace(" .", ".").strip(), quotes, is_generated=True, given=all_quotes)
        )
    return points
