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
    from localrag.library import Index

    say(f"Indexing the demo documents in {CORPUS}")
    options = engine_options("")
    opened = Index.open(index, engine=options, missing_ok=True)
    with opened.writing():
        run_index([CORPUS], opened, Shown())
    for mode, question in QUESTIONS:
        say(f'\n$ localrag ask "{question}" --mode {mode}\n')
        with opened:
            ask_and_print(question, opened, {"mode": mode})
    say(f'\nAsk more: localrag ask "…" --index {index}')
