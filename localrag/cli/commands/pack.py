"""`localrag pack` and `localrag unpack`: an index in one file, for another machine."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import in_line, write_json

if TYPE_CHECKING:
    from localrag.exchange.unpack import Unpacked


def pack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, for example town.localrag.")],
    documents: Annotated[bool, typer.Option("--documents", help="Also pack the files that were indexed.")] = False,
    models: Annotated[bool, typer.Option("--models", help="Also pack the models that the index needs.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the index to one file that can be carried to another machine and verifies itself."""
    from localrag.cli.views.console import say
    from localrag.exchange.pack import pack

    packed = pack(file, index, documents=documents, models=models)
    if as_json:
        left_out = [{"path": path, "reason": reason} for path, reason in packed.left_out]
        write_json({"path": str(packed.path), "size": packed.size, "manifest": packed.manifest, "left_out": left_out})
        return
    members = packed.manifest["members"]
    say(f"{packed.path}: {packed.size / 1e6:,.1f} MB, {len(members)} files, {packed.manifest['documents']} documents.")
    _print_listed("left out", packed.left_out)
    say(f"On the other machine: localrag unpack {file.name} DIR")


def unpack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `localrag pack`.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the index goes: DIR/.localrag. Made if missing.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Only verify the file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Verify a packed index and put it into a folder. Nothing is overwritten."""
    from localrag.exchange.unpack import check_pack, unpack

    found = check_pack(file) if check else unpack(file, folder)
    if as_json:
        write_json(asdict(found) | {"folder": str(found.folder) if found.folder else None})
    else:
        _print(found, file)
    if any(m.remedy for m in found.models):
        raise typer.Exit(5)


def _print_listed(what: str, listed: tuple[tuple[str, str], ...]) -> None:
    """Print at most 20 names, each with its reason or value."""
    from localrag.cli.views.console import say

    for name, detail in listed[:20]:
        say(f"{what}  {in_line(name)}: {in_line(detail)}")
    if len(listed) > 20:
        say(f"{' ' * len(what)}  and {len(listed) - 20} more (all of them: --json)")


def _print(found: "Unpacked", file: Path) -> None:
    from localrag.cli.views.console import say

    what = f"{found.members} files, {found.size / 1e6:,.1f} MB, {found.documents} documents, packed by localrag {in_line(found.localrag)}"
    if found.folder is None:
        say(f"{file} is whole: {what}.")
        _print_listed("left out when unpacked", found.left_out)
        return
    say(f"{found.folder}: {what}.")
    _print_listed("left out", found.left_out)
    _print_listed("dropped", found.dropped)
    for model in found.models:
        kind = "chat model" if model.kind == "chat_model" else "embedder"
        say(f"{kind}  {in_line(model.name)}: {model.path or f'missing here. {model.remedy}'}")
    if not found.files:
        say("The documents themselves were not packed. Questions do not need them; see docs: how-to/move.")
    say(f'Ask it: localrag ask "…" --index {found.folder.parent}')
