"""`localrag help`: the documentation in the terminal."""

from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.completion import pages_of_help

TopicArgument = Annotated[
    str, typer.Argument(metavar="[TOPIC]", help="A page, for example models or pipeline.", autocompletion=pages_of_help)
]


def help_command(topic: TopicArgument = "") -> None:
    """Read the documentation: a list of topics, or one page."""
    from localrag.cli.views.console import out
    from localrag.errors import UsageError

    pages = topics()
    if topic and topic not in pages:
        from rapidfuzz.process import extract

        near = [name for name, *_ in extract(topic, list(pages), limit=2, score_cutoff=50)]
        raise UsageError(f"There is no page {topic!r}.", f"Near: {', '.join(near)}" if near else "All pages: localrag help")
    if topic:
        from rich.markdown import Markdown

        text = pages[topic].read_text(encoding="utf-8")
        out.print(Markdown(text) if out.is_terminal else text)
        return
    width = max(map(len, pages))
    for name, path in pages.items():
        out.print(f"{name:<{width}}  {title_of(path)}")
    out.print("\nRead one: localrag help TOPIC\nOptions of a command: localrag COMMAND --help")


def topics() -> dict[str, Path]:
    """Topic → page: tutorial first, then as the folders stand."""
    from localrag.system.files import data_path

    docs = data_path("docs")
    order = ("tutorial", "how-to", "explanation", "reference", "benchmarks")
    found = [p for p in docs.rglob("*.md") if p.parent != docs or p.stem in order]
    ranked = sorted(found, key=lambda p: (order.index(p.relative_to(docs).parts[0].removesuffix(".md")), p.name))
    return {p.stem: p for p in ranked}


def title_of(path: Path) -> str:
    """The heading of a page."""
    with path.open(encoding="utf-8") as f:
        return f.readline().removeprefix("#").strip()
