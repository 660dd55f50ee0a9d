"""LlamaIndex's retriever interface; it needs the library llama-index-core."""

from os import PathLike

from localrag.integrations import searcher
from localrag.system.resources import require_extra

require_extra("llama-index", "llama_index")
from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode  # noqa: E402


class LocalragRetriever(BaseRetriever):  # type: ignore[misc]  # its library is not checked
    """Finds the `k` passages of the index at `path` that are most relevant to a query. Raises NoIndex."""

    def __init__(self, path: str | PathLike[str] | None = None, k: int = 10, reranker: str | None = None) -> None:
        super().__init__()
        self._k, self._search = k, searcher(path, reranker)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._search(query_bundle.query_str, self._k)
        return [
            NodeWithScore(
                node=TextNode(text=p.text, metadata={"source": p.path, "part": p.part, "start": p.start, "end": p.end}), score=p.score
            )
            for p in hits
        ]
