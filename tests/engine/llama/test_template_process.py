"""Chat templates are somebody else's programs: they are rendered with limits of time and memory, in a process of their own."""

import time

import pytest

from localrag.engine.llama import template_process
from localrag.engine.llama.template_process import render_template

VARIABLES = {"messages": [{"role": "user", "content": "é"}], "tools": None}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", "<user>é"),
        ("{{ messages|tojson }}", '[{"role": "user", "content": "é"}]'),
        ("{% generation %}kept{% endgeneration %}{% for i in range(9) %}{% break %}{% endfor %}", "kept"),
        ("{{ strftime_now('%Y') }}.", "."),
    ],
)
def test_a_template_is_rendered_with_the_extensions_of_transformers(template, text):
    """As templates are tested there, but without a date."""
    assert render_template(template, VARIABLES) == text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('no tools') }}", "no tools"),
        ("\n{% for %}", "line 2"),
        ("{{ ''.__class__ }}{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ 'a' * 10 ** 10 }}", "MemoryError"),
        ("{{ '%' ~ 10 ** 10 ~ 'd' }}{{ ('%' ~ 10 ** 10 ~ 'd') % 1 }}", "MemoryError|too many|too big|width"),
    ],
)
def test_an_error_of_a_template_is_its_reason(template, reason):
    """Also that it takes more memory than the process may have; the next one is rendered again."""
    with pytest.raises(ValueError, match=reason):
        render_template(template, VARIABLES)
    assert render_template("{{ messages[0].content }}", VARIABLES) == "é"


@pytest.mark.ci
@pytest.mark.parametrize(
    "loops",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for a in range(99999) %}{{ range(99999)|sum }}{% endfor %}",
    ],
)
def test_a_template_that_does_not_end_is_stopped(loops, monkeypatch):
    """Once for all: the same template is not tried with other variables."""
    monkeypatch.setattr(template_process, "RENDER_TIMEOUT_S", 2.0)
    for _ in range(3):
        with pytest.raises(ValueError, match="it takes longer than 2 s"):
            render_template(loops, VARIABLES)
    start = time.monotonic()
    with pytest.raises(ValueError, match="longer"):
        render_template(loops, VARIABLES | {"tools": []})
    assert time.monotonic() - start < 1

    monkeypatch.undo()
    assert render_template("next", VARIABLES) == "next"
