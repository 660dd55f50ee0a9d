"""`localrag status`, `files`, `search`, `entity`, `tree`, `report`, `logs` and `source`: what an index holds. None asks a chat model."""

from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.completion import communities, entities
from localrag.cli.options import CollectionOption, IndexOption, JsonOption, RerankerOption, WhereOption, selection
from localrag.cli.views.terminal import write_json, write_line

if TYPE_CHECKING:
    from localrag.library import Index
    from localrag.records import Answer


def status_command(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow the run under way, until it ends.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what the index holds, what failed, and what it cost."""
    from localrag.cli.views.contents import print_status
    from localrag.cli.views.follow import follow_run
    from localrag.library import Index

    opened = Index.open(index)
    if watch:
        raise typer.Exit(follow_run(opened.folder, as_json=as_json))
    found = opened.status()
    if as_json:
        write_json(found)
    else:
        print_status(found)


def files_command(
    skipped: Annotated[bool, typer.Option("--skipped", help="Only files, or pages of them, that were skipped or failed.")] = False,
    collection: CollectionOption = None,
    index: IndexOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """List all files: indexed, skipped or failed, and why."""
    from localrag.library import Index
    from localrag.where import collection_names

    opened = Index.open(index)
    wanted = None if collection is None else set(opened.paths(collection_names(collection)))
    for row in opened.files():
        if (skipped and not row["reason"]) or (wanted is not None and row["path"] not in wanted):
            continue
        if as_json:
            write_json(row)
        else:
            write_line(f"{row['state']:<8} {row['path']}{': ' * bool(row['reason'])}{row['reason']}")


def search_command(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words or a question.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Number of passages.")] = 10,
    where: WhereOption = None,
    collection: CollectionOption = None,
    reranker: RerankerOption = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find passages by words, meaning and graph, without a chat model."""
    from localrag.cli.views.answers import shown_path
    from localrag.cli.views.console import say
    from localrag.cli.views.contents import print_passages
    from localrag.library import Index
    from localrag.store.selection import NothingSelected
    from localrag.where import EVERYTHING

    shown = ("start", "end", "score", "snippet", "text")
    with Index.open(index, reranker=reranker) as opened:
        try:
            passages = opened.search(query, k, selection=selection(where, collection) or EVERYTHING)
        except NothingSelected as nothing:
            say(f"{nothing} {nothing.hint}")
            passages = []
        found = [{"path": shown_path(p.path, opened.root)} | {name: getattr(p, name) for name in shown} for p in passages]
    if as_json:
        write_json(found)
    else:
        print_passages(found)


def entity_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Any name of the entity.", autocompletion=entities)],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an entity: names, description, relationships, mentions."""
    from localrag.cli.views.contents import entity_json, print_entity
    from localrag.library import Index

    opened = Index.open(index)
    found = [entity_json(one, opened.root) for one in opened.describe(name)]
    for one in found:
        if not as_json:
            print_entity(one)
    if as_json:
        write_json(found)


def tree_command(
    level: Annotated[int | None, typer.Option("--level", min=0, help="Deepest level to show.")] = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the communities by level, with report titles and coverage."""
    from localrag.cli.views.contents import print_tree, tree_json
    from localrag.library import Index

    found = tree_json(Index.open(index).tree(), level)
    if as_json:
        write_json(found)
    else:
        print_tree(found)


def report_command(
    number: Annotated[
        str, typer.Argument(metavar="ID", help="A community from `localrag tree`, for example 1.4.", autocompletion=communities)
    ],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the report of a community with its sources."""
    from localrag.cli.views.contents import print_report, report_json
    from localrag.library import Index

    opened = Index.open(index)
    found = report_json(number, opened.report(number), opened.root)
    if as_json:
        write_json(found)
    else:
        print_report(found)


def logs_command(
    n: Annotated[int, typer.Option("-n", min=1, help="Number of answers, newest first.")] = 3,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show past questions and answers."""
    from localrag.cli.views.contents import log_json, print_log
    from localrag.library import Index

    opened = Index.open(index)
    found = opened.answers(n)
    if as_json:
        write_json([log_json(*one, opened.root) for one in found])
    else:
        print_log(found)


def source_command(
    n: Annotated[int, typer.Argument(metavar="N", help="Number of a citation in the last answer.")],
    opens: Annotated[bool, typer.Option("--open", help="Open the file in its default program.")] = False,
    index: IndexOption = None,
) -> None:
    """Print the passage behind citation N of the last answer."""
    from localrag.cli.views.console import say
    from localrag.library import Index

    opened = Index.open(index)
    path = print_citation(opened, opened.last_answer(), n)
    if opens and typer.launch(str(opened.root / path)) != 0:
        say(f"{opened.root / path} could not be opened.")


def print_citation(index: "Index", last: "Answer | None", n: int, opens: str = "localrag source") -> str:
    """Print the passage behind a citation of the last answer; returns its path. `opens` is the command. Raises LocalragError."""
    from localrag.cli.views.answers import print_source
    from localrag.errors import LocalragError

    if last is None:
        raise LocalragError("No question was asked of this index yet.", 'Ask one: localrag ask "…"')
    found = next((c for c in last.citations if c.n == n), None)
    if found is None:
        raise LocalragError(
            f"The last answer has no citation {n}.", f"It has {len(last.citations)}{f': {opens} 1' if last.citations else '.'}"
        )
    print_source(found, index.passage(found), index.root, last.state_of(n))
    return found.path
