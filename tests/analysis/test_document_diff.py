"""Documents compared by passages: what is the same, changed, moved or only in one of them, with quotes of both."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrag.analysis.comparable_passages import comparable_passages, join_split, passages_of
from localrag.analysis.document_diff import compare_documents, find_differences
from localrag.analysis.passage_alignment import align_passages, best_chain
from localrag.analysis.placed_sentences import OpenedDocument
from localrag.analysis.tables import CellState
from localrag.errors import UsageError
from localrag.project import SHARED_READER, open_for_query
from localrag.records import Document
from localrag.store import documents as documents_store

LEASE = """# Lease of the north arm

## 1. Rent

The marina company pays a rent of £7,500 a year to the town of Brannock.
The rent is due within 30 days of the first of January.
The company may sublet single berths to visiting yachts.

## 2. Repairs

The town repairs the quay wall at its own cost after every winter.
The company repairs the pontoons and the lamps on them.

## 3. Access

Fishermen have free access to the ice house at all times.
The harbour master keeps the keys of the gate.
"""
TITLE, RENT, REPAIRS, ACCESS = LEASE.strip().split("\n\n## ")
NEW_RENT = RENT.replace("£7,500", "£8,200").replace("30 days", "14 days").replace("may sublet", "shall not sublet")
NEW_RENT += "\nLate payments bear interest of four per cent."
NEW_ACCESS = ACCESS.replace("3.", "2.").partition("\nThe harbour master")[0]
NEW_LEASE = "\n\n## ".join([TITLE, NEW_RENT, NEW_ACCESS, REPAIRS.replace("2.", "3.")]) + "\n"
BERTHS = "Berth,Owner,Length\nN1,Ruth Sand,9\nN2,Ingrid Holm,12\nN3,Lars Holm,7\n"
NEW_BERTHS = "Berth,Owner,Length\nN1,Ruth Sand,9\nN3,Lars Holm,8\nN4,Ingrid Holm,12\n"
DOCUMENTS = {
    "lease.md": LEASE,
    "lease-2.md": NEW_LEASE,
    "old/rules.txt": "Dogs are allowed on the north pier in winter. The council bought the ferry in spring.\n",
    "new/rules.txt": "Dogs are not allowed on the north pier in winter. The council purchased the ferry in spring.\n",
    "berths.csv": BERTHS,
    "berths-2.csv": NEW_BERTHS,
    "lian.txt": "承租人应当在三十天内支付租金。渔民可以随时进入冰库。港务长保管大门的钥匙。\n",
    "lian-2.txt": "承租人应当在十四天内支付租金。渔民不得进入冰库。港务长保管大门的钥匙。\n",
    "bells.txt": "The bell rings twice.\n\nThe bell rings twice.\n\nThe tide is high.\n",
    "bread.txt": "Bread is baked from flour, water and salt. It rests overnight under a cloth.\n",
}


@pytest.fixture(scope="module")
def project(indexed):
    """An index of two versions each of a lease, rules, a table and a Chinese contract."""
    folder = indexed(DOCUMENTS, "--extractor", "phrases")
    (folder / "docs" / "late.txt").write_text("Not indexed.")
    with open_for_query(folder / ".localrag", asks=False, still=True) as opened:
        yield replace(opened, reader=SHARED_READER)


def rows_of(table):
    return [tuple(cell.text for cell in row.cells) for row in table.rows]


def test_known_edits_are_found_in_reading_order_of_the_second_document(project):
    """Two numbers, an obligation, an added and a removed sentence, and a section that moved."""
    table = compare_documents(project, "docs/lease.md", "docs/lease-2.md")

    ice = "Fishermen have free access to the ice house at all times."
    assert [(kind, first[:24], second[:24], changes) for kind, first, second, changes in rows_of(table)] == [
        ("changed", "The marina company pays ", "The marina company pays ", "contradicts: £7,500 → £8,200"),
        ("changed", "The rent is due within 3", "The rent is due within 1", "contradicts: 30 days → 14 days"),
        ("changed", "The company may sublet s", "The company shall not su", "contradicts: may → shall not"),
        ("only in second", "", "Late payments bear inter", ""),
        ("moved", "## 3. Access", "## 2. Access", "renumbered: 3. → 2."),
        ("moved", ice[:24], ice[:24], ""),
        ("only in first", "The harbour master keeps", "", ""),
    ]


def test_every_quote_is_verbatim(project):
    """The cells of both passages cite the characters of their documents; a passage without a counterpart leaves the other cell empty."""
    table = compare_documents(project, "lease.md", "lease-2.md", include_same=True)

    texts = {path: documents_store.document_text(project.db, path) for path in ("docs/lease.md", "docs/lease-2.md")}
    assert {c.path for c in table.citations} == set(texts)
    assert all(texts[c.path][c.start : c.end] == c.quote for c in table.citations)
    assert all(c.chunk_id for c in table.citations)
    for row in table.rows:
        for cell in row.cells[1:3]:
            assert (cell.state is CellState.NOT_STATED) == (not cell.citations) == (not cell.text)


def test_the_note_and_the_figures_count_all_passages(project):
    """Also those that are the same and not listed."""
    table = compare_documents(project, "lease.md", "lease-2.md")
    whole = compare_documents(project, "lease.md", "lease-2.md", include_same=True)

    kinds = ("same", "changed", "only in first", "only in second", "moved", "moved and changed")
    assert sum(table.figures[kind] for kind in kinds) == len(whole.rows)
    assert table.figures["same"] == len(whole.rows) - len(table.rows) > 3
    assert table.note.startswith(f"{table.figures['same']} passages are the same, 3 changed, 1 only in lease.md, 1 only in lease-2.md")


def test_each_row_has_a_key_of_its_own_that_stays(project):
    """Also rows for a passage that occurs twice; the key is the same in another comparison that has the row."""
    rows = compare_documents(project, "bells.txt", "bread.txt").rows
    others = compare_documents(project, "bells.txt", "lease.md").rows

    assert len({row.key for row in rows}) == len(rows) == 5
    assert {row.key for row in rows if row.cells[1].text} == {row.key for row in others if row.cells[1].text}


def test_a_document_is_the_same_as_itself(project):
    """Nothing is listed, and the note says so."""
    table = compare_documents(project, "lease.md", "docs/lease.md")

    assert table.rows == ()
    assert table.note == "All 11 passages are the same."
    assert {row.cells[0].text for row in compare_documents(project, "lease.md", "lease.md", include_same=True).rows} == {"same"}


def test_the_reader_marks_contradictions(project):
    """What is not allowed contradicts what is; another word for the same does not."""
    dogs, ferry = compare_documents(project, "old/rules.txt", "new/rules.txt").rows

    assert dogs.cells[3].text.startswith("contradicts: ")
    assert dogs.cells[3].state is CellState.CONTRADICTORY
    assert dogs.cells[3].confidence > 0.8
    assert ferry.cells[3].text == "bought → purchased"
    assert ferry.cells[3].state is CellState.FOUND


def test_without_the_reader_nothing_is_marked_and_the_note_says_so(project):
    """The passages are compared all the same."""
    table = compare_documents(replace(project, reader=None), "old/rules.txt", "new/rules.txt")

    assert [row[0] for row in rows_of(table)] == ["changed", "changed"]
    assert not any("contradicts" in row[3] for row in rows_of(table))
    assert "the reader is switched off" in table.note


def test_rows_of_a_table_are_compared_by_their_values(project):
    """A berth of another number, and one whose length changed; the column is named."""
    assert rows_of(compare_documents(project, "berths.csv", "berths-2.csv")) == [
        ("moved and changed", "Berth: N3 · Owner: Lars Holm · Length: 7", "Berth: N3 · Owner: Lars Holm · Length: 8", "Length: 7 → 8"),
        ("changed", "Berth: N2 · Owner: Ingrid Holm · Length: 12", "Berth: N4 · Owner: Ingrid Holm · Length: 12", "Berth: N2 → N4"),
    ]


def test_chinese_is_compared_by_its_characters(project):
    """A term of thirty days that became fourteen, and a right that became a prohibition."""
    term, access = rows_of(compare_documents(project, "lian.txt", "lian-2.txt"))

    assert "三十 → 十四" in term[3]
    assert "可以随时 → 不得" in access[3]


def test_documents_without_anything_in_common_are_said_to_have_none(project):
    """Every passage is in one of them only."""
    table = compare_documents(project, "bread.txt", "lease.md")

    assert {row[0] for row in rows_of(table)} == {"only in first", "only in second"}
    assert "The two have little in common. No passage has a counterpart." in table.note


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("rules.txt", "Several documents are called 'rules.txt': docs/new/rules.txt, docs/old/rules.txt.", "Name one by its whole path."),
        ("leese.md", "There is no document 'leese.md'.", "Did you mean docs/lease-2.md or docs/lease.md?"),
        ("nothing at all", "There is no document 'nothing at all'.", "List them: localrag files"),
        ("", "There is no document ''.", "List them: localrag files"),
        ("docs/late.txt", "docs/late.txt is not indexed.", "Index it: localrag index docs/late.txt"),
        ("lease of the north arm", "Several documents are called 'lease of the north arm': docs/lease-2.md, docs/lease.md.", ""),
    ],
)
def test_a_name_that_means_no_single_document_is_an_error_with_its_remedy(project, name, message, hint):
    """Similar names, the paths to choose from, or the command that indexes the file."""
    with pytest.raises(UsageError) as raised:
        compare_documents(project, "lease.md", name)

    assert str(raised.value) == message
    assert raised.value.hint.startswith(hint)


def test_documents_are_found_in_any_case(project):
    """ "LEASE.MD" is lease.md."""
    assert compare_documents(project, "LEASE.MD", "lease.md").rows == ()


def opened(text):
    return OpenedDocument(Document("a", "a", "a", text, ""), [])


def differences(first, second):
    """What became of the passages of two texts, by words alone: kind and both passages."""
    project = SimpleNamespace(embedder=SimpleNamespace(embed=None), reader=None)
    found, _, _ = find_differences(opened(first), opened(second), project)
    return [(str(d.kind), d.first.text if d.first else "", d.second.text if d.second else "", d.changes) for d in found]


def test_lines_that_are_wrapped_differently_are_the_same():
    """Also where a short line keeps the sentence from being joined, and where quotation marks and dashes are written in two ways."""
    wrapped = "The town of Brannock repairs the quay wall\nat its own cost. Or use\n:ref:`the other quay` if the tide\nis high.\n"
    other = "The town of Brannock repairs the quay wall at its own cost.\nOr use :ref:`the other quay` if the tide is high.\n"

    assert {d[0] for d in differences(wrapped, other)} == {"same"}
    assert {d[0] for d in differences("He said “no” – and left the room.", 'He said "no" - and left the room.')} == {"same"}


def test_clauses_with_another_number_are_the_same_and_called_renumbered():
    """A clause that was inserted before them changes nothing else."""
    found = differences(
        "3. The rent is due in May.\n\n4. The keys stay in town.\n",
        "3. Dogs are allowed.\n\n4. The rent is due in May.\n\n5. The keys stay in town.\n",
    )

    assert [(d[0], d[3]) for d in found] == [("only in second", ""), ("same", "renumbered: 3. → 4."), ("same", "renumbered: 4. → 5.")]


def test_tables_between_bars_name_the_changed_column():
    """The first line of such a table has the names of its columns."""
    table = "| Item | Price |\n|---|---|\n| Rope | 30 |\n| Buoy | 12 |\n"

    changed = [d for d in differences(table, table.replace("30", "35")) if d[0] != "same"]
    assert changed == [("changed", "| Rope | 30 |", "| Rope | 35 |", "Price: 30 → 35")]


SENTENCES = [
    "The lamp burns all night.",
    "The boats leave at seven.",
    "The lamp burns.",
    "The quay is wet.",
    "Rent is 30.",
    "Rent is 14.",
    "# Rent",
    "- a rope",
    "渔民可以进入冰库。",
    "A: 1 · B: 2",
    "A: 1 · B: 3",
    "| x | y |",
]
TEXTS = st.lists(st.sampled_from(SENTENCES), max_size=8).map("\n\n".join) | st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS)
@settings(max_examples=200)
def test_every_passage_of_both_documents_has_one_row(first, second):
    """Whatever the texts."""
    found = differences(first, second)

    assert sorted(d[1] for d in found if d[1]) == sorted(p.text for p in passages_of(opened(first)))
    assert [d[2] for d in found if d[2]] == [p.text for p in passages_of(opened(second))]


@given(TEXTS)
def test_a_text_compared_with_itself_is_the_same(text):
    """Whatever it repeats."""
    assert {d[0] for d in differences(text, text)} <= {"same"}


@given(TEXTS, TEXTS)
@settings(max_examples=200)
def test_exchanging_the_documents_exchanges_the_rows(first, second):
    """The same pairs are found, and what only the first has only the second has."""
    exchanged = {"only in first": "only in second", "only in second": "only in first"}

    there = sorted((kind, a, b) for kind, a, b, _ in differences(first, second))
    back = sorted((exchanged.get(kind, kind), a, b) for kind, b, a, _ in differences(second, first))
    assert there == back


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), max_size=7, unique_by=lambda p: p[:2]))
def test_the_best_chain_has_the_highest_score_of_all(pairs):
    """Compared with every chain there is."""
    scores = {(i, j): score for i, j, score in pairs}

    def best(after):
        return max((scores[p] + best(p) for p in scores if p[0] > after[0] and p[1] > after[1]), default=0)

    chain = best_chain(pairs)
    assert sum(scores[p] for p in chain) == best((-1, -1))
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(chain))


def test_long_documents_are_compared_without_comparing_all_pairs():
    """Six thousand passages of few words that occur everywhere, and as many that differ."""
    first = "\n\n".join(f"The lamp {n % 50} of pier {n} burns with the oil of barrel {n * 7 % 6007}." for n in range(6000))
    second = first.replace("burns", "smokes")

    passages = passages_of(opened(first)), passages_of(opened(second))
    comparable = comparable_passages(*(join_split(a, b) for a, b in (passages, passages[::-1])))
    pairs, n_skipped = align_passages(*comparable)
    assert n_skipped == 0
    assert sum(p.first is not None and p.first == p.second for p in pairs) > 5_900


def test_a_sentence_that_changed_within_a_moved_paragraph_keeps_its_pair():
    """It shares little more than half of its words, but stands between two that moved."""
    lines = [
        f"Pier {n} belongs to the {name} family since the storm."
        for n, name in enumerate(("Sand", "Holm", "Lisle", "Muir", "Pike", "Quill"))
    ]
    moved = ["The lamp of the slipway burns all night.", "It costs the town 30 crowns a week.", "The keeper lives beside the ice house."]
    first = "\n".join([*moved, *lines])
    second = "\n".join([*lines, moved[0], "It costs the council some 45 crowns a month.", moved[2]])

    assert [d[0] for d in differences(first, second)] == ["same"] * 6 + ["moved", "moved and changed", "moved"]
