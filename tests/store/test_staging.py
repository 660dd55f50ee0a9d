"""What a graph is made from: which documents are compared with it, and which are others than it has them."""

import pytest

from localrag.records import ExtractedEntity, Extraction
from localrag.store import chunks as chunks_store
from localrag.store import documents, generations, staging
from localrag.store.opening import open_index
from localrag.store.staging import GraphStaging
from tests.store.test_generations import add

RECIPES = ["varying", "model", "phrases"]  # the first that was used on a chunk counts


@pytest.fixture
def db(tmp_path):
    """The writer of an index of three documents, whose published graph is made from what phrases gave."""
    made = open_index(tmp_path / "index", create=True)
    for path in ("a.txt", "b.txt", "c.txt"):
        extract(made, add(made, path, f"Ingrid Holm wrote {path}."), "phrases")
    publish(made)
    return made


def extract(db, chunks, recipe, name="Ingrid Holm"):
    """Store what a recipe found in chunks."""
    chunks_store.save_extractions(db, recipe, [Extraction(c.id, (ExtractedEntity(name, "person", ""),), ()) for c in chunks])


def publish(db):
    """A graph of what there is."""
    with generations.view_next_generation(db), staging.select_extractions(db, RECIPES, ["varying"], every=False):
        changed, gone = staging.documents_changed_since_graph(db)
        staged = GraphStaging(db)
        for document in (*changed, *gone):
            old = staged.select("graph_inputs", "t.document_id = ?", [document])
            staged.replace("graph_inputs", old, staging.graph_input_rows(db, document))
        generations.publish(db, staged)


def others(db, *, every=False):
    """The documents that are compared, those that changed, by path, and how many are gone."""
    with generations.view_next_generation(db), staging.select_extractions(db, RECIPES, ["varying"], every=every):
        changed, gone = staging.documents_changed_since_graph(db)
        compared = [key for (key,) in db.execute("SELECT document_id FROM looked_at")]
        path = dict(db.execute("SELECT id, path FROM documents"))
        return sorted(path.get(d, "") for d in compared), [path[d] for d in changed], len(gone)


def test_after_a_publication_nothing_is_compared(db):
    """But everything where that is asked for, because the recipes are others."""
    assert others(db) == ([], [], 0)
    assert others(db, every=True) == (["a.txt", "b.txt", "c.txt"], [], 0)


@pytest.mark.parametrize(("recipe", "changed"), [("phrases", []), ("model", ["b.txt"]), ("varying", ["b.txt"]), ("unknown", [])])
def test_what_was_extracted_from_one_document_is_compared_for_that_one(db, recipe, changed):
    """It is another where a recipe of more weight was used, not where the same one was used again or one that does not count."""
    chunks = [c for c in chunks_store.all_chunks(db) if "b.txt" in c.text]

    extract(db, chunks, recipe)

    assert others(db) == (["b.txt"], changed, 0)


def test_a_recipe_that_varies_counts_by_what_it_gave(db):
    """What it gave again makes no other graph, something else does; taken back, what another recipe gave counts."""
    chunks = [c for c in chunks_store.all_chunks(db) if "b.txt" in c.text]
    extract(db, chunks, "varying")
    publish(db)

    extract(db, chunks, "varying")
    assert others(db) == (["b.txt"], [], 0)
    extract(db, chunks, "varying", name="Magnus Ostler")
    assert others(db) == (["b.txt"], ["b.txt"], 0)
    publish(db)
    chunks_store.delete_extractions(db, "varying", [c.id for c in chunks])
    assert others(db) == (["b.txt"], ["b.txt"], 0)


def test_documents_that_are_new_edited_moved_or_gone_are_compared(db):
    """A new one once something was extracted from it, though it was published before that."""
    extract(db, add(db, "a.txt", "Ingrid Holm wrote more."), "phrases")
    documents.remove_document(db, "c.txt")
    new = add(db, "d.txt", "Ingrid Holm wrote d.txt.")
    generations.publish(db)
    documents.remove_document(db, "b.txt")
    extract(db, add(db, "e.txt", "Ingrid Holm wrote b.txt.", moved=True), "phrases")

    compared, changed, gone = others(db)
    assert set(compared) - {""} == {"a.txt", "e.txt"}
    assert (changed, gone) == (["a.txt", "e.txt"], 3)
    extract(db, new, "phrases")
    assert others(db)[1] == ["a.txt", "d.txt", "e.txt"]


def test_a_chunk_that_comes_after_what_was_extracted_from_it_is_compared(db, tmp_path):
    """As where a deleted document is there again: what was extracted from the same text is kept by the chunk's id."""
    again = add(open_index(tmp_path / "other", create=True), "d.txt", "Ingrid Holm wrote d.txt.")
    extract(db, again, "phrases")
    staging.clear_changed_chunks(db)

    add(db, "d.txt", "Ingrid Holm wrote d.txt.")
    generations.publish(db)

    assert others(db) == (["d.txt"], ["d.txt"], 0)


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ("UPDATE extractions SET config_hash = 'model' WHERE chunk_id = :b", ["b.txt"]),
        ("UPDATE chunks SET document_id = :document WHERE id = :b", ["a.txt"]),
        ("DELETE FROM chunks WHERE id = :b", []),
    ],
)
def test_rows_that_anybody_changes_are_noticed(db, change, changed):
    """An extraction that is altered, a chunk that becomes another document's, one that is deleted."""
    a, b, _ = chunks_store.all_chunks(db)

    db.execute("PRAGMA foreign_keys = OFF")
    with db.atomic():
        db.execute(change, {"document": a.document_id, "b": b.id})

    compared, found, gone = others(db)
    assert "b.txt" in compared
    assert (found, gone) == (changed, "UPDATE e" not in change)
