"""The command line: the typer app, and errors as exit codes. Heavy imports wait until a command runs."""

import io
import logging
import os
import sys
import threading
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from localrag import __version__
from localrag.cli.commands import analysis, ask, chat, evaluate, exchange, index, inspect, models, prompts, serve, setup
from localrag.cli.settings import apply_settings
from localrag.cli.views.terminal import escape_controls, json_events, quiet_exit, status_line, write_event
from localrag.errors import LocalragError, error_location

EPILOG = "Exit codes: 0 ok · 1 failed · 2 usage · 3 no index · 4 model · 5 partly done · 130 interrupted"


# Options as they were called before → as they are called; the old words are accepted for one version more, and --help has the new ones.
OLD_OPTIONS = {
    "--where": "--filter",
    "--at-once": "--parallel",
    "--remeasure": "--retune",
    "--mixed": "--allow-mixed-hardware",
    "--no-log": "--no-history",
    "--log": "--history",
}


def _with_new_options(words: list[str]) -> list[str]:
    """The words of a command line with the options as they are called now; what follows `--` is no option."""
    end = words.index("--") if "--" in words else len(words)
    parts = [word.partition("=") for word in words[:end]]
    return ["".join((OLD_OPTIONS.get(name, name), equals, value)) for name, equals, value in parts] + words[end:]


class _Commands(TyperGroup):
    """The command group: applies settings, and handles closed pipes and Ctrl-C, which typer would turn into exit code 1."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **kwargs: Any) -> Any:
        json_events.is_active = status_line.silent = False
        args = _with_new_options(args)
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
app.command("init")(setup.init_command)
app.command("tune")(prompts.tune_command)
app.command("layout")(inspect.layout_command)
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


def _as_utf8(word: str) -> str:
    """An argument that is UTF-8, although the locale says that it is ASCII; any other as it is."""
    if word.isascii() or not any("\ud800" <= c <= "\udfff" for c in word):
        return word
    try:
        return os.fsencode(word).decode()
    except UnicodeDecodeError:
        return word


def main() -> None:
    """Run a command. A LocalragError is printed with its hint; of any other error only type and location, without its message."""
    debug = os.environ.get("LOCALRAG_DEBUG") == "1"
    if not debug:  # default handlers of threads and tasks would print messages, which may contain text of documents
        threading.excepthook = lambda args: _print_unexpected(args.exc_value)
        logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    for stream in (sys.stdout, sys.stderr):  # a terminal of another encoding gets "?" for what it cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.argv[1:] = [_as_utf8(word) for word in sys.argv[1:]]
    try:
        app()
    except LocalragError as error:
        _print_error(error)
    except Exception as error:
        from localrag.store.database import store_error

        if debug:
            raise
        if of_index := store_error(error):
            _print_error(of_index)
        _print_unexpected(error)
        sys.exit(1)


def _print_error(error: LocalragError) -> NoReturn:
    if json_events.is_active:
        write_event("end", state="failed", error=str(error), hint=error.hint, exit_code=error.exit_code)
        sys.exit(error.exit_code)
    status_line.clear()
    sys.stderr.write(escape_controls(f"localrag: {error}\n"))
    if error.hint:
        sys.stderr.write(escape_controls(f"  → {error.hint}\n"))
    sys.exit(error.exit_code)


def _print_unexpected(error: BaseException | None) -> None:
    status_line.clear()
    location = error_location(error) if error else "an unknown error"
    if json_events.is_active:
        write_event("end", state="failed", error=f"something unexpected happened: {location}", hint="localrag check", exit_code=1)
        return
    sys.stderr.write(f"localrag: unexpected error: {location}.\n")
    sys.stderr.write(
        "  → Saved data are not affected; to verify: localrag check. The full message may contain text of your documents. To see it,\n"
    )
    sys.stderr.write("    run the same command with LOCALRAG_DEBUG=1, and take care whom you show it to.\n")
