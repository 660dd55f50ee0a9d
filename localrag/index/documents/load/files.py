"""Which files there are below the given paths: ignore files are honoured as git does, and every file comes once; links only on request."""

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localrag.config import INDEX_FOLDER, PROJECT_FILE
from localrag.errors import UsageError
from localrag.linear import PatternError, compile_linear

IGNORE_FILES = (".gitignore", ".localragignore")  # of one folder the second has the last word
MAX_IGNORE_FILE_BYTES = 1_000_000
OF_AN_INDEX = {"index.db", "writer.lock"}  # files by which the folder of an index is known
_FOLDER_END = "(?P<ps_d>/)"  # in pathspec's regular expressions: the slash after a folder that the pattern names


@dataclass(frozen=True, slots=True)
class Sources:
    """What lies below some paths: the files to read, sorted; links and special files that are left out, and what may not be opened.

    The latter two say why. Every path is the one a file or folder goes by below the given path, not that of a link's target.
    """

    files: tuple[Path, ...]
    left_out: Mapping[Path, str]
    closed: Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a folder's ignore files say; their patterns are relative to it."""

    folder: Path
    patterns: tuple["_Rule", ...]  # the last first

    def say(self, path: Path, *, is_folder: bool) -> bool | None:
        """Whether to leave a path out; None if no pattern matches it. The folders above it were checked before."""
        name = os.fsencode(path.relative_to(self.folder).as_posix()).decode("utf-8", "replace")
        return next((rule.excludes for rule in self.patterns if rule.matches(name, is_folder=is_folder)), None)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern of an ignore file, compiled, and whether it excludes what matches or includes it again (`!`)."""

    search: Callable[[str], Any]
    wants_slash: bool  # whether the name of a folder is matched with a slash at its end
    excludes: bool

    def matches(self, name: str, *, is_folder: bool) -> bool:
        """Whether the pattern matches the path itself, not just a folder above it."""
        return self.search(name + "/" * (is_folder and self.wants_slash)) is not None


def check_paths(paths: Sequence[Path], documents: Sequence[Path] = ()) -> None:
    """Raises UsageError for a path where there is nothing and no document was read from, before anything is made or written."""
    for path in (p for p in paths if not is_there(p)):
        real = Path(os.path.realpath(path))
        if not any(d.is_relative_to(real) for d in documents):
            raise UsageError(f"There is nothing at {path}.", "Check the path: localrag index PATH…")


def is_there(path: Path) -> bool:
    """Whether there is a file or folder that can be seen; unlike `Path.exists` it answers for folders that may not be entered, too."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def is_index(folder: Path) -> bool:
    """Whether a folder is that of an index, under whatever name."""
    return all(is_there(folder / name) for name in OF_AN_INDEX)


def find_files(paths: Sequence[Path], *, follow_links: bool = False) -> Sources:
    """All files below `paths`, each once. Raises UsageError.

    Left out are hidden files and folders, folders of an index, localrag.toml, and what `.gitignore` and `.localragignore` name; a path that
    is given is read even so. A link whose target is not found on its own is taken only with `follow_links`.
    """
    check_paths(paths)
    walk = _Walk()
    for path in paths:
        full = path.resolve()
        if full.is_file():
            walk.files[str(full)] = full
        else:
            walk.below(full, full, _rules_above(full, walk.left_out))
    while walk.links:
        links, walk.links = sorted(walk.links), []
        for link, top in links:
            walk.take(link, top, follow=follow_links)
    in_order = sorted(walk.files.values(), key=lambda path: str(path).replace(os.sep, "\0"))  # as paths are sorted, in a fifth of the time
    return Sources(tuple(in_order), walk.left_out, walk.closed)


@dataclass(slots=True)
class _Walk:
    """What was found so far. `files`: a file's real path → the path it goes by; `folders`: the real paths of those walked through."""

    files: dict[str, Path] = field(default_factory=dict)
    folders: set[Path] = field(default_factory=set)
    links: list[tuple[Path, Path]] = field(default_factory=list)  # each with the folder it must not lead out of
    left_out: dict[Path, str] = field(default_factory=dict)
    closed: dict[Path, str] = field(default_factory=dict)

    def below(self, top: Path, real: Path, above: list[_Rules]) -> None:
        """Add what lies in a folder and in those below it; `real` is where the folder is, `top` how it is called."""
        waiting = [(top, real, above)]
        while waiting:
            folder, real, rules = waiting.pop()
            if real in self.folders:
                continue
            self.folders.add(real)
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                self.closed[folder] = f"a folder that may not be opened ({error.strerror})"
                continue
            names = {e.name for e in entries}
            if names >= OF_AN_INDEX:
                self.left_out[folder] = f"a folder with {' and '.join(sorted(OF_AN_INDEX))}: an index, not documents"
                continue
            rules = [*rules, *_rules_of(folder, names, self.left_out)]
            for entry in entries:
                if not entry.name.startswith(".") and entry.name not in (INDEX_FOLDER, PROJECT_FILE) and self._add(entry, top, real, rules):
                    waiting.append((folder / entry.name, real / entry.name, rules))

    def _add(self, entry: "os.DirEntry[str]", top: Path, real: Path, rules: list[_Rules]) -> bool:
        """Note what is no folder; whether it is a folder to walk through."""
        path = Path(entry.path)
        try:
            is_folder, is_link, is_file = entry.is_dir(follow_symlinks=False), entry.is_symlink(), entry.is_file(follow_symlinks=False)
        except OSError as error:
            self.closed[path] = f"cannot be read: {error.strerror}"
            return False
        if _ignored(path, rules, is_folder=is_folder):
            return False
        if is_link:
            self.links.append((path, top))
        elif is_file:
            self.files.setdefault(os.path.join(real, entry.name), path)  # noqa: PTH118 — of 200,000 files in a folder a second
        elif not is_folder:
            self.left_out[path] = "no regular file"
        return is_folder

    def take(self, link: Path, top: Path, *, follow: bool) -> None:
        """Add what a link leads to, or say why not; nothing where that is found without it."""
        try:
            real = Path(os.path.realpath(link, strict=True))
            is_folder = real.is_dir()
        except OSError as error:
            self.left_out[link] = "a link in a circle" if error.errno == errno.ELOOP else f"a link to nothing ({error.strerror})"
            return
        if str(real) in self.files or real in self.folders:
            return
        if not follow:
            where = "to what is left out" if real.is_relative_to(top.resolve()) else "that leads out of the folder"
            self.left_out[link] = f"a link {where} (taken with --follow-links)"
        elif is_folder:
            self.below(link, real, [])
        elif real.is_file():
            self.files[str(real)] = link
        else:
            self.left_out[link] = "a link to no regular file"


def _ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """Whether the nearest folder that says anything of the path leaves it out."""
    return next((said for r in reversed(rules) if (said := r.say(path, is_folder=is_folder)) is not None), False)


def _rules_of(folder: Path, names: set[str], left_out: dict[Path, str]) -> list[_Rules]:
    rules: list[_Rule] = []
    for file in (folder / name for name in IGNORE_FILES if name in names):
        for line in _lines(file, left_out):
            try:
                rules += _rule(line)
            except (ValueError, PatternError):
                left_out[file] = f"a pattern of an ignore file that cannot be read: {line[:80]!r}"
    return [_Rules(folder, tuple(reversed(rules)))] if rules else []


def _rule(line: str) -> list[_Rule]:
    """The rule in a line of an ignore file; none if it is empty or a comment. Raises ValueError, PatternError."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    pattern, excludes = GitIgnoreSpecPattern.pattern_to_regex(line)
    if pattern is None:
        return []
    only_itself = pattern.replace(_FOLDER_END, "/$")  # not what lies below: the walk does not enter an excluded folder
    search = compile_linear(only_itself.replace("[^", "[^/"))  # in git, [!a] does not match a slash
    return [_Rule(search, only_itself != pattern, bool(excludes))]


def _lines(file: Path, left_out: dict[Path, str]) -> list[str]:
    """The lines of an ignore file. One that is not a regular file, too long or unreadable has none; `left_out` gets the reason."""
    try:
        # The folder may come from a stranger: do not follow links, and do not wait for a pipe's writer.
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        left_out[file] = "an ignore file that is a link: not read" if file.is_symlink() else f"an ignore file: {error.strerror}"
        return []
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            left_out[file] = "an ignore file that is no regular file: not read"
            return []
        with open(handle, "rb", closefd=False) as opened:
            data = opened.read(MAX_IGNORE_FILE_BYTES + 1)
    except OSError as error:
        left_out[file] = f"an ignore file: {error.strerror}"
        return []
    finally:
        os.close(handle)
    if len(data) > MAX_IGNORE_FILE_BYTES:
        left_out[file] = f"an ignore file of more than {MAX_IGNORE_FILE_BYTES // 1_000_000} MB: not read"
        return []
    return data.decode("utf-8-sig", "replace").splitlines()


def _rules_above(path: Path, left_out: dict[Path, str]) -> list[_Rules]:
    """What the folders above say, up to the top of the repository; nothing if they leave out the given path itself."""
    above = [path, *path.parents]
    top = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), 0)
    rules: list[_Rules] = []
    for folder in reversed(above[1 : top + 1]):
        rules += _rules_of(folder, {name for name in IGNORE_FILES if os.path.lexists(folder / name)}, left_out)
    between = reversed(above[:top])
    return [] if any(_ignored(folder, rules, is_folder=True) for folder in between if rules and folder != rules[0].folder) else rules


def stored_path(file: Path, root: Path) -> str:
    """The path as the index keeps it: relative to the index's root where it lies below it, absolute otherwise."""
    path, top = str(file.absolute()), f"{root}{'' if str(root).endswith('/') else '/'}"  # not a link's target: that may be another tomorrow
    path = (path.removeprefix(top) or ".") if path.startswith(top) else "." if path == str(root) else path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # a name may be no text
