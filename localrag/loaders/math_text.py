"""Formulas of MathML on one line, written as in `formulas`."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

from localrag.loaders.formulas import fraction, scripts

_AROUND_SIGN = re.compile(r" ?([^\w\s,]) ?")
_APART = re.compile(r"[^\W\d_]{2,}|[∑∏∫∬∭∮⋃⋂]")  # functions, words, and signs with limits
_RELATIONS = frozenset("=<>≤≥≈≡→⇒⇔")
_NOT_BETWEEN = frozenset("∑∏∫∬∭∮⋃⋂∂∇√¬∀∃∞|∥~")  # signs of mathematics that stand before or around what they belong to
_BETWEEN = frozenset("-*·•∶")  # other signs between two operands
_INVISIBLE = str.maketrans("\u2064\xa0", "  ", "\u2061\u2062\u2063\u200b")  # the first adds the fraction of a mixed number
_ACCENTS = dict.fromkeys("⏞⏟︷︸", "") | dict(zip("¯‾^ˆ~˜→⃗˙¨", "\u0304\u0304\u0302\u0302\u0303\u0303\u20d7\u20d7\u0307\u0308", strict=True))
_SIDE_BY_SIDE = frozenset({"mrow", "mstyle", "mpadded", "mtext", "semantics"})
_TABLE_START, _TABLE_END = "\x02", "\x03"
_FENCED_TABLE = re.compile(f"(?<=[(\\[{{|∥]) ?{_TABLE_START}([^{_TABLE_START}{_TABLE_END}]*){_TABLE_END}")


def _scripted(base: str, below: str = "", above: str = "") -> str:
    """A base with what stands lowered and raised behind it, or below and above it."""
    if not below and above in _ACCENTS:
        return unicodedata.normalize("NFC", base + _ACCENTS[above]) if len(base) == 1 else base
    if " " in base and base[0] not in "([{":
        base = f"({base})"
    return base + scripts(*(_AROUND_SIGN.sub(r"\1", text) for text in ("" if below in _ACCENTS else below, above)))


def _matrix(rows: Iterable[Iterable[str]]) -> str:
    """A matrix, or equations one below the other."""
    lines = [[cell for cell in row if cell] for row in rows]
    is_aligned = any(cell[0] in _RELATIONS for row in lines for cell in row[1:])
    return "; ".join((" " if is_aligned else ", ").join(row) for row in lines if row)


def mathml_text(element: Any) -> str:
    """A formula of MathML, in or without its namespace, on one line."""
    try:
        text = _FENCED_TABLE.sub(r"\1", _text(element))
    except RecursionError:
        text = " ".join(element.itertext())
    return " ".join(text.replace(_TABLE_START, "[").replace(_TABLE_END, "]").split())


def _name(element: Any) -> str:
    return re.split("[}:]", str(element.tag).lower())[-1] if isinstance(element.tag, str) else ""


def _text(element: Any) -> str:
    name = _name(element)
    children = [child for child in element if _name(child) and not _name(child).startswith("annotation")]
    if name in _WITH_PARTS:
        return _WITH_PARTS[name](*[_text(child) for child in children[:3]], "", "", "")
    if name in {"mi", "mn", "mo", "ms"}:
        text = "".join(element.itertext()).translate(_INVISIBLE)
        return text.strip() or text[:1]
    return _OTHERS[name](element, children) if name in _OTHERS else _row(children)


def _fraction(element: Any, children: list[Any]) -> str:
    above, below = [*map(_text, children[:2]), "", ""][:2]
    is_choice = str(element.get("linethickness")).rstrip("ptxem%") in {"0", "0.0"}
    return f"{above} choose {below}" if is_choice else fraction(above, below)


def _fenced(element: Any, children: list[Any]) -> str:
    return f"{element.get('open', '(')}{', '.join(map(_text, children))}{element.get('close', ')')}"


def _matrix_text(_element: Any, children: list[Any]) -> str:
    return f"{_TABLE_START}{_matrix([_text(cell) for cell in row if _name(cell) == 'mtd'] for row in children)}{_TABLE_END}"


_WITH_PARTS: dict[str, Callable[..., str]] = {
    "mroot": lambda base, degree, *_: f"√[{degree}]({base})",
    **dict.fromkeys(("msub", "munder"), lambda base, below, *_: _scripted(base, below)),
    **dict.fromkeys(("msup", "mover"), lambda base, above, *_: _scripted(base, "", above)),
    **dict.fromkeys(("msubsup", "munderover"), lambda base, below, above, *_: _scripted(base, below, above)),
}
_OTHERS: dict[str, Callable[[Any, list[Any]], str]] = {
    "mfrac": _fraction,
    "mfenced": _fenced,
    "mtable": _matrix_text,
    "msqrt": lambda _, children: f"√({_row(children)})",
    "mtext": lambda element, _: re.sub(r"\s+", " ", "".join(element.itertext())),
    "mspace": lambda *_: " ",
    "mphantom": lambda *_: "",
    "maction": lambda _, children: _row(children[:1]),
    "semantics": lambda element, children: _row(children[:1]) or " ".join(element.itertext()),
}


def _row(elements: Iterable[Any]) -> str:
    """Elements side by side: blanks around signs between operands, around fractions, and between words and numbers."""
    text, is_fraction, is_apart = "", False, False  # of the element before
    for element in elements:
        name, piece = _name(element), _text(element)
        if not piece:
            continue
        is_word = name not in _SIDE_BY_SIDE and bool(_APART.match(piece))
        if name == "mo" and piece in {",", ";"}:
            text += f"{piece} "
        elif name == "mo" and _is_between(piece):
            text += f" {piece} " if text and not _is_open(text) else f"{piece} " if piece in _RELATIONS else piece
        elif text and not _is_open(text) and piece[0] not in " )]},.!":
            is_word_beside = is_word or name == "mfrac" or is_fraction or (is_apart and piece[0] not in "([")
            text += " " * (is_word_beside or (text[-1].isdigit() and piece[0].isdigit())) + piece
        else:
            text += piece
        is_fraction = name == "mfrac"
        is_apart = is_word or (name in _WITH_PARTS and piece[0] not in "([" and piece[-1].isalnum())
    return text.strip()


def _is_between(sign: str) -> bool:
    return len(sign) < 3 and sign[0] not in _NOT_BETWEEN and (sign[0] in _BETWEEN or unicodedata.category(sign[0]) in {"Sm", "Pd"})


def _is_open(text: str) -> bool:
    return text[-1] in " ([{" or (text[-1] == "|" and text.count("|") % 2 == 1)
