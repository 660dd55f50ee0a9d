"""Energy counters as files, and the peak of a process."""

import pytest

from localrag.bench.measure import EnergyReading, joules_between, machine_info, peak_memory, read_energy


def rapl(system, number, name, joules, most=262_143.0):
    folder = system / "powercap" / f"intel-rapl:{number}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(name + "\n")
    (folder / "energy_uj").write_text(str(round(joules * 1e6)))
    (folder / "max_energy_range_uj").write_text(str(round(most * 1e6)))


def test_packages_are_added_up_and_wrap_around(tmp_path):
    """Two packages; a counter that has begun anew counts on; the domains inside a package are part of it."""
    for number, name, joules in (("0", "package-0", 100), ("1", "package-1", 262_140), ("0:0", "core", 50), ("2", "psys", 900)):
        rapl(tmp_path, number, name, joules)
    before = read_energy(tmp_path)
    rapl(tmp_path, "0", "package-0", 130)
    rapl(tmp_path, "1", "package-1", 7)

    assert joules_between(before, read_energy(tmp_path)) == pytest.approx(30 + 10, abs=0.01)


def test_a_battery_counts_only_while_it_discharges(tmp_path):
    """Without RAPL the battery's loss is what was spent; on mains power nothing can be read."""
    folder = tmp_path / "power_supply" / "BAT0"
    folder.mkdir(parents=True)
    (folder / "energy_now").write_text("50000000")
    (folder / "status").write_text("Discharging\n")
    before = read_energy(tmp_path)
    (folder / "energy_now").write_text("49990000")

    assert joules_between(before, read_energy(tmp_path)) == pytest.approx(36.0)
    (folder / "status").write_text("Charging\n")
    assert read_energy(tmp_path) is None


def test_what_cannot_be_read_is_none(tmp_path):
    """No counters, other counters than before, or counters that stand still give no figure rather than 0."""
    assert read_energy(tmp_path) is None
    assert joules_between(None, EnergyReading("rapl", (1.0,), (9.0,))) is None
    assert joules_between(EnergyReading("rapl", (1.0,), (9.0,)), EnergyReading("battery", (1.0,))) is None
    assert joules_between(EnergyReading("battery", (1.0,)), EnergyReading("battery", (1.0,))) is None


def test_the_peak_stays_after_the_memory_is_gone():
    """Memory that was touched and freed counts."""
    before = peak_memory()
    block = bytearray(200 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    del block

    assert peak_memory() >= before
    assert peak_memory() > 200 << 20


def test_the_machine_is_described():
    """Cores and memory are numbers."""
    found = machine_info()
    assert found["cores"] >= 1
    assert found["memory"] > 0
