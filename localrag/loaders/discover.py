"""Source files below paths: ignore files as in git, links on request, each file once; and digests of unchanged files.

A file counts as unchanged if size, modification time and inode are equal; a clock that goes backwards hides no change. A file changed in
the moment it is read could change again with the same time (git calls it racily clean), so the stat of so young a file is not stored.
"""

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, NamedTuple

from localrag.errors import UsageError
from localrag.filters import PatternError, compile_linear
from localrag.loaders.content import open_file
from localrag.loaders.non_documents import TAKEN_WITH_ALL_FILES, reason_of_file, reason_of_folder
from localrag.settings import INDEX_FOLDER, PROJECT_FILE
from localrag.system.files import FileStat, StatKey, read_regular_file, stat_key

IGNORE_FILES = (".gitignore", ".localragignore")  # within a folder the second has priority
MAX_IGNORE_FILE_BYTES = 1_000_000
OF_AN_INDEX = {"index.db", "writer.lock"}  # files that identify an index folder
HIDDEN_PREFIXES = (".", "~$")  # `~$letter.docx`: who has opened the document
_FOLDER_END = "(?P<ps_d>/)"  # in pathspec's regular expressions: the slash after a folder named by the pattern


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files below some paths, sorted; what is left out, and what cannot be opened, with reasons. Paths are not of link targets."""

    files: tuple[Path, ...]
    left_out: Mapping[Path, str]
    unreadable: Mapping[Path, str]


class _Rule(NamedTuple):
    """A compiled pattern of an ignore file for a path itself, and whether it excludes or re-includes (`!`) a match."""

    search: Callable[[str], Any]
    wants_slash: bool  # whether folders are matched with a trailing slash
    excludes: bool


class _IgnoreRules(NamedTuple):
    """The patterns of a folder's ignore files, relative to the folder."""

    folder: Path
    patterns: tuple[_Rule, ...]  # the last pattern first


def check_paths(paths: Sequence[Path], documents: Sequence[Path] = ()) -> None:
    """Raise UsageError for a path that does not exist and from which no document was read, before anything is written."""
    for path in (p for p in paths if not exists_visibly(p)):
        real = Path(os.path.realpath(path))
        if not any(d.is_relative_to(real) for d in documents):
            raise UsageError(f"There is nothing at {path}.", "Check the path: localrag index PATH…")


def exists_visibly(path: Path) -> bool:
    """Whether a file or folder exists and is visible."""
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` raises PermissionError in folders that may not be entered


def find_files(paths: Sequence[Path], *, follow_links: bool = False, all_files: bool = False) -> SourceFiles:
    """All files below `paths`, each once. Raises UsageError.

    Left out are hidden files and folders, index folders, localrag.toml, files excluded by `.gitignore` and `.localragignore`, and without
    `all_files` what is no document by its name, unless an ignore file includes it; a path given explicitly is always read. A link whose
    target is not found otherwise is followed only with `follow_links`.
    """
    check_paths(paths)
    walk = _FolderWalk(all_files)
    for path in paths:
        full = path.resolve()
        if full.is_file():
            walk.files[str(full)] = full
        else:
            walk.below(full, full, _rules_above(full, walk.left_out))
    while walk.links:
        links, walk.links = sorted(walk.links), []
        for link, top in links:
            walk.follow_link(link, top, follow=follow_links)
    in_order = sorted(walk.files.values(), key=lambda path: str(path).replace(os.sep, "\0"))  # same order as of paths, five times as fast
    return SourceFiles(tuple(in_order), walk.left_out, walk.unreadable)


@dataclass(slots=True)
class _FolderWalk:
    """The files found so far. `files`: real path → path as found; `folders`: the real paths of visited folders."""

    all_files: bool
    files: dict[str, Path] = field(default_factory=dict)
    folders: set[Path] = field(default_factory=set)
    links: list[tuple[Path, Path]] = field(default_factory=list)  # (link, folder it must not leave)
    left_out: dict[Path, str] = field(default_factory=dict)
    unreadable: dict[Path, str] = field(default_factory=dict)

    def below(self, top: Path, real: Path, above: list[_IgnoreRules]) -> None:
        """Add the files in a folder and its subfolders; `real` is its real path, `top` the path as given."""
        stack = [(top, real, above)]
        while stack:
            folder, real, rules = stack.pop()
            if real in self.folders:
                continue
            self.folders.add(real)
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                self.unreadable[folder] = f"a folder without permission to open it ({error.strerror})"
                continue
            names = {e.name for e in entries}
            if names >= OF_AN_INDEX:
                self.left_out[folder] = f"a folder with {' and '.join(sorted(OF_AN_INDEX))}: an index, not documents"
                continue
            if "pyvenv.cfg" in names and folder != top and not self.all_files:
                self.left_out[folder] = f"a Python environment {TAKEN_WITH_ALL_FILES}"
                continue
            rules = [*rules, *_rules_of(folder, names, self.left_out)]
            for entry in entries:
                if entry.name.startswith("."):
                    if entry.name.endswith(".icloud") and (document := entry.name[1:].removesuffix(".icloud")) not in names:
                        self.left_out[folder / document] = "not downloaded from iCloud; download it"
                elif entry.name not in (INDEX_FOLDER, PROJECT_FILE) and self._add(entry, top, real, rules, names):
                    stack.append((folder / entry.name, real / entry.name, rules))

    def _add(self, entry: "os.DirEntry[str]", top: Path, real: Path, rules: list[_IgnoreRules], beside: Set[str]) -> bool:
        """Record an entry, given the names in its folder; returns whether it is a folder to visit."""
        path = Path(entry.path)
        try:
            is_folder, is_link, is_file = entry.is_dir(follow_symlinks=False), entry.is_symlink(), entry.is_file(follow_symlinks=False)
        except OSError as error:
            self.unreadable[path] = f"cannot be read: {error.strerror}"
            return False
        is_ignored = _ignored(path, rules, is_folder=is_folder)
        if is_ignored is None and not self.all_files:
            reason = reason_of_folder(entry.name, beside) if is_folder else reason_of_file(entry.name)
            if reason:
                self.left_out[path] = reason
                return False
        if is_ignored:
            return False
        if is_link:
            self.links.append((path, top))
        elif is_file:
            self.files.setdefault(os.path.join(real, entry.name), path)  # noqa: PTH118 — saves a second for 200,000 files
        elif not is_folder:
            self.left_out[path] = "no regular file"
        return is_folder

    def follow_link(self, link: Path, top: Path, *, follow: bool) -> None:
        """Add the target of a link, or record why not; nothing if the target is found without it."""
        try:
            real = Path(os.path.realpath(link, strict=True))
            is_folder = real.is_dir()
        except OSError as error:
            self.left_out[link] = "a link in a circle" if error.errno == errno.ELOOP else f"a link to nothing ({error.strerror})"
            return
        if str(real) in self.files or real in self.folders:
            return
        if not follow:
            target = "to what is left out" if real.is_relative_to(top.resolve()) else "that leads out of the folder"
            self.left_out[link] = f"a link {target} (taken with --follow-links)"
        elif is_folder:
            self.below(link, real, [])
        elif real.is_file():
            self.files[str(real)] = link
        else:
            self.left_out[link] = "a link to something that is not a regular file"


def _ignored(path: Path, rules: Sequence[_IgnoreRules], *, is_folder: bool) -> bool | None:
    """Whether ignore files exclude a path; False if one of them includes it, None if none names it. Its parents were checked before."""
    for of_folder in reversed(rules):
        name = os.fsencode(path.relative_to(of_folder.folder).as_posix()).decode("utf-8", "replace")
        for rule in of_folder.patterns:
            if rule.search(name + "/" * (is_folder and rule.wants_slash)):
                return bool(rule.excludes)
    return None


def _rules_of(folder: Path, names: set[str], left_out: dict[Path, str]) -> list[_IgnoreRules]:
    rules: list[_Rule] = []
    for file in (folder / name for name in IGNORE_FILES if name in names):
        for line in _lines(file, left_out):
            try:
                rules += _rule(line)
            except (ValueError, PatternError):
                left_out[file] = f"a pattern of an ignore file that cannot be read: {line[:80]!r}"
    return [_IgnoreRules(folder, tuple(reversed(rules)))] if rules else []


def _rule(line: str) -> list[_Rule]:
    """The rule of a line of an ignore file; empty for a blank line or comment. Raises ValueError, PatternError."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    pattern, excludes = GitIgnoreSpecPattern.pattern_to_regex(line)
    if pattern is None:
        return []
    exact = pattern.replace(_FOLDER_END, "/$")  # without its contents: an excluded folder is not entered
    search = compile_linear(exact.replace("[^", "[^/"))  # in git, [!a] does not match a slash
    return [_Rule(search, exact != pattern, bool(excludes))]


_UNREAD = {errno.ELOOP: "that is a link", errno.EINVAL: "that is not a regular file", errno.EFBIG: "of more than 1 MB"}


def _lines(file: Path, left_out: dict[Path, str]) -> list[str]:
    try:
        data = read_regular_file(file, MAX_IGNORE_FILE_BYTES)
    except OSError as error:
        kind = _UNREAD.get(error.errno or 0)
        left_out[file] = f"an ignore file {kind}: not read" if kind else f"an ignore file: {error.strerror}"
        return []
    return data.decode("utf-8-sig", "replace").splitlines()


def _rules_above(path: Path, left_out: dict[Path, str]) -> list[_IgnoreRules]:
    """The rules of the parent folders up to the top of the repository; empty if they exclude the given path itself."""
    above = [path, *path.parents]
    top = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), 0)
    rules: list[_IgnoreRules] = []
    for folder in reversed(above[1 : top + 1]):
        rules += _rules_of(folder, {name for name in IGNORE_FILES if os.path.lexists(folder / name)}, left_out)
    between = reversed(above[:top])
    return [] if any(_ignored(folder, rules, is_folder=True) for folder in between if rules and folder != rules[0].folder) else rules


def relative_path(file: Path, root: Path) -> str:
    """The stored path of a file: relative to the index's root if below it, absolute otherwise."""
    path, top = str(file.absolute()), f"{root}{'' if str(root).endswith('/') else '/'}"  # not the target of a link, which may change
    path = (path.removeprefix(top) or ".") if path.startswith(top) else "." if path == str(root) else path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # a file name may be invalid UTF-8


RACY_WINDOW_NS = 2_000_000_000  # ns: the coarsest clock of a file system (FAT)


def _digest(file: Path) -> str:
    with open_file(file) as opened, os.fdopen(opened.descriptor, "rb", closefd=False) as f:
        return file_digest(f, lambda: blake2b(digest_size=20)).hexdigest()


class DigestCache:
    """The digests of files. `known`: the stored stats by stored path; `verify`: ignore them and read every file."""

    def __init__(self, known: Mapping[str, FileStat], *, verify: bool = False) -> None:
        self.known, self._verify = known, verify
        self._new: dict[str, FileStat] = {}
        self._given: set[str] = set()

    def digest_of(self, path: str, file: Path) -> str:
        """The digest of a file's bytes, given its stored path. Raises OSError."""
        now = time.time_ns()
        key = stat_key(file.stat())
        if cached := self._found(path, key):
            digest = cached.digest
        else:
            digest = _digest(file)
            if stat_key(file.stat()) != key:
                return digest
        if self.known.get(path) != (file_stat := FileStat(*key, digest)) and key[1] < now - RACY_WINDOW_NS:
            self._new[path] = file_stat
        return digest

    def new_stats(self) -> dict[str, FileStat]:
        """The stats to store of files read or moved since the last call."""
        unreported = {path: file_stat for path, file_stat in self._new.items() if path not in self._given}
        self._given |= unreported.keys()
        return unreported

    def _found(self, path: str, stamp: StatKey) -> FileStat | None:
        """The stored stat of a file whose current stat is this; also of the path it was moved from or is linked to."""
        for stats in (self._new, {} if self._verify else self.known):
            file_stat = stats.get(path)
            if file_stat is not None and file_stat.stat_key == stamp:
                return file_stat
        return None if self._verify else self.known.get(self.previous_path(stamp))

    def previous_path(self, stamp: StatKey) -> str:
        """The path whose stored stat is this; empty if there is none. An inode of 0 identifies nothing."""
        return self._paths.get(stamp, "") if stamp[2] else ""

    @cached_property
    def _paths(self) -> dict[StatKey, str]:
        return {file_stat.stat_key: path for path, file_stat in self.known.items()}
