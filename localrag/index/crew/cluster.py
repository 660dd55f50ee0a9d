"""A Ray cluster, as far as documents may be given to it: guarded by a token, made of allowed machines, and telling nobody anything.

Ray runs the code of whoever reaches its ports. So it is used only where it asks for a token, which is tried out, and where every machine of
the cluster is this one or was named.
"""

import asyncio
import ipaddress
import json
import logging
import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from localrag import __version__
from localrag.errors import LocalragError, UsageError
from localrag.system.extras import require
from localrag.system.files import private_file, private_folder

RESOURCE = "localrag"  # what a machine offers that works for localrag
STORE = 200_000_000  # bytes of Ray's object store: only parts of models go through it
PORT = 6379
# Ray tells its vendor how it is used; and once its cluster is gone, the next call would start another by itself.
SILENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
# Ray asks services of clouds, by name, where it is; and where it is not to tell how it is used, it tells that. All this is HTTP: it goes to
# a port of this machine where nobody listens.
NO_HTTP = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {"no_proxy": "", "NO_PROXY": ""}
PATIENCE = 5.0  # seconds for a machine to answer at all
PROOF = 40.0  # seconds for a cluster to refuse who has no token
_WITHOUT = """
import logging, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
print("let in", flush=True)
"""


def token_file() -> Path | None:
    """The file that Ray reads the token from, where there is one."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token").expanduser()
    return path if path.is_file() else None


def check_token() -> None:
    """Raises UsageError where this process would use Ray without a token, and LocalragError where Ray is not installed."""
    require("ray", "ray")
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise UsageError("Ray is used with a token only: whoever reaches its ports can run programs.", "Set RAY_AUTH_MODE=token")
    if not os.environ.get("RAY_AUTH_TOKEN") and token_file() is None:
        raise UsageError(
            "There is no token for Ray.",
            "Copy the token file of the first machine to ~/.ray/auth_token, or name it: RAY_AUTH_TOKEN_PATH=FILE",
        )


def make_token() -> Path:
    """The file of the token for a cluster that begins here: the one there is, or a new one for its owner alone."""
    require("ray", "ray")
    if (known := token_file()) is None:
        known = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token").expanduser()
        private_folder(known.parent)
        private_file(known).write_text(secrets.token_hex(32), encoding="ascii")
    return known


def split_address(address: str, *, head: bool = False) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`; of a `head` the host may be empty. Raises UsageError."""
    host, _, port = address.rpartition(":")
    if not (host or head) or not port.isdigit() or "/" in host:
        raise UsageError(f"{address!r} is no address of a Ray cluster.", f"Write it like this: --ray 192.168.1.5:{PORT}")
    return host.strip("[]"), int(port)


def own_address() -> str:
    """This machine's address, as Ray sees it."""
    from ray.util import get_node_ip_address

    return str(get_node_ip_address())


async def check_guarded(address: str) -> None:
    """Let a child process try the cluster without a token. Raises UsageError where nothing answers, or where that is let in."""
    if not await answers(address):
        raise UsageError(f"No Ray cluster answers at {address}.", "Start one on this machine: localrag worker --head")
    own = {k: v for k, v in os.environ.items() if k not in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _WITHOUT, address,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env=own | SILENT | {"RAY_AUTH_MODE": "disabled"},
    )  # fmt: skip
    refused = False
    try:
        async with asyncio.timeout(PROOF):
            assert child.stdout is not None
            async for line in child.stdout:
                if b"let in" in line:
                    raise UsageError(
                        f"The Ray cluster at {address} lets in who has no token.", "Start it anew with one: localrag worker --head"
                    )
                if refused := b"nauthenticated" in line or b"uthenticationError" in line:
                    break
    except TimeoutError:
        pass
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    if not refused:
        raise UsageError(f"The Ray cluster at {address} does not refuse who has no token.", "Start it anew: localrag worker --head")


async def answers(address: str) -> bool:
    """Whether anything listens there."""
    try:
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(*split_address(address))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def connect(address: str) -> None:
    """Make this process a driver of the cluster. Raises UsageError where versions differ, LocalragError where that fails otherwise."""
    os.environ.update(SILENT)
    import ray

    ray._private.worker.print_to_stdstream = lambda *_, **__: None  # what a machine's Ray says would stand in the output of the command
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except RuntimeError as error:
        if "ersion mismatch" not in str(error):
            raise LocalragError(f"The Ray cluster at {address} cannot be used: {type(error).__name__}.", _HERE) from error
        raise other_versions(address, str(error)) from error
    except (Exception, SystemExit) as error:  # Ray ends the process where it gives up
        raise LocalragError(f"The Ray cluster at {address} cannot be used: {type(error).__name__}.", _HERE) from error
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray puts its own in their place
            for number, handler in handlers.items():
                signal.signal(number, handler)


_HERE = "This machine must belong to it, and with the same token: localrag worker --head here, localrag worker --ray ADDRESS elsewhere."


def other_versions(address: str, said: str) -> UsageError:
    """What to say where Ray says that versions differ: those of the cluster and of this machine, and what mends it."""
    ray, python = (re.findall(rf"{name}: (\d[\w.+]*)", said) for name in ("Ray", "Python"))
    if len(ray) != 2 or len(python) != 2:
        return UsageError(f"The cluster at {address} runs another Ray or Python than this machine.", "Use the same on all machines.")
    programs = f'"localrag[ray]=={__version__}" "ray=={ray[0]}"'
    mend = f"pip install {programs}"
    if python[0] != python[1]:
        mend = f"uv venv --python {python[0]} .venv && uv pip install --python .venv {programs}"
    return UsageError(
        f"The cluster at {address} runs Ray {ray[0]} and Python {python[0]}; this machine has Ray {ray[1]} and Python {python[1]}.",
        f"They must be the same to the last number. On this machine: {mend}",
    )


def disconnect() -> None:
    """Leave the cluster."""
    import ray

    with suppress(Exception):
        ray.shutdown()


def machines() -> list[dict[str, Any]]:
    """The machines of the cluster that are there, as Ray describes them; the answer is waited for."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def check_machines(nodes: Iterable[dict[str, Any]], hosts: Sequence[str]) -> None:
    """Raises UsageError where the cluster has machines that were not allowed, and lists them."""
    if not (strange := [a for a in dict.fromkeys(n["NodeManagerAddress"] for n in nodes) if not is_allowed(a, hosts)]):
        return
    options = " ".join(f"--allow-host {a}" for a in strange)
    said = f"The Ray cluster has machines to which documents would go: {', '.join(strange)}."
    raise UsageError(said, f"If that is what you want: {options}")


def is_allowed(address: str, hosts: Sequence[str]) -> bool:
    """Whether an address is this machine's, or among those allowed."""
    if address in hosts or address in {a.address.partition("%")[0] for found in psutil.net_if_addrs().values() for a in found}:
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def start_arguments(folder: Path, address: str, *, head: bool, gpus: int) -> list[str]:
    """What `ray start` is called with on a machine of the cluster: nothing listens that need not, nothing is kept but in `folder`."""
    host, port = split_address(address)
    if head:  # it has the index to build; to work as well, it joins its own cluster
        own = ["--head", f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false", "--num-cpus=0", "--num-gpus=0"]
    else:
        own = [f"--address={address}", "--num-cpus=1", f"--num-gpus={gpus}", f"--resources={json.dumps({RESOURCE: 1})}"]
    quiet = ["--disable-usage-stats", "--include-log-monitor=false", f"--object-store-memory={STORE}", "--block"]
    return [*own, *quiet, f"--temp-dir={folder}"]
