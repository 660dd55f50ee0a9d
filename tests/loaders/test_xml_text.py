"""XML of journals: the article as people read it."""

from tests.loaders.parsing import parsed, text_of

ARTICLE = """<?xml version="1.0"?>
<article><front>
 <journal-meta><journal-id>ness</journal-id><journal-title>Journal of Harbours</journal-title><issn>1935-2727</issn></journal-meta>
 <article-meta>
  <article-id pub-id-type="pmid">32479495</article-id><article-id pub-id-type="doi">10.1/ness.7</article-id>
  <article-categories><subj-group><subject>Mosquitoes</subject></subj-group></article-categories>
  <title-group><article-title>Ice in the <italic>outer</italic> harbour</article-title></title-group>
  <contrib-group>
   <contrib contrib-type="author"><contrib-id>http://orcid.org/1</contrib-id><name><surname>Sand</surname><given-names>Ruth</given-names></name>
    <role>Methodology</role><xref ref-type="aff">1</xref></contrib>
   <contrib contrib-type="author"><name><surname>Holm</surname><given-names>Lars</given-names></name></contrib>
   <contrib contrib-type="editor"><name><surname>Rask</surname><given-names>Bo</given-names></name></contrib>
  </contrib-group>
  <aff><label>1</label><addr-line>Pilot Office, Vardby</addr-line></aff>
  <pub-date><month>6</month><year>2020</year></pub-date><pub-date><day>1</day><month>6</month><year>2020</year></pub-date>
  <volume>14</volume><history><date><day>8</day></date></history>
  <permissions><license><p>Free of all copyright.</p></license></permissions>
  <abstract><p>The ice lasts longer.</p></abstract>
  <kwd-group><kwd>ice</kwd><kwd>harbour</kwd></kwd-group>
  <counts><page-count count="7"/></counts>
 </article-meta></front>
 <body><sec><label>1</label><title>Methods</title><p>We measured<xref ref-type="bibr">1</xref> it.</p>
  <sec><title>Gauges</title><p>Of brass.</p></sec>
  <fig><label>Fig 1</label><caption><title>The gauge.</title><p>Seen from below.</p></caption></fig></sec></body>
 <back><ack><p>We thank the pilots.</p></ack><ref-list><title>References</title>
  <ref><label>1</label>
   <mixed-citation><name><surname>Kell</surname> <given-names>I</given-names></name>. Tides. 1871.</mixed-citation></ref>
  <ref><label>2.</label><element-citation><person-group><name><surname>Rask</surname><given-names>B</given-names></name></person-group>
   <article-title>On fog</article-title><year>1901</year></element-citation></ref>
  <ref><mixed-citation>Pilot Office. Charts. <year>1931</year></mixed-citation></ref></ref-list></back>
</article>"""
TEXT = """# Ice in the outer harbour

Ruth Sand, Lars Holm

1 Pilot Office, Vardby

Journal: Journal of Harbours, 14 · Date: 2020-06-01 · DOI: 10.1/ness.7

Keywords: ice, harbour

## Abstract

The ice lasts longer.

## 1 Methods

We measured[1] it.

### Gauges

Of brass.

Fig 1 The gauge.

Seen from below.

## Acknowledgments

We thank the pilots.

## References

[1] Kell I. Tides. 1871.

[2] B Rask. On fog. 1901

Pilot Office. Charts. 1931"""


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
