"""One SQLite file holds everything; FAISS files beside it can be deleted at any time."""
