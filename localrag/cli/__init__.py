"""The command line: parse, one call, render. Heavy imports wait until a command runs."""

import logging
import os
import sys
import threading
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from localrag import __version__
from localrag.cli.commands import (
    ask,
    bench,
    chat,
    check,
    collections,
    config,
    demo,
    doctor,
    evaluate,
    gc,
    help,
    imports,
    index,
    layout,
    look,
    mcp,
    merges,
    models,
    pack,
    prompts,
    rm,
    serve,
    sessions,
    tune,
    worker,
)
from localrag.cli.commands import export as exports
from localrag.cli.settings.apply import set_defaults
from localrag.cli.views.terminal import ends_quietly, listener, status, visible, write_event
from localrag.errors import LocalragError, disk_trouble, kind_and_place

EPILOG = "Exit codes: 0 ok · 1 failed · 2 usage · 3 no index · 4 model · 5 partly done · 130 interrupted"


class _Commands(TyperGroup):
    """The commands; typer would end them in 1 where a pipe is gone and without a word at Ctrl-C, before `main` hears of it."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        listener.on = status.silent = False
        with ends_quietly():  # --help and --version print here
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        set_defaults(ctx)
        with ends_quietly():
            return super().invoke(ctx)


app = typer.Typer(
    name="localrag",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
    help="Ask questions of your own files, with answers that prove their sources. Nothing leaves this machine.\n\n"
    "localrag index ./docs — build or update (safe to stop, the same command goes on)\n\n"
    'localrag ask "What are the main themes?" --mode global — an answer with verified citations',
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"localrag {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """What every command shares."""


app.command("index")(index.index_command)
app.command("ask")(ask.ask_command)
app.command("chat")(chat.chat_command)
app.command("source")(look.source_command)
app.command("search")(look.search_command)
app.command("entity")(look.entity_command)
app.command("tree")(look.tree_command)
app.command("report")(look.report_command)
app.command("questions")(ask.questions_command)
app.command("logs")(look.logs_command)
app.command("status")(look.status_command)
app.command("files")(look.files_command)
app.command("check")(check.check_command)
app.command("doctor")(doctor.doctor_command)
app.command("rm")(rm.rm_command)
app.command("gc")(gc.gc_command)
app.command("reembed")(index.reembed_command)
app.command("export")(exports.export_command)
app.command("demo")(demo.demo_command)
app.command("init")(config.init_command)
app.command("tune")(tune.tune_command)
app.command("layout")(layout.layout_command)
app.command("pack")(pack.pack_command)
app.command("unpack")(pack.unpack_command)
app.command("serve")(serve.serve_command)
app.command("mcp")(mcp.mcp_command)
app.command("worker")(worker.worker_command)
app.command("help")(help.help_command)
app.add_typer(imports.import_app, name="import")
app.add_typer(models.models_app, name="models")
app.add_typer(collections.collections_app, name="collections")
app.add_typer(config.config_app, name="config")
app.add_typer(prompts.prompts_app, name="prompts")
app.add_typer(merges.merges_app, name="merges")
app.add_typer(sessions.sessions_app, name="sessions")
app.add_typer(evaluate.eval_app, name="eval")
app.add_typer(bench.bench_app, name="bench")


def main() -> None:
    """Run a command; a known error is a sentence with its remedy, and an exit code. Any other says what and where, but not its message."""
    debug = os.environ.get("LOCALRAG_DEBUG") == "1"
    if not debug:  # a thread's or a task's end would otherwise be printed with all it held
        threading.excepthook = lambda ended: _say_unexpected(ended.exc_value)
        logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    try:
        app()
    except LocalragError as error:
        _say(error)
    except Exception as error:
        if trouble := disk_trouble(error):
            _say(trouble)
        if debug:
            raise
        _say_unexpected(error)
        sys.exit(1)


def _say(error: LocalragError) -> NoReturn:
    if listener.on:
        write_event("end", state="failed", error=str(error), hint=error.hint, exit_code=error.exit_code)
        sys.exit(error.exit_code)
    status.clear()
    sys.stderr.write(visible(f"localrag: {error}\n"))
    if error.hint:
        sys.stderr.write(visible(f"  → {error.hint}\n"))
    sys.exit(error.exit_code)


def _say_unexpected(error: BaseException | None) -> None:
    status.clear()
    what = kind_and_place(error) if error else "an unknown error"
    if listener.on:
        write_event("end", state="failed", error=f"something unexpected happened: {what}", hint="localrag check", exit_code=1)
        return
    sys.stderr.write(f"localrag: something unexpected happened: {what}.\n")
    sys.stderr.write(
        "  → What is saved stays saved: localrag check. Its message may hold text of your documents; to see it, run the same\n"
    )
    sys.stderr.write("    command with LOCALRAG_DEBUG=1 before it, and mind what you pass on.\n")
