"""Lines of contexts and their tokens."""

import pytest

from localrag.engine.tokenizer import Tokenizer
from localrag.indexing.reports import ReportSources, build_report_context
from localrag.records import Community, Entity, Relationship

SAID = [
    "Lars Holm met Ruth Sand in 1990, at 4 o'clock.",
    "12 ferries; (two of them old) – 'Skua' and the Marian Dace",
    "郭子兴在濠州起兵。",
    "#include <stdio.h>  // no prose",
    "",
]


@pytest.mark.parametrize("said", SAID)
def test_a_line_has_the_tokens_that_are_counted(chat_file, said):
    """Label and text are counted apart, so that levels share the count; together they are as many as the line has."""
    count = Tokenizer(chat_file).count
    entities = {key: Entity(key, f"{said[:7]}{key}", "thing", (), said, 1) for key in "ab"}
    sources = ReportSources.build(entities, [Relationship("r", "a", "b", (), said, 1.0, 1.0)])
    found = build_report_context(Community("c", 0, 0, None, ("a", "b")), [], sources, count, 9999)

    assert len(found) == 3
    assert [e.tokens for e in found] == [count(e.text) for e in found]
