"""`localrag serve`: the index in a browser, and as a model that other programs on this machine can ask."""

import os
import secrets
import sys
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    ModelOption,
    RerankerOption,
    engine_options,
)

if TYPE_CHECKING:
    from localrag.serve.guard import Door

KEY = "serve.key"  # a file of the index folder
MAX_KEY_BYTES = 4096


def serve_command(
    host: Annotated[str, typer.Option("--host", help="Address to listen on. Beyond this machine only with --api-key-file.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on. 0: any that is free.")] = 8765,
    no_open: Annotated[bool, typer.Option("--no-open/--open", help="Do not open the page in a browser.")] = False,
    read_only: Annotated[
        bool, typer.Option("--read-only/--no-read-only", help="Let nobody add, remove or index documents through the server.")
    ] = False,
    inbox: Annotated[
        Path | None, typer.Option("--inbox", metavar="DIR", help="Folder for files that are dragged into the page. Default: inbox.")
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option("--api-key-file", metavar="FILE", help="File with the API key. Default: a new key in the index folder."),
    ] = None,
    trust_host: Annotated[
        list[str] | None, typer.Option("--trust-host", metavar="NAME", help="Another name the server goes by. Repeatable.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option("--cors", metavar="ORIGIN", help="Web origin that may use the server. Repeatable.")
    ] = None,
    api_sources: Annotated[bool, typer.Option("--api-sources/--no-api-sources", help="List the sources behind each answer.")] = True,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=1, help="Most seconds for the question of a program; then the best answer so far.")
    ] = None,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
) -> None:
    """Open the index in a browser, and answer programs on this machine (/v1)."""
    from localrag.errors import UsageError
    from localrag.opening import find_index, open_for_questions, root_of
    from localrag.serve.guard import OWN_NAMES, Door
    from localrag.serve.jobs import Jobs
    from localrag.serve.run import run
    from localrag.serve.site import Site
    from localrag.serve.worker import Worker

    if host not in ("127.0.0.1", "::1", "localhost") and api_key_file is None:
        raise UsageError(f"{host} can be reached from other machines, and the key opens the documents.", "Set a key: --api-key-file FILE")
    folder = find_index(index)
    key_file = api_key_file or folder / KEY
    key = read_key(key_file, make=api_key_file is None)
    door = Door(key, (*OWN_NAMES, *(name.lower() for name in trust_host or ())), tuple(cors or ()))
    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once)
    worker = Worker(folder, lambda: open_for_questions(folder, model=model, reranker=reranker, engine=chosen))
    jobs, root = Jobs(folder, [part for name in allow_host or () for part in ("--allow-host", name)]), root_of(folder)
    place = (inbox or root / "inbox").absolute()
    outside = tuple(allow_host or ())
    site = Site(folder, root, worker, jobs, place, read_only=read_only, max_seconds=max_seconds, list_sources=api_sources, outside=outside)
    with ExitStack() as until_the_end:
        run(site, door, host, port, key_file, lambda address: _announce(address, door, None if no_open else until_the_end))


def _announce(address: str, door: "Door", browse: ExitStack | None) -> None:
    """Print the server's address, and open the page in a browser if `browse` is given: its exit removes the file that this takes."""
    from localrag.cli.views.console import say
    from localrag.serve.launch import open_in_browser, redirect_file

    (code,) = door.codes
    say(f"Page: {address}/#k={code}\nListening on {address}/v1\nKey: {door.key}\nModel: localrag, or localrag:MODE. Ctrl-C ends.")
    sys.stderr.flush()
    if browse:
        open_in_browser(browse.enter_context(redirect_file(f"{address}/#k={code}")))


def read_key(file: Path, *, make: bool) -> str:
    """The key in a file. With `make`, a new one of 256 random bits is written if there is none or it was not made on this machine.

    An index folder may come from somebody else, who knows the key in it. Raises UsageError.
    """
    from localrag.errors import UsageError

    try:
        if make:
            _make_key(file)
        key = file.read_text(encoding="utf-8").strip()
        shared = os.name == "posix" and file.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The key in {file} cannot be read: {error}", "Write one: openssl rand -base64 32 > FILE") from error
    if len(key) < 16:
        raise UsageError(f"The key in {file} has fewer than 16 characters.", "Write a longer one: openssl rand -base64 32 > FILE")
    if shared:
        raise UsageError(f"Others may read the key in {file}.", f"Keep it to yourself: chmod 600 {file}")
    return key


def _make_key(file: Path) -> None:
    """Write a new key unless the existing one was made on this machine. Raises OSError."""
    from localrag.cli.views.console import say
    from localrag.system.files import replace_file
    from localrag.system.trust import is_known, remember

    exists = os.path.lexists(file)
    if exists and file.is_file() and not file.is_symlink() and file.stat().st_size < MAX_KEY_BYTES:
        with suppress(UnicodeDecodeError):
            if is_known("serve-key", _digest(file.read_text(encoding="utf-8").strip())):
                return
    key = secrets.token_urlsafe(32)
    remember("serve-key", _digest(key))
    replace_file(file, key.encode())
    if exists:
        say(f"The key in {file} was not made on this machine and has been replaced by a new one.")


def _digest(key: str) -> str:
    return sha256(f"key of a server {key}".encode()).hexdigest()
