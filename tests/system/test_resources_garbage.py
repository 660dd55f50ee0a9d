"""The garbage collector, run less often for a while."""

import gc

import pytest

from localrag.system.resources import GC_THRESHOLD, infrequent_gc


def test_the_collector_runs_less_often_until_the_work_ends():
    """However it ends, everything is as it was before it."""
    before = gc.get_threshold()
    with pytest.raises(KeyError), infrequent_gc():
        assert gc.get_threshold()[0] == GC_THRESHOLD > before[0]
        raise KeyError

    assert gc.get_threshold() == before
