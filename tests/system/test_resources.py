"""Limits of containers: threads and memory are counted by what the process may use, not by what the machine has."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from localrag.system.resources import available_cores, available_memory, cgroup_core_limit, cgroup_memory_left

GIB = 1 << 30


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
        (
            "4:memory:/j\n3:cpu,cpuacct:/j\n0::/\n",
            {
                "cpu,cpuacct/j/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/j/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "9000",
                "memory/memory.usage_in_bytes": "8000",
                "memory/j/memory.limit_in_bytes": "9223372036854771712",
                "memory/j/memory.usage_in_bytes": "5",
            },
            3,
            1000,
        ),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None, None),
        ("nonsense\n", {"cpu.max": "1 1"}, None, None),
    ],
    ids=["outer", "inner", "namespace", "hidden", "cached", "unlimited", "over", "version 1", "no quota", "no groups"],
)
def test_the_tightest_group_counts(tmp_path, groups, files, cores, memory):
    """Quotas and memory of the process's group and of all around it, in both versions; file caches are free."""
    place = made_up(tmp_path, groups, files)

    assert cgroup_core_limit(*place) == cores
    assert cgroup_memory_left(*place) == memory


def test_a_system_without_groups_has_no_limits(tmp_path):
    """No file, no limit."""
    assert cgroup_core_limit(tmp_path / "none", tmp_path) is None
    assert cgroup_memory_left(tmp_path / "none", tmp_path) is None
    assert available_cores() >= 1
    assert 0 < available_memory() <= psutil.virtual_memory().total


def new_group(kind):
    """A control group of version 1, to be removed by the caller."""
    folder = Path("/sys/fs/cgroup") / kind / f"localrag-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("no control groups of version 1 that this user may make")
    return folder


def in_group(folder, code):
    """What a Python process in a control group prints."""
    code = f"import os; open({str(folder / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n{code}"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_a_process_in_a_limited_group_takes_no_more_than_it_is_given():
    """With a real group: one core of time means one thread, half a gigabyte is what can be planned with."""
    cpu, memory = new_group("cpu"), new_group("memory")
    try:
        (cpu / "cpu.cfs_quota_us").write_text("120000")
        (memory / "memory.limit_in_bytes").write_text(str(GIB // 2))
        cores = in_group(cpu, "from localrag.system.resources import available_cores; print(available_cores())")
        left = in_group(memory, "from localrag.system.resources import available_memory; print(available_memory())")
    finally:
        cpu.rmdir()
        memory.rmdir()

    assert int(cores) == 1
    assert 0 < int(left) <= GIB // 2
