"""The whole life of an index in one process that counts every attempt to reach a network: `python -m tests.life FOLDER [counted]`."""

import io
import sys
import time
from pathlib import Path

from tests.conftest import TOWN, write_town

attempts: list[str] = []


def watch(event, args):
    """Notes what could leave the machine; sockets between this machine's own programs (AF_UNIX, asyncio's) cannot."""
    reaching = (
        "socket.connect",
        "socket.bind",
        "socket.getaddrinfo",
        "socket.gethost",
        "socket.sendto",
        "socket.sendmsg",
        "urllib.Request",
    )
    if event == "socket.sendmsg" and args[0].family == 1:
        return
    if event.startswith(reaching) or (event == "socket.__new__" and args[1] not in (1, -1)):
        attempts.append(f"{event} {args[1:]}")


def counters():
    """What the kernel counted in this network namespace, native libraries included: packets, connections, sends without a route."""
    found = {}
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines()]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        found |= {f"{names[0]}{n}": int(v) for n, v in zip(names[1:], values[1:], strict=True)}
    sent = ("Ip:OutRequests", "Ip:OutNoRoutes", "Tcp:ActiveOpens", "Udp:OutDatagrams")
    found = {n: found[n] for n in sent}
    for line in Path("/proc/net/snmp6").read_text().splitlines():
        name, value = line.split()
        if name == "Ip6OutNoRoutes":
            found[name] = int(value)
    return found


def run(*args):
    """A command, as a user types it."""
    from localrag.cli import app

    started = time.perf_counter()
    code = app(list(args), standalone_mode=False)
    sys.stderr.write(f"$ localrag {' '.join(args)}: {time.perf_counter() - started:.1f} s\n")
    assert not code, (args, code)


def life(docs: Path):
    """Built without the chat model, asked in every mode, changed, looked at; then read by the chat model."""
    from localrag.settings import QUERY_MODES

    run("index", "docs", "--extractor", "phrases", "--quiet")
    for mode in QUERY_MODES:
        run("ask", "What is wrong with the Skua?", "--mode", mode)
    run("ask", "-c", "Who is her mate?")
    sys.stdin = io.StringIO("Who is Lars Holm?\nWhat did he write?\n/source 1\n/quit\n")
    run("chat")
    run("source", "1")
    run("search", "渡轮漏水")
    run("entity", "Lars Holm")
    run("tree")
    run("report", "0.0")
    (docs / "a.md").write_text(TOWN["a.md"].replace("two years", "three years"), encoding="utf-8")
    (docs / "b.txt").unlink()
    run("index", "docs", "--quiet")
    run("merges", "list")
    run("questions", "-n", "2")
    run("logs", "-n", "20")
    run("status")
    run("index", "docs", "--extractor", "auto", "--quiet")
    run("models", "list", "--all")
    run("check", "--repair")
    run("doctor")


if __name__ == "__main__":
    sys.addaudithook(watch)
    folder = Path(sys.argv[1])
    write_town(folder / "docs")
    life(folder / "docs")
    if len(sys.argv) > 2:
        attempts += [f"{name}={value}" for name, value in counters().items() if value]
    sys.stdout.write(f"\nattempts: {attempts}\n")
