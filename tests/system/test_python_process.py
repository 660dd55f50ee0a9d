"""Processes of localrag run no code that lies in the working folder, whichever way localrag is started."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localrag.system.python_process import python_process
from tests.conftest import ROOT, write_town
from tests.serve.server import served_by

# Python imports these itself for `-m`, before any code of localrag.
PYTHONS_OWN = ("types", "collections", "functools", "warnings")
SHADOWS = (*PYTHONS_OWN, "random", "queue", "typing", "subprocess", "json", "yaml", "sitecustomize", "usercustomize")


@pytest.fixture
def place(tmp_path):
    """A working folder with documents, and with modules that note which process ran them and are no use otherwise."""
    folder = tmp_path / "work"
    write_town(folder / "docs")
    for name in SHADOWS:
        note = f"import os\nwith open({str(tmp_path / 'ran')!r}, 'a') as f:\n    f.write(f'{name} {{os.getpid()}}\\n')\n"
        (folder / f"{name}.py").write_text(note + "raise ImportError('shadowed')\n")
    return folder


def start(place, way, *args):
    """Start localrag in the folder as a user does: by the command's script, or as a module, for which Python's own files are whole."""
    command = [sys.executable, "-m", "localrag", *args]
    if way == "script":
        script = place.parent / "localrag"
        script.write_text("from localrag.__main__ import main\nmain()\n")
        command = [sys.executable, str(script), *args]
    else:
        for name in PYTHONS_OWN:
            (place / f"{name}.py").unlink(missing_ok=True)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=place, env=env, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ran(place):
    """What was run of the modules in the working folder."""
    noted = place.parent / "ran"
    return noted.read_text().splitlines() if noted.exists() else []


@pytest.mark.ci
@pytest.mark.parametrize("way", ["script", "module"])
def test_no_process_runs_a_file_of_the_working_folder(place, way):
    """Neither a command itself, its worker and parser processes, nor the run that the page of a server starts."""
    indexed = start(place, way, "index", "docs", "--extractor", "phrases", "--workers", "2")
    _, told = indexed.communicate(timeout=600)
    assert indexed.returncode == 0, told
    assert ran(place) == []

    (place / "docs" / "more.md").write_text("Ruth Sand sailed.")
    with served_by(start(place, way, "serve", "--port", "0", "--no-open")) as site, site.client() as client:
        assert client.post("/api/index", json={}).status_code == 202
        while client.get("/api/status").json()["run"]["ours"]:
            time.sleep(0.1)
        assert client.get("/api/status").json()["counts"]["documents"] == 4
    assert ran(place) == []


@pytest.mark.parametrize("entry", ["", ".", "{work}", "{link}"])
def test_an_entry_of_pythonpath_that_is_the_working_folder_is_not_handed_on(place, entry, monkeypatch):
    """However it is written: `PYTHONPATH=$PYTHONPATH:DIR` may have left an empty one. Other entries stay."""
    link, other = place.parent / "link", place.parent / "other"
    link.symlink_to(place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([entry.format(work=place, link=link), str(other)]))
    monkeypatch.setattr(sys, "path", [entry.format(work=place, link=link), *sys.path])
    for isolated in (False, True):
        command, env = python_process("import random, queue, typing; print(sys.path)", isolated=isolated)
        printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
        assert str(other) in printed
        assert str(place) not in printed
        assert str(link) not in printed
    assert ran(place) == []


def test_a_checkout_as_the_working_folder_comes_last(monkeypatch):
    """A process finds localrag where its parent found it, but the standard library and the libraries precede it."""
    monkeypatch.chdir(ROOT)
    command, env = python_process("import localrag; print(localrag.__file__, sys.path[-1])")
    env.pop("PYTHONPATH", None)
    without_libraries = [command[0], "-S", *command[1:]]  # in whose folders localrag may be installed
    printed = subprocess.run(without_libraries, env=env, check=True, capture_output=True, text=True).stdout
    assert printed.split() == [str(Path(ROOT, "localrag", "__init__.py")), str(ROOT)]
