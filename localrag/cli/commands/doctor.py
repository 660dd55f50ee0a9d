"""`localrag doctor`: can localrag work well on this machine?"""

import sys
from typing import Annotated

import typer

from localrag.cli.commands.check import print_found
from localrag.cli.options import EngineOption, IndexOption, JsonOption, ModelOption, engine_options


def doctor_command(
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure the speed of the chat model and the embedder.")] = True,
    model: ModelOption = None,
    index: IndexOption = None,
    engine: EngineOption = "",
    as_json: JsonOption = False,
) -> None:
    """Check this machine: libraries, CPU, memory, disk, models, speed, and that nothing uses the network."""
    from localrag.doctor import Subject, examine
    from localrag.errors import LocalragError, NoIndex
    from localrag.opening import find_index, model_names
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
