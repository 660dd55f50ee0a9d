"""The peak of a process, and the machine."""

from localrag.bench.measure import machine_info, peak_memory


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
