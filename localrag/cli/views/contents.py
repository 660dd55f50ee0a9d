"""Parts of an index as JSON-ready values, and how they are printed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.tree import Tree

from localrag.cli.views.answers import answer_json, shown_path
from localrag.cli.views.bars import facts_line
from localrag.cli.views.console import out, styled
from localrag.cli.views.terminal import in_line
from localrag.cli.views.usage import engine_line
from localrag.errors import LocalragError
from localrag.index.progress import aged
from localrag.records import Answer
from localrag.store.growth import Freed
from localrag.text.plain import squeeze

MOST = 15  # relationships and places shown of an entity


def print_passages(found: Sequence[dict[str, Any]]) -> None:
    """Each passage with its place and its best sentence."""
    for n, row in enumerate(found, 1):
        place = (f":{row['start']}-{row['end']}  {row['score']:.2f}", "dim")
        out.print(styled((f"{n:>3}  {in_line(row['path'])}", "bold"), place))
        out.print(f"     {row['snippet'][:300]}")
    if not found:
        out.print("Nothing was found.")


def entity_json(found: dict[str, Any], root: Path) -> dict[str, Any]:
    """An entity as `--json` prints it, from what `Index.describe` gives."""
    related = [
        {"with": r["entity"]["name"], "weight": r["weight"], "how": r["descriptions"], "description": r["description"]}
        for r in found["relationships"]
    ]
    places = [{"path": shown_path(m["path"], root), "start": m["start"], "end": m["end"]} for m in found["mentions"]]
    named = {k: found[k] for k in ("name", "type", "names", "description")}
    return named | {"relationships": related, "claims": found["claims"], "mentions": places}


def print_entity(found: dict[str, Any]) -> None:
    """An entity as a person reads it."""
    out.print(styled((found["name"], "bold"), f" · {found['type']} · {len(found['mentions'])} mentions"))
    if len(found["names"]) > 1:
        out.print(f"also: {', '.join(n for n in found['names'] if n != found['name'])}")
    out.print(found["description"] + "\n")
    table = Table("with", "weight", "", box=None, pad_edge=False, header_style="dim")
    for r in found["relationships"][:MOST]:
        table.add_row(r["with"], f"{r['weight']:.1f}", (r["how"] or [r["description"]])[0][:120])
    out.print(table)
    for c in found["claims"][:MOST]:
        out.print(f"{c['status']}: {c['description']}")
    for m in found["mentions"][:MOST]:
        out.print(f"{in_line(m['path'])}:{m['start']}-{m['end']}", style="dim")


def tree_json(found: Sequence[dict[str, Any]], deepest: int | None) -> list[dict[str, Any]]:
    """The communities of `Index.tree` below each other: number, report title, coverage, size. Raises LocalragError where there is none."""
    nodes: dict[str, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for c in found:
        if deepest is None or c["level"] <= deepest:
            nodes[c["id"]] = {"id": c["number"], **{k: c[k] for k in ("title", "coverage", "entities")}, "parts": []}
            (nodes[c["parent"]]["parts"] if c["parent"] in nodes else roots).append(nodes[c["id"]])
    if not roots:
        raise LocalragError("The index has no communities.", "Finish it: localrag index PATH")
    return roots


def print_tree(roots: Sequence[dict[str, Any]]) -> None:
    """The communities as a tree; one that a level merely carries down is not shown again."""
    tree = Tree("communities", hide_root=True)

    def add(parent: Tree, node: dict[str, Any]) -> None:
        covers = "" if node["coverage"] is None else f", {_percent(node['coverage'])} of the passages"
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
    out.print(tree)


def report_json(number: str, found: dict[str, Any], root: Path) -> dict[str, Any]:
    """The report of a community as `--json` prints it, from what `Index.report` gives."""
    quotes = {(q["path"], q["start"], q["end"]): q["text"] for f in found["findings"] for q in f["quotes"]}
    return {
        "id": number,
        **{k: found[k] for k in ("title", "coverage", "rating", "rating_explanation", "markdown")},
        "entities": [e["name"] for e in found["entities"]],
        "quotes": [{"path": shown_path(path, root), "start": a, "end": b, "quote": text} for (path, a, b), text in quotes.items()],
    }


def print_report(found: dict[str, Any]) -> None:
    """A report, whom it is about and where it comes from."""
    out.print(found["markdown"])
    out.print(f"\nabout: {', '.join(found['entities'])}", style="dim")
    out.print(f"covers {_percent(found['coverage'])} of the passages", style="dim")
    if found["rating"] is not None:
        out.print(f"rated {found['rating']:.0f} of 10 by the model: {found['rating_explanation']}", style="dim")
    for q in found["quotes"]:
        out.print(f"{in_line(q['path'])}:{q['start']}-{q['end']}  “{squeeze(q['quote'])[:100]}”", style="dim")


def _percent(share: float) -> str:
    """A share as a person reads it: `12 %`, and `< 1 %` for what would be none."""
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "< 1 %"


def log_json(number: int, at: str, answer: Answer, root: Path) -> dict[str, Any]:
    """A past answer, as `ask --json` printed it."""
    return {"id": number, "at": at} | answer_json(answer, root)


def print_log(found: Sequence[tuple[int, str, Answer]]) -> None:
    """Past answers, newest first."""
    for number, at, a in found:
        asked = f" → {a.asked}" if a.asked and a.asked != a.question else ""
        when = (f" {at} · {a.mode} · conversation {a.conversation}", "dim")
        out.print(styled((f"{number}  {a.question}", "bold"), asked, when))
        out.print(a.answer + "\n")
    if not found:
        out.print("No question was asked of this index yet.")


def _by_arithmetic(found: dict[str, Any]) -> str:
    """Which machines answered, where they compute differently."""
    return "".join(f"; {n} by arithmetic {kind}" for kind, n in found["arithmetic"].items())


def print_status(found: dict[str, Any]) -> None:
    """The status as a table, then what needs attention."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for key in ("documents", "chunks", "entities", "relationships", "communities", "reports", "failures"):
        levels = " (" + ", ".join(f"level {n}: {c}" for n, c in found["communities_per_level"].items()) + ")"
        table.add_row(key, str(found[key]) + (levels if key == "communities" and found[key] else ""))
    if found["collections"]:
        table.add_row("collections", ", ".join(f"{in_line(name)} ({n})" for name, n in found["collections"].items()))
    table.add_row("claims", str(found["claims"]))
    table.add_row("merged", f"{found['merged']} names (localrag merges list)")
    table.add_row("noise", f"{found['noise']} capitalised words that are no names")
    spent = found["spent"]
    table.add_row(
        "spent", f"{spent['calls']} calls, {spent['prompt_tokens']} tokens read, {spent['output_tokens']} written" + _by_arithmetic(found)
    )
    for row in _made_with(found["models"], found["prompts"]):
        table.add_row(*row)
    table.add_row("index", f"{found['index']} ({found['bytes'] / 1e6:.1f} MB)")
    table.add_row("kept for now", _kept_line(found["kept"]))
    if run := found["run"]:
        table.add_row("last run", _run_line(run) + _log_part(run))
        if line := engine_line(run["figures"]):
            table.add_row("its engine", line)
    out.print(table)
    if run and run["figures"].get("tasks"):
        out.print(_tasks_table(run["figures"]["tasks"]))
    if missing := found["coverage"]["in_no_report"]:
        named = ", ".join(map(in_line, missing[:5])) + " …" * (len(missing) > 5)
        out.print(f"in no report: {len(missing)} of {found['documents']} documents: {named}")
    for row in found["skipped"]:
        out.print(f"{'failed' if row['failed'] else 'left out'}: {in_line(row['path'])}: {row['reason']}")
    for row in found["failed"]:
        out.print(f"failed: {row['stage']} {in_line(row['subject'])}: {row['reason']}")


def _made_with(models: dict[str, dict[str, str]], prompts: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Rows for the models, the user's own prompts in use, and prompts not used because nobody trusted them."""
    for kind, model in models.items():
        yield kind.replace("_", " "), f"{model['name']} ({model['fingerprint']})"
    if prompts["own"]:
        yield "own prompts", ", ".join(map(in_line, prompts["own"]))
    if prompts["untrusted"]:
        yield "not used", f"{', '.join(map(in_line, prompts['untrusted']))} (if you trust them: localrag prompts trust)"


def freed_line(one: Freed) -> str:
    """What was collected of a kind."""
    return f"{one.n:>8} {one.kind:<20} {one.bytes / 1e6:>10.1f} MB"


def _kept_line(kept: dict[str, Any]) -> str:
    """What waits to be collected, and how long."""
    days, most = kept["kept_days"], kept["kept_bytes"] / 1e6
    said = []
    if n := kept["unused_answers"]:
        said.append(f"{n} unused answers, {kept['unused_answer_bytes'] / 1e6:.1f} MB (at most {days} days, {most:.0f} MB)")
    if n := kept["backups"]:
        said.append(f"{n} cop{'ies' if n > 1 else 'y'} of the database, {kept['backup_bytes'] / 1e6:.1f} MB (the last one, {days} days)")
    return "; ".join(said) + "; now: localrag gc" if said else "nothing that is not needed"


def _log_part(run: dict[str, Any]) -> str:
    written = run["figures"].get("log_bytes")
    return f", {written / 1e6:.1f} MB written" if written else ""


def _run_line(run: dict[str, Any]) -> str:
    """How the last run stands."""
    if run["state"] == "complete" or not run["stage"]:
        return str(run["state"])
    if run["alive"] is None:
        return f"{run['state']} at {run['stage']} {run['done']}/{run['total']}"
    if not run["alive"]:
        return f"its process is gone, at {run['stage']} {run['done']}/{run['total']}; go on with: localrag index PATH"
    facts = run["progress"] and aged(run["progress"], run["silent"] or 0.0)
    return f"running: {facts_line(facts) if facts else 'it has just begun'} (follow it: localrag status -w)"


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
