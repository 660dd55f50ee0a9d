"""The time of questions without a chat model: the first of a process, warm ones, and ones beside another program that keeps a core busy.

    python -m scripts.bench_ask INDEX QUESTIONS.jsonl [--most 20] [--starts 10] [--than TREE]

Prints medians in seconds, with the shortest and the longest. A start runs `localrag ask --json` as its users do, from begin to end; its
CPU time can be compared on a machine with other work. With `--than`, starts of that other source tree alternate with those of this one.
Nothing is stored in the index.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from localrag.asking import answer_question
from localrag.project import open_for_query
from localrag.query.question import QueryOptions

ROOT = Path(__file__).resolve().parents[1]
BUSY_LOOP = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--most", type=int, default=20, help="questions that are asked in one process")
    parser.add_argument("--starts", type=int, default=10, help="processes that are started for one question each")
    parser.add_argument("--than", type=Path, help="another source tree")
    args = parser.parse_args()
    questions = [json.loads(line)["question"] for line in args.questions.read_text(encoding="utf-8").splitlines()][: args.most]
    trees = [*filter(None, [args.than]), ROOT]
    starts: dict[Path, list[tuple[float, float]]] = {tree: [] for tree in trees}
    for n in range(args.starts):
        for tree in trees:
            starts[tree].append(seconds_of_start(tree, args.index, questions[n % len(questions)]))
    for tree, seconds in starts.items():
        show(f"first question, {tree.resolve()}", [wall for wall, _ in seconds])
        show(f"… CPU, {tree.resolve()}", [cpu for _, cpu in seconds])
    idle = seconds_of_questions(args.index, questions)
    show("warm questions, idle", idle)
    with busy_core():
        busy = seconds_of_questions(args.index, questions)
    show("warm questions, a core kept busy", busy)
    print(f"busy to idle: {median(busy) / median(idle):.2f}")


def show(what: str, seconds: Sequence[float]) -> None:
    if seconds:
        print(f"{what}: median {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), {len(seconds)}", flush=True)


def seconds_of_start(tree: Path, index: Path, question: str) -> tuple[float, float]:
    """The seconds that a new process takes for a question, and those of CPU."""
    command = [sys.executable, "-m", "localrag", "ask", question, "--index", str(index), "--no-history", "--json"]
    started, before = time.perf_counter(), cpu_of_children()
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tree.resolve())}, check=True, capture_output=True)
    return time.perf_counter() - started, cpu_of_children() - before


def cpu_of_children() -> float:
    """The seconds of CPU that ended child processes took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds_of_questions(index: Path, questions: Sequence[str]) -> list[float]:
    """The seconds of each question in this process, after a first one that loads the models."""
    with open_for_query(index, logs=False) as project:
        return [asyncio.run(answer_question(question, project, QueryOptions())).seconds for question in [questions[0], *questions]][1:]


@contextmanager
def busy_core() -> Iterator[None]:
    """A process that keeps the first core of this one busy meanwhile."""
    with subprocess.Popen([sys.executable, "-c", BUSY_LOOP % min(os.sched_getaffinity(0))]) as process:
        try:
            yield
        finally:
            process.kill()


if __name__ == "__main__":
    main()
