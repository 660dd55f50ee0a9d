"""The charts of Office documents, as the tables they were drawn from, and formulas on one line."""

from collections.abc import Iterator
from typing import Any

from localrag.index.documents.load.content import number_in
from localrag.index.documents.load.formats.tables import cell, row_line

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


def chart_lines(root: Any) -> Iterator[str]:
    """Its titles, then a line for each category with the value of every series."""
    for title in root.iter(f"{_C}title"):
        if text := " ".join("".join(t.text or "" for t in title.iter(f"{_A}t")).split()):
            yield text
    series = [
        (" ".join(_values(ser, "tx").values()), _values(ser, "cat") or _values(ser, "xVal"), _values(ser, "val") or _values(ser, "yVal"))
        for ser in root.iter(f"{_C}ser")
    ]
    if not series:
        return
    categories: dict[int, str] = {}
    for _, named, values in series:
        categories = {n: "" for n in values} | named | categories
    header = ["", *(name for name, *_ in series)]
    yield from (row_line(header, [categories[n], *(values.get(n, "") for *_, values in series)]) for n in sorted(categories))


def _values(series: Any, name: str) -> dict[int, str]:
    """Place → what the file remembers of a row of cells."""
    found: dict[int, str] = {}
    parent = series.find(f"{_C}{name}")
    if parent is None:
        return found
    for n, point in enumerate(parent.iter(f"{_C}v")):
        place = str(point.getparent().get("idx") or n)
        text = cell(point.text)
        found[number_in(place, n)] = text.removesuffix(".0")
    return found


def formula(element: Any) -> str:
    """A formula of Word's on one line: fractions with a stroke, powers with ^, roots with √."""
    tag = str(element.tag).removeprefix(_M)
    if tag == "t":
        return element.text or ""
    inner = {str(c.tag).removeprefix(_M): formula(c) for c in element if isinstance(c.tag, str) and c.tag.startswith(_M)}
    base, below, above = (inner.get(name, "") for name in ("e", "sub", "sup"))
    match tag:
        case "f":
            text = f"({inner.get('num', '')})/({inner.get('den', '')})"
        case "rad":
            text = f"√({base})"
        case "sSup" | "sSub" | "sSubSup":
            text = base + f"_{below}" * bool(below) + f"^{above}" * bool(above)
        case "d":
            text = f"({', '.join(formula(c) for c in element.iterchildren(f'{_M}e'))})"
        case "nary":
            sign = element.find(f"{_M}naryPr/{_M}chr")
            text = f"{'∫' if sign is None else sign.get(f'{_M}val')}_{below}^{above} {base}"
        case _:
            text = "".join(formula(c) for c in element if isinstance(c.tag, str) and c.tag.startswith(_M) and not c.tag.endswith("Pr"))
    return text
