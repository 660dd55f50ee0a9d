"""Text within a line: raised and lowered runs, symbols of symbol fonts, checkboxes, ruby, lines of headers and footers."""

import re
import unicodedata
from collections.abc import Iterable

from localrag.loaders.content import subscript, superscript

CHECKED, UNCHECKED = "☒", "☐"
MAX_QUOTED_CHARS = 120  # of the words that a comment is about
MAX_MARK_CHARS = 15  # longer raised or lowered texts are ordinary text
_NOTE_MARK = re.compile(r"[\[(]?\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,8}[\])]?|[*†‡§¶#]{1,4}")
_NOTE_LETTER = re.compile(r"[a-i](?:\s?[,;–-]\s?[a-i]){0,5}")
_FUNCTIONS = frozenset("sin cos tan cot log exp chi lim max min".split())  # which exponents follow
_EXPONENT = re.compile(r"\^\(?[-+−–]?\d+\)?\Z")
_PRIVATE = re.compile("[\uf020-\uf0ff]")  # where symbol fonts have their characters
_SIGNS = frozenset("+-−–®™℠©°′″")
_YEAR = re.compile(r"1\d\d\d|2[01]\d\d")
_LAST_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]+$")
_LAST_NUMBER = re.compile(r"(?<![\d.,])[\d.,]+$")
_PAGE_NUMBER = re.compile(r"[^\w\s]*+(?:\d{1,3}(?:[/–-]\d{1,3})?[^\w\s]*)?")
_SYMBOLS = dict(zip(
    "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~",
    "!∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧ∆ΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
    strict=True,
))  # fmt: skip
_SYMBOLS |= dict(zip(map(chr, range(0xA1, 0xFF)), (
    "ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊⟨®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\uf8ff⟩∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
), strict=False))  # fmt: skip
_WINGDINGS = {
    0x6C: "●", 0x6E: "■", 0x6F: UNCHECKED, 0x71: UNCHECKED, 0x72: UNCHECKED, 0x75: "◆", 0x76: "❖", 0x78: CHECKED, 0x9F: "•", 0xA1: "○",
    0xA7: "▪", 0xA8: UNCHECKED, 0xAB: "★", 0xD8: "➢", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗",
    0xFC: "✓", 0xFD: CHECKED, 0xFE: "☑", 0x46: "☞", 0x28: "☎", 0x2A: "✉", 0x4A: "☺", 0x4C: "☹", 0x22: "✂",
}  # fmt: skip
_SYMBOL_FONTS = {
    "symbol": {ord(code): sign for code, sign in _SYMBOLS.items()},
    "wingdings": _WINGDINGS,
    "wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: CHECKED, 0x52: "☑", 0x53: CHECKED, 0x54: CHECKED, 0x97: "•", 0xA2: "■", 0xA3: UNCHECKED},
}
_PICTURE_FILE = re.compile(r"\.(?:jpe?g|png|gif|svg|webp|[ew]mf|bmp|tiff?)\Z", re.IGNORECASE)
_PICTURE_NUMBER = re.compile(r"\w+\s\d+")
_FIELD_ARGUMENT = re.compile(r'(?:\\([lot])\s*)?(?:"([^"]*)"|([^\s"\\]+))')
_PAGE_WORDS = frozenset("page pages pg p seite seiten blatt página pagina sida side strona страница стр 页 頁 ページ 第".split())
_PAGE_FILLERS = frozenset("of von de di sur av z out из 共 to".split())


def shifted_text(before: str, text: str, shift: int) -> str:
    """Raised (`shift` 1) or lowered (-1) text as it follows the text before it."""
    mark = text.strip()
    is_mark = bool(_NOTE_MARK.fullmatch(mark))
    if (
        len(mark) > MAX_MARK_CHARS
        or (len(mark.split()) > 2 and not is_mark)
        or not (is_mark or any(map(str.isalnum, mark)) or mark in _SIGNS)
    ):
        return text
    shifted = superscript(mark, is_note=is_note_mark(before, mark)) if shift > 0 else subscript(mark)
    start = len(text) - len(text.lstrip())
    return text[:start] + shifted + text[start + len(mark) :]


def is_note_mark(before: str, mark: str) -> bool:
    """Whether a raised mark refers to a note, rather than being an exponent: it follows a word, a year or a sentence."""
    if not _NOTE_MARK.fullmatch(mark):
        return is_note_letter(before, mark)
    if not before or before[-1].isspace():
        return True
    if number := _LAST_NUMBER.search(before):
        digits = number[0].rstrip(".,")
        return digits != number[0] or bool(_YEAR.fullmatch(digits))
    if before[-1] in ")]}":
        return any(len(word) > 2 for word in re.findall(r"[^\W\d_]+", before.rpartition("(")[2]))
    word = _LAST_WORD.search(before)
    if word and word[0].lower() in _FUNCTIONS:
        return False
    return len(word[0]) > 2 or unicodedata.category(word[0][0]) == "Lo" if word else True


def is_note_letter(before: str, mark: str) -> bool:
    """Whether a raised mark is a letter that refers to a note: it begins a text, or follows a word, an exponent or parentheses."""
    if not _NOTE_LETTER.fullmatch(mark):
        return False
    before = before.rstrip()
    word = _LAST_WORD.search(before)
    if word:
        return len(word[0]) > 2 and word[0].lower() not in _FUNCTIONS
    return not before or before[-1] in ")]" or bool(_EXPONENT.search(before))


def symbol_text(font: str, text: str) -> str:
    """Text in a symbol font: its characters, also those at U+F020 to U+F0FF, as ordinary ones; other text unchanged."""
    signs = _SYMBOL_FONTS.get(font.lower())
    if signs is not None:
        text = "".join(signs.get(ord(c), c) for c in text)
    return _PRIVATE.sub(lambda c: (signs or _WINGDINGS).get(ord(c[0]) & 0xFF, "•"), text)


def checkbox(is_checked: bool) -> str:
    """A checkbox as one character."""
    return CHECKED if is_checked else UNCHECKED


def picture_text(description: str, least_words: int = 2) -> str:
    """The description of a picture in brackets; empty for that of an icon, by its length, for a file name, and for `Picture 1`.

    Also for the guess of an Office program, which says so in a paragraph of its own.
    """
    text = " ".join(description.split())
    is_guess = "\n\n" in description.replace("\r\n", "\n").strip()
    is_name = len(text.split()) < least_words or bool(_PICTURE_FILE.search(text) or _PICTURE_NUMBER.fullmatch(text))
    return "" if is_guess or is_name else f"[{text}]"


def ruby_text(base: str, reading: str) -> str:
    """A word with its reading in parentheses."""
    return f"{base}({reading})" if base and reading else base or reading


def running_text(text: str) -> str:
    """A line of a header or footer without page numbers; empty if it is nothing else."""
    words = text.split()
    for _ in range(2):  # at the end, then at the beginning
        n = len(words)
        while n and _is_page_word(words[n - 1]):
            n -= 1
        dropped = {word.strip(".:,").lower() for word in words[n:]}
        if n == 0 or dropped & _PAGE_WORDS or not any(any(map(str.isalnum, word)) for word in dropped):
            words = words[:n]
        words.reverse()
    return " ".join(words) if any(map(str.isalnum, "".join(words))) else ""


def _is_page_word(word: str) -> bool:
    plain = word.strip(".:,()[]").lower()
    return plain in _PAGE_WORDS or plain in _PAGE_FILLERS or bool(_PAGE_NUMBER.fullmatch(plain))


def running_lines(name: str, texts: Iterable[str]) -> list[str]:
    """The distinct texts of headers or footers as `Header: …` lines."""
    distinct = dict.fromkeys(running for text in texts if (running := running_text(text)))
    return [f"{name}: {text}" for text in distinct]


def comment_line(text: str, author: str, date: str, place: str = "", kind: str = "Comment") -> str:
    """A reader's comment with author and date; `place`: the cell or the quoted words it is about."""
    by = f" by {author}" if author else ""
    on = f" on {place}" if place else ""
    return f"{kind}{by}{on}{f', {date[:10]}' if date else ''}: {text}"


def quoted_words(text: str) -> str:
    """The words that a comment is about, in quotes, the first ones of many; empty if there are none."""
    words = " ".join(text.split())
    return f"“{words[:MAX_QUOTED_CHARS]}{'…' * (len(words) > MAX_QUOTED_CHARS)}”" if words else ""


def field_link(instruction: str) -> str:
    """The address of a field of Word or RTF that is a link, with the place in it; empty within the document and for other fields."""
    name, _, arguments = instruction.strip().partition(" ")
    named = {found[1]: found[2] or found[3] or "" for found in reversed(list(_FIELD_ARGUMENT.finditer(arguments)))}
    target, anchor = named.get(None, ""), named.get("l")
    if name.upper() != "HYPERLINK":
        return ""
    return f"{target}#{anchor}" if target and anchor else target


def embedded_files_line(names: Iterable[str]) -> list[str]:
    """A line with the names of embedded files, if there are any."""
    distinct = list(dict.fromkeys(filter(None, names)))
    return [f"Embedded files: {', '.join(distinct)}"] if distinct else []
