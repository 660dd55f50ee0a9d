"""Web pages, XML, books and mail: what is raised, numbered, chosen, attached or around the text, as a reader sees it."""

import json
import zipfile
from email.message import EmailMessage
from io import BytesIO

import pytest

from localrag.loaders.content import InnerBudget, Unreadable
from localrag.loaders.parser_process import parse_file
from tests.indexing import files
from tests.loaders.parsing import parsed, text_of


def page(body, head=""):
    return f"<html><head>{head}</head><body>{body}</body></html>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Built in 1907<sup><a href='#n1'>1</a></sup>.", "Built in 1907[1]."),
        ("Built in 1907<a href='#n1'><sup>1</sup></a>.", "Built in 1907[1]."),
        ("Built in 1907<a epub:type='noteref' href='notes.xhtml'>1</a>.", "Built in 1907[1]."),
        ("10<sup>6</sup> cells on 4 km<sup>2</sup>", "10^6 cells on 4 km^2"),
        ("<table><tr><th>Boat<sup>a</sup><th>t (kg)<sup>-1</sup><sup>b</sup><tr><td>Skua<td>7</table>", "Boat[a]: Skua · t (kg)^-1[b]: 7"),
        (
            "<p><sup>a</sup>By weight, 20<sup>°</sup>C.<p>By sin<sup>a</sup>, noted[1]<sup>: 228</sup>",
            "[a]By weight, 20°C.\n\nBy sina, noted[1]: 228",
        ),
        ("the 3<sup>rd</sup> of May, H<sub>2</sub>O, x<sub>i</sub>", "the 3rd of May, H2O, x_i"),
        ("It costs <del>90</del> <ins>115</ins> crowns.", "It costs ~~90~~ 115 crowns."),
        ("light<wbr>house", "lighthouse"),
        ("<s>14</s> <strike>15</strike> <mark>19</mark> crowns", "~~14~~ ~~15~~ ==19== crowns"),
        ("<p style='text-decoration : underline line-through'>Dogs <b>travel</b></p><p>free</p>", "~~Dogs travel~~\n\nfree"),
        ("<del><p>One.</p><ul><li>Two</ul></del>Three", "~~One.~~\n\n- ~~Two~~\n\nThree"),
        (
            "<table><tr><th>Pet<th>Fee<tr><td>Cat<td>7<tr style='text-decoration:line-through'><td>Dog<td>9</table>",
            "Pet: Cat · Fee: 7\nPet: ~~Dog~~ · Fee: ~~9~~",
        ),
        ("take <sup>3</sup>&frasl;<sub>8</sub> and 2<sup>1</sup>/<sub>4</sub> inch", "take 3/8 and 2 1/4 inch"),
        ("<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby>の塔", "東京(とうきょう)の塔"),
        ("<input type=checkbox checked> paid <input type=checkbox> owed <input value='Ann Lee'>", "☒ paid ☐ owed Ann Lee"),
        ("Berth: <select><option>1<option selected>7</select>", "Berth: 7"),
        ("<img src=a.png alt='Map of the outer harbour'><img src=b.png alt=logo>", "[Map of the outer harbour]"),
        ("<li><a><img alt='The new quay, 1974'></a><p>The new quay, 1974[2]</li><img alt='a view of.jpg'>", "- The new quay, 1974[2]"),
        ("<input type=checkbox role=button> <dl><dt>Keel<dd>a beam<dt>Mast<dd>a pole</dl>", "Keel\n  a beam\nMast\n  a pole"),
        ("<p>seen</p><p aria-hidden=true>unseen</p><dialog>unseen</dialog>", "seen"),
    ],
)
def test_marks_and_fields_of_a_page_are_read_as_they_are_seen(body, text):
    """Notes and exponents are told from the number before them; deleted text is marked; what a form holds and pictures show is there."""
    assert text_of("a.html", page(body)) == text


PLAN = "https://plan.example/2031"
MANY = "".join(f"<p>{'word ' * 9}<a href='/wiki/p{n}'>page</a></p>" for n in range(40))


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (f"<a href='{PLAN}'>the plan</a>", f"the plan ({PLAN})"),
        (f"<a href='{PLAN}'>plan.example/2031</a>", "plan.example/2031"),
        ("<a href='https://x.example/a%28v=1%29'>x.example/a(v=1)</a>", "x.example/a(v=1)"),
        ("<a href='mailto:ann@x.example?subject=plot'>write</a>", "write (ann@x.example)"),
        ("<a href='//plan.example/a'>the plan</a>", "the plan (https://plan.example/a)"),
        ("<a href='#rules'>the rules</a>", "the rules"),
        ("<a href='/about'>about</a>", "about"),
        ("<a href='forms/plot.pdf'>the form</a>", "the form (forms/plot.pdf)"),
        (f"<a href='{PLAN}'><img src=a.png alt='Map of the plots'></a>", "[Map of the plots]"),
        (f"<a href='{PLAN}'><h2>The plan</h2><p>Ask Ann.</p></a>", f"## The plan ({PLAN})\n\nAsk Ann."),
        ("<base href='https://own.example/a/'><a href='b'>there</a>", "there (https://own.example/a/b)"),
    ],
)
def test_the_address_behind_words_is_told(link, text):
    """Unless it is the words themselves, within the page, or that of a picture."""
    assert text_of("a.html", page(link)) == text


@pytest.mark.parametrize(
    "head", ["<link rel=canonical href='https://en.own.example/a'>", "<meta property=og:url content='https://own.example/a'>"]
)
def test_a_page_of_many_links_tells_only_those_that_leave_its_site(head):
    """As an encyclopedia has them."""
    text = text_of("a.html", page(f"{MANY}<p><a href='https://de.own.example/b'>Boot</a> <a href='{PLAN}'>plan</a></p>", head))
    assert text.endswith(f"Boot plan ({PLAN})")
    assert text.count("(http") == 1


ANSWER = "<p>The season ticket costs 640 crowns.</p>"


@pytest.mark.parametrize(
    ("body", "is_read"),
    [
        (f"<button aria-controls=p>Cost?</button><div id=p hidden>{ANSWER}</div>", True),
        (f"<a href='#p'>Cost</a><p>x</p><div id=p style='display: none'>{ANSWER}</div>", True),
        (f"<span onclick=\"toggle('p')\">Cost</span><p>x</p><div id=p style='display:none'>{ANSWER}</div>", True),
        (f"<div role=tabpanel hidden>{ANSWER}</div>", True),
        ("<div role=tabpanel hidden><pre>pip install clock</pre></div>", True),
        (f"<div class=answer>x</div><div class=answer aria-hidden=true>{ANSWER}</div>", True),
        (f"<h3>Cost</h3><div hidden>{ANSWER}</div>", True),
        (f"<dialog>{ANSWER}</dialog>", True),
        (f"<x-card><template shadowrootmode=open>{ANSWER}</template></x-card>", True),
        (f"<template>{ANSWER}</template>", True),
        (f"<p>x</p><div style='display:none'>{ANSWER}</div>", False),
        ("<template><p>The {{item}} costs 640 crowns.</p></template>", False),
        ("<button aria-controls=m>Menu</button><ul id=m hidden><li><a href=a>640 crowns of the year.</a></ul>", False),
        ("<a href='#l'>Log in</a><div id=l class=modal hidden>It costs 640 crowns a year.<input type=password></div>", False),
        ("<h3>Subscribe</h3><p class=success hidden>You have paid 640 crowns to us.</p>", False),
        ("<div id=p hidden>640 crowns</div><a href='#p'>x</a>", False),
    ],
)
def test_hidden_text_that_a_reader_can_open_is_read(body, is_read):
    """By what refers to it, stands before it or names it, and if it holds a sentence; no menus, forms, messages and tracking text."""
    text = text_of("a.html", page(f"<p>Welcome</p>{body}"))
    assert ("640 crowns" in text or "pip install" in text) == is_read


@pytest.mark.parametrize(
    "question",
    [
        "<details><summary>May dogs come?</summary>{}</details>",
        "<button aria-expanded=false>May dogs come?</button><div hidden>{}</div>",
        "<h3><button aria-expanded=false>May dogs come?</button></h3><div hidden>{}</div>",
        "<p><strong>May dogs come?</strong></p>{}",
    ],
)
def test_the_questions_of_a_page_are_its_headings(question):
    """In accordions, terms and bold paragraphs, a level below the heading above."""
    answer = "<p>Dogs may come on Mondays.</p>"
    content = parsed("a.html", page("<h2>Pets</h2>" + question.format(answer)))
    assert content.text == "## Pets\n\n### May dogs come?\n\nDogs may come on Mondays."
    assert [block.kind for block in content.blocks] == ["heading", "heading", "paragraph"]


FUNCTION = "def f(a):\n    # one\n    return a"
ROWS = FUNCTION.split("\n")


@pytest.mark.parametrize(
    ("body", "language"),
    [
        (f"<div class=highlight-python><div class=highlight><pre>{FUNCTION}</pre></div></div>", "python"),
        (f"<pre><code class='language-py'>{FUNCTION}\n</code></pre>", "py"),
        (f"<table class=highlighttable><tr><td class=linenos><pre>1\n2\n3</pre></td><td class=code><pre>{FUNCTION}</pre></table>", ""),
        ("<table class='highlight'>" + "".join(
            f"<tr><td class='blob-num' data-line-number={n}></td><td class='blob-code'>{row}</td></tr>" for n, row in enumerate(ROWS, 1)
        ) + "</table>", ""),
        ("<table class=code>" + "".join(f"<tr><th>{n}</th><td>{row}</td></tr>" for n, row in enumerate(ROWS, 1)) + "</table>", ""),
        ("<pre>" + "\n".join(f"<span class=linenos>{n} </span>{row}" for n, row in enumerate(ROWS, 1)) + "</pre>", ""),
        ("<pre class=prettyprint>" + "".join(f"<div>{row}</div>" for row in ROWS) + "<button>Copy</button></pre>", ""),
    ],
)  # fmt: skip
def test_listings_are_code_in_fences_without_the_numbers_of_their_lines(body, language):
    """With their indentation, so that a comment is no heading."""
    content = parsed("a.html", page(f"<h1>Use</h1>{body}"))
    assert content.text == f"# Use\n\n```{language}\n{FUNCTION}\n```"
    assert [block.kind for block in content.blocks] == ["heading", "code"]


def test_formulas_are_written_once():
    """As their author wrote them, not as they are drawn; without that on one line."""
    tex = "<math><semantics><mi>x</mi><annotation encoding='application/x-tex'>{\\displaystyle x^{2}}</annotation></semantics></math>"
    bodies = [
        f"<span class=katex><span class=katex-mathml>{tex}</span><span class=katex-html aria-hidden=true>x2</span></span>",
        f"<span class=mwe-math-element><span class=mwe-math-mathml style='display:none'>{tex}</span><img alt='x^{2} is even'></span>",
        f"<mjx-container><mjx-math aria-hidden=true>x2</mjx-math><mjx-assistive-mml>{tex}</mjx-assistive-mml></mjx-container>",
        "<span class=MathJax_Preview></span><span class=MathJax>x2</span><script type='math/tex'>x^{2}</script>",
    ]
    for body in bodies:
        assert text_of("a.html", page(f"<p>Let {body} be even.</p>")) == "Let x^{2} be even."
    written = "<math><mfrac><mi>a</mi><mi>b</mi></mfrac><mo>=</mo><msup><mi>x</mi><mn>2</mn></msup></math>"
    assert text_of("a.html", page(f"<p>Let {written} be even.</p>")) == "Let a/b = x^2 be even."


FURNITURE = [
    "<div class=sphinxsidebar><h3>Contents</h3><ul><li class=toctree-l1><a href=a.html>Installation and use</a></ul></div>",
    "<div class='md-sidebar'><a href=a>Start of it all</a></div>",
    "<ol class=breadcrumb><li><a href=a>Docs</a><li>Prune</ol>",
    "<div id=toc class=toc><h2>Contents</h2><ul><li><a href='#a'>The first of the parts</a></ul></div>",
    "<div class=topNav><ul class=navList><li><a href=a>Overview</a><li>Class</ul></div>",
    "<a class=edit-link href=a>Edit</a> <a href=b>View page source</a> <a href='#c'>Skip to main content</a>",
    "<ul class=pagination-nav><li><a href=a>Previous</a><li><a href=b>Next</a></ul>",
    "<footer>© 2019 Borg. Built with MkDocs.</footer>",
]


@pytest.mark.parametrize("furniture", FURNITURE)
def test_what_documentation_generators_put_around_a_page_is_left_out(furniture):
    """Sidebars, tables of contents, breadcrumbs, ways on, edit links, footers."""
    assert text_of("a.html", page(f"{furniture}<h1>Prune</h1><p>It deletes.</p>")) == "# Prune\n\nIt deletes."


@pytest.mark.parametrize(
    "link", ["<a class=headerlink href='#a'>¶</a>", "<a href='#a'>#</a>", "<a class=anchor href='#a'>Permalink to Prune</a>"]
)
def test_permalinks_of_headings_are_no_part_of_them(link):
    """In whatever way they are shown."""
    assert text_of("a.html", page(f"<h1>Prune{link}</h1>")) == "# Prune"


def test_a_page_of_nothing_but_navigation_is_read():
    """An index."""
    assert text_of("a.html", page("<nav><a href=a>Installation</a></nav>")) == "Installation"


def test_a_table_has_its_columns():
    """By name."""
    table = parsed("a.html", page("<table><caption>Fleet</caption><tr><th>Boat<th>Fee<tr><td>Skua<td>7</table>"))
    assert [(block.kind, block.columns) for block in table.blocks] == [("table", ("Boat", "Fee"))]


@pytest.mark.ci
def test_large_pages_are_read_in_time():
    """Fifty thousand spans, hidden elements, cells, and elements within elements."""
    assert len(text_of("a.html", page("<p>" + "<span>a <sup>b</sup></span>" * 50_000)).split()) >= 50_000
    assert text_of("a.html", page("<div hidden>x</div>" * 20_000 + "y")) == "y"
    assert text_of("a.html", page("<table>" + ("<tr>" + "<td>7" * 50) * 1000)).count("7") == 50_000
    for n in (500, 5000):
        assert "innermost" in text_of("a.html", page("<div>" * n + "innermost"))


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        ("<ol type=a><li>x<li>y<li value=5>z</ol>", "a. x\nb. y\ne. z"),
        ("<ol type=I start=3><li>x<li>y</ol>", "III. x\nIV. y"),
    ],
)
def test_items_have_the_numbers_that_a_browser_shows(items, lines):
    """By type, start and value."""
    assert parsed("a.html", page(items)).text == lines


def test_what_a_site_puts_around_a_page_is_left_out():
    """A banner on cookies always; header, footer and other articles where the page says which is its main part."""
    banner = "<div class='cookie-bar' role=dialog><p>We value your privacy.</p><button>OK</button></div>"
    around = "<header><p>News of the coast</p></header>{}<aside>Most read</aside><footer>Imprint</footer>"
    own = "<h1>Fares</h1><p>The fare rises to 14 crowns in July.</p>"

    assert parsed("a.html", page(banner + around.format(f"<main>{own}</main>"))).text == "# Fares\n\nThe fare rises to 14 crowns in July."
    without = parsed("a.html", page(banner + around.format(own))).text
    assert "privacy" not in without
    assert "News of the coast" in without
    assert "Most read" in without


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<d><p>Kept at 5% CO<sub>2</sub> and 10<sup>4</sup> cells<xref>3</xref>.</p></d>", "Kept at 5% CO2 and 10^4 cells[3]."),
        (
            "<d><p>Known [<xref>1</xref>,<xref>5</xref>–<xref>7</xref>] (<xref>8</xref>) for years<xref>9</xref>.</p></d>",
            "Known [1,5–7] (8) for years[9].",
        ),
        ("<d><p><sup>a</sup>Pearl<sup>b</sup> 7 ha<sup>-1</sup> <sup>c</sup> <b>net</b></p></d>", "[a]Pearl[b] 7 ha^-1 [c] net"),
        ("<d><p>The <i>ABC</i>-7 of <b>Dr.</b> Ray's ship.</p></d>", "The ABC-7 of Dr. Ray's ship."),
        ("<d><p>the har<lb break='no'/>bour<lb/>froze<note>In May.</note>.</p></d>", "the harbour froze [In May.]."),
        ("<d><p>By <name><sur>Ray</sur><given>Ann</given></name>, 1907</p></d>", "By Ray Ann, 1907"),
        ('<!DOCTYPE d [<!ENTITY org "Trust of Ness">]><d><p>The &org; owns <b>it</b>.</p></d>', "The Trust of Ness owns it."),
    ],
)
def test_running_text_in_xml_is_read_as_a_sentence(xml, text):
    """Of JATS and TEI: no blanks within words, notes in brackets, entities that the file declares."""
    assert text_of("a.xml", xml) == text


def book(opf, **entries):
    container = '<container><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    return files.zipped({"META-INF/container.xml": container, "c.opf": opf, **entries})


OPF = """<package xmlns:dc="d" xmlns:opf="http://www.idpf.org/2007/opf"><metadata><dc:title>Salt</dc:title>
<dc:creator opf:role="aut">Ann Lee</dc:creator><dc:creator opf:role="trl">Jo Pike</dc:creator>
<dc:date opf:event="modification">2024-02-02</dc:date><dc:date opf:event="publication">1898</dc:date></metadata>
<manifest><item id="n" href="t.ncx" media-type="application/x-dtbncx+xml"/><item id="a" href="a.xhtml"/></manifest>
<spine><itemref idref="a"/></spine></package>"""


def test_a_book_has_its_author_its_year_and_its_chapters_names():
    """Not the translator, not the day of the file's last change; the names are those of the table of contents."""
    ncx = "<ncx><navMap><navPoint><navLabel><text>The Ferry</text></navLabel><content src='a.xhtml#x'/></navPoint></navMap></ncx>"
    content = parsed("b.epub", book(OPF, **{"t.ncx": ncx, "a.xhtml": page("<p>The river froze.</p>")}))
    metadata = dict(content.metadata)
    assert (metadata["author"], metadata["date"]) == ("Ann Lee", "1898")
    assert [part.label for part in content.parts] == ["chapter The Ferry"]


def test_a_book_protected_against_copying_is_said_to_be_one():
    """Its chapters are there, but encrypted."""
    encryption = "<encryption><CipherReference URI='a.xhtml'/></encryption>"
    with pytest.raises(Unreadable, match="DRM"):
        parsed("b.epub", book(OPF, **{"META-INF/encryption.xml": encryption, "a.xhtml": "garbled"}))


HEADERS = {"From": "Ann Lee <ann@x.example>", "Subject": "Berth", "Date": "Tue, 12 Mar 2024 09:15:00 +0100"}


def mail(*alternatives, attached=(), **headers):
    """A message with versions of its text (kind, text), and attached files (name, bytes)."""
    message = EmailMessage()
    for name, value in (HEADERS | headers).items():
        message[name] = value
    (_, first), *others = alternatives
    message.set_content(first, subtype=alternatives[0][0])
    for kind, text in others:
        message.add_alternative(text, subtype=kind)
    for name, data in attached:
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message


BERTH = "<p>Your boat is given berth 41 at the northern mole from December on.</p>"
EVENT = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Inspection\nLOCATION:Quay 9\nDTSTART:20240517T130000Z\nEND:VEVENT\nEND:VCALENDAR\n"


def listed():
    """A page with the footer of a mailing list behind it."""
    message, footer = mail(("html", "<p>The board has chosen Sallow Marine.</p>")), EmailMessage()
    message.make_mixed()
    footer.set_content("To leave the list write to leave@x.example")
    message.attach(footer)
    return message


MESSAGES = {
    # Of two versions the one that says something is read: plain text where it says as much, the page where that is a stub or empty.
    "stub": (mail(("plain", "Please use a newer program."), ("html", BERTH)), BERTH[3:-4]),
    "empty": (mail(("plain", "\n"), ("html", BERTH)), BERTH[3:-4]),
    "plain": (mail(("plain", "Berth 41 it is."), ("html", "<p>Berth 41 it is.</p>")), "Berth 41 it is."),
    "footer": (listed(), "The board has chosen Sallow Marine.\n\nTo leave the list write to leave@x.example"),
    # An invitation is read beside its empty text.
    "invitation": (
        mail(("plain", "\n"), ("calendar", EVENT)),
        "Attachments: invitation.ics\n\n# invitation.ics\n\nSummary: Inspection\nStart: 2024-05-17 13:00 UTC\nLocation: Quay 9",
    ),
}


@pytest.mark.parametrize(("message", "text"), MESSAGES.values(), ids=MESSAGES)
def test_what_a_message_says_is_read(message, text):
    """All its texts, each once."""
    assert text_of("a.eml", message.as_bytes()).partition("\n\n")[2] == text


def test_the_tiddlers_of_a_wiki_in_one_page_are_read():
    """Of the script that holds them; not those of the program."""
    tiddler = {"title": "Wheel", "text": "kept by [[Ruth]]\n\n* daily"}
    tiddlers = json.dumps([tiddler, {"title": "$:/core", "text": "x"}])
    store = f"<script class='tiddlywiki-tiddler-store' type='application/json'>{tiddlers}</script>"

    assert text_of("a.html", page(f"<p>needs a browser</p>{store}")) == "# Wheel\n\nkept by [[Ruth]]\n\n* daily"


def test_a_document_of_hancom_has_its_paragraphs_and_tables():
    """In the order of the sections; text in boxes stands on its own."""
    table = (
        "<hp:tbl><hp:tr><hp:tc><hp:p><hp:run><hp:t>Port</hp:t></hp:run></hp:p></hp:tc><hp:tc><hp:p><hp:run><hp:t>Fee</hp:t></hp:run></hp:p></hp:tc></hp:tr>"
        "<hp:tr><hp:tc><hp:p><hp:run><hp:t>Ness</hp:t></hp:run></hp:p></hp:tc><hp:tc><hp:p><hp:run><hp:t>12</hp:t></hp:run></hp:p></hp:tc></hp:tr></hp:tbl>"
    )
    section = "<hs:sec xmlns:hs='s' xmlns:hp='p'>{}</hs:sec>"
    first = section.format(f"<hp:p><hp:run><hp:t>도서관<hp:lineBreak/>휴관</hp:t></hp:run><hp:run>{table}</hp:run></hp:p>")
    second = section.format("<hp:p><hp:run><hp:t>끝</hp:t></hp:run></hp:p>")
    archive = files.zipped({"Contents/section10.xml": second, "Contents/section2.xml": first})

    assert text_of("a.hwpx", archive) == "도서관 휴관\n\nPort: Ness · Fee: 12\n\n끝"


def test_attached_files_are_read_as_parts_and_the_others_are_listed():
    """Text, tables, a mail and an archive, each by its own kind; a program is listed with the reason."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("letters/b.txt", "Bo Rask left.")
    inner = mail(("plain", "Passed by Cai Lund."), Subject="Crane")
    attached = [("a.csv", b"Item,Cost\nCrane,81000\n"), ("b.zip", archive.getvalue()), ("run.exe", b"MZ\0\1" * 99)]
    message = mail(("plain", "See below."), attached=attached)
    message.add_attachment(inner)
    content = parsed("a.eml", message.as_bytes())

    assert [part.label for part in content.parts] == ["attachment a.csv", "attachment b.zip/letters/b.txt", "forwarded 2024-03-12 Crane"]
    for words in ("Item: Crane · Cost: 81000", "Bo Rask left.", "Passed by Cai Lund."):
        assert words in content.text
    assert "run.exe: " in dict(content.metadata)["not read"]


def test_a_broken_file_of_an_attached_archive_takes_nothing_else_with_it(tmp_path):
    """It is listed with the reason; the mail and the other files are read."""
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.txt", "The crane of the outer harbour. " * 99)
        z.writestr("b.txt", "The pilots came at noon.")
    data = bytearray(archive.getvalue())
    data[40:60] = b"\xff" * 20
    content = parsed("a.eml", mail(("plain", "See the papers."), attached=[("c.zip", bytes(data))]).as_bytes())

    assert "See the papers." in content.text
    assert "The pilots came at noon." in content.text
    assert dict(content.metadata)["not read"].startswith("c.zip/a.txt: damaged: ")


@pytest.mark.ci
def test_the_files_of_a_message_are_bounded_in_number_and_depth():
    """Ten thousand attachments, and messages thirty deep: the first are read, the rest is listed."""
    many = parsed("a.eml", mail(("plain", "x"), attached=[(f"{n}.txt", b"word %d" % n) for n in range(2000)]).as_bytes())
    assert len(many.parts) == InnerBudget(parse_file).files
    assert "more" in dict(many.metadata)["not read"]
    deep = mail(("plain", "innermost"))
    for n in range(30):
        outer = mail(("plain", f"level {n}"))
        outer.add_attachment(deep)
        deep = outer
    content = parsed("a.eml", deep.as_bytes())
    assert "level 29" in content.text
    assert "innermost" not in content.text
    assert "deep" in dict(content.metadata)["not read"]


def test_each_message_of_a_mailbox_is_a_part_with_its_day_and_subject():
    """Encoded headers and texts are decoded; a line of the text that begins with From is no new message."""
    second = (
        "From: b@x.example\nSubject: =?utf-8?Q?Die_Br=C3=BCcke?=\nDate: Wed, 13 Mar 2024 11:00:00 +0100\n\n>From here on it is closed.\n"
    )
    box = f"From a@x Tue Mar 12 09:15:00 2024\n{mail(('plain', 'One.')).as_string()}\nFrom b@x Wed Mar 13 11:00:00 2024\n{second}"
    content = parsed("a.mbox", box)
    assert [part.label for part in content.parts] == ["2024-03-12 Berth", "2024-03-13 Die Brücke"]
    assert "From here on it is closed." in content.text


def test_the_blocks_of_a_page_in_a_mail_are_those_of_the_message():
    """Headings, lists and tables; also in what is attached."""
    message = mail(("html", "<h2>Fees</h2><table><tr><th>Boat<th>Fee<tr><td>Skua<td>7</table>"), attached=[("a.html", b"<ul><li>one</ul>")])
    content = parsed("a.eml", message.as_bytes())
    assert [(b.kind, content.text[b.start : b.end]) for b in content.blocks] == [
        ("heading", "## Fees"), ("table", "Boat: Skua · Fee: 7"), ("heading", "# a.html"), ("list", "- one"),
    ]  # fmt: skip


def test_a_page_saved_with_its_pictures_is_read_as_a_page():
    """MHTML: the page, not the encoding; its day is that of saving."""
    raw = (
        "From: <Saved by Blink>\nSubject: The wreck\nDate: Sun, 12 May 2024 14:00:00 -0000\n"
        'Content-Type: multipart/related; boundary="B"\n\n'
        "--B\nContent-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n<p>The Sk=C3=A6r ro=\nck</p>\n"
        "--B\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n--B--\n"
    )
    content = parsed("a.mhtml", raw)
    assert content.text == "The Skær rock"
    assert dict(content.metadata)["date"].startswith("2024-05-12")
