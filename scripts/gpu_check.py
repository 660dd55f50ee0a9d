"""Check localrag on a machine with an NVIDIA card: build llama.cpp for it, compare its results with the CPU's, and measure.

    python scripts/gpu_check.py pack PACK.tar.xz                     # with a network: everything to bring along, at most 64 MiB
    tar xf PACK.tar.xz && cd localrag-gpu                            # there
    python3 scripts/gpu_check.py run OUT                             # again, it goes on where it was stopped
    python scripts/gpu_check.py run OUT --rehearse --pack PACK.tar.xz   # on any machine, with tiny models on the CPU

The machine needs Linux, NVIDIA's driver, the CUDA toolkit, CMake, a C++ compiler and Python 3.11 or newer; no network. Each step runs in a
process of its own with a time limit. A step that fails is recorded with its reason, and the later ones still run. OUT/report.md and
OUT/report.json are written after every step, OUT/logs has what each step printed.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import gpu_pack

ROOT = Path(__file__).resolve().parents[1]
NEEDED_BYTES = 4 << 30  # of the card: a model of 1.5 billion parameters in Q8_0, its KV and llama.cpp's buffers
MIN_STEP_S = 5  # a step is not begun with less time left
REASON_LINES = 3  # last lines of a step's log that its reason quotes
GIB = 1 << 30
DONE, FAILED, SKIPPED, RUNNING, NOT_REACHED = "done", "failed", "skipped", "interrupted", "not reached"


@dataclass(frozen=True)
class Step:
    """A step of the check: it runs at most `limit_s` seconds."""

    name: str
    title: str
    limit_s: int


STEPS = (
    Step("machine", "What is here", 60),
    Step("packages", "Python packages from the pack", 120),
    Step("build", "llama.cpp with CUDA for this card, and its server", 420),
    Step("weights", "Models with random weights of real shapes", 180),
    Step("exactness", "Batched against one by one, and the GPU against the CPU", 120),
    Step("bench", "Output tokens/s against a llama.cpp server", 240),
    Step("doctor", "localrag doctor", 60),
)


@dataclass
class StepState:
    """How a step went: `seconds` it took, why it failed or was skipped, and its figures."""

    state: str = RUNNING
    seconds: float = 0.0
    reason: str = ""
    result: dict[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """A run in a folder: what its steps are given, and their states so far."""

    out: Path
    job: dict[str, Any]
    states: dict[str, StepState] = field(default_factory=dict)

    def save(self) -> None:
        """Write the states and the report."""
        values = {"job": self.job, "steps": {name: asdict(state) for name, state in self.states.items()}}
        write_file(self.out / "state.json", json.dumps(values, indent=1))
        write_file(self.out / "report.json", json.dumps(values, indent=1))
        write_file(self.out / "report.md", report(self))


class CheckError(Exception):
    """Why the check cannot run, with the remedy, in one line."""


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def open_run(out: Path, job: dict[str, Any]) -> Run:
    """The run in a folder, with the steps that an earlier one finished. Raises CheckError if that was a run of another kind."""
    for folder in (out, out / "logs", out / "results"):
        folder.mkdir(parents=True, exist_ok=True)
    path = out / "state.json"
    if not path.exists():
        return Run(out, job)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        states = {name: StepState(**state) for name, state in stored["steps"].items()}
        before = stored["job"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckError(f"{path} is damaged ({error}). Delete it, or give another folder.") from error
    if before["rehearse"] != job["rehearse"]:
        raise CheckError(f"{out} holds {'a rehearsal' if before['rehearse'] else 'a run on a card'}. Give another folder.")
    if before["card"] != job["card"]:
        raise CheckError(f"{out} holds a run on {before['card'] or 'no card'}; here is {job['card'] or 'none'}. Give another folder.")
    return Run(out, job, states)


def run_steps(run: Run, steps: Sequence[Step], command: Callable[[str], list[str]], seconds: float) -> None:
    """Run the steps that are not done yet, within so many seconds altogether; each failure is recorded."""
    ends = time.monotonic() + seconds
    for number, step in enumerate(steps, 1):
        if run.states.get(step.name, StepState()).state == DONE:
            print(f"[{number}/{len(steps)}] {step.title}: done before", flush=True)
            continue
        limit = min(step.limit_s, ends - time.monotonic())
        if limit < MIN_STEP_S:
            run.states.setdefault(step.name, StepState(NOT_REACHED, reason="No time was left. Run the same command again."))
            run.save()
            continue
        run.states[step.name] = StepState()
        run.save()  # a step that is cut off with the machine is found as interrupted
        print(f"[{number}/{len(steps)}] {step.title} (at most {limit:.0f} s)", flush=True)
        run.states[step.name] = run_step(run, step.name, command(step.name), limit)
        run.save()
        state = run.states[step.name]
        print(f"    {state.state} in {state.seconds:.1f} s{f': {state.reason}' if state.reason else ''}", flush=True)


def run_step(run: Run, name: str, command: list[str], limit: float) -> StepState:
    """Run one step in a process group of its own, which ends with it."""
    log, result = run.out / "logs" / f"{name}.log", run.out / "results" / f"{name}.json"
    started = time.monotonic()
    reason = ""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=run.out)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code, reason = None, f"It was stopped after {limit:.0f} s; what it had measured is kept"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    figures = read_result(result)
    skipped = str(figures.pop("skipped", ""))
    if code == 0:
        return StepState(SKIPPED if skipped else DONE, round(time.monotonic() - started, 1), skipped, figures)
    if code is not None:
        ended = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
        reason = f"{ended}: {last_lines(log)}"
    return StepState(FAILED, round(time.monotonic() - started, 1), reason, figures)


def read_result(path: Path) -> dict[str, Any]:
    """The figures that a step has written so far."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values


def last_lines(log: Path) -> str:
    """The last lines of a log, as one line."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-REASON_LINES:])[-500:] or "it printed nothing"


@dataclass(frozen=True)
class Card:
    """A card as nvidia-smi describes it; memory in bytes, `architecture` as CMake names it, such as 90."""

    name: str
    total: int
    free: int
    architecture: str
    driver: str


def read_cards() -> list[Card]:
    """Ask nvidia-smi for the cards; none where it is missing or reaches no driver."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free,compute_cap,driver_version", "--format=csv,noheader,nounits"]
    if not shutil.which("nvidia-smi"):
        return []
    text = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    found = re.findall(r"(?m)^([^,\n]+), (\d+), (\d+), (\d+)\.(\d+), (.+)$", text)
    return [Card(name, int(total) << 20, int(free) << 20, major + minor, driver) for name, total, free, major, minor, driver in found]


def check_machine(cards: Sequence[Card]) -> None:
    """Raise CheckError if the check cannot run on this machine."""
    if not cards:
        raise CheckError("nvidia-smi names no card here. Install NVIDIA's driver, or restart the machine.")
    card = max(cards, key=lambda c: c.free)
    if card.free < NEEDED_BYTES:
        free = f"{card.free / GIB:.1f} of {card.total / GIB:.1f} GiB free, {NEEDED_BYTES // GIB} are needed"
        raise CheckError(f"{card.name} has {free}. See which programs use it (nvidia-smi), or take another card.")


MIN_RATIO = 2  # output tokens/s over those of a llama.cpp server at 32 requests that is asked of a card


def report(run: Run) -> str:
    """The report in Markdown."""
    rehearsed = "Rehearsal without a card: tiny models on the CPU, its figures say nothing about speed"
    kind = rehearsed if run.job["rehearse"] else run.job["card"] or "A machine without a card"
    lines = ["# localrag on a GPU", "", f"{kind}. Command: `{run.job['command']}`.", ""]
    lines += ["| step | state | seconds | |", "|---|---|---|---|"]
    titles = {step.name: step.title for step in STEPS}
    for name, state in run.states.items():
        reason = state.reason.replace("|", "/").replace("\n", " ")
        lines.append(f"| {titles.get(name, name)} | {state.state} | {state.seconds:.1f} | {reason} |")
    ratio = None if run.job["rehearse"] else run.states.get("bench", StepState()).result.get("ratio_to_server")
    judged = "not measured" if ratio is None else f"{ratio}, {'met' if ratio >= MIN_RATIO else 'not met'}"
    lines += ["", f"Goal: ≥ {MIN_RATIO} × a llama.cpp server's output tokens/s at 32 requests: {judged}"]
    for name, state in run.states.items():
        if state.result:
            lines += ["", f"## {titles.get(name, name)}", "", *figure_lines(state.result, 0)]
    return "\n".join(lines) + "\n"


def figure_lines(values: dict[str, Any], depth: int) -> list[str]:
    """Figures as a nested list."""
    lines = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            lines += [f"{'  ' * depth}- {name}:", *figure_lines(value, depth + 1)]
        else:
            lines.append(f"{'  ' * depth}- {name}: {value}")
    return lines


def run_command(args: argparse.Namespace) -> int:
    """Run the check; the exit code is 1 if the machine is not fit or a step failed."""
    cards = read_cards()
    out = args.out.resolve()
    if not args.rehearse:
        check_machine(cards)
    card = "" if args.rehearse else f"{cards[0].name}, driver {cards[0].driver}"
    pack = gpu_pack.unpack(args.pack, out) if args.pack else ROOT
    if not args.rehearse and not (pack / "llama").is_dir():
        raise CheckError("There are no sources of llama.cpp here. Make a pack (gpu_check.py pack PACK.tar.xz) and add --pack PACK.tar.xz")
    job = {"rehearse": args.rehearse, "card": card, "pack": str(pack), "command": " ".join(sys.argv)}
    run = open_run(out, job)
    write_file(out / "job.json", json.dumps(job | {"architecture": cards[0].architecture if card else ""}))
    only = set(args.only or [step.name for step in STEPS])
    script = pack / "scripts" / "gpu_steps.py"
    steps = [step for step in STEPS if step.name in only]
    run_steps(run, steps, lambda name: [sys.executable, str(script), name, str(out)], args.seconds)
    print(f"The report: {out / 'report.md'}")
    return int(any(run.states[step.name].state not in (DONE, SKIPPED) for step in steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the check")
    run.add_argument("out", type=Path)
    run.add_argument("--rehearse", action="store_true", help="without a card: tiny models on the CPU")
    run.add_argument("--pack", type=Path, help="a pack to unpack first; needed outside an unpacked one")
    run.add_argument("--only", nargs="*", choices=[step.name for step in STEPS], metavar="STEP", help="only these steps")
    run.add_argument("--seconds", type=float, default=3600, help="stop in time: steps for which none is left are for the next run")
    pack = commands.add_parser("pack", help="make the archive to bring along")
    pack.add_argument("archive", type=Path)
    pack.add_argument("--sdist", type=Path, help="source distribution of llama-cpp-python; by default pip downloads it")
    pack.add_argument("--wheels", type=Path, help="folder of wheels; by default pip downloads them")
    pack.add_argument("--python", default="3.12", help="the version of Python on the machine with the card")
    args = parser.parse_args()
    try:
        if args.command == "run":
            sys.exit(run_command(args))
        sizes = gpu_pack.write_pack(args.archive, sdist=args.sdist, wheels=args.wheels, python=args.python)
        print(f"{args.archive}: {gpu_pack.summary(sizes)}")
    except (CheckError, gpu_pack.PackError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
