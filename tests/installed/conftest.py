"""localrag as a user has it: its wheel in an environment of its own, with the README's libraries and nothing that tests or extras bring."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from tests.conftest import ROOT, TOWN, shared_home, take_over, write_documents
from tests.indexing.scans import drawn, scanned_pdf

ONLY_LOOPBACK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")  # where nothing listens
DOCUMENTS = TOWN | {
    "contract.md": "# Contract\n\nThe repair costs 900 crowns. It begins on 3 May 1974. Ruth Sand signs for the town of Vardby.\n",
    "contract 2.md": "# Contract\n\nThe repair costs 950 crowns. It begins on 3 May 1974. Ruth Sand signs for the town of Vardby.\n",
}


@dataclass(frozen=True)
class Place:
    """A working folder and a home of a user, and the programs of the environment."""

    programs: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a user: none of the tests' own, and no way to another machine."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOCALRAG_", "HF_", "PYTEST_"))}
        return kept | ONLY_LOOPBACK | {"LOCALRAG_HOME": str(self.folder.parent / "home")}

    @property
    def python(self) -> Path:
        return self.programs / "python"

    @property
    def command(self) -> Path:
        return self.programs / "localrag"

    def run(self, *args: str | Path, given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """What a user gets who types `localrag …` here."""
        return subprocess.run(
            [self.command, *args],
            cwd=self.folder,
            env=self.environment | env,
            input=given,
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of that environment, which is kept from run to run; the wheel is built and installed once a run."""
    base, folder = tmp_path_factory.getbasetemp(), shared_home() / "installed"
    done = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "installed"
    with FileLock(f"{folder}.lock"):
        if not done.exists():
            command = [sys.executable, ROOT / "scripts" / "install.py", "wheel", folder]
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
            done.touch()
    return folder / "bin"


def new_place(programs: Path, folder: Path, *, is_measured: bool = True) -> Place:
    """An empty folder, and a home in which the bundled models are measured already, or nothing is."""
    (folder / "work").mkdir(parents=True)
    (folder / "home" / "cache").mkdir(mode=0o700, parents=True)
    if is_measured:
        take_over(shared_home(), folder / "home")
    return Place(programs, folder / "work")


@pytest.fixture
def empty(programs: Path, tmp_path: Path) -> Place:
    """A place of a new user: no documents, no index, and a machine that was never measured."""
    return new_place(programs, tmp_path, is_measured=False)


@pytest.fixture(scope="session")
def made(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, their index, a collection, and a conversation of one answer, made by the installed program."""
    place = new_place(programs, tmp_path_factory.mktemp("made"))
    write_documents(place.folder / "docs", DOCUMENTS | {"scan.pdf": scanned_pdf(drawn("The Skua sails to Vardby on Monday."))})
    (place.folder / "questions.txt").write_text("date: When does the repair begin?\n", encoding="utf-8")
    for args in (["index", "docs", "--collection", "town"], ["ask", "Who bought the Skua?"]):
        done = place.run(*args)
        assert done.returncode == 0, done.stderr
    return place.folder


@pytest.fixture
def place(made: Path, programs: Path, tmp_path: Path) -> Place:
    """A copy of it: an index with which a command may do what it likes."""
    found = new_place(programs, tmp_path)
    subprocess.run(["cp", "-a", f"{made}/.", found.folder], check=True)
    return found
