"""Loading: every format as readable text with its parts, every other file with its reason, and no file that takes the rest down."""

import json
import os
import subprocess
import sys
import time
from functools import cache

import psutil
import pytest

from localrag.loaders.content import LoadOptions
from localrag.loaders.discover import find_files
from localrag.loaders.reader import Limits, load_files, stored_kind
from localrag.records import Document, SkippedFile
from tests.conftest import mostly_ci
from tests.indexing import files as files_indexing
from tests.loaders.office_files import ODF, odf, odf_cell, odf_table

PAGE = """<html><head><title>The town</title><meta name="author" content="Ruth Sand"><script>track()</script></head><body>
<nav><a href="/">Home</a> <a href="/x">About</a></nav><h1>Vardby</h1><p>A town<br>by the <b>sea</b>.</p>
<ul><li>ferry<ul><li>Skua</li></ul></li></ul><ol start="3"><li>fish</li></ol>
<table><tr><th>Name</th><th>Port</th></tr><tr><td rowspan="2">Ruth</td><td>Brannock</td></tr><tr><td>Vardby</td></tr></table>
<table><tr><td><h2>Laid out</h2>by a table</td><td>x</td></tr></table><p hidden>unseen</p><pre>a
  b</pre></body></html>"""
TEX = r"""\documentclass{article} \usepackage{x}
\title{On \emph{ferries}} \author{Ruth Sand}
\begin{document} \maketitle
\section{Boats} % a remark
The \textbf{Skua} weighs $m = 3$ t, see \cite{holm}.
\begin{itemize} \item paint \end{itemize}
\end{document}"""
VTT = """WEBVTT

00:00:01.000 --> 00:00:04.000
<v Ruth>The Skua</v>

00:00:04.000 --> 00:00:06.000
<v Ruth>leaks.</v>

00:01:30.000 --> 00:01:31.000
<v Lars>Why?</v>
"""
RTF = rb"{\rtf1\ansi{\info{\title The log}}\pard The \b Skua\b0  leaks \'96 badly.\par}"
META = f"<office:document-meta {ODF}><office:meta><dc:title>The log</dc:title></office:meta></office:document-meta>"
BOOKS = b"<books><book><title>Skua</title><year>1974</year></book><book><title>Gannet</title></book></books>"


@cache
def sources():
    """A file of every format."""
    return {
        "note.txt": b"Ruth Sand\nbought it.",
        "front.md": b"---\ntitle: The log\ntags: [sea, fish]\ndate: 1974-03-04\n---\n# Another\n\ntext\n",
        "front2.md": b"+++\nauthor = 'Ruth'\n+++\ntext\n\n## Heading\n",
        "page.html": PAGE.encode(),
        "rows.csv": b"Name;Port;Year\nRuth Sand;Brannock;1974\nLars Holm;;1975\n",
        "bare.csv": b"1,2\n3,4\n",
        "rows.tsv": b"Name\tPort\nRuth\tVardby\n",
        "tree.json": json.dumps([{"ship": {"name": "Skua", "tons": [1, 2.5]}, "sold": None}, {"ship": {"name": "Gannet"}}]).encode(),
        "lines.jsonl": b'{"a": 1}\n{"a": 2}\n',
        "books.xml": BOOKS,
        "prose.xml": b"<doc><title>Ferry</title><p>The <i>Skua</i> leaks.</p></doc>",
        "mail.eml": files_indexing.mail(),
        "book.epub": files_indexing.epub(),
        "cells.ipynb": files_indexing.notebook(),
        "paper.tex": TEX.encode(),
        "old.rtf": RTF,
        "talk.vtt": VTT.encode(),
        "talk.srt": b"1\n00:00:01,000 --> 00:00:02,000\nThe Skua\n\n2\n00:00:02,500 --> 00:00:03,000\nleaks.\n",
        "notes.org": b"#+TITLE: The log\n* Monday\nfog\n",
        "doc.rst": b"Ferries\n=======\n\nThe Skua.\n",
        "tool.py": b"# not a title\nprint('Skua')\n",
        "conf.yaml": b"ship: Skua\n",
        "unnamed": b"just text",
        "report.docx": files_indexing.docx(title="Report", author="Ruth Sand"),
        "deck.pptx": files_indexing.pptx(),
        "book.xlsx": files_indexing.xlsx(),
        "text.odt": odf("text", "<text:h text:outline-level='2'>Log</text:h><text:p>It<text:s/>sailed.</text:p>", parts={"meta.xml": META}),
        "sheet.ods": odf("spreadsheet", odf_table(*(odf_cell(a) + odf_cell(b) for a, b in (("Name", "Year"), ("Ruth", "1974"))))),
        "show.odp": odf("presentation", "<draw:page><text:p>Hello</text:p></draw:page><draw:page><text:p>Bye</text:p></draw:page>"),
        "log.pdf": files_indexing.pdf(
            ["Ruth Sand bought the ferry Skua from Lars Holm, who", "had it for years.", "", "It leaks."], ["Next page."], title="A"
        ),
        "name.pdf": files_indexing.pdf(["text"], title="Microsoft Word - draft.doc"),
        "filing.pdf": files_indexing.pdf(["text"], title="0001512673-21-000008"),
    }


def write(folder, sources):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in sources.items():
        (folder / name).write_bytes(data)
    return folder


def read(file, options=LoadOptions(), limits=Limits()):  # noqa: B008
    (found,) = load_files([file], file.parent, options, limits)
    return found


def parsers():
    """The processes that read files for this one."""
    return {child for child in psutil.Process().children() if "localrag.loaders.parser_process" in child.cmdline()}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Every source above, read in one run."""
    folder = write(tmp_path_factory.mktemp("all"), sources())
    return {d.path: d for d in load_files(find_files([folder]).files, folder)}


def test_all_formats_are_read_in_one_run(loaded):
    """A mixed folder gives a document for every file; parts and metadata are in order and inside the text."""
    assert [p for p, d in loaded.items() if isinstance(d, SkippedFile)] == []
    assert set(loaded) == set(sources())
    for d in loaded.values():
        assert d.text.strip()
        assert all(0 <= p.start < p.end <= len(d.text) for p in d.parts)
        assert all(name and value and "\n" not in value for name, value in d.metadata)


TITLES = {
    "front.md": "The log", "front2.md": "Heading", "page.html": "The town", "mail.eml": "Über den Skua", "book.epub": "The Skua",
    "paper.tex": "On ferries", "old.rtf": "The log", "notes.org": "The log", "doc.rst": "Ferries", "tool.py": "tool",
    "report.docx": "Report", "deck.pptx": "The harbour", "text.odt": "The log", "log.pdf": "A", "name.pdf": "name",
    "filing.pdf": "filing", "note.txt": "note", "cells.ipynb": "Landings",
}  # fmt: skip
PARTS = {
    "log.pdf": ["page 1", "page 2"], "deck.pptx": ["slide 1", "slide 2"], "book.xlsx": ["sheet Sales", "sheet Costs"],
    "book.epub": ["chapter One", "chapter Two"], "talk.vtt": ["0:01", "1:30"], "show.odp": ["slide 1", "slide 2"],
    "cells.ipynb": ["cell 1", "cell 2"], "sheet.ods": ["sheet Toll"], "report.docx": [],
}  # fmt: skip


def test_titles_and_parts_are_named_as_a_person_would_name_them(loaded):
    """The title is the file's own, else its first heading, else its name; a comment in code is none, nor is a file name or a long number.

    Pages, slides, sheets, chapters and minutes are parts.
    """
    assert {name: loaded[name].title for name in TITLES} == TITLES
    assert {name: [part.label for part in loaded[name].parts] for name in PARTS} == PARTS


@pytest.mark.parametrize(
    ("name", "text"),
    {
        "rows.csv": "Name: Ruth Sand · Port: Brannock · Year: 1974\nName: Lars Holm · Year: 1975",
        "tree.json": "ship.name: Skua\nship.tons: 1, 2.5\n\nship.name: Gannet",
        "lines.jsonl": "a: 1\n\na: 2",
        "books.xml": "title: Skua\nyear: 1974\n\ntitle: Gannet",
        "paper.tex": "# On ferries\n\n## Boats\n\nThe Skua weighs $m = 3$ t, see [holm].\n\n- paint",
        "talk.vtt": "Ruth: The Skua leaks.\n\nLars: Why?",
        "talk.srt": "The Skua leaks.",
        "cells.ipynb": "# Landings\nby year\n\n```\nprint(71)\n```\n\n71",
        "text.odt": "## Log\n\nIt sailed.",
        "sheet.ods": "# Toll\n\nName: Ruth · Year: 1974",
        "log.pdf": "Ruth Sand bought the ferry Skua from Lars Holm, who had it for years.\n\nIt leaks.\n\nNext page.",
        "book.xlsx": "# Sales\n\nName: Ruth Sand · Port: Brannock · Since: 1974-03-04\nName: Lars Holm · Since: 12\n\n"
        "# Costs\n\nItem: paint · Euro: 12.5",
        "deck.pptx": "# The harbour\n\n- Ruth Sand spoke\n- Lars Holm answered\n\nNotes: Speak slowly.\n\n# Landings\n\n"
        "1973 · Herring: 71\n1974 · Herring: 64.5",
        "report.docx": "# The ferry\n\nRuth Sand bought the ferry Skua.\n\n- paint\n1. ropes\n\n## Ports\n\n"
        "Name: Ruth Sand · Port: Brannock · Year: 1974\nName: Lars Holm · Year: 1975\n\nThe end.",
        "page.html": "# Vardby\n\nA town\nby the sea.\n\n- ferry\n  - Skua\n3. fish\n\nName: Ruth · Port: Brannock\n"
        "Name: Ruth · Port: Vardby\n\n## Laid out\n\nby a table\n\nx\n\n```\na\n  b\n```",
        "mail.eml": "From: Ruth Sand <ruth@vardby.example>\nTo: Lars Holm <lars@vardby.example>\nDate: 1974-03-04 09:30:00+01:00\n"
        "Subject: Über den Skua\n\nThe Skua leaks.\n\nAttachments: survey.pdf",
    }.items(),
)  # fmt: skip
def test_the_text_of_a_format(loaded, name, text):
    """Headings are `# …`, rows carry their headers, lists and tables stay in place, furniture and commands are gone."""
    assert loaded[name].text.strip() == text


def test_text_formats_are_read_as_they_stand(loaded):
    """The text is the file's, to the character, so that a citation's place is a place in the file."""
    for name in ("note.txt", "front.md", "front2.md", "notes.org", "doc.rst", "tool.py", "conf.yaml", "unnamed"):
        assert loaded[name].text == sources()[name].decode()


def test_metadata_come_from_front_matter_headers_and_properties(loaded):
    """Lists of front matter are one line; a mail's sender is its author."""
    assert loaded["front.md"].metadata == (("title", "The log"), ("tags", "sea, fish"), ("date", "1974-03-04"))
    assert ("author", "Ruth") in loaded["front2.md"].metadata
    assert ("author", "Ruth Sand <ruth@vardby.example>") in loaded["mail.eml"].metadata
    assert loaded["report.docx"].header == "Title: Report · Date: 2013-12-23 · Author: Ruth Sand"


@pytest.mark.parametrize(
    ("name", "data"),
    {
        "r.csv": b'when,who,what\n1974,Ruth,"The Skua, she says, leaks.\nBadly."\n1975,Lars,\n',
        "r.jsonl": b'{"when": 1974, "who": "Ruth", "what": "The Skua, she says, leaks.\\nBadly."}\n{"when": 1975, "what": ""}\n',
        "r.xlsx": files_indexing.xlsx([("when", "who", "what"), (1974, "Ruth", "The Skua, she says, leaks. Badly.")]),
    }.items(),
)  # fmt: skip
def test_with_a_text_column_each_row_is_a_paragraph(tmp_path, name, data):
    """The metadata columns stand on a line before the text; rows without text are left out, and the hash knows the columns."""
    file = write(tmp_path, {name: data}) / name
    options = LoadOptions("what", ("when", "who"))
    found = read(file, options)

    assert "when: 1974 · who: Ruth\nThe Skua, she says, leaks." in found.text
    assert "1975" not in found.text
    assert files_indexing.file_hash(file, options) == found.content_hash != files_indexing.file_hash(file)


ENTITIES = "<!DOCTYPE d [<!ENTITY a 'ha'>{}]><d><p>&z; end</p><p>x</p></d>".format(
    "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefghijklmnopqrstuvwxy", "bcdefghijklmnopqrstuvwxyz", strict=True))
)


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
LOCKED = {"META-INF/manifest.xml": "<x><encryption-data/></x>", "content.xml": "\1"}


def refused():
    """Files that cannot be read: data, how the reason begins, and whether it is a failure."""
    return {
        "bomb.docx": (files_indexing.zipped({"word/document.xml": b"\0" * 60_000_000}), "a zip bomb: 0.1 MB unpack to 60 MB", False),
        "liar.odt": (files_indexing.lying_zip("content.xml", 50_000_000), "damaged", True),
        "cut.docx": (files_indexing.docx()[:5000], "damaged: File is not a zip file", True),
        "hollow.docx": (files_indexing.zipped({"a": "b"}), "damaged", True),
        "cut.pdf": (files_indexing.pdf(["text"])[:60], "damaged", True),
        "locked.pdf": (files_indexing.locked_pdf(), "password-protected", False),
        "scan.pdf": (files_indexing.pdf([]), "only images, no text (scanned?)", False),
        "locked.docx": (OLE + bytes(100) + "EncryptedPackage".encode("utf-16-le"), "password-protected", False),
        "locked.odt": (files_indexing.zipped(LOCKED), "password-protected", False),
        "mail.msg": (b"\xd0\xcf\x11\xe0\0\1\2" * 50, "damaged", True),
        "sums.xlsb": (b"PK\3\4\0\0" * 50, "format not supported: .xlsb; convert it: soffice --headless --convert-to xlsx FILE", False),
        "plan.vsd": (b"\xd0\xcf\x11\xe0\0\1\2" * 50, "format not supported: .vsd", False),
        "image.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a picture", False),
        "binary": (bytes(range(256)), "binary, not text", False),
        "binary.txt": (b"\x00\x01\xff\xfe" * 100, "binary, not text", True),
        **{
            f"noise{n}.txt": (data, "binary, not text", True)
            for n, data in enumerate(
                [b"\x80\x81\xfe", bytes(range(256)) * 9, b"ab\0\x01\x02cd" * 99, b"\0" * 99, b"\x7fELF\0\0\0" + b"\1\0name" * 90]
            )
        },
        "empty.txt": (b"", "empty", False),
        "blank.md": (b" \n\n", "empty", False),
        "blank.html": (b"<html><script>x</script></html>", "empty", False),
        "broken.xml": (b"<a><b></a>", "damaged", True),
        "sealed.eml": (b"From: a@b\nContent-Type: application/pkcs7-mime\n\nMIIB", "encrypted", False),
        "deep.html": (b"<div>" * 100_000 + b"x", "", True),
        "deep.json": (b"[" * 100_000, "", True),
    }


def test_what_cannot_be_read_has_a_reason_and_the_rest_is_read(tmp_path):
    """Bombs, broken, locked and foreign files are named with their reason, a file after them is read, and all in seconds."""
    files = refused()
    folder = write(tmp_path, {name: data for name, (data, *_) in files.items()} | {"zz.txt": b"still here"})
    began = time.monotonic()
    found = {d.path: d for d in load_files(find_files([folder]).files, folder)}

    assert time.monotonic() - began < 300
    assert found["zz.txt"].text == "still here"
    for name, (_, reason, failed) in files.items():
        if reason:
            assert isinstance(found[name], SkippedFile), name
            assert found[name].reason.startswith(reason), found[name]
            assert found[name].is_failure == failed, found[name]


@pytest.mark.parametrize("depth", mostly_ci([300, 1900, 3000], 1900))
def test_no_text_of_a_page_is_lost_however_it_is_nested(tmp_path, depth):
    """What stands in and after hundreds of open elements is read, and so is a paragraph of ten megabytes."""
    page = f"<p>{'word ' * 2_100_000}</p>{'<div>' * depth}deep{'</div>' * depth}<p>after</p>".encode()
    text = read(write(tmp_path, {"a.html": page}) / "a.html").text

    assert text.count("word") == 2_100_000
    assert text.split()[-2:] == ["deep", "after"]


def test_entities_of_xml_are_not_expanded(tmp_path):
    """A billion laughs stay a few bytes, and a file on this machine is not read into a document."""
    outside = tmp_path / "secret"
    outside.write_text("treasure")
    outer = f"<!DOCTYPE d [<!ENTITY s SYSTEM '{outside.as_uri()}'>]><d><p>&s; end</p>tail</d>".encode()
    write(tmp_path / "docs", {"laughs.xml": ENTITIES.encode(), "outer.xml": outer})
    found = list(load_files(find_files([tmp_path / "docs"]).files, tmp_path))

    for d in found:
        text = d.reason if isinstance(d, SkippedFile) else d.text
        assert len(text) < 1000
        assert "treasure" not in text


LONG, LARGE = ("a.csv", b"a,b\n" + b"1,2\n" * 3_000_000), ("a.json", b"[" + b"[]," * 8_000_000 + b"1]")
TOO_LONG = (LONG, Limits(seconds=0.7), "took longer than 0.7 s")
TOO_LARGE = (LARGE, Limits(memory=2**28), "needed more than 0.25 GB of memory")


@pytest.mark.parametrize(("file", "limits", "reason"), mostly_ci([TOO_LONG, TOO_LARGE], TOO_LONG), ids=["time", "memory"])
@pytest.mark.usefixtures("own_parsers")
def test_a_file_beyond_a_limit_is_given_up_and_the_next_is_read(tmp_path, file, limits, reason):
    """The limit of time or memory ends the worker; a new one goes on."""
    write(tmp_path, dict([file]) | {"b.txt": b"short"})
    given_up, quick = load_files(find_files([tmp_path]).files, tmp_path, limits=limits)

    assert (given_up.reason, given_up.is_failure) == (reason, True)
    assert quick.text == "short"


@pytest.mark.usefixtures("own_parsers")
def test_a_file_does_not_pay_for_a_process_that_another_one_ended(tmp_path):
    """Where the reading process dies after a file, the next file is read by a new one."""
    write(tmp_path, {"a.txt": b"first", "b.txt": b"second"})

    def files():
        yield tmp_path / "a.txt"
        for child in parsers():
            child.kill()
            psutil.wait_procs([child], timeout=10)
        yield tmp_path / "b.txt"

    assert [d.text for d in load_files(files(), tmp_path)] == ["first", "second"]


@pytest.mark.ci
@pytest.mark.usefixtures("own_parsers")
def test_several_readers_read_what_one_reads(tmp_path):
    """In the same order, with files among them that need too much memory; the processes are gone in the end."""
    files = {f"{n:02}.txt": f"the {n}th".encode() for n in range(20)}
    files |= {"07.csv": LONG[1], "09.json": LARGE[1]}
    write(tmp_path, files)
    limits = Limits(memory=2**28)

    before = parsers()
    one, several = (list(load_files(find_files([tmp_path]).files, tmp_path, limits=limits, readers=n)) for n in (1, 3))

    assert several == one
    assert [d.path for d in one if isinstance(d, SkippedFile)] == ["07.csv", "09.json"]
    assert parsers() == before


@pytest.mark.usefixtures("own_parsers")
def test_readers_end_with_the_one_who_asks_for_their_files(tmp_path, monkeypatch):
    """Closing the generator half-way does not wait for the file that is being read, however long that takes."""
    modules = write(tmp_path / "modules", {"pypdfium2.py": b"import time\ntime.sleep(600)\n"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), os.environ.get("PYTHONPATH", "")]))
    docs = write(tmp_path / "docs", {"a.txt": b"short", "b.pdf": b"%PDF-1.4", "c.txt": b"short"})
    before = parsers()
    found = load_files(find_files([docs]).files, tmp_path, limits=Limits(seconds=600), readers=2)

    assert next(found).text == "short"
    begun = time.monotonic()
    found.close()

    assert time.monotonic() - begun < 120
    assert parsers() == before


def test_a_file_that_is_too_large_is_not_opened(tmp_path):
    """Its size is enough to leave it out."""
    file = write(tmp_path, {"a.txt": b"x" * 2_000_001}) / "a.txt"

    assert read(file, limits=Limits(size=2_000_000)).reason == "larger than 2 MB"


@pytest.mark.parametrize("grows", [False, True])
def test_a_file_that_changes_while_it_is_read_is_read_by_the_next_run(tmp_path, grows):
    """Half of it may be of one state and half of another; a text that only grows is read as far as it stood."""
    file = write(tmp_path, {"a.csv": b"a,b\n" + b"1,2\n" * 300_000}) / "a.csv"
    move = "f.seek(0, 2)" if grows else "f.seek(0)"
    code = f"import time\nf = open({str(file)!r}, 'r+')\nwhile 1: {move}; f.write('3,4,'); f.flush(); time.sleep(.01)"
    before = file.stat().st_mtime_ns
    writer = subprocess.Popen([sys.executable, "-c", code])
    try:
        while file.stat().st_mtime_ns == before:
            time.sleep(0.01)
        found = read(file)
    finally:
        writer.kill()
        writer.wait()

    if grows:
        assert found.text.startswith("a: 1 · b: 2\n")
    else:
        assert (found.reason, found.is_failure) == ("changed while it was read", True)


def test_names_and_texts_with_half_characters_can_be_stored(tmp_path):
    """A file name that is no UTF-8 and a lone surrogate in JSON both come out as text."""
    (tmp_path / os.fsdecode(b"caf\xe9.json")).write_bytes(b'{"a\\ud800": "b\\udfff"}')
    (found,) = load_files(find_files([tmp_path]).files, tmp_path)

    assert (found.path, found.title, found.text) == ("caf\ufffd.json", "caf\ufffd", "a?: b?")


MAIL = files_indexing.mail()
TYPED = b"From: the harbour board\nTo: all tenants\nDate: 3 May\nSubject: ice\n\nNo boats."
MAILBOX = b"From - Fri Mar 14 10:00:00 2031\nX-Mozilla-Status: 0001\nFrom: a@b.example\nSubject: Ice\n\nNo boats.\n"
WEB_PAGE = b"<!-- saved -->\n<!DOCTYPE html><html><head><title>Ice</title></head><body><p>No boats.</p></body></html>"
XML = b"<map version='1'><node TEXT='No boats'/><node TEXT='Ice'/></map>"
CANVAS = {"nodes": [{"type": "text", "text": "No *boats*", "x": 0}, {"file": "Ice.md"}, {"label": "Bay"}], "edges": [{"label": "so"}]}
KINDS = [
    ("report", files_indexing.pdf(["No boats."]), ".pdf", "No boats."),
    ("report.pdf (1)", files_indexing.pdf(["No boats."]), ".pdf", "No boats."),
    ("scan.doc", b"\r\n" + files_indexing.pdf(["No boats."]), ".pdf", "No boats."),
    ("letter", files_indexing.docx(), ".docx", "Ruth"),
    ("letter.pdf", files_indexing.docx(), ".docx", "Ruth"),
    ("sums.csv", files_indexing.xlsx(), ".xlsx", ""),
    ("story.zip", files_indexing.epub(), ".epub", ""),
    ("old.txt", RTF, ".rtf", "The Skua leaks"),
    ("text.bin", odf("text", "<text:p>No boats.</text:p>"), ".odt", "No boats."),
    ("Default.aspx", WEB_PAGE, ".html", "No boats."),
    ("saved.txt", WEB_PAGE, ".html", "No boats."),
    ("error.pdf", WEB_PAGE, ".html", "No boats."),
    ("plan.mm", XML, ".xml", "TEXT: No boats"),
    ("wide.opml", "\ufeff<?xml version='1.0' encoding='utf-16'?><a><b>Ice</b></a>".encode("utf-16-le"), ".opml", "Ice"),
    ("flat.xhtm", b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y'>]>\n<a><b>Ice</b><b>Bay</b></a>", ".xml", "b: Ice"),
    ("list.webdata", b'[{"name": "Skua"}]', ".json", "name: Skua"),
    ("board.canvas", json.dumps(CANVAS).encode(), ".canvas", "No *boats*\n\nIce.md\n\nBay\n\nso"),
    ("1931.M12.host:2,S", MAIL, ".eml", ""),
    ("mail.msg", MAIL, ".eml", ""),
    ("4711.emlx", str(len(MAIL)).encode() + b"   \n" + MAIL + b"<?xml version='1.0'?><plist/>", ".emlx", ""),
    ("Inbox", MAILBOX, ".mbox", "Ice"),
    ("page.doc", b"MIME-Version: 1.0\nContent-Type: text/html\n\n<p>No boats.</p>", ".mhtml", "No boats."),
    ("note", b"---\ntitle: Ice\n---\nNo boats.\n", ".md", "No boats."),
    ("rows.xlsx", b"Name,Port\nRuth,Vardby\n", ".csv", "Name: Ruth"),
    # What merely begins as something else is read as before.
    ("broken.mm", b"<map><node TEXT='No boats'/>", ".mm", "<map>"),
    ("start.txt", b"<p>No boats.</p>", ".txt", "<p>No boats."),
    ("start2.txt", b"<?xml version='1.0'?>\n<a/> is how a file begins.", ".txt", "is how a file begins"),
    ("part.txt", b"<html> is the root of a page.", ".txt", "<html> is"),
    ("notes.md", WEB_PAGE, ".md", "<!DOCTYPE"),
    ("saved.php", WEB_PAGE, ".html", "No boats."),
    ("part.php", b"<p>No boats.</p>", ".php", "<p>No boats."),
    ("list.phtml", b"<ul><?php list() ?></ul>", ".phtml", "list()"),
    ("view.php", b"<html><?php echo 1 ?></html>", ".php", "<?php"),
    ("page.aspx", b"<html><body><%= now %></body></html>", ".aspx", "<%="),
    ("App.vue", b"<template><p>No boats</p></template>", ".vue", "<template>"),
    ("a.svg", b"<svg><text>Ice</text></svg>", ".svg", "Ice"),
    ("typed.txt", TYPED, ".txt", "No boats."),
    ("typed", b"Note: no boats\nFrom: Monday on\n\nIce.", "", "Note: no boats"),
    ("0001.patch", b"From 3f2a Mon Sep 17 00:00:00 2001\nFrom: a@b.example\nDate: Fri, 14 Mar 2031 10:00:00\n\nx", ".patch", "From 3f2a"),
    ("pdf.md", b"A file begins with %PDF-1.4.", ".md", "begins with"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "kind", "text"), KINDS, ids=[name for name, *_ in KINDS])
def test_a_file_is_read_for_what_it_is(tmp_path, name, data, kind, text):
    """Its content says so where nobody would write such a thing as text; the hash of its content names the kind that its name does not."""
    (tmp_path / name).write_bytes(data)
    found, *_ = load_files([tmp_path / name], tmp_path)

    assert isinstance(found, Document), found
    assert stored_kind(found.content_hash, name) == kind
    assert text in found.text
    assert "plist" not in found.text


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.md", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "a pointer of Git LFS"),
        ("a.pdf", b"../.git/annex/objects/aa/SHA256E-s9--1.pdf\n", "a pointer of git-annex"),
        ("bundle.js", b"/*! x */\n" + b"var a=function(b){return b};" * 99, "minified code (taken with --all-files)"),
        ("b", files_indexing.zipped({"[Content_Types].xml": "", "xl/workbook.bin": ""}), "format not supported: .xlsb; convert it: "),
        ("c.docx", OLE + bytes(100) + "EncryptedPackage".encode("utf-16-le"), "password-protected"),
    ],
)  # fmt: skip
def test_what_is_no_document_by_its_content_says_what_it_is(tmp_path, name, data, reason):
    """And what to do; code of programs is read with `all_files`."""
    file = write(tmp_path, {name: data}) / name
    found, taken = read(file), read(file, LoadOptions(all_files=True))

    assert found.reason.startswith(reason)
    if "--all-files" in reason:
        assert files_indexing.file_hash(file) != taken.content_hash == files_indexing.file_hash(file, LoadOptions(all_files=True))


def test_a_document_about_generated_code_is_one(tmp_path):
    """Only code is left out for that, and long lines of a text are none of minified code."""
    write(
        tmp_path, {"a.md": b"This page was generated. Do not edit it.", "b.txt": b"word " * 9999, "c.js": b"// Ruth\n" + b"go();\n" * 500}
    )

    assert all(isinstance(found, Document) for found in load_files(find_files([tmp_path]).files, tmp_path))
