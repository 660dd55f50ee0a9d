"""Amounts in text: numbers with what they count."""

import pytest

from localrag.analysis.amounts import find_amounts

FOUND = [
    (
        "The fee is $1,200 per month or 5.5% of sales, due in 30 days.",
        [("$1,200", 1200, "dollar"), ("5.5%", 5.5, "percent"), ("30 days", 30, "day")],
    ),
    ("Der Preis beträgt 1.234,56 € netto.", [("1.234,56 €", 1234.56, "€")]),
    (
        "CHF 300'000 and EUR 2.5 million; 12 USD.",
        [("CHF 300'000", 300_000, "CHF"), ("EUR 2.5 million", 2_500_000, "EUR"), ("12 USD", 12, "USD")],
    ),
    ("It lasts for five (5) years.", [("five (5) years", 5, "year")]),
    ("Clauses four (5) years", [("(5) years", 5, "year")]),
    ("£12m was paid", [("£12m", 12_000_000, "pound")]),
    ("百分之五，1.2亿元", [("百分之五", 5, "percent"), ("1.2亿元", 120_000_000, "元")]),
    ("a budget of 212,000 crowns", [("212,000 crowns", 212_000, "crowns")]),
    ("Section 4.2 of 2019, page 12, on 7 March 2021 there", []),
    ("1. First 2. Second", []),
    ("The outage lasted 1 hour and 48 minutes.", [("1 hour", 1, "hour"), ("48 minutes", 48, "minute")]),
    ("", []),
]


@pytest.mark.parametrize(("text", "amounts"), FOUND)
def test_a_number_with_a_unit_is_an_amount(text, amounts):
    """A currency by sign, code or name, a percentage, a measure, or a word that it counts; no year, day, page or section."""
    assert [(text[a.start : a.end], a.value, a.unit) for a in find_amounts(text)] == amounts
