"""The command line: the typer app, and errors as exit codes. Heavy imports wait until a command runs."""

import io
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from localrag import __version__
from localrag.cli.commands import analysis, ask, chat, evaluate, exchange, index, inspect, models, prompts, serve, setup
from localrag.cli.settings import apply_settings
from localrag.cli.views.terminal import escape_controls, json_events, quiet_exit, status_line, write_event
from localrag.errors import error_location, known_error

EPILOG = "Exit codes: 0 ok · 1 failed · 2 usage · 3 no index · 4 model · 5 partly done · 130 interrupted"


class _Commands(TyperGroup):
    """The command group: applies settings, and handles closed pipes and Ctrl-C, which typer would turn into exit code 1."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **kwargs: Any) -> Any:
        json_events.is_active = status_line.silent = False
        words = [*args]  # parsing consumes `args`
        with quiet_exit():  # --help and --version print here
            context = super().make_context(info_name, args, *more, **kwargs)
        context.meta["words"] = words
        return context

    def invoke(self, ctx: Any) -> Any:
        apply_settings(ctx, ctx.meta["words"])
        try:
            with quiet_exit():
                return super().invoke(ctx)
        except Exception as error:
            if getattr(error, "message", "").startswith("Got unexpected extra argument"):
                error.message += ". A text of several words needs quotes."  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    name="localrag",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=EPILOG,
    help="Ask questions about your own files. Answers cite their sources. Nothing leaves this machine.\n\n"
    "localrag index ./docs — build or update (you can stop it; the same command resumes)\n\n"
    'localrag ask "What are the main themes?" --mode global — an answer with verified citations',
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"localrag {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of the program itself."""


app.command("index")(index.index_command)
app.command("ask")(ask.ask_command)
app.command("chat")(chat.chat_command)
app.command("source")(inspect.source_command)
app.command("search")(inspect.search_command)
app.command("entity")(inspect.entity_command)
app.command("themes")(inspect.themes_command)
app.command("tree")(inspect.tree_command)
app.command("report")(inspect.report_command)
app.command("questions")(ask.questions_command)
app.command("review")(analysis.review_command)
app.command("timeline")(analysis.timeline_command)
app.command("list")(analysis.list_items_command)
app.command("compare")(analysis.compare_command)
app.command("logs")(inspect.logs_command)
app.command("status")(inspect.status_command)
app.command("files")(inspect.files_command)
app.command("check")(inspect.check_command)
app.command("doctor")(setup.doctor_command)
app.command("rm")(index.remove_documents_command)
app.command("gc")(index.gc_command)
app.command("reembed")(index.reembed_command)
app.command("export")(exchange.export_command)
app.command("wiki")(exchange.wiki_command)
app.command("demo")(setup.demo_command)
app.command("tune")(prompts.tune_command)
app.command("pack")(exchange.pack_command)
app.command("unpack")(exchange.unpack_command)
app.command("serve")(serve.serve_command)
app.command("mcp")(serve.mcp_command)
app.command("worker")(serve.worker_command)
app.command("help")(setup.help_command)
app.add_typer(exchange.import_app, name="import")
app.add_typer(models.models_app, name="models")
app.add_typer(inspect.collections_app, name="collections")
app.add_typer(setup.config_app, name="config")
app.add_typer(prompts.prompts_app, name="prompts")
app.add_typer(inspect.merges_app, name="merges")
app.add_typer(chat.sessions_app, name="sessions")
app.add_typer(evaluate.eval_app, name="eval")
app.add_typer(evaluate.bench_app, name="bench")


def main() -> None:
    """Run a command. A LocalragError is printed with its hint; of any other error only type and location, without its message."""
    _open_missing_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has one ignored
            signal.signal(number, _end_in_order)
    debug = os.environ.get("LOCALRAG_DEBUG") == "1"
    if not debug:  # default handlers of threads and tasks would print messages, which may contain text of documents
        threading.excepthook = lambda args: _print_error(args.exc_value)
        logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    for stream in (sys.stdout, sys.stderr):  # a terminal of another encoding gets "?" for what it cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code < 0:
            signal.raise_signal(-end.code)
        raise
    except Exception as error:
        from localrag.store.database import store_error

        known = known_error(error)
        if debug and not known:
            raise
        sys.exit(_print_error(known or store_error(error) or error))


def _open_missing_streams() -> None:
    """Open the null device for standard streams that are closed: else a file opened next, such as the index, would be one of them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 — it gets the lowest free number
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _end_in_order(number: int, _frame: Any) -> NoReturn:
    """Let a signal pass through the program like an exception, before it ends it. The next one ends it at once."""
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(-number)


def _print_error(error: BaseException | None) -> int:
    if known := known_error(error):
        message, hint, code = str(known), known.hint, known.exit_code
    else:
        message = f"unexpected error: {error_location(error) if error else 'unknown'}."
        hint, code = "localrag check" if json_events.is_active else _UNEXPECTED_HINT, 1
    if json_events.is_active:
        write_event("end", state="failed", error=message, hint=hint, exit_code=code)
        return code
    with suppress(OSError):  # nobody reads it
        status_line.clear()
        sys.stderr.write(escape_controls(f"localrag: {message}\n"))
        if hint:
            sys.stderr.write(escape_controls(f"  → {hint}\n"))
    return code


_UNEXPECTED_HINT = (
    "Saved data are not affected; to verify: localrag check. The full message may contain text of your documents. To see it,\n"
    "    run the same command with LOCALRAG_DEBUG=1, and take care whom you show it to."
)
