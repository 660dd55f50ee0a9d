"""`localrag status`, `files`, `search`, `entity`, `tree` and `report`: what an index holds."""

import json
import sys
from typing import Annotated, Any

import typer

from localrag.cli.index import IndexOption, RerankerOption

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def _write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def status_command(index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Show what the index holds, what was left out or failed, and what it cost."""
    from localrag.cli.show import print_status
    from localrag.project import find_index
    from localrag.store.schema import open_index
    from localrag.store.status import status

    folder = find_index(index)
    found = status(open_index(folder), folder)
    if as_json:
        _write_json(found)
    else:
        print_status(found)


def files_command(
    skipped: Annotated[bool, typer.Option("--skipped", help="Only files that were left out or failed, with the reason.")] = False,
    index: IndexOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file, each on a line of its own.")] = False,
) -> None:
    """List the files the index knows of: indexed, skipped or failed, and why."""
    from localrag.project import find_index
    from localrag.store.schema import open_index
    from localrag.store.status import files

    for row in files(open_index(find_index(index))):
        if skipped and row["state"] == "indexed":
            continue
        if as_json:
            _write_json(row)
        else:
            sys.stdout.write(f"{row['state']:<8} {row['path']}{': ' * bool(row['reason'])}{row['reason']}\n")


def search_command(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words or a question.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many passages.")] = 10,
    reranker: RerankerOption = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find passages by words, meaning and the graph, without a model."""
    from localrag.cli.show import print_passages, snippets
    from localrag.errors import UsageError
    from localrag.project import open_for_questions
    from localrag.query import LONGEST_QUESTION
    from localrag.query.retrieve import search

    if not query.strip() or len(query) > LONGEST_QUESTION:
        raise UsageError("The query is empty or too long.", 'Search for something: localrag search "the ferry"')
    with open_for_questions(index, reranker=reranker) as project:
        vector = project.embedder.embed([query])[0]
        found = snippets(query, vector, search(query, vector, project, k), project)
        if as_json:
            _write_json(found)
        else:
            print_passages(found)


def entity_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Any name the entity goes by.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an entity: its names, description, relationships and where it is mentioned."""
    from localrag.cli.show import entity_json, print_entity
    from localrag.project import open_for_questions

    with open_for_questions(index) as project:
        found = entity_json(name, project)
    for one in found:
        if not as_json:
            print_entity(one)
    if as_json:
        _write_json(found)


def tree_command(
    level: Annotated[int | None, typer.Option("--level", min=0, help="The deepest level to show.")] = None,
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the communities, level below level, with the titles of their reports and how much of the documents they cover."""
    from localrag.cli.show import print_tree, tree_json
    from localrag.project import find_index
    from localrag.store.schema import open_index

    found = tree_json(open_index(find_index(index)), level)
    if as_json:
        _write_json(found)
    else:
        print_tree(found)


def report_command(
    number: Annotated[str, typer.Argument(metavar="ID", help="A community, as localrag tree names it, such as 1.4.")],
    index: IndexOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the report of a community, with the passages it rests on."""
    from localrag.cli.show import print_report, report_json
    from localrag.project import open_for_questions

    with open_for_questions(index) as project:
        found = report_json(number, project)
    if as_json:
        _write_json(found)
    else:
        print_report(found)
