"""`localrag ask` and `localrag source`."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.index import AllowHostOption, DeterministicOption, EngineOption, IndexOption, ModelOption, RetuneOption, engine_options

if TYPE_CHECKING:
    from localrag.llm.project import Project

MODES = ("local", "global", "basic")


def ask_command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    mode: Annotated[
        str,
        typer.Option("--mode", "--method", help="local: about particular things · global: about everything · basic: nearest passages."),
    ] = "local",
    level: Annotated[int | None, typer.Option("--level", help="Community level of a global question; 0 is the coarsest.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Shuffles the reports of a global question.")] = 0,
    index: IndexOption = None,
    model: ModelOption = None,
    allow_host: AllowHostOption = None,
    engine: EngineOption = "",
    retune: RetuneOption = False,
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Answer a question from the index; every citation is a verbatim passage of a file."""
    from localrag.errors import UsageError
    from localrag.project import open_for_questions

    if mode not in MODES:
        raise UsageError(f"There is no mode {mode!r}.", f"Modes: {', '.join(MODES)}")
    options = engine_options(engine, retune=retune, deterministic=deterministic, hosts=allow_host)
    with open_for_questions(index, model=model, engine=options) as project:
        ask_and_print(question, project, mode=mode, level=level, seed=seed, as_json=as_json)


def ask_and_print(question: str, project: "Project", *, mode: str, level: int | None = None, seed: int = 0, as_json: bool = False) -> None:
    """Ask and render: JSON alone on stdout, or text that streams on a terminal, then its citations."""
    from localrag.cli.display import Stream, answer_json, print_answer
    from localrag.query import Options, answer

    stream = Stream(live=sys.stdout.isatty() and not as_json)
    result = asyncio.run(answer(question, project, Options(mode, level, seed), stream.write))
    if as_json:
        sys.stdout.write(json.dumps(answer_json(result, project), ensure_ascii=False) + "\n")
    else:
        print_answer(result, project, stream)


def source_command(
    n: Annotated[int, typer.Argument(metavar="N", help="The number of a citation of the last answer.")],
    index: IndexOption = None,
) -> None:
    """Print the passage behind citation N of the last answer, with the quoted sentence marked."""
    from localrag.cli.display import print_source
    from localrag.errors import LocalragError
    from localrag.project import open_for_questions
    from localrag.store import ledger

    with open_for_questions(index) as project:
        last = ledger.last_answer(project.db)
        if last is None:
            raise LocalragError("No question was asked of this index yet.", 'Ask one: localrag ask "…"')
        found = next((c for c in last.citations if c.n == n), None)
        if found is None:
            raise LocalragError(f"The last answer has no citation {n}.", f"It has {len(last.citations)}: localrag source 1")
        print_source(found, project)
