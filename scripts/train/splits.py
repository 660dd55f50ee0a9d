"""Which part of a labelled set is kept from training, and random choices that are the same in every run."""

import random
from hashlib import blake2b


def part(group: str) -> str:
    """`kept` for a fifth of all groups, else `train`."""
    return "kept" if blake2b(group.encode(), digest_size=1).digest()[0] % 5 == 0 else "train"


def rng_of(key: str) -> random.Random:
    """Random numbers that depend only on a key."""
    return random.Random(blake2b(key.encode(), digest_size=8).digest())
