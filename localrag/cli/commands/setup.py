"""`localrag config`, `help`, `demo` and `doctor`."""

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

import localrag
from localrag.cli.commands.ask import ask_and_print
from localrag.cli.commands.index import run_index
from localrag.cli.commands.inspect import print_check_result
from localrag.cli.options import EngineOption, IndexOption, JsonOption, ModelOption, completion_of, engine_options
from localrag.cli.settings import (
    SETTING_NAMES,
    as_option_text,
    effective_settings,
    is_trusted,
    print_settings,
    read_set_values,
    set_value,
    settings_file_to_write,
    suggestion,
    to_toml,
    trust,
    unset_value,
    user_file,
)
from localrag.cli.views.terminal import print_note, write_json, write_line, write_result
from localrag.demo import CORPUS, QUESTIONS
from localrag.errors import LocalragError, NoIndex, UsageError
from localrag.settings import PROJECT_FILE, project_file
from localrag.system.files import shipped_data_path

config_app = typer.Typer(invoke_without_command=True, help="Show and change settings: models, modes, how documents are read.")


NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A setting of `localrag config`.", autocompletion=completion_of(lambda: SETTING_NAMES))
]
UserOption = Annotated[bool, typer.Option("--user", help="Use your own settings file, for all folders.")]


@config_app.callback()
def config_command(context: typer.Context, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show every setting with its value and the source of the value."""
    if context.invoked_subcommand:
        return
    rows, project = _setting_rows(index), project_file(Path.cwd())
    files = {"project": str(project) if project else None, "user": str(user_file())}
    write_result({"settings": rows, "files": files}, print_settings, rows, as_json=as_json)


@config_app.command("get")
def get_command(name: NameArgument, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Print the value of a setting, as its option takes it."""
    if name not in SETTING_NAMES:
        raise UsageError(f"There is no setting {name!r}.", suggestion(name))
    value = next(row["value"] for row in _setting_rows(index) if row["name"] == name)
    write_result(value, write_line, as_option_text(value), as_json=as_json)


@config_app.command("set")
def set_command(
    name: NameArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value; several values as A,B.")],
    user: UserOption = False,
) -> None:
    """Set a value in the nearest localrag.toml, or in your own file. Comments are kept."""
    path = settings_file_to_write(user=user)
    print_note(f"{name} = {to_toml(set_value(path, name, value))} in {path}")


@config_app.command("unset")
def unset_command(name: NameArgument, user: UserOption = False) -> None:
    """Remove a value from the nearest localrag.toml, or from your own file."""
    path = settings_file_to_write(user=user)
    unset_value(path, name)
    print_note(f"{name} is no longer set in {path}")


@config_app.command("trust")
def trust_command() -> None:
    """Trust the nearest localrag.toml with the servers, files, folders and texts that it names now."""
    path = project_file(Path.cwd())
    if path is None:
        raise UsageError(f"There is no {PROJECT_FILE} here or in a folder above.", "Write one: localrag config set NAME VALUE")
    values = trust(path)
    listed = ", ".join(f"{name} = {to_toml(value)}" for name, value in values.items())
    print_note(f"{path} is trusted as it is now{f': {listed}' if listed else ''}")


def _setting_rows(index: Path | None) -> list[dict[str, Any]]:
    from localrag.project import bound_models

    set_values, project = read_set_values(), project_file(Path.cwd())
    if project and not is_trusted(project, set_values):
        print_note(f"You have not trusted {project}, so commands end with an error. To trust it: localrag config trust")
    chosen, bound = set_values["index"].value if "index" in set_values else "", dict[str, Any]()
    try:
        bound = bound_models(index or (Path(chosen) if chosen else None))
    except LocalragError as error:
        print_note(str(error))
    return effective_settings(set_values, bound)


TopicArgument = Annotated[str, typer.Argument(metavar="[TOPIC]", help="A page, for example models or pipeline.")]


def help_command(topic: TopicArgument = "", as_json: JsonOption = False) -> None:
    """Read the documentation: a list of topics, or one page."""
    from localrag.cli.views.console import stdout_console

    pages = topics()
    if topic and topic not in pages:
        near = get_close_matches(topic, pages, n=2)
        raise UsageError(f"There is no page {topic!r}.", f"Near: {', '.join(near)}" if near else "All pages: localrag help")
    if as_json:
        rows = [{"topic": name, "title": title_of(path)} for name, path in pages.items() if topic in ("", name)]
        write_json(rows[0] | {"text": pages[topic].read_text(encoding="utf-8")} if topic else rows)
        return
    if topic:
        from rich.markdown import Markdown

        text = pages[topic].read_text(encoding="utf-8")
        stdout_console.print(Markdown(text) if stdout_console.is_terminal else text)
        return
    width = max(map(len, pages))
    for name, path in pages.items():
        stdout_console.print(f"{name:<{width}}  {title_of(path)}")
    stdout_console.print("\nRead one: localrag help TOPIC\nOptions of a command: localrag COMMAND --help")


def topics() -> dict[str, Path]:
    """Pages of the documentation by topic: the tutorial first, then by folder."""
    docs = shipped_data_path("docs")
    order = ("tutorial", "how-to", "explanation", "reference", "benchmarks", "benchmarks_answers", "benchmarks_history")
    pages = [p for p in docs.rglob("*.md") if p.parent != docs or p.stem in order]
    ranked = sorted(pages, key=lambda p: (order.index(p.relative_to(docs).parts[0].removesuffix(".md")), p.name))
    return {p.stem: p for p in ranked}


def title_of(path: Path) -> str:
    """The heading of a page."""
    with path.open(encoding="utf-8") as f:
        return f.readline().removeprefix("#").strip()


def demo_command(
    index: Annotated[Path, typer.Option("--index", "-i", metavar="DIR", help="Folder for the demo's index.")] = Path("localrag-demo"),
) -> None:
    """Index the demo documents (a harbour town in 1974) and ask two questions."""
    print_note(f"Indexing the demo documents in {CORPUS} (about a minute; the first time this machine is measured as well)")
    options = engine_options({})
    opened = localrag.Index.open(index, engine=options, missing_ok=True)
    with opened.write_session():
        run_index([CORPUS], opened, {"quiet": False, "progress": "auto", "as_json": False})
    for mode, question in QUESTIONS:
        print_note(f'\n$ localrag ask "{question}" --mode {mode}\n')
        with opened:
            ask_and_print(question, opened, {"mode": mode})
    print_note(f'\nAsk more: localrag ask "…" --index {index}')


def doctor_command(
    model: ModelOption = None,
    index: IndexOption = None,
    engine: EngineOption = "",
    as_json: JsonOption = False,
) -> None:
    """Check this machine: libraries, memory, disk, models, and that nothing uses the network."""
    from localrag.doctor import run_checks
    from localrag.project import find_index

    folder = None
    try:
        folder = find_index(index)
    except NoIndex:
        if index is not None:
            raise
    lines = run_checks(folder, engine_options({"engine": engine}, quiet=as_json), chat=model)
    print_check_result(lines, as_json=as_json)
    if any(line.state == "fail" for line in lines):
        sys.exit(1)
