"""Small indexes that are made without a chat model, and questions to them."""

import asyncio
from contextlib import contextmanager

from localrag.asking import answer_question
from localrag.indexing.pipeline import build_index
from localrag.project import open_for_writing
from localrag.query.question import QueryOptions
from tests.conftest import write_documents


@contextmanager
def index_of(folder, documents, **options):
    """An index of documents (name → text) in a folder, open for writing."""
    write_documents(folder, documents)
    with open_for_writing(folder / ".localrag", extractor="phrases") as opened:
        asyncio.run(build_index([folder], opened, lambda _: None, **options))
        yield opened


def ask(project, question, mode="auto", **options):
    return asyncio.run(answer_question(question, project, QueryOptions(mode, **options)))
