"""`localrag eval extraction`, `eval retrieval` and `eval qa`."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.index import DeterministicOption, EngineOption, ModelOption, RerankerOption, engine_options

eval_app = typer.Typer(no_args_is_help=True, help="Measure localrag against texts that people annotated.")


@eval_app.callback()
def _eval() -> None:
    """Measure localrag against texts that people annotated."""


@eval_app.command("extraction")
def extraction_command(
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="A file or folder of annotated texts.")],
    form: Annotated[
        str, typer.Option("--format", help="conll04, scierc, crossner, litbank, redocred, re3d, cluener, zh_literature, mine or marked.")
    ],
    extractor: Annotated[
        str, typer.Option("--extractor", help="model; phrases: no model; freeform: the model without anything tied to the text.")
    ] = "model",
    model: ModelOption = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="A random sample of so many texts; 0: all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Decides the sample.")] = 0,
    gleanings: Annotated[int, typer.Option("--gleanings", min=0, help="How often the model is asked whether names were missed.")] = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Extract from annotated texts and score what was found: names, types, relations, merged names, facts."""
    from localrag.cli.display import print_scores
    from localrag.config import Settings
    from localrag.eval.extraction import evaluate
    from localrag.eval.gold import load_gold
    from localrag.models import find_chat_model

    documents = load_gold(dataset, form, limit=limit, seed=seed)
    options = engine_options(engine, deterministic=deterministic, quiet=as_json)
    settings = replace(Settings(), max_gleanings=gleanings)
    found = asyncio.run(evaluate(documents, form, extractor, find_chat_model(model), options, settings))
    if as_json:
        sys.stdout.write(json.dumps(found | {"seed": seed}, ensure_ascii=False) + "\n")
    else:
        print_scores(found)


@eval_app.command("retrieval")
def retrieval_command(
    tasks: Annotated[list[Path], typer.Argument(metavar="DIR…", help="Folders with corpus.jsonl and queries.jsonl.")],
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="mix, basic, local, words or vectors; may be given several times.")
    ] = None,
    extractor: Annotated[str, typer.Option("--extractor", help="model; or phrases: no model.")] = "model",
    model: ModelOption = None,
    reranker: RerankerOption = None,
    engine: EngineOption = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line and nothing else.")] = False,
) -> None:
    """Index passages, ask questions, and count how many of each question's gold passages come first."""
    from localrag.cli.display import print_retrieval
    from localrag.eval.retrieval import evaluate_retrieval, load_task

    options = engine_options(engine, quiet=as_json)
    for task in [load_task(folder) for folder in tasks]:
        rows = asyncio.run(evaluate_retrieval(task, mode or ["mix"], extractor, model, options, reranker))
        if as_json:
            sys.stdout.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
            sys.stdout.flush()
        else:
            print_retrieval(rows)


@eval_app.command("qa")
def qa_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="QMSum, GraphRAG-Bench, or corpus.jsonl with queries.jsonl.")],
    mode: Annotated[
        list[str] | None, typer.Option("--mode", help="A mode of localrag ask, or none: the model alone; may be given several times.")
    ] = None,
    extractor: Annotated[str, typer.Option("--extractor", help="model; or phrases: no model.")] = "model",
    model: ModelOption = None,
    style: Annotated[str, typer.Option("--style", help="extractive or abstractive; else what suits the model.")] = "",
    response_type: Annotated[str, typer.Option("--response-type", help='The form of the answers, such as "a single sentence".')] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="A random sample of so many questions; 0: all.")] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Decides the sample.")] = 0,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Indexes and answers are kept here; the same command goes on.")] = Path(
        "localrag-qa"
    ),
    engine: EngineOption = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line and nothing else.")] = False,
) -> None:
    """Answer questions with gold answers, mode by mode, and score answers and evidence by type of question."""
    from localrag.cli.display import print_rows, say
    from localrag.eval.qa import Setup, averages, evaluate_answers
    from localrag.eval.qa_sets import load_questions
    from localrag.query import Options

    sets = load_questions(folder, limit=limit, seed=seed)
    options = Options(style=style, response_type=response_type)
    setup = Setup(tuple(mode or ["auto", "basic", "none"]), extractor, model, options, engine_options(engine, quiet=as_json))
    rows = averages(asyncio.run(evaluate_answers(sets, setup, out, (lambda _: None) if as_json else say)))
    if as_json:
        sys.stdout.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    else:
        print_rows(rows)
