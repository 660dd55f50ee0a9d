"""Commands that show or check what an index contains, and edit its collections and merges; none asks a chat model."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import localrag
from localrag.cli.options import (
    FILTER_OPTIONS,
    CollectionOption,
    IndexOption,
    JsonOption,
    OptionValues,
    QuietOption,
    RerankerOption,
    document_filter,
    engine_options,
    joined_words,
    with_engine,
    with_options,
)
from localrag.cli.views.terminal import escape_line, print_note, write_json, write_line, write_out, write_result
from localrag.errors import LocalragError, UsageError
from localrag.filters import NO_FILTER, parse_collection_names
from localrag.records import CheckLine, to_row

if TYPE_CHECKING:
    from sqlite_utils import Database

    from localrag.index import Index
    from localrag.records import Answer, CheckLine
    from localrag.store.check import CheckResult


def status_command(
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the index holds, what failed, and what it cost."""
    from localrag.cli.views.contents import print_status

    write_result(localrag.Index.open(index).status(), print_status, as_json=as_json)


def files_command(
    skipped: Annotated[bool, typer.Option("--skipped", help="Only files, or pages of them, that were skipped or failed.")] = False,
    collection: CollectionOption = None,
    index: IndexOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """List all files: indexed, skipped or failed, and why."""
    opened = localrag.Index.open(index)
    wanted = None if collection is None else set(opened.paths(parse_collection_names(collection)))
    for row in opened.files():
        if (skipped and not row["reason"]) or (wanted is not None and row["path"] not in wanted):
            continue
        if as_json:
            write_json(row)
        else:
            write_line(f"{row['state']:<8} {row['path']}{': ' * bool(row['reason'])}{row['reason']}")


@with_options("selected", **FILTER_OPTIONS)
def search_command(
    query: Annotated[list[str], typer.Argument(metavar="QUERY…", help="Words or a question.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of passages.")] = 10,
    *,
    selected: OptionValues,
    reranker: RerankerOption = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find passages by words, meaning and graph, without a chat model."""
    from localrag.cli.views.answers import display_path
    from localrag.cli.views.contents import print_passages
    from localrag.store.filtered import NoMatchingDocuments

    with localrag.Index.open(index, reranker=reranker) as opened:
        try:
            passages = opened.search(joined_words(query), k, selection=document_filter(selected) or NO_FILTER)
        except NoMatchingDocuments as nothing:
            print_note(f"{nothing} {nothing.hint}")
            passages = []
        root = opened.root
    keys = ("start", "end", "headings", "score", "snippet", "text")
    rows = [to_row(passage, {"best_sentence": "snippet"}) for passage in passages]
    found = [{"path": display_path(row["path"], root)} | {key: row[key] for key in keys} for row in rows]
    write_result(found, print_passages, as_json=as_json)


def entity_command(
    name: Annotated[list[str], typer.Argument(metavar="NAME…", help="Any name of the entity.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an entity: names, description, relationships, mentions."""
    from localrag.cli.views.contents import entity_json, print_entities

    opened = localrag.Index.open(index)
    found = [entity_json(one, opened.root) for one in opened.describe(joined_words(name))]
    write_result(found, print_entities, as_json=as_json)


@with_options("selected", **FILTER_OPTIONS)
def themes_command(
    topic: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Only what the documents say about it.")] = None,
    *,
    selected: OptionValues,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the themes of the documents, with the number of documents about each and sentences of them."""
    from localrag.cli.views.contents import print_themes

    about = joined_words(topic or [])
    with localrag.Index.open(index) as opened:
        themes = opened.themes(about, selection=document_filter(selected) or NO_FILTER)
        if about and not themes:
            print_note(f"The documents say nothing about {about}. All their themes: localrag themes")
    write_result(themes, print_themes, as_json=as_json)


def tree_command(
    level: Annotated[int | None, typer.Option("--level", min=0, help="Deepest level to show.")] = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the communities by level, with report titles and coverage."""
    from localrag.cli.views.contents import print_tree, tree_json

    roots = tree_json(localrag.Index.open(index).tree(), level)
    write_result(roots, print_tree, as_json=as_json)


def report_command(
    number: Annotated[str, typer.Argument(metavar="ID", help="A community from `localrag tree`, for example 1.4.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the report of a community with its sources."""
    from localrag.cli.views.contents import print_report, report_json

    opened = localrag.Index.open(index)
    report = report_json(number, opened.report(number), opened.root)
    write_result(report, print_report, as_json=as_json)


def logs_command(
    n: Annotated[int, typer.Option("-n", min=1, help="Number of answers, newest first.")] = 3,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show past questions and answers."""
    from localrag.cli.views.answers import print_past_answers
    from localrag.cli.views.contents import log_json

    opened = localrag.Index.open(index)
    answers = opened.answers(n)
    shown = [(at, answer) for _, at, answer in answers]
    write_result([log_json(*one, opened.root) for one in answers], print_past_answers, shown, opened.root, as_json=as_json)


def source_command(
    n: Annotated[int, typer.Argument(metavar="N", help="Number of a citation in the last answer.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the passage behind citation N of the last answer."""
    opened = localrag.Index.open(index)
    print_citation(opened, opened.last_answer(), n, as_json=as_json)


def print_citation(index: "Index", last: "Answer | None", n: int, opens: str = "localrag source", *, as_json: bool = False) -> None:
    """Print the passage of a citation. `opens` is the command for error hints. Raises LocalragError."""
    from localrag.cli.views.answers import print_source, source_json

    if last is None:
        raise LocalragError("No question has been asked of this index yet.", 'Ask one: localrag ask "…"')
    citation = next((c for c in last.citations if c.n == n), None)
    if citation is None:
        raise LocalragError(
            f"The last answer has no citation {n}.", f"It has {len(last.citations)}{f': {opens} 1' if last.citations else '.'}"
        )
    shown = (citation, index.passage(citation), index.root, last.state_of(n))
    write_result(source_json(*shown), print_source, *shown, as_json=as_json)


collections_app = typer.Typer(no_args_is_help=True, help="List, rename and remove collections: named sets of documents.")
CollectionNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A collection shown by `localrag collections list`.")]


@collections_app.command("list")
def list_collections_command(index: IndexOption = None, as_json: JsonOption = False) -> None:
    """List the collections with the number of their documents."""
    sizes = localrag.Index.open(index).collections()
    rows = [{"name": name, "documents": n} for name, n in sizes.items()]
    lines = "\n".join(f"{n:>6}  {escape_line(name)}" for name, n in sizes.items())
    write_result({"collections": rows}, write_out, lines and f"{lines}\n", as_json=as_json)
    if not sizes and not as_json:
        print_note("There is no collection. Create one: localrag index PATH --collection NAME")


@contextmanager
def writable(index: Path | None) -> "Iterator[tuple[Database, Path]]":
    """Open the database of an index for a change that needs no model; with its folder."""
    from localrag.project import find_index
    from localrag.store.opening import open_index, writer_lock

    folder = find_index(index)
    with writer_lock(folder), closing(open_index(folder)) as db:
        yield db, folder


@collections_app.command("rename")
def rename_collection_command(
    name: CollectionNameArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name. If it exists, the documents are added to it.")],
    index: IndexOption = None,
) -> None:
    """Rename a collection, or add its documents to another."""
    from localrag.store.collections import collections, rename

    if len(names := parse_collection_names(new)) != 1:
        raise UsageError(f"{new!r} is not a single name.", "Give one: localrag collections rename NAME NEW")
    with writable(index) as (db, _):
        rename(db, name, names[0])
        print_note(f"{names[0]} has {collections(db)[names[0]]} documents.")


@collections_app.command("rm")
def rm_collection_command(name: CollectionNameArgument, index: IndexOption = None) -> None:
    """Remove a collection. Its documents stay in the index."""
    from localrag.store.collections import remove

    with writable(index) as (db, _):
        remove(db, name)
        print_note(f"The collection {name} is removed; its documents are still in the index.")


merges_app = typer.Typer(no_args_is_help=True, help="Show, undo and add merges of names. Decisions are kept in aliases.txt.")


@merges_app.command("list")
def list_merges_command(
    index: IndexOption = None,
    similar: Annotated[bool, typer.Option("--similar", help="Names with similar spelling that were kept apart.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List merged names with reason and score."""
    from localrag.cli.views.console import print_rows

    merges = localrag.Index.open(index).name_merges(done=not similar)
    rows = [{"id": n, "name": m.name, "into": m.entity_name, "reason": m.reason, "score": m.score} for n, m in merges]
    write_result({"merges": rows}, print_rows, rows, as_json=as_json)


@merges_app.command("undo")
@with_engine
def undo_merge_command(
    number: Annotated[int, typer.Argument(metavar="N", help="Number shown by `localrag merges list`.")],
    index: IndexOption = None,
    *,
    engine: OptionValues,
    quiet: QuietOption = False,
) -> None:
    """Undo a merge, now and in every later update."""
    merges = dict(localrag.Index.open(index).name_merges())
    if number not in merges:
        raise UsageError(f"There is no merge {number}.", "See them: localrag merges list")
    merge = merges[number]
    _decide(index, f"{merge.name} {'=' if merge.name == merge.entity_name else '!='} {merge.entity_name}", engine, quiet=quiet)


@merges_app.command("add")
@with_engine
def add_merge_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name in the documents.")],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The entity that it names.")],
    index: IndexOption = None,
    *,
    engine: OptionValues,
    quiet: QuietOption = False,
) -> None:
    """Merge a name into an entity, now and in every later update."""
    from localrag.indexing.graph.entity_resolution import name_key
    from localrag.project import find_index
    from localrag.store import graph
    from localrag.store.opening import open_index

    with closing(open_index(find_index(index))) as db:
        known = {name_key(alias) for alias in graph.aliases(db)}
    for one in (name, into):
        if name_key(one) not in known:
            raise UsageError(f"No entity is called {one!r}.", 'Look for it: localrag status, or localrag ask "…"')
    _decide(index, f"{name} = {into}", engine, quiet=quiet)


def _decide(index: Path | None, line: str, engine: OptionValues, *, quiet: bool) -> None:
    import asyncio

    from localrag.cli.views.progress import IndexProgress
    from localrag.indexing.graph.entity_resolution import add_alias
    from localrag.indexing.pipeline import rebuild_graph
    from localrag.project import open_for_writing

    options = engine_options(engine, quiet=quiet)
    with open_for_writing(index, engine=options) as project, IndexProgress(quiet=quiet) as progress:
        add_alias(project.folder, line)
        asyncio.run(rebuild_graph(project, progress))
    if not quiet:
        print_note(f"{line}: kept in {project.folder / 'aliases.txt'}")


INDEX_COMMAND = "localrag index PATH"  # command that repairs by indexing
LOST_HINT = "Restore a backup of the index, or move it elsewhere and index again."


def check_command(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what needs no model. Keeps a copy of the database.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify the index: database, passages, graph, reports, vectors."""
    from localrag.project import find_index
    from localrag.store.check import check_index, problems, repair_index
    from localrag.store.foreign import drop_foreign_schema
    from localrag.store.opening import open_index, writer_lock

    folder = find_index(index)
    with ExitStack() as opened:
        if repair:
            opened.enter_context(writer_lock(folder))
        rebuilt = drop_foreign_schema(folder) if repair else None
        db = opened.enter_context(closing(open_index(folder, create=repair)))
        parts = check_index(db, folder)
        copy = (repair_index(db, folder) or rebuilt) if repair else None
        after = check_index(db, folder) if copy else parts
    left = list(problems(after))
    lines = _lines(parts, after if copy else None)
    following = _what_next(after, copy, bool(left))
    print_check_result(lines, as_json=as_json, repaired=bool(copy), copy=str(copy or ""), next=following)
    if not as_json:
        print_note(f"{following}\nThe database as it was: {copy}" if copy else following)
    if left:
        raise typer.Exit(1)


def _lines(parts: "list[CheckResult]", after: "list[CheckResult] | None") -> "list[CheckLine]":
    """Check lines: one per intact part, and one per problem; `after` is the result of the check after a repair."""
    lines, left = [], {w.text: w.is_pending for part in after or () for w in part.problems}
    for part in parts:
        if not part.problems:
            lines.append(CheckLine(part.name, "ok", part.summary))
        for wrong in part.problems:
            if wrong.is_pending or left.get(wrong.text):
                lines.append(CheckLine(part.name, "warn", wrong.text, INDEX_COMMAND))
            elif after is None:
                lines.append(CheckLine(part.name, "fail", wrong.text, "localrag check --repair"))
            elif wrong.text in left:
                lines.append(CheckLine(part.name, "fail", wrong.text, LOST_HINT))
            else:
                lines.append(CheckLine(part.name, "warn", f"mended: {wrong.text}"))
    return lines


def _what_next(parts: "list[CheckResult]", copy: Path | None, left: bool) -> str:
    if left and not copy:
        return "Repair it: localrag check --repair"
    if left:
        return f"The rest cannot be repaired. {LOST_HINT}"
    if any(w.is_pending for part in parts for w in part.problems):
        return f"The next run creates what is missing: {INDEX_COMMAND}, with the paths you indexed."
    return "The index is sound."


def print_check_result(lines: "list[CheckLine]", *, as_json: bool, **rest: object) -> None:
    """Print the result of a check as lines, or as one JSON object that includes `rest`."""
    if as_json:
        from dataclasses import asdict

        ok = all(line.state != "fail" for line in lines)
        write_json({"ok": ok, "checks": [asdict(line) for line in lines]} | rest)
    else:
        from localrag.cli.views.tables import print_check_lines  # imports libraries that a machine under check may lack

        print_check_lines(lines)
