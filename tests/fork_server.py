"""The process from which others are forked: it loads the libraries once, and gives each child its streams, folder and environment.

`python -m tests.fork_server FD`: FD is a socket on which requests come; every request brings three streams and a socket for the
child's number and exit code. The child runs `localrag` as `python -m localrag` does. Nothing runs beside it: no thread is started here.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import termios
import threading
import traceback
from pathlib import Path
from typing import Any

# What commands load. The consoles are made by each child, since they look at its environment and its terminal.
LIBRARIES = (
    "httpx igraph jieba llama_cpp numpy opencc prompt_toolkit rapidfuzz rich.console rich.progress rich.table scipy.sparse.linalg "
    "sentencex sqlite_utils starlette.applications tokenizers torch typer.completion uvicorn"
).split()
MODULES = (
    "cli indexing.pipeline indexing.tasks indexing.graph.stage indexing.extraction.stage indexing.extraction.nlp indexing.report_stage "
    "indexing.documents asking query.conversation text.language project index store.opening store.schema "
    "store.generations engine.engine engine.autotune.load engine.embedder"
).split()


def load() -> dict[str, str]:
    """Load the libraries; what that adds to the environment, as it does in a process that loads them itself."""
    before = dict(os.environ)
    for name in (*LIBRARIES, *(f"localrag.{name}" for name in MODULES)):
        importlib.import_module(name)
    assert "localrag.cli.views.console" not in sys.modules
    words = importlib.import_module("localrag.text.parts_of_speech")
    list(words.tag_chinese("王海明走了。"))  # its dictionary takes most of a second
    words.dictionary_tag("ferry")
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """A request and its files; None where there will be no other."""
    head, files, *_ = socket.recv_fds(connection, 4, 4)
    if not head:
        return None
    wanted, data = int.from_bytes(head, "big"), b""
    while len(data) < wanted:
        data += connection.recv(wanted - len(data))
    return json.loads(data), files


def serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request, and tell of each child when it ends; returns in each child what it shall do, and here None at the end."""
    waiting = selectors.DefaultSelector()
    waiting.register(connection, selectors.EVENT_READ)
    states: dict[int, tuple[int, socket.socket]] = {}  # of children, by the file that tells of their end
    open_ = True
    while open_ or states:
        for key, _ in waiting.select():
            if key.fd in states:
                pid, state = states.pop(key.fd)
                waiting.unregister(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError), state:
                    state.sendall(code.to_bytes(4, "big", signed=True))
                os.close(key.fd)
            elif (found := receive(connection)) is None:
                waiting.unregister(connection)
                open_ = False
            else:
                request, (*streams, told) = found
                if not (pid := os.fork()):
                    waiting.close()
                    connection.close()
                    os.close(told)
                    for end, (_, state) in states.items():
                        os.close(end)
                        state.close()
                    return request | {"streams": streams}
                state = socket.socket(fileno=told)
                state.sendall(pid.to_bytes(4, "big"))
                for stream in streams:
                    os.close(stream)
                end = os.pidfd_open(pid)
                states[end] = pid, state
                waiting.register(end, selectors.EVENT_READ)
    return None


def become(request: dict[str, Any], added: dict[str, str]) -> None:
    """Take the streams, the folder and the environment of a request, as a process has them that was just started."""
    if request["new_session"]:
        os.setsid()
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"] | added)
    tempfile.tempdir = None  # found anew, as the environment says
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        signal.signal(number, handler)
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    for number, name, mistakes in ((0, "stdin", "strict"), (1, "stdout", "strict"), (2, "stderr", "backslashreplace")):
        raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
        buffered = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        lines = number == 2 or raw.isatty()
        stream = io.TextIOWrapper(buffered, encoding or "utf-8", (errors or mistakes) if number < 2 else mistakes, line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[1:1] = [folder for folder in folders if folder not in sys.path]  # also of the processes that this one starts
    for folder in folders:
        if (custom := Path(folder, "sitecustomize.py")).is_file():
            runpy.run_path(str(custom))  # as the interpreter does when it starts
            break
    own = Path(__file__).resolve().parents[1] / "localrag" / "__main__.py"
    sys.argv = [request["program"] or str(own), *request["args"]]
    sys.modules["__main__"].__package__ = "" if request["program"] else "localrag"  # its name in what it says of its use


def run() -> None:
    """Run the command, and end as Python does, but without taking apart what was loaded."""
    from localrag.cli import main

    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except Exception:  # noqa: BLE001 — as the interpreter
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal of the tests
    environment = load()
    gc.collect()
    gc.freeze()  # what was loaded is not looked through again by each child
    wanted = serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        become(wanted, environment)
        run()
