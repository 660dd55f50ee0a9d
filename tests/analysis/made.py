"""Indexes of a few short documents, to make tables of."""

from localrag.index import Index
from tests.conftest import write_documents


def make_index(folder, documents, extractor="phrases"):
    """The folder, in which an index of documents (name → text) is made."""
    write_documents(folder, documents)
    with Index.create(folder, extractor=extractor) as index:
        index.add(folder)
    return folder
