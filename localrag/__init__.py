"""Questions to your own documents, answered offline by local models with sources that can be checked."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Before any library that knows a model hub is imported: none of them may look for one.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.1.0"
_HOMES = {
    "Answer": "records",
    "Exported": "exchange.export",
    "Index": "library",
    "LocalragError": "errors",
    "Outcome": "index.pipeline",
    "Passage": "library",
    "Progress": "index.progress",
    "Selection": "where",
}
__all__ = ["Answer", "Exported", "Index", "LocalragError", "Outcome", "Passage", "Progress", "Selection"]

if TYPE_CHECKING:
    from localrag.errors import LocalragError
    from localrag.exchange.export import Exported
    from localrag.index.pipeline import Outcome
    from localrag.index.progress import Progress
    from localrag.library import Index, Passage
    from localrag.records import Answer
    from localrag.where import Selection


def __getattr__(name: str) -> Any:
    """The library's names, loaded when they are used: the command line's help must not wait for numpy."""
    if name in _HOMES:
        return getattr(import_module(f"localrag.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'localrag' has no attribute {name!r}")
