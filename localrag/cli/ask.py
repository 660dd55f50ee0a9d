"""`localrag ask`, `chat`, `questions`, `logs` and `source`."""

import asyncio
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.index import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    ModelOption,
    RerankerOption,
    RetuneOption,
    engine_options,
)

if TYPE_CHECKING:
    from localrag.llm.project import Project
    from localrag.query.question import Options
    from localrag.records import Answer

MODES = "auto · mix: particulars, by a walk over the graph · local: about things · global: about everything · drift: broad, then deep"
ModeOption = Annotated[
    str, typer.Option("--mode", "--method", help=f"{MODES} · basic: nearest passages · ts, ss: the paper's comparisons.")
]
StyleOption = Annotated[str, typer.Option("--style", help="extractive: the documents' own sentences; abstractive: the model's.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Leave out sentences that no passage supports.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def ask_command(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    mode: ModeOption = "auto",
    level: Annotated[int | None, typer.Option("--level", help="Community level of a global question; 0 is the coarsest.")] = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Choose a global question's reports from the coarsest level down.")] = False,
    go_on: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the last conversation: he, it and there are understood.")
    ] = False,
    style: StyleOption = "",
    strict: StrictOption = False,
    response_type: Annotated[
        str, typer.Option("--response-type", help="Such as 'single sentence', 'list of 3 points', 'multiple paragraphs'.")
    ] = "",
    max_calls: Annotated[
        int | None,
        typer.Option("--max-calls", min=0, help="Calls of the model at most, instead of 50 and 100,000 tokens; then the best so far."),
    ] = None,
    max_seconds: Annotated[float | None, typer.Option("--max-seconds", min=0, help="Seconds at most; then the best so far.")] = None,
    context_only: Annotated[bool, typer.Option("--context-only", help="Print what the model would be shown.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Shuffles the reports of a global question.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before an answer that may take more than a minute.")] = False,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    retune: RetuneOption = False,
    deterministic: DeterministicOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from the index; every citation is a verbatim passage of a file."""
    from localrag.project import open_for_questions
    from localrag.query.question import Options

    options = Options(mode, level, dynamic, seed, style, strict, max_calls, max_seconds, response_type, context_only)
    chosen = engine_options(engine, retune=retune, deterministic=deterministic, hosts=allow_host, at_once=at_once)
    with open_for_questions(index, model=model, reranker=reranker, engine=chosen) as project:
        if go_on:
            options = replace(options, conversation=_last_conversation(project))
        ask_and_print(question, project, options, as_json=as_json, asks=not yes)


def _last_conversation(project: "Project") -> int:
    from localrag.errors import LocalragError
    from localrag.store import ledger

    last = ledger.last_answer(project.db)
    if last is None or not last.conversation:
        raise LocalragError("There is no conversation to go on with.", 'Begin one: localrag ask "…"')
    return last.conversation


def ask_and_print(question: str, project: "Project", options: "Options", *, as_json: bool = False, asks: bool = True) -> "Answer":
    """Ask and render: JSON alone on stdout, or text that streams on a terminal, then its citations.

    `asks`: whether a person at a terminal is asked before an answer that takes long.
    """
    from localrag.cli.display import Stream, answer_json, print_answer
    from localrag.query import answer

    stream = Stream(live=sys.stdout.isatty() and not as_json)
    agree = _go_on if asks and sys.stdin.isatty() and sys.stderr.isatty() else None
    result = asyncio.run(answer(question, project, options, stream.write, agree))
    if as_json:
        sys.stdout.write(json.dumps(answer_json(result, project), ensure_ascii=False) + "\n")
    else:
        print_answer(result, project, stream)
    return result


def _go_on() -> bool:
    return typer.confirm("Go on?", default=True, err=True)


def chat_command(
    mode: ModeOption = "auto",
    style: StyleOption = "",
    strict: StrictOption = False,
    go_on: Annotated[bool, typer.Option("--continue", "-c", help="Go on with the last conversation.")] = False,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
) -> None:
    """Ask question after question; each may lean on those before. `/quit` ends, `/source N` opens a citation."""
    from localrag.cli.display import say
    from localrag.errors import LocalragError
    from localrag.project import open_for_questions
    from localrag.query.question import Options

    chosen = engine_options(engine, hosts=allow_host, at_once=at_once)
    with open_for_questions(index, model=model, reranker=reranker, engine=chosen) as project:
        options = Options(mode, style=style, strict=strict, conversation=_last_conversation(project) if go_on else None)
        say("Ask; /source N opens a citation, /quit ends.")
        while (text := _read_line()) is not None:
            try:
                if text.startswith("/source"):
                    print_citation(project, int(text.split()[1]) if text.split()[1:] and text.split()[1].isdigit() else 1)
                elif text:
                    options = replace(options, conversation=ask_and_print(text, project, options).conversation)
            except LocalragError as error:
                say(f"{error} {error.hint}".strip())


def _read_line() -> str | None:
    """A line from the person, or None at the end."""
    if sys.stdin.isatty():
        sys.stderr.write("\n> ")
        sys.stderr.flush()
    line = sys.stdin.readline()
    return None if not line or line.strip() in ("/quit", "/exit", "/bye") else line.strip()


def questions_command(
    about: Annotated[str, typer.Option("--about", metavar="ENTITY", help="Whom or what to ask about.")] = "",
    n: Annotated[int, typer.Option("-n", min=1, max=50, help="How many.")] = 5,
    index: IndexOption = None,
    model: ModelOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Suggest questions: to begin with, about an entity, or following the last conversation."""
    from localrag.cli.display import out
    from localrag.errors import LocalragError
    from localrag.project import open_for_questions
    from localrag.query.converse import questions_worth_asking
    from localrag.query.retrieve import named_entities
    from localrag.store import ledger

    chosen = engine_options("", hosts=allow_host, at_once=at_once, quiet=as_json)
    with open_for_questions(index, model=model, engine=chosen) as project:
        if about and not named_entities(about, project):
            raise LocalragError(f"No entity is called {about!r}.", f"Look for it: localrag search {about!r}")
        last = None if about else ledger.last_answer(project.db)
        history = ledger.conversation(project.db, last.conversation) if last and last.conversation else []
        found = asyncio.run(questions_worth_asking(project, history, about=about, n=n))
    if as_json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        out.print("\n".join(found), markup=False)


def logs_command(
    n: Annotated[int, typer.Option("-n", min=1, help="How many, newest first.")] = 3,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show past questions and answers."""
    from localrag.cli.show import log_json, print_log
    from localrag.project import find_index
    from localrag.store import ledger
    from localrag.store.schema import open_index

    found = ledger.answers(open_index(find_index(index)), n)
    if as_json:
        sys.stdout.write(json.dumps([log_json(*one) for one in found], ensure_ascii=False) + "\n")
    else:
        print_log(found)


def source_command(
    n: Annotated[int, typer.Argument(metavar="N", help="The number of a citation of the last answer.")],
    opens: Annotated[bool, typer.Option("--open", help="Open the file in the program the system has for it.")] = False,
    index: IndexOption = None,
) -> None:
    """Print the passage behind citation N of the last answer, with the quoted sentence marked."""
    from localrag.project import open_for_questions

    with open_for_questions(index) as project:
        path = print_citation(project, n)
        if opens and typer.launch(str(project.root / path)) != 0:
            from localrag.cli.display import say

            say(f"{project.root / path} could not be opened.")


def print_citation(project: "Project", n: int) -> str:
    """Print the passage behind a citation of the last answer; returns its path. Raises LocalragError."""
    from localrag.cli.display import print_source
    from localrag.errors import LocalragError
    from localrag.store import ledger

    last = ledger.last_answer(project.db)
    if last is None:
        raise LocalragError("No question was asked of this index yet.", 'Ask one: localrag ask "…"')
    found = next((c for c in last.citations if c.n == n), None)
    if found is None:
        raise LocalragError(f"The last answer has no citation {n}.", f"It has {len(last.citations)}: localrag source 1")
    print_source(found, project)
    return found.path
