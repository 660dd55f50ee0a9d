"""Which files there are below the given paths: ignore files are honoured as git does, and every file comes once."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localrag.config import INDEX_FOLDER
from localrag.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".localragignore")  # of one folder the second has the last word
_OF_AN_INDEX = {"index.db", "writer.lock"}


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a folder's ignore files say; their patterns are relative to it."""

    folder: Path
    spec: "GitIgnoreSpec"

    def say(self, path: Path, *, is_folder: bool) -> bool | None:
        """Whether to leave a path out; None where nothing is said of it."""
        relative = path.relative_to(self.folder).as_posix()
        return self.spec.check_file(relative + "/" * is_folder).include


def check_paths(paths: Sequence[Path]) -> None:
    """Raises UsageError for a path where there is nothing, before anything is made or written."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"There is nothing at {path}.", "Check the path: localrag index PATH…")


def find_files(paths: Sequence[Path]) -> list[Path]:
    """All files below `paths`, sorted, each once, links and their targets included. Raises UsageError.

    Left out are hidden files and folders, links to folders, folders of an index, and what `.gitignore` and `.localragignore` name; a path
    that is given is read even so.
    """
    check_paths(paths)
    found: dict[Path, None] = {}
    for path in paths:
        full = path.resolve()
        for file in [full] if full.is_file() else _walk(full, _rules_above(full)):
            found[file.resolve()] = None
    return sorted(found)


def _walk(top: Path, above: list[_Rules]) -> Iterator[Path]:
    """The files of a folder and of those below it; a folder that may not be opened comes as itself, to be listed."""
    waiting = [(top, above)]
    while waiting:
        folder, rules = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            yield folder
            continue
        names = {e.name for e in entries}
        if names >= _OF_AN_INDEX:
            continue
        rules = [*rules, *_rules_of(folder, names)]
        for entry in entries:
            path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
            shown = not entry.name.startswith(".") and entry.name != INDEX_FOLDER and (is_folder or entry.is_file())
            if shown and not _ignored(path, rules, is_folder=is_folder):
                if is_folder:
                    waiting.append((path, rules))
                else:
                    yield path


def _ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether the nearest folder that says anything of the path leaves it out."""
    return next((said for r in reversed(rules) if (said := r.say(path, is_folder=is_folder)) is not None), False)


def _rules_of(folder: Path, names: set[str]) -> list[_Rules]:
    lines = [line for name in IGNORE_FILES if name in names for line in _lines(folder / name)]
    if not lines:
        return []
    from pathspec import GitIgnoreSpec

    try:
        return [_Rules(folder, GitIgnoreSpec.from_lines(lines))]
    except ValueError as error:
        raise UsageError(f"The ignore files of {folder} cannot be read: {error}.", "Mend the pattern it names.") from error


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _rules_above(path: Path) -> list[_Rules]:
    """What the folders above say, up to the top of the repository; nothing if they leave out the given path itself."""
    above = [path, *path.parents]
    top = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), 0)
    rules: list[_Rules] = []
    for folder in reversed(above[1 : top + 1]):
        rules += _rules_of(folder, {name for name in IGNORE_FILES if (folder / name).is_file()})
    between = reversed(above[:top])
    return [] if any(_ignored(folder, rules, is_folder=True) for folder in between if rules and folder != rules[0].folder) else rules


def stored_path(file: Path, root: Path) -> str:
    """The path as the index keeps it: relative to the index's root where it lies below it, absolute otherwise."""
    file = file.resolve()
    path = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # a name may be no text
