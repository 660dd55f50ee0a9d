"""Writers of Parquet, JSONL, GraphML, and CSV for Neo4j.

Parquet: the tables of Microsoft GraphRAG 3, for programs that read its output. `graphrag_tables.toml` has their names and columns. GraphRAG
names the ends of a relationship by title, so titles are made unique. Rows are written in groups of limited size.

JSONL: everything in the index, one file a table, under localrag's own names.

GraphML: the graph for Gephi, Cytoscape, yEd and igraph, written by networkx. Characters that XML 1.0 forbids are replaced, and all nodes
have the same attributes, except positions.

CSV: files with the headers of `neo4j-admin database import`. Every text is quoted, so that one that begins with `=` or `-` stays a text.
Lists are separated by U+001F, which no text has.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from colorsys import hls_to_rgb
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlite_utils import Database

from localrag.serializers import community_number
from localrag.store import export_rows
from localrag.text.sentences import replace_control_characters

if TYPE_CHECKING:
    import pyarrow as pa


GROUP_ROWS = 10_000
GROUP_CHARS = 32 << 20  # of all texts of a group: documents may be large
NO_OBJECT = "NONE"  # of a claim without object or date
ExportedRow = dict[str, Any]


def parquet_schema() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Table → column → its type and the localrag value in it."""
    text = files("localrag.exchange").joinpath("graphrag_tables.toml").read_text(encoding="utf-8")
    return {name: {c: (kind, local_name) for c, (kind, local_name) in columns.items()} for name, columns in tomllib.loads(text).items()}


def write_parquet(db: Database, folder: Path) -> dict[str, int]:
    """Write the tables to a folder; returns the numbers of rows."""
    places, titles = _community_rows(db), export_rows.unique_entity_titles(db)
    documents, chunks, entities, relationships, communities, reports, claims = parquet_schema().items()
    tables: list[tuple[tuple[str, Any], Iterable[ExportedRow]]] = [
        (documents, _number_rows(map(_document, export_rows.documents(db)))),
        (chunks, _number_rows(export_rows.chunks(db))),
        (
            entities,
            _number_rows(row | {"title": titles[row["id"]], "frequency": len(row["chunk_ids"])} for row in export_rows.entities(db)),
        ),
        (
            relationships,
            _number_rows(
                row | {"source": titles[row["source_id"]], "target": titles[row["target_id"]]} for row in export_rows.relationships(db)
            ),
        ),
        (communities, (row | places[row["id"]] for row in export_rows.communities(db))),
        (reports, _parquet_reports(db, places)),
        (claims, _number_rows(_claim(row, titles) for row in export_rows.claims(db))),
    ]
    counts = {name: _write_parquet_table(folder / f"{name}.parquet", columns, rows) for (name, columns), rows in tables}
    if not counts[claims[0]]:  # GraphRAG leaves the table out, too, if no claims were extracted
        (folder / f"{claims[0]}.parquet").unlink()
        del counts[claims[0]]
    return counts


def _number_rows(rows: Iterable[ExportedRow]) -> Iterator[ExportedRow]:
    return (row | {"n": n} for n, row in enumerate(rows))


def _document(row: ExportedRow) -> ExportedRow:
    return row | {"metadata": json.dumps(dict(row["metadata"]), ensure_ascii=False) if row["metadata"] else None}


def _claim(row: ExportedRow, titles: Mapping[str, str]) -> ExportedRow:
    ends = {"subject": titles[row["subject_id"]], "object": titles.get(row["object_id"] or "", NO_OBJECT)}
    return row | ends | {"kind": "claim", "since": row["since"] or NO_OBJECT, "until": row["until"] or NO_OBJECT}


def _community_rows(db: Database) -> dict[str, ExportedRow]:
    period = str(export_rows.newest_document_time(db) or "")[:10]
    rows_by_id: dict[str, ExportedRow] = {}
    for n, (key, parent, size) in enumerate(export_rows.community_sizes(db)):
        above = rows_by_id.get(parent or "")
        rows_by_id[key] = {"n": n, "parent": above["n"] if above else -1, "children": [], "title": f"Community {n}", "size": size}
        rows_by_id[key]["period"] = period
        if above:
            above["children"].append(n)
    return rows_by_id


def _parquet_reports(db: Database, places: dict[str, ExportedRow]) -> Iterator[ExportedRow]:
    for place, report in export_rows.reports(db):
        findings = [{"explanation": f.explanation, "summary": f.summary} for f in report.findings]
        report_row: ExportedRow = {"title": report.title, "summary": report.summary, "findings": findings}
        report_row |= {"rating": report.rating, "rating_explanation": report.rating_explanation}
        yield (
            places[place["id"]] | place | report_row | {"markdown": report.markdown, "as_json": json.dumps(report_row, ensure_ascii=False)}
        )


def _write_parquet_table(path: Path, columns: Mapping[str, tuple[str, str]], rows: Iterable[ExportedRow]) -> int:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    schema = pa.schema([(name, _type(kind)) for name, (kind, _) in columns.items()])
    written = 0
    with ParquetWriter(path, schema, compression="zstd") as out:
        for group in _row_groups(rows):
            data = {name: [row[local_name] for row in group] for name, (_, local_name) in columns.items()}
            out.write_batch(pa.RecordBatch.from_pydict(data, schema=schema))
            written += len(group)
    return written


def _type(kind: str) -> "pa.DataType":
    import pyarrow as pa

    plain = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}
    lists = {f"list<{name}>": pa.list_(of) for name, of in plain.items()}
    finding = pa.struct([("explanation", pa.string()), ("summary", pa.string())])
    return (plain | lists | {"findings": pa.list_(finding)})[kind]


def _row_groups(rows: Iterable[ExportedRow]) -> Iterator[list[ExportedRow]]:
    group: list[ExportedRow] = []
    characters = 0
    for row in rows:
        group.append(row)
        characters += len(row.get("text") or "")
        if len(group) >= GROUP_ROWS or characters >= GROUP_CHARS:
            yield group
            group, characters = [], 0
    if group:
        yield group


DOCUMENT_PART_FIELDS = ("label", "start", "end")  # of a part of a document


def write_jsonl(db: Database, folder: Path) -> dict[str, int]:
    """Write one file a table to a folder; returns the numbers of rows."""
    tables: dict[str, Iterable[ExportedRow]] = {
        "documents": (
            row
            | {"metadata": dict(row["metadata"]), "parts": [dict(zip(DOCUMENT_PART_FIELDS, part, strict=False)) for part in row["parts"]]}
            for row in export_rows.documents(db)
        ),
        "chunks": export_rows.chunks(db),
        "entities": export_rows.entities(db),
        "mentions": export_rows.mentions(db),
        "relationships": export_rows.relationships(db),
        "evidence": export_rows.evidence(db),
        "claims": export_rows.claims(db),
        "communities": (row | {"number": f"{row['level']}.{row.pop('ordinal')}"} for row in export_rows.communities(db)),
        "reports": _jsonl_reports(db),
    }
    return {name: _write_jsonl_file(folder / f"{name}.jsonl", rows) for name, rows in tables.items()}


def _jsonl_reports(db: Database) -> Iterator[ExportedRow]:
    for place, report in export_rows.reports(db):
        findings = [asdict(finding) for finding in report.findings]
        report_row = {name: getattr(report, name) for name in ("title", "summary", "rating", "rating_explanation", "markdown")}
        yield {"community_id": place["id"], "number": community_number(place), **report_row, "findings": findings}


def _write_jsonl_file(path: Path, rows: Iterable[ExportedRow]) -> int:
    n = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for n, row in enumerate(rows, 1):  # noqa: B007
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return n


COMMUNITY_COLORS = 12  # as on the page: the hue of a level 0 community follows from its number


def write_graphml(db: Database, path: Path) -> dict[str, int]:
    """Write GraphML with entity ids as nodes.

    Nodes: label, type, description, degree, mentions, `community_0` and so on (the number, as in `localrag tree`), and x, y,
    size, r, g, b, which Gephi recognises. Edges: id, weight, strength, description.
    """
    import networkx as nx

    graph, roots = nx.Graph(), export_rows.root_communities(db)
    levels = export_rows.community_levels(db)
    for row in export_rows.entities(db):
        node: dict[str, Any] = {name: replace_control_characters(row[name]) for name in ("type", "description")}
        node |= {"label": replace_control_characters(row["name"]), "degree": row["degree"], "mentions": row["mentions"]}
        node |= {f"community_{n}": "" for n in levels} | {"size": float(row["r"] or 1.0)}
        node |= dict(zip("rgb", _color(roots.get(row["id"], 0)), strict=True))
        graph.add_node(row["id"], **node, **({"x": float(row["x"]), "y": float(row["y"])} if row["x"] is not None else {}))
    for row in export_rows.community_members(db):
        graph.nodes[row["entity_id"]][f"community_{row['level']}"] = row["number"]
    for row in export_rows.relationships(db):
        edge = {"id": row["id"], "weight": float(row["weight"]), "strength": float(row["strength"])}
        graph.add_edge(row["source_id"], row["target_id"], **edge, description=replace_control_characters(row["description"]))
    nx.write_graphml(graph, path, edge_id_from_attribute="id", named_key_ids=True)
    return {"entities": graph.number_of_nodes(), "relationships": graph.number_of_edges()}


def _color(root: int) -> list[int]:
    return [round(255 * c) for c in hls_to_rgb((root % COMMUNITY_COLORS) * 137.5 % 360 / 360, 0.42, 0.6)]


ARRAY_DELIMITER = "\x1f"


@dataclass(frozen=True, slots=True)
class Neo4jFile:
    """A file of nodes or relationships: column → header, label or type of each row, rows."""

    headers: Mapping[str, str]
    label: str
    rows: Iterable[ExportedRow]


def _node_file(label: str, columns: Mapping[str, str], rows: Iterable[ExportedRow]) -> Neo4jFile:
    return Neo4jFile({"id": f"id:ID({label})"} | {name: f"{name}:{kind}" for name, kind in columns.items()}, label, rows)


def _link_file(kind: str, a: str, b: str, columns: Mapping[str, str], rows: Iterable[ExportedRow]) -> Neo4jFile:
    ends = {"a": f":START_ID({a})", "b": f":END_ID({b})"}
    return Neo4jFile(ends | {name: f"{name}:{kind}" for name, kind in columns.items()}, kind, rows)


def write_neo4j(db: Database, folder: Path) -> dict[str, int]:
    """Write the CSV files and a README with the command to a folder; returns the numbers of rows."""
    nodes, links = _nodes(db), _link_files(db)
    counts = {name: _write_csv(folder / f"{name}.csv", file) for name, file in (nodes | links).items()}
    readme = _readme([name for name in nodes if counts[name]], [name for name in links if counts[name]])
    (folder / "README.md").write_text(readme, encoding="utf-8")
    return counts


def _nodes(db: Database) -> dict[str, Neo4jFile]:
    document = {"path": "string", "title": "string", "added_at": "string", "metadata": "string"}
    chunk = {"ordinal": "long", "start": "long", "end": "long", "tokens": "long", "part": "string", "text": "string"}
    entity = {"name": "string", "type": "string", "description": "string", "degree": "long", "mentions": "long", "names": "string[]"}
    entity |= {"x": "double", "y": "double"}
    community = {"number": "string", "level": "long", "size": "long", "title": "string", "summary": "string", "rating": "double"}
    claim = dict.fromkeys(("type", "status", "since", "until", "description", "quote"), "string")
    documents = (row | {"metadata": json.dumps(dict(row["metadata"]), ensure_ascii=False)} for row in export_rows.documents(db))
    return {
        "documents": _node_file("Document", document, documents),
        "chunks": _node_file("Chunk", chunk, export_rows.chunks(db)),
        "entities": _node_file("Entity", entity, export_rows.entities(db)),
        "communities": _node_file("Community", community | {"report": "string"}, _communities(db)),
        "claims": _node_file("Claim", claim, export_rows.claims(db)),
    }


def _communities(db: Database) -> Iterator[ExportedRow]:
    written = export_rows.reports(db)
    place, report = next(written, ({}, None))
    for row in export_rows.communities(db):
        report_values: ExportedRow = dict.fromkeys(("title", "summary", "rating", "report"))
        if report and place["id"] == row["id"]:  # both come in the same order
            report_values = {"title": report.title, "summary": report.summary, "rating": report.rating, "report": report.markdown}
            place, report = next(written, ({}, None))
        yield row | report_values | {"number": community_number(row), "size": len(row["entity_ids"])}


def _link_files(db: Database) -> dict[str, Neo4jFile]:
    def ends(rows: Iterable[ExportedRow], a: str, b: str, **more: str) -> Iterator[ExportedRow]:
        return (row | {"a": row[a], "b": row[b]} | more for row in rows if row[b] is not None)

    def about() -> Iterator[ExportedRow]:
        yield from ends(export_rows.claims(db), "id", "subject_id", role="subject")
        yield from ends(export_rows.claims(db), "id", "object_id", role="object")

    related = {"id": "string", "weight": "double", "strength": "double", "description": "string"}
    members, above = export_rows.community_members(db), export_rows.communities(db)
    mentions, relationships = export_rows.mention_pairs(db), export_rows.relationships(db)
    return {
        "part_of": _link_file("PART_OF", "Chunk", "Document", {}, ends(export_rows.chunks(db), "id", "document_id")),
        "mentions": _link_file("MENTIONS", "Chunk", "Entity", {"mentions": "long"}, ends(mentions, "chunk_id", "entity_id")),
        "related": _link_file("RELATED", "Entity", "Entity", related, ends(relationships, "source_id", "target_id")),
        "in_community": _link_file("IN_COMMUNITY", "Entity", "Community", {}, ends(members, "entity_id", "community_id")),
        "within": _link_file("WITHIN", "Community", "Community", {}, ends(above, "id", "parent_id")),
        "about": _link_file("ABOUT", "Claim", "Entity", {"role": "string"}, about()),
        "stated_in": _link_file("STATED_IN", "Claim", "Chunk", {}, ends(export_rows.claims(db), "id", "chunk_id")),
    }


def _write_csv(path: Path, file: Neo4jFile) -> int:
    n, last = 0, ":LABEL" if next(iter(file.headers)) == "id" else ":TYPE"
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(",".join([*file.headers.values(), last]) + "\n")
        for n, row in enumerate(file.rows, 1):  # noqa: B007
            out.write(",".join(map(_cell, [*(row[name] for name in file.headers), file.label])) + "\n")
    return n


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int | float):
        return repr(value)
    text = ARRAY_DELIMITER.join(map(replace_control_characters, value if isinstance(value, list) else [value]))
    return '"' + text.replace('"', '""') + '"'


def _readme(nodes: list[str], links: list[str]) -> str:
    files = [f"  --nodes={name}.csv" for name in nodes] + [f"  --relationships={name}.csv" for name in links]
    options = ["  --id-type=string", "  --multiline-fields=true", "  --array-delimiter=U+001F"]
    command = " \\\n".join(["neo4j-admin database import full", *files, *options, "  neo4j"])
    return f"""# This graph in Neo4j

Written by `localrag export csv`. To fill a new, empty database (fast; Neo4j 5 and later, with the database stopped), run in this folder:

```sh
{command}
```

It gives nodes Document, Chunk, Entity, Community and Claim, and relationships PART_OF, MENTIONS, RELATED, IN_COMMUNITY, WITHIN, ABOUT and
STATED_IN. RELATED has no direction of its own: match it as `(a)-[:RELATED]-(b)`.

The files are for databases. A spreadsheet program would compute cells whose text begins with `=`: import them there as text.
"""
