"""What is put on a GPU and how much KV there is, for devices of so much memory."""

from itertools import pairwise

import pytest

from localrag.engine.memory import (
    COMPUTE_BUFFER_BYTES,
    MEMORY_MARGIN,
    MIN_SEQUENCES,
    ModelMemory,
    context_and_slots,
    kv_cache_budget,
    offload,
)

GIB = 1 << 30
LAYERS = 36
# Sizes of a Qwen3 of 8 billion parameters in Q4_K_M, and of a mixture of experts of 30 billion with 3 active.
EIGHT = ModelMemory((int(4.2 * GIB / LAYERS),) * LAYERS, int(0.8 * GIB), 147_456.0, 40960, 8_200_000_000)
EXPERTS = ModelMemory((int(17 * GIB / 48),) * 48, GIB // 2, 98_304.0, 40960, 30_500_000_000)
SMALL = ModelMemory((3_000_000,) * 30, 30_000_000, 23_040.0, 8192, 134_515_008)


def used(shape, placed):
    """Bytes on the GPU besides the KV."""
    count = len(shape.layers) if placed.gpu_layers < 0 else placed.gpu_layers
    whole = shape.other_weights if count == len(shape.layers) else 0
    return sum(shape.layers[len(shape.layers) - count :]) + whole


@pytest.mark.parametrize("shape", [EIGHT, EXPERTS, SMALL])
def test_what_is_offloaded_fits_beside_its_kv(shape):
    """Whatever memory a GPU has, the offloaded weights, the KV that is counted on and the margin are not more; all fits a large one."""
    chosen = []
    for mib in range(0, 48 * 1024, 256):
        free = mib << 20
        placed = offload(shape, [free], [free])
        if placed.gpu_layers:
            assert used(shape, placed) + placed.kv_bytes + COMPUTE_BUFFER_BYTES + MEMORY_MARGIN * free <= free + 1
            share = 1 if placed.gpu_layers < 0 else placed.gpu_layers / len(shape.layers)
            assert placed.kv_bytes >= share * shape.kv_bytes_per_token * MIN_SEQUENCES * 4096 * 0.999
        chosen.append(used(shape, placed))
    assert all(a <= b for a, b in pairwise(chosen))
    assert chosen[0] == 0
    assert chosen[-1] == shape.weights


def test_a_gpu_smaller_than_the_model_takes_a_part_of_it():
    """A model of 5 GB goes onto a card of 4 GB in part, onto one of 12 or two of 6 whole, onto one with 300 MB free not at all."""
    assert 0 < offload(EIGHT, [4 * GIB], [4 * GIB]).gpu_layers < LAYERS
    assert offload(EIGHT, [12 * GIB], [12 * GIB]).gpu_layers == -1
    assert offload(EIGHT, [300 << 20], [8 * GIB]).gpu_layers == 0
    assert offload(EIGHT, [6 * GIB], [6 * GIB]).gpu_layers != -1
    assert offload(EIGHT, [6 * GIB, 6 * GIB], [6 * GIB, 6 * GIB]).gpu_layers == -1


def test_the_kv_is_sized_from_what_is_free():
    """A card of 24 GB gives an 8B model the long window and many sequences; one of 8 GB a shorter one before fewer than four."""
    large = offload(EIGHT, [24 * GIB], [24 * GIB])
    small = offload(EIGHT, [8 * GIB], [8 * GIB])
    window, slots = context_and_slots(EIGHT, kv_cache_budget(EIGHT, large, 16 * GIB), most=32)
    shorter, fewer = context_and_slots(EIGHT, kv_cache_budget(EIGHT, small, 16 * GIB), most=32)

    assert (window, slots) == (16384, 7)
    assert shorter == 4096
    assert fewer >= MIN_SEQUENCES


def test_without_a_gpu_half_of_what_is_free_beside_the_weights_is_for_the_kv():
    """A laptop with 16 GiB free runs an 8B model; a model below a billion parameters keeps its window of 4096 and gets all slots."""
    none = offload(EIGHT, [], [])
    window, slots = context_and_slots(EIGHT, kv_cache_budget(EIGHT, none, 16 * GIB), most=32)

    assert none.gpu_layers == 0
    assert slots >= MIN_SEQUENCES
    assert window * slots * EIGHT.kv_bytes_per_token <= 0.5 * (16 * GIB - EIGHT.weights)
    assert context_and_slots(SMALL, kv_cache_budget(SMALL, none, 16 * GIB), most=32) == (4096, 32)


def test_too_little_memory_still_gives_the_least():
    """Where nothing fits, one sequence of the shortest window is tried: the real context says whether it works."""
    assert context_and_slots(EIGHT, kv_cache_budget(EIGHT, offload(EIGHT, [], []), GIB), most=32) == (256, 1)
