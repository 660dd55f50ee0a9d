"""Sockets, signals and the end of a server."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import uvicorn

from localrag.serve.app import make_app
from localrag.serve.bridge import announced
from localrag.serve.connections import MOST, limits
from localrag.serve.guard import Door
from localrag.serve.site import Site

TCP_NODELAY = (6, 1)  # of `socket`, which is for those who call others: small answers do not wait for an acknowledgement


def run(site: Site, door: Door, host: str, port: int, key_file: Path, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `announce` is told the address once connections are taken, which is before the models are loaded.

    `key_file` holds the door's key, for bridges of this machine.

    Raises what opening the project raises.
    """
    _allow_open_files()
    config = uvicorn.Config(_nothing, host=host, port=port, access_log=False, log_level="warning", lifespan="on", **limits())
    bound = config.bind_socket()
    bound.setsockopt(*TCP_NODELAY, 1)  # connections inherit it
    address = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
    site = replace(site, address=address)
    config.app = make_app(site, door)
    server = uvicorn.Server(config)
    failures: list[BaseException] = []

    def failed(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    site.worker.start(failed)
    try:
        bound.listen(MOST)
        with announced(site.folder, host, bound.getsockname()[1], key_file):
            announce(address)
            server.run(sockets=[bound])
    finally:
        try:
            site.worker.close()
        finally:  # also if Ctrl-C interrupts the wait for models that are being loaded
            site.jobs.close()
    if failures:
        raise failures[0]


async def _nothing(*_: object) -> None:
    """Stands for the application until its address is known."""


def _allow_open_files() -> None:
    """As many open files as the system lets a process have: each connection is one."""
    with suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
