"""Printing of passages, entities, communities, reports, past answers and the status of an index."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.tree import Tree

from localrag.cli.views.answers import MAX_QUOTE_CHARS, answer_json, display_path, shorten
from localrag.cli.views.console import print_fields, print_rows, stdout_console, styled
from localrag.cli.views.progress import format_progress
from localrag.cli.views.terminal import escape_line
from localrag.errors import LocalragError
from localrag.indexing.progress import extrapolate
from localrag.records import Answer
from localrag.text.sentences import collapse_whitespace

MAX_ROWS = 15  # relationships, claims and mentions of an entity


def print_passages(rows: Sequence[dict[str, Any]]) -> None:
    """Print passages with location, headings, score and best sentence."""
    for n, row in enumerate(rows, 1):
        place = (f":{row['start']}-{row['end']}  {row['score']:.2f}", "dim")
        stdout_console.print(styled((f"{n:>3}  {escape_line(' › '.join((row['path'], *row['headings'])))}", "bold"), place))
        stdout_console.print(f"     {row['snippet'][:300]}")
    if not rows:
        stdout_console.print("Nothing was found.")


def entity_json(entity: dict[str, Any], root: Path) -> dict[str, Any]:
    """An entity of `Index.describe` as `--json` prints it."""
    related = [
        {"with": r["entity"]["name"], "weight": r["weight"], "how": r["descriptions"], "description": r["description"]}
        for r in entity["relationships"]
    ]
    places = [{"path": display_path(m["path"], root), "start": m["start"], "end": m["end"]} for m in entity["mentions"]]
    named = {k: entity[k] for k in ("name", "type", "names", "description")}
    return named | {"relationships": related, "claims": entity["claims"], "mentions": places}


def print_entities(entities: Sequence[dict[str, Any]]) -> None:
    """Print entities of `entity_json`."""
    for entity in entities:
        stdout_console.print(styled((entity["name"], "bold"), f" · {entity['type']} · {len(entity['mentions'])} mentions"))
        if len(entity["names"]) > 1:
            stdout_console.print(f"also: {', '.join(n for n in entity['names'] if n != entity['name'])}")
        stdout_console.print(entity["description"] + "\n")
        related = entity["relationships"][:MAX_ROWS]
        print_rows([{"with": r["with"], "weight": f"{r['weight']:.1f}", "": (r["how"] or [r["description"]])[0][:120]} for r in related])
        for c in entity["claims"][:MAX_ROWS]:
            stdout_console.print(f"{c['status']}: {c['description']}")
        for m in entity["mentions"][:MAX_ROWS]:
            stdout_console.print(f"{escape_line(m['path'])}:{m['start']}-{m['end']}", style="dim")


def print_themes(themes: Sequence[dict[str, Any]]) -> None:
    """Print themes as a tree, each with its breadth, and the first with a sentence."""
    tree = Tree("themes", hide_root=True)

    def add(parent: Tree, theme: dict[str, Any], depth: int) -> None:
        total = theme["of_documents"]
        about = f"{theme['documents']} of {total} documents" if total > 1 else f"{theme['passages']} passages"
        named = ", ".join(theme["phrases"])
        branch = parent.add(styled((theme["number"], "dim"), f" {theme['label']} ", (f"{named}{' · ' * bool(named)}{about}", "dim")))
        for quote in theme["quotes"][: depth < 1]:
            branch.add(styled(shorten(quote["text"], MAX_QUOTE_CHARS), (f"  {quote['path']}, {quote['start']}", "dim")))
        for part in theme["parts"]:
            add(branch, part, depth + 1)

    for theme in themes:
        add(tree, theme, 0)
    stdout_console.print(tree)


def tree_json(communities: Sequence[dict[str, Any]], deepest: int | None) -> list[dict[str, Any]]:
    """The communities of `Index.tree` as nested nodes, down to a level. Raises LocalragError if there are none."""
    nodes: dict[str, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for c in communities:
        if deepest is None or c["level"] <= deepest:
            nodes[c["id"]] = {"id": c["number"], **{k: c[k] for k in ("title", "coverage", "entities")}, "parts": []}
            (nodes[c["parent"]]["parts"] if c["parent"] in nodes else roots).append(nodes[c["id"]])
    if not roots:
        raise LocalragError("The index has no communities.", "Finish it: localrag index PATH")
    return roots


def print_tree(roots: Sequence[dict[str, Any]]) -> None:
    """Print communities as a tree, without those that a level repeats unchanged."""
    tree = Tree("communities", hide_root=True)

    def add(parent: Tree, node: dict[str, Any]) -> None:
        covers = "" if node["coverage"] is None else f", {_share_text(node['coverage'])} of the passages"
        branch = parent.add(styled((node["id"], "dim"), f" {node['title']} ", (f"{node['entities']} entities{covers}", "dim")))
        parts = node["parts"]
        while len(parts) == 1 and parts[0]["entities"] == node["entities"]:
            parts = parts[0]["parts"]
        for part in parts:
            add(branch, part)

    for root in roots:
        add(tree, root)
    stdout_console.print(tree)


def report_json(number: str, report: dict[str, Any], root: Path) -> dict[str, Any]:
    """A report of `Index.report` as `--json` prints it."""
    quotes = {(q["path"], q["start"], q["end"]): q["text"] for f in report["findings"] for q in f["quotes"]}
    return {
        "id": number,
        **{k: report[k] for k in ("title", "coverage", "rating", "rating_explanation", "markdown")},
        "entities": [e["name"] for e in report["entities"]],
        "quotes": [{"path": display_path(path, root), "start": a, "end": b, "quote": text} for (path, a, b), text in quotes.items()],
    }


def print_report(report: dict[str, Any]) -> None:
    """Print a report with its entities and quotes."""
    stdout_console.print(report["markdown"])
    stdout_console.print(f"\nabout: {', '.join(report['entities'])}", style="dim")
    stdout_console.print(f"covers {_share_text(report['coverage'])} of the passages", style="dim")
    if report["rating"] is not None:
        stdout_console.print(f"rated {report['rating']:.0f} of 10 by the model: {report['rating_explanation']}", style="dim")
    for q in report["quotes"]:
        stdout_console.print(f"{escape_line(q['path'])}:{q['start']}-{q['end']}  “{collapse_whitespace(q['quote'])[:100]}”", style="dim")


def _share_text(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "< 1 %"


def log_json(number: int, at: str, answer: Answer, root: Path) -> dict[str, Any]:
    """A past answer as `ask --json` prints it, with number and time."""
    return {"id": number, "at": at} | answer_json(answer, root)


def print_status(status: dict[str, Any]) -> None:
    """Print the status as named values, then skipped and failed items."""
    print_fields(_status_fields(status))
    for row in status["skipped"]:
        stdout_console.print(f"{'failed' if row['failed'] else 'left out'}: {escape_line(row['path'])}: {row['reason']}")
    for row in status["failed"]:
        stdout_console.print(f"failed: {row['stage']} {escape_line(row['subject'])}: {row['reason']}")


def _status_fields(status: dict[str, Any]) -> dict[str, Any]:
    shown = {key: status[key] for key in ("documents", "chunks", "entities", "relationships", "communities", "reports", "failures")}
    if status["communities"]:
        levels = ", ".join(f"level {n}: {c}" for n, c in status["communities_per_level"].items())
        shown["communities"] = f"{status['communities']} ({levels})"
    if status["collections"]:
        shown["collections"] = ", ".join(f"{escape_line(name)} ({n})" for name, n in status["collections"].items())
    spent, kept, run = status["spent"], status["kept"], status["run"]
    shown |= {"claims": status["claims"], "merged": f"{status['merged']} names (localrag merges list)"}
    shown["spent"] = f"{spent['calls']} calls, {spent['prompt_tokens']} tokens read, {spent['output_tokens']} written"
    shown |= {kind: f"{model['name']} ({model['fingerprint']})" for kind, model in status["models"].items()}
    if own := status["prompts"]["own"]:
        shown["own prompts"] = ", ".join(map(escape_line, own))
    if untrusted := status["prompts"]["untrusted"]:
        shown["not used"] = f"{', '.join(map(escape_line, untrusted))} (if you trust them: localrag prompts trust)"
    shown["index"] = f"{status['index']} ({status['bytes'] / 1e6:.1f} MB)"
    if unused := kept["unused_answer_bytes"] + kept["backup_bytes"]:
        shown["kept for now"] = f"{unused / 1e6:.1f} MB of unused answers and copies (to delete them: localrag gc)"
    if run:
        shown["last run"] = _run_line(run)
    return shown


def _run_line(run: dict[str, Any]) -> str:
    if run["state"] == "complete" or not run["stage"]:
        return str(run["state"])
    if run["alive"] is None:
        return f"{run['state']} at {run['stage']} {run['done']}/{run['total']}"
    if not run["alive"]:
        return f"its process is gone, at {run['stage']} {run['done']}/{run['total']}; resume with: localrag index PATH"
    facts = run["progress"] and extrapolate(run["progress"], run["silent"] or 0.0)
    return f"running: {format_progress(facts) if facts else 'it has just begun'}"
