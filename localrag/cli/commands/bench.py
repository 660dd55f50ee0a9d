"""`localrag bench`, `bench compare`, `bench runs` and `bench engine`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from localrag.cli.completion import chat_models
from localrag.cli.options import (
    STYLES,
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    ModelOption,
    QuietOption,
    RemeasureOption,
    engine_options,
    one_of,
)
from localrag.cli.views.terminal import write_json, write_out

FORMATS = ("md", "csv", "json", "jsonl", "html", "sqlite")
bench_app = typer.Typer(invoke_without_command=True, help="Benchmark models on this machine and recommend one.")


@bench_app.callback()
def bench_command(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", metavar="NAME|PATH", help="Model to measure. Repeatable. Default: the bundled one.", autocompletion=chat_models
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Skip the standard index and its questions.")] = False,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Number of speed measurements.")] = 3,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Use only this many of the 40 paragraphs. 0: all.")] = 0,
    style: Annotated[
        str, typer.Option("--style", help="auto: by the model's size, as in indexing.", **one_of("style", ("auto", *STYLES)))
    ] = "auto",
    form: Annotated[str, typer.Option("--format", "-o", help="Output format. Default: a table.", **one_of("output format", FORMATS))] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file instead of stdout.")] = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Keep runs in this folder. Default: the user cache.")] = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    values: EngineOption = "",  # not `engine`, which is a command of this group
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure models on this machine: memory, speed, extraction, yes/no questions, an index with ten questions."""
    from localrag.errors import UsageError

    if context.invoked_subcommand:
        if models:
            raise UsageError("--model belongs behind the command it is for.", f"localrag bench {context.invoked_subcommand} --model …")
        return
    from localrag.bench.measure import Task
    from localrag.bench.output import check_format
    from localrag.bench.run import measure_models, new_path
    from localrag.bench.table import notes
    from localrag.cli.views.benchmarks import BenchProgress
    from localrag.cli.views.console import say
    from localrag.engine.settings import EngineOptions

    check_format(form, out)
    EngineOptions.of(values)  # a mistake is said before anything is opened
    task = Task(None, values, deterministic, repeat, quick, limit, style, ",".join(allow_host or ()), at_once)
    path = save or new_path()
    with BenchProgress(quiet=quiet) as progress:
        run = measure_models(models or [None], task, progress, path)
    _show_run(run, form, out)
    if not quiet:
        say(f"Kept: {path} · compare with another: localrag bench compare {path.stem if not save else path} RUN")
    if all(m["error"] for m in run["models"]):
        raise typer.Exit(4)
    if notes(run["models"]):
        raise typer.Exit(5)


def _show_run(run: dict[str, Any], form: str, out: Path | None) -> None:
    """The run in the format asked for, to the file or to stdout."""
    from localrag.bench.output import as_text, write_file, write_sqlite
    from localrag.cli.views.benchmarks import print_run
    from localrag.cli.views.console import say

    if form == "sqlite" and out:
        write_sqlite(run, out)
    elif out:
        write_file(as_text(run, form or "md"), out)
    elif form:
        write_out(as_text(run, form))
    else:
        print_run(run)
    if out:
        say(f"Written: {out}")


@bench_app.command("compare")
def compare_command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN [RUN]", help="Runs listed by `bench runs`, or files. RUN#MODEL selects one model.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Compare two runs, or two models of one run, with 95 % intervals."""
    from dataclasses import asdict

    from localrag.bench.compare import compare, models_to_compare
    from localrag.cli.views.benchmarks import print_compared_models
    from localrag.errors import UsageError

    if len(runs) > 2:
        raise UsageError("Two runs are compared at a time.", "localrag bench compare RUN1 RUN2")
    for first, a, second, b in models_to_compare(runs):
        found = compare(a, b)
        if as_json:
            for one in found:
                row = {"first": first, "second": second, "name": one.name, "paired": one.paired, "verdict": one.verdict}
                write_json(row | asdict(one.difference))
        else:
            print_compared_models(first, a, second, b, found)


@bench_app.command("runs")
def runs_command() -> None:
    """List saved runs, oldest first."""
    from localrag.bench.run import load_run, saved_runs
    from localrag.cli.views.console import out
    from localrag.errors import UsageError

    for path in saved_runs():
        try:
            models = ", ".join(m["name"] + (" (not measured)" if m["error"] else "") for m in load_run(str(path))["models"])
        except UsageError as error:
            models = str(error)
        out.print(f"{path.stem}  {models}")


@bench_app.command("engine")
def engine_command(
    text: Annotated[Path | None, typer.Option("--text", metavar="FILE", help="Text file to cut into chunks.")] = None,
    prefix: Annotated[Path | None, typer.Option("--prefix", metavar="FILE", help="Conversation before each chunk, in ChatML.")] = None,
    schema: Annotated[Path | None, typer.Option("--schema", metavar="FILE", help="JSON schema of the answers.")] = None,
    model: ModelOption = None,
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="Number of chunks.")] = 16,
    words: Annotated[int, typer.Option("--words", min=1, help="Words per chunk.")] = 220,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Maximum tokens of an answer.")] = 200,
    ablate: Annotated[
        bool,
        typer.Option("--ablate", help="Also measure llama.cpp's calls alone, and the engine without each of its parts."),
    ] = False,
    engine: EngineOption = "",
    remeasure: RemeasureOption = False,
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the engine's speed on a workload."""
    from localrag.bench import engine as bench
    from localrag.cli.views.tables import print_bench
    from localrag.models import find_chat_model

    work = bench.read_workload(text, prefix, schema, chunks=chunks, words=words, max_tokens=max_tokens)
    file = find_chat_model(model)
    options = engine_options(engine, remeasure=remeasure, deterministic=deterministic)
    figures = bench.run_workload(file, options, work, limit=ablate)
    without = bench.ablate(file, engine_options(engine, deterministic=deterministic), work) if ablate else {}
    if as_json:
        write_json(figures | ({"ablations": without} if ablate else {}))
    else:
        print_bench(figures, without)
