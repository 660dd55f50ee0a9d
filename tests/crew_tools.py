"""Jobs done in the process of a test."""

from types import SimpleNamespace

from localrag.config import Settings
from localrag.index.crew.here import Here
from localrag.index.jobs import Tools


def here(model=None, embed=None, **settings):
    """A crew of this process with a chat model, or a function that embeds texts."""
    return Here(Tools(model, SimpleNamespace(embed=embed), None, Settings(**settings), lambda _: ""))
