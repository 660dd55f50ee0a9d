"""XML of journals: the article as people read it."""

from pathlib import Path

import pytest

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


NOTES = """<!DOCTYPE en-export SYSTEM "x.dtd"><en-export><note><title>Hive</title><created>20310314T081500Z</created>
<content><![CDATA[<?xml version="1.0"?><en-note><div>A new queen &amp; frames</div><en-todo checked="true"/>Sugar</en-note>]]></content>
<resource><data encoding="base64">AAEC</data><resource-attributes><file-name>a.png</file-name></resource-attributes></resource></note>
<note><title>Seed</title><content><![CDATA[<en-note>Leek</en-note>]]></content></note></en-export>"""
OUTLINE = """<opml><head><title>Mill</title></head><body><outline text="Roof">
<outline text="40 slates" _note="Ruth has&#10;the ladder"/></outline>
<outline text="News" xmlUrl="https://x.example/f"/></body></opml>"""
PLACES = """<kml xmlns="http://www.opengis.net/kml/2.2"><Document>
<name>Kilns</name><Style><LineStyle><color>ff</color></LineStyle></Style><Folder>
<Placemark><name>Old</name><description><![CDATA[<b>Built</b> by&nbsp;Ray]]></description>
<Point><coordinates>10.1,59.2,0</coordinates></Point></Placemark></Folder></Document></kml>"""
UNITS = """<xliff><file><body><trans-unit id="1"><source>The <g id="1">weir</g> is shut.</source>
<target>Das Wehr ist zu.</target></trans-unit>
</body></file></xliff>"""
NOVEL = """<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0">
<description><title-info><genre>sf</genre></title-info><document-info><program-used>x</program-used></document-info></description><body>
<section><title><p>One</p><p>The quay</p></title><p><strikethrough>Snow</strikethrough> ice.</p></section>
</body><binary id="a.png">AAEC</binary></FictionBook>"""
VOCABULARIES = {
    # Evernote, outlines, maps, translations, novels, DITA and DocBook.
    "a.enex": (NOTES, "# Hive\n\n2031-03-14\n\nA new queen & frames\n\n☒ Sugar\n\n# Seed\n\nLeek"),
    "a.opml": (OUTLINE, "- Roof\n  - 40 slates\n    Ruth has the ladder\n- News (https://x.example/f)"),
    "a.kml": (PLACES, "Old\nBuilt by Ray\n10.1,59.2,0"),
    "a.xliff": (UNITS, "The weir is shut.\n\nDas Wehr ist zu."),
    "a.fb2": (NOVEL, "# One The quay\n\n~~Snow~~ ice."),
    "b.xml": (
        "<para>See <ulink url='https://x.example/a'>the plan</ulink> at <link url='https://x.example'>x.example</link></para>",
        "See the plan (https://x.example/a) at x.example",
    ),
    "a.dita": ("<task><title>Grease</title><taskbody><cmd>Lift the hatch.</cmd></taskbody></task>", "# Grease\n\nLift the hatch."),
    "a.dbk": ("<article><title>Mill</title><para>It weighs 8 t.</para></article>", "# Mill\n\nIt weighs 8 t."),
}


@pytest.mark.parametrize(("name", "xml", "text"), [(name, *pair) for name, pair in VOCABULARIES.items()], ids=VOCABULARIES)
def test_each_vocabulary_is_read_for_what_it_says(name, xml, text):
    """Pages within notes, items with their depth, places by name; no styles, pictures and fields of the program."""
    assert text_of(name, xml) == text
