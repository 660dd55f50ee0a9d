"""What tests of answers share."""

import pytest

from localrag.engine.embedder import open_embedder
from localrag.model_files import find_embedder


@pytest.fixture(scope="session")
def embed(home):
    """The vectors of texts, by the bundled embedder."""
    return open_embedder(find_embedder(None)).embed
