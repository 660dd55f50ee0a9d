"""A run as Markdown, CSV, JSON, JSON lines, HTML or a SQLite file."""

import csv
import html
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localrag.bench.recommend import recommend, toml_lines
from localrag.bench.table import Table, about, notes, table
from localrag.errors import UsageError
from localrag.system.files import private_file, replace_file

FORMATS = ("md", "csv", "json", "jsonl", "sqlite", "html")
Row = dict[str, Any]

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse}td,th{padding:.15em .9em .15em 0;text-align:right}td:first-child,th:first-child{text-align:left}"
    "tr.group th{padding-top:1em;border-bottom:1px solid #bbb}pre{background:#f4f4f4;padding:.8em;overflow-x:auto}.bad{color:#a00}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#222}.bad{color:#f77}}"
)


def check_format(form: str, out: Path | None) -> None:
    """Raises UsageError for an unknown format, and for SQLite without a file."""
    if form and form not in FORMATS:
        raise UsageError(f"There is no output format {form!r}.", f"Formats: {', '.join(FORMATS)}")
    if form == "sqlite" and out is None:
        raise UsageError("SQLite is no text.", "Give a file for it: --out bench.db")


def as_text(run: Row, form: str) -> str:
    """The run in a format of text."""
    made: dict[str, Callable[[Row], str]] = {"md": _markdown, "csv": _csv, "json": _json, "jsonl": _lines, "html": _html}
    return made[form](run)


def write_sqlite(run: Row, path: Path) -> None:
    """Add the run to a SQLite file: tables runs, models (a column for each figure), paragraphs, yes_no, questions and speeds."""
    from sqlite_utils import Database

    db = Database(private_file(path))
    key = run["started"]
    options = {k: v for k, v in run["options"].items() if v not in ("", None)}
    db["runs"].upsert({"run": key, "localrag": run["localrag"], **run["machine"], **options}, pk="run", alter=True)  # type: ignore[union-attr]
    for row in rows(run):
        db["models"].upsert({"run": key, **row}, pk=("run", "name"), alter=True)  # type: ignore[union-attr]
    for kind in ("paragraphs", "yes_no", "questions", "speeds"):
        found = [
            {"run": key, "model": m["name"], "n": n} | {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in one.items()}
            for m in run["models"]
            for n, one in enumerate(m.get(kind, ()))
        ]
        if found:
            db[kind].upsert_all(found, pk=("run", "model", "n"), alter=True)  # type: ignore[union-attr]
    db.close()


def write_file(text: str, path: Path) -> None:
    """Write a text file. Raises UsageError where that is not possible."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Give another file: --out FILE") from error


def rows(run: Row) -> list[Row]:
    """A flat row for each model: name, path, error, figures."""
    heads = ("name", "given", "fingerprint", "error")
    return [{h: m.get(h, "") for h in heads} | m.get("figures", {}) for m in run["models"]]


def _json(run: Row) -> str:
    return json.dumps(run, ensure_ascii=False, indent=1) + "\n"


def _lines(run: Row) -> str:
    shared = {"started": run["started"], "localrag": run["localrag"], "cpu": run["machine"]["cpu"], "cores": run["machine"]["cores"]}
    return "".join(json.dumps(shared | row, ensure_ascii=False) + "\n" for row in rows(run))


def _csv(run: Row) -> str:
    found = rows(run)
    names = list(dict.fromkeys(name for row in found for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def recommendation(models: Sequence[Row]) -> str:
    """The lines for models.toml, or why there are none."""
    found = recommend(models)
    return toml_lines(*found) if found else "# localrag bench: no model here can be relied on"


def _markdown(run: Row) -> str:
    made = table(run["models"])
    lines = [about(run), ""]
    if made.heads:
        lines += ["| | " + " | ".join(map(_cell, made.heads)) + " |", "|---" * (1 + len(made.heads)) + "|"]
        for title, group in made.groups:
            lines.append(f"| **{title}** " + "| " * len(made.heads) + "|")
            lines += ["| " + " | ".join(map(_cell, line)) + " |" for line in group]
    said = [f"- {_cell(note)}" for note in notes(run["models"])]
    return "\n".join([*lines, "", *said, *[""] * bool(said), "```toml", recommendation(run["models"]), "```"]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _html(run: Row) -> str:
    made, e = table(run["models"]), html.escape
    bad = "".join(f'<p class="bad">{e(note)}</p>' for note in notes(run["models"]))
    body = f"<h1>localrag bench</h1><p>{e(about(run))}</p>{_html_table(made)}{bad}<pre>{e(recommendation(run['models']))}</pre>"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>localrag bench</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _html_table(made: Table) -> str:
    if not made.heads:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in made.heads)
    lines = [f"<tr><th></th>{head}</tr>"]
    for title, group in made.groups:
        lines.append(f'<tr class="group"><th colspan="{1 + len(made.heads)}">{html.escape(title)}</th></tr>')
        lines += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in group]
    return f"<table>{''.join(lines)}</table>"
