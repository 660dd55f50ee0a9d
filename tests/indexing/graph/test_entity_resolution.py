"""Which names are one entity: the rules, what the user decides, and what stays apart."""

import pytest

from localrag.errors import UsageError
from localrag.indexing.graph.entity_resolution import (
    MergeDecisions,
    NameForm,
    add_alias,
    defined_acronyms,
    defined_aliases,
    name_key,
    read_aliases,
)
from localrag.records import Chunk, ExtractedEntity, ExtractedRelationship, Extraction
from tests.indexing.graph.in_memory_graph import build_graph_in_memory, resolve_all_names


def entities_of(*names, document="d", decisions=None, defined=None):
    """Name → entity key, for (text, type) pairs or (text, type, count)."""
    made = [NameForm(document, name_key(t), t, kind, *(rest or [1])) for t, kind, *rest in names]
    found = resolve_all_names(made, defined or {}, decisions or MergeDecisions())
    return {n.text: found[n.document, n.key] for n in made}


@pytest.mark.parametrize(
    ("variant", "kind", "full"),
    [
        ("Scrooge", "person", "Ebenezer Scrooge"),
        ("Mr. Scrooge", "person", "Ebenezer Scrooge"),
        ("Bob", "person", "Bob Cratchit"),
        ("President Reagan", "person", "Ronald Reagan"),
        ("George Bush", "person", "George W. Bush"),
        ("de Masi", "person", "Francesco de Masi"),
        ("Skipper Hugh Dunmore", "person", "Hugh Dunmore"),
        ("Marsh", "person", "Anna Marsh"),
        ("Borealis Ltd.", "organization", "Borealis"),
        ("ACL", "organization", "Association for Computational Linguistics"),
        ("SCROOGE'S", "person", "Scrooge"),
        ("U.S.A.", "place", "United States"),
        ("Réunion", "place", "Reunion"),
        ("香港會議", "organization", "香港会议"),
        ("Sam·Chen王海明", "person", "SamChen王海明"),
    ],
)
def test_a_variant_belongs_to_the_fuller_name(variant, kind, full):
    """Surnames, titles, given names, initials, company forms, acronyms, accents and Chinese forms lead to one entity."""
    found = entities_of((variant, kind), (full, kind))

    assert found[variant] == found[full]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("Mrs. Cratchit", "Bob Cratchit", "person"),
        ("ASR1603", "ASR1605", "organization"),
        ("GPT-3.5", "GPT-35", "organization"),
        ("Mexico", "Mexico City", "place"),
        ("Siemens", "Siemens Healthineers", "organization"),
        ("Quillmere", "Quillmere Glassworks", "organization"),
        ("Quillmere", "Quillmere Glassworks", "place"),
        ("Johnson", "Johnston", "person"),
        ("Lars Holm", "Ingrid Holm", "person"),
        ("王海明", "王海", "person"),
        ("Marian Dace", "Marian Dace Strikes", "person"),
        ("Ellen Kerrigan", "Recipe of Ellen Kerrigan", "person"),
        ("Engine", "Engine Room Log", "person"),
    ],
)
def test_names_that_only_look_alike_stay_apart(one, other, kind):
    """Digits are never bridged, places are not shortened, a wife is not her husband."""
    found = entities_of((one, kind), (other, kind))

    assert found[one] != found[other]


def test_a_surname_shared_by_two_belongs_to_neither():
    """Where a document has two Holms, "Holm" alone stays by itself, unless one of them is named twice as often."""
    even = entities_of(("Holm", "person"), ("Lars Holm", "person"), ("Ingrid Holm", "person"))
    clear = entities_of(("Holm", "person"), ("Lars Holm", "person", 6), ("Ingrid Holm", "person", 2))

    assert even["Holm"] == "holm"
    assert clear["Holm"] == "lars holm"


def test_names_that_a_text_says_mean_the_same_are_one():
    """What is also, formerly, better known or called something is that; what is known for something, or born on a day, is not."""
    text = (
        "Klamath Falls was originally named Linkville. The Court Orchestra, better known as Kapellet, played. Anna Marsh (née Holm) sang. "
        "Oslo is known for Munch. Olav Berg (born May) left. Skua and Tern are called ships. Bergen, formerly Bjørgvin Hall, stands."
    )
    names = ["Klamath Falls", "Linkville", "Court Orchestra", "Kapellet", "Anna Marsh", "Holm", "Oslo", "Munch", "Olav Berg", "May", "Tern"]
    found = {key: other for key, (other, _) in defined_aliases(text, names).items()}
    entity_of = entities_of(
        ("Klamath Falls", "place"), ("Linkville", "place"), defined={("d", "linkville"): ("klamath falls", "also called so in the text")}
    )

    assert found == {"linkville": "klamath falls", "kapellet": "court orchestra", "holm": "anna marsh"}
    assert entity_of["Linkville"] == entity_of["Klamath Falls"]


def test_acronyms_are_taken_from_their_brackets():
    """A short name in brackets after a long one is its acronym, in either order; other brackets are not."""
    text = "The World Health Organization (WHO) met. The EU (European Union) paid. The ferry (Skua) sank."
    names = ["World Health Organization", "WHO", "EU", "European Union", "Skua"]

    assert defined_acronyms(text, names) == {"who": "world health organization", "eu": "european union"}


def test_the_user_has_the_last_word(tmp_path):
    """Lines of aliases.txt join names and keep them apart; a later line takes back an earlier one; nonsense is named."""
    add_alias(tmp_path, "Skua = Sea Gull")
    add_alias(tmp_path, "Scrooge != Ebenezer Scrooge")
    decisions = read_aliases(tmp_path)
    found = entities_of(
        ("Skua", "place"), ("Sea Gull", "place"), ("Scrooge", "person"), ("Ebenezer Scrooge", "person"), decisions=decisions
    )

    assert found["Skua"] == found["Sea Gull"]
    assert found["Scrooge"] != found["Ebenezer Scrooge"]
    add_alias(tmp_path, "Scrooge = Ebenezer Scrooge")
    assert not read_aliases(tmp_path).separate_pairs
    (tmp_path / "aliases.txt").write_text("just a name\n")
    with pytest.raises(UsageError, match="line 1"):
        read_aliases(tmp_path)


def extraction(chunk, types, *pairs):
    found = tuple(ExtractedEntity(n, t) for n, t in types.items())
    return Extraction(chunk.id, found, tuple(ExtractedRelationship(a, b) for a, b in pairs))


def test_a_name_inside_a_longer_one_is_no_mention_of_its_own():
    """York is not mentioned in "New York Times"."""
    text = "York is old. The New York Times wrote of York."
    chunk = Chunk("c", "d", 0, 0, len(text), text, 9)

    graph = build_graph_in_memory([extraction(chunk, {"York": "place", "New York Times": "organization"})], {"c": chunk})

    york = next(e for e in graph.entities if e.name == "York")
    assert [m.start for m in graph.mentions if m.entity_id == york.id] == [0, 41]
