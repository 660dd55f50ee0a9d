"""What a container or a service may use: the limits of its control groups (cgroups, versions 1 and 2), which no other call tells of."""

from collections.abc import Iterator
from pathlib import Path

GROUPS, ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
CACHED = ("inactive_file", "active_file")  # what the kernel gives back as soon as somebody needs memory


def core_limit(groups: Path = GROUPS, root: Path = ROOT) -> float | None:
    """Cores' worth of time this process may use, the least of its groups' quotas; None where there is no limit."""
    found = [_quota(_read(folder / "cpu.max").split()) for folder in _folders(groups, root, "", "cpu.max")]
    for folder in _folders(groups, root, "cpu", "cpu.cfs_quota_us"):
        found.append(_quota([_read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]))
    return min((cores for cores in found if cores is not None), default=None)


def memory_left(groups: Path = GROUPS, root: Path = ROOT) -> int | None:
    """Bytes this process and its groups may still take, file caches counted as free; None where there is no limit."""
    found = [_left(f, ("memory.max", "memory.high"), "memory.current", "") for f in _folders(groups, root, "", "memory.max")]
    for folder in _folders(groups, root, "memory", "memory.limit_in_bytes"):
        found.append(_left(folder, ("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_"))
    return min((left for left in found if left is not None), default=None)


def _folders(groups: Path, root: Path, controller: str, file: str) -> Iterator[Path]:
    """The folders of this process's group and of those around it that have `file`; `controller` is empty for version 2."""
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controller not in controllers.split(","):
            continue
        for mount in (root / controllers, root / controller) if controller else (root, root / "unified"):
            inner = mount / path.lstrip("/")  # inside a container it may be missing: its own group is then the mount itself
            for folder in dict.fromkeys((inner, *inner.parents, mount)):
                if folder.is_relative_to(mount) and (folder / file).is_file():
                    yield folder


def _quota(words: list[str]) -> float | None:
    """Cores' worth of "quota period"; a quota of "max" or -1 is none."""
    numbers = [int(w) for w in words if w.isdigit()]
    return numbers[0] / numbers[1] if len(numbers) == 2 and numbers[1] else None


def _left(folder: Path, limits: tuple[str, ...], usage: str, prefix: str) -> int | None:
    """What a group's limits leave; None where it has none."""
    most = [int(words) for name in limits if (words := _read(folder / name)).isdigit()]
    used = _read(folder / usage)
    if not most or not used.isdigit():
        return None
    counts = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
    cached = sum(int(counts.get(prefix + name, 0)) for name in CACHED)
    return max(0, min(most) - max(0, int(used) - cached))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
