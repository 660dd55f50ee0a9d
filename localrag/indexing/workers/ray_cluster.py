"""Access to a Ray cluster: token, allowed machines, and this machine as a node.

Ray runs the code of anyone who reaches its ports, and documents are sent to its machines. So a cluster is used only if it refuses a
connection without a token, which is tested, and if every machine of it is this one or was named by the user. Usage reports are off. As a
node, Ray runs as a child process in a private folder that is removed when it ends.
"""

import asyncio
import ipaddress
import json
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from localrag.errors import LocalragError, UsageError
from localrag.indexing.workers.worker import MAX_TRIES, WorkerLost
from localrag.system.files import ensure_private_file, ensure_private_folder, home_dir
from localrag.system.installation import pip_install
from localrag.system.python_process import RUN_MODULE, python_process
from localrag.system.resources import available_cores, require_extra

RAY_RESOURCE = "localrag"  # the Ray resource of a machine that works for localrag
OBJECT_STORE_BYTES = 100_000_000  # bytes of Ray's object store, which nothing goes through
RAY_PORT = 6379
# Ray sends usage reports to its vendor; and if its cluster has ended, the next call would start another one.
TELEMETRY_OFF_ENV = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}
# Ray puts larger messages into its object store, and that may go to a disk. A task is not tried forever where memory runs out.
MESSAGES_ENV = {
    "RAY_max_direct_call_object_size": str(1 << 28),
    "RAY_task_rpc_inlined_bytes_limit": str(1 << 28),
    "RAY_task_oom_retries": str(MAX_TRIES - 1),
}
# Ray queries cloud metadata services, by name, for its location, and its vendor's server for usage reports. All this is HTTP: it is sent to
# a port of this machine where nothing listens.
NO_PROXY_ENV = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9") | {
    "no_proxy": "",
    "NO_PROXY": "",
}
CONNECT_TIMEOUT_S = 5.0  # seconds for a machine to answer at all
AUTH_CHECK_TIMEOUT_S = 40.0  # seconds for a cluster to refuse a client without a token
_CONNECT_WITHOUT_TOKEN = """
import logging, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
print("let in", flush=True)
"""


def token_file() -> Path | None:
    """The file that Ray reads the token from; None if it has none."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or home_dir() / ".ray" / "auth_token").expanduser()
    return path if path.is_file() else None


def check_token() -> None:
    """Raises UsageError if this process would use Ray without a token, and LocalragError if Ray is not installed."""
    require_extra("ray", "ray")
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise UsageError("Ray is used with a token only: anyone who reaches its ports can run programs.", "Set RAY_AUTH_MODE=token")
    if not os.environ.get("RAY_AUTH_TOKEN") and token_file() is None:
        raise UsageError(
            "There is no token for Ray.",
            "Copy the token file of the first machine to ~/.ray/auth_token, or name it: RAY_AUTH_TOKEN_PATH=FILE",
        )


def make_token() -> Path:
    """The token file of a cluster that starts here: the existing one, or a new one that only its owner can read."""
    require_extra("ray", "ray")
    if (existing := token_file()) is None:
        existing = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or home_dir() / ".ray" / "auth_token").expanduser()
        ensure_private_folder(existing.parent)
        ensure_private_file(existing).write_text(secrets.token_hex(32), encoding="ascii")
    return existing


def split_address(address: str, *, head: bool = False) -> tuple[str, int]:
    """The host and the port of `HOST:RAY_PORT`; for a `head` the host may be empty. Raises UsageError."""
    host, _, port = address.rpartition(":")
    if not (host or head) or not port.isdigit() or "/" in host:
        raise UsageError(f"{address!r} is not the address of a Ray cluster.", f"Format: --ray 192.168.1.5:{RAY_PORT}")
    return host.strip("[]"), int(port)


def own_address() -> str:
    """This machine's address, as Ray sees it."""
    from ray.util import get_node_ip_address

    return str(get_node_ip_address())


async def check_requires_token(address: str) -> None:
    """Try the cluster without a token, in a child process. Raises UsageError if nothing answers, or if the cluster accepts it."""
    if not await is_listening(address):
        raise UsageError(f"No Ray cluster answers at {address}.", "Start one on this machine: localrag worker --head")
    command, environment = python_process(_CONNECT_WITHOUT_TOKEN, address)
    environment = {k: v for k, v in environment.items() if k not in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")}
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env=environment | TELEMETRY_OFF_ENV | {"RAY_AUTH_MODE": "disabled"},
    )  # fmt: skip
    refused = False
    try:
        async with asyncio.timeout(AUTH_CHECK_TIMEOUT_S):
            assert child.stdout is not None
            async for line in child.stdout:
                if b"let in" in line:
                    raise UsageError(
                        f"The Ray cluster at {address} accepts connections without a token.",
                        "Start it again with a token: localrag worker --head",
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
        raise UsageError(f"The Ray cluster at {address} accepts connections without a token.", "Start it again: localrag worker --head")


async def is_listening(address: str) -> bool:
    """Whether anything listens at an address."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*split_address(address))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def connect(address: str) -> None:
    """Make this process a driver of the cluster. Raises UsageError if versions differ, LocalragError if it fails otherwise."""
    os.environ.update(TELEMETRY_OFF_ENV | MESSAGES_ENV)
    import ray
    from ray.job_config import JobConfig

    ray._private.worker.print_to_stdstream = lambda *_, **__: None  # else the machines' output would be printed here
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        # As the job of a client, so that Ray does not put this process's working folder first in the workers' sys.path.
        job = JobConfig(_client_job=True)
        ray.init(address=address, job_config=job, log_to_driver=False, logging_level=logging.CRITICAL)
    except RuntimeError as error:
        if "ersion mismatch" not in str(error):
            raise LocalragError(f"The Ray cluster at {address} cannot be used: {type(error).__name__}.", _HERE) from error
        raise version_mismatch_error(address, str(error)) from error
    except (Exception, SystemExit) as error:  # Ray exits the process when it gives up
        raise LocalragError(f"The Ray cluster at {address} cannot be used: {type(error).__name__}.", _HERE) from error
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray replaces the signal handlers
            for number, handler in handlers.items():
                signal.signal(number, handler)


_HERE = "This machine must belong to it, and with the same token: localrag worker --head here, localrag worker --ray ADDRESS elsewhere."


def version_mismatch_error(address: str, ray_message: str) -> UsageError:
    """The error for Ray's message that versions differ: both versions, and the remedy."""
    ray, python = (re.findall(rf"{name}: (\d[\w.+]*)", ray_message) for name in ("Ray", "Python"))
    if len(ray) != 2 or len(python) != 2:
        return UsageError(f"The cluster at {address} runs another Ray or Python than this machine.", "Use the same on all machines.")
    message = f"The cluster at {address} runs Ray {ray[0]} and Python {python[0]}; this machine has Ray {ray[1]} and Python {python[1]}."
    return UsageError(message, f"They must be exactly the same. On this machine, with Python {python[0]}: {pip_install(f'ray=={ray[0]}')}")


def disconnect() -> None:
    """Leave the cluster."""
    import ray

    with suppress(Exception):
        ray.shutdown()


def cluster_nodes() -> list[dict[str, Any]]:
    """The machines that are in the cluster now, as Ray describes them; waits for the answer."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


async def run_on_node(node: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns that Ray runs on a machine, and again if its process ends. Raises WorkerLost."""
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = _remote(function).options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    try:
        return await there.remote(*arguments)
    except (RayError, ConnectionError, RuntimeError) as error:
        raise WorkerLost("its process or its machine is gone") from error


@cache
def _remote(function: Callable[..., Any]) -> Any:
    import ray

    return ray.remote(num_cpus=0, resources={RAY_RESOURCE: 1}, max_retries=MAX_TRIES - 1)(function)


def check_allowed_nodes(nodes: Iterable[dict[str, Any]], hosts: Sequence[str]) -> None:
    """Raises UsageError with a list if the cluster has machines that were not allowed."""
    if not (strange := [a for a in dict.fromkeys(n["NodeManagerAddress"] for n in nodes) if not is_allowed(a, hosts)]):
        return
    options = " ".join(f"--allow-host {a}" for a in strange)
    message = f"The Ray cluster has machines to which documents would go: {', '.join(strange)}."
    raise UsageError(message, f"If that is what you want: {options}")


def is_allowed(address: str, hosts: Sequence[str]) -> bool:
    """Whether an address is this machine's, or an allowed one."""
    if address in hosts or address in {a.address.partition("%")[0] for found in psutil.net_if_addrs().values() for a in found}:
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def ray_start_arguments(folder: Path, address: str, *, head: bool) -> list[str]:
    """The arguments of `ray start` for a machine of the cluster: no optional ports, and files in `folder` only."""
    host, port = split_address(address)
    if head:  # it builds the index; to run tasks as well, it joins its own cluster
        role_arguments = ["--head", f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false", "--num-cpus=0"]
    else:
        role_arguments = [f"--address={address}", "--num-cpus=1", f"--resources={json.dumps({RAY_RESOURCE: 1})}"]
    quiet = [
        "--num-gpus=0",
        "--disable-usage-stats",
        "--include-log-monitor=false",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--block",
    ]
    return [*role_arguments, *quiet, "--num-gpus=0", f"--temp-dir={folder}"]


SHUTDOWN_TIMEOUT_S = 20.0  # seconds for Ray to end by itself
MAX_SOCKET_FOLDER_CHARS = 20  # characters of a folder's path below which the paths of Ray's sockets still fit
VERSION_MESSAGE_LINES = 5  # lines of Ray's message on different versions, before it ends
STARTED_LINE = b"Ray runtime started"


def run_ray_node(address: str, *, head: bool, ready: Callable[[], None]) -> int:
    """Be a node of the cluster until an interrupt, or until Ray ends; returns the exit code, 0 after an interrupt.

    `ready` is called when Ray runs. Raises UsageError if the cluster refuses this machine.
    """
    # Short, because socket paths are limited. Ray makes its folders readable to all, so they are inside a private one.
    room = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="localrag-", dir=room if len(room) <= MAX_SOCKET_FOLDER_CHARS else "/tmp"))
    words = ray_start_arguments(folder / "r", address, head=head)
    command, environment = python_process(RUN_MODULE, "ray.scripts.scripts", "start", *words)
    environment = {"OMP_NUM_THREADS": str(available_cores())} | environment | TELEMETRY_OFF_ENV | MESSAGES_ENV | NO_PROXY_ENV
    environment["RAY_AUTH_MODE"] = "token"
    child = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    stopped = threading.Event()

    def stop(*_: object) -> None:
        stopped.set()
        with suppress(ProcessLookupError):
            child.terminate()

    before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert child.stdout is not None
        for line in child.stdout:  # the rest of Ray's output is about itself
            if STARTED_LINE in line:
                ready()
            elif b"nauthenticated" in line:
                raise UsageError(f"The cluster at {address} refuses this token.", "Copy the token file of its first machine.")
            elif b"ersion mismatch" in line:
                raise version_mismatch_error(address, b"".join(islice(child.stdout, VERSION_MESSAGE_LINES)).decode(errors="replace"))
        code = child.wait()
    finally:
        _end(child)
        for number, handler in before.items():
            signal.signal(number, handler)
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if stopped.is_set() else code or 1


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End Ray with all its processes, which are a session of their own."""
    with suppress(ProcessLookupError):
        child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(SHUTDOWN_TIMEOUT_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    time.sleep(0.2)  # ended processes may still be writing to the folder
