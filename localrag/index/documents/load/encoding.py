"""Bytes → text: UTF-8 first and strictly, then byte-order marks, then what the bytes look like."""

import codecs
import re
import unicodedata

from localrag.index.documents.load.content import Unreadable

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "big5": "cp950", "euc-kr": "cp949", "iso-8859-1": "cp1252"}
_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd-\uffff\ue000-\uf8ff]")
_SAMPLE = 200_000  # bytes that are looked at to guess an encoding


def decode(data: bytes, declared: str = "") -> str:
    """The text of a file; line ends are one character, as `Path.read_text` has it. `declared`: the encoding it says it has.

    Raises Unreadable for what is no text.
    """
    text = _decoded(data, declared)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes, declared: str) -> str:
    mark = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if mark:
        return _plausible(data, mark) or _refuse()
    if b"\x1b$" in data and (japanese := _plausible(data, "iso2022_jp")):
        return japanese  # all its bytes are ASCII
    if b"\0" not in data:
        try:
            return _without_noise(data.decode("utf-8"))
        except UnicodeDecodeError:
            pass
        return _plausible(data, declared) or _detected(data) or _refuse()
    return next((text for name in _wide(data) if (text := _plausible(data, name))), "") or _refuse()


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are no text in any encoding."""
    if head.startswith(tuple(mark for mark, _ in _MARKS)):
        return False
    if b"\0" in head:
        return not _wide(head)
    return sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in head) > len(head) * 0.01


def _wide(data: bytes) -> list[str]:
    """UTF-16 or UTF-32, where the bytes have the zeros of one: Latin letters, spaces and line ends come with them."""
    sample = data[: _SAMPLE - _SAMPLE % 4]
    zeros = [sample[n::4].count(0) * 4 / max(len(sample), 1) for n in range(4)]
    if min(zeros[2:]) > 0.95 and zeros[0] < 0.5:
        return ["utf-32-le"]
    if min(zeros[:2]) > 0.95 and zeros[3] < 0.5:
        return ["utf-32-be"]
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if len(data) % 2 or abs(even - odd) < max(even, odd) * 0.8:
        return []
    return ["utf-16-le"] if odd > even else ["utf-16-be"]


def _plausible(data: bytes, name: str) -> str:
    """The data in an encoding, if they are text in it; else nothing."""
    try:
        text = data.decode(_WIDER.get(name.lower(), name or "ascii"))
    except (ValueError, LookupError):  # some codecs raise more than errors of decoding
        return ""
    return text if text and len(_STRANGE.findall(text[:_SAMPLE])) <= len(text[:_SAMPLE]) * 0.002 else ""


def _detected(data: bytes) -> str:
    """The data in the encoding they look most like."""
    import chardet

    found = chardet.detect(data[:_SAMPLE])
    name = str(found["encoding"] or "")
    text = _plausible(data, name)
    foreign = [c for c in text[:_SAMPLE] if c > "~" and unicodedata.category(c)[0] not in "PZ"]
    if text and sum(unicodedata.category(c) != "So" for c in foreign) >= 0.8 * len(foreign):  # So: boxes, blocks, dingbats
        return text
    return _replaced(data) if len(data) > _SAMPLE / 100 else ""


def _replaced(data: bytes) -> str:
    """UTF-8 with a few broken bytes, as a file cut in the middle of a character has; else nothing."""
    text = data.decode("utf-8", "replace")
    return text if text.count("\ufffd") <= len(text) * 0.001 else ""


def _without_noise(text: str) -> str:
    strange = sum(c in "\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f\x7f" for c in text[:_SAMPLE])
    return text if strange <= len(text[:_SAMPLE]) * 0.01 else _refuse()


def _refuse() -> str:
    raise Unreadable("binary, not text")
