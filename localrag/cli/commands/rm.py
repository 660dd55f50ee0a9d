"""`localrag rm`."""

from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    JsonOption,
    ProgressOption,
    QuietOption,
    engine_options,
)
from localrag.cli.views.terminal import listener, write_event, write_json


def rm_command(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH…", help="Files or folders listed by `localrag files`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every document, and all reports, answers and conversations.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    index: IndexOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
    progress: ProgressOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Remove documents from the index, with all answers about them. The files stay."""
    from localrag.cli.views.console import confirmed, say
    from localrag.cli.views.progress import IndexProgress
    from localrag.errors import UsageError
    from localrag.library import Index

    if bool(paths) == everything:
        raise UsageError("Say what to remove: paths, or --all.", "Those there are: localrag files")
    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet)
    with Index.open(index, engine=chosen) as opened, opened.writing():
        gone = opened.paths() if everything else opened.documents_at(paths or [])
        if everything and not yes and not confirmed(f"Remove all {len(gone)} documents, and all that was made and asked?"):
            raise UsageError(f"All {len(gone)} documents would be removed; nothing was.", "If they are to go: localrag rm --all --yes")
        with IndexProgress(quiet=quiet, shown=progress) as bars:
            gone = opened.clear(on_progress=bars) if everything else opened.remove(paths or [], on_progress=bars)
        found = {"removed": gone, "documents": len(opened.paths()), "seconds": round(bars.seconds, 1)}
        if listener.on:
            write_event("end", state="complete", **found)
        if as_json:
            write_json(found)
        if as_json or listener.on:
            return
        say(f"{len(gone)} documents are out of the index; no copy of their text is left in it. The files themselves were not touched.")
        say("To keep them out when the folder is indexed again, list them in its .localragignore.")
