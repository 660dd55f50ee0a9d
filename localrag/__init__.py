"""Questions to your own documents, answered offline by local models with verifiable sources."""

import os

TYPE_CHECKING = False  # without an import: until `__main__` runs, `python -m localrag` would find it in the working folder
if TYPE_CHECKING:
    from typing import Any

    from localrag.errors import LocalragError
    from localrag.exchange.export import ExportResult
    from localrag.filters import DocumentFilter
    from localrag.index import Index, SearchHit
    from localrag.indexing.pipeline import IndexResult
    from localrag.indexing.progress import RunProgress
    from localrag.records import Answer

# Set before any library with access to a model hub is imported: none may connect to one.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__version__ = "0.1.0"
_MODULES = {
    "Answer": "records",
    "ExportResult": "exchange.export",
    "Index": "index",
    "LocalragError": "errors",
    "IndexResult": "indexing.pipeline",
    "SearchHit": "index",
    "RunProgress": "indexing.progress",
    "DocumentFilter": "filters",
}
__all__ = ["Answer", "DocumentFilter", "ExportResult", "Index", "IndexResult", "LocalragError", "RunProgress", "SearchHit"]


def __getattr__(name: str) -> "Any":
    """Import a public name on first use, so that the command line's help does not wait for numpy."""
    from importlib import import_module

    if name in _MODULES:
        return getattr(import_module(f"localrag.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'localrag' has no attribute {name!r}")
