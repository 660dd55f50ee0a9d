"""XML of journals: the article as people read it."""

from pathlib import Path

from tests.loaders.parsing import parsed, text_of

DATA = Path(__file__).parent / "data"
ARTICLE = (DATA / "article.nxml").read_text(encoding="utf-8")
TEXT = (DATA / "article.md").read_text(encoding="utf-8").strip()


def test_an_article_is_read_without_what_describes_it_for_machines():
    """Title, authors, abstract, body and references; ids, subjects, history and license are left out."""
    document = parsed("a.nxml", ARTICLE)

    assert document.text == TEXT
    assert dict(document.metadata) == {"title": "Ice in the outer harbour", "author": "Ruth Sand, Lars Holm", "date": "2020-06-01"}


def test_each_article_of_a_set_is_read():
    """As a search at PubMed Central returns them."""
    body = ARTICLE.partition("?>")[2]
    other = body.replace("Ice in", "Fog in")
    text = text_of("a.xml", f"<pmc-articleset>{body}{other}</pmc-articleset>")

    assert text == f"{TEXT}\n\n{TEXT.replace('Ice in', 'Fog in')}"
