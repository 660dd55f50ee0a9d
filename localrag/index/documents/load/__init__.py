"""Files → Documents: find them, read each in a process of its own that nothing can take down with it, list the rest with its reason."""

from localrag.index.documents.load.content import Options
from localrag.index.documents.load.digests import Digests
from localrag.index.documents.load.files import OF_AN_INDEX, Sources, check_paths, find_files, is_index, is_there, stored_path
from localrag.index.documents.load.parse import BINARY, FORMATS, WITH_SCANS
from localrag.index.documents.load.reader import USUAL, Confined, Limits, content_hash_of, is_current, load_all

__all__ = [
    "BINARY",
    "FORMATS",
    "OF_AN_INDEX",
    "USUAL",
    "WITH_SCANS",
    "Confined",
    "Digests",
    "Limits",
    "Options",
    "Sources",
    "check_paths",
    "content_hash_of",
    "find_files",
    "is_current",
    "is_index",
    "is_there",
    "load_all",
    "stored_path",
]
