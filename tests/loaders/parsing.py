"""What the parsers make of bytes, in this process; the confined one is held by test_load.py and test_sandbox.py."""

import csv

from localrag.loaders.content import InnerFile, LoadOptions
from localrag.loaders.parser_process import parse_file


def parsed(name, data, options=LoadOptions()):  # noqa: B008
    """The content of a file of this name, with these bytes or this text."""
    limit = csv.field_size_limit()
    try:
        return parse_file(InnerFile(name, -1, data if isinstance(data, bytes) else data.encode()), options)
    finally:
        csv.field_size_limit(limit)  # a parser of tables sets it, for its own process


def text_of(name, data, options=LoadOptions()):  # noqa: B008
    return parsed(name, data, options).text
