"""The check of answers: a sentence is supported only by one sentence of its source that says the same."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localrag.entailment import parse_sentence
from localrag.entailment.comparison import contradiction
from localrag.entailment.lexicon import chinese_quantities, english_quantities
from localrag.eval.metrics import evaluate_entailment, load_cases
from localrag.query.attribution import alias_lookup, is_entailed, support_checker, supporting_quotes
from localrag.records import Quote
from localrag.store.opening import open_index

SETS = Path(__file__).parents[1] / "data" / "support"
FINED = "The committee under Farrant fined Hugh Dunmore £620 in 1973."


@pytest.mark.parametrize(
    ("source", "sentence", "held"),
    [
        (FINED, "Hugh Dunmore was fined 620 pounds in 1973.", True),
        (FINED, "Farrant was fined £620 in 1973.", False),
        (FINED, "The committee did not fine Hugh Dunmore.", False),
        (FINED, "The committee fined Hugh Dunmore £260 in 1973.", False),
        ("The committee fined the fleet £40.", "The committee fined Lee £40.", False),
        ("Pekka Salminen taught Olivia Brandt the violin.", "Olivia Brandt was taught the violin by Pekka Salminen.", True),
        ("Pekka Salminen taught Olivia Brandt the violin.", "Olivia Brandt taught Pekka Salminen the violin.", False),
        ("The dam lost 1,000 litres a day.", "The dam lost one thousand litres a day.", True),
        ("The gate opens before noon.", "The gate opens after noon.", False),
        ("The museum is closed on Mondays.", "The museum is not open on Mondays.", True),
        ("The airline may cut 1,200 jobs.", "The airline has cut 1,200 jobs.", False),
        ("The clerk failed to post the notice.", "The clerk did not post the notice.", True),
        ("陈国梁把渔船卖给了林海生。", "渔船被陈国梁卖给了林海生。", True),
        ("陈国梁把渔船卖给了林海生。", "林海生把渔船卖给了陈国梁。", False),
        ("委员会以七票对两票通过了提案，预算为三十万元。", "预算为30万元。", True),
        ("委员会以七票对两票通过了提案，预算为三十万元。", "委员会否决了提案。", False),
        ("37signals was chosen by Ruth Sand.", "Ruth Sand chose 37signals.", True),
        ("38signals was chosen by Ruth Sand.", "Ruth Sand chose 37signals.", False),
        ("They shouldn’t've waited for the ferry.", "They should not have waited for the ferry.", True),
        ("Some members voted.", "A few members voted.", True),
        ("Not all proxies set the headers.", "All proxies set the headers.", False),
        ("Brandt will write to the association.", "Brandt wrote to the association.", False),
        ("The theft was probably planned by a guard.", "The theft was certainly planned by a guard.", False),
        ("A loan can be renewed unless the book is reserved.", "A loan can be renewed, even if the book is reserved.", False),
        ("Sofia inherited the vineyard; her brother Luca received the house.", "Sofia received the house.", False),
        ("Sofia inherited the vineyard; her brother Luca received the house.", "Luca received the house.", True),
        ("The bank was founded by Lisle, who had failed in trade.", "The bank had failed in trade.", False),
        ("The clerk, Edith Lisle, recorded the vote.", "Edith Lisle recorded the vote.", True),
        ("The stone, found in 1799 by soldiers near Rashid, is in London.", "Soldiers found the stone in 1799.", True),
        ("The update removes the importer and raises the limit.", "The update adds the importer.", False),
        ("The island has no harbour and almost no trees.", "The island has a harbour.", False),
        ("In 2023, 45 were killed, said Reporters Without Borders.", "In 2023, 45 were killed.", True),
        (FINED, "Yes.", False),
        (FINED, "It was so.", False),
    ],
)
def test_a_source_supports_what_it_says_and_nothing_else(source, sentence, held):
    """Names, numbers, denial, and who did what to whom are those of the source, in whatever voice and format."""
    assert is_entailed(sentence, source) is held


def test_each_sentence_of_a_stretch_is_supported_by_one_of_the_passage():
    """Two sentences are supported by two quotes, by none if one of them is made up; what only both together seem to say is not."""
    text = "Rosa Delgado sold the bakery in 2004. Miguel moved the shop to Calle Mayor."
    whole = [Quote("c", 5, 5 + len(text), text)]

    found = supporting_quotes("Rosa Delgado sold the bakery in 2004. Miguel moved the shop to Calle Mayor.", whole)

    assert [(q.start, q.text) for q in found] == [(5, text[:37]), (43, text[38:])]
    assert not supporting_quotes("Rosa Delgado sold the bakery in 2004. Miguel burned the shop.", whole)
    assert not supporting_quotes("Rosa Delgado moved the shop to Calle Mayor.", whole)


def test_a_pronoun_stands_for_the_subject_of_the_sentence_before():
    """ "He" at the head of a sentence is the subject of the one before it, and nobody else who stands there."""
    before, source = "Farrant chaired the meeting with Edith Lisle.", "He fined Hugh Dunmore £620."

    assert is_entailed("Farrant fined Hugh Dunmore £620.", source, before)
    assert not is_entailed("Farrant fined Hugh Dunmore £620.", source)
    assert not is_entailed("Edith Lisle fined Hugh Dunmore £620.", source, before)


def test_an_alias_of_the_graph_stands_for_a_name(tmp_path):
    """A source may call an entity by any name the graph knows it by, and by no other."""
    db = open_index(tmp_path / "index", create=True)
    db.table("entities").insert(
        {"id": "e", "name": "Margaret Lisle", "type": "person", "description": "", "degree": 0, "descriptions": "[]"}
    )
    db.table("entity_aliases").insert_all({"alias": a, "entity_id": "e"} for a in ("Margaret Lisle", "Peggy"))
    aliases = alias_lookup(db)

    assert is_entailed("Margaret Lisle signed the petition.", "Peggy signed the petition.", aliases=aliases)
    assert not is_entailed("Margaret Lisle signed the petition.", "Peggy signed the petition.")
    assert not is_entailed("Ruth Sand signed the petition.", "Peggy signed the petition.", aliases=aliases)


def test_numbers_are_equal_however_they_are_written():
    """1,000, 1000, one thousand and 一千 are one number; units are read with them."""
    english = [
        (a.value, a.unit) for a in english_quantities("£1,000, 1000 km, one thousand, 12 per cent, two hundred and five, 3.2 million")
    ]
    chinese = [a.value for a in chinese_quantities("一千元、三十万、百分之十二、1.2亿、一亿两千万、二〇〇四年、一万亿，一直")]

    assert english == [("1000", "pound"), ("1000", "km"), ("1000", ""), ("12", "percent"), ("205", ""), ("3200000", "")]
    assert chinese == ["1000", "300000", "12", "120000000", "120000000", "2004", "1000000000000"]


PARTS = (
    "I'd've y'all're shouldn't've it's cannot 's s' n't 37signals B2B 7-Eleven 3.11.2 1,000 half twice once few a 不 没有 五百 年 No. ½ ②"
)
ODD = st.lists(st.one_of(st.sampled_from(PARTS.split()), st.text(max_size=6)), max_size=12).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(ODD, st.one_of(ODD, st.text(alphabet="aIdvets'’ʼ´ -.,0129%£年不没", max_size=40)))
def test_no_text_breaks_the_reading(claim, source):
    """Arbitrary text, contractions and names with digits among it, is read and compared without an error."""
    is_entailed(claim, source)
    contradiction(parse_sentence(claim), parse_sentence(source))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("24hours, 30-Day, 5km, 8GB, 100ms, $3M", ["24", "30", "5", "8", "100", "3000000"]),
        ("mid-1990s, 10k, 3rd", ["1990", "10000", "3"]),
        ("release 3.11.2 of 3.11", ["3.11.2", "3.11"]),
        ("twice a year, once a year, three times", ["2", "1", "3"]),
        ("once you go", []),
    ],
)
def test_a_number_with_its_unit_is_one(text, values):
    """Units and scales may follow without a space; a version is one number; "once" and "twice" are numbers where they count."""
    assert [a.value for a in english_quantities(text)] == values


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("The board meets once a year.", "The board meets twice a year."),
        ("Few of the members voted.", "Most of the members voted."),
        ("All of the members voted.", "Some of the members voted."),
        ("The boat costs 480,000 dollars.", "The boat costs 480,000 euros."),
        ("The dose is 10 g a day.", "The dose is 10 mg a day."),
        ("Updates are installed at 3 pm.", "Updates are installed at 3 am."),
        ("The report appears weekly.", "The report appears monthly."),
        ("Children over 14 pay no fees.", "Children under 14 pay no fees."),
        ("The tenant must repair it.", "The tenant may repair it."),
        ("All of the birds die.", "Half of the birds die."),
        ("The owner, not the insurer, pays the reward.", "The insurer, not the owner, pays the reward."),
    ],
)
def test_a_detail_of_the_same_class_contradicts(claim, source):
    """Another frequency, quantifier, currency, measure, hour, weekday, bound, duty, share or contrast; none contradicts itself."""
    assert not is_entailed(claim, source)
    assert contradiction(parse_sentence(claim), parse_sentence(source))
    assert is_entailed(source, source)
    assert not contradiction(parse_sentence(source), parse_sentence(source))


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        # What the claim names as well does not stand for its opposite; nor does "first" for the verb "end".
        (
            "In the first six months, the contract can be ended by either side.",
            "During the first six months either side may end the contract.",
        ),
        ("The user says how many proxies set the headers.", "All proxies set the headers."),  # "how many" is no quantifier
        ("A few members voted.", "Some members voted."),
    ],
)
def test_what_only_looks_like_an_opposite_is_no_contradiction(claim, source):
    """Neither words that both have, nor "how many", nor "few" with an article."""
    assert not contradiction(parse_sentence(claim), parse_sentence(source))


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.ci
def test_near_misses_are_refused_and_paraphrases_kept(language, embed, tmp_path):
    """On the half of the set that the rules were not tuned on: 95 % of the contradictions refused, 55 % of the paraphrases kept."""
    lines = (SETS / "held_out.jsonl").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "half.jsonl"
    file.write_text("\n".join(line for line in lines if json.loads(line)["language"] == language), encoding="utf-8")

    found = evaluate_entailment(load_cases(file), support_checker(embed))

    assert found["refused"] >= 0.95
    assert found["kept"] >= 0.55
