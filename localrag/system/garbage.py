"""How often Python looks for objects that refer to each other in a circle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 20_000  # more objects than those that went before it is done; Python's own 700 take a tenth of the time of a hundred edits


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Look seldom, for work on many rows, whose objects are in no circle and go as soon as nothing refers to them."""
    often = gc.get_threshold()
    gc.set_threshold(SELDOM, *often[1:])
    try:
        yield
    finally:
        gc.set_threshold(*often)
