"""The one who hands out jobs, alone: bundles that are made up go through it to the stored rows, and it is killed on the way."""

import pytest

from tests.conftest import run_module


@pytest.mark.slow
def test_ten_million_tokens_are_handed_out_and_stored_though_it_is_killed_ten_times(tmp_path):
    """Every answer and every extraction is there, once; what the script prints is its speed."""
    said = run_module("scripts.measure.scale_crew", "driver", tmp_path / ".localrag", "--chunks", 17_504, "--kill", 10)

    (row,) = [line.split("|") for line in said.splitlines() if line.startswith("| 17504")]
    assert 1 <= int(row[2]) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("kill", [0, 8])
def test_sixty_four_workers_of_unequal_speed_are_kept_at_work(kill):
    """All chunks are done, also where eight workers end half-way."""
    said = run_module("scripts.measure.scale_crew", "workers", "--seconds", 20, "--speed-up", 45, "--kill", kill)

    assert "| 64" in said
