"""`localrag doctor`: can localrag work well on this machine?"""

import sys
from typing import Annotated

import typer

from localrag.cli.check import JsonOption, print_found
from localrag.cli.index import EngineOption, IndexOption, ModelOption, engine_options


def doctor_command(
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Run the chat model and the embedder for some seconds.")] = True,
    model: ModelOption = None,
    index: IndexOption = None,
    engine: EngineOption = "",
    as_json: JsonOption = False,
) -> None:
    """Examine this machine: libraries, CPU, memory, disk, models, speed; and that nothing reaches for a network."""
    from localrag.bench.doctor import Subject, examine
    from localrag.errors import LocalragError, NoIndex
    from localrag.project import find_index, model_names
    from localrag.records import Line

    folder, damaged = None, []
    names: tuple[str | None, str | None] = (None, None)
    try:
        folder = find_index(index)
        names = model_names(folder)
    except NoIndex:
        if index is not None:
            raise
    except LocalragError as error:
        damaged = [Line("database", "fail", str(error), error.hint)]
    lines = damaged + examine(Subject(folder, model or names[0], names[1]), engine_options(engine, quiet=as_json), speed=speed)
    print_found(lines, as_json=as_json)
    if any(line.state == "fail" for line in lines):
        sys.exit(1)
