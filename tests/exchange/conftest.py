"""The index made by hand, once for all tests that only read it."""

import pytest

from tests.exchange.made import make_index


@pytest.fixture(scope="package")
def opened(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("exchange"))
