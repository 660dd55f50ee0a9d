"""`localrag export`, `wiki`, `import`, `pack` and `unpack`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import localrag
from localrag.cli.options import IndexOption, JsonOption, QuietOption, choice_option, engine_options
from localrag.cli.views.terminal import escape_line, print_note, status_line, write_json, write_out, write_result

if TYPE_CHECKING:
    from localrag.exchange.export import ExportResult
    from localrag.exchange.import_index import ImportResult
    from localrag.exchange.pack import UnpackResult
    from localrag.exchange.wiki import WikiResult
    from localrag.exchange.wiki_check import WikiCheckResult


EXPORT_FORMATS = ("parquet", "csv", "jsonl", "graphml", "html")


def export_command(
    format: Annotated[
        str,
        typer.Argument(
            help="parquet: Microsoft GraphRAG's tables. graphml: for Gephi and similar programs. csv: for Neo4j. "
            "jsonl: everything, one file for each table. html: a page for any browser.",
            **choice_option("format", EXPORT_FORMATS),
        ),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file (graphml, html) or folder to write.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing file; write into a folder that has other files, which are kept.")
    ] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the graph, reports and passages as files for other programs."""
    with localrag.Index.open(index) as opened:
        result = opened.export(format, path, force=force)
    row = {name: getattr(result, name) for name in result.__slots__} | {"path": str(result.path)}
    write_result(row, _print_export, result, as_json=as_json)


def _print_export(result: "ExportResult") -> None:
    counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in result.counts.items() if n)
    files = "" if len(result.files) == 1 else f" in {len(result.files)} files"
    print_note(f"{result.path}: {counts}{files} ({result.size / 1e6:.1f} MB).")
    if result.removed:
        print_note(f"{len(result.removed)} files of an earlier export that are no longer needed were removed.")
    print_note(_USAGE_HINTS[result.format])


_USAGE_HINTS = {
    "parquet": "Read it with Microsoft GraphRAG, graphrag-visualizer or pandas.",
    "graphml": "Open it with Gephi, Cytoscape or yEd, or read it with networkx.",
    "csv": "How to load it into Neo4j: README.md in that folder.",
    "jsonl": "Description of the fields: localrag help export-tables",
    "html": "Open it in a browser; it needs no network and no server.",
}


def wiki_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the wiki. Created if missing.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: list dead quotes, edited pages, and what you wrote without support.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that has other files, which are kept.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the documents' entities and themes as linked pages, or bring them up to date. What you wrote in them is kept."""
    from localrag.project import open_for_query, open_read_only

    if check:
        from localrag.exchange.wiki_check import check_wiki

        with open_for_query(index) as project:
            checked = check_wiki(project, folder, _show_statement)
        _print_wiki_check(checked, as_json=as_json)
        if checked.findings:
            raise typer.Exit(1)
        return
    from localrag.exchange.wiki import update_wiki

    with open_read_only(index) as opened:
        result = update_wiki(opened, folder, force=force)
    write_result(asdict(result) | {"path": str(result.path)}, _print_wiki, result, folder, as_json=as_json)


def _show_statement(done: int, total: int) -> None:
    status_line.show(f"checking what you wrote: {done} of {total}" if done < total else "")


def _print_wiki(result: "WikiResult", folder: Path) -> None:
    import shlex

    counts = ", ".join(f"{n} {name}" for name, n in result.counts.items())
    deleted = f", {len(result.deleted)} deleted" if result.deleted else ""
    print_note(f"{result.path}: pages for {counts}. {len(result.written)} written{deleted}.")
    for name, text in (
        ("edited", "you changed the generated part, so it stays; delete the page to have it made anew"),
        ("gone", "no longer in the documents; kept, because you wrote in it"),
        ("busy", "changed meanwhile by another program; the next run updates it"),
    ):
        _print_listed("kept", tuple((path, text) for path in getattr(result, name)))
    print_note(f"Compare it with the documents: localrag wiki {shlex.quote(str(folder))} --check")


def _print_wiki_check(checked: "WikiCheckResult", *, as_json: bool) -> None:
    from localrag.serializers import serialize_citation

    if as_json:
        rows = [asdict(f) | {"citation": serialize_citation(f.citation) if f.citation else None} for f in checked.findings]
        write_json({"findings": rows, "counts": dict(checked.counts)})
        return
    for f in checked.findings:
        write_out(f"{escape_line(f.path)}:{f.line}  {f.problem}{': ' * bool(f.text)}{escape_line(f.text)}\n")
        if f.citation:
            write_out(f"    {escape_line(f.citation.place())}: “{escape_line(' '.join(f.citation.quote.split()))}”\n")
    counts = checked.counts
    left = f" {counts['unchecked_statements']} more statements of yours were not checked." if counts["unchecked_statements"] else ""
    shown = ", ".join(f"{counts[name]} {name}" for name in ("pages", "quotes", "statements"))
    print_note(f"{len(checked.findings)} problems in {shown}.{left}")


import_app = typer.Typer(no_args_is_help=True, help="Import the index of another program, so that nothing has to be extracted again.")
MAX_SHOWN = 20  # of the items left out

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that the other program wrote.")]


@import_app.command("graphrag")
def graphrag_command(folder: FolderArgument, index: IndexOption = None, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Import the output folder of Microsoft GraphRAG, versions 1 to 3."""
    from localrag.cli.views.progress import IndexProgress
    from localrag.exchange.foreign import read_graphrag
    from localrag.exchange.import_index import import_index
    from localrag.project import open_for_writing

    foreign = read_graphrag(folder)  # raises errors before an index folder is created
    with open_for_writing(index, engine=engine_options({}, quiet=quiet)) as project, IndexProgress(quiet=quiet) as progress:
        done = import_index(foreign, folder, project, progress)
    if as_json:
        left_out = [{"what": what, "reason": why} for what, why in done.skipped.items()]
        write_json(
            {"program": done.program, "known": done.is_duplicate, "found": done.found, "kept": done.n_imported, "left_out": left_out}
        )
    else:
        _print_import(done)


def _print_import(done: "ImportResult") -> None:
    if done.is_duplicate:
        print_note("This was imported before; nothing has changed.")
        return
    for what, n in done.n_imported.items():
        print_note(f"{what:<14}{n:>7} of {done.found[what]}")
    _print_listed("left out", tuple(done.skipped.items()))


def pack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, for example town.localrag.")],
    documents: Annotated[bool, typer.Option("--documents", help="Also pack the files that were indexed.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the index to one file for another machine, with checksums."""
    from localrag.exchange.pack import pack_index

    packed = pack_index(file, index, documents=documents)
    if as_json:
        left_out = [{"path": path, "reason": reason} for path, reason in packed.skipped_files]
        write_json({"path": str(packed.path), "size": packed.size, "manifest": packed.manifest, "left_out": left_out})
        return
    members = packed.manifest["members"]
    print_note(f"{packed.path}: {packed.size / 1e6:,.1f} MB, {len(members)} files, {packed.manifest['documents']} documents.")
    _print_listed("left out", packed.skipped_files)
    print_note(f"On the other machine: localrag unpack {file.name} DIR")


def unpack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `localrag pack`.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the index: DIR/.localrag. Created if missing.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Only verify the file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify a packed index and unpack it into a folder. Nothing is overwritten."""
    from localrag.exchange.pack import unpack_index, verify_pack

    result = verify_pack(file) if check else unpack_index(file, folder)
    write_result(asdict(result) | {"folder": str(result.folder) if result.folder else None}, _print_pack, result, file, as_json=as_json)


def _print_listed(what: str, listed: tuple[tuple[str, str], ...]) -> None:
    for name, detail in listed[:MAX_SHOWN]:
        print_note(f"{what}  {escape_line(name)}: {escape_line(detail)}")
    if len(listed) > MAX_SHOWN:
        print_note(f"{' ' * len(what)}  and {len(listed) - MAX_SHOWN} more (all of them: --json)")


def _print_pack(result: "UnpackResult", file: Path) -> None:
    origin = f"packed by localrag {escape_line(result.localrag)}"
    summary = f"{result.members} files, {result.size / 1e6:,.1f} MB, {result.documents} documents, {origin}"
    if result.folder is None:
        print_note(f"{file} is whole: {summary}.")
        _print_listed("left out when unpacked", result.left_out)
        return
    print_note(f"{result.folder}: {summary}.")
    _print_listed("left out", result.left_out)
    _print_listed("dropped", result.dropped)
    if not result.files:
        print_note("The documents themselves were not packed. Questions do not need them; see docs: how-to/move.")
    print_note(f'Ask it: localrag ask "…" --index {result.folder.parent}')
