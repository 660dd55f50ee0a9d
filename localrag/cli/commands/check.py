"""`localrag check`: is everything in the index as it must be? And how what a check found is printed."""

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import write_json

if TYPE_CHECKING:
    from localrag.records import Line
    from localrag.store.wrong import Part

NEXT = "localrag index PATH"  # the command that the index was made with
LOST = "Put a backup of the index in its place, or move it away and index again."


def check_command(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what needs no model. Keeps a copy of the database.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify the index: database, passages, graph, reports, vectors."""
    from localrag.cli.views.console import say
    from localrag.opening import find_index
    from localrag.store.check import check_index, wrongs
    from localrag.store.repair import repair_index
    from localrag.store.schema import open_index, writer_lock

    folder = find_index(index)
    with writer_lock(folder) if repair else nullcontext(), closing(open_index(folder, create=repair, allow_torn=True)) as db:
        parts = check_index(db, folder)
        copy = repair_index(db, folder) if repair else None
        after = check_index(db, folder) if copy else parts
    left = list(wrongs(after))
    lines = _lines(parts, after if copy else None)
    following = _what_next(after, copy, bool(left))
    print_found(lines, as_json=as_json, repaired=bool(copy), copy=str(copy or ""), next=following)
    if not as_json:
        say(f"{following}\nThe database as it was: {copy}" if copy else following)
    if left:
        raise typer.Exit(1)


def _lines(parts: "list[Part]", after: "list[Part] | None") -> "list[Line]":
    """A line for every part that is as it must be, and one for everything that is not; `after`: what there is after a repair."""
    from localrag.records import Line

    lines, left = [], {w.text: w.due for part in after or () for w in part.wrong}
    for part in parts:
        if not part.wrong:
            lines.append(Line(part.name, "ok", part.looked_at))
        for wrong in part.wrong:
            if wrong.due or left.get(wrong.text):
                lines.append(Line(part.name, "warn", wrong.text, NEXT))
            elif after is None:
                lines.append(Line(part.name, "fail", wrong.text, "localrag check --repair"))
            elif wrong.text in left:
                lines.append(Line(part.name, "fail", wrong.text, LOST))
            else:
                lines.append(Line(part.name, "warn", f"mended: {wrong.text}"))
    return lines


def _what_next(parts: "list[Part]", copy: Path | None, left: bool) -> str:
    """What the user does now, in a sentence."""
    if left and not copy:
        return "Mend it: localrag check --repair"
    if left:
        return f"The rest cannot be mended. {LOST}"
    if any(w.due for part in parts for w in part.wrong):
        return f"The next run makes what is missing: {NEXT}, with the paths you indexed."
    return "The index is as it must be."


def print_found(lines: "list[Line]", *, as_json: bool, **rest: object) -> None:
    """What was found: a line each, or one JSON object with `rest` in it."""
    from dataclasses import asdict

    from localrag.cli.views.tables import print_lines

    if as_json:
        ok = all(line.state != "fail" for line in lines)
        write_json({"ok": ok, "checks": [asdict(line) for line in lines]} | rest)
    else:
        print_lines(lines)
