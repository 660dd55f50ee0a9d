"""Finds the regular expressions of packages, and strings on which a search with one takes more than quadratic time.

`attacks` derives strings from a pattern: a prefix that leads to one of its repetitions, what this repeats, many times, and an end that does
not match. `growth` measures how the time of a search grows with the length of such a string. As a program, this prints the patterns of the
named packages whose time grows faster than the square, as JSON.
"""

import ast
import importlib
import json
import math
import pkgutil
import re
import signal
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from re import _constants as op
from re import _parser as parser

FUNCTIONS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"}
MEASURED_S = 0.02  # from where a time can be told from noise
STEEPEST = 2.5  # largest exponent of the length that passes: 2 is allowed, and clocks are not exact
LONGEST_CHARS = 2_000
GIVEN_UP_S = 3.0  # CPU time that no quadratic search of LONGEST_CHARS takes
SAMPLES = 4  # strings tried for each part of a pattern
CATEGORIES = {op.CATEGORY_DIGIT: "17", op.CATEGORY_SPACE: " \n", op.CATEGORY_WORD: "a1_"}
OPPOSITES = {op.CATEGORY_NOT_DIGIT: "a.", op.CATEGORY_NOT_SPACE: "a.", op.CATEGORY_NOT_WORD: ". "}
ODD = "a1 .,-_:/[(\"'*`#<|中\n\u00e9"  # what a negated set may hold


class TooSlow(Exception):
    """A search was given up."""


def samples(node: "list[tuple[object, object]]", groups: dict[int, str], *, short: bool = False) -> list[str]:
    """Some strings that a part of a pattern matches, its assertions apart; `short`: without its optional parts."""
    found = [""]
    for code, value in node:
        options = _samples_of(code, value, groups, short=short)
        found = [a + options[n % len(options)] for n, a in enumerate(found * max(1, min(SAMPLES, len(options)) // len(found)))][:SAMPLES]
    return found


def _samples_of(code: object, value: "object", groups: dict[int, str], *, short: bool = False) -> list[str]:
    if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
        return _characters(code, value)
    if code is op.BRANCH:
        return [s for branch in value[1] for s in samples(branch, groups, short=short)[:2]][: 4 * SAMPLES] or [""]
    if code is op.SUBPATTERN:
        found = samples(value[3], groups, short=short)
        if value[0] is not None:
            groups[value[0]] = found[0]
        return found
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, inner = value
        return [s * max(least, min(1, most) * (not short)) for s in samples(inner, groups, short=short)]
    if code is op.ATOMIC_GROUP:
        return samples(value, groups, short=short)
    if code is op.GROUPREF:
        return [groups.get(value, "")]
    if code is op.ASSERT and value[0] < 0:
        return samples(value[1], groups, short=short)
    return [""]  # anchors, lookaheads and negative lookbehinds


def _characters(code: object, value: object) -> list[str]:
    if code is op.LITERAL:
        return [chr(value)]
    if code is op.NOT_LITERAL:
        return [c for c in ODD if ord(c) != value][:SAMPLES]
    return _members(value) if code is op.IN else ["a", " ", ".", "1"]


def _members(items: "list[tuple[object, object]]") -> list[str]:
    if items[0][0] is op.NEGATE:
        barred = set(_members(items[1:]))
        return [c for c in ODD if c not in barred][: 2 * SAMPLES] or ["\ue123"]
    found: list[str] = []
    for code, value in items:
        if code is op.LITERAL:
            found.append(chr(value))
        elif code is op.RANGE:
            found += [chr(value[0]), chr(value[1])]
        elif code is op.CATEGORY:
            found += list(CATEGORIES.get(value) or OPPOSITES.get(value, "a"))
    return list(dict.fromkeys(found))[:12]


def _repeats(node: "list[tuple[object, object]]", before: list[str]) -> "Iterator[tuple[list[str], object]]":
    """Every repetition in a pattern, with what may stand before it."""
    for code, value in node:
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            if value[1] > 8:
                yield before, value[2]
            yield from _repeats(value[2], before)
        elif code is op.SUBPATTERN:
            yield from _repeats(value[3], before)
        elif code is op.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch, before)
        elif code is op.ATOMIC_GROUP:
            yield from _repeats(value, before)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from _repeats(value[1], before)
        options = _samples_of(code, value, {})
        before = [b + o for b in before[:2] for o in options[:2]]


def attacks(pattern: "re.Pattern[str] | re.Pattern[bytes]") -> list[Callable[[int], str]]:
    """Functions that make a string of about n characters that may be slow to search with the pattern."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = list(parser.parse(source, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags))
    pumps: dict[tuple[str, str], None] = {}
    repeats = list(_repeats(tree, [""]))
    for before, inner in repeats:
        for pump in [*samples(inner, {}), *samples(inner, {}, short=True)]:
            for lead in before[:2]:
                pumps[lead, pump] = None
    whole = samples(tree, {})
    several = ["".join(samples(inner, {})[0] for _, inner in repeats[n : n + 2]) for n in range(len(repeats) - 1)]
    chars = dict.fromkeys("".join([*whole, *(p for _, p in pumps)]))
    for pump in [*whole[:2], *several, *[c for c in chars][:10], " ", "a", "1"]:
        pumps["", pump] = None
    ends = ("", "\x00\n")
    return [lambda n, a=a, p=p, e=e: a + p * (n // len(p)) + e for a, p in list(pumps)[:60] if p for e in ends]


def growth(pattern: "re.Pattern[str] | re.Pattern[bytes]", make: Callable[[int], str]) -> float:
    """The power of a text's length that the time of a search grows with: 0 where that is too short to measure, infinite if it hangs."""
    size, took = 32, 0.0
    try:
        while took < MEASURED_S and size < LONGEST_CHARS:
            size *= 2
            took = _time(pattern, make(size))
        if took < MEASURED_S:
            return 0.0
        times = [min(_time(pattern, make(n), at_least=MEASURED_S) for _ in range(2)) for n in (size // 4, size)]
    except TooSlow:
        return math.inf
    return math.log(times[1] / times[0], 4)


def _time(pattern: "re.Pattern[str] | re.Pattern[bytes]", text: str, at_least: float = 0.0) -> float:
    """The seconds that a search through a text takes, done again until `at_least` so many have passed."""
    data = text.encode("utf-8") if isinstance(pattern.pattern, bytes) else text
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_S)
    start, times = time.perf_counter(), 0
    try:
        while not times or time.perf_counter() - start < at_least:
            deque(pattern.finditer(data), 0)  # type: ignore[arg-type]
            times += 1
        return (time.perf_counter() - start) / times
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(*_: object) -> None:
    raise TooSlow


def is_steep(pattern: "re.Pattern[str] | re.Pattern[bytes]") -> str:
    """An attack string (of 32 characters) for which the time of a pattern grows faster than its square; empty where none was found."""
    for make in attacks(pattern):
        power = growth(pattern, make)
        if power == math.inf or (power > STEEPEST and growth(pattern, make) > STEEPEST):  # twice: the machine may have been busy
            return make(32) or " "
    return ""


def modules(package: str) -> Iterator[types.ModuleType]:
    """The modules of a package that can be imported here."""
    top = importlib.import_module(package)
    yield top
    for found in pkgutil.walk_packages(getattr(top, "__path__", []), package + ".", onerror=lambda _: None):
        if not {"__main__", "tests", "test"} & set(found.name.split(".")):
            with suppress(Exception, SystemExit):
                yield importlib.import_module(found.name)


def patterns(package: str) -> "dict[str, re.Pattern[str] | re.Pattern[bytes]]":
    """The patterns of a package: those kept in its modules and classes, and those written where they are used; by where they were found."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for module in modules(package):
        for name, value in [
            *vars(module).items(),
            *((f"{c}.{n}", v) for c, o in vars(module).items() if isinstance(o, type) for n, v in vars(o).items()),
        ]:
            found |= {f"{module.__name__}.{name}": p for p in _kept(value)}
        with suppress(OSError, TypeError, AttributeError, UnicodeDecodeError, SyntaxError):
            found |= _written(module)
    return {name: p for name, p in {(p.pattern, p.flags): (name, p) for name, p in found.items()}.values()}


def _kept(value: object, deep: int = 2) -> "Iterator[re.Pattern[str] | re.Pattern[bytes]]":
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict | list | tuple | set | frozenset) and deep and len(value) < 1000:
        for item in [*value.values(), *value.keys()] if isinstance(value, dict) else value:
            yield from _kept(item, deep - 1)


def _written(module: types.ModuleType) -> "dict[str, re.Pattern[str] | re.Pattern[bytes]]":
    """The patterns in calls like `re.sub(…)`, with x for what only a call knows."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    with open(str(module.__file__), encoding="utf-8") as file:  # noqa: PTH123
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS and node.args):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        source, flags = _value(node.args[0], module), [_value(k.value, module) for k in node.keywords if k.arg == "flags"]
        place = 1 if node.func.attr == "compile" else 9 if node.func.attr in ("sub", "subn", "split") else 2
        flags += [_value(a, module) for a in node.args[place : place + 1]]
        if isinstance(source, str | bytes):
            found[f"{module.__name__}:{node.lineno}:{node.col_offset}"] = re.compile(source, *[f for f in flags if isinstance(f, int)][:1])
    return found


def _value(node: ast.expr, module: types.ModuleType) -> object:
    if isinstance(node, ast.JoinedStr):
        parts = [_value(v.value, module) if isinstance(v, ast.FormattedValue) else v.value for v in node.values]  # type: ignore[attr-defined]
        return "".join(str(p) if isinstance(p, str | int) else "x" for p in parts)
    with suppress(Exception):
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(vars(module)))
    return None


def main(packages: list[str]) -> None:
    every = {name: p for package in packages for name, p in patterns(package).items()}
    steep = {name: [str(p.pattern), text] for name, p in every.items() if (text := is_steep(p))}
    sys.stdout.write(json.dumps({"count": len(every), "steep": steep}))


if __name__ == "__main__":
    main(sys.argv[1:])
