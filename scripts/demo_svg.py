"""Records `localrag demo` as a picture of a terminal: docs/demo.svg.

    python scripts/demo_svg.py

Runs the command and draws what it prints; long lines are cut, so that the picture stays small. Nothing in it comes from elsewhere.
"""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

OUT = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
WIDTH, MOST = 116, 44  # columns, lines


def shown(output: str) -> list[str]:
    """The lines worth a picture: paths shortened, stretches of an answer left out where it is long."""
    lines = [re.sub(r"\S*/demo/corpus\b", "…", line) for line in output.splitlines()]
    stage = r"(?:names|extraction|sentences|reports?|noun phrases|entity resolution|[a-z]+ embeddings)\b.*: \d"
    lines = [line for line in lines if not re.match(stage, line)]
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines]


def main() -> None:
    """Run the demo, draw the picture."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "localrag", "demo"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, cwd=folder)
    lines = shown(done.stdout)
    last = max(n for n, line in enumerate(lines) if line.startswith("$ "))
    shown_first = max(8, MOST - (len(lines) - last) - 1)  # the local answer whole, of the global one its beginning
    first = [*lines[:shown_first], "…"] if len(lines) > MOST else lines[:last]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    console.print(Text("$ localrag demo", "bold"))
    for line in [*first, "", *lines[last:]]:
        style = "bold" if line.startswith("$ ") else "dim" if re.match(r"\s+\d+  ", line) else ""
        console.print(Text(line, style))
    svg = console.export_svg(title="localrag", theme=DIMMED_MONOKAI)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")
    OUT.write_text(re.sub(r"[ \t]+\n", "\n", svg), encoding="utf-8")


if __name__ == "__main__":
    main()
