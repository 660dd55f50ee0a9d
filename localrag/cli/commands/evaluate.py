"""`localrag eval` and `localrag bench`, with their subcommands."""

import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from localrag.cli.options import (
    AllowHostOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    JsonOption,
    ModelOption,
    OptionValues,
    ParallelRequestsOption,
    QuietOption,
    RerankerOption,
    ResponseTypeOption,
    RetuneOption,
    StyleOption,
    chat_models,
    choice_option,
    engine_options,
    setting_option,
    setting_options,
    with_engine,
    with_options,
)
from localrag.cli.settings import ANSWER_STYLES
from localrag.cli.views.terminal import print_note, write_json, write_out, write_result
from localrag.errors import UsageError
from localrag.settings import QUERY_MODES, IndexSettings
from localrag.system.files import write_atomically
from localrag.system.resources import require_extra

RETRIEVAL_MODES = ("mix", "walk", "basic", "local", "words", "vectors")
eval_app = typer.Typer(no_args_is_help=True, help="Evaluate localrag on annotated data.")


@eval_app.callback()
def _eval() -> None:
    """Evaluate localrag on annotated data."""


GOLD_EXTRACTORS = ("model", "phrases", "freeform")  # as in `EVALUATED_EXTRACTORS`, whose module takes long to load


@eval_app.command("extraction")
@with_engine
def extraction_command(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="File or folder of annotated texts.")],
    form: Annotated[
        str, typer.Option("--format", help="conll04, scierc, crossner, litbank, redocred, re3d, cluener, zh_literature, mine or marked.")
    ],
    extractor: Annotated[
        str,
        typer.Option(
            "--extractor",
            help="phrases: no model. freeform: plain JSON from the model.",
            **choice_option("extractor", GOLD_EXTRACTORS),
        ),
    ] = "model",
    model: ModelOption = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Random sample of this many texts. 0: all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    gleanings: Annotated[int, setting_option("gleanings")] = 0,
    *,
    engine: OptionValues,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score extraction on annotated texts: names, types, relations, merges, facts."""
    import asyncio

    from localrag.cli.views.tables import print_scores
    from localrag.eval.datasets import load_gold
    from localrag.eval.extraction import evaluate_extraction
    from localrag.model_files import find_chat_model

    documents = load_gold(dataset, form, limit=limit, seed=seed)
    options = engine_options(engine, quiet=as_json)
    settings = replace(IndexSettings(), max_gleanings=gleanings)
    scores = asyncio.run(evaluate_extraction(documents, form, extractor, find_chat_model(model), options, settings))
    write_result(scores | {"seed": seed}, print_scores, scores, as_json=as_json)


@eval_app.command("retrieval")
@with_engine
def retrieval_command(
    tasks: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders with corpus.jsonl and queries.jsonl.")],
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="Retrieval mode. Repeatable. Default: mix.", **choice_option("mode", RETRIEVAL_MODES))
    ] = None,
    extractor: Annotated[str, setting_option("extractor")] = "auto",
    model: ModelOption = None,
    reranker: RerankerOption = None,
    *,
    engine: OptionValues,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Score retrieval: how many gold passages are found first."""
    import asyncio

    from localrag.cli.views.tables import print_retrieval
    from localrag.eval.datasets import load_task
    from localrag.eval.retrieval import evaluate_retrieval

    options = engine_options(engine, quiet=as_json)
    for task in [load_task(folder) for folder in tasks]:
        rows = asyncio.run(evaluate_retrieval(task, mode or ["mix"], extractor, model, options, reranker))
        if as_json:
            for row in rows:
                write_json(row)
            sys.stdout.flush()
        else:
            print_retrieval(rows)


@eval_app.command("qa")
@with_engine
def qa_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="QMSum, GraphRAG-Bench, or corpus.jsonl with queries.jsonl.")],
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", help="Query mode. none: the model alone. Repeatable.", **choice_option("mode", (*QUERY_MODES, "none"))),
    ] = None,
    extractor: Annotated[str, setting_option("extractor")] = "auto",
    model: ModelOption = None,
    style: StyleOption = "",
    response_type: ResponseTypeOption = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="Random sample of this many questions. 0: all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for indexes and answers. The same command resumes.")] = Path(
        "localrag-qa"
    ),
    *,
    engine: OptionValues,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Score answers and evidence on questions with gold answers, for each mode."""
    require_extra("eval", "rouge_score")
    import asyncio

    from localrag.cli.views.tables import print_rows
    from localrag.eval.datasets import load_qa_dataset
    from localrag.eval.qa import QaSetup, averages, evaluate_answers
    from localrag.query.question import QueryOptions

    sets = load_qa_dataset(folder, limit=limit, seed=seed)
    options = QueryOptions(style=style, response_type=response_type)
    setup = QaSetup(
        tuple(mode or ["auto", "basic", "none"]),
        extractor,
        model,
        options,
        engine_options(engine, quiet=as_json),
    )
    rows = averages(asyncio.run(evaluate_answers(sets, setup, out, (lambda _: None) if as_json else print_note)))
    if as_json:
        for row in rows:
            write_json(row)
    else:
        print_rows(rows)


@eval_app.command("support")
def support_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help='Lines of {"source", "sentence", "supported"}, and "kind" if you like.')],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
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
    if as_json:
        sys.stdout.write(json.dumps(scores, ensure_ascii=False) + "\n")
    else:
        print_support(scores, len(cases))


@eval_app.command("answers")
@with_engine
def answers_command(
    about: Annotated[
        str, typer.Option("--about", help="One paragraph about the documents. Default: the titles of the top-level reports.")
    ] = "",
    users: Annotated[int, typer.Option("--users", "-n", min=1, max=8, help="N users, N tasks each, N questions each.")] = 5,
    questions: Annotated[Path | None, typer.Option("--questions", metavar="FILE", help="Your own questions, one per line.")] = None,
    condition: Annotated[
        list[str] | None, typer.Option("--condition", help="C0 to C3, TS, SS, mix, local or drift. Repeatable. Default: all.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Number of verdicts per pair, each in both orders.")] = 2,
    samples: Annotated[int, typer.Option("--samples", min=0, help="Number of extra samples of written answers, to measure agreement.")] = 2,
    style: StyleOption = "",
    response_type: ResponseTypeOption = "",
    seed: Annotated[int, typer.Option("--seed", help="Seed that shuffles the reports of C0 to C3.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the study. The same command resumes.")] = Path(
        "localrag-study"
    ),
    index: IndexOption = None,
    model: ModelOption = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge", metavar="NAME|PATH", help="Model that judges, or `bundled`. Default: the answering model; `bundled` for small ones."
        ),
    ] = None,
    *,
    engine: OptionValues,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare query modes on your own documents, as the GraphRAG paper does."""
    require_extra("eval", "rouge_score", "matplotlib")
    import asyncio

    from localrag.eval.comparison import StudyPlan, run_study
    from localrag.eval.conditions import CONDITION_NAMES
    from localrag.query.question import QueryOptions

    options = QueryOptions(style=style, response_type=response_type, seed=seed)
    chosen = engine_options(engine, quiet=as_json)
    plan = StudyPlan(about, users, questions, tuple(condition or CONDITION_NAMES), repeats, samples, options, model, judge, chosen)
    asyncio.run(run_study(index, out, plan, (lambda _: None) if as_json else print_note))
    _show_study(out, as_json=as_json)


@eval_app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of `localrag eval answers`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the results of a comparison and write its report again."""
    _show_study(folder, as_json=as_json)


def _show_study(folder: Path, *, as_json: bool) -> None:
    require_extra("eval", "rouge_score", "matplotlib")
    from localrag.cli.views.tables import print_study
    from localrag.engine.embedder import open_embedder
    from localrag.eval.comparison import study_results, write_page
    from localrag.model_files import find_embedder

    results = study_results(folder, cache(lambda: open_embedder(find_embedder(None)).embed))
    page = write_page(folder, results)
    write_atomically(folder / "results.json", json.dumps(results, ensure_ascii=False, indent=1).encode())
    write_result(results, print_study, results, page, as_json=as_json)


RUN_OUTPUT_FORMATS = ("md", "csv", "json", "jsonl", "sqlite")
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
        str, typer.Option("--style", help="auto: by the model's size, as in indexing.", **choice_option("style", ("auto", *ANSWER_STYLES)))
    ] = "auto",
    form: Annotated[
        str, typer.Option("--format", "-o", help="Output format. Default: a table.", **choice_option("output format", RUN_OUTPUT_FORMATS))
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file instead of stdout.")] = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Keep runs in this folder. Default: the user cache.")] = None,
    allow_host: AllowHostOption = None,
    parallel: ParallelRequestsOption = 0,
    values: EngineOption = "",  # not named `engine`, which is a command of this group
    deterministic: DeterministicOption = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Measure models on this machine: memory, speed, extraction, yes/no questions, an index with ten questions."""
    if context.invoked_subcommand:
        if models or as_json:
            name, option = context.invoked_subcommand, "--model" if models else "--json"
            raise UsageError(f"{option} belongs after the subcommand.", f"localrag bench {name} {option}{' …' * bool(models)}")
        return
    if as_json and form not in ("", "json"):
        raise UsageError(f"Either --json or --format {form}, not both.", "Leave out one of them.")
    from localrag.bench.measure import ModelBenchmark
    from localrag.bench.report import check_format, warnings
    from localrag.bench.runs import measure_models, new_path
    from localrag.cli.views.tables import BenchProgress
    from localrag.engine.settings import EngineOptions

    form = form or "json" * as_json
    check_format(form, out)
    EngineOptions.of(values)  # reports errors before models are opened
    task = ModelBenchmark(None, values, deterministic, repeat, quick, limit, style, ",".join(allow_host or ()), parallel)
    path = save or new_path()
    with BenchProgress(quiet=quiet) as progress:
        run = measure_models(models or [None], task, progress, path)
    _show_run(run, form, out)
    if not quiet:
        print_note(f"Kept: {path} · compare with another: localrag bench compare {path.stem if not save else path} RUN")
    if all(m["error"] for m in run["models"]):
        raise typer.Exit(4)
    if warnings(run["models"]):
        raise typer.Exit(5)


def _show_run(run: dict[str, Any], form: str, out: Path | None) -> None:
    """Print a benchmark run in the chosen format, or write it to a file."""
    from localrag.bench.report import as_text, write_sqlite, write_text_file
    from localrag.cli.views.tables import print_run

    if form == "sqlite" and out:
        write_sqlite(run, out)
    elif out:
        write_text_file(as_text(run, form or "md"), out)
    elif form:
        write_out(as_text(run, form))
    else:
        print_run(run)
    if out:
        print_note(f"Written: {out}")


@bench_app.command("compare")
def compare_command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN [RUN]", help="Runs listed by `bench runs`, or files. RUN#MODEL selects one model.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Compare two runs, or two models of one run, with 95 % intervals."""
    from dataclasses import asdict

    from localrag.bench.runs import compare_models, models_to_compare
    from localrag.cli.views.tables import print_compared_models

    if len(runs) > 2:
        raise UsageError("Two runs are compared at a time.", "localrag bench compare RUN1 RUN2")
    for first, a, second, b in models_to_compare(runs):
        comparisons = compare_models(a, b)
        if as_json:
            for one in comparisons:
                row = {"first": first, "second": second, "name": one.name, "paired": one.paired, "verdict": one.verdict}
                write_json(row | asdict(one.difference))
        else:
            print_compared_models(first, a, second, b, comparisons)


@bench_app.command("runs")
def runs_command(as_json: JsonOption = False) -> None:
    """List saved runs, oldest first."""
    from localrag.bench.runs import load_run, saved_runs
    from localrag.cli.views.console import stdout_console

    rows: list[dict[str, Any]] = []
    for path in saved_runs():
        run = {"name": path.stem, "path": str(path), "models": [], "problem": ""}
        try:
            rows.append(run | {"models": [{"name": m["name"], "error": m["error"]} for m in load_run(str(path))["models"]]})
        except UsageError as error:
            rows.append(run | {"problem": str(error)})
    if as_json:
        write_json(rows)
        return
    for row in rows:
        models = ", ".join(m["name"] + (" (not measured)" if m["error"] else "") for m in row["models"])
        stdout_console.print(f"{row['name']}  {row['problem'] or models}")


@bench_app.command("engine")
@with_options("engine", **setting_options("engine", "deterministic"))
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
    *,
    engine: OptionValues,
    retune: RetuneOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the engine's speed on a workload."""
    from localrag.bench import engine as engine_bench
    from localrag.cli.views.tables import print_engine_benchmark
    from localrag.model_files import find_chat_model

    work = engine_bench.read_workload(text, prefix, schema, chunks=chunks, words=words, max_tokens=max_tokens)
    file = find_chat_model(model)
    options = engine_options(engine, retune=retune)
    figures = engine_bench.run_workload(file, options, work, limit=ablate)
    without = engine_bench.run_ablations(file, engine_options(engine), work) if ablate else {}
    write_result(figures | ({"ablations": without} if ablate else {}), print_engine_benchmark, figures, without, as_json=as_json)
