"""`localrag bench engine`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from localrag.cli.index import DeterministicOption, EngineOption, ModelOption, RetuneOption, engine_options

bench_app = typer.Typer(no_args_is_help=True, help="Measure models and the engine on this machine.")


@bench_app.callback()
def _bench() -> None:
    """Measure models and the engine on this machine."""


@bench_app.command("engine")
def engine_command(
    text: Annotated[Path | None, typer.Option("--text", metavar="FILE", help="A text whose chunks are asked about.")] = None,
    prefix: Annotated[Path | None, typer.Option("--prefix", metavar="FILE", help="The conversation before every chunk, in ChatML.")] = None,
    schema: Annotated[Path | None, typer.Option("--schema", metavar="FILE", help="The JSON schema of the answers.")] = None,
    model: ModelOption = None,
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="How many chunks.")] = 16,
    words: Annotated[int, typer.Option("--words", min=1, help="Words of a chunk.")] = 220,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="The longest answer.")] = 200,
    ablate: Annotated[
        bool,
        typer.Option("--ablate", help="Also measure llama.cpp's bare calls of the same steps, and the engine without each of its parts."),
    ] = False,
    engine: EngineOption = "",
    retune: RetuneOption = False,
    deterministic: DeterministicOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run a workload, the one in the package or your own files, and print how fast it was."""
    from localrag.bench import engine as bench
    from localrag.cli.display import print_bench
    from localrag.models import find_chat_model

    work = bench.read_workload(text, prefix, schema, chunks=chunks, words=words, max_tokens=max_tokens)
    file = find_chat_model(model)
    options = engine_options(engine, retune=retune, deterministic=deterministic)
    figures = bench.run_workload(file, options, work, limit=ablate)
    without = bench.ablate(file, engine_options(engine, deterministic=deterministic), work) if ablate else {}
    if as_json:
        sys.stdout.write(json.dumps(figures | ({"ablations": without} if ablate else {})) + "\n")
    else:
        print_bench(figures, without)
