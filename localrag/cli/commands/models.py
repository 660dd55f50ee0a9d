"""`localrag models`: which models there are, how to get one in, and which is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.completion import any_model, models_to_download, own_models
from localrag.cli.options import AllowHostOption, JsonOption, QuietOption, one_of
from localrag.cli.views.terminal import write_json

if TYPE_CHECKING:
    from localrag.catalog.curated import Curated
    from localrag.models import ModelFile

KINDS = ("chat", "embedder", "reranker")
models_app = typer.Typer(no_args_is_help=True, help="List, find, add, download, test and choose models.")
KindOption = Annotated[str, typer.Option("--kind", help="What the model is. Default: what its file says.", **one_of("kind", KINDS))]
TestOption = Annotated[bool, typer.Option("--test/--no-test", help="Try the model before it is listed.")]


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model of `localrag models list`.", autocompletion=any_model)]


@models_app.command("list")
def list_command(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also list models worth downloading.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the models that localrag knows by name, and which are the defaults."""
    from localrag.catalog.curated import curated
    from localrag.catalog.listed import listed
    from localrag.cli.views.models import print_curated, print_models
    from localrag.model_table import user_file

    rows, worth = listed(), curated() if everything else []
    if as_json:
        from localrag.catalog.about import fits

        write_json({"models": rows, "curated": [_row(m) | {"fits": fits(m.needs)} for m in worth], "file": str(user_file())})
        return
    print_models(rows)
    if worth:
        from localrag.catalog.advice import best_here

        print_curated(worth, best_here())


def _row(model: "Curated") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(model) | {"needs": model.needs}


@models_app.command("scan")
def scan_command(
    folders: Annotated[list[Path] | None, typer.Argument(metavar="DIR…", help="Folders to search. Default: other programs' own.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add every model that is found to your list, without testing it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find GGUF models that are on this machine already: Hugging Face, LM Studio, Ollama, llama.cpp. Nothing is copied."""
    from localrag.catalog.listed import add_found, found_row
    from localrag.catalog.scan import scan
    from localrag.cli.views.models import print_found_models

    found = scan(folders or [])
    added = add_found(found) if add else {}
    if as_json:
        write_json({"found": [found_row(f, added) for f in found]})
    else:
        print_found_models([found_row(f, added) for f in found])


@models_app.command("add")
def add_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A GGUF file, or a sentence-transformers folder.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call it. Default: from the file's name.")] = "",
    kind: KindOption = "",
    test: TestOption = True,
    use: Annotated[bool, typer.Option("--use", help="Also make it the default of new indexes.")] = False,
) -> None:
    """Add a model to your list, where it is: nothing is copied."""
    from localrag.catalog.listed import model_at

    file = model_at(path, name, kind)
    _add(file, test=test, use=use, source="")


def _add(file: "ModelFile", *, test: bool, use: bool, source: str) -> None:
    """Test a model and put it on the list; what to do next on stderr. Raises ModelError where the test fails."""
    from localrag.cli.views.console import say
    from localrag.errors import ModelError
    from localrag.model_table import add_model, set_default, user_file

    if test and not _tested(file):
        raise ModelError(f"{file.name} does not work here, so it is not on your list.", "To add it all the same: --no-test")
    add_model(file.kind, file.name, str(file.path), source)
    say(f"Added {file.name} to {user_file()}.")
    if use:
        set_default(file.kind, file.name)
        say(f"New indexes use {file.name}.")
    elif file.kind == "reranker":
        say(f"Use it for a question: --reranker {file.name}")
    else:
        option = "--model" if file.kind == "chat" else "--embedder"
        say(f"Use it for one index: localrag index PATH {option} {file.name}\nUse it for all new ones: localrag models use {file.name}")


def _tested(file: "ModelFile") -> bool:
    """Test a model, print what came of it, and say whether it is of use."""
    from localrag.catalog.self_test import self_test
    from localrag.cli.views.console import say
    from localrag.cli.views.tables import print_lines

    say(f"Testing {file.name} …")
    lines = self_test(file)
    print_lines(lines)
    return all(line.state != "fail" for line in lines)


@models_app.command("show")
def show_command(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show a model: quantisation, window, template, memory needed and whether it fits, licence, file."""
    from localrag.catalog.listed import details
    from localrag.cli.views.models import print_details

    found = details(name)
    if as_json:
        write_json(found)
    else:
        print_details(found)


@models_app.command("test")
def test_command(name: NameArgument, as_json: JsonOption = False) -> None:
    """Try a model: whether it loads and answers, and how fast. Exit code 4 where it does not work."""
    from localrag.catalog.listed import find_any
    from localrag.catalog.self_test import self_test
    from localrag.cli.commands.check import print_found

    lines = self_test(find_any(name))
    print_found(lines, as_json=as_json)
    if any(line.state == "fail" for line in lines):
        raise typer.Exit(4)


@models_app.command("use")
def use_command(name: NameArgument) -> None:
    """Make a model the default of new indexes. Existing indexes keep the one they were made with."""
    from localrag.catalog.listed import find_any
    from localrag.cli.views.console import say
    from localrag.model_table import set_default

    file = find_any(name)
    set_default(file.kind, file.name)
    rebuild = "--rebuild --model" if file.kind == "chat" else "--embedder"
    command = "index PATH" if file.kind == "chat" else "reembed"
    say(f"New indexes use {file.name}. For an existing one: localrag {command} {rebuild} {file.name}")


@models_app.command("rm")
def rm_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model of your own list.", autocompletion=own_models)],
    delete: Annotated[bool, typer.Option("--delete", help="Also delete the file, where localrag pulled it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")] = False,
) -> None:
    """Take a model off your list. Its file stays, unless you give --delete."""
    from localrag.catalog.listed import forget, pulled_files
    from localrag.cli.views.console import confirmed, say
    from localrag.errors import UsageError

    files = pulled_files(name) if delete else []
    if delete and not files:
        raise UsageError(
            f"localrag did not pull {name}, so it does not delete its file.", "Leave out --delete, and delete the file yourself."
        )
    if files and not yes and not confirmed(f"Delete {', '.join(str(f) for f in files)}?"):
        raise typer.Exit(1)
    forget(name)
    for file in files:
        file.unlink(missing_ok=True)
    say(f"Forgot {name}." + (f" Deleted {len(files)} file{'s' * (len(files) > 1)}." if files else " Its file stays where it is."))


@models_app.command("pull")
def pull_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|REPO[:QUANT]",
            help="A name of `models list --all`, or a repository of the hub.",
            autocompletion=models_to_download,
        ),
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call it. Default: its listed or file name.")] = "",
    kind: KindOption = "",
    test: TestOption = True,
    use: Annotated[bool, typer.Option("--use", help="Also make it the default of new indexes.")] = False,
    allow_host: AllowHostOption = None,
    quiet: QuietOption = False,
) -> None:
    """Download a model from Hugging Face. The only command that uses the network; it goes on where it broke off."""
    from localrag.catalog.hub import download, files_of
    from localrag.catalog.listed import model_at, wanted
    from localrag.cli.views.console import say
    from localrag.cli.views.models import Download, amount
    from localrag.system.files import data_dir

    repo, quant, known = wanted(what)
    hosts = allow_host or []
    files = files_of(repo, quant, hosts)
    if not quiet:
        say(f"{repo}: {files[0].path}{f' and {len(files) - 1} more' * (len(files) > 1)}, {amount(sum(f.size for f in files))}")
    with Download(files[0].path, quiet=quiet) as bar:
        paths = download(files, data_dir() / "models", bar.show, hosts)
    _add(model_at(paths[0], name or known, kind), test=test, use=use, source=f"{repo}/{files[0].path}")
