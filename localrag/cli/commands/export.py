"""`localrag export`: an index as files for other programs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption, one_of

if TYPE_CHECKING:
    from localrag.exchange.export import Exported

FORMATS = ("parquet", "graphml", "gexf", "csv", "obsidian", "jsonl", "html")
STDOUT = Path("-")


def export_command(
    format: Annotated[
        str,
        typer.Argument(
            help="parquet: Microsoft GraphRAG's tables. graphml, gexf: for Gephi and the like. csv: for Neo4j. obsidian: a vault of notes. "
            "jsonl: everything, a file a table. html: a page that any browser opens.",
            **one_of("format", FORMATS),
        ),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file (graphml, gexf, html; - for stdout) or folder to write.")],
    level: Annotated[int | None, typer.Option("--level", min=0, help="Deepest level of communities to write. Default: all.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is there; write into a folder beside other files. Those are kept.")
    ] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the graph, reports and passages as files for other programs."""
    from localrag.cli.views.terminal import write_json
    from localrag.library import Index

    with Index.open(index) as opened:
        if path == STDOUT:
            _to_stdout(lambda file: opened.export(format, file, level=level), format)
            return
        made = opened.export(format, path, level=level, force=force)
    if as_json:
        write_json({name: getattr(made, name) for name in made.__slots__} | {"path": str(made.path)})
    else:
        _say(made)


def _to_stdout(write: "Callable[[Path], Exported]", format: str) -> None:
    """Write a format that is one file to stdout, once it is whole."""
    import shutil
    import sys
    from tempfile import TemporaryDirectory

    from localrag.errors import UsageError
    from localrag.exchange.export import FILES

    if format not in FILES:
        raise UsageError(f"{format} is a folder of files and cannot go to stdout.", f"Name a folder, or choose {', '.join(FILES)}.")
    with TemporaryDirectory() as folder:
        made = write(Path(folder) / f"graph.{format}")
        with made.path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def _say(made: "Exported") -> None:
    """What was written, what of an earlier export stayed or went, and how to open it."""
    from localrag.cli.views.console import say

    counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in made.counts.items() if n)
    files = "" if len(made.files) == 1 else f" in {len(made.files)} files"
    say(f"{made.path}: {counts}{files} ({made.size / 1e6:.1f} MB).")
    if made.removed:
        say(f"{len(made.removed)} files of an earlier export that hold nothing any more were removed.")
    if made.kept:
        first = ", ".join(made.kept[:3]) + " …" * (len(made.kept) > 3)
        say(f"{len(made.kept)} notes stay as they are (you changed them above the line, or their subject is gone): {first}")
    say(_NEXT[made.format])


_NEXT = {
    "parquet": "Read it with Microsoft GraphRAG, graphrag-visualizer or pandas.",
    "graphml": "Open it with Gephi, Cytoscape or yEd, or read it with networkx.",
    "gexf": "Open it with Gephi: File → Open.",
    "csv": "How to load it into Neo4j: README.md in that folder.",
    "obsidian": "Open that folder as a vault in Obsidian; what you write below the line of a note stays when you export again.",
    "jsonl": "What its fields are: localrag help export-tables",
    "html": "Open it in a browser; it needs no network and no server.",
}
