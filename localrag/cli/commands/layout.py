"""`localrag layout`: how the picture of the graph is made."""

from typing import Annotated

import typer

from localrag.cli.options import IndexOption, QuietOption, engine_options, one_of

METHODS = ("hierarchical", "umap")


def layout_command(
    method: Annotated[
        str,
        typer.Option("--method", help="hierarchical: circles in circles. umap: by structural vectors.", **one_of("method", METHODS)),
    ] = "umap",
    dimensions: Annotated[int, typer.Option("--dimensions", min=2, max=1024, help="Of the structural vectors.")] = 64,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same picture.")] = 0,
    index: IndexOption = None,
    quiet: QuietOption = False,
) -> None:
    """Compute structural vectors of the entities, and lay out the graph. Later updates keep to it."""
    from localrag.cli.views.console import say
    from localrag.cli.views.progress import IndexProgress
    from localrag.errors import UsageError
    from localrag.index.pipeline import lay_out_anew
    from localrag.opening import find_index, open_for_writing
    from localrag.store import places

    folder = find_index(index)
    with open_for_writing(folder, engine=engine_options("", quiet=quiet)) as project, IndexProgress(quiet=quiet) as progress:
        picture = {"method": method, "dimensions": dimensions, "seed": seed}
        changed = lay_out_anew(project, progress, picture)
        ids, vectors = places.structural_vectors(project.db)
    if not ids:
        raise UsageError("This index has no graph yet.", "Make one: localrag index PATH")
    if not quiet:
        what = f"{len(ids)} entities: vectors of {vectors.shape[1]} dimensions, places by {method}."
        say(what if changed else f"{what} It was so already.")
        say("See it: localrag serve")
