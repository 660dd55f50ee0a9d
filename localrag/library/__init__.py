"""The library: an index of documents that is made, updated, asked and looked into.

    from localrag import Index

    with Index.create("notes") as index:
        index.add("notes")
        print(index.ask("Who approved the budget?").answer)

An `Index` belongs to the thread that opened it. Several processes may ask one index while another adds to it.
"""

from localrag.library.index import Adding, Asking, Index, Passage

__all__ = ["Adding", "Asking", "Index", "Passage"]
