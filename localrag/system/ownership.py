"""Whether somebody else made a file or may change it: a folder above the working directory is not trusted because it is there.

As git does for repositories since CVE-2022-24765: on a shared machine anybody may put a folder into /tmp, or wherever else many write.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from localrag.errors import UsageError


def check_ours(paths: Iterable[Path], what: str, hint: str) -> None:
    """Raises UsageError where one of these is another user's, or others may write to it."""
    for path in paths:
        if why := foreign(path):
            raise UsageError(f"{what} is not used: {path} {why}.", hint)


def foreign(path: Path) -> str:
    """Why others than this user may have made or changed what is at a path; empty where nobody may, and on Windows.

    Of a link, its target counts as well. The superuser's files count as the user's own, and those of the user who called `sudo` as the
    superuser's. Group members may write where the group is the user's own and has no other member (`umask 002`).
    """
    if os.name != "posix":
        return ""
    try:
        found = (path.lstat(), path.stat())
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    own = {0, os.geteuid()} | ({int(os.environ["SUDO_UID"])} if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit() else set())
    for one in found:
        if one.st_uid not in own:
            return f"belongs to another user ({_name(one.st_uid)})"
    target = found[1]
    if target.st_mode & stat.S_IWOTH and not _keeps_no_modes(path):
        return "may be written to by everybody"
    if target.st_mode & stat.S_IWGRP and not _is_alone(target) and not _keeps_no_modes(path):
        return "may be written to by its group"
    return ""


def _name(number: int) -> str:
    import pwd  # not on Windows

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user number {number}"


def _is_alone(found: os.stat_result) -> bool:
    """Whether the group of a file is that of its owner alone, as systems make one for every user."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:  # in a container users may have numbers alone
        return found.st_uid == found.st_gid
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}


def _keeps_no_modes(path: Path) -> bool:
    """Whether a path is on a disk of Windows, seen from its Linux subsystem: there every file looks as if everybody may write to it."""
    import psutil

    if "microsoft" not in os.uname().release.lower():
        return False
    real = path.resolve()
    mounts = [p for p in psutil.disk_partitions(all=True) if real.is_relative_to(p.mountpoint)]
    nearest = max(mounts, key=lambda p: len(p.mountpoint), default=None)
    return nearest is not None and (nearest.fstype == "drvfs" or "drvfs" in nearest.opts)
