"""`localrag prompts` (list, show, edit and trust prompts) and `localrag tune`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption, OptionValues, QuietOption, completion_of, engine_options, with_engine
from localrag.cli.views.terminal import print_note, write_json, write_line, write_out, write_result
from localrag.errors import NoIndex, UsageError
from localrag.records import to_row
from localrag.system.files import ensure_private_folder, write_atomically

if TYPE_CHECKING:
    from localrag.project import Project
    from localrag.settings import Domain


prompts_app = typer.Typer(no_args_is_help=True, help="Show the prompts and replace them with your own.")


def _names() -> tuple[str, ...]:
    from localrag.llm.prompts import prompt_names

    return prompt_names()


NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A prompt of `localrag prompts list`.", autocompletion=completion_of(_names))
]
UserOption = Annotated[bool, typer.Option("--user", help="For all your indexes, not only for this project.")]


@prompts_app.command("list")
def list_prompts_command(index: IndexOption = None, as_json: JsonOption = False) -> None:
    """List the prompts, those you replaced, and files that are not trusted."""
    from localrag.llm.prompts import is_trusted, load_override, prompt_names

    folders, rows = _folders(index), []
    for name in prompt_names():
        file, problem = _own(name, folders), ""
        try:
            _ = file and load_override(name, file)
        except UsageError as error:
            problem = f"{error} {error.hint}"
        trusted = file is None or is_trusted(file)
        if not trusted and not problem:
            problem = f"{file} is not used, because you have not trusted it. To trust it: localrag prompts trust {name}"
        rows.append({"name": name, "file": str(file) if file else None, "trusted": trusted, "problem": problem})
    if as_json:
        write_json({"prompts": rows, "folders": [str(f) for f in folders]})
        return
    width = max(len(str(row["name"])) for row in rows)
    for row in rows:
        write_line(f"{row['name']:<{width}}  {row['problem'] or row['file'] or 'as shipped'}")


@prompts_app.command("show")
def show_prompt_command(name: NameArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Print the prompt that is used: your own, if you trust it, or the bundled one."""
    from localrag.llm.prompts import is_trusted, read_user_prompt, shipped_prompt

    files = [file for folder in _folders(index) if (file := _own(_known(name), [folder])) and is_trusted(file)]
    text = read_user_prompt(files[0]) if files else shipped_prompt(name)
    write_result({"name": name, "file": str(files[0]) if files else None, "text": text}, write_out, text, as_json=as_json)


@prompts_app.command("edit")
def edit_command(name: NameArgument, user: UserOption = False, index: IndexOption = None) -> None:
    """Open a prompt in your editor ($VISUAL or $EDITOR), as a copy of your own."""
    import os
    import shlex
    import subprocess

    from localrag.llm.prompts import shipped_prompt, trust_prompt

    file = _folders(index)[user] / f"{_known(name)}.md"
    if not file.exists():
        ensure_private_folder(file.parent)
        write_atomically(file, shipped_prompt(name).encode())
        trust_prompt(file)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("There is no editor in $VISUAL or $EDITOR.", f"Edit the file as you like: {file}")
    try:
        subprocess.run([*shlex.split(editor), str(file)], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UsageError(f"The editor {editor} could not be run: {error}", f"Edit the file as you like: {file}") from error
    if file.read_text(encoding="utf-8", errors="replace") == shipped_prompt(name):
        file.unlink()
        print_note(f"{name} is as shipped.")
        return
    trust_prompt(file)
    print_note(f"{name} is your own now; to use the bundled one again, delete {file}")
    print_note("The next run repeats the stages that use it: localrag index PATH")


@prompts_app.command("trust")
def trust_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME…", help="Prompts of `localrag prompts list`. Default: all.", autocompletion=completion_of(_names)),
    ] = None,
    index: IndexOption = None,
) -> None:
    """Trust prompts that came with a folder or were written without `edit`, until they change."""
    from localrag.llm.prompts import prompt_name, trust_prompt, untrusted_prompts

    wanted = {_known(name) for name in names or ()}
    files = [file for file in untrusted_prompts(_folders(index)) if not wanted or prompt_name(file) in wanted]
    if not files:
        raise UsageError("There is no untrusted prompt here.", "See which are used: localrag prompts list")
    for file in files:
        trust_prompt(file)
        print_note(f"{prompt_name(file)} is used from now on: {file}")
    print_note("The next run repeats the stages that use them: localrag index PATH")


def _folders(index: Path | None) -> list[Path]:
    """Folders of the project's and of the user's prompts. Raises NoIndex if a named index does not exist."""
    from localrag.project import documents_root, find_index, prompt_folders

    try:
        return prompt_folders(documents_root(find_index(index)))
    except NoIndex:
        if index is not None:
            raise
        return prompt_folders(Path.cwd())


def _own(name: str, folders: list[Path]) -> Path | None:
    return next((f for folder in folders if (f := folder / f"{name}.md").is_file()), None)


def _known(name: str) -> str:
    from localrag.llm.prompts import prompt_names, suggestion

    if name not in prompt_names():
        raise UsageError(f"There is no prompt {name!r}.", suggestion(name))
    return name


@with_engine
def tune_command(
    index: IndexOption = None,
    passages: Annotated[int, typer.Option("--passages", min=1, help="Number of chunks to read.")] = 8,
    *,
    engine: OptionValues,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Describe these documents in domain.toml: subject, language, entity types, examples."""
    import asyncio

    from localrag.llm.prompts import DOMAIN_FILE, write_domain
    from localrag.project import find_index, open_for_writing

    folder = find_index(index)
    file = folder / DOMAIN_FILE
    with open_for_writing(folder, engine=engine_options(engine, quiet=quiet)) as project:
        domain = asyncio.run(_tune_domain(project, passages))
        write_domain(project.folder, domain)
    row = {"domain": to_row(domain, {"description": "about", "rating_criteria": "rating"}), "file": str(file)}
    write_result(row, _print_domain, domain, file, as_json=as_json)


async def _tune_domain(project: "Project", passages: int) -> "Domain":
    from localrag.indexing.extraction.names import DocumentCasing
    from localrag.indexing.extraction.prompt_tuning import sample_chunks, tune_domain
    from localrag.project import resolve_answer_style
    from localrag.store import chunks as chunks_store
    from localrag.store import documents, vectors

    chunk_ids, matrix = vectors.load_vectors(project.db, "chunk")
    if not chunk_ids:
        raise UsageError("The index contains no text yet.", "Fill it: localrag index PATH")
    by_id = {c.id: c for c in chunks_store.all_chunks(project.db)}
    sampled = sample_chunks([by_id[i] for i in chunk_ids], matrix, passages)
    cases = [DocumentCasing(documents.document_by_id(project.db, c.document_id).text) for c in sampled]
    return await tune_domain(sampled, cases, project.model, project.settings, await resolve_answer_style(project))


def _print_domain(domain: "Domain", file: Path) -> None:
    from localrag.cli.views.console import print_fields

    print_fields({
        "about": domain.description,
        "persona": domain.persona,
        "language": domain.language,
        "what matters": domain.rating_criteria,
        "entity types": ", ".join(domain.entity_types),
        "examples": len(domain.examples),
    })  # fmt: skip
    print_note(f"Written to {file}: edit it if you like, then extract again: localrag index PATH")
