"""`localrag import`: what another program made of documents, taken over."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption, QuietOption, engine_options
from localrag.cli.views.terminal import in_line, write_json

if TYPE_CHECKING:
    from localrag.exchange.imports.foreign import Foreign
    from localrag.exchange.imports.write import Imported

import_app = typer.Typer(no_args_is_help=True, help="Take over an index of another program, so that nothing has to be extracted again.")
SHOWN = 20  # of what was left out

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that the other program wrote.")]


@import_app.command("graphrag")
def graphrag_command(folder: FolderArgument, index: IndexOption = None, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Take over the output folder of Microsoft GraphRAG, versions 1 to 3."""
    from localrag.exchange.imports.graphrag import read_graphrag

    _import(read_graphrag, folder, index, as_json=as_json, quiet=quiet)


@import_app.command("lightrag")
def lightrag_command(folder: FolderArgument, index: IndexOption = None, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Take over the working folder of LightRAG with its default stores."""
    from localrag.exchange.imports.working_dir import read_lightrag

    _import(read_lightrag, folder, index, as_json=as_json, quiet=quiet)


@import_app.command("nano")
def nano_command(folder: FolderArgument, index: IndexOption = None, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Take over the working folder of nano-graphrag with its default stores."""
    from localrag.exchange.imports.working_dir import read_nano

    _import(read_nano, folder, index, as_json=as_json, quiet=quiet)


def _import(read: "Callable[[Path], Foreign]", folder: Path, index: Path | None, *, as_json: bool, quiet: bool) -> None:
    from localrag.cli.views.progress import IndexProgress
    from localrag.exchange.imports.write import import_foreign
    from localrag.opening import open_for_writing

    foreign = read(folder)  # before a folder of an index is made
    with open_for_writing(index, engine=engine_options("", quiet=quiet)) as project, IndexProgress(quiet=quiet) as progress:
        done = import_foreign(foreign, folder, project, progress)
    if as_json:
        left_out = [{"what": what, "reason": why} for what, why in done.skipped.items()]
        write_json({"program": done.program, "known": done.known, "found": done.found, "kept": done.kept, "left_out": left_out})
    else:
        _print(done)


def _print(done: "Imported") -> None:
    from localrag.cli.views.console import say

    if done.known:
        say("This was imported before; nothing changed.")
        return
    for what, n in done.kept.items():
        say(f"{what:<14}{n:>7} of {done.found[what]}")
    for what, why in list(done.skipped.items())[:SHOWN]:
        say(f"left out  {in_line(what)}: {why}")
    if len(done.skipped) > SHOWN:
        say(f"          and {len(done.skipped) - SHOWN} more (all of them: --json)")
