"""`localrag demo`."""

from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.commands.index import Shown, run_index
from localrag.cli.options import engine_options


def demo_command(
    index: Annotated[Path, typer.Option("--index", "-i", metavar="DIR", help="Folder for the demo's index.")] = Path("localrag-demo"),
) -> None:
    """Index the demo documents (a harbour town in 1974) and ask two questions."""
    from localrag.cli.commands.ask import ask_and_print
    from localrag.cli.views.console import say
    from localrag.demo import CORPUS, QUESTIONS
    from localrag.opening import open_for_questions, open_for_writing
    from localrag.query.question import Options

    say(f"Indexing the demo documents in {CORPUS}")
    options = engine_options("")
    with open_for_writing(index, engine=options) as project:
        run_index([CORPUS], project, Shown())
    for mode, question in QUESTIONS:
        say(f'\n$ localrag ask "{question}" --mode {mode}\n')
        with open_for_questions(index, engine=options) as project:
            ask_and_print(question, project, Options(mode))
    say(f'\nAsk more: localrag ask "…" --index {index}')
