"""The graph as one HTML file that any browser opens and that makes no network request.

It has the modules of the interactive page (`serve/static`, and `exchange/page`), the graph view, and the texts of the index. Browsers load
no modules from `file:` addresses, so an import map has each module as a `data:` address. The content security policy allows only scripts
with the nonce of this file, a hash of its data, and no request; texts are data with `<` escaped.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError
from localrag.serializers import GraphView, build_graph_view, community_number
from localrag.store import browse, export_rows, graph, layout
from localrag.text.sentences import replace_control_characters

_IMPORTED = re.compile(r'(?<= from ")\.[^"]+(?=";\n)|(?<=import\(`)\.[^`]+(?=`\))')  # the path in an import
REPLACED_MODULES = {"page/app.js": "app.js", "lib/api.js": "api.js"}  # of this package, at the paths where modules look for them
STYLESHEETS = ("app.css", "graph.css")
OTHER_LANGUAGES = ("de", "zh")


def page_modules() -> dict[str, str]:
    """Return the page's modules by path; each imports others by their path from the top, since a `data:` address has no folder."""
    modules: dict[str, str] = {}
    waiting = ["page/app.js", *(f"i18n/{language}.js" for language in OTHER_LANGUAGES)]

    def path_from_top(match: re.Match[str]) -> str:
        wanted = normpath(join(dirname(path), match[0]))
        waiting.extend([wanted] if "$" not in wanted else [])  # that of a language has a computed name
        return wanted

    while waiting:
        if (path := waiting.pop()) not in modules:
            modules[path] = _IMPORTED.sub(path_from_top, _read_asset(path))
    return modules


def bundle_styles() -> str:
    """The page's styles, followed by those of the exported page."""
    return "\n".join([*(_static().joinpath(name).read_text(encoding="utf-8") for name in STYLESHEETS), _own("page.css")])


def _static() -> Traversable:
    return files("localrag.serve").joinpath("static")


def _own(name: str) -> str:
    return files("localrag.exchange").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _read_asset(path: str) -> str:
    return _own(REPLACED_MODULES[path]) if path in REPLACED_MODULES else _static().joinpath(path).read_text(encoding="utf-8")


MAX_QUOTES = 4  # of an entity


def write_html_page(db: Database, path: Path) -> dict[str, int]:
    """Write the page. Raises LocalragError if the graph has no layout."""
    view = build_graph_view(db, layout.layout_state(db))
    if not view.entities:
        raise LocalragError(
            "The graph was made by an earlier version and has no picture yet.", "Create it; nothing else is redone: localrag index"
        )
    addresses = {path: f"data:text/javascript;base64,{b64encode(text.encode()).decode()}" for path, text in page_modules().items()}
    digest = sha256(view.data)  # the same index gives the same file, and no text in it can hold the hash of the whole
    for piece in _data(db, view):
        digest.update(piece.encode())
    nonce = digest.hexdigest()
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(
            _HTML_HEAD.format(policy=policy) + f'<style nonce="{nonce}">{bundle_styles()}</style>\n</head>\n<body>\n<div id="app"></div>\n'
        )
        out.write("<noscript>This page needs JavaScript. It loads nothing from other computers.</noscript>\n")
        out.write(f'<script type="text/plain" id="picture">{b64encode(view.data).decode()}</script>\n')
        out.write('<script type="application/json" id="data">')
        for piece in _data(db, view):
            out.write(piece)
        out.write(f'</script>\n<script type="importmap" nonce="{nonce}">{_json({"imports": addresses})}</script>\n')
        out.write(f'<script type="module" nonce="{nonce}">import "page/app.js";</script>\n</body>\n</html>\n')
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


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _data(db: Database, view: GraphView) -> Iterator[str]:
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
    summaries = {place["id"]: report.summary for place, report in export_rows.reports(db)}
    labels = browse.community_labels(db, view.communities)
    for key in view.communities:
        title, summary = (replace_control_characters(text) for text in (labels[key]["title"], summaries.get(key, "")))
        yield [key, community_number(labels[key]), title, summary]


def _joined(db: Database, view: GraphView) -> Iterator[dict[str, Any]]:
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
