"""What a power cut leaves of a folder: made from the log that `power_cut.c` keeps of a real process, at any moment of it."""

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HEAD = struct.Struct("<ciqq")
SECTOR = 512
SOURCE = Path(__file__).with_name("power_cut.c")


@dataclass(frozen=True)
class Op:
    """Something that was done to a file: `c`reated, `w`ritten, `t`runcated, `s`ynced, `m`oved or `u`nlinked."""

    kind: str
    path: str
    at: int
    data: bytes


def logged(code, folder, log, *args, **env):
    """Run Python code in a process whose file calls below a folder are logged; its output. `args` are its own."""
    library = log.with_suffix(".so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl", "-lpthread"], check=True)
    where = {"LD_PRELOAD": str(library), "POWER_ROOT": str(folder), "POWER_LOG": str(log)}
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | where | env, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def ops_in(log):
    """The log, from first to last."""
    found, data, at = [], log.read_bytes(), 0
    while at < len(data):
        kind, of_path, where, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        path = data[at : at + of_path].decode()
        at += of_path
        found.append(Op(kind.decode(), path, where, data[at : at + length]))
        at += length
    return found


class Disk:
    """A disk that writes what it is told when it likes, unless it is told to sync.

    A sync of a file writes that file, and the names of all files as they are then, as file systems with a journal do.
    """

    def __init__(self):
        self.files = {}  # path → (what is on the disk, operations that are not)
        self.names = []  # (the names before, the names after) of each change of names that is not on the disk
        self.on_disk = {}  # path → the same list as in `files`

    def start(self, folder):
        """Begin with what is in a folder, all of it on the disk."""
        for path in folder.rglob("*"):
            if path.is_file() and "-shm" not in path.name:
                self.files[str(path)] = [bytearray(path.read_bytes()), []]
        self.on_disk = dict(self.files)

    def do(self, op):
        """Carry out an operation."""
        if op.kind in "wt":
            self.files.setdefault(op.path, [bytearray(), []])[1].append(op)
        elif op.kind == "s":
            held = self.files.get(op.path)
            if held:
                for one in held[1]:
                    apply(held[0], one, len(one.data))
                held[1].clear()
            self.names.clear()
            self.on_disk = dict(self.files)
        else:
            if op.kind == "c":
                self.files[op.path] = [bytearray(), []]
            elif op.kind == "m" and op.path in self.files:
                self.files[op.data.decode()] = self.files.pop(op.path)
            elif op.kind == "u":
                self.files.pop(op.path, None)
            self.names.append(dict(self.files))

    def cut(self, rng):
        """What is found after a power cut: of what was not synced any part, in any order, whole or torn; of names, up to some moment."""
        names = rng.choice([self.on_disk, *self.names])
        found = {}
        for path, (data, waiting) in names.items():
            made = bytearray(data)
            for one in waiting:
                chance = rng.random()
                if chance < 0.4:
                    apply(made, one, len(one.data))
                elif chance < 0.6 and one.kind == "w":
                    apply(made, one, rng.randrange(0, len(one.data) + 1, SECTOR))
            found[path] = bytes(made)
        return found


def apply(data, op, length):
    """Write the first bytes of an operation, or cut a file to its length."""
    if op.kind == "t":
        del data[op.at :]
        data.extend(bytes(op.at - len(data)))
        return
    data.extend(bytes(max(0, op.at + length - len(data))))
    data[op.at : op.at + length] = op.data[:length]


def put(found, folder, target):
    """Write what was found of a folder to another."""
    shutil.rmtree(target, ignore_errors=True)
    for path, data in found.items():
        to = target / Path(path).relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
