"""One book as plain text, as a web page and as a PDF: the graph hardly depends on the format it came in."""

import html
import re
from collections import Counter
from itertools import combinations

import pytest

from localrag.engine.tokenizer import Tokenizer
from localrag.indexing.documents import split_document
from localrag.indexing.extraction.names import DocumentCasing
from localrag.indexing.extraction.nlp import extract_noun_phrases
from localrag.indexing.graph.entity_resolution import name_key
from localrag.loaders.reader import load_files
from localrag.text.sentences import collapse_whitespace
from tests.conftest import DATA
from tests.indexing.files import pdf_of
from tests.indexing.graph.in_memory_graph import build_graph_in_memory

BOOK = DATA / "texts" / "christmas_carol.txt"
WIDTH, LINES = 66, 44  # of a page: characters a line, lines
BREAK = "<br>\n"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not BOOK.exists(), reason=f"the book is not here ({BOOK})")]


def kept_lines(paragraph):
    """The lines whose ends mean something, of a list or a verse; prose is one line."""
    lines = [" ".join(line.split()) for line in paragraph.split("\n")]
    is_set = max(map(len, lines)) < 55 or all(line.startswith("  ") for line in paragraph.split("\n")[1:] or [""])
    return lines if is_set else [" ".join(lines)]


def web_page(paragraphs):
    """Paragraphs as <p>, prose with the line ends of the source, as hand-made pages have it."""
    body = "\n".join(
        f"<p>{BREAK.join(map(html.escape, lines)) if len(lines) > 1 else html.escape(p)}</p>"
        for p, lines in ((p, kept_lines(p)) for p in paragraphs)
    )
    return f"<!DOCTYPE html>\n<html><head><meta charset='utf-8'><title>A Christmas Carol</title></head><body>\n{body}\n</body></html>"


def set_lines(text):
    """The lines a typesetter makes of a text; a long word that does not fit is divided."""
    lines, line = [], ""
    for word in text.split():
        room = WIDTH - len(line) - 2
        if len(line) + 1 + len(word) <= WIDTH:
            line = f"{line} {word}".strip()
        elif word.isalpha() and len(word) >= 9 and room >= 5:
            lines.append(f"{line} {word[:4]}-")
            line = word[4:]
        else:
            lines.append(line)
            line = word
    return [*lines, line]


def book_pdf(paragraphs):
    """A PDF of pages with a number at their foot, half a line between paragraphs."""
    pages, height = [[]], 0.0
    for paragraph in paragraphs:
        for n, line in enumerate(line for kept in kept_lines(paragraph) for line in set_lines(kept)):
            if height > LINES:
                pages.append([])
                height = 0.0
            pages[-1].append((line, n == 0))
            height += 1.7 if n == 0 else 1
    return pdf_of([drawn(lines, number) for number, lines in enumerate(pages, 1)])


def drawn(lines, number):
    """The instructions that draw a page."""
    shown = "".join(f"0 {-24 if first else -14} Td ({_SIGN.sub(_ESCAPED, line)}) Tj\n" for line, first in lines)
    return f"BT /F1 12 Tf 50 790 Td\n{shown}ET BT /F1 12 Tf 290 30 Td ({number}) Tj ET"


_SIGN, _ESCAPED = re.compile(r"([()\\])"), r"\\\1"


def names_of(document, count):
    """The entities of a document that are mentioned twice or more, by name, without regard to case and article."""
    # Counted without their line ends, which only plain text has: they would shift the cuts, and with them which phrases fill up a chunk.
    chunks = split_document(document, lambda texts: [count(collapse_whitespace(t)) for t in texts], size=600, overlap=60)
    case = DocumentCasing(document.text)
    graph = build_graph_in_memory([extract_noun_phrases(c, case) for c in chunks], {c.id: c for c in chunks})
    often = Counter(entity for entity, _ in {(m.entity_id, m.start) for m in graph.mentions})
    return {name_key(e.name) for e in graph.entities if often[e.id] > 1}


def test_a_book_has_the_same_entities_in_every_format(tmp_path, chat_file):
    """Of all names that two formats give to the five staves, mentioned twice or more, 95 of 100 are given by both (Jaccard)."""
    text = BOOK.read_text(encoding="utf-8-sig")
    text = text[text.index("STAVE ONE\n\n") : text.index("*** END OF")]
    paragraphs = [p.strip("\n") for p in re.split(r"\n\s*\n", text) if p.strip()]
    files = {"txt": text.encode(), "html": web_page(paragraphs).encode(), "pdf": book_pdf(paragraphs)}
    for kind, content in files.items():
        (tmp_path / f"book.{kind}").write_bytes(content)
    count = Tokenizer(chat_file).count

    documents = list(load_files([tmp_path / f"book.{kind}" for kind in files], tmp_path))
    names = {kind: names_of(document, count) for kind, document in zip(files, documents, strict=True)}

    for a, b in combinations(names, 2):
        common = len(names[a] & names[b]) / len(names[a] | names[b])
        assert common >= 0.95, f"{a} and {b}: {common:.3f}; only one has {sorted(names[a] ^ names[b])}"
