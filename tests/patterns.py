"""Finds the regular expressions of packages, and measures on strings made to be slow for them how their time grows with the length.

As a program, this prints the patterns of the named modules whose time grows faster than a power of the length, as JSON.
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
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import localrag
from tests.automata import attacks

FUNCTIONS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"}
LINEAR, QUADRATIC = 1.5, 2.5  # largest exponent of the length that passes: clocks are not exact
LENGTHS = {LINEAR: 20_000, QUADRATIC: 1_600}  # characters of an attack
MEASURED_S = 0.01  # from where a time can be told from noise
GIVEN_UP_S = 4.0  # CPU time
MOST_ATTACKS = 90
Pattern = re.Pattern[str] | re.Pattern[bytes]
Uses = frozenset[str]  # "match", "fullmatch" or "finditer", which stands for all that search
Found = dict[str, tuple[Pattern, Uses]]


class TooSlow(Exception):
    """A search was given up."""


def growth(pattern: Pattern, use: str, make: Callable[[int], str], power: float) -> float:
    """The power of a text's length that the time grows with: 0 where that is too short to measure, infinite if it hangs."""
    found = 0.0
    try:
        for size in (LENGTHS[power] // 16, LENGTHS[power] // 4, LENGTHS[power]):  # what is steep is found early
            if found <= power and (took := _time(pattern, use, make(size))) >= MEASURED_S:
                quarter = min(_time(pattern, use, make(size // 4)) for _ in range(2))
                found = math.log(min(took, _time(pattern, use, make(size))) / quarter, 4)
    except TooSlow:
        return math.inf
    return found


def _time(pattern: Pattern, use: str, text: str) -> float:
    """The seconds of the processor that a search through a text takes. Raises TooSlow."""
    data = text.encode("utf-8") if isinstance(pattern.pattern, bytes) else text
    signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_S)
    start = time.thread_time()
    try:
        found = getattr(pattern, use)(data)
        if use == "finditer":
            deque(found, 0)
        return max(time.thread_time() - start, 1e-6)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(*_: object) -> None:
    raise TooSlow


def is_steep(pattern: Pattern, uses: Uses = frozenset({"finditer"}), power: float = LINEAR) -> str:
    """An attack string for which the time of a pattern grows faster than a power of its length, and the use; empty without any."""
    for use in uses:
        for lead, pump, end in list(attacks(pattern, searches=use == "finditer"))[:MOST_ATTACKS]:

            def make(n: int, lead: str = lead, pump: str = pump, end: str = end) -> str:
                return lead + pump * (n // len(pump)) + end

            if all(growth(pattern, use, make, power) > power for _ in range(3)):  # again: the machine may have been busy
                return f"{use}: {make(8 * len(pump))!r}"
    return ""


def modules(package: str) -> Iterator[types.ModuleType]:
    """The modules of a package that can be imported here."""
    top = importlib.import_module(package)
    yield top
    for found in pkgutil.walk_packages(getattr(top, "__path__", []), package + ".", onerror=lambda _: None):
        if not {"__main__", "tests", "test"} & set(found.name.split(".")):
            with suppress(Exception, SystemExit):
                yield importlib.import_module(found.name)


def main_process_modules() -> list[str]:
    """The modules of localrag but those that only the confined process imports: it loads most of them by their name."""
    root = Path(localrag.__file__).parent
    names = {".".join(("localrag", *p.relative_to(root).with_suffix("").parts)).removesuffix(".__init__"): p for p in root.rglob("*.py")}
    todo = [name for name in names if not name.startswith("localrag.loaders.")]
    seen = set(todo)
    while todo:
        if (name := todo.pop()) == "localrag.loaders.parser_process":
            continue
        for node in ast.walk(_tree(names[name])):
            targets = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                targets = [str(node.module), *(f"{node.module}.{a.name}" for a in node.names)]
            new = {t for t in targets if t in names} - seen
            seen |= new
            todo += new
    return sorted(seen)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def patterns(loaded: Iterable[types.ModuleType]) -> Found:
    """The patterns of modules: those kept in them and their classes, and those written where they are used; by where they were found."""
    every: dict[tuple[object, ...], tuple[str, Pattern, set[str]]] = {}
    for module in loaded:
        used = _uses(module)
        kept = [(n, p) for n, v in vars(module).items() for p in _kept(v)]
        for kind in [v for v in vars(module).values() if isinstance(v, type)]:
            kept += [(n, p) for n, v in vars(kind).items() for p in _kept(v)]
        found = [(f"{module.__name__}.{n}", p, used[n]) for n, p in kept]
        with suppress(OSError, TypeError, AttributeError, UnicodeDecodeError, SyntaxError):
            found += _written(module, used)
        for name, pattern, uses in found:
            every.setdefault((pattern.pattern, pattern.flags), (name, pattern, set()))[2].update(uses)
    return {name: (pattern, frozenset(uses or {"finditer"})) for name, pattern, uses in every.values()}


def _uses(module: types.ModuleType) -> dict[str, set[str]]:
    """How names are used in a module: a pattern that only matches, where a text begins, is not tried at each of its characters."""
    used: dict[str, set[str]] = defaultdict(set)
    with suppress(OSError, TypeError, AttributeError, UnicodeDecodeError, SyntaxError):
        tree = _tree(Path(str(module.__file__)))
        plain: set[int] = set()
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr in ("match", "fullmatch") and isinstance(node.func.value, ast.Name):
                used[node.func.value.id].add(node.func.attr)
                plain.add(id(node.func.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in plain:
                used[node.id].add("finditer")
    return used


def _kept(value: object, deep: int = 2) -> Iterator[Pattern]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict | list | tuple | set | frozenset) and deep and len(value) < 1000:
        for item in [*value.values(), *value.keys()] if isinstance(value, dict) else value:
            yield from _kept(item, deep - 1)


def _written(module: types.ModuleType, used: dict[str, set[str]]) -> list[tuple[str, Pattern, set[str]]]:
    """The patterns in calls like `re.sub(…)`, with x for what only a call knows."""
    found: list[tuple[str, Pattern, set[str]]] = []
    tree = _tree(Path(str(module.__file__)))
    methods = {id(node.value): {node.attr} for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            methods[id(node.value)] = used[node.targets[0].id]
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS and node.args):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        source, flags = _value(node.args[0], module), [_value(k.value, module) for k in node.keywords if k.arg == "flags"]
        place = 1 if node.func.attr == "compile" else 9 if node.func.attr in ("sub", "subn", "split") else 2
        flags += [_value(a, module) for a in node.args[place : place + 1]]
        if isinstance(source, str | bytes):
            by = methods.get(id(node), {"search"}) if node.func.attr == "compile" else {node.func.attr}
            uses = {use if use in ("match", "fullmatch") else "finditer" for use in by}
            compiled = re.compile(source, *[f for f in flags if isinstance(f, int)][:1])
            found.append((f"{module.__name__}:{node.lineno}:{node.col_offset}", compiled, uses))
    return found


def _value(node: ast.expr, module: types.ModuleType) -> object:
    if isinstance(node, ast.JoinedStr):
        parts = [_value(v.value, module) if isinstance(v, ast.FormattedValue) else v.value for v in node.values]  # type: ignore[attr-defined]
        return "".join(str(p) if isinstance(p, str | int) else "x" for p in parts)
    with suppress(Exception):
        return eval(compile(ast.Expression(node), "pattern", "eval"), dict(vars(module)))
    return None


def _dates() -> types.ModuleType:
    """A module with the patterns of dates in words, which are made when they are needed."""
    from localrag.dates import date_mentions, date_words

    made = types.ModuleType("dates in words")
    for language in ("en", "de", "es", "fr", "zh"):
        setattr(
            made,
            language,
            [[p for p, _ in date_mentions._patterns(language)], [r.pattern for r in date_words.date_words(language).relative]],
        )
    return made


def main(power: str, packages: list[str]) -> None:
    """Print what is found in packages; without any, in the modules of the main process."""
    loaded = [module for package in packages for module in modules(package)]
    if not packages:
        loaded = [importlib.import_module(name) for name in main_process_modules() if not name.endswith("__main__")] + [_dates()]
    every = patterns(loaded)
    steep = {name: [str(p.pattern), text] for name, (p, uses) in every.items() if (text := is_steep(p, uses, float(power)))}
    sys.stdout.write(json.dumps({"count": len(every), "steep": steep}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
