"""`localrag bench`: models measured one after another, each in processes of its own, and the runs that are kept."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from localrag import __version__
from localrag.bench.figures import figures
from localrag.bench.machine import machine
from localrag.bench.measure import Task, check
from localrag.errors import UsageError
from localrag.models import find_chat_model
from localrag.system.files import cache_dir, private_folder, replace_file

VERSION = 1  # of the form of a run
LAST_WORDS = 300  # characters of what a process said before it died

Tell = Callable[[str, dict[str, Any]], None]
Run = dict[str, Any]


def measure_models(names: Sequence[str | None], task: Task, tell: Tell, path: Path) -> Run:
    """Measure each model; the run is written to `path` after every one.

    A file that is no model, or ends its process, is a row with its reason. Raises UsageError for a style that does not exist.
    """
    check(task)
    run: Run = {
        "version": VERSION,
        "localrag": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "options": {k: v for k, v in asdict(task).items() if k != "model"},
        "models": [],
    }
    for name in dict.fromkeys(names):
        run["models"].append(_one(name, replace(task, model=name), tell))
        save_run(run, path)
    return run


def _one(name: str | None, task: Task, tell: Tell) -> dict[str, Any]:
    shown = Path(name).name if name else find_chat_model(None).name
    row: dict[str, Any] = {"name": shown, "given": name or "", "error": ""}

    def heard(line: dict[str, Any]) -> None:
        tell(shown, line)

    for step in ("prepare", "measure"):
        answer = ask_worker(step, task, heard)
        if "error" in answer:
            return row | {"error": answer["error"], "hint": answer["hint"]}
        row |= answer["result"]
    return row | {"figures": figures(row)}


def ask_worker(step: str, task: Task, heard: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The last line of a process that does `step` of `task`; `heard` gets those before it. A process that dies is an error."""
    command = [sys.executable, "-m", "localrag.bench.worker"]
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8") as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                with suppress(BrokenPipeError):
                    process.stdin.write(json.dumps({"do": step, "task": asdict(task)}))
                    process.stdin.close()
                for text in process.stdout:
                    line: dict[str, Any] = json.loads(text)
                    if "result" in line or "error" in line:
                        return line
                    heard(line)
            except BaseException:
                process.kill()
                raise
        said.seek(0)
        last = said.read().decode(errors="replace").strip()[-LAST_WORDS:]
    return {"error": f"its process {_ended(process.returncode)}" + (f": {' '.join(last.split())}" if last else ""), "hint": ""}


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"was ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")
    return f"was ended by signal {-code}"


def runs_folder() -> Path:
    """Where runs are kept."""
    return private_folder(cache_dir() / "bench")


def new_path() -> Path:
    """A path for a run that begins now."""
    name, folder = datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S"), runs_folder()
    return next(p for n in range(1000) if not (p := folder / f"{name}{f'-{n}' if n else ''}.json").exists())


def save_run(run: Run, path: Path) -> None:
    """Write a run. Raises UsageError where that is not possible."""
    try:
        replace_file(path, json.dumps(run, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise UsageError(f"The run cannot be written to {path}: {error.strerror}.", "Give another place: --save FILE") from error


def saved_runs() -> list[Path]:
    """The runs that are kept, oldest first."""
    return sorted(runs_folder().glob("*.json"))


def load_run(name: str) -> Run:
    """The run at a path, of that name in the cache, or `last`, `last-1` … for the newest, the one before it …. Raises UsageError."""
    path = _path_of(name)
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        version = run["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no run of localrag bench.", "Those there are: localrag bench runs") from error
    if version != VERSION:
        raise UsageError(f"{path} is a run of another version of localrag.", "Measure again: localrag bench")
    return dict(run)


def _path_of(name: str) -> Path:
    known = saved_runs()
    if name.startswith("last"):
        back = name.removeprefix("last").removeprefix("-") or "0"
        if back.isdigit() and int(back) < len(known):
            return known[-1 - int(back)]
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if found := [p for p in known if p.stem == name or p.stem.startswith(name)]:
        return found[-1]
    raise UsageError(f"There is no run {name!r}.", "Those there are: localrag bench runs")
