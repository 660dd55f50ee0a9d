"""The index made by hand, and the database of a real one, once for all tests that only read them."""

import pytest

from tests.exchange.made import make_index


@pytest.fixture(scope="package")
def opened(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("exchange"))


@pytest.fixture(scope="module")
def database(plain_town):
    return (plain_town / ".localrag" / "index.db").read_bytes()
