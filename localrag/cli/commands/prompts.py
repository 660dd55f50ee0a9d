"""`localrag prompts`: what the model is asked with, and the user's own wording in its place."""

from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import write_json, write_line, write_out

prompts_app = typer.Typer(no_args_is_help=True, help="Show the prompts, and write your own in their place.")


def _names(incomplete: str) -> list[str]:
    """The names that begin like that, for the shell's completion."""
    from localrag.llm.prompts import prompt_names

    return [name for name in prompt_names() if name.startswith(incomplete)]


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A prompt of `localrag prompts list`.", autocompletion=_names)]
UserOption = Annotated[bool, typer.Option("--user", help="For all your indexes, not only for this project.")]


@prompts_app.command("list")
def list_command(index: IndexOption = None, as_json: JsonOption = False) -> None:
    """List the prompts, those you replaced, and files that are not trusted."""
    from localrag.errors import UsageError
    from localrag.llm.prompts import check_prompt, is_trusted, prompt_names

    folders, rows = _folders(index), []
    for name in prompt_names():
        file, problem = _own(name, folders), ""
        try:
            _ = file and check_prompt(name, file)
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
def show_command(name: NameArgument, index: IndexOption = None) -> None:
    """Print a prompt as it is used: your own, if you trust it, or the shipped one."""
    from localrag.llm.prompts import is_trusted, shipped_prompt

    files = [file for folder in _folders(index) if (file := _own(_known(name), [folder])) and is_trusted(file)]
    write_out(files[0].read_text(encoding="utf-8") if files else shipped_prompt(name))


@prompts_app.command("diff")
def diff_command(name: NameArgument, index: IndexOption = None) -> None:
    """Show what your own prompt changes of the shipped one."""
    from difflib import unified_diff

    from localrag.cli.views.console import say
    from localrag.llm.prompts import shipped_prompt

    file = _own(_known(name), _folders(index))
    if file is None:
        say(f"{name} is as shipped.")
        return
    shipped, own = (text.splitlines(keepends=True) for text in (shipped_prompt(name), file.read_text(encoding="utf-8")))
    write_out("".join(unified_diff(shipped, own, f"shipped/{name}.md", str(file))))


@prompts_app.command("edit")
def edit_command(name: NameArgument, user: UserOption = False, index: IndexOption = None) -> None:
    """Open a prompt in your editor ($VISUAL or $EDITOR), as a copy of your own."""
    import os
    import shlex
    import subprocess

    from localrag.cli.views.console import say
    from localrag.errors import UsageError
    from localrag.llm.prompts import shipped_prompt, trust_prompt
    from localrag.system.files import private_folder, replace_file

    file = _folders(index)[user] / f"{_known(name)}.md"
    if not file.exists():
        private_folder(file.parent)
        replace_file(file, shipped_prompt(name).encode())
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
        say(f"{name} is as shipped.")
        return
    trust_prompt(file)
    say(f"{name} is your own now: {file}\nWhat it is for is made anew by the next: localrag index PATH")


@prompts_app.command("trust")
def trust_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Prompts of `localrag prompts list`. Default: all.", autocompletion=_names)
    ] = None,
    index: IndexOption = None,
) -> None:
    """Trust prompts that came with a folder or were written without `edit`, until they change."""
    from localrag.cli.views.console import say
    from localrag.errors import UsageError
    from localrag.llm.prompts import prompt_name, trust_prompt, untrusted_prompts

    wanted = {_known(name) for name in names or ()}
    files = [file for file in untrusted_prompts(_folders(index)) if not wanted or prompt_name(file) in wanted]
    if not files:
        raise UsageError("There is no untrusted prompt here.", "See which are used: localrag prompts list")
    for file in files:
        trust_prompt(file)
        say(f"{prompt_name(file)} is used from now on: {file}")
    say("The next run redoes the stages they are for: localrag index PATH")


@prompts_app.command("reset")
def reset_command(name: NameArgument, user: UserOption = False, index: IndexOption = None) -> None:
    """Use the shipped prompt again. Your own is kept beside it, as NAME.md.old."""
    from localrag.cli.views.console import say
    from localrag.errors import UsageError

    file = _folders(index)[user] / f"{_known(name)}.md"
    if not file.exists():
        raise UsageError(f"{file} does not exist: {name} is not your own there.", "Which are: localrag prompts list")
    old = file.with_name(f"{file.name}.old")
    file.replace(old)
    say(f"{name} is as shipped again. Yours is kept: {old}")


def _folders(index: Path | None) -> list[Path]:
    """The folders of the project's own prompts and of the user's. Raises NoIndex where one was named and there is none."""
    from localrag.errors import NoIndex
    from localrag.opening import find_index, prompt_folders, root_of

    try:
        return prompt_folders(root_of(find_index(index)))
    except NoIndex:
        if index is not None:
            raise
        return prompt_folders(Path.cwd())


def _own(name: str, folders: list[Path]) -> Path | None:
    return next((f for folder in folders if (f := folder / f"{name}.md").is_file()), None)


def _known(name: str) -> str:
    from localrag.errors import UsageError
    from localrag.llm.prompts import meant, prompt_names

    if name not in prompt_names():
        raise UsageError(f"There is no prompt {name!r}.", meant(name))
    return name
