"""`localrag mcp`: the index as tools of a program that speaks MCP and starts this command."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from localrag.cli.options import (
    AllowHostOption,
    AtOnceOption,
    DeterministicOption,
    EngineOption,
    IndexOption,
    ModelOption,
    RerankerOption,
    engine_options,
    one_of,
)

# Program → the key under which its settings list servers, what they say of one besides, and where they are.
PROGRAMS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "claude": ("mcpServers", {}, "claude_desktop_config.json (Claude Desktop) or .mcp.json in a project (Claude Code)"),
    "cursor": ("mcpServers", {}, "~/.cursor/mcp.json"),
    "vscode": ("servers", {"type": "stdio"}, ".vscode/mcp.json"),
    "zed": ("context_servers", {"source": "custom", "env": {}}, "Zed's settings.json"),
    "lmstudio": ("mcpServers", {}, "LM Studio's mcp.json (Program › Install › Edit mcp.json)"),
}


def mcp_command(
    index: IndexOption = None,
    config: Annotated[
        str | None,
        typer.Option("--config", help="Print what to paste into the settings of a program.", **one_of("program", tuple(PROGRAMS))),
    ] = None,
    model: ModelOption = None,
    reranker: RerankerOption = None,
    allow_host: AllowHostOption = None,
    at_once: AtOnceOption = 0,
    engine: EngineOption = "",
    deterministic: DeterministicOption = False,
) -> None:
    """Offer the index as tools over MCP, on standard input and output, to the program that starts this.

    While `localrag serve` runs on the same index, it answers the questions; otherwise the models are loaded here at the first of them.
    """
    from localrag.opening import find_index

    folder = find_index(index)
    if config is not None:
        options = [part for name, value in (("--model", model), ("--reranker", reranker)) if value for part in (name, _absolute(value))]
        options += [part for h in allow_host or () for part in ("--allow-host", h)]
        options += ["--at-once", str(at_once)] * bool(at_once) + ["--engine", engine] * bool(engine) + ["--deterministic"] * deterministic
        _print_config(config, folder, options)
        return
    from localrag.opening import open_for_questions
    from localrag.serve.bridge import serve_stdio

    chosen = engine_options(engine, deterministic=deterministic, hosts=allow_host, at_once=at_once)
    serve_stdio(folder, lambda: open_for_questions(folder, model=model, reranker=reranker, engine=chosen))


def _absolute(model: str) -> str:
    return str(Path(model).absolute()) if Path(model).is_file() else model


def _print_config(program: str, folder: Path, options: list[str]) -> None:
    """Absolute paths throughout: these programs start it in a folder of their own, and without the user's PATH."""
    from localrag.cli.views.console import say

    key, more, where = PROGRAMS[program]
    command, *first = _command()
    server = {"command": command, "args": [*first, "mcp", "--index", str(folder.resolve()), *options]}
    typer.echo(json.dumps({key: {"localrag": {**more, **server}}}, indent=2, ensure_ascii=False))
    say(f"Paste it into {where}.")


def _command() -> list[str]:
    """How this program is started from anywhere."""
    script = Path(sys.argv[0]).absolute()
    return [str(script)] if script.stem == "localrag" and script.is_file() else [sys.executable, "-m", "localrag"]
