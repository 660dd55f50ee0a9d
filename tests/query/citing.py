"""Drafts and cited answers of prose, as the steps of a question make them."""

from localrag.query.answer_markdown import parse_units
from localrag.query.citations import Citer, unit_point


def parse_cited_prose(prose, sources):
    """Points of prose whose sentences cite `[n]`: n counts `sources` from 1."""
    return [unit_point(unit, sources) for unit in parse_units(prose)]


def cite(draft, db, check, **how):
    """The cited answer of a draft."""
    return Citer(db, check, **how).result(draft)
