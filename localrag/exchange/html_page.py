"""The graph as one HTML file that any browser opens and that makes no network request.

It has the modules of the interactive page (`serve/static`, and `exchange/page`), the graph view, and the texts of the index. Its content
security policy allows only its own script, by hash, and no request; texts are data with `<` escaped.

Browsers load no modules from `file:` addresses, so the modules become one script, each a function that returns its exports. The bundler
supports the few forms of `import` and `export` that the page uses, and raises an error for any other.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from posixpath import join, normpath
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError, UsageError
from localrag.serializers import GraphView, build_graph_view, community_number
from localrag.store import export_rows, graph, layout
from localrag.text.sentences import replace_control_characters

_IMPORT = re.compile(r'^import (?:(?P<whole>\w+)|\{(?P<names>[^{}]*)\}) from "(?P<path>[^"]+)";\n', re.MULTILINE)
_LANGUAGES = re.compile(r"import\(`\.\./i18n/\$\{(\w+)\}\.js`\)")  # the only import by a computed name
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\*? *(\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default (?:(?=function (\w+))|(?=\{))", re.MULTILINE)
_LIST = re.compile(r"^export \{([^{}]*)\};", re.MULTILINE)
REPLACED_MODULES = {
    "page/app.js": "app.js",
    "lib/api.js": "api.js",
}  # of this package, at the paths where the page's modules look for them
STYLESHEETS = ("app.css", "graph.css")
OTHER_LANGUAGES = ("de", "zh")


def bundle_script(first: str = "page/app.js") -> str:
    """Bundle a module and all that it imports to the text of one script."""
    order: dict[str, str] = {}
    for language in OTHER_LANGUAGES:
        _collect(f"i18n/{language}.js", order, ())
    _collect(first, order, ())
    numbers = {path: f"m{n}" for n, path in enumerate(order)}
    parts = [f"const {numbers[path]} = (() => {{\n{_module(path, text, numbers)}\n}})();" for path, text in order.items() if path != first]
    last = _module(first, order[first], numbers)
    made = "\n".join(['(async () => {\n"use strict";', *parts, last, "})();\n"])
    return made.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def bundle_styles() -> str:
    """The page's styles, followed by those of the exported page."""
    return "\n".join([*(_static().joinpath(name).read_text(encoding="utf-8") for name in STYLESHEETS), _own("page.css")])


def _static() -> Traversable:
    return files("localrag.serve").joinpath("static")


def _own(name: str) -> str:
    return files("localrag.exchange").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _read_asset(path: str) -> str:
    return _own(REPLACED_MODULES[path]) if path in REPLACED_MODULES else _static().joinpath(path).read_text(encoding="utf-8")


def _collect(path: str, order: dict[str, str], above: tuple[str, ...]) -> None:
    """Add a module to `order`, after those that it imports."""
    if path in order:
        return
    if path in above:
        raise ValueError(f"{path} needs itself, by way of {', '.join(above)}")
    text = _read_asset(path)
    for match in _IMPORT.finditer(text):
        _collect(_needed_asset(path, match["path"]), order, (*above, path))
    order[path] = text


def _needed_asset(path: str, wanted: str) -> str:
    return normpath(join(path.rpartition("/")[0], wanted))


def _module(path: str, text: str, numbers: dict[str, str]) -> str:
    """A module's text without imports and exports, which returns its exports."""

    def taken(match: re.Match[str]) -> str:
        module = numbers[_needed_asset(path, match["path"])]
        if match["whole"]:
            return f"const {match['whole']} = {module}.default;\n"
        return f"const {{{match['names'].replace(' as ', ': ')}}} = {module};\n"

    text = _IMPORT.sub(taken, text)
    languages = ", ".join(f"{name}: {numbers[f'i18n/{name}.js']}" for name in OTHER_LANGUAGES if f"i18n/{name}.js" in numbers)
    text = _LANGUAGES.sub(lambda match: f"Promise.resolve({{{languages}}}[{match[1]}])", text)
    exports = [f"{name}" for name in _EXPORT.findall(text)]
    text = _EXPORT.sub("", text)
    for match in _LIST.finditer(text):
        pairs = (one.split(" as ") for one in match[1].split(",") if one.strip())
        exports += [f"{pair[-1].strip()}: {pair[0].strip()}" for pair in pairs]
    text = _LIST.sub("", text)
    if default := _DEFAULT.search(text):
        exports.append(f"default: {default[1] or 'whole'}")
        text = _DEFAULT.sub("" if default[1] else "const whole = ", text)
    if unsupported := re.search(r"^(?:import|export)\b.*|\bimport\(.*", text, re.MULTILINE):
        raise ValueError(f"{path}: {unsupported[0]!r} is not understood")
    return text + (f"\nreturn {{ {', '.join(exports)} }};" if exports else "")


MAX_QUOTES = 4  # of an entity


def write_html_page(db: Database, path: Path, level: int | None = None) -> dict[str, int]:
    """Write the page. Raises LocalragError if the graph has no layout, UsageError with a level, since the page shows all."""
    if level is not None:
        raise UsageError("The page always shows every level of communities.", "Leave out --level.")
    view = build_graph_view(db, layout.layout_state(db))
    if not view.entities:
        raise LocalragError(
            "The graph was made by an earlier version and has no picture yet.", "Create it; nothing else is redone: localrag index"
        )
    code, style = bundle_script(), bundle_styles()
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(_HTML_HEAD.format(policy=policy) + f'<style>{style}</style>\n</head>\n<body>\n<div id="app"></div>\n')
        out.write("<noscript>This page needs JavaScript. It loads nothing from other computers.</noscript>\n")
        out.write(
            f'<script type="text/plain" id="picture">{b64encode(view.data).decode()}</script>\n<script type="application/json" id="data">'
        )
        for piece in _data(db, view):
            out.write(piece)
        out.write(f"</script>\n<script>{code}</script>\n</body>\n</html>\n")
    counts = graph.counts(db)
    return {"entities": len(view.entities), "relationships": counts["relationships"], "communities": len(view.communities)}


_HTML_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>localrag</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
"""


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _json(value: Any) -> str:
    """JSON that is safe in a script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _data(db: Database, view: GraphView) -> Iterator[str]:
    """The data of the page in parts: an object whose lists have a row for each item of the graph view."""
    documents = {row["id"]: (n, row["path"]) for n, row in enumerate(export_rows.document_titles(db))}
    yield f'{{"tag":{_json(view.etag)},"counts":{_json(graph.counts(db))},"documents":{_json([path for _, path in documents.values()])}'
    yield from _list("communities", _communities(db, view))
    yield from _list("relationships", (replace_control_characters(row["description"]) for row in _joined(db, view)))
    yield from _list("entities", _entities(db, view, {key: n for key, (n, _) in documents.items()}))
    yield "}"


def _list(name: str, rows: Iterator[Any]) -> Iterator[str]:
    yield f',"{name}":['
    for n, row in enumerate(rows):
        yield ("," if n else "") + _json(row)
    yield "]"


def _communities(db: Database, view: GraphView) -> Iterator[list[Any]]:
    report_texts = {place["id"]: (report.title, report.summary) for place, report in export_rows.reports(db)}
    labels = layout.community_labels(db, view.communities)
    for key in view.communities:
        title, summary = report_texts.get(key, ("", ""))
        yield [key, community_number(labels[key]), replace_control_characters(title), replace_control_characters(summary)]


def _joined(db: Database, view: GraphView) -> Iterator[dict[str, Any]]:
    """The relationships of the graph view, in its order."""
    for row in export_rows.relationships(db):
        if row["source_id"] in view.entity_numbers and row["target_id"] in view.entity_numbers:
            yield row


def _entities(db: Database, view: GraphView, documents: dict[str, int]) -> Iterator[list[Any]]:
    for row in export_rows.entities(db):
        if row["id"] in view.entity_numbers:
            quotes = [
                [documents[q["document"]], q["part"], replace_control_characters(q["quote"])]
                for q in export_rows.first_mention_quotes(db, row["id"], MAX_QUOTES)
            ]
            texts = [replace_control_characters(row[name]) for name in ("name", "type", "description")]
            yield [
                view.entity_numbers[row["id"]],
                row["id"],
                *texts,
                [replace_control_characters(name) for name in row["names"]] or texts[:1],
                quotes,
            ]
