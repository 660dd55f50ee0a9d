"""`localrag sessions`: the conversations that an index keeps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from localrag.cli.options import IndexOption, JsonOption
from localrag.cli.views.terminal import write_json, write_out

if TYPE_CHECKING:
    from localrag.library import Index
    from localrag.records import Answer

ALL = 1 << 30  # more conversations than there can be
NumberArgument = Annotated[int, typer.Argument(metavar="N", help="Number shown by `localrag sessions list`.")]

sessions_app = typer.Typer(
    no_args_is_help=True, help="List, search, show and delete conversations. Go on with one: localrag chat --resume N"
)


@sessions_app.command("list")
def list_command(
    n: Annotated[int, typer.Option("-n", min=1, help="Number of conversations, newest first.")] = 20,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """List conversations: number, first question, how many answers, when."""
    from localrag.cli.views.conversations import print_conversations
    from localrag.library import Index

    found = Index.open(index).conversations(n)
    if as_json:
        write_json(found)
    else:
        print_conversations(found)


@sessions_app.command("search")
def search_command(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words that all stand in a question or its answer.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find conversations by words of their questions and answers."""
    from localrag.cli.views.conversations import print_hits
    from localrag.errors import UsageError
    from localrag.library import Index

    if not text.strip():
        raise UsageError("There is nothing to look for.", 'Name some words: localrag sessions search "ferry"')
    found = Index.open(index).conversations_with(text)
    if as_json:
        write_json(found)
    else:
        print_hits(found, text)


@sessions_app.command("show")
def show_command(
    number: NumberArgument,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print it as Markdown.")] = False,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a conversation: questions, answers, citations."""
    from localrag.cli.views.contents import log_json
    from localrag.cli.views.conversations import conversation_markdown, print_conversation
    from localrag.library import Index

    opened = Index.open(index)
    found = conversation_of(opened, number)
    if as_json:
        write_json([log_json(made.id, at, made, opened.root) for at, made in found])
    elif markdown:
        write_out(conversation_markdown([made for _, made in found], opened.root))
    else:
        print_conversation(found, opened.root)


def conversation_of(index: "Index", number: int) -> "list[tuple[str, Answer]]":
    """The answers of a conversation, oldest first, with when they were given. Raises UsageError where there is none of that number."""
    from localrag.errors import UsageError

    found = index.conversation(number)
    if not found:
        raise UsageError(f"There is no conversation {number}.", "Those there are: localrag sessions list")
    return found


@sessions_app.command("rm")
def rm_command(
    numbers: Annotated[list[int] | None, typer.Argument(metavar="N…", help="Numbers shown by `localrag sessions list`.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete every conversation.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    index: IndexOption = None,
) -> None:
    """Delete conversations, and every copy of their text in the index."""
    from localrag.cli.views.console import confirmed, say
    from localrag.errors import UsageError
    from localrag.opening import find_index
    from localrag.store import look, purge
    from localrag.store.schema import open_index, writer_lock

    if numbers and everything:
        raise UsageError("Either numbers or --all, not both.", "Those there are: localrag sessions list")
    folder = find_index(index)
    with writer_lock(folder):
        db = open_index(folder)
        try:
            gone = _chosen(
                [row["id"] for row in look.conversations(db, ALL)], numbers or (), due=purge.conversations_are_due(db), all_=everything
            )
            if everything and not yes and not confirmed(f"Delete all {len(gone)} conversations?"):
                raise UsageError(
                    f"All {len(gone)} conversations would be deleted; nothing was.", "If they are to go: localrag sessions rm --all --yes"
                )
            purge.erase_conversations(db, folder, gone)
        finally:
            db.close()
    say(f"{len(gone)} conversation{'s are' if len(gone) != 1 else ' is'} deleted; no copy of the text is left in the index.")


def _chosen(known: Sequence[int], numbers: Sequence[int], *, due: bool, all_: bool) -> list[int]:
    """The conversations to delete: those named, or all; none where an earlier deletion is to be ended. Raises UsageError."""
    from localrag.errors import UsageError

    if not numbers and not all_ and not due:
        raise UsageError("Say which conversations to delete: numbers, or --all.", "Those there are: localrag sessions list")
    if unknown := [n for n in numbers if n not in known]:
        raise UsageError(f"There is no conversation {unknown[0]}.", "Those there are: localrag sessions list")
    return list(known if all_ else dict.fromkeys(numbers))
