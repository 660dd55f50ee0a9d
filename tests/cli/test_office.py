"""Two machines that are network namespaces: what is sent, to whom, and what stays. Needs root."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands.test_serve import RUN, Shell, environment, folders, free_port
from tests.crew_ray import WORDS, write_corpus

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip"),
]
FIRST, SECOND = "10.77.0.1", "10.77.0.2"
# Every packet of every interface: of IPv4 the addresses, the protocol and the ports; of others what they are.
SNIFF = """
import signal, socket, sys
seen = set()
def end(*_):
    open(sys.argv[1], "w").write("\\n".join(sorted(map(repr, seen))))
    sys.exit()
signal.signal(signal.SIGTERM, end)
s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
print("ready", flush=True)
while True:
    data, (_, kind, *_) = s.recvfrom(65535)
    if kind == 0x0800:
        head = (data[0] & 15) * 4
        ports = [int.from_bytes(data[head + n : head + n + 2], "big") for n in (0, 2)] if data[9] in (6, 17) else []
        asked = bytes(c if 32 < c < 127 else 46 for c in data[head + 20 : head + 80]).decode() if 53 in ports or 853 in ports else ""
        seen.add((socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), data[9], asked))
    else:
        seen.add((hex(kind),))
"""


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True)


@pytest.fixture
def spaces():
    """Two namespaces joined by a cable; names would be asked of this machine itself, where it is seen."""
    names = [f"lr{secrets.token_hex(3)}" for _ in range(2)]
    try:
        for name, end in zip(names, "ab", strict=True):
            ip("netns", "add", name)
            (Path("/etc/netns") / name).mkdir(parents=True)
            (Path("/etc/netns") / name / "resolv.conf").write_text("nameserver 127.0.0.1\n")
            ip("-n", name, "link", "set", "lo", "up")
            if end == "b":
                ip("link", "add", f"{names[0]}a", "netns", names[0], "type", "veth", "peer", "name", f"{names[1]}b", "netns", names[1])
        for name, end, address in zip(names, "ab", (FIRST, SECOND), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", f"{name}{end}")
            ip("-n", name, "link", "set", f"{name}{end}", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)


def test_only_the_two_machines_speak_and_nothing_stays(spaces, tmp_path):
    """The head and the run on one, the worker on the other: no packet to anybody else, no name looked up, no word left on the worker."""
    homes = [tmp_path / name for name in ("first", "second")]
    for home in homes:
        home.mkdir()
    address = f"{FIRST}:{free_port()}"
    docs = write_corpus(homes[0] / "docs", 6)
    seen = [
        subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-c", SNIFF, tmp_path / name], stdout=subprocess.PIPE)
        for name in spaces
    ]
    shells = []
    try:
        for one in seen:
            assert one.stdout.readline() == b"ready\n"
        shells.append(Shell(homes[0], "--head", "--ray", address, within=("ip", "netns", "exec", spaces[0])))
        shells[0].said("Ctrl-C ends")
        shutil.copytree(homes[0] / ".ray", homes[1] / ".ray")
        shells.append(Shell(homes[1], "--ray", address, "--allow-host", FIRST, within=("ip", "netns", "exec", spaces[1])))
        shells[1].said("Ctrl-C ends")
        run = ["ip", "netns", "exec", spaces[0], sys.executable, "-c", RUN, address, docs, homes[0] / "index"]
        refused = subprocess.run(run, env=environment(homes[0]), capture_output=True, text=True, check=False, timeout=100)
        done = subprocess.run([*run, SECOND], env=environment(homes[0]), capture_output=True, text=True, check=False, timeout=100)
    finally:
        for shell in reversed(shells):
            shell.interrupt()
        for one in seen:
            one.send_signal(signal.SIGTERM)
            one.wait(10)

    assert f"documents would go: {SECOND}" in refused.stderr
    assert done.returncode == 0, done.stderr
    for name in spaces:
        rows = [eval(line) for line in (tmp_path / name).read_text().splitlines()]
        pairs = {row[:2] for row in rows if len(row) == 4}
        assert (FIRST, SECOND) in pairs
        assert {a for pair in pairs for a in pair} <= {FIRST, SECOND, "127.0.0.1"}, pairs
        assert not [row[3] for row in rows if len(row) == 4 and row[3]]
    assert not [f for home in homes for f in folders(home)]
    assert not [p for p in homes[1].rglob("*") if p.is_file() and any(w in p.read_bytes() for w in WORDS)]
    assert not [p for p in Path("/dev/shm").glob("*") if p.is_file() and any(w in p.read_bytes() for w in WORDS)]
