"""Formulas on one line, in the signs of plain text and of LaTeX: `3/8`, `2 1/4`, `10^5`, `x_i`, `√(x)`, `∑_(i=1)^n i`, `[1, 0; 0, 1]`."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

MATH_NS = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SIMPLE = re.compile(r"(?!\d[\d.,]*[^\W\d_])[\w.,^√°%′]+")  # what needs no parentheses above or below a line
_SCRIPT = re.compile(r"[-+−–]?\w+(?:[.,]\w+)?|[-+−–*∗]")
_SCRIPT_MARK = re.compile("[°′″‴']+")
_FORMS = {
    "f": "{f}", "rad": "√{deg}({e})", "sSup": "{e}{sup}", "sSub": "{e}{sub}", "sSubSup": "{e}{sub}{sup}", "sPre": "{sub}{sup}{e}",
    "nary": "{sign}{sub}{sup} {e}", "limLow": "{e}{below}", "limUpp": "{e}{above}", "func": "{fName} {e}", "acc": "{e}{sign}",
    "bar": "{e}{sign}",
}  # fmt: skip
_SIGNS = {"nary": "∫", "acc": "\u0302", "bar": "\u0332", "bartop": "\u0305"}  # of sums, accents and lines that name none
_BETWEEN = {"mr": ", ", "m": "; ", "eqArr": "; "}  # what stands between the cells and the rows of a matrix
_DELETED = frozenset({"del", "moveFrom"})


def fraction(above: str, below: str) -> str:
    """A fraction; parts of several terms in parentheses."""
    return "/".join(part if _SIMPLE.fullmatch(part) else f"({part})" for part in (above, below))


def _script(sign: str, text: str) -> str:
    text = text.strip()
    return text if not text or _SCRIPT_MARK.fullmatch(text) else sign + (text if _SCRIPT.fullmatch(text) else f"({text})")


def scripts(lowered: str, raised: str) -> str:
    """Index and power as they follow their base."""
    return _script("_", lowered) + _script("^", raised)


def after(before: str, formula: str) -> str:
    """A formula as it follows a text: apart from a number before it, as in `2 1/4`."""
    return f" {formula}" if before[-1:].isdigit() and formula[:1].isdigit() else formula


def office_formula(element: Any) -> str:
    """A formula of Office (OMML)."""
    tag = _name(element)
    if tag == "t":
        return element.text or ""
    inner = [(_name(child), office_formula(child)) for child in element if not _name(child).endswith("Pr") and _name(child) not in _DELETED]
    if tag in _FORMS:
        parts = defaultdict[str, str](str)
        for name, text in inner:
            parts[name] += text
        parts["f"] = fraction(parts["num"], parts["den"])
        parts["deg"] = f"[{parts['deg']}]" if parts["deg"] else ""
        parts["below"], parts["above"] = _script("_", parts["lim"]), _script("^", parts["lim"])
        parts["sub"], parts["sup"] = _script("_", parts["sub"]), _script("^", parts["sup"])
        parts["sign"] = _property(element, "chr", _SIGNS.get(tag + _property(element, "pos", ""), ""))
        return _FORMS[tag].format_map(parts)
    if tag in _BETWEEN:
        rows = _BETWEEN[tag].join(text for _, text in inner)
        return f"[{rows}]" if tag == "m" else rows
    if tag == "d":
        content = _property(element, "sepChr", "|").join(text for _, text in inner)
        content = content[1:-1] if len(inner) == 1 and re.fullmatch(r"\[[^\[\]]*+\]", content) else content  # a matrix
        return _property(element, "begChr", "(") + content + _property(element, "endChr", ")")
    return _joined(inner)


def _joined(parts: Iterable[tuple[str, str]]) -> str:
    """The parts of a formula: fractions and powers apart from letters and numbers beside them."""
    text, before = "", "r"
    for name, part in parts:
        is_apart = (before != "r" or name == "f") and text[-1:].isalnum() and part[:1].isalnum()
        text += " " * is_apart + part
        before = name if part else before
    return text


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _property(element: Any, name: str, default: str) -> str:
    found = element.find(f"{MATH_NS}{_name(element)}Pr/{MATH_NS}{name}")
    return default if found is None else str(found.get(f"{MATH_NS}val") or "")
