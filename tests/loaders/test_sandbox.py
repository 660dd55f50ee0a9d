"""What code of a file that has taken over the process that reads it can do: nothing but compute."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from localrag.loaders.discover import find_files
from localrag.loaders.reader import Limits, ParserProcess, load_files
from localrag.loaders.sandbox import landlock_version

pytestmark = pytest.mark.usefixtures("own_parsers")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock, which is what forbids reading")

# Stands in for the library that reads PDFs: native code in it calls the C library past Python, whose hooks see nothing of it.
TAKEN_OVER = """
import ctypes, os
libc = ctypes.pythonapi  # already loaded: opening a library anew is refused
def call(name, *args):
    return getattr(libc, name)(*args)
folder = FOLDER
done = {
    "socket": call("socket", 2, 1, 0),
    "unix": call("socket", 1, 1, 0),
    "socketpair": call("socketpair", 1, 1, 0, (ctypes.c_int * 2)()),
    "fork": call("fork"),
    "vfork": call("syscall", 58) if os.uname().machine == "x86_64" else -1,
    "execve": call("execve", b"/bin/true", None, None),
    "system": call("system", b"touch " + folder + b"/made"),
    "write": call("open", folder + b"/kept.txt", os.O_WRONLY),
    "append": call("open", folder + b"/kept.txt", os.O_RDWR | os.O_APPEND),
    "create": call("open", folder + b"/made", os.O_WRONLY | os.O_CREAT, 0o600),
    "creat": call("creat", folder + b"/made", 0o600),
    "truncate": call("truncate", folder + b"/kept.txt", 0),
    "unlink": call("unlink", folder + b"/kept.txt"),
    "rename": call("rename", folder + b"/kept.txt", folder + b"/made"),
    "link": call("link", folder + b"/kept.txt", folder + b"/made"),
    "symlink": call("symlink", folder + b"/kept.txt", folder + b"/made"),
    "mkdir": call("mkdir", folder + b"/made", 0o700),
    "chmod": call("chmod", folder + b"/kept.txt", 0o777),
    "kill": call("kill", os.getppid(), 0),
    "ptrace": call("ptrace", 16, os.getppid(), 0, 0),
    "io_uring": call("syscall", 425, 1, ctypes.create_string_buffer(256)),
}
raise ValueError("done:" + " ".join(name for name, result in done.items() if result != -1 and not (name == "system" and result)))
"""

# Tries to affect another process, PID, in every way but by running code in it; LINK is an open socket or pipe.
ON_OTHERS = r"""
import ctypes, os
libc = ctypes.pythonapi
def call(name, *args):
    return getattr(libc, name)(*args)
pid, link = PID, LINK
column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
def system(numbers, *args):
    return libc.syscall(numbers[column], *args)
few, mask, many = (ctypes.create_string_buffer(b, 64) for b in (b"", b"\1", b"\xff" * 64))
done = {
    "signal on input": call("fcntl", link, 10, 9),
    "owner of input": call("fcntl", link, 8, pid),
    "owner of input in a structure": call("fcntl", link, 15, (ctypes.c_int * 2)(1, pid)),
    "input is told of": call("fcntl", link, 4, 0x2000),
    "input is told of by ioctl": call("ioctl", link, 0x5452, ctypes.byref(ctypes.c_int(1))),
    "owner of a socket": call("ioctl", link, 0x8901, ctypes.byref(ctypes.c_int(pid))),
    "group of a socket": call("ioctl", link, 0x8902, ctypes.byref(ctypes.c_int(pid))),
    "lock": system((73, 32), link, 6),
    "priority": call("setpriority", 0, pid, 19),
    "processors": system((203, 122), pid, 8, mask),
    "scheduler": system((144, 119), pid, 3, few),
    "parameters": system((142, 118), pid, few),
    "input and output": system((251, 30), 1, pid, 3 << 13),
    "limits": call("prlimit", pid, 7, many, None),
    "own memory": call("prlimit", 0, 9, many, None),
    "signal 0": call("kill", pid, 0),
    "signal to a thread": system((234, 131), pid, pid, 0),
    "signal with a value": system((129, 138), pid, 0, few),
    "handle": system((434, 434), pid, 0),
    "group": system((109, 154), 0, 0),
    "memory segments": system((31, 195), 0, 14, many),
    "queues": system((71, 187), 0, 14, many),
    "semaphores": system((66, 191), 0, 0, 19, many),
    "watch": system((294, 26), 0),
    "pages": system((256, 238), pid, 8, mask, mask),
    "message": call("recvmsg", 1, few, 0x40),
}
"""
REPORT = 'raise ValueError("done:" + ", ".join(name for name, result in done.items() if result != -1))'

# Reads the files and folders PLACES, and the environment.
READS = """
import ctypes, os
libc = ctypes.pythonapi
libc.opendir.restype = ctypes.c_void_p
done = {}
for path in PLACES:
    done[path] = libc.open(os.fsencode(path), os.O_RDONLY)
    if done[path] == -1 and libc.opendir(os.fsencode(path)):
        done[path] = 0
environment = [name for name in os.environ if "SECRET" in name or "KEY" in name]
done |= dict.fromkeys(environment, 0)
"""

REPORTS_ITS_INPUT = """
class PdfiumError(Exception): ...
class PdfDocument:
    def __init__(self, data):
        raise ValueError(bytes(data).decode() + str(data))
"""


def read_with(module, tmp_path, monkeypatch):
    """What becomes of `a.pdf` and a note where this module is loaded for the library that reads PDFs."""
    (tmp_path / "modules").mkdir(exist_ok=True)
    (tmp_path / "modules" / "pypdfium2.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]))
    docs = tmp_path / "docs"
    docs.mkdir(exist_ok=True)
    (docs / "a.pdf").write_bytes(b"%PDF-1.4 hostile")
    (docs / "b.txt").write_text("Ruth Sand sailed.")
    return list(load_files(find_files([docs]).files, docs))


@linux
def test_native_code_in_the_reader_cannot_connect_run_write_or_remove(tmp_path, monkeypatch):
    """Called directly from the C library, each of these fails; reading does not. The file is skipped, the next one is read."""
    (tmp_path / "kept.txt").write_text("kept")
    hostile, note = read_with(TAKEN_OVER.replace("FOLDER", repr(os.fsencode(tmp_path))), tmp_path, monkeypatch)

    assert hostile.reason == "damaged: done:"
    assert hostile.is_failure
    assert note.text == "Ruth Sand sailed."
    assert (tmp_path / "kept.txt").read_text() == "kept"
    assert not (tmp_path / "made").exists()


@pytest.fixture
def victim():
    """Another process of the same user."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@linux
def test_native_code_in_the_reader_cannot_touch_another_process(victim, tmp_path, monkeypatch):
    """No signal of any kind, no change of priority, affinity or limits. Outside the sandbox most of these calls succeed."""
    before = psutil.Process(victim.pid)
    was = before.nice(), before.cpu_affinity(), before.rlimit(psutil.RLIMIT_NOFILE)
    attack = ON_OTHERS.replace("PID", str(victim.pid))

    hostile, note = read_with(attack.replace("LINK", "0") + REPORT, tmp_path, monkeypatch)

    assert hostile.reason == "damaged: done:"
    assert note.text == "Ruth Sand sailed."
    assert victim.poll() is None
    assert (before.nice(), before.cpu_affinity(), before.rlimit(psutil.RLIMIT_NOFILE)) == was
    free = attack.replace("LINK", "os.pipe()[0]") + REPORT
    outside = subprocess.run([sys.executable, "-c", free], check=False, capture_output=True, text=True, timeout=60).stderr
    for name in ("signal on input", "owner of input", "input is told of", "priority", "scheduler", "own memory", "signal 0", "handle"):
        assert name in outside.rpartition("done:")[2]


@linux
@landlock
def test_native_code_in_the_reader_reads_nothing_of_others(tmp_path, monkeypatch):
    """Neither the user's files and folders nor /proc; and the environment holds no secret."""
    monkeypatch.setenv("LOCALRAG_API_KEY", "treasure")
    monkeypatch.setenv("SECRET_TOKEN", "treasure")
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "modules" / "packed").mkdir(parents=True)
    (tmp_path / "modules" / "notes.txt").write_text("no module, though beside one")
    of_processes = [f"/proc/{who}/{what}" for who in (os.getpid(), "self") for what in ("environ", "maps", "cmdline", "mem", "fd")]
    mine = [tmp_path, tmp_path / "kept.txt", tmp_path / "docs" / "b.txt", tmp_path / "modules" / "notes.txt"]
    of_the_system = ["/proc", "/proc/meminfo", "/etc/passwd", "/etc", "/", str(Path.home()), "/tmp", "/dev/zero"]
    places = [*map(str, mine), *of_processes, *of_the_system]

    hostile, note = read_with(READS.replace("PLACES", repr(places)) + REPORT, tmp_path, monkeypatch)

    assert hostile.reason == "damaged: done:"
    assert note.text == "Ruth Sand sailed."


def test_the_reader_is_given_files_and_no_paths(tmp_path, monkeypatch):
    """Libraries see only the content of a file, never its path; a FIFO is refused without waiting for it."""
    hostile, _ = read_with(REPORTS_ITS_INPUT, tmp_path, monkeypatch)
    os.mkfifo(tmp_path / "docs" / "c.txt")
    reader = ParserProcess(Limits(seconds=20))

    assert "%PDF-1.4 hostile" in hostile.reason
    assert "a.pdf" not in hostile.reason
    assert reader.request({"path": str(tmp_path / "docs" / "c.txt")}) == {
        "reason": "cannot be read: it is not a regular file",
        "failed": True,
    }
    assert reader.request({"path": str(tmp_path / "docs" / "d.txt")})["reason"] == "cannot be read: No such file or directory"
    reader.close()


@pytest.mark.ci
def test_a_reader_that_takes_no_request_is_given_up(tmp_path, monkeypatch):
    """Also where the request, with the words of many pages, is longer than a socket's buffer."""
    hang = "import time\ntime.sleep(60)\n"
    read_hostile = {"text_column": "", "metadata_columns": [], "split": False, "path": str(tmp_path / "docs" / "a.pdf")}
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "sitecustomize.py").write_text(hang)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.pdf").write_bytes(b"%PDF-1.4")
    reader = ParserProcess(Limits(seconds=1.0))

    answer = reader.request(read_hostile | {"read": [[1, {"words": ["x" * 1000] * 5000}]]})
    reader.close()

    assert answer == {"reason": "took longer than 1 s", "failed": True}


@pytest.mark.parametrize("how", ["ctypes.string_at(0)", "os.abort()"], ids=["segmentation fault", "abort"])
def test_a_reader_that_crashes_costs_its_file_only(how, tmp_path, monkeypatch):
    """The file is listed as skipped, and the run goes on."""
    hostile, note = read_with(f"import ctypes, os\n{how}\n", tmp_path, monkeypatch)

    assert (hostile.reason, hostile.is_failure) == ("damaged: it crashed the program that reads it", True)
    assert note.text == "Ruth Sand sailed."


REFUSED = [
    *("os.remove(path)", "os.rename(path, path + '2')", "os.mkdir(path + '2')", "os.symlink(path, path + '2')", "os.truncate(path, 0)"),
    *("shutil.rmtree(path)", "os.chmod(path, 0)", "open(path).read()", "os.open(path, os.O_RDONLY)", "os.listdir(os.path.dirname(path))"),
    *("os.listdir()", "os.kill(os.getppid(), 0)", "ctypes.CDLL(None)", "ctypes.CDLL('libc.so.6')", "open(path + '2', 'w')"),
    *("socket.socket()", "subprocess.run(['true'])", "os.system('true')"),
]


def test_python_code_in_the_reader_is_refused_everywhere(tmp_path):
    """Also where the kernel has no filter, a hook refuses to change a file, connect, start or signal a process, or load a library."""
    path = tmp_path / "kept.txt"
    path.write_text("kept")
    code = f"""
import ctypes, os, shutil, socket, subprocess, sys, localrag.loaders.parser_process as process
process.readable_paths()
sys.addaudithook(process._refuse)
path = {str(path)!r}
for what in {REFUSED}:
    try:
        exec(what)
        print("allowed", what)
    except PermissionError as error:
        print(str(error).startswith("a file may not lead to"))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.split("\n") == ["True"] * len(REFUSED) + [""]
    assert path.read_text() == "kept"


@linux
def test_the_kernel_refuses_threads_and_processes_beyond_the_first():
    """The limit of processes holds beside the filter: it is all that stops a fork where there is no filter."""
    code = (
        "import ctypes, resource, localrag.loaders.parser_process as w; w.restrict_process(2**31); "
        "print(resource.getrlimit(resource.RLIMIT_NPROC), ctypes.pythonapi.prctl(21))"  # PR_GET_SECCOMP: 2 is a filter
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "(0, 0) 2\n"


@linux
def test_the_filter_holds_in_a_process_of_its_own(tmp_path):
    """`enforce` says that the kernel took the filter; a write is then refused although Python's own hooks allow it."""
    code = f"from localrag.loaders.sandbox import apply_sandbox; print(apply_sandbox(['/'])); open({str(tmp_path / 'new')!r}, 'w')"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.stdout.strip() == "True"
    assert "PermissionError" in done.stderr
