"""Plain text: sentences with exact offsets, Chinese/Japanese/Korean characters, whitespace."""

import re
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_CJK_RUN = re.compile(f"[{CJK}]+")
_BLOCK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]|[-*+•][ \t]|\d{1,3}[.)][ \t]|\||```|~~~).*$|^.*\S · .*$|^[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_GOES_ON = re.compile(rf"\n(?!{_BLOCK.pattern})[^\n]+", re.MULTILINE)
_WRAPPED = 45  # characters: a line so long may go on in the next
_ROW = re.compile(r"[^\n]{1,999}")  # a row of a table (`Name: Ruth Sand · Port: Brannock`) is one sentence, unless it holds long texts
_WRAP = re.compile(rf"(?<=[^\n]{{{_WRAPPED}}})\n(?=[^\s])")  # the line was long: it was wrapped, and the sentence goes on
_HUNG = re.compile(rf"(?<=[^\n]{{{_WRAPPED}}})\n(?=[ \t]*\S)")  # the same where all lines but the first are indented alike
_DOT = re.compile(r"(?<!\S)\.(?=[A-Z]{2})")  # of .NET: no sentence ends here
_CLOSED = re.compile(
    r"(?<!`)(`{1,2})(?!`)[^`\n]{1,200}\1(?!`)|https?://[^\s)>\]]+(?=[^\s)>\]])|^[ \t]*\.\.(?= )", re.MULTILINE
)  # no sentence ends in it
_ENDS = str.maketrans(".?!。？！", "------")
_LONGEST = 20_000  # characters handed to the splitter at once: its time may grow with their square, 0.1 s for this many
_MARKER = re.compile(r"\W*(?:\d{1,3}[.)])+\s*")  # the number of a list item
_REFERENCE = re.compile(r"(?:\[[^\[\]\n]{1,80}\])+\s*")  # to literature or a footnote
_STOPPED = re.compile(r"[.!?…。！？．।۔؟։።།။៕][\W\d]*$")
_AFTER_STOP = re.compile(r"(?<=[。！？])[0-9a-z]")  # a Chinese sentence may begin so; sentencex ends none before it
_UNUSUAL = re.compile(r"[^\S\n ]|[\ud800-\udfff]")  # spaces that sentencex fails at, and lone surrogates

# English words that are no name and say nothing of what a text is about.
FUNCTION_WORDS = frozenset(
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
    """The sentences of `text` in order, without surrounding whitespace; headings, list items, table rows and fences stand alone.

    sentencex splits paragraphs (rules for English or Chinese, whichever the paragraph is written in).
    """
    spans = []
    for block in _blocks(text):
        part = text[block.start : block.end]
        for span in [Span(0, len(part))] if " · " in part and _ROW.fullmatch(part) else _split(part):
            trimmed = trim(part, span)
            if trimmed.end > trimmed.start:
                spans.append(Span(block.start + trimmed.start, block.start + trimmed.end))
    return spans


SPLITTER = 4  # version of `sentences`: what an index keeps of another one is not read
REMEMBERED = 100_000  # chunks whose sentences are known without reading them again, some 40 MB
_bounds: OrderedDict[bytes, bytes] = OrderedDict()  # hash of a chunk's text → where its sentences start and end


@lru_cache(maxsize=4096)
def chunk_sentences(text: str) -> tuple[Span, ...]:
    """The sentences of a chunk's text, kept for good, because several stages ask for those of every chunk and splitting takes 12 ms."""
    return tuple(map(Span._make, struct.iter_unpack("<2I", sentence_bounds(text))))


def sentence_bounds(text: str) -> bytes:
    """Where the sentences of a chunk's text start and end, as an index keeps it: 32-bit numbers, little-endian."""
    known = _bounds.get(_key(text))
    if known is None:
        known = b"".join(struct.pack("<2I", *span) for span in sentences(text))
        remember_sentences(text, known)
    return known


def remember_sentences(text: str, bounds: bytes) -> None:
    """Take what `sentence_bounds` gave in an earlier run; of REMEMBERED texts, those that came last."""
    _bounds[_key(text)] = bounds
    if len(_bounds) > REMEMBERED:
        _bounds.popitem(last=False)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def stretches(text: str, longest: int) -> Iterator[Span]:
    """The text in stretches of at most `longest` characters, which end with a paragraph, else a line, else a word where there is one."""
    start = 0
    while start < len(text):
        end = start + longest
        if end < len(text):
            cuts = ((mark, text.rfind(mark, start + longest // 2, end)) for mark in ("\n\n", "\n", " "))
            end = next((at + len(mark) for mark, at in cuts if at >= 0), end)
        yield Span(start, min(end, len(text)))
        start = end


def trim(text: str, span: Span) -> Span:
    """`span` without the whitespace (and the byte-order mark) at its ends."""
    part = text[span.start : span.end]
    lead = len(part) - len(part.lstrip("\ufeff").lstrip())
    return Span(span.start + lead, span.end - (len(part) - len(part.rstrip())))


class Said:
    """The sentences of a text so far: one that was said already, or begun again, or goes round in itself, says nothing new."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def is_new(self, sentence: str) -> bool:
        """Whether a sentence says something; case, punctuation and a number before it do not count. It is remembered."""
        words = _WORDS.findall(_NUMBERED.sub("", sentence.casefold()))
        key = " ".join(words)
        begun = not _ENDED.search(sentence) and any(known.startswith(key) for known in self._known)
        if key in self._known or begun or goes_round(words):
            return False
        self._known.add(key)
        return True


_ENDED = re.compile(r"[.!?…。！？]\W*$")
_NUMBERED = re.compile(r"^\s*\d{1,3}[.):]\s+")
_WORDS = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_ROUND, _TIMES = 12, 3  # words that come again at once, and how often until they are a loop


def goes_round(words: Sequence[str]) -> bool:
    """Whether words come again and again: two or more of them three times in a row, or one six times."""
    for size in range(1, _ROUND + 1):
        needed = size * (_TIMES if size > 1 else 2 * _TIMES)
        same = 0  # words in a row that are those `size` before them
        for a, b in zip(words, words[size:], strict=False):
            same = same + 1 if a == b else 0
            if same >= needed - size:
                return True
    return False


def squeeze(text: str) -> str:
    """The text on one line, whitespace runs as single spaces."""
    return " ".join(text.split())


def enumeration(names: Sequence[str]) -> str:
    """ "A, B and C", or 甲、乙和丙 where the names are Chinese."""
    if len(names) < 2:
        return "".join(names)
    comma, last = ("、", "和") if all(map(is_cjk, names)) else (", ", " and ")
    return comma.join(names[:-1]) + last + names[-1]


def is_cjk(text: str) -> bool:
    """Whether a fifth or more of the letters are Chinese, Japanese or Korean."""
    if text.isascii():
        return False
    letters = sum(c.isalpha() for c in text)
    return letters > 0 and sum(map(len, _CJK_RUN.findall(text))) * 5 >= letters


def cjk_bigrams(text: str) -> str:
    """Every two adjacent CJK characters as a word of their own, which makes them findable without a dictionary."""
    words: list[str] = []
    for run in _CJK_RUN.findall(text):
        words += [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return " ".join(words)


def _blocks(text: str) -> Iterator[Span]:
    """Paragraphs, and single lines that are headings, list items or table rows."""
    at = 0
    for line in _BLOCK.finditer(text):
        end = _item_end(text, line) if _ITEM.match(line[0]) else line.end()
        yield from _pieces(at, line.start())
        yield from _pieces(line.start(), end)
        at = end
    yield from _pieces(at, len(text))


def _item_end(text: str, line: re.Match[str]) -> int:
    """Where a list item ends that may be wrapped: with its line, or with those behind it that it goes on in."""
    start, end = line.span()
    while end - start >= _WRAPPED and (more := _GOES_ON.match(text, end)):
        start, end = end + 1, more.end()
    return end


def _flowing(part: str) -> str:
    """A paragraph whose wrapped lines are joined; as long as before: offsets stay."""
    rest = part.split("\n")[1:]
    hung = len({len(line) - len(line.lstrip(" \t")) for line in rest if line.strip()}) == 1
    joined = _DOT.sub("-", (_HUNG if hung else _WRAP).sub(" ", part))
    return _CLOSED.sub(lambda m: m[0].translate(_ENDS), joined) if "`" in part or "//" in part or ".. " in part else joined


def _pieces(start: int, end: int) -> Iterator[Span]:
    for at in range(start, end, _LONGEST):
        yield Span(at, min(end, at + _LONGEST))


def _split(part: str) -> list[Span]:
    """The sentences of a paragraph. Wrapped lines are joined first; at any other line end a sentence ends, too."""
    language = "zh" if is_cjk(part) else "en"
    found: list[Span] = []
    at = 0
    for line in _flowing(part).split("\n"):
        found += [Span(at + start, at + end) for start, end in _line_sentences(line, language)] if line.strip() else []
        at += len(line) + 1
    return found


def _line_sentences(line: str, language: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, end in _boundaries(line, language):
        start = first
        if found and (reference := _REFERENCE.match(line, start, end)) is not None and not line[start - 1].isspace():
            start = reference.end()  # it belongs to the sentence before it
            found[-1] = (found[-1][0], start)
        if start == end:
            continue
        if found and _is_one_sentence(line[max(found[-1][0], start - 40) : start], line[start:end]):
            start = found.pop()[0]
        found.append((start, end))
    return found


def _boundaries(line: str, language: str) -> list[tuple[int, int]]:
    """The sentences that sentencex finds, as (start, end); the whole line if it fails."""
    from sentencex import get_sentence_boundaries  # most commands need no sentences

    plain = _UNUSUAL.sub(lambda m: " " if m[0].isspace() else "\ufffd", _AFTER_STOP.sub("A", line))  # as long as the line
    try:
        found = get_sentence_boundaries(language, plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a fault in Rust code: a BaseException that cannot be imported
            raise
        return [(0, len(line))]
    return [(b["start_index"], b["end_index"]) for b in found]


def _is_one_sentence(before: str, after: str) -> bool:
    """Whether two stretches belong to one sentence; of the first only the last characters are given.

    They do if no full stop stands between them, or one that ends no sentence: in a list item's number, in a name like `httpx.Client`, or
    before mere punctuation such as a closing bracket.
    """
    inside = before[-1] == "." and after[0].isalnum()
    ended = _STOPPED.search(before) is not None
    return inside or not ended or _MARKER.fullmatch(before) is not None or not any(map(str.isalnum, after))
