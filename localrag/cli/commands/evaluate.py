"""`localrag eval` and `localrag bench`, with their subcommands."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from localrag.cli.options import (
    ENGINE_OPTIONS,
    JsonOption,
    ModelOption,
    OptionValues,
    QuietOption,
    ResponseTypeOption,
    StyleOption,
    chat_models,
    choice_option,
    engine_options,
    setting_option,
    with_engine,
    with_options,
)
from localrag.cli.settings import ANSWER_STYLES
from localrag.cli.views.terminal import print_note, write_json, write_result
from localrag.errors import UsageError
from localrag.settings import QUERY_MODES, IndexSettings

RETRIEVAL_MODES = ("mix", "walk", "basic", "local", "words", "vectors")
GOLD_EXTRACTORS = ("model", "phrases")  # as in `EVALUATED_EXTRACTORS`, whose module takes long to load
ExtractorOption = Annotated[str, setting_option("extractor")]
LimitOption = Annotated[int, typer.Option("--limit", min=0, help="Random sample of this many texts or questions. 0: all.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the sample.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
eval_app = typer.Typer(no_args_is_help=True, help="Evaluate localrag on annotated data.")


@eval_app.command("extraction")
@with_engine
def extraction_command(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="File or folder of annotated texts.")],
    form: Annotated[str, typer.Option("--format", help="conll04, crossner, litbank, redocred or marked.")],
    extractor: Annotated[
        str, typer.Option("--extractor", help="phrases: no model.", **choice_option("extractor", GOLD_EXTRACTORS))
    ] = "model",
    model: ModelOption = None,
    limit: LimitOption = 0,
    seed: SeedOption = 0,
    gleanings: Annotated[int, setting_option("gleanings")] = 0,
    *,
    engine: OptionValues,
    as_json: JsonOption = False,
) -> None:
    """Score extraction on annotated texts: names, types, relations."""
    import asyncio

    from localrag.cli.views.console import print_fields
    from localrag.eval.datasets import load_gold
    from localrag.eval.extraction import evaluate_extraction
    from localrag.model_files import find_chat_model

    documents = load_gold(dataset, form, limit=limit, seed=seed)
    options = engine_options(engine, quiet=as_json)
    settings = replace(IndexSettings(), max_gleanings=gleanings)
    scores = asyncio.run(evaluate_extraction(documents, form, extractor, find_chat_model(model), options, settings))
    write_result(scores | {"seed": seed}, print_fields, as_json=as_json)


@eval_app.command("retrieval")
@with_engine
def retrieval_command(
    tasks: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders with corpus.jsonl and queries.jsonl.")],
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="Retrieval mode. Repeatable. Default: mix.", **choice_option("mode", RETRIEVAL_MODES))
    ] = None,
    extractor: ExtractorOption = "auto",
    model: ModelOption = None,
    *,
    engine: OptionValues,
    as_json: JsonLinesOption = False,
) -> None:
    """Score retrieval: how many gold passages are found first."""
    import asyncio

    from localrag.eval.datasets import load_task
    from localrag.eval.retrieval import evaluate_retrieval

    options = engine_options(engine, quiet=as_json)
    for task in [load_task(folder) for folder in tasks]:
        _write_rows(asyncio.run(evaluate_retrieval(task, mode or ["mix"], extractor, model, options)), as_json=as_json)


def _write_rows(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    from localrag.cli.views.console import print_rows

    if not as_json:
        print_rows(rows)
        return
    for row in rows:
        write_json(row)


@eval_app.command("qa")
@with_engine
def qa_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with corpus.jsonl and queries.jsonl.")],
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", help="Query mode. Repeatable. Default: auto and basic.", **choice_option("mode", QUERY_MODES)),
    ] = None,
    extractor: ExtractorOption = "auto",
    model: ModelOption = None,
    style: StyleOption = "",
    response_type: ResponseTypeOption = "",
    limit: LimitOption = 0,
    seed: SeedOption = 0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the index and answers. The same command resumes.")] = Path(
        "localrag-qa"
    ),
    *,
    engine: OptionValues,
    as_json: JsonLinesOption = False,
) -> None:
    """Score answers and evidence on questions with gold answers, for each mode."""
    import asyncio

    from localrag.eval.datasets import load_qa_dataset
    from localrag.eval.qa import QaSetup, averages, evaluate_answers
    from localrag.query.question import QueryOptions

    gold = load_qa_dataset(folder, limit=limit, seed=seed)
    options = QueryOptions(style=style, response_type=response_type)
    setup = QaSetup(tuple(mode or ["auto", "basic"]), extractor, model, options, engine_options(engine, quiet=as_json))
    _write_rows(averages(asyncio.run(evaluate_answers(gold, setup, out, _ignore if as_json else print_note))), as_json=as_json)


def _ignore(_: str) -> None:
    """Show no progress."""


@eval_app.command("support")
def support_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help='Lines of {"source", "sentence", "supported"}, and "kind" if you like.')],
    as_json: JsonOption = False,
) -> None:
    """Score answer verification on true and false sentences."""
    from localrag.cli.views.tables import print_support
    from localrag.engine.embedder import open_embedder
    from localrag.eval.metrics import evaluate_entailment, load_cases
    from localrag.llm.reader import PassageReader
    from localrag.model_files import find_embedder
    from localrag.query.attribution import support_checker

    cases = load_cases(file)
    scores = evaluate_entailment(cases, support_checker(open_embedder(find_embedder(None)).embed, reader=PassageReader()))
    write_result(scores, print_support, scores, len(cases), as_json=as_json)


bench_app = typer.Typer(invoke_without_command=True, help="Benchmark models on this machine and recommend one.")


@bench_app.callback()
@with_options("settings", **{"values" if name == "engine" else name: option for name, option in ENGINE_OPTIONS.items()})
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
        str, typer.Option("--style", help="auto: by the model's size, as in indexing.", **choice_option("style", ("auto", *ANSWER_STYLES)))
    ] = "auto",
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Keep the run in this file, not in the cache.")] = None,
    *,
    settings: OptionValues,  # `engine` is a command of this group, so its option has another name
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure models on this machine: memory, speed, extraction, yes/no questions, an index with ten questions."""
    if context.invoked_subcommand:
        if models or as_json:
            name, option = context.invoked_subcommand, "--model" if models else "--json"
            raise UsageError(f"{option} belongs after the subcommand.", f"localrag bench {name} {option}{' …' * bool(models)}")
        return
    from localrag.bench.measure import ModelBenchmark
    from localrag.bench.report import as_markdown, warnings
    from localrag.bench.runs import measure_models, new_path
    from localrag.cli.views.answers import print_markdown
    from localrag.cli.views.tables import bench_progress

    engine_options({**settings, "engine": settings["values"]})  # reports errors before models are opened
    hosts = ",".join(settings["allow_host"] or ())
    task = ModelBenchmark(None, settings["values"], settings["deterministic"], repeat, quick, limit, style, hosts, settings["parallel"])
    path = save or new_path()
    with bench_progress(quiet=quiet) as progress:
        run = measure_models(models or [None], task, progress, path)
    write_result(run, print_markdown, as_markdown(run), as_json=as_json)
    if not quiet:
        print_note(f"Kept: {path} · compare with another: localrag bench compare {path.stem if not save else path} RUN")
    if all(m["error"] for m in run["models"]):
        raise typer.Exit(4)
    if warnings(run["models"]):
        raise typer.Exit(5)


@bench_app.command("compare")
def compare_command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN [RUN]", help="Runs listed by `bench runs`, or files. RUN#MODEL selects one model.")
    ],
    as_json: JsonLinesOption = False,
) -> None:
    """Compare two runs, or two models of one run, with 95 % intervals."""
    from localrag.bench.runs import compare_models, models_to_compare
    from localrag.cli.views.tables import print_compared_models

    if len(runs) > 2:
        raise UsageError("Two runs are compared at a time.", "localrag bench compare RUN1 RUN2")
    for first, a, second, b in models_to_compare(runs):
        comparisons = compare_models(a, b)
        if not as_json:
            print_compared_models(first, a, second, b, comparisons)
            continue
        for one in comparisons:
            row = {"first": first, "second": second, "name": one.name, "paired": one.paired, "verdict": one.verdict}
            write_json(row | asdict(one.difference))


@bench_app.command("runs")
def runs_command(as_json: JsonOption = False) -> None:
    """List saved runs, oldest first."""
    from localrag.bench.runs import load_run, saved_runs
    from localrag.cli.views.console import print_rows

    rows: list[dict[str, Any]] = []
    for path in saved_runs():
        run = {"name": path.stem, "path": str(path), "models": [], "problem": ""}
        try:
            rows.append(run | {"models": [{"name": m["name"], "error": m["error"]} for m in load_run(str(path))["models"]]})
        except UsageError as error:
            rows.append(run | {"problem": str(error)})
    shown = [{"run": r["name"], "models": ", ".join(m["name"] for m in r["models"] if not m["error"]), "": r["problem"]} for r in rows]
    write_result(rows, print_rows, shown, as_json=as_json)


@bench_app.command("engine")
@with_options("engine", **{name: ENGINE_OPTIONS[name] for name in ("engine", "deterministic")})
def engine_command(
    model: ModelOption = None,
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="Number of chunks.")] = 16,
    words: Annotated[int, typer.Option("--words", min=1, help="Words per chunk.")] = 220,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Maximum tokens of an answer.")] = 200,
    *,
    engine: OptionValues,
    as_json: JsonOption = False,
) -> None:
    """Measure the engine's speed on a workload."""
    from localrag.bench.engine import read_workload, run_workload
    from localrag.cli.views.console import print_fields
    from localrag.model_files import find_chat_model

    work = read_workload(chunks=chunks, words=words, max_tokens=max_tokens)
    write_result(run_workload(find_chat_model(model), engine_options(engine), work), print_fields, as_json=as_json)
