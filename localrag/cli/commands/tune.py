"""`localrag tune`."""

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    JsonOption,
    QuietOption,
    engine_options,
)
from localrag.cli.views.terminal import write_json, write_out

if TYPE_CHECKING:
    from localrag.config import Domain
    from localrag.index.extraction.tune import Compared
    from localrag.project import Project


def tune_command(
    index: IndexOption = None,
    passages: Annotated[int, typer.Option("--passages", min=1, help="Number of chunks to read.")] = 8,
    selection: Annotated[str, typer.Option("--selection", help="auto: typical chunks. random. top: the first ones.")] = "auto",
    types: Annotated[str, typer.Option("--types", metavar="A,B,…", help="Use these entity types instead of discovering them.")] = "",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last tuning.")] = False,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Describe these documents in domain.toml (subject, types, examples) and show what that changes."""
    from localrag.errors import UsageError
    from localrag.llm.domain import FILE_NAME, undo_domain, write_domain
    from localrag.opening import find_index, open_for_writing

    if undo:
        folder = find_index(index)
        if not undo_domain(folder):
            raise UsageError(f"{folder} has no {FILE_NAME}: there is nothing to undo.", "Make one: localrag tune")
        if as_json:
            write_json({"undone": True, "file": str(folder / FILE_NAME)})
        sys.stderr.write("Taken back. Extract anew: localrag index PATH\n")
        return
    if selection not in ("auto", "random", "top"):
        raise UsageError(f"There is no selection {selection!r}.", "Choose auto, random or top.")
    chosen = tuple(t.strip() for t in types.split(",") if t.strip())
    options = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=quiet)
    with open_for_writing(find_index(index), engine=options) as project:
        domain, compared = asyncio.run(_tune(project, passages, selection, chosen, seed))
        write_domain(project.folder, domain)
        path = project.folder / FILE_NAME
    if as_json:
        write_json({"domain": asdict(domain), "compared": [asdict(one) for one in compared], "file": str(path)})
        return
    _show(domain, compared)
    write_out(f"\nWritten to {path}: edit it as you like, then extract anew with `localrag index PATH`.\n")
    write_out("Take it back: localrag tune --undo\n")


async def _tune(project: "Project", passages: int, selection: str, types: tuple[str, ...], seed: int) -> "tuple[Domain, list[Compared]]":
    from dataclasses import replace

    from localrag.errors import UsageError
    from localrag.index.extraction.names.case import Case
    from localrag.index.extraction.tune import COMPARED, adapt, compare, sample
    from localrag.project import choose_style
    from localrag.store import corpus, vectors

    chunks = corpus.all_chunks(project.db)
    known, matrix = vectors.load(project.db, "chunk")
    if not known:
        raise UsageError("The index holds no text yet.", "Fill it: localrag index PATH")
    by_id = {c.id: c for c in chunks}
    sampled = sample([by_id[i] for i in known], matrix, selection, passages + COMPARED, seed)
    cases = [Case(corpus.document_by_id(project.db, c.document_id)) for c in sampled]
    style = await choose_style(project)
    held = min(COMPARED, len(sampled) - 1)  # chunks the examples do not come from
    domain = await adapt(sampled[held:], cases[held:], project.model, project.settings, style)
    if types:
        kept = tuple(e for e in domain.examples if {t for _, t in e.entities} <= set(types))
        domain = replace(domain, entity_types=types, examples=kept)
    after = project.settings.with_domain(domain)
    return domain, await compare(sampled[:held] or sampled, cases[:held] or cases, project.model, project.settings, after, style)


def _show(domain: "Domain", compared: "list[Compared]") -> None:
    from localrag.cli.views.tables import print_compared, print_domain

    print_domain(domain)
    for one in compared:
        print_compared(one)
