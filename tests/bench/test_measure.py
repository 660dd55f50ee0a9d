"""The peak of a process, and the machine."""

from localrag.bench.measure import peak_memory


def test_the_peak_stays_after_the_memory_is_gone():
    """Memory that was touched and freed counts."""
    before = peak_memory()
    block = bytearray(200 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    del block

    assert peak_memory() >= before
    assert peak_memory() > 200 << 20
