"""Working folders of LightRAG and nano-graphrag are taken over. The folders are written as those programs' default stores write them."""

import json
import shutil
from hashlib import md5
from xml.sax.saxutils import quoteattr

import pytest

from localrag.errors import UsageError
from localrag.exchange.foreign import read_lightrag, read_nano_graphrag
from localrag.store import documents as documents_store
from localrag.store import generations, graph
from localrag.store.opening import open_index
from tests.conftest import TOWN, run_localrag

ENTITIES = {
    "Ingrid Holm": ("person", "Ingrid Holm bought the ferry Skua.", ("a.md", "b.txt")),
    "Skua": ("artifact", "The Skua is a ferry.<SEP>The Skua leaks.", ("a.md", "b.txt")),
    "Northern Line": ("organization", "The company that sold the Skua.", ("a.md", "b.txt")),
    "Ruth Sand": ("person", "The mayor.", ("b.txt",)),
    "Harbour Committee": ("organization", "Nobody in the text.", ("b.txt",)),
}
EDGES = [
    ("Ingrid Holm", "Skua", "Ingrid Holm owns the Skua.", 9.0, ("a.md",)),
    ("Northern Line", "Skua", "The Northern Line sold the Skua.", 14.0, ("a.md", "b.txt")),
    ("Ruth Sand", "Northern Line", "She asked it to pay.", 6.0, ("b.txt",)),
    ("Ruth Sand", "Harbour Committee", "She chairs it.", 5.0, ("b.txt",)),
]
FINDING = {"summary": "A sale", "explanation": "INGRID HOLM bought the ship."}


def key_of(text, prefix):
    return prefix + md5(text.strip().encode(), usedforsecurity=False).hexdigest()


def graphml(nodes, edges):
    """As NetworkX writes it."""
    rows = {"node": [row for _, row in nodes], "edge": [row for *_, row in edges]}
    names = {where: list(dict.fromkeys(k for row in some for k in row)) for where, some in rows.items()}
    ids = {(where, name): f"d{n}" for n, (where, name) in enumerate((w, n) for w, some in names.items() for n in some)}
    keys = "".join(
        f'<key id="{i}" for="{w}" attr.name="{n}" attr.type="{"double" if n == "weight" else "string"}" />\n' for (w, n), i in ids.items()
    )

    def data(where, row):
        return "".join(f'<data key="{ids[where, k]}">{str(v).replace("&", "&amp;").replace("<", "&lt;")}</data>' for k, v in row.items())

    body = "".join(f"<node id={quoteattr(name)}>{data('node', row)}</node>\n" for name, row in nodes)
    body += "".join(f"<edge source={quoteattr(a)} target={quoteattr(b)}>{data('edge', row)}</edge>\n" for a, b, row in edges)
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\" "
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
        f'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">{keys}<graph edgedefault="undirected">{body}</graph></graphml>'
    )


def write(folder, *, nano=False):
    """A working folder over the town's documents, a chunk each."""
    folder.mkdir()
    shown = (lambda name: f'"{name.upper()}"') if nano else (lambda name: name)
    documents, chunks = {}, {}
    for path, text in TOWN.items():
        key, own = key_of(text, "doc-"), key_of(text, "chunk-")
        documents[key] = {"content": text.strip()} | ({} if nano else {"file_path": path})
        chunks[own] = {"tokens": 60, "content": text.strip(), "chunk_order_index": 0, "full_doc_id": key}
        chunks[own] |= {} if nano else {"file_path": path, "llm_cache_list": []}
    of = {path: key_of(text, "chunk-") for path, text in TOWN.items()}

    def common(paths):
        return {"source_id": "<SEP>".join(of[p] for p in paths)} | ({} if nano else {"file_path": "<SEP>".join(paths), "created_at": 1})

    nodes = [
        (shown(name), ({} if nano else {"entity_id": name}) | {"entity_type": shown(kind), "description": text} | common(paths))
        for name, (kind, text, paths) in ENTITIES.items()
    ]
    edges = [
        (shown(a), shown(b), {"weight": w, "description": text} | ({"order": 1} if nano else {"keywords": "sale"}) | common(paths))
        for a, b, text, w, paths in EDGES
    ]
    (folder / "kv_store_full_docs.json").write_text(json.dumps(documents, indent=2, ensure_ascii=False))
    (folder / "kv_store_text_chunks.json").write_text(json.dumps(chunks, indent=2, ensure_ascii=False))
    (folder / "graph_chunk_entity_relation.graphml").write_text(graphml(nodes, edges))
    if nano:
        groups = {"0": (0, ["Ingrid Holm", "Skua", "Northern Line", "Ruth Sand", "Harbour Committee"], ["1", "2"]),
                  "1": (1, ["Ingrid Holm", "Skua"], []), "2": (1, ["Northern Line", "Ruth Sand", "Harbour Committee"], [])}  # fmt: skip
        reports = {
            key: {
                "report_string": f"# Report {key}", "level": level, "title": f"Cluster {key}", "edges": [],
                "nodes": [shown(n) for n in names], "chunk_ids": [], "occurrence": 1.0, "sub_communities": below,
                "report_json": {"title": f"The ferry trade {key}", "summary": f"What report {key} says.", "rating": 6.5,
                                "rating_explanation": "It matters.", "findings": [FINDING]},
            }
            for key, (level, names, below) in groups.items()
        }  # fmt: skip
        (folder / "kv_store_community_reports.json").write_text(json.dumps(reports, indent=2))
    return folder


@pytest.mark.parametrize("program", ["lightrag", "nano"])
def test_a_working_folder_is_taken_over(program, tmp_path):
    """What the text proves is kept, what it does not is listed; questions are answered with verbatim citations; again is a no-op."""
    write(tmp_path / "work", nano=program == "nano")
    done = run_localrag("import", program, "work", "--json", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    db = open_index(tmp_path / ".localrag")

    assert said["kept"] | {"reports": 0} == {"documents": 3, "chunks": 3, "entities": 4, "relationships": 3, "claims": 0, "reports": 0}
    assert {row["what"].casefold() for row in said["left_out"]} == {
        "entity harbour committee", "relationship ruth sand – harbour committee"}  # fmt: skip
    found = {e.name: e for e in graph.entities(db)}
    assert {"Ingrid Holm", "Skua", "Northern Line"} <= found.keys()
    assert any(name.endswith("Ruth Sand") for name in found)
    assert found["Skua"].description == "The Skua is a ferry. The Skua leaks."
    assert run_localrag("check", cwd=tmp_path).returncode == 0
    answer = json.loads(run_localrag("ask", "Who bought the ferry Skua?", "--json", cwd=tmp_path).stdout)
    assert any("Ingrid Holm bought the ferry Skua" in c["quote"] for c in answer["citations"])
    paths = sorted(documents_store.document_hashes(db))
    assert all(p.startswith("work/") for p in paths)
    assert program == "nano" or paths == ["work/a.md", "work/b.txt", "work/c.txt"]
    db.close()
    assert json.loads(run_localrag("import", program, "work", "--json", "-q", cwd=tmp_path).stdout)["known"] is True


def test_reports_of_nano_graphrag_are_kept(tmp_path):
    """With their levels, although one of their entities is nowhere in the text."""
    write(tmp_path / "work", nano=True)
    run_localrag("import", "nano", "work", "-q", cwd=tmp_path)
    db = open_index(tmp_path / ".localrag")
    reports = graph.imported_reports(db)

    assert {r.title for r in reports.values()} == {"The ferry trade 0", "The ferry trade 1", "The ferry trade 2"}
    quotes = [q.text for r in reports.values() for f in r.findings for q in f.quotes]
    assert quotes
    assert all("Ingrid Holm" in text for text in quotes)
    assert {r.rating for r in reports.values()} == {6.5}
    levels = {c.id: (c.level, len(c.entity_ids)) for c in graph.communities(db) if c.id in reports}
    assert sorted(levels.values()) == [(0, 4), (1, 2), (1, 2)]


def test_several_imports_and_own_documents_stand_beside_each_other(plain_town, tmp_path):
    """Each document under its own path, one entity for all of them, and a second import takes no community of the first."""
    shutil.copytree(plain_town, tmp_path / "town")
    write(tmp_path / "town" / "one", nano=True)
    write(tmp_path / "town" / "two", nano=False)
    reports = []
    for program, folder in (("nano", "one"), ("lightrag", "two")):
        done = run_localrag("import", program, folder, "-q", cwd=tmp_path / "town")
        assert done.returncode == 0, done.stderr
        db = open_index(tmp_path / "town" / ".localrag")
        reports.append(graph.imported_reports(db))
        paths = {p.split("/")[0] for p in documents_store.document_hashes(db)}
        db.close()
        assert run_localrag("check", cwd=tmp_path / "town").returncode == 0
    assert reports[0] == reports[1] != {}
    assert paths == {"docs", "one", "two"}


def test_an_import_that_was_stopped_is_made_good_by_the_same_command(plain_town, tmp_path, monkeypatch):
    """What was stored by then is no obstacle."""
    shutil.copytree(plain_town, tmp_path / "town")
    write(tmp_path / "town" / "work", nano=True)
    with monkeypatch.context() as patch:

        def stopped(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(generations, "publish", stopped)
        assert run_localrag("import", "nano", "work", "-q", cwd=tmp_path / "town").returncode != 0
    done = run_localrag("import", "nano", "work", "--json", "-q", cwd=tmp_path / "town")

    assert json.loads(done.stdout)["kept"]["reports"] == 3
    db = open_index(tmp_path / "town" / ".localrag")
    assert len({r.title for r in graph.imported_reports(db).values()}) == 3
    db.close()
    assert run_localrag("check", cwd=tmp_path / "town").returncode == 0


def test_folders_that_are_not_as_expected_are_refused_by_name(tmp_path):
    """With what was expected and what was found."""
    write(tmp_path / "work")
    with pytest.raises(UsageError, match=r"expected kv_store_full_docs\.json, found .*work"):
        read_lightrag(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        read_nano_graphrag(tmp_path / "nowhere")
    (tmp_path / "work" / "graph_chunk_entity_relation.graphml").write_text('<!DOCTYPE x [<!ENTITY a "aa">]><graphml>&a;</graphml>')
    with pytest.raises(UsageError, match="cannot be read"):
        read_lightrag(tmp_path / "work")
    (tmp_path / "work" / "kv_store_text_chunks.json").write_text('{"chunk-1": {"text": "x"}}')
    with pytest.raises(UsageError, match="has text, but no content"):
        read_lightrag(tmp_path / "work")
