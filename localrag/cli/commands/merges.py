"""`localrag merges`: which names were made one entity, and the user's own word on it."""

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.completion import entities
from localrag.cli.options import AllowHostOption, AtOnceOption, DeterministicOption, EngineOption, IndexOption, QuietOption, engine_options
from localrag.cli.views.terminal import write_json

if TYPE_CHECKING:
    from localrag.engine.settings import EngineOptions

merges_app = typer.Typer(no_args_is_help=True, help="Show, undo and add merges of names. Decisions are kept in aliases.txt.")


@merges_app.command("list")
def list_command(
    index: IndexOption = None,
    similar: Annotated[bool, typer.Option("--similar", help="Names with similar spelling that were kept apart.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List merged names with reason and score."""
    from localrag.cli.views.tables import print_merges
    from localrag.library import Index

    found = Index.open(index).merges(done=not similar)
    if as_json:
        rows = [{"id": n, "name": m.name, "into": m.into, "reason": m.reason, "score": m.score} for n, m in found]
        write_json({"merges": rows})
    else:
        print_merges(found)


@merges_app.command("undo")
def undo_command(
    number: Annotated[int, typer.Argument(metavar="N", help="Number shown by `localrag merges list`.")],
    index: IndexOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
) -> None:
    """Undo a merge, now and in every later update."""
    from localrag.errors import UsageError
    from localrag.library import Index

    known = dict(Index.open(index).merges())
    if number not in known:
        raise UsageError(f"There is no merge {number}.", "See them: localrag merges list")
    merge = known[number]
    _decide(
        index,
        f"{merge.name} {'=' if merge.name == merge.into else '!='} {merge.into}",
        engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet),
        quiet=quiet,
    )


@merges_app.command("add")
def add_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name in the documents.", autocompletion=entities)],
    into: Annotated[str, typer.Argument(metavar="INTO", help="The entity that it names.", autocompletion=entities)],
    index: IndexOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
) -> None:
    """Merge a name into an entity, now and in every later update."""
    from localrag.errors import UsageError
    from localrag.index.graph.spelling import normalise
    from localrag.opening import find_index
    from localrag.store import graph
    from localrag.store.schema import open_index

    with closing(open_index(find_index(index))) as db:
        known = {normalise(alias) for alias in graph.aliases(db)}
    for one in (name, into):
        if normalise(one) not in known:
            raise UsageError(f"No entity is called {one!r}.", 'Look for it: localrag status, or localrag ask "…"')
    _decide(
        index,
        f"{name} = {into}",
        engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet),
        quiet=quiet,
    )


def _decide(index: IndexOption, line: str, options: "EngineOptions", *, quiet: bool) -> None:
    """Write a decision and build the graph anew."""
    from localrag.cli.views.console import say
    from localrag.cli.views.progress import IndexProgress
    from localrag.index.graph.aliases import add_alias
    from localrag.index.pipeline import rebuild_graph
    from localrag.opening import open_for_writing

    with open_for_writing(index, engine=options) as project, IndexProgress(quiet=quiet) as progress:
        add_alias(project.folder, line)
        asyncio.run(rebuild_graph(project, progress))
    if not quiet:
        say(f"{line}: kept in {project.folder / 'aliases.txt'}")
