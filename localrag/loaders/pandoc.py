"""Pandoc, if pypandoc_binary is installed: it converts LaTeX in a process under the limits of the parser process (`sandbox`).

The file comes on its stdin and the document goes to its stdout as JSON, which the parser process turns into text (`pandoc_json`). It may
open no other file.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

PANDOC_SUFFIXES = frozenset({".tex"})
_SANDBOX = str(Path(__file__).with_name("sandbox.py"))
_MAX_SECONDS = 20.0
_MAX_MEMORY_BYTES = 2 * 2**30
_MAX_FILE_BYTES = 3_000_000  # JSON is some thirty times as long
_ARGUMENTS = "+RTS -V0 -M512m -RTS --sandbox -f latex+raw_tex -t json".split()  # -V0: without a timer, which a sandbox forbids


def find_pandoc() -> str:
    """The program that the package pypandoc_binary brings; empty if it is not installed."""
    package = importlib.util.find_spec("pypandoc")
    program = Path(package.origin).parent / "files" / "pandoc" if package and package.origin else None
    return str(program.resolve()) if program and sys.platform == "linux" and program.is_file() else ""


def convert_with_pandoc(program: str, file: Path) -> str:
    """The document in a LaTeX file as Pandoc's JSON; empty if Pandoc fails, takes too long, or the file is too long. Raises OSError."""
    with file.open("rb") as source:
        data = source.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        return ""
    limits = [str(_MAX_MEMORY_BYTES), str(int(_MAX_SECONDS) + 5), ""]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _SANDBOX, *limits, program, *_ARGUMENTS],
            input=data,
            capture_output=True,
            timeout=_MAX_SECONDS,
            check=False,
            env={"LANG": "C.UTF-8"},
            process_group=0,  # not interrupted by the terminal
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
