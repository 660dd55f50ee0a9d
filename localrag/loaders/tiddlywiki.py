"""TiddlyWiki: a wiki in one web page, which keeps its tiddlers as JSON in a script."""

import json
from contextlib import suppress
from typing import Any


def tiddlers(root: Any) -> str:
    """The text of a wiki's tiddlers, each below its title, without those of the program; empty for other pages."""
    texts = []
    for script in root.iterfind(".//script[@class='tiddlywiki-tiddler-store']"):
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            texts += [f"# {one['title']}\n\n{one.get('text', '').strip()}" for one in json.loads(script.text) if one["title"][:3] != "$:/"]
    return "\n\n".join(texts)
