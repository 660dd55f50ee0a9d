"""TextKind: whether a span is prose, a heading, code, markup, a table row, contents, a licence or a fragment; and markup stripping.

Rules over the span and over the code blocks of its chunk. They decide what an answer may quote: everything stays searchable and citable,
and code, rows and licences are quoted if the question asks for them.
"""

import html
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache

from localrag.text.sentences import CJK, Span, cached_sentences, collapse_whitespace, is_cjk


class TextKind(StrEnum):
    """The kind of a text span."""

    PROSE = "prose"
    HEADING = "heading"
    CODE = "code"
    MARKUP = "markup"
    ROW = "row"
    CONTENTS = "contents"
    LICENCE = "licence"
    FRAGMENT = "fragment"


_ENDED = re.compile(r"[.!?…。！？](?:[\"'”’»)\]」』*_`]|\[\d+\])*\s*$")
_BULLET = re.compile(
    r"^\s*(?:[-*+•‣▪◦·][ \t]+(?:\[[ xX]\][ \t]+)?|\(?(?:\d{1,3}(?:\.\d{1,3})*|[a-z])[.)][ \t]+|>[ \t]?|!!![ \t]\w+[ \t]*|\|[ \t])+"
)
_HASHES = re.compile(r"^\s*#{1,6}[ \t]")
_RULE = re.compile(r"([=\-~#*^\"`:.+_])\1{2,}")
_UNDERLINED = re.compile(r"\S\s*\n[ \t]*([=\-~*^\"`+#])\1{2,}[ \t]*$")
_DIRECTIVE = re.compile(r"^\s*(?:\.\. |:[\w-]+:(?:\s|$)|@\w+\{|\\[a-zA-Z]+[{\[]|\[[^\]]+\]:\s|<!--|!\[|\{[%#{]|<!\w|<\?\w|&\w+;$)")
_TAG_FIRST = re.compile(r"^\s*</?[a-zA-Z][\w-]*(?:\s[^<>]*|/)?(?:>|$)")
_URL = re.compile(r"<?(?:https?|ftp|mailto|file):/?/?\S+")
_URL_LAST = re.compile(r"\s\S+://\S+$")
_DOTS = re.compile(r"(?:(?:\. ?){5,}|…{2,})\s*\w{0,5}\s*$")
_CONTENTS = re.compile(
    r"^\s*(?:table of contents|contents|inhaltsverzeichnis|inhalt|índice|sommaire|indice|目录|目次)\s*:?$", re.IGNORECASE
)
_NUMBERED = re.compile(r"^\s*(?:\d{1,2}\.)+\d{0,2}\s+\S.*\s\d{1,4}$")
_LICENCE = re.compile(
    r"permission is hereby granted|permission to (?:make|use|copy)\b.*\b(?:copies|software)|all rights? reserved|©|\(c\) \d{4}"
    r"|copyright (?:\(c\)|©|notice|holders?\b|\d{4})|redistributions? (?:of source|in binary|and use)"
    r"|warrant(?:y|ies) of (?:any kind|merchant)"
    r"|in no event shall|licensed under|project gutenberg|liable for any (?:direct|claim)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"^\s*(?:>>>|\.\.\. |In \[\d*\]:|[$%#] [a-z./~]+\b(?! \w+ \w+ \w+ \w+ \w+.*\.$)|@\w[\w.]*(?:\(|$)"
    r"|(?:async )?def \w+\s*\(|class \w+\s*[(:]|from [\w.]+ import |import [\w.]+(?: as \w+)?(?:,|;|$)|return\b[^.]*$"
    r"|(?:el)?if .*:$|else:|try:|except\b.*:$|for \w.* in .*:$|while .*:$|with .*:$"
    r"|(?:const|let|var) \w|function\s*\w*\(|await \w+[.(]|SELECT\s|select\s+[\w*]+[ ,]|INSERT INTO|CREATE (?:TABLE|INDEX|VIEW)"
    r"|UPDATE \w+ SET|(?:FROM|RUN|COPY|CMD|WORKDIR|EXPOSE|GRANT) [\w./\[]"
    r"|(?:pip|npm|npx|brew|git|docker|curl|sudo|cd|export|apt(?:-get)?|uvx?|python3?|flask) [\w./~-]+(?: \S+)*$"
    r"|Traceback \(|File \"|(?:DEBUG|INFO|WARNING|ERROR)\b.*[:\[]|#!\/|//\s|/\*|--\w[\w-]*[= ]|-\w \S"
    r"|[\w.\]\['\"]+\s*[+\-*|]?=\s*\S|[\"'][\w .$-]+[\"']\s*:"
    r"|[\w-]+:\s*[|>{\[\"]|[\w.]+\([^)]*\)\s*(?:;|:|$)|[\w.$]+\([^)]*$|[)}\]][,;)}\]]*\s*$|[{\[(]\s*$)"
)
_CODE_END = re.compile(r"(?:[{\\]|=>|->|\|\||&&|[\"'\])}],|\($|\[$)\s*$")
_SIGNS = re.compile(r"[{}\[\]<>=;_\\|$#@^~]|::|\(\)|->|=>|&&|\|\||/\S*/")
_INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_PROSE_WORD = re.compile(rf"[^\W\d_]{{2,}}|[{CJK}]")
_CELL = re.compile(r"\s· | ·\s|\t|\s\|\s|^\||\|$")
_FIELD = re.compile(r"^[^\s:：][^:：\n]{0,40}[:：]\s+\S.{0,60}$")
_LOWER = re.compile(r"^[\"'“‘(\[]*[a-zà-öø-ÿа-я]")
_MIN_WORDS = 4  # words of a shorter text that is no sentence
_MAX_RECORD_CHARS = 400  # length of a record with one field per line

_SET_IN = re.compile(r"(?: {4}|\t)\s*$")  # the indent of Markdown's code blocks
_FENCE = re.compile(r"^[ \t]{0,12}(?:>[ \t]?)?(`{3,}|~{3,})[ \t]*([^\n`]*)$", re.MULTILINE)
_OPENS = re.compile(
    r"::[ \t]*$|^\s*\.\. (?:code|code-block|sourcecode|prompt|parsed-literal|highlight|toctree|image|figure|auto\w+|math)::", re.MULTILINE
)


@lru_cache(maxsize=32_768)  # several stages classify the sentences of a chunk, and reports those of the reports below
def classify_sentence(text: str) -> TextKind:
    """The kind of a text of about a sentence, without its context."""
    flat = collapse_whitespace(text)
    if (form := _form(text, flat)) is not None:
        return form
    plain = strip_markup(flat)
    if not _PROSE_WORD.search(plain):
        return TextKind.MARKUP
    return TextKind.ROW if _is_row(flat, plain) else _wording(flat, plain)


def _wording(flat: str, plain: str) -> TextKind:
    """The kind of words without formal signs: sentence, heading or fragment; `plain` is without markup."""
    words = len(_PROSE_WORD.findall(plain))
    ended = bool(_ENDED.search(plain) or _URL_LAST.search(plain))
    if is_cjk(plain):
        return TextKind.PROSE if ended or words >= 3 * _MIN_WORDS else TextKind.HEADING
    item = bool(_BULLET.match(flat))
    broken = bool(_LOWER.match(plain)) and not item and not flat.startswith("`")
    if words < _MIN_WORDS - ended or broken:
        return TextKind.FRAGMENT
    if ended or (words >= 2 * _MIN_WORDS and (item or plain.endswith(":"))):
        return TextKind.PROSE
    return TextKind.FRAGMENT if words > 3 * _MIN_WORDS or plain.endswith((":", ",", ";")) else TextKind.HEADING


def _form(text: str, flat: str) -> TextKind | None:
    """The kind that formal signs alone decide; None if they do not."""
    if _HASHES.match(_BULLET.sub("", flat)) or _UNDERLINED.search(text):
        return TextKind.HEADING
    if (
        _RULE.fullmatch(flat.replace(" ", ""))
        or _DIRECTIVE.match(flat)
        or _TAG_FIRST.match(flat)
        or not _URL.sub("", flat).strip(" <>()[].*-")
    ):
        return TextKind.MARKUP
    if _DOTS.search(flat) or _CONTENTS.match(flat) or _NUMBERED.match(flat):
        return TextKind.CONTENTS
    if _LICENCE.search(flat):
        return TextKind.LICENCE
    if flat.startswith("|") and flat.count("|") > 1:
        return TextKind.ROW
    return TextKind.CODE if _is_code(flat) else None


def _is_code(flat: str) -> bool:
    """Whether a line is code: statements, commands, data, or more signs than prose has."""
    bare = _BULLET.sub("", _URL.sub("x", _LINK.sub(r"\1", _INLINE.sub("x", flat))))
    if _STATEMENT.match(bare) and not (_ENDED.search(bare) and len(_PROSE_WORD.findall(bare)) > 2 * _MIN_WORDS):
        return True
    if _CODE_END.search(bare) or (bare.endswith(";") and len(_PROSE_WORD.findall(bare)) <= _MIN_WORDS):
        return True
    plain = strip_markup(bare)
    return sum(map(len, _SIGNS.findall(plain))) > max(2, (0.12 if _ENDED.search(plain) else 0.06) * len(plain))


def _is_row(flat: str, plain: str) -> bool:
    """Whether a line is a table row: cells side by side, a field and its value, or mostly numbers."""
    if len(_CELL.findall(flat)) >= 1 + (" · " not in flat):
        return True
    parts = plain.split()
    if len(parts) > 3 and sum(any(map(str.isdigit, p)) for p in parts) * 2 > len(parts):
        return True
    return bool(_FIELD.match(plain)) and not _ENDED.search(plain) and len(parts) < 3 * _MIN_WORDS


@lru_cache(maxsize=1024)
def classify_sentences(text: str) -> tuple[tuple[Span, TextKind], ...]:
    """The sentences of a chunk's text with their kinds; those inside a code block or directive are code."""
    blocks = [*_fenced(text), *_indented(text)]
    classified: list[tuple[Span, TextKind]] = []
    for span in cached_sentences(text):
        kind = _in_passage(text, span, blocks)
        if kind == TextKind.ROW and classified and classified[-1][1] == TextKind.ROW and _same_record(text, classified[-1][0], span):
            classified[-1] = Span(classified[-1][0].start, span.end), kind
        else:
            classified.append((span, kind))
    return tuple(classified)


def _same_record(text: str, before: Span, span: Span) -> bool:
    """Whether two rows are fields of one record, one per line: `name: Canada`, `capital: Ottawa`."""
    both = text[before.start : before.end], text[span.start : span.end]
    is_near = span.end - before.start < _MAX_RECORD_CHARS and text[before.end : span.start].strip(" \t") == "\n"
    return is_near and " · " not in "".join(both) and all(_FIELD.match(part.rpartition("\n")[2]) for part in both)


def _in_passage(text: str, span: Span, blocks: list[Span]) -> TextKind:
    sentence = text[span.start : span.end]
    if any(b.start <= span.start < b.end for b in blocks):
        return TextKind.CODE
    kind = TextKind.MARKUP if _FENCE.match(sentence) else classify_sentence(sentence)
    is_unclear = kind in (TextKind.FRAGMENT, TextKind.HEADING) and not _BULLET.match(sentence)
    return TextKind.CODE if is_unclear and _SET_IN.search(text, text.rfind("\n", 0, span.start) + 1, span.start) else kind


def _fenced(text: str) -> Iterator[Span]:
    """The fenced blocks. A chunk may begin inside one: then its first fence, without a language, closes it."""
    marks = list(_FENCE.finditer(text))
    inside = min((False, True), key=lambda state: _contradictions(marks, text, inside=state)) if marks else False
    start = 0
    for mark in marks:
        if inside:
            yield Span(start, mark.end())
        inside, start = not inside, mark.start()
    if inside:
        yield Span(start, len(text))


def _contradictions(marks: list[re.Match[str]], text: str, *, inside: bool) -> float:
    """A penalty for the assumption that a chunk begins inside a fence, or outside: closing fences with a language, its first lines."""
    before = [line for line in text[: marks[0].start()].splitlines() if line.strip()]
    n_code = sum(_is_code(collapse_whitespace(line)) or not _PROSE_WORD.search(line) for line in before)
    penalty = (len(before) - n_code if inside else n_code) / (1 + len(before))
    for mark in marks:
        penalty += bool(inside and mark[2].strip())
        inside = not inside
    return penalty


def _indented(text: str) -> Iterator[Span]:
    """The indented blocks after `::` or a code directive of reStructuredText."""
    if "::" not in text:
        return
    position, is_open, margin, start = 0, False, 0, -1
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip(" \t"))
        if line.strip():
            if is_open and indent > margin:
                start = position if start < 0 else start
            else:
                if start >= 0:
                    yield Span(start, position)
                is_open, margin, start = bool(_OPENS.search(line)), indent, -1
        position += len(line)
    if start >= 0:
        yield Span(start, len(text))


_IMAGE = re.compile(r"!\[[^\]]*\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])+)\](?:\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)|\[[^\]]*\])")
_ROLE = re.compile(r":[a-z]+(?:[:+-][a-z]+)*:`([^`]+)`")
_RST_LINK = re.compile(r"`([^`<>]+?)\s*<[^<>`]+>`__?|`([^`]+)`__?(?!\w)")
_SPAN = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_STRONG = re.compile(r"(?<![*\\\d])(\*{2,3})(?=[^\s*])(.+?)(?<=[^\s*\\])\1(?!\*)|(?<![\w*\\])(\*)(?=[^\s*])(.+?)(?<=[^\s*\\])\3(?![\w*])")
_UNDER = re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])(.+?)(?<=[^\s_\\])\1(?!\w)")
_LONE = re.compile(r"^(?:\*{2,3}|__)(?!.*\*\*)|(?<=\S)\s?(?:\*{2,3}|__)$")  # emphasis that begins or ends in another sentence
_TAGS = re.compile(
    r"</?(?:a|abbr|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|img|ins|kbd|li|mark|ol|p|pre|q|s|small|span"
    r"|strike|strong|sub|summary|sup|table|tbody|td|th|thead|tr|tt|u|ul|v)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^\s<>]+)>")
_NOTE = re.compile(r"(?<=[.,;:!?)\"”’。，！？\w])(?:\[(?:\d{1,3}|note \d{1,2}|citation needed)\])+(?=[\s.,;:!?)]|$)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_KEPT = re.compile("\ue000(\\d+)\ue001")


def strip_markup(text: str) -> str:
    """The text on one line without markup: links as their text, no bullets, tags, emphasis or entities."""
    flat = collapse_whitespace(text)
    if not any(c in flat for c in "[`*_<&\\:#>-+•|(!·") and not flat[:1].isdigit():
        return flat
    codes: list[str] = []

    def keep(code: str) -> str:
        codes.append(code)
        return f"\ue000{len(codes) - 1}\ue001"

    flat = _ROLE.sub(lambda m: keep(_role(m[1])), flat)
    flat = _RST_LINK.sub(lambda m: m[1] or m[2], flat) if "`_" in flat else flat
    flat = _SPAN.sub(lambda m: keep(m[2].strip()), flat)
    flat = _LINK.sub(r"\1", _LINK.sub(r"\1", _IMAGE.sub("", flat)))
    flat = _AUTOLINK.sub(r"\1", _TAGS.sub("", flat))
    flat = _HASHES.sub("", _BULLET.sub("", flat))
    for _ in range(2):  # nested emphasis
        flat = _UNDER.sub(r"\2", _STRONG.sub(lambda m: m[2] or m[4], flat))
    flat = _LONE.sub("", flat)
    flat = _NOTE.sub("", _ESCAPED.sub(r"\1", flat))
    flat = html.unescape(flat) if "&" in flat else flat
    return collapse_whitespace(_KEPT.sub(lambda m: codes[int(m[1])], flat))


def _role(body: str) -> str:
    """The displayed text of a reStructuredText role: its title, else the last part of a name with ~."""
    title, opened, target = body.removesuffix(">").rpartition("<")
    if opened and body.endswith(">") and title.strip() and target and ">" not in target:
        return title.rstrip()
    return body.rpartition(".")[2] if body.startswith("~") else body.lstrip("!.")


_WHICH = r"\b(?:which|what|show|give|list|print)\b[^.?!]{0,40}\b"
_KINDS_ASKED = (  # explicit requests only: "sync code" or "large tables" may be a question's subject
    (
        rf"{_WHICH}(?:code|commands?|snippets?|syntax|sql|quer(?:y|ies)|scripts?|regex|yaml|json|html)\b|\bcode (?:snippet|sample)s?\b"
        r"|\bone.liner|\bwelcher? (?:befehl|code)|\bqué (?:comando|código)|\bquelle commande"
        r"|\bquale comando|代码|命令|脚本|コード|コマンド",
        (TextKind.CODE,),
    ),
    (
        rf"{_WHICH}rows?\b|\b(?:in|from|of) (?:the|which|this) (?:\w+ )?(?:table|row|column|spreadsheet|sheet|csv)\b"
        r"|\b(?:which|what|show the) table\b|\bin der tabelle|\ben la tabla|\bdans le tableau|表格|哪一行",
        (TextKind.ROW,),
    ),
    (r"\b(?:licen[cs]es?|licensed|copyright|lizenz|licencia|rights reserved)\b|许可|版权", (TextKind.LICENCE,)),
    (
        rf"\btable of contents|{_WHICH}(?:headings|chapters|sections)\b|\binhaltsverzeichnis|\btabla de contenido|目录",
        (TextKind.CONTENTS, TextKind.HEADING),
    ),
)
_ASKED = tuple((re.compile(pattern, re.IGNORECASE), kinds) for pattern, kinds in _KINDS_ASKED)


def requested_kinds(question: str) -> frozenset[TextKind]:
    """The kinds of text, besides prose, that a question asks for explicitly."""
    return frozenset(kind for pattern, kinds in _ASKED if pattern.search(question) for kind in kinds)
