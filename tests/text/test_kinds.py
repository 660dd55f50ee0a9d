"""What is told from prose, and how a sentence is shown."""

import pytest

from localrag.text.kinds import TextKind, classify_sentence, classify_sentences, requested_kinds, strip_markup
from localrag.text.quotes import informativeness, is_repetition
from localrag.text.sentences import sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "HTTP/2 support is not enabled by default, because HTTP/1.1 is a mature transport layer.",
        "To ignore environment variables, `trust_env` has to be set `False`.",
        "* The **connect** timeout specifies the maximum amount of time to wait.",
        "Contributions should start out with [a discussion](https://example.org/a/b).",
        "See :meth:`~flask.Flask.open_resource` for how a file of the package is read.",
        "Die Fähre wurde 1953 von Lars Holm an die Reederei verkauft.",
        "¿Quién compró el barco en el puerto de Vardby?",
        "这艘渡轮于1953年卖给了航运公司。",
        "Marley was dead: to begin with.",
        '"Well, Prince, so Genoa and Lucca are now just family estates of the Buonapartes."',
        "The court may select a trustee from the list, and return the others.",
    ],
)
def test_a_sentence_is_prose(sentence):
    """In documentation, notes, novels, contracts, German, Spanish and Chinese."""
    assert classify_sentence(sentence) == TextKind.PROSE


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('"name": "datasette.handle_exception",', TextKind.CODE),
        ("client = httpx.Client(timeout=10.0)", TextKind.CODE),
        ("git archive --format=tar.gz -o ../a.tar.gz main", TextKind.CODE),
        ("$ pip install httpx[http2]", TextKind.CODE),
        ("def upload_file():", TextKind.CODE),
        ("SELECT name, port FROM ferries WHERE year > 1950;", TextKind.CODE),
        ("<p>This is the about page", TextKind.MARKUP),
        ("https://www.example.org/a/b?c=d", TextKind.MARKUP),
        ("[WSGI]: https://wsgi.readthedocs.io/", TextKind.MARKUP),
        ("![A tall glass](https://example.org/glass.jpg)", TextKind.MARKUP),
        (".. versionadded:: 2.0", TextKind.MARKUP),
        ("=========", TextKind.MARKUP),
        ("Main document", TextKind.FRAGMENT),
        ("## Setting a default timeout", TextKind.HEADING),
        ("Using async and await\n=====================", TextKind.HEADING),
        ("Security Considerations for New Administrators", TextKind.HEADING),
        ("Team: Maple Leafs · Location: TOR · Stanley Cups: 13", TextKind.ROW),
        ("| Berries | 150 | blue |", TextKind.ROW),
        ("capital: Ottawa", TextKind.ROW),
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


def test_a_block_of_code_is_code_whatever_its_lines_look_like():
    """Between fences, behind the `::` of reStructuredText, and indented as in Markdown."""
    text = "The server prints what it does:\n```\nThe server has started now.\n```\nIt stops at once.\n"
    found = {text[a:b]: kind for (a, b), kind in classify_sentences(text)}
    assert found["The server has started now."] == TextKind.CODE
    assert found["It stops at once."] == TextKind.PROSE
    text = "Look at what it prints::\n\n    The server has started now.\n\nIt stops at once.\n\n    pg_dump -s name-of-database\n"
    found = {text[a:b]: kind for (a, b), kind in classify_sentences(text)}
    assert found["The server has started now."] == found["pg_dump -s name-of-database"] == TextKind.CODE
    assert found["It stops at once."] == TextKind.PROSE


def test_a_passage_may_begin_within_a_block_of_code():
    """Its first fence then closes one; the next names a language, and opens one."""
    before, after = "limits = httpx.Limits(5)\n```\n\nThe pool is bounded now.\n\n", "Nothing waits any more.\n"
    text = f"{before}```python\nprint('The pool is bounded.')\n```\n{after}"
    found = {text[a:b]: kind for (a, b), kind in classify_sentences(text)}
    assert found["The pool is bounded now."] == found["Nothing waits any more."] == TextKind.PROSE
    assert found["limits = httpx.Limits(5)"] == found["print('The pool is bounded.')"] == TextKind.CODE


def test_the_fields_of_a_record_are_one_row():
    """Each on a line of its own, they are quoted together; the next record is another row."""
    text = "name: Canada\ncapital: Ottawa\nsport: Hockey\n\nname: France\ncapital: Paris\n"
    assert [text[a:b] for (a, b), kind in classify_sentences(text) if kind == TextKind.ROW] == [
        "name: Canada\ncapital: Ottawa\nsport: Hockey",
        "name: France\ncapital: Paris",
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("It was made by [Tommy's](https://www.example.com/), a *very* **old** bar.", "It was made by Tommy's, a very old bar."),
        ("- `trust_env` has to be set ``False`` &amp; kept.", "trust_env has to be set False & kept."),
        ("1. A ``<form>`` tag is <b>marked</b> so.<br/>", "A <form> tag is marked so."),
        ("See :meth:`~flask.Flask.run`, :doc:`the guide </cli>` and `Quart <https://q.org>`_.", "See run, the guide and Quart."),
        ("It became the basis for most computers.[12]", "It became the basis for most computers."),
        ("![glass](a.jpg) The drink is sour.", "The drink is sour."),
        ("**Async is not faster.", "Async is not faster."),
        ("## Making requests", "Making requests"),
        ("A < B and 3 * 4 * 5 and snake_case_name stay.", "A < B and 3 * 4 * 5 and snake_case_name stay."),
        ("Die *Fähre* heißt `Skua`.", "Die Fähre heißt Skua."),
        ("渡轮叫做**海鸥号**。", "渡轮叫做海鸥号。"),
    ],
)
def test_a_sentence_is_shown_without_its_markup(text, plain):
    """Links by their text; no bullets, emphasis, backticks, tags, entities or notes."""
    assert strip_markup(text) == plain


def test_a_question_may_ask_for_code_tables_or_licences():
    """By its words, in several languages; most questions ask for none of them."""
    assert requested_kinds("Which command creates a tarball?") == requested_kinds("用什么命令？") == {TextKind.CODE}
    assert requested_kinds("Which row of the table names Ottawa?") == {TextKind.ROW}
    assert requested_kinds("Under which licence is it?") == {TextKind.LICENCE}
    assert requested_kinds("Who bought the ferry?") == set()
    assert requested_kinds("Is async faster than sync code?") == requested_kinds("How are facets handled on large tables?") == set()


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


def test_no_sentence_ends_within_inline_code():
    """Nor within an address or the mark of a directive."""
    text = "To log out, remove the user id from the :data:`.Session`. See https://example.org/a?B=c for more."
    assert [text[a:b] for a, b in sentences(text)] == [
        "To log out, remove the user id from the :data:`.Session`.",
        "See https://example.org/a?B=c for more.",
    ]
