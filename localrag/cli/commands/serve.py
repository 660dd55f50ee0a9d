"""`localrag serve`, `mcp` and `worker`."""

import json
import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localrag.cli.options import (
    IndexOption,
    ModelOption,
    OptionValues,
    RerankerOption,
    as_arguments,
    choice_option,
    engine_options,
    setting_option,
    with_engine,
)
from localrag.cli.views.terminal import print_note
from localrag.errors import LocalragError, UsageError
from localrag.system.files import read_linked_file, write_atomically
from localrag.system.trust import is_trust_known, remember_trust

if TYPE_CHECKING:
    from localrag.project import Project
    from localrag.serve.auth import AccessPolicy


API_KEY_FILE = "serve.key"  # in the index folder
MAX_KEY_BYTES = 4096


@with_engine
def serve_command(
    host: Annotated[str, setting_option("host")] = "127.0.0.1",
    port: Annotated[int, setting_option("port")] = 8765,
    no_open: Annotated[bool, setting_option("no_open")] = False,
    read_only: Annotated[bool, setting_option("read_only")] = False,
    inbox: Annotated[Path | None, setting_option("inbox")] = None,
    api_key_file: Annotated[Path | None, setting_option("api_key_file")] = None,
    trust_host: Annotated[list[str] | None, setting_option("trust_host")] = None,
    cors: Annotated[list[str] | None, setting_option("cors")] = None,
    api_sources: Annotated[bool, setting_option("api_sources")] = True,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=1, help="Maximum seconds for a program's question. Then the best answer so far.")
    ] = None,
    index: IndexOption = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    *,
    engine: OptionValues,
) -> None:
    """Open the index in a browser and serve other programs on this machine (/v1)."""
    from localrag.exchange.export_folder import check_outside_index
    from localrag.project import documents_root, find_index, open_for_query
    from localrag.serve.app import run_server
    from localrag.serve.auth import OWN_NAMES, AccessPolicy
    from localrag.serve.context import IndexProcess, ServerContext
    from localrag.serve.query_worker import QueryWorker

    if host not in ("127.0.0.1", "::1", "localhost") and api_key_file is None:
        raise UsageError(f"{host} can be reached from other machines, and the key opens the documents.", "Set a key: --api-key-file FILE")
    folder = find_index(index)
    key_file = api_key_file or folder / API_KEY_FILE
    key = read_key(key_file, make=api_key_file is None)
    policy = AccessPolicy(key, (*OWN_NAMES, *(name.lower() for name in trust_host or ())), tuple(cors or ()))
    chosen = engine_options(engine)

    def opened(name: str | None = model) -> "AbstractContextManager[Project]":
        return open_for_query(folder, model=name, reranker=reranker, engine=chosen)

    worker = QueryWorker(folder, opened)
    jobs, root = IndexProcess(folder, as_arguments({"allow_host": engine["allow_host"]})), documents_root(folder)
    place = (inbox or root / "inbox").absolute()
    check_outside_index(place, folder)
    if place.is_symlink():  # the folder may come from somebody else
        raise UsageError(f"The inbox {place} is a link.", f"Name the folder itself: --inbox {os.path.realpath(place)}")
    outside = tuple(engine["allow_host"] or ())
    site = ServerContext(
        folder, root, worker, jobs, place, read_only=read_only, max_seconds=max_seconds, list_sources=api_sources, external_hosts=outside
    )
    with ExitStack() as until_the_end:
        run_server(site, policy, host, port, key_file, lambda address: _announce(address, policy, None if no_open else until_the_end))


def _announce(address: str, policy: "AccessPolicy", browse: ExitStack | None) -> None:
    """Print the server's address, and open the page in a browser if `browse` is given; its exit deletes the redirect file."""
    from localrag.serve.auth import redirect_file

    (code,) = policy.login_codes
    print_note(f"Page: {address}/#k={code}\nListening on {address}/v1\nKey: {policy.key}\nModel: localrag, or localrag:MODE. Ctrl-C ends.")
    sys.stderr.flush()
    if browse:
        webbrowser.open(browse.enter_context(redirect_file(f"{address}/#k={code}")).absolute().as_uri())


def read_key(file: Path, *, make: bool) -> str:
    """Read the API key of a file. With `make`, write a new one unless this machine made it: a folder's author knows the key in it."""
    try:
        if make:
            _make_key(file)
        key = read_linked_file(file, MAX_KEY_BYTES).decode("utf-8").strip()
        shared = os.name == "posix" and file.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The key in {file} cannot be read: {error}", "Write one: openssl rand -base64 32 > FILE") from error
    if len(key) < 16:
        raise UsageError(f"The key in {file} has fewer than 16 characters.", "Write a longer one: openssl rand -base64 32 > FILE")
    if shared:
        raise UsageError(f"Others may read the key in {file}.", f"Make it private: chmod 600 {file}")
    return key


def _make_key(file: Path) -> None:
    """Write a new key unless the existing one was made on this machine. Raises OSError."""
    import secrets

    exists = os.path.lexists(file)
    if exists and file.is_file() and not file.is_symlink() and file.stat().st_size < MAX_KEY_BYTES:
        with suppress(UnicodeDecodeError):
            if is_trust_known("serve-key", _digest(file.read_text(encoding="utf-8").strip())):
                return
    key = secrets.token_urlsafe(32)
    remember_trust("serve-key", _digest(key))
    write_atomically(file, key.encode())
    if exists:
        print_note(f"The key in {file} was not made on this machine and has been replaced by a new one.")


def _digest(key: str) -> str:
    return sha256(f"key of a server {key}".encode()).hexdigest()


# Client → key of the server list in its settings, further fields of a server, and path of the settings.
MCP_CLIENTS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "claude": ("mcpServers", {}, "claude_desktop_config.json (Claude Desktop) or .mcp.json in a project (Claude Code)"),
    "cursor": ("mcpServers", {}, "~/.cursor/mcp.json"),
    "vscode": ("servers", {"type": "stdio"}, ".vscode/mcp.json"),
    "zed": ("context_servers", {"source": "custom", "env": {}}, "Zed's settings.json"),
    "lmstudio": ("mcpServers", {}, "LM Studio's mcp.json (Program › Install › Edit mcp.json)"),
}


@with_engine
def mcp_command(
    index: IndexOption = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", help="Print the lines to paste into a program's settings.", **choice_option("program", tuple(MCP_CLIENTS))
        ),
    ] = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    *,
    engine: OptionValues,
) -> None:
    """Offer the index as MCP tools, on standard input and output, to the program that starts this command.

    While `localrag serve` runs on the same index, it answers the questions; otherwise the models are loaded here at the first of them.
    Without an index it starts too, and its tools say how to make one.
    """
    from localrag.project import find_index, index_folder_or_default

    is_person = config is not None or (sys.stdin is not None and sys.stdin.isatty())
    folder = find_index(index) if is_person else index_folder_or_default(index)
    if config is not None:
        models = {"model": _absolute(model), "reranker": _absolute(reranker)}
        _print_config(config, folder, as_arguments(models | dict(engine)))
        return
    from localrag.project import open_for_query
    from localrag.serve.mcp_server import serve_stdio

    chosen = engine_options(engine)
    serve_stdio(folder, lambda: open_for_query(folder, model=model, reranker=reranker, engine=chosen))


def _absolute(model: str | None) -> str | None:
    return str(Path(model).absolute()) if model and Path(model).is_file() else model


def _print_config(program: str, folder: Path, options: list[str]) -> None:
    """Print absolute paths: clients use another working folder and PATH."""
    key, more, where = MCP_CLIENTS[program]
    command, *first = _command()
    server = {"command": command, "args": [*first, "mcp", "--index", str(folder.resolve()), *options]}
    typer.echo(json.dumps({key: {"localrag": {**more, **server}}}, indent=2, ensure_ascii=False))
    print_note(f"Paste it into {where}.")


def _command() -> list[str]:
    script = Path(sys.argv[0]).absolute()
    return [str(script)] if script.stem == "localrag" and script.is_file() else [sys.executable, "-P", "-m", "localrag"]


RAY_PORT = 6379


def worker_command(
    ray: Annotated[
        str, typer.Option("--ray", metavar="HOST:PORT", help="The Ray cluster to join. With --head, where to start one: :PORT or IP:PORT.")
    ] = "",
    head: Annotated[
        bool,
        typer.Option("--head", help="Start a cluster on this machine, which has the index. Prints the next steps."),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="HOST", help="Allow the cluster of this host to use this machine. Repeatable."),
    ] = None,
) -> None:
    """Work for an index on another machine until Ctrl-C (needs the library ray; Linux)."""
    import asyncio

    from localrag.indexing.workers import ray_cluster
    from localrag.indexing.workers.ray_cluster import run_ray_node

    if not ray and not head:
        raise UsageError("Which cluster?", f"Join one: localrag worker --ray HOST:{RAY_PORT}. Start one here: localrag worker --head")
    if head:
        token = ray_cluster.make_token()
        host, port = ray_cluster.split_address(ray or f":{RAY_PORT}", head=True)
        address = f"{host or ray_cluster.own_address()}:{port}"
        told = (
            f"Head: {address}\nToken: {token}\nCopy the token's file to ~/.ray/auth_token of each other machine (mode 600), and there:\n"
            f"  RAY_AUTH_MODE=token localrag worker --ray {address} --allow-host {address.rpartition(':')[0]}\nThen, here:\n"
            f"  RAY_AUTH_MODE=token localrag index DOCUMENTS --ray {address} --allow-host IP …\nCtrl-C ends."
        )
    else:
        ray_cluster.check_token()
        host, _ = ray_cluster.split_address(ray)
        if not ray_cluster.is_allowed(host, allow_host or ()):
            raise UsageError(
                f"Anyone who controls the cluster at {host} can run programs on this machine.",
                f"If that is what you want: --allow-host {host}",
            )
        if not asyncio.run(ray_cluster.is_listening(ray)):
            raise UsageError(f"No Ray cluster answers at {ray}.", f"Start one on that machine: localrag worker --head --ray {ray}")
        address, told = ray, f"This machine works for the cluster at {ray}. Ctrl-C ends."
    code = run_ray_node(address, head=head, ready=lambda: print_note(told))
    if code:
        sys.stderr.flush()
        raise LocalragError(
            f"Ray has ended here (exit code {code}).", f"Is there a cluster at {address}, with this token and these versions?"
        )
