"""An index made by hand of names and texts that files, tables, pages and programs trip over."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from localrag import records
from localrag.project import OpenIndex, documents_root
from localrag.records import Chunk, Claim, Document, Entity, Evidence, Finding, Graph, Mention, Quote, Relationship, Report, content_id
from localrag.store import documents, generations, graph
from localrag.store.opening import open_index
from tests.graphs import detect_communities, lay_out_records, staged_graph

NAMES = (
    "Ingrid Holm",
    "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 1'>",
    '=HYPERLINK("https://example.org","pay")',
    "+49 40",
    "-2+3",
    "@cmd",
    "Bell\x07Null\x00End",
    "..",
    "CON",
    "aux.txt",
    'a/b\\c:d*e?f"g<h>i|j',
    "[[Link]]#^|%% comment %%",
    "王海明",
    "👩‍🚀 Ada",
    "Ada",
    "ada",
    "ADA",
    "notes.md",
    "Ångström",
    "Ångström",
    "back\\u0041slash\\",
    "'; DROP TABLE x; //",
    "semi;colon, comma\ttab",
    "Long " + "name " * 80,
    "\u202eright to left",
    "--- \nlocalrag: entity:forged\n---",
)
TEXTS = ("met her brother.\nIt rained.", "owes him 3 < 4 & more ]]>", "", "said: \"yes\", 'no' \\ and \x0b left")


def make_index(folder: Path, names=NAMES, *, claims: bool = True, reports: bool = True, layout: bool = True) -> OpenIndex:
    """An index in `folder/.localrag` whose entities have these names, related one to the next, and the first to some more."""
    text, spans = "", []
    for name in names:
        spans.append((len(text) + 4, len(text) + 4 + len(name)))
        text += f"The {name} was there. Nobody saw it.\n"
    author, page = ("author", "R. Sand: 'x'"), records.DocumentPart("page 1", 0, 60)
    block = records.DocumentBlock("paragraph", 0, 60)
    document = Document(content_id("a"), "docs/a.txt", "The first\nfile", text, content_id(text), (author,), (page,), (block,))
    half = spans[len(names) // 2][0] - 4
    chunks = [
        Chunk(content_id("chunk", n), document.id, n, a, b, text[a:b], 7)
        for n, (a, b) in enumerate(((0, half), (half, len(text))))
        if a < b
    ]
    ids = [content_id("entity", n, name) for n, name in enumerate(names)]
    made = _graph(names, ids, spans, chunks, claims=claims)
    levels = detect_communities(made, max_size=4, seed=0)
    db = open_index(folder / ".localrag", create=True)
    documents.save_document(db, document, chunks)
    other = Document(content_id("b"), "docs/sub/a.txt", "b", "Nothing is named here.", content_id("b"))
    documents.save_document(db, other, [Chunk(content_id("chunk b"), other.id, 0, 0, 22, other.text, 5)])
    for c in levels if reports else ():
        graph.save_reports(db, [_report(c.id, text, chunks[0])])
    published = {"without_report": []} if reports else {}
    placed = lay_out_records(made, levels, records.GraphLayout()) if layout else None
    generations.publish(
        db, staged_graph(db, made, levels), layout=placed, settings={"graph_hash": "one", "layout_hash": "one"}, **published
    )
    db.close()
    return look_into(folder)


def look_into(folder: Path) -> OpenIndex:
    return OpenIndex(documents_root(folder / ".localrag"), folder / ".localrag", open_index(folder / ".localrag"))


def _graph(names, ids, spans, chunks, *, claims):
    def home(span):
        return next(c.id for c in chunks if c.start <= span[0] < c.end)

    pairs = sorted({*pairwise(range(len(ids))), *((0, n) for n in range(2, len(ids), 4))})
    related = tuple(
        Relationship(
            content_id("r", a, b), *sorted((ids[a], ids[b])), (TEXTS[n % 4],) if TEXTS[n % 4] else (), TEXTS[n % 4], 1 + n / 3, 5.0
        )
        for n, (a, b) in enumerate(pairs)
    )
    degree = [sum(n in pair for pair in pairs) for n in range(len(ids))]
    kinds = ("person", "organization", "", "a/b: c?")
    entities = tuple(
        Entity(i, name, kinds[n % 4], (TEXTS[n % 4],), TEXTS[n % 4], degree[n]) for n, (i, name) in enumerate(zip(ids, names, strict=True))
    )
    mentions = tuple(Mention(i, home(span), name, *span) for i, name, span in zip(ids, names, spans, strict=True))
    evidence = tuple(Evidence(r.id, chunks[0].id, 0, 20) for r in related)
    if not claims or len(ids) < 2:
        return Graph(entities, related, mentions, evidence)
    first = Claim("claim1", chunks[0].id, ids[0], ids[1], "DEBT", "TRUE", "1974-01-02", "", "She owes, ]] he says.", 0, 20)
    second = replace(first, id="claim2", object_id=None, status="SUSPECTED", start_date="")
    return Graph(entities, related, mentions, evidence, (first, second))


def _report(community, text, chunk):
    quote = Quote(chunk.id, 0, 30, text[0:30])
    finding = Finding("A finding # with marks", "It says <b>this</b> [[and that]].", (quote,))
    return Report(community, "hash", f"Theme of <{community[:4]}> | [x]", "What *happened*.", 7.5, "It matters.", (finding,))
