"""Limits of containers: threads and memory are counted by what the process may use, not by what the machine has."""

import psutil
import pytest

from localrag.system.resources import available_cores, available_memory, cgroup_core_limit, cgroup_memory_left


def made_up(folder, groups, files):
    """A file of a process's groups and a tree of control groups."""
    (folder / "groups").write_text(groups)
    for name, text in files.items():
        path = folder / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "groups", folder / "root"


@pytest.mark.parametrize(
    ("groups", "files", "cores", "memory"),
    [
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5, None),
        ("0::/a/b\n", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "50000 100000"}, 0.5, None),
        ("0::/\n", {"cpu.max": "200000 100000", "memory.max": "1000", "memory.current": "400"}, 2, 600),
        ("0::/not/seen/inside\n", {"cpu.max": "200000 100000"}, 2, None),
        (
            "0::/a\n",
            {"a/memory.max": "1000", "a/memory.high": "900", "a/memory.current": "800", "a/memory.stat": "anon 500\nactive_file 250\n"},
            None,
            350,
        ),
        ("0::/a\n", {"a/memory.max": "max", "a/memory.current": "800"}, None, None),
        ("0::/a\n", {"a/memory.max": "500", "a/memory.current": "800"}, None, 0),
        ("nonsense\n", {"cpu.max": "1 1"}, None, None),
    ],
    ids=["outer", "inner", "namespace", "hidden", "cached", "unlimited", "over", "no groups"],
)
def test_the_tightest_group_counts(tmp_path, groups, files, cores, memory):
    """Quotas and memory of the process's group and of all around it; file caches are free."""
    place = made_up(tmp_path, groups, files)

    assert cgroup_core_limit(*place) == cores
    assert cgroup_memory_left(*place) == memory


def test_a_system_without_groups_has_no_limits(tmp_path):
    """No file, no limit."""
    assert cgroup_core_limit(tmp_path / "none", tmp_path) is None
    assert cgroup_memory_left(tmp_path / "none", tmp_path) is None
    assert available_cores() >= 1
    assert 0 < available_memory() <= psutil.virtual_memory().total
