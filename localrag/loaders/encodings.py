"""Bytes to text: UTF-8 first, also with some broken bytes, then byte-order marks, the declared and the detected encoding.

Nearly no text in another encoding is also valid UTF-8, so a file whose bytes outside ASCII mostly form UTF-8 characters is UTF-8, and its
other bytes are read one by one. A file of lines in several encodings is read by line.
"""

import codecs
import operator
import re
import unicodedata
from collections.abc import Sequence

_BYTE_ORDER_MARKS = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
_SUPERSET_ENCODINGS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "big5": "cp950",
    "euc-kr": "cp949",
    "iso-8859-1": "cp1252",
}
_EAST_ASIAN = frozenset("gb18030 cp932 cp950 cp949 big5hkscs euc_jp euc-jp shift_jis_2004 johab hz".split())
_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd-\uffff\ue000-\uf8ff]")
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r\x1b") + b"\x7f"
_ASCII = bytes(range(128))
_ZEROS = re.compile(rb"\0+")
_SAMPLE_BYTES = 200_000  # bytes used to detect an encoding
_MIN_UTF8_SHARE = 0.9  # of the bytes outside ASCII; by accident, East Asian text reaches 0.5
_MIN_LINES_SHARE = 0.2  # of those bytes in lines of valid UTF-8; some lines of East Asian text are by accident
_STRAYS = re.compile("[\udc80-\udcff]+")  # bytes that are no UTF-8, as `surrogateescape` decodes them
_ISOLATED = re.compile("(?<=[A-Za-z])[^\x00-\u024f\u2000-\u20cf\ufffd](?=[A-Za-z])")  # a letter of another script within a Latin word
# Letters of a text → the single-byte encoding that a program using it would have written.
_CODE_PAGES = (
    (re.compile("[\u0400-\u04ff]"), "cp1251"),
    (re.compile("[\u0370-\u03ff]"), "cp1253"),
    (re.compile("[\u05d0-\u05ea]"), "cp1255"),
    (re.compile("[\u0620-\u06ff]"), "cp1256"),
    (re.compile("[ąćęłńśźżčďěňřťůőűășțĄĆĘŁŃŚŹŻČĎĚŇŘŤŮŐŰĂȘȚ]"), "cp1250"),
)
_EAST_ASIAN_LETTERS = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_WORD_MARKS = frozenset("’'‘-–·\xad")  # punctuation that may stand within a word
_RARE_SYMBOLS = frozenset("¤¦¨¬¯´¸ˆ˜ƒ†‡")


def decode_bytes(data: bytes, declared: str = "") -> str:
    """The text of a file's bytes, with its line ends; empty for binary data. `declared`: the encoding the file declares."""
    if data.startswith(_BYTE_ORDER_MARKS):
        return _plausible(data, "utf-16")
    if b"\x1b$" in data and (japanese := _plausible(data, "iso2022_jp")):
        return japanese  # all its bytes are ASCII
    if b"\0" not in data:
        return _decode_eight_bits(data, declared)
    if _has_stray_zeros(data):
        return _decode_eight_bits(data.replace(b"\0", b""), declared)
    name = _wide_encoding(data)
    return _plausible(data, name) if name else ""


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text in any encoding."""
    if head.startswith(_BYTE_ORDER_MARKS):
        return False
    if b"\0" in head:
        return not (_has_stray_zeros(head) or _wide_encoding(head))
    return _control_share(head) > 0.01


def _control_share(data: bytes) -> float:
    return (len(data) - len(data.translate(None, _CONTROL_BYTES))) / max(len(data), 1)


def _has_stray_zeros(data: bytes) -> bool:
    """Whether zero bytes stand in text of one byte per character in a few places, as after a crash, or in some lines of UTF-16."""
    sample = data[:_SAMPLE_BYTES]
    text = sample.replace(b"\0", b"")
    if len(text) < 16 or data[257:262] == b"ustar" or _control_share(text) > 0.001:
        return False
    if text.isascii() and len(text) > 0.6 * len(sample):
        return True
    is_rare = sum(1 for _ in _ZEROS.finditer(sample)) <= 1 + len(text) * 0.01
    return is_rare and (_utf8_share(text) >= _MIN_UTF8_SHARE or not _wide_encoding(data))


def _wide_encoding(data: bytes) -> str:
    """UTF-16 by the positions of zero bytes, which come with Latin letters, spaces and line ends; empty if it is none."""
    even, odd = (data[n:_SAMPLE_BYTES:2].count(0) for n in (0, 1))
    if abs(even - odd) < max(even, odd) * 0.8:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def _plausible(data: bytes, name: str) -> str:
    codec = _SUPERSET_ENCODINGS.get(name.lower(), name or "ascii")
    if codec.startswith("utf-16"):
        data = data[: len(data) // 2 * 2]  # cut within a character
    try:
        text = data.decode(codec)
    except (ValueError, LookupError):  # some codecs raise other errors than UnicodeDecodeError
        return ""
    if len(_ISOLATED.findall(text[:_SAMPLE_BYTES])) > 0.3 * sum(c > "\x7f" for c in text[:_SAMPLE_BYTES]):
        return ""  # accented letters read in an encoding of another script, East Asian ones with the letter after them
    return text if text and len(_STRANGE.findall(text[:_SAMPLE_BYTES])) <= len(text[:_SAMPLE_BYTES]) * 0.002 else ""


def _decode_eight_bits(data: bytes, declared: str) -> str:
    text = data.decode("utf-8", "surrogateescape")
    if not _STRAYS.search(text):
        return text if _control_share(data[:_SAMPLE_BYTES]) <= 0.01 else ""
    if _control_share(data[:_SAMPLE_BYTES]) > 0.01:
        return ""
    if _utf8_share(data) >= _MIN_UTF8_SHARE or data.startswith(codecs.BOM_UTF8):
        return _replace_strays(text)
    return _decode_lines(text) or _plausible(data, declared) or _decode_detected(data)


def _utf8_share(data: bytes) -> float:
    n_bytes = len(data.translate(None, _ASCII))
    return 1 - sum(map(len, _STRAYS.findall(data.decode("utf-8", "surrogateescape")))) / n_bytes if n_bytes else 1.0


def _decode_lines(text: str) -> str:
    """The text of a file with lines of UTF-8 and others; empty if it has too few of UTF-8. `text`: with surrogates for broken bytes."""
    lines = text.split("\n")
    broken = "\n".join(line for line in lines if _STRAYS.search(line)).encode("utf-8", "surrogateescape")
    valid = "".join(line for line in lines if not _STRAYS.search(line)).encode()
    n_valid, n_broken = (len(data.translate(None, _ASCII)) for data in (valid, broken))
    if n_valid < _MIN_LINES_SHARE * (n_valid + n_broken):
        return ""
    decoded, name = _detect(broken)
    if name not in _EAST_ASIAN:
        decoded = _best_fit(broken, [_code_page(text), "cp1252", "cp850"])
    replaced = iter(decoded.split("\n"))
    return "\n".join(next(replaced, "") if _STRAYS.search(line) else line for line in lines) if decoded else ""


def _best_fit(data: bytes, names: Sequence[str]) -> str:
    """The text in the encoding whose characters fit their neighbors best, the earliest of equals; empty if none is plausible."""
    texts = [text for name in dict.fromkeys(names) if (text := _plausible(data, name))]
    return max(texts, key=_fit_share, default="")


def _fit_share(text: str) -> float:
    padded = f" {text[:_SAMPLE_BYTES]} "
    fits = [_fits(c, padded[n], padded[n + 2]) for n, c in enumerate(padded[1:-1]) if c > "\x7f"]
    return sum(fits) / max(len(fits), 1)


def _fits(character: str, before: str, after: str) -> bool:
    """Whether a character outside ASCII is likely between two others: letters within words, capitals at their start, marks around them."""
    kind = unicodedata.category(character)
    if kind == "Lu":
        return not before.islower()
    if kind[0] == "L":
        return not (before.isupper() and after.isupper())
    if kind in {"Cc", "Co", "Cn"} or character in _RARE_SYMBOLS:
        return False
    return character in _WORD_MARKS or not (before.isalpha() and after.isalpha())


def _code_page(text: str) -> str:
    sample = text[:_SAMPLE_BYTES]
    counts = {name: len(letters.findall(sample)) for letters, name in _CODE_PAGES}
    name = max(counts, key=lambda name: counts[name])
    return name if counts[name] else "cp1252"


def _replace_strays(text: str) -> str:
    """Replace each broken byte by its most plausible meaning in a single-byte encoding, else by U+FFFD. `text`: as in `_decode_lines`."""
    code_pages = list(dict.fromkeys((_code_page(text), "cp1252")))
    is_east_asian = _EAST_ASIAN_LETTERS.search(text[:_SAMPLE_BYTES]) is not None

    def replacement(run: re.Match[str]) -> str:
        data = run[0].encode("utf-8", "surrogateescape")
        if is_east_asian:
            return "\ufffd"
        for name in code_pages:
            decoded = data.decode(name, "replace")
            around = text[max(run.start() - 1, 0) : run.start()], text[run.end() : run.end() + 1]
            padded = f"{around[0] or ' '}{decoded}{around[1] or ' '}"
            if all(c != "\ufffd" and _fits(c, padded[n], padded[n + 2]) for n, c in enumerate(decoded)):
                return decoded
        return "\ufffd"

    return _STRAYS.sub(replacement, text)


def _decode_detected(data: bytes) -> str:
    """The text in the detected encoding, or in a Western one that fits better; empty if neither is plausible."""
    text, name = _detect(data)
    if not text:
        text = _best_fit(data, ["cp1252", "cp850"])
        return text if _fit_share(text) >= 0.9 and len(data.translate(None, _ASCII)) <= 0.3 * len(data) else ""
    western = _plausible(data, "cp1252")
    n_letters = sum(c > "\x7f" and c.isalpha() for c in western)
    if name not in _EAST_ASIAN and len(western) == len(text) and sum(map(operator.ne, text, western)) <= 1 < n_letters:
        return western  # a single letter is no evidence of a rarer encoding
    return text


def _detect(data: bytes) -> tuple[str, str]:
    import chardet

    name = str(chardet.detect(data[:_SAMPLE_BYTES])["encoding"] or "")
    text = _plausible(data, name)
    symbols = sum(unicodedata.category(c) == "So" for c in text[:_SAMPLE_BYTES])  # boxes, blocks, dingbats
    is_text = symbols <= 0.2 * sum(c > "~" for c in text[:_SAMPLE_BYTES])
    return (text, _SUPERSET_ENCODINGS.get(name.lower(), name).lower()) if is_text else ("", "")
