"""Questions to your own documents, answered offline by local models with sources that can be checked."""

import os
from typing import TYPE_CHECKING, Any

# Before any library that knows a model hub is imported: none of them may look for one.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.1.0"
__all__ = ["Answer", "Exported", "Index", "LocalragError", "Outcome", "Passage", "Progress", "Selection"]

if TYPE_CHECKING:
    from localrag.library import Answer, Exported, Index, LocalragError, Outcome, Passage, Progress, Selection


def __getattr__(name: str) -> Any:
    """The library's names, loaded when they are used: the command line's help must not wait for numpy."""
    if name in __all__:
        from localrag import library

        return getattr(library, name)
    raise AttributeError(f"module 'localrag' has no attribute {name!r}")
