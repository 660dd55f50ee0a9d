"""The graph as one page: a file that any browser opens, and that asks nobody for anything.

It holds the page's own modules, the picture of the graph, and what the documents say. Its policy lets no script run but that one, known by
its hash, and no request leave; texts of documents stand in it as data, with `<` escaped.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.errors import LocalragError, UsageError
from localrag.exchange import bundle
from localrag.exchange.plain import clean
from localrag.picture import Picture, make_picture
from localrag.store import graph, places, tables

QUOTES = 4  # of an entity


def write(db: Database, path: Path, level: int | None = None) -> dict[str, int]:
    """Write the page. Raises LocalragError where the graph has no picture, UsageError with a level: the picture shows all."""
    if level is not None:
        raise UsageError("The page shows every level of communities: it is zoomed from one to the next.", "Leave out --level.")
    made = make_picture(db, places.state(db))
    if not made.entities:
        raise LocalragError(
            "The graph was made by an earlier version and has no picture yet.", "Make one; nothing else is redone: localrag index"
        )
    code, style = bundle.script(), bundle.styles()
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(_HEAD.format(policy=policy) + f'<style>{style}</style>\n</head>\n<body>\n<div id="app"></div>\n')
        out.write("<noscript>This page needs JavaScript. It loads nothing from other computers.</noscript>\n")
        out.write(
            f'<script type="text/plain" id="picture">{b64encode(made.data).decode()}</script>\n<script type="application/json" id="data">'
        )
        for piece in _data(db, made):
            out.write(piece)
        out.write(f"</script>\n<script>{code}</script>\n</body>\n</html>\n")
    counts = graph.counts(db)
    return {"entities": len(made.entities), "relationships": counts["relationships"], "communities": len(made.communities)}


_HEAD = """<!doctype html>
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
    """JSON that can stand in a script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _data(db: Database, made: Picture) -> Iterator[str]:
    """The data of the page, piece by piece: an object whose lists hold a row for each thing in the picture."""
    documents = {row["id"]: (n, row["path"]) for n, row in enumerate(tables.document_titles(db))}
    yield f'{{"tag":{_json(made.tag)},"counts":{_json(graph.counts(db))},"documents":{_json([path for _, path in documents.values()])}'
    yield from _list("communities", _communities(db, made))
    yield from _list("relationships", (clean(row["description"]) for row in _joined(db, made)))
    yield from _list("entities", _entities(db, made, {key: n for key, (n, _) in documents.items()}))
    yield "}"


def _list(name: str, rows: Iterator[Any]) -> Iterator[str]:
    yield f',"{name}":['
    for n, row in enumerate(rows):
        yield ("," if n else "") + _json(row)
    yield "]"


def _communities(db: Database, made: Picture) -> Iterator[list[Any]]:
    found = {place["id"]: (report.title, report.summary) for place, report in tables.reports(db)}
    known = places.titles_of(db, made.communities)
    for key in made.communities:
        title, summary = found.get(key, ("", ""))
        yield [key, f"{known[key]['level']}.{known[key]['ordinal']}", clean(title), clean(summary)]


def _joined(db: Database, made: Picture) -> Iterator[dict[str, Any]]:
    """The relationships in the picture, in its order."""
    for row in tables.relationships(db):
        if row["source_id"] in made.numbers and row["target_id"] in made.numbers:
            yield row


def _entities(db: Database, made: Picture, documents: dict[str, int]) -> Iterator[list[Any]]:
    for row in tables.entities(db):
        if row["id"] in made.numbers:
            quotes = [[documents[q["document"]], q["part"], clean(q["quote"])] for q in tables.quotes_of(db, row["id"], QUOTES)]
            texts = [clean(row[name]) for name in ("name", "type", "description")]
            yield [made.numbers[row["id"]], row["id"], *texts, [clean(name) for name in row["names"]] or texts[:1], quotes]
