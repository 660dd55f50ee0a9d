"""Retrievers for other frameworks, over the passages of an index."""

import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike

from localrag.index import Index, SearchHit


def searcher(path: str | PathLike[str] | None, reranker: str | None = None) -> Callable[[str, int], list[SearchHit]]:
    """A function (query, k) → passages that any thread may call; the index itself belongs to one thread.

    Raises NoIndex.
    """
    thread = ThreadPoolExecutor(1, "localrag")
    index = thread.submit(lambda: Index.open(path, reranker=reranker)).result()

    def found(query: str, k: int) -> list[SearchHit]:
        return thread.submit(index.search, query, k).result()

    weakref.finalize(found, thread.submit, index.close).atexit = False  # at exit the thread has ended
    return found
