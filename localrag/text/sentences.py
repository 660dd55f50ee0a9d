"""Sentence spans (sentencex) with exact offsets; CJK, whitespace, stop words, repetition, control characters."""

import re
import struct
import unicodedata
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_RUN = re.compile(f"[{CJK}]+")
_WORD_PATTERN = re.compile(r"[^\W_]+")
_BLOCK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]|[-*+•][ \t]|\d{1,3}[.)][ \t]|\||```|~~~).*$|^.*\S · .*$|^[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_GOES_ON = re.compile(rf"\n(?!{_BLOCK.pattern})[^\n]+", re.MULTILINE)
_MIN_WRAPPED_CHARS = 45  # characters of a line that may be wrapped
_ROW = re.compile(r"[^\n]{1,999}")  # a table row (`Name: Ruth Sand · Port: Brannock`) is one sentence, unless it is long
_WRAP = re.compile(rf"(?<=[^\n]{{{_MIN_WRAPPED_CHARS}}})\n(?=[^\s])")  # a long line was wrapped: the sentence continues
_HUNG = re.compile(rf"(?<=[^\n]{{{_MIN_WRAPPED_CHARS}}})\n(?=[ \t]*\S)")  # the same if all lines but the first are indented equally
_DOT = re.compile(r"(?<!\S)\.(?=[A-Z]{2})")  # as in .NET: no sentence ends here
# No sentence ends in it.
_CLOSED = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]{1,200}\1(?!`)|https?://[^\s)>\]]+(?=[^\s)>\]])|^[ \t]*\.\.(?= )", re.MULTILINE)
_ENDS = str.maketrans(".?!。？！", "------")
_MAX_SPLITTER_CHARS = 20_000  # characters per call of the splitter: its time may be quadratic, 0.1 s for this many
_MARKER = re.compile(r"\W*(?:\d{1,3}[.)])+\s*")  # the number of a list item
_REFERENCE = re.compile(r"(?:\[[^\[\]\n]{1,80}\])+\s*")  # a reference to literature or a footnote
_STOPPED = re.compile(r"(?<![\W\d])(?:(?![.!?…。！？．।۔؟։።།။៕])[\W\d])*+[.!?…。！？．।۔؟։።།။៕][\W\d]*+$")
_AFTER_STOP = re.compile(r"(?<=[。！？])[0-9a-z]")  # a Chinese sentence may begin so; sentencex does not split before it
_UNUSUAL = re.compile(r"[^\S\n ]|[\ud800-\udfff]")  # spaces and lone surrogates that sentencex fails at

# English words that are no names and do not tell the subject of a text.
STOP_WORDS = frozenset(
    """
    i a an the this that these those it its he she they we you his her their our your my me him them us who whom whose which what
    when where why how there here then than thus so such if or and but nor yet for from to of in on at by with without into onto
    upon over under after before during since until till while as because though although unless whether not no yes oh ah alas
    well now never always often sometimes perhaps indeed however therefore moreover meanwhile also even still again once twice
    both each every all any some many much more most few several other another same own only just very too is are was were be been
    being am do does did done have has had having will would shall should may might must can could let come go get give take make
    see look say said one two three four five six seven eight nine ten don nothing nobody everybody anybody hallo hurrah pray
    thank thanks plenty please dear mr mrs ms miss sir madam dr january february march april may june july august september
    october november december monday tuesday wednesday thursday friday saturday sunday chapter section part page figure table note
    contents title author illustration
    """.split()
)


class Span(NamedTuple):
    """Characters `start` to `end` of a text."""

    start: int
    end: int


def sentences(text: str) -> list[Span]:
    """The sentences in order, by sentencex for English or Chinese; headings, list items, table rows and fences are separate."""
    spans = []
    for block in _text_blocks(text):
        part = text[block.start : block.end]
        for span in [Span(0, len(part))] if " · " in part and _ROW.fullmatch(part) else _split_paragraph(part):
            trimmed = trim_span(part, span)
            if trimmed.end > trimmed.start:
                spans.append(Span(block.start + trimmed.start, block.start + trimmed.end))
    return spans


SPLITTER_VERSION = 6  # version of `sentences`: stored spans of other versions are ignored
MAX_CACHED_TEXTS = 100_000  # cached chunks, some 40 MB
_bounds: OrderedDict[bytes, bytes] = OrderedDict()  # hash of a chunk's text → its packed sentence spans


@lru_cache(maxsize=4096)
def cached_sentences(text: str) -> tuple[Span, ...]:
    """The sentences of a chunk's text, cached: several stages need them, and splitting takes 12 ms."""
    return tuple(map(Span._make, struct.iter_unpack("<2I", sentence_bounds(text))))


def sentence_bounds(text: str) -> bytes:
    """The sentence spans of a chunk's text as stored in an index: pairs of 32-bit integers, little-endian."""
    bounds = _bounds.get(_key(text))
    if bounds is None:
        bounds = b"".join(struct.pack("<2I", *span) for span in sentences(text))
        cache_sentence_bounds(text, bounds)
    return bounds


def cache_sentence_bounds(text: str, bounds: bytes) -> None:
    """Cache stored sentence spans; the oldest of more than MAX_CACHED_TEXTS texts is dropped."""
    _bounds[_key(text)] = bounds
    if len(_bounds) > MAX_CACHED_TEXTS:
        _bounds.popitem(last=False)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def split_at_breaks(text: str, longest: int) -> Iterator[Span]:
    """Split a text into spans of at most `longest` characters that end with a paragraph, else a line, else a word if possible."""
    start = 0
    while start < len(text):
        end = start + longest
        if end < len(text):
            cuts = ((mark, text.rfind(mark, start + longest // 2, end)) for mark in ("\n\n", "\n", " "))
            end = next((position + len(mark) for mark, position in cuts if position >= 0), end)
        yield Span(start, min(end, len(text)))
        start = end


def trim_span(text: str, span: Span) -> Span:
    """`span` without whitespace (and the byte-order mark) at its ends."""
    part = text[span.start : span.end]
    lead = len(part) - len(part.lstrip("\ufeff").lstrip())
    return Span(span.start + lead, span.end - (len(part) - len(part.rstrip())))


class RepetitionFilter:
    """Detects sentences of one text that repeat an earlier one, or are the start of one."""

    def __init__(self) -> None:
        self._known: list[str] = []  # sorted

    def is_new(self, sentence: str) -> bool:
        """Whether a sentence is new, ignoring case, punctuation and a leading number. Remembers it."""
        words = _WORDS.findall(_NUMBERED.sub("", sentence.casefold()))
        key = " ".join(words)
        at = bisect_left(self._known, key)
        following = next(iter(self._known[at : at + 1]), None)
        is_start = following is not None and following.startswith(key) and not _ENDED.search(sentence)
        if following == key or is_start:
            return False
        self._known.insert(at, key)
        return True


_ENDED = re.compile(r"(?<!\W)(?:(?![.!?…。！？])\W)*+[.!?…。！？]\W*+$")
_NUMBERED = re.compile(r"^\s*\d{1,3}[.):]\s+")
_WORDS = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")


def collapse_whitespace(text: str) -> str:
    """The text on one line, whitespace runs as single spaces."""
    return " ".join(text.split())


def without_accents(text: str) -> str:
    """The text in folded case, without accents and other combining marks."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def join_names(names: Sequence[str]) -> str:
    """Join names as "A, B and C", or 甲、乙和丙 if all are Chinese."""
    if len(names) < 2:
        return "".join(names)
    comma, last = ("、", "和") if all(map(is_cjk, names)) else (", ", " and ")
    return comma.join(names[:-1]) + last + names[-1]


def is_cjk(text: str) -> bool:
    """Whether at least a fifth of the letters are Chinese, Japanese or Korean."""
    if text.isascii():
        return False
    letters = sum(c.isalpha() for c in text)
    return letters > 0 and sum(map(len, _CJK_RUN.findall(text))) * 5 >= letters


def cjk_bigrams(text: str) -> str:
    """Every two adjacent CJK characters as a word, separated by spaces, which makes them searchable without a dictionary."""
    words: list[str] = []
    for run in _CJK_RUN.findall(text):
        words += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return " ".join(words)


def word_prefixes(text: str) -> set[str]:
    """The words of a text cut to five letters, which joins most inflections; CJK text as character pairs."""
    return {w[:5] for w in _WORD_PATTERN.findall(text.lower()) if not cjk_bigrams(w)} | set(cjk_bigrams(text).split())


def _text_blocks(text: str) -> Iterator[Span]:
    position = 0
    for line in _BLOCK.finditer(text):
        end = _item_end(text, line) if _ITEM.match(line[0]) else line.end()
        yield from _pieces(position, line.start())
        yield from _pieces(line.start(), end)
        position = end
    yield from _pieces(position, len(text))


def _item_end(text: str, line: re.Match[str]) -> int:
    """The end of a list item: of its line, or of the last line it is wrapped to."""
    start, end = line.span()
    while end - start >= _MIN_WRAPPED_CHARS and (continuation := _GOES_ON.match(text, end)):
        start, end = end + 1, continuation.end()
    return end


def _flowing(part: str) -> str:
    """Join the wrapped lines of a paragraph; the length, and so all offsets, stay the same."""
    other_lines = part.split("\n")[1:]
    is_hanging = len({len(line) - len(line.lstrip(" \t")) for line in other_lines if line.strip()}) == 1
    joined = _DOT.sub("-", (_HUNG if is_hanging else _WRAP).sub(" ", part))
    return _CLOSED.sub(lambda m: m[0].translate(_ENDS), joined) if "`" in part or "//" in part or ".. " in part else joined


def _pieces(start: int, end: int) -> Iterator[Span]:
    for position in range(start, end, _MAX_SPLITTER_CHARS):
        yield Span(position, min(end, position + _MAX_SPLITTER_CHARS))


def _split_paragraph(part: str) -> list[Span]:
    """The sentences of a paragraph. Wrapped lines are joined first; every other line end also ends a sentence."""
    language = "zh" if is_cjk(part) else "en"
    spans: list[Span] = []
    offset = 0
    for line in _flowing(part).split("\n"):
        spans += [Span(offset + start, offset + end) for start, end in _line_sentences(line, language)] if line.strip() else []
        offset += len(line) + 1
    return spans


def _line_sentences(line: str, language: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for first, end in _boundaries(line, language):
        start = first
        if spans and (reference := _REFERENCE.match(line, start, end)) is not None and not line[start - 1].isspace():
            start = reference.end()  # it belongs to the sentence before it
            spans[-1] = (spans[-1][0], start)
        if start == end:
            continue
        if spans and _is_one_sentence(line[max(spans[-1][0], start - 40) : start], line[start:end]):
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


def _boundaries(line: str, language: str) -> list[tuple[int, int]]:
    """(start, end) of every sentence; the whole line if sentencex fails."""
    from sentencex import get_sentence_boundaries  # most commands need no sentences

    plain = _UNUSUAL.sub(lambda m: " " if m[0].isspace() else "\ufffd", _AFTER_STOP.sub("A", line))  # same length as the line
    try:
        boundaries = get_sentence_boundaries(language, plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a panic in Rust code: a BaseException that cannot be imported
            raise
        return [(0, len(line))]
    return [(b["start_index"], b["end_index"]) for b in boundaries]


def _is_one_sentence(before: str, after: str) -> bool:
    """Whether two spans belong to one sentence; of the first, only the last characters are given.

    They do if there is no full stop between them, or one that ends no sentence: in a list item's number, in a name like `httpx.Client`,
    after a title or a German ordinal number, or before mere punctuation such as a closing bracket.
    """
    inside = before[-1] == "." and after[0].isalnum()
    ended = _STOPPED.search(before) is not None
    ordinal = _GERMAN_ORDINAL.search(before) is not None or (_DAY.search(before) is not None and _GERMAN_MONTH.match(after) is not None)
    return (
        inside
        or not ended
        or ordinal
        or _TITLE.search(before) is not None
        or _MARKER.fullmatch(before) is not None
        or not any(map(str.isalnum, after))
    )


_TITLE = re.compile(r"\b(?:Ms|approx)\.\s*$")  # that sentencex does not know
_DAY = re.compile(r"(?:^|[\s(])[0-3]?\d\.\s*$")
_GERMAN_MONTH = re.compile(r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember)\b")
_GERMAN_ORDINAL = re.compile(r"\b(?:am|im|zum|vom|beim|der|die|das|dem|den|des|jede[rsnm]?|bis)\s+\d{1,3}\.\s*$", re.IGNORECASE)


# Characters that XML 1.0 forbids or discourages; other formats are better without them, too.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def replace_control_characters(text: str) -> str:
    r"""Replace each control character except tab and line break by U+FFFD; line breaks become `\n`."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
