r"""Numbers and units of LaTeX's siunitx as text: `\qty{9.81}{\metre\per\second\squared}` is `9.81 m/s^2`."""

import re
from collections.abc import Sequence

# Commands → the number of their arguments.
UNIT_COMMANDS = {
    **dict.fromkeys(("num", "ang", "si", "unit", "numlist"), 1),
    **dict.fromkeys(("SI", "qty", "numrange", "SIlist", "qtylist"), 2),
    **dict.fromkeys(("SIrange", "qtyrange"), 3),
}
_UNITS = dict(
    metre="m", meter="m", gram="g", second="s", ampere="A", kelvin="K", mole="mol", hertz="Hz", newton="N", pascal="Pa", joule="J",
    watt="W", volt="V", ohm="Ω", celsius="°C", degreeCelsius="°C", percent="%", degree="°", litre="L", liter="L", minute="min",
    hour="h", day="d", tonne="t", electronvolt="eV", decibel="dB", byte="B", um="µm", us="µs", uL="µL", ug="µg",
)  # fmt: skip
_PREFIXES = dict(
    pico="p", nano="n", micro="µ", milli="m", centi="c", deci="d", hecto="h", kilo="k", mega="M", giga="G", tera="T",
)  # fmt: skip
_POWERS = {"squared": "2", "cubed": "3"}
_TOKEN = re.compile(r"\\([A-Za-z]+)\s*(?:(?<=tothe)\{([^{}]*)\})?|\^\{([^{}]*)\}|\^(.)|([^\\^])", re.DOTALL)
_EXPONENT = re.compile(r"(?<=[\d.])[eEdD]([+-]?\d+)")


def quantity_text(command: str, arguments: Sequence[str]) -> str:
    """The text of a command with its arguments."""
    if command in {"si", "unit"}:
        return unit_text(arguments[0])
    if command == "ang":
        return "".join(f"{part.strip()}{sign}" for part, sign in zip(arguments[0].split(";"), "°′″", strict=False) if part.strip())
    if command.endswith("range"):
        numbers, unit = "–".join(map(number_text, arguments[:2])), arguments[2:]
    else:
        numbers, unit = ", ".join(map(number_text, arguments[0].split(";"))), arguments[1:]
    return " ".join(filter(None, (numbers, unit_text(unit[0]) if unit else ""))).replace(" °′", "°′")


def number_text(number: str) -> str:
    """A number as it is set: `1.5e3` as `1.5 × 10^3`."""
    plain = " ".join(number.replace("\\pm", "±").replace("+-", "±").replace("\\,", "").replace("~", "").split())
    return _EXPONENT.sub(r" × 10^\1", plain)


def unit_text(unit: str) -> str:
    """A unit as it is set, one behind `per` below a slash; names of units that are not known stand as they are."""
    pieces: list[str] = []
    prefix = ""
    is_below = False
    for match in _TOKEN.finditer(unit.replace("{}", "")):
        name, exponent = match[1], match[2] or match[3] or match[4]
        if name in _PREFIXES:
            prefix += _PREFIXES[name]
        elif name == "per":
            is_below = True
        elif name in _POWERS or exponent:
            pieces.append(f"^{_POWERS.get(name or '', exponent)}")
        elif name:
            between = "/" if is_below else " " * bool(pieces and pieces[-1][-1:] not in " /")
            pieces.append(f"{between}{prefix}{_UNITS.get(name, name)}")
            prefix, is_below = "", False
        elif match[5]:
            pieces.append(" " if match[5] in ".~" else "" if match[5] in "{}$" else match[5])
    return " ".join(("".join(pieces) + prefix).split())
