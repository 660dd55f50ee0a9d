"""`localrag eval extraction`, `eval retrieval`, `eval qa`, `eval support`, `eval answers` and `eval report`."""

import asyncio
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.options import (
    EXTRACTORS,
    MODES,
    STYLES,
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    ModelOption,
    RerankerOption,
    engine_options,
    one_of,
)
from localrag.cli.views.terminal import write_json
from localrag.system.extras import require

RETRIEVAL_MODES = ("mix", "walk", "basic", "local", "words", "vectors")
eval_app = typer.Typer(no_args_is_help=True, help="Evaluate localrag on annotated data.")


@eval_app.callback()
def _eval() -> None:
    """Evaluate localrag on annotated data."""


@eval_app.command("extraction")
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
            **one_of("extractor", (*EXTRACTORS, "freeform")),
        ),
    ] = "model",
    model: ModelOption = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Random sample of this many texts. 0: all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    gleanings: Annotated[int, typer.Option("--gleanings", min=0, help="How often to ask the model for missed names.")] = 0,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score extraction on annotated texts: names, types, relations, merges, facts."""
    from localrag.cli.views.tables import print_scores
    from localrag.config import Settings
    from localrag.eval.extraction import evaluate
    from localrag.eval.gold import load_gold
    from localrag.models import find_chat_model

    documents = load_gold(dataset, form, limit=limit, seed=seed)
    options = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=as_json)
    settings = replace(Settings(), max_gleanings=gleanings)
    found = asyncio.run(evaluate(documents, form, extractor, find_chat_model(model), options, settings))
    if as_json:
        write_json(found | {"seed": seed})
    else:
        print_scores(found)


@eval_app.command("retrieval")
def retrieval_command(
    tasks: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders with corpus.jsonl and queries.jsonl.")],
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="Retrieval mode. Repeatable. Default: mix.", **one_of("mode", RETRIEVAL_MODES))
    ] = None,
    extractor: Annotated[str, typer.Option("--extractor", help="phrases: no model.", **one_of("extractor", EXTRACTORS))] = "model",
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Score retrieval: how many gold passages are found first."""
    from localrag.cli.views.tables import print_retrieval
    from localrag.eval.retrieval import evaluate_retrieval, load_task

    options = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=as_json)
    for task in [load_task(folder) for folder in tasks]:
        rows = asyncio.run(evaluate_retrieval(task, mode or ["mix"], extractor, model, options, reranker))
        if as_json:
            for row in rows:
                write_json(row)
            sys.stdout.flush()
        else:
            print_retrieval(rows)


@eval_app.command("qa")
def qa_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="QMSum, GraphRAG-Bench, or corpus.jsonl with queries.jsonl.")],
    mode: Annotated[
        list[str] | None,
        typer.Option("--mode", help="Query mode. none: the model alone. Repeatable.", **one_of("mode", (*MODES, "none"))),
    ] = None,
    extractor: Annotated[str, typer.Option("--extractor", help="phrases: no model.", **one_of("extractor", EXTRACTORS))] = "model",
    model: ModelOption = None,
    style: Annotated[str, typer.Option("--style", help="Answer style. Default: by model size.", **one_of("style", STYLES))] = "",
    response_type: Annotated[str, typer.Option("--response-type", help='The form of the answers, such as "a single sentence".')] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="Random sample of this many questions. 0: all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for indexes and answers. The same command resumes.")] = Path(
        "localrag-qa"
    ),
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Score answers and evidence on questions with gold answers, for each mode."""
    from localrag.cli.views.console import say
    from localrag.cli.views.tables import print_rows
    from localrag.eval.qa import Setup, averages, evaluate_answers
    from localrag.eval.qa_sets import load_questions
    from localrag.query.question import Options

    require("eval", "rouge_score")
    sets = load_questions(folder, limit=limit, seed=seed)
    options = Options(style=style, response_type=response_type)
    setup = Setup(
        tuple(mode or ["auto", "basic", "none"]),
        extractor,
        model,
        options,
        engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=as_json),
    )
    rows = averages(asyncio.run(evaluate_answers(sets, setup, out, (lambda _: None) if as_json else say)))
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
    from localrag.engine.embedding.embedder import open_embedder
    from localrag.eval.support import load_cases, measure_support
    from localrag.models import find_embedder
    from localrag.query.answering.verify import checker

    cases = load_cases(file)
    found = measure_support(cases, checker(open_embedder(find_embedder(None)).embed))
    if as_json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        print_support(found, len(cases))


@eval_app.command("answers")
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
    style: Annotated[str, typer.Option("--style", help="Answer style. Default: by model size.", **one_of("style", STYLES))] = "",
    response_type: Annotated[str, typer.Option("--response-type", help='The form of the answers, such as "multiple paragraphs".')] = "",
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
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare query modes on your own documents, as the GraphRAG paper does."""
    from localrag.cli.views.console import say
    from localrag.eval.conditions import NAMES
    from localrag.eval.study import Plan, run_study
    from localrag.query.question import Options

    require("eval", "rouge_score", "matplotlib")
    options = Options(style=style, response_type=response_type, seed=seed)
    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once, quiet=as_json)
    plan = Plan(about, users, questions, tuple(condition or NAMES), repeats, samples, options, model, judge, chosen)
    asyncio.run(run_study(index, out, plan, (lambda _: None) if as_json else say))
    _show_study(out, as_json=as_json)


@eval_app.command("report")
def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of `localrag eval answers`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the results of a comparison and write its report again."""
    _show_study(folder, as_json=as_json)


def _show_study(folder: Path, *, as_json: bool) -> None:
    require("eval", "rouge_score", "matplotlib")
    from localrag.cli.views.study import print_study
    from localrag.engine.embedding.embedder import open_embedder
    from localrag.eval.page import write_page
    from localrag.eval.results import results
    from localrag.models import find_embedder

    found = results(folder, cache(lambda: open_embedder(find_embedder(None)).embed))
    page = write_page(folder, found)
    (folder / "results.json").write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf-8")
    if as_json:
        write_json(found)
    else:
        print_study(found, page)
