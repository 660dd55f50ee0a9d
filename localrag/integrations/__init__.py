"""Retrievers for other frameworks, over the passages of an index."""

import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike

from localrag.library import Index, Passage


def searcher(path: str | PathLike[str] | None, reranker: str | None = None) -> Callable[[str, int], list[Passage]]:
    """A function (query, k) → passages that any thread may call: frameworks do, and an index belongs to one thread.

    Raises NoIndex.
    """
    thread = ThreadPoolExecutor(1, "localrag")
    index = thread.submit(lambda: Index.open(path, reranker=reranker)).result()

    def found(query: str, k: int) -> list[Passage]:
        return thread.submit(index.search, query, k).result()

    weakref.finalize(found, thread.submit, index.close).atexit = False  # then there are no threads any more
    return found
