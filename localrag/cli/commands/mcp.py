"""`localrag mcp`: the index as tools of a program that speaks MCP and starts this command."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from localrag.cli.options import AllowHostOption, EngineOption, IndexOption, ModelOption, engine_options, one_of

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
    allow_host: AllowHostOption = None,
    engine: EngineOption = "",
) -> None:
    """Offer the index as tools over MCP, on standard input and output, to the program that starts this.

    While `localrag serve` runs on the same index, it answers the questions; otherwise the models are loaded here at the first of them.
    """
    from localrag.opening import find_index

    folder = find_index(index)
    if config is not None:
        _print_config(config, folder, model, allow_host, engine)
        return
    from localrag.opening import open_for_questions
    from localrag.serve.bridge import serve_stdio

    chosen = engine_options(engine, hosts=allow_host)
    serve_stdio(folder, lambda: open_for_questions(folder, model=model, engine=chosen))


def _print_config(program: str, folder: Path, model: str | None, hosts: list[str] | None, engine: str) -> None:
    """Absolute paths throughout: these programs start it in a folder of their own, and without the user's PATH."""
    from localrag.cli.views.console import say

    key, more, where = PROGRAMS[program]
    command, *first = _command()
    model = str(Path(model).absolute()) if model and Path(model).is_file() else model
    options = ["--model", model] * (model is not None) + [part for h in hosts or () for part in ("--allow-host", h)]
    options += ["--engine", engine] * bool(engine)
    server = {"command": command, "args": [*first, "mcp", "--index", str(folder.resolve()), *map(str, options)]}
    typer.echo(json.dumps({key: {"localrag": {**more, **server}}}, indent=2, ensure_ascii=False))
    say(f"Paste it into {where}.")


def _command() -> list[str]:
    """How this program is started from anywhere."""
    script = Path(sys.argv[0]).absolute()
    return [str(script)] if script.stem == "localrag" and script.is_file() else [sys.executable, "-m", "localrag"]
