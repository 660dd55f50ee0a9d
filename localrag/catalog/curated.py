"""The models worth getting, and which of them suits this machine."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from localrag.catalog.about import BESIDE, fits
from localrag.system.cores import free_cores

# From so many cores on, bytes of weights that they read fast enough: a token costs one reading.
_FOR_CORES = ((8, 5_100_000_000), (4, 2_600_000_000), (0, 1_200_000_000))


@dataclass(frozen=True, slots=True)
class Curated:
    """A model of the list: where it is on the hub, `size` in bytes, `window` in tokens, and what it is good for."""

    name: str
    kind: str
    repo: str
    quant: str
    parameters: str
    size: int
    window: int
    licence: str
    languages: str
    good_for: str
    best: bool = False

    @property
    def needs(self) -> int:
        """Bytes of memory that it needs, about: weights, KV of four short windows, and localrag itself."""
        return round(1.15 * self.size) + BESIDE


def curated() -> list[Curated]:
    """The list, by kind, small to large."""
    table = tomllib.loads((Path(__file__).parent / "curated.toml").read_text(encoding="utf-8"))
    return [Curated(name, kind, **values) for kind, models in table.items() for name, values in models.items()]


def quick_enough(size: int) -> bool:
    """Whether the cores that are free here read so many bytes of weights fast enough for indexing to take hours, not days."""
    return size <= next(most for cores, most in _FOR_CORES if free_cores() >= cores)


def best_chat_model(gpu_memory: int) -> Curated | None:
    """The largest chat model to take on this machine: one the GPU holds whole, or one its cores are quick enough for; None for none.

    `gpu_memory`: bytes of the largest GPU, 0 without one.
    """
    good = [m for m in curated() if m.kind == "chat" and m.best]
    here = [m for m in good if m.needs <= gpu_memory or (quick_enough(m.size) and fits(m.needs) == "fits")]
    return max(here, key=lambda m: m.size, default=None)
