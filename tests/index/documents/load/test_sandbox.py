"""What code of a file that has taken over the process that reads it can do: nothing but compute."""

import os
import subprocess
import sys

import pytest

from localrag.index.documents.load import find_files, load_all

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")

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
    "read": call("open", folder + b"/kept.txt", os.O_RDONLY),
}
raise ValueError(" ".join(name for name, result in done.items() if result != -1 and not (name == "system" and result)))
"""


def read_with(module, tmp_path, monkeypatch):
    """What becomes of `a.pdf` and a note where this module is loaded for the library that reads PDFs."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pypdfium2.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "modules"), os.environ.get("PYTHONPATH", "")]))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.pdf").write_bytes(b"%PDF-1.4 hostile")
    (docs / "b.txt").write_text("Ruth Sand sailed.")
    return list(load_all(find_files([docs]).files, docs))


@linux
def test_native_code_in_the_reader_cannot_connect_run_write_or_remove(tmp_path, monkeypatch):
    """Called directly from the C library, each of these fails; reading does not. The file is skipped, the next one is read."""
    (tmp_path / "kept.txt").write_text("kept")
    hostile, note = read_with(TAKEN_OVER.replace("FOLDER", repr(os.fsencode(tmp_path))), tmp_path, monkeypatch)

    assert hostile.reason == "damaged: read"
    assert hostile.failed
    assert note.text == "Ruth Sand sailed."
    assert (tmp_path / "kept.txt").read_text() == "kept"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("how", ["ctypes.string_at(0)", "os.abort()"], ids=["segmentation fault", "abort"])
def test_a_reader_that_crashes_costs_its_file_only(how, tmp_path, monkeypatch):
    """The file is listed as skipped, and the run goes on."""
    hostile, note = read_with(f"import ctypes, os\n{how}\n", tmp_path, monkeypatch)

    assert (hostile.reason, hostile.failed) == ("damaged: it crashed the program that reads it", True)
    assert note.text == "Ruth Sand sailed."


@pytest.mark.parametrize(
    "what",
    [
        "os.remove(path)",
        "os.rename(path, path + '2')",
        "os.mkdir(path + '2')",
        "os.symlink(path, path + '2')",
        "os.truncate(path, 0)",
        "shutil.rmtree(path)",
        "os.chmod(path, 0)",
        "os.kill(os.getppid(), 0)",
        "ctypes.CDLL(None)",
        "ctypes.CDLL('libc.so.6')",
    ],
)
def test_python_code_in_the_reader_is_refused_everywhere(what, tmp_path, monkeypatch):
    """Also where the kernel has no filter, a hook refuses what would change a file, signal a process or load a foreign library."""
    path = tmp_path / "kept.txt"
    path.write_text("kept")
    module = f"import localrag.index.documents.load.worker, ctypes, os, shutil\npath = {str(path)!r}\n{what}"
    code = f"import sys, localrag.index.documents.load.worker as w\nsys.addaudithook(w._refuse)\nimport ctypes\nexec({module!r})"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert "PermissionError: a file may not lead to" in done.stderr
    assert path.read_text() == "kept"


@linux
def test_the_kernel_refuses_threads_and_processes_beyond_the_first():
    """The limit of processes holds beside the filter: it is all that stops a fork where there is no filter."""
    code = (
        "import resource, localrag.index.documents.load.worker as w; w.confine(2**31); "
        "print(resource.getrlimit(resource.RLIMIT_NPROC)[0], open('/proc/self/status').read().split('Seccomp:')[1].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.split() == ["0", "2"]


@linux
def test_the_filter_holds_in_a_process_of_its_own(tmp_path):
    """`enforce` says that the kernel took the filter; a write is then refused although Python's own hooks allow it."""
    code = f"from localrag.index.documents.load.sandbox import enforce; print(enforce()); open({str(tmp_path / 'new')!r}, 'w')"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.stdout.strip() == "True"
    assert "PermissionError" in done.stderr
