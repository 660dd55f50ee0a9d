"""The units of an answer in Markdown while a model writes it: sentences, table rows and code blocks to be checked, and what joins them.

The text is kept as it is written, but for the model's citation marks, which become numbers, and for a list of sources at its end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from localrag.text.markdown import plain_text
from localrag.text.sentences import sentences

_CITATION = r"[\[【][ \t]*(?:(?:sources?|quellen?|来源)[ \t]*)?\d{1,3}(?:[ \t]*[,;–-][ \t]*\d{1,3})*[ \t]*[\]】](?!\()"
CITATION_MARKS = re.compile(rf"(?<![ \t])[ \t]*{_CITATION}", re.IGNORECASE)
_MARKS_AFTER_END = re.compile(rf"(?<![.!?。！？])([.!?。！？]+[\"”’)*_]*)((?:[ \t]*{_CITATION})+)", re.IGNORECASE)
_BEGUN_MARK = re.compile(r"[\[【][^\[\]【】\n]{0,20}$")
_NUMBER = re.compile(r"\d{1,3}")
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)|[ \t]*(?:\*\*|__)[^*_\n]{1,80}(?:\*\*|__):?[ \t]*$|[ \t]*(?:[-*_][ \t]*){3,}$")
_PREFIX = re.compile(r"[ \t]*(?:>[ \t]?)*(?:(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?")
_ITEM = re.compile(r"[ \t>]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
TABLE_ROW = re.compile(r"[ \t>]*\|.*\|[ \t]*$")
RULE_ROW = re.compile(r"[ \t>]*\|(?:[ \t]*:?-{1,}:?[ \t]*\|)+[ \t]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_SOURCE_LIST = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]+)?(?:\*\*|__)?(?:sources?|references?|citations?|quellen|fuentes|références|fonti|来源|参考(?:文献|资料)?)"
    r"(?:[ \t]+(?:used|cited))?(?:\*\*|__)?[ \t]*+[:：]?(?:\*\*|__)?[ \t]*",
    re.IGNORECASE,
)
_POSSIBLE_END = re.compile(r"[.!?…。！？:：\n]")
MAX_UNIT_CHARS = 4000  # a longer stretch without an end is a unit
MIN_NEXT_CHARS = 8
MAX_PREFIX = 7  # characters, from which it is clear whether a line is an item of a list


class UnitKind(StrEnum):
    """What a unit of an answer is; a layout makes no claim: a heading, the head of a table, a line break."""

    LAYOUT = "layout"
    SENTENCE = "sentence"
    ROW = "row"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class AnswerUnit:
    """A part of an answer: `before` is the layout in front of it, `text` the Markdown without marks, `cited` the numbers of its marks.

    `claim` is what it says in plain text, to be checked; empty of a layout. `lead` is the line with a colon above a list, or the heads of
    a table's columns: what an item or a row is about.
    """

    kind: UnitKind
    text: str
    before: str = ""
    cited: tuple[int, ...] = ()
    claim: str = ""
    lead: tuple[str, ...] = ()


def row_cells(line: str) -> tuple[str, ...]:
    """The cells of a table's row as plain text."""
    return tuple(plain_text(cell.replace("\\|", "|")) for cell in _CELL_END.split(line.strip().strip(">").strip())[1:-1])


class UnitParser:
    """Splits an answer into units as it comes in; `feed` and `finish` yield those that are complete."""

    def __init__(self) -> None:
        self._line = ""  # the line that comes in
        self._is_prose = False  # its beginning has been added to the paragraph
        self._before = ""  # layout in front of the next unit
        self._paragraph = ""  # its sentences that are not yet complete
        self._fence = ""
        self._is_wrapped = False  # in a code block of Markdown
        self._code: list[str] = []
        self._columns: tuple[str, ...] | None = None  # of the table that is being read
        self._lead = ""
        self._in_item = False
        self.is_at_sources = False  # the rest is a list of sources

    @property
    def unfinished(self) -> str:
        """What has come in and is no complete unit yet."""
        return (self._paragraph + self._line).strip()

    def feed(self, text: str) -> Iterator[AnswerUnit]:
        """Take the next piece of the text."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            yield from self._end_line(f"{line}\n")
        if self._is_prose or not self._may_be_structure(self._line):
            yield from self._prose(self._pop_line())

    def finish(self, *, is_cut: bool = False) -> Iterator[AnswerUnit]:
        """The last units; of a text that was cut off (`is_cut`) only what is complete."""
        if is_cut and not self._is_prose and (self._fence or self._columns is not None or self._line.lstrip(" \t>")[:1] in tuple("|#`~")):
            self._line = ""
        if self._line:
            yield from self._end_line(self._pop_line())
        if self._fence:
            self._code.append(f"{self._fence}\n")
            yield self._close_code()
        yield from self._end_paragraph(is_cut=is_cut)

    def _pop_line(self) -> str:
        line, self._line = self._line, ""
        return line

    def _may_be_structure(self, line: str) -> bool:
        start = line.lstrip(" \t>")
        is_marked = start[:1] in tuple("|#`~*_") or len(start) < MAX_PREFIX
        return bool(self._fence) or self._columns is not None or is_marked or bool(_SOURCE_LIST.match(line)) or self.is_at_sources

    def _end_line(self, line: str) -> Iterator[AnswerUnit]:
        """Take a line, or the rest of one, with its end."""
        body = line.rstrip("\n")
        if self.is_at_sources:
            return
        if self._fence:
            self._code.append(line)
            mark = line.strip(" \t>\n")
            if mark and not mark.strip(self._fence[0]) and len(mark) >= len(self._fence):
                yield self._close_code()
        elif self._is_prose:
            yield from self._prose(line)
            self._is_prose = False
        elif _SOURCE_LIST.fullmatch(body) and not self._paragraph.strip():
            self.is_at_sources, self._before = True, ""
        elif fence := _FENCE.match(body):
            yield from self._end_paragraph()
            self._open_fence(fence[1], line)
        elif TABLE_ROW.fullmatch(body):
            yield from self._end_paragraph()
            yield from self._row(body)
        elif not body.strip():
            yield from self._end_paragraph()
            self._before += line
            self._columns, self._in_item = None, False
        elif _HEADING.match(body):
            yield from self._end_paragraph()
            yield self._heading(body)
        else:
            yield from self._prose(line)
            self._is_prose = False

    def _open_fence(self, mark: str, line: str) -> None:
        info = line.strip(" \t>\n").lstrip("`~").strip().lower()
        if info in ("markdown", "md") or (self._is_wrapped and not info):  # the answer as a whole stands in a code block
            self._is_wrapped = bool(info)
        else:
            self._fence, self._code = mark, [line]

    def _prose(self, text: str) -> Iterator[AnswerUnit]:
        """Add a line of prose, or a piece of one, and yield the sentences that it completes."""
        if not self._is_prose:
            self._columns, self._is_prose = None, True
            if _ITEM.match(text):
                yield from self._end_paragraph()
                self._in_item = True
            if not self._paragraph.strip():
                prefix = _PREFIX.match(text)
                assert prefix is not None  # it may be empty
                self._before, text = self._before + self._paragraph + prefix.group(), text[prefix.end() :]
                self._paragraph = ""
        self._paragraph += text
        is_long = len(self._paragraph) > MAX_UNIT_CHARS
        if is_long or _POSSIBLE_END.search(text):
            yield from self._complete_sentences(keep_last=not is_long)

    def _end_paragraph(self, *, is_cut: bool = False) -> Iterator[AnswerUnit]:
        if self._paragraph.strip():
            yield from self._complete_sentences(keep_last=is_cut and not _is_ended(self._paragraph), min_next=0)
        if not is_cut:
            self._before += self._paragraph
        self._paragraph = ""

    def _complete_sentences(self, *, keep_last: bool, min_next: int = MIN_NEXT_CHARS) -> Iterator[AnswerUnit]:
        """Units of the paragraph's sentences; the last one stays if it may not be complete, and that before it if little follows."""
        text = _MARKS_AFTER_END.sub(lambda m: m[2] + m[1], self._paragraph)
        spans = _with_lone_marks([(a, b) for a, b in sentences(text.replace("\n", " ")) if text[a:b].strip()], text)
        at = 0
        if keep_last:  # so much is needed to tell an end from an abbreviation
            spans = spans[: -1 if spans and len(text) - spans[-1][0] >= min_next else -2]
        for a, b in spans:
            unit = self._sentence(text[a:b], self._before + text[at:a])
            self._before, at = "", b
            yield unit
        self._paragraph = text[at:]

    def _sentence(self, text: str, before: str) -> AnswerUnit:
        bare = CITATION_MARKS.sub("", text).strip()
        claim = plain_text(bare)
        if claim.endswith((":", "：")):
            self._lead = claim.rstrip(":： ")
            return AnswerUnit(UnitKind.LAYOUT, bare, before)
        lead = (self._lead,) if self._in_item and self._lead else ()
        return AnswerUnit(UnitKind.SENTENCE, bare, before, _numbers(text), claim, lead)

    def _row(self, line: str) -> Iterator[AnswerUnit]:
        before, self._before = self._before, "\n"
        if self._columns is None:
            self._columns = row_cells(line)
            yield AnswerUnit(UnitKind.LAYOUT, CITATION_MARKS.sub("", line), before)
        elif RULE_ROW.fullmatch(line):
            yield AnswerUnit(UnitKind.LAYOUT, line, before)
        else:
            bare = CITATION_MARKS.sub("", line)
            cells = row_cells(bare)
            claim = ", ".join(filter(None, cells))
            kind = UnitKind.ROW if claim else UnitKind.LAYOUT
            yield AnswerUnit(kind, bare.rstrip(), before, _numbers(line), claim, self._columns)

    def _heading(self, line: str) -> AnswerUnit:
        before, self._before = self._before, "\n"
        self._lead = plain_text(line).strip("# :")
        return AnswerUnit(UnitKind.LAYOUT, CITATION_MARKS.sub("", line).rstrip(), before)

    def _close_code(self) -> AnswerUnit:
        before, self._before = self._before, ""
        text, body = "".join(self._code).rstrip("\n"), "".join(self._code[1:-1])
        self._fence, self._code, self._before = "", [], "\n"
        kind = UnitKind.CODE if body.strip() else UnitKind.LAYOUT
        return AnswerUnit(kind, text, before, (), body if body.strip() else "")


def parse_units(text: str) -> Iterator[AnswerUnit]:
    """The units of a whole answer."""
    parser = UnitParser()
    yield from parser.feed(text)
    yield from parser.finish()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(n) for mark in CITATION_MARKS.findall(text) for n in _NUMBER.findall(mark)))


def _is_ended(text: str) -> bool:
    return bool(re.search(r"[.!?…。！？][\"”’')\]*_】]*\s*$", text))


def _with_lone_marks(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """The sentences, citation marks that stand alone, also half of one, joined with the sentence before them."""
    joined: list[tuple[int, int]] = []
    for a, b in spans:
        if joined and not _BEGUN_MARK.sub("", CITATION_MARKS.sub("", text[a:b])).strip(" \t\n.。*_"):
            joined[-1] = joined[-1][0], b
        else:
            joined.append((a, b))
    return joined
