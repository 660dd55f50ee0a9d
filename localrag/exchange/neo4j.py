"""The index for Neo4j: CSV files with the headers of `neo4j-admin database import`, and the same as Cypher statements.

Every text is in quotes, so that one which begins with `=` or `-` stays the text it is. Lists are divided by U+001F, which no text holds.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from sqlite_utils import Database

from localrag.exchange.plain import clean
from localrag.store import tables

BATCH = 500  # rows of a Cypher statement
DIVIDER = "\x1f"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Nodes:
    """A file of nodes: their label, their columns besides `id` with types, their rows."""

    label: str
    columns: Mapping[str, str]
    rows: Iterable[Row]


@dataclass(frozen=True, slots=True)
class Links:
    """A file of relationships: their type, the labels of both ends, their columns with types, their rows with `a` and `b`."""

    kind: str
    a: str
    b: str
    columns: Mapping[str, str]
    rows: Iterable[Row]


def write(db: Database, folder: Path, level: int | None = None) -> dict[str, int]:
    """Write the CSV files, `graph.cypher` and a README with the commands into a folder; returns the numbers of rows."""
    counts: dict[str, int] = {}
    nodes, links = _nodes(db, level), _links(db, level)
    with (folder / "graph.cypher").open("w", encoding="utf-8", newline="\n") as out:
        for one in nodes.values():
            name = f"localrag_{one.label.lower()}"
            out.write(f"CREATE CONSTRAINT {name} IF NOT EXISTS FOR (n:{one.label}) REQUIRE n.id IS UNIQUE;\n")
        for name, one in nodes.items():
            merge = f"MERGE (n:{one.label} {{id: row.id}}) SET n += row"
            columns = {"id": "string", **one.columns}
            header = [f"id:ID({one.label})", *(f"{c}:{kind}" for c, kind in one.columns.items()), ":LABEL"]
            counts[name] = _write(folder / f"{name}.csv", header, one.label, columns, one.rows, out, merge)
        for name, link in links.items():
            ends = f"MATCH (a:{link.a} {{id: row.a}}) MATCH (b:{link.b} {{id: row.b}})"
            own = ", ".join(f"{c}: row.{c}" for c in link.columns)
            columns = {"a": "string", "b": "string", **link.columns}
            header = [f":START_ID({link.a})", f":END_ID({link.b})", *(f"{c}:{kind}" for c, kind in link.columns.items()), ":TYPE"]
            merge = f"{ends} MERGE (a)-[r:{link.kind}]->(b)" + (f" SET r += {{{own}}}" if own else "")
            counts[name] = _write(folder / f"{name}.csv", header, link.kind, columns, link.rows, out, merge)
    readme = _readme([name for name in nodes if counts[name]], [name for name in links if counts[name]])
    (folder / "README.md").write_text(readme, encoding="utf-8")
    return counts


def _nodes(db: Database, level: int | None) -> dict[str, Nodes]:
    document = {"path": "string", "title": "string", "added_at": "string", "metadata": "string"}
    chunk = {"ordinal": "long", "start": "long", "end": "long", "tokens": "long", "part": "string", "text": "string"}
    entity = {"name": "string", "type": "string", "description": "string", "degree": "long", "mentions": "long", "names": "string[]"}
    entity |= {"x": "double", "y": "double"}
    community = {"number": "string", "level": "long", "size": "long", "title": "string", "summary": "string", "rating": "double"}
    claim = dict.fromkeys(("type", "status", "since", "until", "description", "quote"), "string")
    documents = (row | {"metadata": json.dumps(dict(row["metadata"]), ensure_ascii=False)} for row in tables.documents(db))
    return {
        "documents": Nodes("Document", document, documents),
        "chunks": Nodes("Chunk", chunk, tables.chunks(db)),
        "entities": Nodes("Entity", entity, tables.entities(db)),
        "communities": Nodes("Community", community | {"report": "string"}, _communities(db, level)),
        "claims": Nodes("Claim", claim, tables.claims(db)),
    }


def _communities(db: Database, level: int | None) -> Iterator[Row]:
    written = tables.reports(db, level)
    place, report = next(written, ({}, None))
    for row in tables.communities(db, level):
        own: Row = dict.fromkeys(("title", "summary", "rating", "report"))
        if report and place["id"] == row["id"]:  # both come in the same order
            own = {"title": report.title, "summary": report.summary, "rating": report.rating, "report": report.markdown}
            place, report = next(written, ({}, None))
        yield row | own | {"number": f"{row['level']}.{row['ordinal']}", "size": len(row["entity_ids"])}


def _links(db: Database, level: int | None) -> dict[str, Links]:
    def ends(rows: Iterable[Row], a: str, b: str, **more: str) -> Iterator[Row]:
        return (row | {"a": row[a], "b": row[b]} | more for row in rows if row[b] is not None)

    def about() -> Iterator[Row]:
        yield from ends(tables.claims(db), "id", "subject_id", role="subject")
        yield from ends(tables.claims(db), "id", "object_id", role="object")

    related = {"id": "string", "weight": "double", "strength": "double", "description": "string"}
    above = tables.communities(db, level)
    return {
        "part_of": Links("PART_OF", "Chunk", "Document", {}, ends(tables.chunks(db), "id", "document_id")),
        "mentions": Links("MENTIONS", "Chunk", "Entity", {"mentions": "long"}, ends(tables.mention_pairs(db), "chunk_id", "entity_id")),
        "related": Links("RELATED", "Entity", "Entity", related, ends(tables.relationships(db), "source_id", "target_id")),
        "in_community": Links("IN_COMMUNITY", "Entity", "Community", {}, ends(tables.members(db, level), "entity_id", "community_id")),
        "within": Links("WITHIN", "Community", "Community", {}, ends(above, "id", "parent_id")),
        "about": Links("ABOUT", "Claim", "Entity", {"role": "string"}, about()),
        "stated_in": Links("STATED_IN", "Claim", "Chunk", {}, ends(tables.claims(db), "id", "chunk_id")),
    }


def _write(path: Path, header: list[str], last: str, columns: Mapping[str, str], rows: Iterable[Row], cypher: TextIO, merge: str) -> int:
    """One CSV file, and its rows as Cypher statements; `last` is the label or type that ends each row."""
    batch: list[str] = []
    n = 0
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(",".join(header) + "\n")
        for n, row in enumerate(rows, 1):  # noqa: B007
            values = {c: clean(v) if isinstance(v := row[c], str) else v for c in columns}
            out.write(",".join(map(_cell, [*values.values(), last])) + "\n")
            batch.append("{" + ", ".join(f"{c}: {_literal(v)}" for c, v in values.items() if v is not None) + "}")
            if len(batch) == BATCH:
                _statement(batch, cypher, merge)
    _statement(batch, cypher, merge)
    return n


def _statement(batch: list[str], out: TextIO, merge: str) -> None:
    if batch:
        out.write("UNWIND [\n" + ",\n".join(batch) + f"\n] AS row\n{merge};\n")
        batch.clear()


def _cell(value: Any) -> str:
    """A value in a CSV file: texts in quotes, numbers without, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return repr(value)
    text = DIVIDER.join(map(clean, value)) if isinstance(value, list) else str(value)
    return '"' + text.replace('"', '""') + '"'


_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t"})


def _literal(value: Any) -> str:
    """A value in Cypher. `\\u` is split, since Cypher reads `\\u0041` as a character also behind a backslash."""
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_literal(clean(one)) for one in value) + "]"
    return "'" + str(value).translate(_ESCAPED).replace("\\\\u", "\\\\' + 'u") + "'"


def _readme(nodes: list[str], links: list[str]) -> str:
    files = [f"  --nodes={name}.csv" for name in nodes] + [f"  --relationships={name}.csv" for name in links]
    options = ["  --id-type=string", "  --multiline-fields=true", "  --array-delimiter=U+001F"]
    command = " \\\n".join(["neo4j-admin database import full", *files, *options, "  neo4j"])
    return f"""# This graph in Neo4j

Written by `localrag export csv`. Into a new, empty database (fast; Neo4j 5 and later, the database stopped), from this folder:

```sh
{command}
```

Into a database that runs, also one that holds other things (run again, it changes only what is other):

```sh
cypher-shell --file graph.cypher
```

Both give nodes Document, Chunk, Entity, Community and Claim, and relationships PART_OF, MENTIONS, RELATED, IN_COMMUNITY, WITHIN, ABOUT and
STATED_IN. RELATED has no direction of its own: match it as `(a)-[:RELATED]-(b)`.

The files are for databases. A spreadsheet program would compute cells whose text begins with `=`: import them there as text.
"""
