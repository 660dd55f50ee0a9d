"""Web pages, XML, books and mail: what is raised, numbered, chosen, attached or around the text, as a reader sees it."""

import json
import zipfile
from email import message_from_string
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
            "[a] By weight, 20°C.\n\nBy sina, noted[1]: 228",
        ),
        ("the 3<sup>rd</sup> of May, H<sub>2</sub>O, x<sub>i</sub>", "the 3rd of May, H2O, x_i"),
        ("It costs <del>90</del> <ins>115</ins> crowns.", "It costs 115 crowns."),
        ("light<wbr>house", "lighthouse"),
        ("<input type=checkbox checked> paid <input type=checkbox> owed <input value='Ann Lee'>", "☒ paid ☐ owed Ann Lee"),
        ("Berth: <select><option>1<option selected>7</select>", "Berth: 7"),
        ("<img src=a.png alt='Map of the outer harbour'><img src=b.png alt=logo>", "[Map of the outer harbour]"),
        ("<li><a><img alt='The new quay, 1974'></a><p>The new quay, 1974[2]</li><img alt='a view of.jpg'>", "- The new quay, 1974[2]"),
        ("<input type=checkbox role=button> <dl><dt>Keel<dd>a beam<dt>Mast<dd>a pole</dl>", "Keel\n  a beam\nMast\n  a pole"),
        ("<p>seen</p><p aria-hidden=true>unseen</p><dialog>unseen</dialog>", "seen"),
    ],
)
def test_marks_and_fields_of_a_page_are_read_as_they_are_seen(body, text):
    """Notes and exponents are told from the number before them; deleted text is gone; what a form holds and pictures show is there."""
    assert text_of("a.html", page(body)) == text


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        ("<ol type=a><li>x<li>y<li value=5>z</ol>", "a. x\nb. y\ne. z"),
        ("<ol type=I start=3><li>x<li>y</ol>", "III. x\nIV. y"),
        ("<ol reversed><li>x<li>y<li>z</ol>", "3. x\n2. y\n1. z"),
        ("<ol style='list-style-type: lower-roman'><li>x<li>y</ol>", "i. x\nii. y"),
    ],
)
def test_items_have_the_numbers_that_a_browser_shows(items, lines):
    """By type, start, value, direction and style."""
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


def test_a_page_tells_its_author_and_day_in_json():
    """As news pages do; a damaged block of it costs nothing."""
    data = json.dumps({"@graph": [{"author": [{"name": "Ola Wik"}], "datePublished": "2019-07-01T08:00:00Z"}]})
    head = f"<script type='application/ld+json'>{data}</script><script type='application/ld+json'>{{</script>"
    assert dict(parsed("a.html", page("x", head)).metadata) == {"author": "Ola Wik", "date": "2019-07-01T08:00:00Z"}


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ("<d><p>Kept at 5% CO<sub>2</sub> and 10<sup>4</sup> cells<xref>3</xref>.</p></d>", "Kept at 5% CO2 and 10^4 cells[3]."),
        (
            "<d><p>Known [<xref>1</xref>,<xref>5</xref>–<xref>7</xref>] (<xref>8</xref>) for years<xref>9</xref>.</p></d>",
            "Known [1,5–7] (8) for years[9].",
        ),
        ("<d><p><sup>a</sup>Pearl<sup>b</sup> 7 ha<sup>-1</sup> <sup>c</sup> <b>net</b></p></d>", "[a] Pearl[b] 7 ha^-1 [c] net"),
        ("<d><p>The <i>ABC</i>-7 of <b>Dr.</b> Ray's ship.</p></d>", "The ABC-7 of Dr. Ray's ship."),
        ("<d><p>the har<lb break='no'/>bour<lb/>froze<note>In May.</note>.</p></d>", "the harbour froze[1].\n\n[1] In May."),
        ("<d><p>by Ol<choice><sic>aus</sic><corr>af</corr></choice> Rye</p></d>", "by Olaf Rye"),
        ("<d><p>By <name><sur>Ray</sur><given>Ann</given></name>, 1907</p></d>", "By Ray Ann, 1907"),
        ('<!DOCTYPE d [<!ENTITY org "Trust of Ness">]><d><p>The &org; owns <b>it</b>.</p></d>', "The Trust of Ness owns it."),
        (
            "<d><p>See <b>it</b>.</p><table><tgroup><thead><row><entry>Port</entry><entry>Fee</entry></row></thead>"
            "<tbody><row><entry>Ness</entry><entry>12</entry></row></tbody></tgroup></table></d>",
            "See it.\n\nPort: Ness · Fee: 12",
        ),
    ],
)
def test_running_text_in_xml_is_read_as_a_sentence(xml, text):
    """Of JATS, TEI and DocBook: no blanks within words, notes below, the corrected reading, entities that the file declares."""
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
FLOWED = "From: a@x.example\nContent-Type: text/plain; format=flowed\n\nThe bridge was \nclosed in May.\nThe ferry runs.\n"


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
    # format=flowed: a line that ends in a blank goes on.
    "flowed": (message_from_string(FLOWED), "The bridge was closed in May.\nThe ferry runs."),
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
