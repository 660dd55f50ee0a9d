"""What fits: how many layers go to the GPU, how long a window and how many sequences the free memory holds. Plain arithmetic.

The numbers are estimates with a margin; that they hold is tried with the real context in a process of its own before they are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from localrag.engine.shape import Shape

MIB = 1 << 20
MARGIN = 0.05  # of a device's memory, besides COMPUTE, that stays free
COMPUTE = 400 * MIB  # of a GPU: llama.cpp's buffers of a step, the driver's context
KV_SHARE = 0.5  # of the memory that is free beside the weights: the rest is for the embedder, FAISS, and other programs
LARGE = 1_000_000_000  # parameters from which on a model gets the longer window
WINDOWS = (16384, 8192, 4096, 2048, 1024, 512, 256)  # cells of a sequence
SMALL_WINDOW = 4096  # of a model below LARGE
ENOUGH = 4  # sequences at once, for which a shorter window is taken


@dataclass(frozen=True, slots=True)
class Offload:
    """What goes to the GPU: so many layers (-1: all), without the experts of the first `cpu_experts`; bytes left there for KV."""

    gpu_layers: int = 0
    cpu_experts: int = 0
    left: int = 0


def offload(shape: Shape, free: Sequence[int], totals: Sequence[int], *, layers: int | None = None) -> Offload:
    """As much of the model as the free bytes of the GPUs hold beside a KV of ENOUGH small windows; experts stay on the CPU first.

    `layers`: a number of layers given by hand, for which only the KV is sized.
    """
    room = sum(max(0, f - COMPUTE - int(MARGIN * t)) for f, t in zip(free, totals, strict=True))
    least = shape.kv * ENOUGH * min(SMALL_WINDOW, shape.window)
    if layers is not None:
        count = len(shape.layers) if layers < 0 else min(layers, len(shape.layers))
        return Offload(layers, 0, max(0, room - _offloaded(shape, count)))
    whole = _offloaded(shape, len(shape.layers))
    if whole + least <= room:
        return Offload(-1, 0, room - whole)
    apart = len(shape.layers) if any(shape.experts) else 0
    for kept in range(1, apart + 1):
        whole -= shape.experts[kept - 1]
        if whole + least <= room:
            return Offload(-1, kept, room - whole)
    for count in range(len(shape.layers) - 1, 0, -1):
        used = _offloaded(shape, count) - sum(shape.experts[len(shape.layers) - count :])
        if used + least * count / len(shape.layers) <= room:
            return Offload(count, apart, room - used)
    return Offload()


def _offloaded(shape: Shape, count: int) -> int:
    """Bytes of the last `count` layers, which are the ones llama.cpp offloads; all of them take the output along."""
    all_of_it = count == len(shape.layers)
    return sum(shape.layers[len(shape.layers) - count :]) + (shape.rest if all_of_it else 0)


def kv_room(shape: Shape, placed: Offload, free: int | None) -> float:
    """Bytes that the KV may take, the whole of it, where `placed` is offloaded and `free` bytes of the computer's memory are free."""
    share = 1.0 if placed.gpu_layers < 0 else placed.gpu_layers / max(1, len(shape.layers))
    of_ram = KV_SHARE * max(0, (free if free is not None else 8 << 30) - shape.weights * (placed.gpu_layers >= 0))
    return min(placed.left / share if share else of_ram, of_ram / (1 - share) if share < 1 else placed.left)


def window_and_slots(shape: Shape, room: float, *, most: int, context: int | None = None, slots: int | None = None) -> tuple[int, int]:
    """Cells of a sequence and how many sequences (at most `most`) a KV of `room` bytes holds; `context` and `slots` given by hand hold.

    A shorter window is taken before there are fewer than ENOUGH sequences.
    """
    wanted = max(WINDOWS) if shape.parameters >= LARGE else SMALL_WINDOW
    windows = [context] if context else [w for w in WINDOWS if w <= wanted and w < 2 * shape.window]
    for enough in (slots,) if slots else (min(ENOUGH, most), 1):
        for window in windows:
            held = int(room / max(1.0, shape.kv * min(window, shape.window)))
            if held >= enough:
                return window, slots or min(held, most)
    return windows[-1], slots or 1
