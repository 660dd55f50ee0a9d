"""How often Python's garbage collector looks for reference cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (
    20_000  # container objects more than were freed, after which it runs; with Python's own 700 it takes a tenth of a hundred edits' time
)


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Run the garbage collector less often, for work on many rows: their objects form no cycles and are freed without it."""
    often = gc.get_threshold()
    gc.set_threshold(SELDOM, *often[1:])
    try:
        yield
    finally:
        gc.set_threshold(*often)
