"""What this machine is and what a process spends on it: peak memory, and energy where the system lets it be read."""

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from localrag.system.cores import free_cores

SYSTEM = Path("/sys/class")


@dataclass(frozen=True, slots=True)
class Meter:
    """A reading of the energy counters: joules of each, and where each begins anew. `source`: "rapl" or "battery"."""

    source: str
    joules: tuple[float, ...]
    ranges: tuple[float, ...] = ()


def read_energy(system: Path = SYSTEM) -> Meter | None:
    """The counters of the CPU packages (RAPL), else of the batteries while they discharge; None where neither can be read."""
    found = [_rapl(folder) for folder in sorted(system.glob("powercap/intel-rapl:*")) if folder.name.count(":") == 1]
    packages = [pair for pair in found if pair]
    if packages:
        return Meter("rapl", tuple(p[0] for p in packages), tuple(p[1] for p in packages))
    batteries = [left for folder in sorted(system.glob("power_supply/BAT*")) if (left := _battery(folder)) is not None]
    return Meter("battery", tuple(batteries)) if batteries else None


def joules_between(before: Meter | None, after: Meter | None) -> float | None:
    """Joules spent between two readings of the same counters; None where they were not readable both times, or have not moved."""
    if before is None or after is None or (before.source, len(before.joules)) != (after.source, len(after.joules)):
        return None
    if before.source == "battery":
        spent = sum(before.joules) - sum(after.joules)
    else:
        spent = sum((b - a) % most if most else b - a for a, b, most in zip(before.joules, after.joules, before.ranges, strict=True))
    return spent if spent > 0 else None


def _rapl(folder: Path) -> tuple[float, float] | None:
    with suppress(OSError, ValueError):
        if (folder / "name").read_text().startswith("package"):
            most = folder / "max_energy_range_uj"
            return int((folder / "energy_uj").read_text()) / 1e6, int(most.read_text()) / 1e6 if most.exists() else 0.0
    return None


def _battery(folder: Path) -> float | None:
    """Joules left in a battery that is discharging."""
    with suppress(OSError, ValueError):
        if (folder / "status").read_text().strip() != "Discharging":
            return None
        if (folder / "energy_now").exists():  # µWh
            return int((folder / "energy_now").read_text()) * 3600e-6
        return int((folder / "charge_now").read_text()) * int((folder / "voltage_now").read_text()) * 3600e-12  # µAh × µV
    return None


def peak_memory() -> int | None:
    """The most bytes of memory this process has had so far; None where the system does not say.

    Not getrusage on Linux: there a new process begins with the peak of the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(lines[0].split()[1]) * 1024 if lines else None
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def machine() -> dict[str, Any]:
    """The machine in JSON-ready values: system, CPU, cores, memory."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    memory: int | None = None
    with suppress(OSError, RuntimeError, NotImplementedError):
        memory = int(psutil.virtual_memory().total)
    return {"system": platform.system(), "cpu": cpu, "cores": free_cores(), "all_cores": os.cpu_count(), "memory": memory}
