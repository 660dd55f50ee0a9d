"""LangChain's retriever interface; it needs the library langchain-core."""

from collections.abc import Callable
from typing import Any

from pydantic import PrivateAttr

from localrag.index import SearchHit
from localrag.integrations import searcher
from localrag.system.resources import require_extra

require_extra("langchain", "langchain_core")
from langchain_core.callbacks import CallbackManagerForRetrieverRun  # noqa: E402
from langchain_core.documents import Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402


class LocalragRetriever(BaseRetriever):
    """Finds the `k` passages of the index at `path` that are most relevant to a query. Raises NoIndex."""

    path: str | None = None
    k: int = 10
    reranker: str | None = None
    _search: Callable[[str, int], list[SearchHit]] = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the index."""
        super().model_post_init(context)
        self._search = searcher(self.path, self.reranker)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:  # noqa: ARG002
        hits = self._search(query, self.k)
        return [
            Document(page_content=p.text, metadata={"source": p.path, "part": p.part, "start": p.start, "end": p.end, "score": p.score})
            for p in hits
        ]
