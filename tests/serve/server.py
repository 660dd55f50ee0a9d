"""A real `localrag serve` for tests: started, spoken to over loopback, interrupted at the end."""

import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import httpx


@dataclass(frozen=True)
class Served:
    """Where a server is, the key of programs, the page's code, its process."""

    address: str
    key: str
    code: str
    process: subprocess.Popen

    def client(self, **kwargs):
        """A client with the key."""
        return httpx.Client(base_url=self.address, headers={"authorization": f"Bearer {self.key}"}, trust_env=False, timeout=120, **kwargs)


@contextmanager
def served(folder, *args):
    """A server over the index in a folder; at its end it is interrupted, and must end well."""
    command = [sys.executable, "-m", "localrag", "serve", "--port", "0", "--no-open", *args]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    said = ""
    while "Ctrl-C ends" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    threading.Thread(target=process.stderr.read, daemon=True).start()
    page = re.search(r"Page: (\S+)/#k=(\S+)", said)
    try:
        yield Served(page[1], re.search(r"Key: (\S+)", said)[1], page[2], process)
    finally:
        if process.poll() is None:
            process.send_signal(2)
            ended = process.wait(30)
            assert ended in (0, 130)
