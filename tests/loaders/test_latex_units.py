"""Numbers and units of LaTeX."""

import pytest

from localrag.loaders.content import InnerFile, LoadOptions
from localrag.loaders.latex_units import unit_text
from localrag.loaders.parser_process import parse_file


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"\SI{9.81}{\metre\per\second\squared}", "9.81 m/s^2"),
        (r"\qty{4}{\kilo\gram\per\cubic\metre}", "4 kg/m^3"),
        (r"\qty[per-mode=symbol]{7.5 +- 0.1}{\milli\litre}", "7.5 ± 0.1 mL"),
        (r"\num{1.5e3} boats", "1.5 × 10^3 boats"),
        (r"\SI{17.5}{\percent} of them", "17.5 % of them"),
        (r"\qty{20}{\degreeCelsius}", "20 °C"),
        (r"\SIrange{10}{12}{\km}", "10–12 km"),
        (r"\numlist{1;2;4}", "1, 2, 4"),
        (r"\ang{12;30;}", "12°30′"),
        (r"\SI{3}{kg.m^{-2}}", "3 kg m^-2"),
        (r"a \si{\newton\metre} each", "a N m each"),
        (r"\SI{8}{\um}", "8 µm"),
    ],
)
def test_quantities_are_read_as_they_are_set(source, text):
    """With the signs of their units."""
    data = f"\\documentclass{{article}}\\begin{{document}}It is {source}.\\end{{document}}".encode()

    assert parse_file(InnerFile("a.tex", -1, data), LoadOptions()).text == f"It is {text}."


def test_a_unit_that_is_not_known_stands_by_its_name():
    """Nothing of a quantity is lost."""
    assert unit_text(r"\knot\per\furlong") == "knot/furlong"
