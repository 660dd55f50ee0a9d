"""`localrag status`."""

import json
import sys
from typing import Annotated

import typer

from localrag.cli.index import IndexOption


def status_command(
    index: IndexOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Show what the index holds, what was left out or failed, and what it cost."""
    from localrag.cli.display import print_status
    from localrag.project import find_index
    from localrag.store.schema import open_index
    from localrag.store.status import status

    folder = find_index(index)
    found = status(open_index(folder), folder)
    if as_json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        print_status(found)
