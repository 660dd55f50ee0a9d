"""Printing of passages, entities, communities, reports, past answers and the status of an index."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.tree import Tree

from localrag.cli.views.answers import answer_json, display_path, print_answer_text
from localrag.cli.views.console import stdout_console, styled
from localrag.cli.views.progress import format_engine_metrics, format_progress
from localrag.cli.views.terminal import escape_line
from localrag.errors import LocalragError
from localrag.indexing.progress import extrapolate
from localrag.records import Answer
from localrag.store.retention import CollectedItems
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


def print_entity(entity: dict[str, Any]) -> None:
    """Print an entity of `entity_json`."""
    stdout_console.print(styled((entity["name"], "bold"), f" · {entity['type']} · {len(entity['mentions'])} mentions"))
    if len(entity["names"]) > 1:
        stdout_console.print(f"also: {', '.join(n for n in entity['names'] if n != entity['name'])}")
    stdout_console.print(entity["description"] + "\n")
    table = Table("with", "weight", "", box=None, pad_edge=False, header_style="dim")
    for r in entity["relationships"][:MAX_ROWS]:
        table.add_row(r["with"], f"{r['weight']:.1f}", (r["how"] or [r["description"]])[0][:120])
    stdout_console.print(table)
    for c in entity["claims"][:MAX_ROWS]:
        stdout_console.print(f"{c['status']}: {c['description']}")
    for m in entity["mentions"][:MAX_ROWS]:
        stdout_console.print(f"{escape_line(m['path'])}:{m['start']}-{m['end']}", style="dim")


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
        branch = parent.add(
            styled((node["id"], "dim"), f" {node['title'] or '(no report)'} ", (f"{node['entities']} entities{covers}", "dim"))
        )
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
    """A share in percent: `12 %`, or `< 1 %` instead of a rounded zero."""
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "< 1 %"


def log_json(number: int, at: str, answer: Answer, root: Path) -> dict[str, Any]:
    """A past answer as `ask --json` prints it, with number and time."""
    return {"id": number, "at": at} | answer_json(answer, root)


def print_log(answers: Sequence[tuple[int, str, Answer]]) -> None:
    """Print past answers, newest first."""
    for number, at, a in answers:
        asked = f" → {a.standalone_question}" if a.standalone_question and a.standalone_question != a.question else ""
        when = (f" {at} · {a.mode} · conversation {a.conversation}", "dim")
        stdout_console.print(styled((f"{number}  {a.question}", "bold"), asked, when))
        print_answer_text(a)
        stdout_console.print()
    if not answers:
        stdout_console.print("No question has been asked of this index yet.")


def _numerics_text(status: dict[str, Any]) -> str:
    """Numbers of answers by numerics class, if machines of several classes computed them."""
    return "".join(f"; {n} by arithmetic {kind}" for kind, n in status["numerics"].items())


def print_status(status: dict[str, Any]) -> None:
    """Print the status as a table, then skipped and failed items."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for key in ("documents", "chunks", "entities", "relationships", "communities", "reports", "failures"):
        levels = " (" + ", ".join(f"level {n}: {c}" for n, c in status["communities_per_level"].items()) + ")"
        table.add_row(key, str(status[key]) + (levels if key == "communities" and status[key] else ""))
    if status["collections"]:
        table.add_row("collections", ", ".join(f"{escape_line(name)} ({n})" for name, n in status["collections"].items()))
    table.add_row("claims", str(status["claims"]))
    table.add_row("merged", f"{status['merged']} names (localrag merges list)")
    dropped = f"; {status['dropped_rows']} rows that the model listed, not in the text or of another form" * bool(status["dropped_rows"])
    table.add_row("noise", f"{status['noise']} capitalised words that are not names{dropped}")
    spent = status["spent"]
    table.add_row(
        "spent", f"{spent['calls']} calls, {spent['prompt_tokens']} tokens read, {spent['output_tokens']} written" + _numerics_text(status)
    )
    for row in _made_with(status["models"], status["prompts"]):
        table.add_row(*row)
    table.add_row("index", f"{status['index']} ({status['bytes'] / 1e6:.1f} MB)")
    table.add_row("kept for now", _retained_line(status["kept"]))
    if run := status["run"]:
        table.add_row("last run", _run_line(run))
        if line := format_engine_metrics(run["figures"]):
            table.add_row("its engine", line)
    stdout_console.print(table)
    if run and run["figures"].get("tasks"):
        stdout_console.print(_tasks_table(run["figures"]["tasks"]))
    if missing := status["coverage"]["in_no_report"]:
        named = ", ".join(map(escape_line, missing[:5])) + " …" * (len(missing) > 5)
        stdout_console.print(f"in no report: {len(missing)} of {status['documents']} documents: {named}")
    for row in status["skipped"]:
        stdout_console.print(f"{'failed' if row['failed'] else 'left out'}: {escape_line(row['path'])}: {row['reason']}")
    for row in status["failed"]:
        stdout_console.print(f"failed: {row['stage']} {escape_line(row['subject'])}: {row['reason']}")


def _made_with(models: dict[str, dict[str, str]], prompts: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Rows for the models, the user's prompts in use, and untrusted prompts."""
    for kind, model in models.items():
        yield kind.replace("_", " "), f"{model['name']} ({model['fingerprint']})"
    if prompts["own"]:
        yield "own prompts", ", ".join(map(escape_line, prompts["own"]))
    if prompts["untrusted"]:
        yield "not used", f"{', '.join(map(escape_line, prompts['untrusted']))} (if you trust them: localrag prompts trust)"


def format_collected(one: CollectedItems) -> str:
    """A line on the collected items of a kind: number, kind, size."""
    return f"{one.n:>8} {one.kind:<20} {one.bytes / 1e6:>10.1f} MB"


def _retained_line(kept: dict[str, Any]) -> str:
    """Unused data and backups that are retained, and for how long."""
    days, max_mb = kept["kept_days"], kept["kept_bytes"] / 1e6
    parts = []
    if n := kept["unused_answers"]:
        parts.append(f"{n} unused answers, {kept['unused_answer_bytes'] / 1e6:.1f} MB (at most {days} days, {max_mb:.0f} MB)")
    if n := kept["backups"]:
        parts.append(f"{n} cop{'ies' if n > 1 else 'y'} of the database, {kept['backup_bytes'] / 1e6:.1f} MB (the last one, {days} days)")
    return "; ".join(parts) + "; now: localrag gc" if parts else "nothing to delete"


def _run_line(run: dict[str, Any]) -> str:
    """State and progress of the last run."""
    if run["state"] == "complete" or not run["stage"]:
        return str(run["state"])
    if run["alive"] is None:
        return f"{run['state']} at {run['stage']} {run['done']}/{run['total']}"
    if not run["alive"]:
        return f"its process is gone, at {run['stage']} {run['done']}/{run['total']}; resume with: localrag index PATH"
    facts = run["progress"] and extrapolate(run["progress"], run["silent"] or 0.0)
    return f"running: {format_progress(facts) if facts else 'it has just begun'} (follow it: localrag status -w)"


def _tasks_table(tasks: dict[str, Any]) -> Table:
    table = Table("task", box=None, padding=(0, 2, 0, 0))
    shown = {
        "requests": "requests",
        "prompt_tokens": "read",
        "cached_tokens": "cached",
        "output_tokens": "written",
        "forced_tokens": "forced",
    }
    seconds = {"wait_p50_s": "wait p50 s", "p50_s": "p50 s", "p95_s": "p95 s"}
    for name in (*shown.values(), *seconds.values()):
        table.add_column(name, justify="right")
    for name, task in tasks.items():
        table.add_row(name, *(str(task[k]) for k in (*shown, *seconds)))
    return table
