"""TextKind, by rules: what descriptions, reports and themes may quote; everything stays searchable and citable. Markup stripping."""

import html
import re
from enum import StrEnum
from functools import lru_cache

from localrag.text.sentences import CJK, collapse_whitespace, is_cjk


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
_URL_LAST = re.compile(r"\s(?=\S+$)\S+?://\S")
_DOTS = re.compile(r"(?:(?:\. ?){5}|…{2})\s*+(?:\w{1,5}\s*)?$")
_CONTENTS = re.compile(
    r"^\s*(?:table of contents|contents|inhaltsverzeichnis|inhalt|índice|sommaire|indice|目录|目次)\s*:?$", re.IGNORECASE
)
_NUMBERED = re.compile(r"^\s*(?:\d{1,2}\.)+\d{0,2}\s+\S.*\s\d{1,4}$")
_LICENCE = re.compile(
    r"permission is hereby granted|permission to (?:make|use|copy)\b.{0,400}\b(?:copies|software)|all rights? reserved|©|\(c\) \d{4}"
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
_INLINE = re.compile(r"(?<!`)(`+)(?!`).{1,900}?(?<!`)\1(?!`)", re.DOTALL)
_PROSE_WORD = re.compile(rf"[^\W\d_]{{2,}}|[{CJK}]")
_CELL = re.compile(r"\s· | ·\s|\t|\s\|\s|^\||\|$")
_FIELD = re.compile(r"^[^\s:：][^:：\n]{0,40}[:：]\s+\S.{0,60}$")
_LOWER = re.compile(r"^[\"'“‘(\[]*[a-zà-öø-ÿа-я]")
_MIN_WORDS = 4  # words of a shorter text that is no sentence


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
    bare = _BULLET.sub("", _URL.sub("x", _LINK.sub(r"\1", _INLINE.sub("x", flat))))
    if _STATEMENT.match(bare) and not (_ENDED.search(bare) and len(_PROSE_WORD.findall(bare)) > 2 * _MIN_WORDS):
        return True
    if _CODE_END.search(bare) or (bare.endswith(";") and len(_PROSE_WORD.findall(bare)) <= _MIN_WORDS):
        return True
    plain = strip_markup(bare)
    return sum(map(len, _SIGNS.findall(plain))) > max(2, (0.12 if _ENDED.search(plain) else 0.06) * len(plain))


def _is_row(flat: str, plain: str) -> bool:
    if len(_CELL.findall(flat)) >= 1 + (" · " not in flat):
        return True
    parts = plain.split()
    if len(parts) > 3 and sum(any(map(str.isdigit, p)) for p in parts) * 2 > len(parts):
        return True
    return bool(_FIELD.match(plain)) and not _ENDED.search(plain) and len(parts) < 3 * _MIN_WORDS


_IMAGE = re.compile(r"!\[[^\]]{0,500}\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])+)\](?:\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)|\[[^\]]*\])")
_ROLE = re.compile(r":[a-z]{1,30}(?:[:+-][a-z]{1,30}){0,4}:`([^`]+)`")
_RST_LINK = re.compile(r"`([^`<>]*[^`<>\s])\s*<[^<>`]+>`__?|`([^`]+)`__?(?!\w)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.{1,900}?)(?<!`)\1(?!`)", re.DOTALL)
_STRONG = re.compile(
    r"(?<![*\\\d])(\*{2,3})(?=[^\s*])(.{1,500}?)(?<=[^\s*\\])\1(?!\*)|(?<![\w*\\])(\*)(?=[^\s*])(.{1,500}?)(?<=[^\s*\\])\3(?![\w*])"
)
_UNDER = re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])(.{1,500}?)(?<=[^\s_\\])\1(?!\w)")
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

    flat = _ROLE.sub(lambda m: keep(re.sub(r"^~.*\.", "", m[1].partition(" <")[0]).lstrip("~!.")), flat)
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
