"""`localrag config` and `localrag init`: settings shown, and written to files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import write_json, write_line, write_out

if TYPE_CHECKING:
    from localrag.cli.settings.shown import Shown

config_app = typer.Typer(invoke_without_command=True, help="Show and change what you set once: models, modes, how documents are read.")


def _names(incomplete: str) -> list[str]:
    """The names that begin like that, for the shell's completion."""
    from localrag.cli.settings.table import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A setting of `localrag config`.", autocompletion=_names)]
UserOption = Annotated[bool, typer.Option("--user", help="In your own file, for all folders.")]


@config_app.callback()
def config_command(context: typer.Context, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show every setting with its value, and where that comes from."""
    if context.invoked_subcommand:
        return
    from dataclasses import asdict

    from localrag.cli.settings.read import user_file
    from localrag.cli.views.settings import print_settings
    from localrag.config import project_file

    rows = [asdict(row) for row in _rows(index)]
    if as_json:
        project = project_file(Path.cwd())
        files = {"project": str(project) if project else None, "user": str(user_file())}
        write_json({"settings": rows, "files": files})
    else:
        print_settings(rows)


@config_app.command("get")
def get_command(name: NameArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Print the value of a setting, as its option takes it."""
    from localrag.cli.settings.read import meant
    from localrag.errors import UsageError

    found = next((row for row in _rows(index) if row.name == name), None)
    if found is None:
        raise UsageError(f"There is no setting {name!r}.", meant(name))
    value = found.value
    if as_json:
        write_json(value)
    elif isinstance(value, bool):
        write_line(str(value).lower())
    else:
        write_line(",".join(value) if isinstance(value, tuple) else "" if value is None else str(value))


@config_app.command("set")
def set_command(
    name: NameArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value; of several, A,B.")],
    user: UserOption = False,
) -> None:
    """Set a value in the nearest localrag.toml, or in your own file. Comments are kept."""
    from localrag.cli.settings.write import set_value, target
    from localrag.cli.views.console import say
    from localrag.cli.views.settings import written

    path = target(user=user)
    say(f"{name} = {written(set_value(path, name, value))} in {path}")


@config_app.command("unset")
def unset_command(name: NameArgument, user: UserOption = False) -> None:
    """Take a value out of the nearest localrag.toml, or out of your own file."""
    from localrag.cli.settings.write import target, unset_value
    from localrag.cli.views.console import say

    path = target(user=user)
    unset_value(path, name)
    say(f"{name} is no longer set in {path}")


@config_app.command("trust")
def trust_command() -> None:
    """Trust the nearest localrag.toml with the servers, files and outside folders it names now."""
    from localrag.cli.settings.trusted import trust
    from localrag.cli.views.console import say
    from localrag.cli.views.settings import written
    from localrag.config import PROJECT_FILE, project_file
    from localrag.errors import UsageError

    path = project_file(Path.cwd())
    if path is None:
        raise UsageError(f"There is no {PROJECT_FILE} here or in a folder above.", "Write one: localrag init")
    values = trust(path)
    listed = ", ".join(f"{name} = {written(value)}" for name, value in values.items())
    say(f"{path} is trusted as it is now{f': {listed}' if listed else ''}")


@config_app.command("path")
def path_command(user: UserOption = False) -> None:
    """Print which file `config set` writes to."""
    from localrag.cli.settings.write import target

    write_line(str(target(user=user)))


@config_app.command("schema")
def schema_command() -> None:
    """Print a JSON schema of localrag.toml, for editors."""
    from localrag.cli.settings.table import Values

    write_out(json.dumps(Values.model_json_schema(), indent=2) + "\n")


def init_command() -> None:
    """Write a localrag.toml here that shows every setting, commented out, with what it does."""
    from localrag.cli.settings.write import new_file
    from localrag.cli.views.console import say

    say(f"{new_file()}: every setting as it is now. Change what you like; localrag config shows what holds.")


def _rows(index: Path | None) -> "list[Shown]":
    """Every setting as it stands; that the index cannot be read is said."""
    from localrag.cli.settings.read import given
    from localrag.cli.settings.shown import bound_or_nothing, shown
    from localrag.cli.settings.trusted import is_trusted
    from localrag.cli.views.console import say
    from localrag.config import project_file

    found, project = given(), project_file(Path.cwd())
    if project and not is_trusted(project, found):
        say(f"You have not trusted {project}, so commands end in an error. To trust it: localrag config trust")
    chosen = found["index"].value if "index" in found else ""
    bound, problem = bound_or_nothing(index or (Path(chosen) if chosen else None))
    if problem:
        say(problem)
    return shown(found, bound)
