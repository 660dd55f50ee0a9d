"""Ownership of files, the user's trust decisions on this machine, and notes of the files that localrag wrote into the user's folders.

On a shared machine anybody may put a folder into /tmp or above the working directory; git checks owners for the same reason since
CVE-2022-24765. Trust decisions are stored outside of any document folder, which may come from somebody else: one file per decision, named
by its hash, so that processes can add them concurrently and a lookup reads no file.
"""

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path

from localrag.errors import UsageError
from localrag.system.files import data_dir, ensure_private_folder, find_link, open_regular_file, place_below, write_atomically


def check_owned(paths: Iterable[Path], description: str, hint: str) -> None:
    """Raise UsageError if one of these paths belongs to another user, or is writable by others."""
    for path in paths:
        if reason := untrusted_reason(path):
            raise UsageError(f"{description} is not used: {path} {reason}.", hint)


def untrusted_reason(path: Path) -> str:
    """The reason why another user may have created or changed a file; empty if none may.

    For a link, its target is checked as well. Files of root are trusted, and under `sudo` those of the calling user. A group may write if
    it is the user's own and has no other member (`umask 002`).
    """
    try:
        stats = (path.lstat(), path.stat())
    except OSError as error:
        return f"cannot be checked: {error.strerror}"
    trusted_ids, caller = {0, os.geteuid()}, os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and caller.isdecimal():
        trusted_ids.add(int(caller))
    for info in stats:
        if info.st_uid not in trusted_ids:
            return f"belongs to another user (number {info.st_uid})"
    target = stats[1]
    if target.st_mode & stat.S_IWOTH and not _is_drvfs(path):
        return "can be written by everybody"
    if target.st_mode & stat.S_IWGRP and not _is_private_group(target) and not _is_drvfs(path):
        return "can be written by its group"
    return ""


def _is_private_group(info: os.stat_result) -> bool:
    """Whether a file's group has its owner as the only member: many systems create such a group for every user."""
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


TRUST_FOLDER = "trusted"


def remember_trust(kind: str, *parts: str) -> None:
    """Save a trust decision. If the data folder is not writable, nothing is saved, and the user is asked again the next time."""
    with suppress(OSError):
        file = _file(kind, parts)
        if not file.exists():
            ensure_private_folder(file.parent)
            write_atomically(file, json.dumps([kind, *parts]).encode())  # as ASCII: paths may hold surrogates


def is_trust_known(kind: str, *parts: str) -> bool:
    """Whether exactly this decision was saved on this machine."""
    return _file(kind, parts).is_file()


# Files of an index that are made anew if they are lost: recorded by inode, size and times, since hashing them takes too long.


def record_cache_file(path: Path) -> None:
    """Record that this machine wrote a file of an index with its present content (`is_recorded_cache_file`)."""
    with suppress(OSError):
        key, state = _file_state(path)
        ensure_private_folder(_file("file", key).parent)
        write_atomically(_file("file", key), state)


def is_recorded_cache_file(path: Path) -> bool:
    """Whether this machine wrote a file, and nothing changed it since. A file keeps this when its folder is moved on the same disk."""
    try:
        key, state = _file_state(path)
        return _file("file", key).read_bytes() == state
    except OSError:
        return False


def _file_state(path: Path) -> tuple[tuple[str, ...], bytes]:
    """What stays of a file, and what every change changes: no program can set the last of them, the time of that change."""
    status = path.lstat()
    return (str(status.st_dev), str(status.st_ino)), json.dumps([status.st_size, status.st_mtime_ns, status.st_ctime_ns]).encode()


# Files that localrag writes into the user's folders (exports, uploads): recorded by folder, name and hash.


def hash_below(folder: Path, name: str) -> str:
    """The SHA-256 of the file at a path below a folder; empty if there is none, or a link on the way there."""
    if find_link(folder, name):
        return ""
    try:
        with open_regular_file(folder / name) as file:
            return file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


def _written_file(folder: Path, name: str, digest: str) -> tuple[str, ...]:
    return str(folder.resolve()), name, digest


def record_written_file(folder: Path, name: str, digest: str) -> None:
    """Note on this machine, before it is moved there, that localrag writes a file with this hash to a path below a folder."""
    remember_trust("written-file", *_written_file(folder, name, digest))


def forget_written_file(folder: Path, name: str, digest: str) -> None:
    """Delete the note about a file that localrag has replaced or deleted."""
    with suppress(OSError):
        _file("written-file", _written_file(folder, name, digest)).unlink(missing_ok=True)


def written_file_hash(folder: Path, name: str) -> str:
    """The hash of a file that localrag wrote at a path on this machine, unchanged; else empty. The folder's own records prove nothing."""
    digest = hash_below(folder, name)
    return digest if digest and is_trust_known("written-file", *_written_file(folder, name, digest)) else ""


def delete_written_file(folder: Path, name: str) -> None:
    """Delete a file if localrag wrote it (`written_file_hash`). Raises OSError."""
    if digest := written_file_hash(folder, name):
        place_below(folder, name, None)
        forget_written_file(folder, name, digest)


def _file(kind: str, parts: tuple[str, ...]) -> Path:
    note = json.dumps([kind, *parts]).encode()
    return data_dir() / TRUST_FOLDER / f"{kind}-{sha256(note).hexdigest()[:32]}.json"
