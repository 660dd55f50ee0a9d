"""Check whether somebody else made a file or may change it.

On a shared machine anybody may put a folder into /tmp or another folder above the working directory. git checks the owners of repositories
for the same reason since CVE-2022-24765.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from localrag.errors import UsageError


def check_owned(paths: Iterable[Path], what: str, hint: str) -> None:
    """Raise UsageError if one of these paths belongs to another user, or others may write to it."""
    for path in paths:
        if why := untrusted_reason(path):
            raise UsageError(f"{what} is not used: {path} {why}.", hint)


def untrusted_reason(path: Path) -> str:
    """Why another user may have made or changed a file; empty if none may, and on Windows.

    For a link, its target is checked as well. The superuser's files are trusted, and under `sudo` those of the user who called it. A group
    may write if it is the user's own and has no other member (`umask 002`).
    """
    if os.name != "posix":
        return ""
    try:
        stats = (path.lstat(), path.stat())
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    own, caller = {0, os.geteuid()}, os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdecimal():
        own.add(int(caller))
    for info in stats:
        if info.st_uid not in own:
            return f"belongs to another user ({_user_name(info.st_uid)})"
    target = stats[1]
    if target.st_mode & stat.S_IWOTH and not _is_drvfs(path):
        return "may be written to by everybody"
    if target.st_mode & stat.S_IWGRP and not _is_private_group(target) and not _is_drvfs(path):
        return "may be written to by its group"
    return ""


def _user_name(number: int) -> str:
    import pwd  # not on Windows

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user number {number}"


def _is_private_group(info: os.stat_result) -> bool:
    """Whether a file's group has its owner as the only member: many systems make such a group for every user."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(info.st_uid), grp.getgrgid(info.st_gid)
    except KeyError:  # in a container users may have no names
        return info.st_uid == info.st_gid
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}


def _is_drvfs(path: Path) -> bool:
    """Whether a path is on a Windows disk mounted in WSL, where every file looks writable by everybody."""
    import psutil

    if "microsoft" not in os.uname().release.lower():
        return False
    real = path.resolve()
    mounts = [p for p in psutil.disk_partitions(all=True) if real.is_relative_to(p.mountpoint)]
    nearest = max(mounts, key=lambda p: len(p.mountpoint), default=None)
    return nearest is not None and (nearest.fstype == "drvfs" or "drvfs" in nearest.opts)
