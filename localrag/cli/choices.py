"""Options that take one of a few words: which these are stands in the help, another is refused before anything is opened."""

from typing import Any

import typer

MODES = ("auto", "mix", "local", "global", "drift", "basic", "ts", "ss")
STYLES = ("extractive", "abstractive")
EXTRACTORS = ("model", "phrases")


def one_of(what: str, values: tuple[str, ...]) -> dict[str, Any]:
    """What makes a typer option of a string, or of several, take only these values."""

    def check(given: Any) -> Any:
        for value in [given] if isinstance(given, str) else given or ():
            if value and value not in values:
                raise typer.BadParameter(f"There is no {what} {value!r}. Choose {', '.join(values[:-1])} or {values[-1]}.")
        return given

    def complete(incomplete: str) -> list[str]:
        return [v for v in values if v.startswith(incomplete)]

    return {"metavar": "|".join(values), "callback": check, "autocompletion": complete}
