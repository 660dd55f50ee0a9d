"""The modules of the page as one script, so that a file can hold them: each becomes a function that gives its exports.

Browsers load no modules from `file:` addresses. This reads the few forms of `import` and `export` that the page's own files use, and fails
where it meets another. The files lie in `serve/static`; of this package are those in `exchange/page`.
"""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import join, normpath

_IMPORT = re.compile(r'^import (?:(?P<whole>\w+)|\{(?P<names>[^}]*)\}) from "(?P<path>[^"]+)";\n', re.MULTILINE)
_LANGUAGES = re.compile(r"import\(`\.\./i18n/\$\{(\w+)\}\.js`\)")  # the one module that is imported by a name that is not written out
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\*? *(\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default (?:(?=function (\w+))|(?=\{))", re.MULTILINE)
_LIST = re.compile(r"^export \{([^}]*)\};", re.MULTILINE)
OWN = {"page/app.js": "app.js", "lib/api.js": "api.js"}  # of this package, under the place where the page's modules look for them
STYLES = ("app.css", "graph.css")
OTHER_LANGUAGES = ("de", "zh")


def script(first: str = "page/app.js") -> str:
    """All modules that the first one needs, and itself, as the text of one script."""
    order: dict[str, str] = {}
    for language in OTHER_LANGUAGES:
        _collect(f"i18n/{language}.js", order, ())
    _collect(first, order, ())
    numbers = {path: f"m{n}" for n, path in enumerate(order)}
    parts = [f"const {numbers[path]} = (() => {{\n{_module(path, text, numbers)}\n}})();" for path, text in order.items() if path != first]
    last = _module(first, order[first], numbers)
    made = "\n".join(['(async () => {\n"use strict";', *parts, last, "})();\n"])
    return made.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def styles() -> str:
    """The page's styles, and those of the exported page over them."""
    return "\n".join([*(_static().joinpath(name).read_text(encoding="utf-8") for name in STYLES), _own("page.css")])


def _static() -> Traversable:
    return files("localrag.serve").joinpath("static")


def _own(name: str) -> str:
    return files("localrag.exchange").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _read(path: str) -> str:
    return _own(OWN[path]) if path in OWN else _static().joinpath(path).read_text(encoding="utf-8")


def _collect(path: str, order: dict[str, str], above: tuple[str, ...]) -> None:
    """Put a module into `order` behind those that it needs."""
    if path in order:
        return
    if path in above:
        raise ValueError(f"{path} needs itself, by way of {', '.join(above)}")
    text = _read(path)
    for found in _IMPORT.finditer(text):
        _collect(_needed(path, found["path"]), order, (*above, path))
    order[path] = text


def _needed(path: str, wanted: str) -> str:
    return normpath(join(path.rpartition("/")[0], wanted))


def _module(path: str, text: str, numbers: dict[str, str]) -> str:
    """A module's text without imports and exports, which returns what it exports."""

    def taken(found: re.Match[str]) -> str:
        module = numbers[_needed(path, found["path"])]
        if found["whole"]:
            return f"const {found['whole']} = {module}.default;\n"
        return f"const {{{found['names'].replace(' as ', ': ')}}} = {module};\n"

    text = _IMPORT.sub(taken, text)
    others = ", ".join(f"{name}: {numbers[f'i18n/{name}.js']}" for name in OTHER_LANGUAGES if f"i18n/{name}.js" in numbers)
    text = _LANGUAGES.sub(lambda found: f"Promise.resolve({{{others}}}[{found[1]}])", text)
    given = [f"{name}" for name in _EXPORT.findall(text)]
    text = _EXPORT.sub("", text)
    for found in _LIST.finditer(text):
        pairs = (one.split(" as ") for one in found[1].split(",") if one.strip())
        given += [f"{pair[-1].strip()}: {pair[0].strip()}" for pair in pairs]
    text = _LIST.sub("", text)
    if default := _DEFAULT.search(text):
        given.append(f"default: {default[1] or 'whole'}")
        text = _DEFAULT.sub("" if default[1] else "const whole = ", text)
    if left := re.search(r"^(?:import|export)\b.*|\bimport\(.*", text, re.MULTILINE):
        raise ValueError(f"{path}: {left[0]!r} is not understood")
    return text + (f"\nreturn {{ {', '.join(given)} }};" if given else "")
