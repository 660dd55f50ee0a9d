"""What is told from prose, and how a sentence is shown."""

import pytest

from localrag.text.kinds import TextKind, classify_sentence, strip_markup
from localrag.text.quotes import informativeness, is_repetition
from localrag.text.sentences import sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "HTTP/2 support is not enabled by default, because HTTP/1.1 is a mature transport layer.",
        "To ignore environment variables, `trust_env` has to be set `False`.",
        "See :meth:`~flask.Flask.open_resource` for how a file of the package is read.",
        "Die Fähre wurde 1953 von Lars Holm an die Reederei verkauft.",
        "这艘渡轮于1953年卖给了航运公司。",
        '"Well, Prince, so Genoa and Lucca are now just family estates of the Buonapartes."',
    ],
)
def test_a_sentence_is_prose(sentence):
    """In documentation, notes, novels, contracts, German, Spanish and Chinese."""
    assert classify_sentence(sentence) == TextKind.PROSE


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("git archive --format=tar.gz -o ../a.tar.gz main", TextKind.CODE),
        ("def upload_file():", TextKind.CODE),
        ("SELECT name, port FROM ferries WHERE year > 1950;", TextKind.CODE),
        ("<p>This is the about page", TextKind.MARKUP),
        ("![A tall glass](https://example.org/glass.jpg)", TextKind.MARKUP),
        (".. versionadded:: 2.0", TextKind.MARKUP),
        ("Main document", TextKind.FRAGMENT),
        ("## Setting a default timeout", TextKind.HEADING),
        ("Using async and await\n=====================", TextKind.HEADING),
        ("Team: Maple Leafs · Location: TOR · Stanley Cups: 13", TextKind.ROW),
        ("| Berries | 150 | blue |", TextKind.ROW),
        ("3.2 The harbour of Vardby ........ 17", TextKind.CONTENTS),
        ("Permission is hereby granted, free of charge, to any person obtaining a copy.", TextKind.LICENCE),
        ("Copyright © 2019, Encode OSS Ltd. All rights reserved.", TextKind.LICENCE),
        ("should be read or not, because the hooks are called before that", TextKind.FRAGMENT),
    ],
)
def test_what_is_no_sentence_is_told_from_prose(text, kind):
    """Code, markup, links, headings, rows, contents, licences and broken lines; none of them is worth quoting by its form."""
    assert classify_sentence(text) == kind
    assert informativeness(text, 1) == 0


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("It was made by [Tommy's](https://www.example.com/), a *very* **old** bar.", "It was made by Tommy's, a very old bar."),
        ("- `trust_env` has to be set ``False`` &amp; kept.", "trust_env has to be set False & kept."),
        ("1. A ``<form>`` tag is <b>marked</b> so.<br/>", "A <form> tag is marked so."),
        ("See :meth:`~flask.Flask.run`, :doc:`the guide </cli>` and `Quart <https://q.org>`_.", "See run, the guide and Quart."),
        ("![glass](a.jpg) The drink is sour.", "The drink is sour."),
        ("A < B and 3 * 4 * 5 and snake_case_name stay.", "A < B and 3 * 4 * 5 and snake_case_name stay."),
        ("渡轮叫做**海鸥号**。", "渡轮叫做海鸥号。"),
    ],
)
def test_a_sentence_is_shown_without_its_markup(text, plain):
    """Links by their text; no bullets, emphasis, backticks, tags, entities or notes."""
    assert strip_markup(text) == plain


def test_what_was_said_nearly_so_repeats():
    """A word more or less does not make a sentence new; another number does."""
    said = "AutoGen is an open-source framework that allows developers to build applications via multiple agents."
    assert is_repetition(said.replace("multiple ", ""), said)
    assert not is_repetition("Year: 2020 · Freshwater Ducks: 135", "Year: 2019 · Freshwater Ducks: 120")


def test_a_wrapped_list_item_is_whole():
    """Its sentences go on in the next lines, indented or not; the next item begins anew."""
    first = "* The read timeout specifies the maximum duration to wait for\n  a chunk of data to be received. It is five seconds."
    text = f"{first}\n* The write timeout is another one."
    assert [" ".join(text[a:b].split()) for a, b in sentences(text)] == [
        "* The read timeout specifies the maximum duration to wait for a chunk of data to be received.",
        "It is five seconds.",
        "* The write timeout is another one.",
    ]
