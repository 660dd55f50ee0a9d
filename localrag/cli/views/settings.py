"""Settings on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from localrag.cli.views.terminal import write_line


def written(value: Any) -> str:
    """A value as TOML has it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def print_settings(rows: Sequence[Mapping[str, Any]]) -> None:
    """A line each: name, value, where it comes from; what differs from the index is said."""
    names, values = max(len(r["name"]) for r in rows), max(len(written(r["value"])) for r in rows)
    for row in rows:
        differs = f" (the index was made with {written(row['index'])})" if row["index"] is not None else ""
        place = row["where"] or row["origin"]
        write_line(f"{row['name']:<{names}}  {written(row['value']):<{min(values, 40)}}  {place}{differs}")
