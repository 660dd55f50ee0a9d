"""`localrag collections`: the named sets of documents that `index --collection` makes."""

from contextlib import closing
from typing import Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import in_line, write_json, write_line

collections_app = typer.Typer(no_args_is_help=True, help="Show, rename and remove collections: named sets of documents.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="A collection shown by `localrag collections list`.")]


@collections_app.command("list")
def list_command(index: IndexOption = None, as_json: JsonOption = False) -> None:
    """List the collections with their numbers of documents."""
    from localrag.cli.views.console import say
    from localrag.library import Index

    found = Index.open(index).collections()
    if as_json:
        write_json({"collections": [{"name": name, "documents": n} for name, n in found.items()]})
        return
    for name, n in found.items():
        write_line(f"{n:>6}  {in_line(name)}")
    if not found:
        say("There is no collection. Make one: localrag index PATH --collection NAME")


@collections_app.command("show")
def show_command(name: Name, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """List the documents of a collection."""
    from localrag.library import Index

    paths = Index.open(index).paths([name])
    if as_json:
        write_json({"name": name, "paths": paths})
        return
    for path in paths:
        write_line(path)


@collections_app.command("rename")
def rename_command(
    name: Name, new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name. One that exists takes the documents in.")],
    index: IndexOption = None,
) -> None:  # fmt: skip
    """Rename a collection, or add its documents to another."""
    from localrag.cli.views.console import say
    from localrag.errors import UsageError
    from localrag.opening import find_index
    from localrag.store.collections import collections, rename
    from localrag.store.schema import open_index, writer_lock
    from localrag.where import collection_names

    if len(names := collection_names(new)) != 1:
        raise UsageError(f"{new!r} is not one name.", "Give one: localrag collections rename NAME NEW")
    folder = find_index(index)
    with writer_lock(folder), closing(open_index(folder)) as db:
        rename(db, name, names[0])
        say(f"{names[0]} has {collections(db)[names[0]]} documents.")


@collections_app.command("rm")
def rm_command(name: Name, index: IndexOption = None) -> None:
    """Remove a collection. Its documents stay in the index."""
    from localrag.cli.views.console import say
    from localrag.opening import find_index
    from localrag.store.collections import remove
    from localrag.store.schema import open_index, writer_lock

    folder = find_index(index)
    with writer_lock(folder), closing(open_index(folder)) as db:
        remove(db, name)
        say(f"The collection {name} is removed; its documents are still in the index.")
