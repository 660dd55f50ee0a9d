"""Retrievers for LangChain and LlamaIndex over the passages of an index; each needs its library."""

import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import PathLike
from typing import Any

from localrag.index import Index, SearchHit
from localrag.system.resources import require_extra

IndexPath = str | PathLike[str] | None


def langchain_retriever(path: IndexPath = None, k: int = 10, reranker: str | None = None) -> Any:
    """A LangChain retriever of the `k` passages of the index at `path` that are most relevant to a query. Raises NoIndex."""
    require_extra("langchain", "langchain_core")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    search, close = _searcher(path, reranker)

    class LocalragRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:  # noqa: ARG002
            return [Document(page_content=p.text, metadata=_place(p) | {"score": p.score}) for p in search(query, k)]

    return _close_with(LocalragRetriever(), close)


def llama_index_retriever(path: IndexPath = None, k: int = 10, reranker: str | None = None) -> Any:
    """A LlamaIndex retriever of the `k` passages of the index at `path` that are most relevant to a query. Raises NoIndex."""
    require_extra("llama-index", "llama_index")
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    search, close = _searcher(path, reranker)

    class LlamaIndexRetriever(BaseRetriever):  # type: ignore[misc]  # its library is not checked
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            hits = search(query_bundle.query_str, k)
            return [NodeWithScore(node=TextNode(text=p.text, metadata=_place(p)), score=p.score) for p in hits]

    return _close_with(LlamaIndexRetriever(), close)


def _place(hit: SearchHit) -> dict[str, Any]:
    return {"source": hit.path, "part": hit.part, "start": hit.start, "end": hit.end}


def _searcher(path: IndexPath, reranker: str | None) -> tuple[Callable[[str, int], list[SearchHit]], Callable[[], object]]:
    """A function (query, k) → passages, and one that closes the index, which any thread may call; the index belongs to one thread."""
    thread = ThreadPoolExecutor(1, "localrag")
    index = thread.submit(lambda: Index.open(path, reranker=reranker)).result()

    def search(query: str, k: int) -> list[SearchHit]:
        return thread.submit(index.search, query, k).result()

    return search, partial(thread.submit, index.close)


def _close_with(retriever: Any, close: Callable[[], object]) -> Any:
    weakref.finalize(retriever, close).atexit = False  # at exit the thread has ended
    return retriever
