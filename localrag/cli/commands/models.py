"""`localrag models`: list, find, download, test, add and choose models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.commands.inspect import print_check_result
from localrag.cli.options import AllowHostOption, JsonOption, QuietOption, any_model, choice_option
from localrag.cli.views.terminal import print_note, write_json
from localrag.errors import ModelError
from localrag.records import to_row
from localrag.system.files import data_dir

if TYPE_CHECKING:
    from localrag.catalog.listing import RecommendedModel
    from localrag.model_files import ModelFile


MODEL_KINDS = ("chat", "embedder", "reranker")
models_app = typer.Typer(no_args_is_help=True, help="List, find, add, download, test and choose models.")
KindOption = Annotated[
    str, typer.Option("--kind", help="What the model is. Default: what its file says.", **choice_option("kind", MODEL_KINDS))
]
TestOption = Annotated[bool, typer.Option("--test/--no-test", help="Test the model before it is added.")]


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model of `localrag models list`.", autocompletion=any_model)]


@models_app.command("list")
def list_models_command(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also list models worth downloading.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the models that localrag knows by name, and which are the defaults."""
    from localrag.catalog.listing import list_models, recommended_models
    from localrag.cli.views.tables import print_curated, print_models
    from localrag.model_files import user_file

    rows, worth = list_models(), recommended_models() if everything else []
    if as_json:
        from localrag.catalog.listing import memory_fit

        write_json({"models": rows, "curated": [_row(m) | {"fits": memory_fit(m.memory_needed)} for m in worth], "file": str(user_file())})
        return
    print_models(rows)
    if worth:
        from localrag.catalog.listing import best_model_for_machine

        print_curated(worth, best_model_for_machine())


def _row(model: "RecommendedModel") -> dict[str, Any]:
    return to_row(model, {"context_length": "window", "is_default_choice": "best"}) | {"needs": model.memory_needed}


@models_app.command("add")
def add_model_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A GGUF file, or a sentence-transformers folder.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the model. Default: from the file's name.")] = "",
    kind: KindOption = "",
    test: TestOption = True,
    use: Annotated[bool, typer.Option("--use", help="Also make it the default of new indexes.")] = False,
) -> None:
    """Add a model to your list. The file stays where it is."""
    from localrag.catalog.listing import model_at

    file = model_at(path, name, kind)
    _add(file, test=test, use=use, source="")


def _add(file: "ModelFile", *, test: bool, use: bool, source: str) -> None:
    from localrag.model_files import add_model, set_default, user_file

    if test and not _tested(file):
        raise ModelError(f"{file.name} does not work here, so it is not on your list.", "To add it anyway: --no-test")
    add_model(file.kind, file.name, str(file.path), source)
    print_note(f"Added {file.name} to {user_file()}.")
    if use:
        set_default(file.kind, file.name)
        print_note(f"New indexes use {file.name}.")
    elif file.kind == "reranker":
        print_note(f"Use it for a question: --reranker {file.name}")
    else:
        option = "--model" if file.kind == "chat" else "--embedder"
        print_note(
            f"Use it for one index: localrag index PATH {option} {file.name}\nUse it for all new ones: localrag models use {file.name}"
        )


def _tested(file: "ModelFile") -> bool:
    from localrag.catalog.listing import self_test
    from localrag.cli.views.tables import print_check_lines

    print_note(f"Testing {file.name} …")
    lines = self_test(file)
    print_check_lines(lines)
    return all(line.state != "fail" for line in lines)


@models_app.command("test")
def test_command(name: NameArgument, as_json: JsonOption = False) -> None:
    """Test a model: whether it loads and answers, and how fast. A chat model is also measured. Exit code 4 if it does not work."""
    from localrag.catalog.listing import find_model, self_test

    file = find_model(name)
    lines = self_test(file)
    print_check_result(lines, as_json=as_json)
    if any(line.state == "fail" for line in lines):
        raise typer.Exit(4)
    if file.kind == "chat":
        from localrag.engine.autotune.load import measure_if_new
        from localrag.engine.settings import EngineOptions

        measure_if_new(file, EngineOptions(notify=print_note))


@models_app.command("use")
def use_command(name: NameArgument) -> None:
    """Make a model the default of new indexes. Existing indexes keep theirs."""
    from localrag.catalog.listing import find_model
    from localrag.model_files import set_default

    file = find_model(name)
    set_default(file.kind, file.name)
    rebuild = "--rebuild --model" if file.kind == "chat" else "--embedder"
    command = "index PATH" if file.kind == "chat" else "reembed"
    print_note(f"New indexes use {file.name}. For an existing one: localrag {command} {rebuild} {file.name}")


@models_app.command("rm")
def remove_model_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model of your own list.", autocompletion=any_model)],
) -> None:
    """Remove a model from your list. Its file is kept."""
    from localrag.catalog.listing import remove_from_list

    remove_from_list(name)
    print_note(f"Forgot {name}. Its file stays where it is.")


@models_app.command("pull")
def pull_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|REPO[:QUANT]",
            help="A name of `models list --all`, or a repository of the hub.",
        ),
    ],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the model. Default: its listed or file name.")] = "",
    kind: KindOption = "",
    test: TestOption = True,
    use: Annotated[bool, typer.Option("--use", help="Also make it the default of new indexes.")] = False,
    allow_host: AllowHostOption = None,
    quiet: QuietOption = False,
) -> None:
    """Download a model from Hugging Face. The only command that uses the network. Run it again to resume."""
    from localrag.catalog.hub import download, list_files
    from localrag.catalog.listing import model_at, parse_pull_target
    from localrag.cli.views.tables import download_progress, format_bytes

    repo, quant, known = parse_pull_target(what)
    hosts = allow_host or []
    files = list_files(repo, quant, hosts)
    if not quiet:
        print_note(f"{repo}: {files[0].path}{f' and {len(files) - 1} more' * (len(files) > 1)}, {format_bytes(sum(f.size for f in files))}")
    with download_progress(files[0].path, quiet=quiet) as show:
        paths = download(files, data_dir() / "models", show, hosts)
    _add(model_at(paths[0], name or known, kind), test=test, use=use, source=f"{repo}/{files[0].path}")
