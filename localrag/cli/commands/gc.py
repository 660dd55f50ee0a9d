"""`localrag gc`."""

from typing import Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import write_json, write_line


def gc_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete what nothing needs any more: unused answers of models, old copies, caches. Documents and conversations stay."""
    from localrag.cli.views.console import say
    from localrag.cli.views.contents import freed_line
    from localrag.library import Index

    with Index.open(index) as opened:
        freed = opened.collect(only_say=dry_run)
        size = opened.status()["bytes"]
    if as_json:
        rows = [{"kind": one.kind, "n": one.n, "bytes": one.bytes} for one in freed]
        write_json({"freed": rows, "bytes": sum(one.bytes for one in freed), "dry_run": dry_run, "index_bytes": size})
        return
    for one in freed:
        write_line(freed_line(one))
    total = f"{sum(one.bytes for one in freed) / 1e6:.1f} MB"
    if not freed:
        say(f"There is nothing to delete; the index has {size / 1e6:.1f} MB.")
    elif dry_run:
        say(f"{total} would be freed; nothing was deleted. To do it: localrag gc")
    else:
        say(f"{total} freed; the index has {size / 1e6:.1f} MB.")
