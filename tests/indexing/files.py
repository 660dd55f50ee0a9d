"""Small files of every format, made when a test needs them."""

import io
import json
import struct
import zipfile
import zlib
from email.message import EmailMessage

from localrag.loaders.content import LoadOptions
from localrag.loaders.discover import DigestCache
from localrag.loaders.reader import content_hash_of

USUAL = LoadOptions()


def file_hash(file, options=USUAL):
    """The content hash that a document of this file has."""
    return content_hash_of(file, DigestCache({}).digest_of("", file), options)


def zipped(entries):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in entries.items():
            archive.writestr(name, text)
    return made.getvalue()


def pdf(*pages, title=""):
    """A PDF whose pages are lists of lines; `- ` at a line's end is a hyphen that divides a word."""
    shown = (" ".join(f"({line.replace('(', '').replace(')', '')}) Tj 0 -14 Td" for line in lines) for lines in pages)
    return pdf_of([f"BT /F1 12 Tf 50 700 Td {lines} ET" for lines in shown], title=title)


def pdf_of(streams, *, title=""):
    """A PDF of pages drawn by these instructions; /F1 is Courier."""
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding >>"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", font, f"<< /Title ({title}) >>"]
    kids = []
    for stream in streams:
        kids.append(f"{len(objects) + 1} 0 R")
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
            f" /Contents {len(objects) + 2} 0 R >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    body, places = b"%PDF-1.4\n", []
    for n, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{n} 0 obj\n{text}\nendobj\n".encode("cp1252", "replace")
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{p:010} 00000 n \n" for p in places)
    return body + f"{table}trailer << /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{len(body)}\n%%EOF\n".encode()


def locked_pdf():
    """A PDF whose encryption asks for a password that is not the empty one."""
    encrypt = f"<< /Filter /Standard /V 1 /R 2 /O <{'41' * 32}> /U <{'42' * 32}> /P -4 >>"
    return pdf(["secret"]).replace(b"/Root 1 0 R", f"/Root 1 0 R /Encrypt {encrypt} /ID [<{'00' * 16}> <{'00' * 16}>]".encode())


def docx(**properties):
    import docx as word

    document = word.Document()
    for name, value in properties.items():
        setattr(document.core_properties, name, value)
    document.add_heading("The ferry", 1)
    document.add_paragraph("Ruth Sand bought the ferry Skua.")
    document.add_paragraph("paint", style="List Bullet")
    document.add_paragraph("ropes", style="List Number")
    document.add_heading("Ports", 2)
    table = document.add_table(rows=3, cols=3)
    for row, values in zip(
        table.rows, (("Name", "Port", "Year"), ("Ruth Sand", "Brannock", "1974"), ("Lars Holm", "", "1975")), strict=True
    ):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    document.add_paragraph("The end.")
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def pptx():
    import pptx as powerpoint
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    deck = powerpoint.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "The harbour"
    first.placeholders[1].text = "Ruth Sand spoke\nLars Holm answered"
    first.notes_slide.notes_text_frame.text = "Speak slowly."
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Landings"
    data = CategoryChartData()
    data.categories = ["1973", "1974"]
    data.add_series("Herring", (71, 64.5))
    second.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1), Inches(4), Inches(3), data)
    made = io.BytesIO()
    deck.save(made)
    return made.getvalue()


def xlsx(rows=(), sheet="Sales"):
    import datetime

    import openpyxl

    book = openpyxl.Workbook()
    first = book.active
    first.title = sheet
    for row in rows or (("Name", "Port", "Since"), ("Ruth Sand", "Brannock", datetime.datetime(1974, 3, 4)), ("Lars Holm", None, 12.0)):
        first.append(row)
    other = book.create_sheet("Costs")
    other.append(["Item", "Euro"])
    other.append(["paint", 12.5])
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def epub():
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Skua</dc:title>'
        '<dc:creator>Ruth Sand</dc:creator></metadata><manifest><item id="b" href="two.xhtml"/><item id="a" href="one%20.xhtml"/>'
        '</manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
    )
    container = '<container xmlns="urn:x"><rootfiles><rootfile full-path="in/book.opf"/></rootfiles></container>'
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>{}</h1><p>{}</p></body></html>'
    return zipped({
        "META-INF/container.xml": container,
        "in/book.opf": package,
        "in/one .xhtml": page.format("One", "It was launched."),
        "in/two.xhtml": page.format("Two", "It was sold."),
    })  # fmt: skip


def mail():
    message = EmailMessage()
    message["From"], message["To"] = "Ruth Sand <ruth@vardby.example>", "Lars Holm <lars@vardby.example>"
    message["Date"], message["Subject"] = "Mon, 04 Mar 1974 09:30:00 +0100", "Über den Skua"
    message.set_content("The Skua leaks.")
    message.add_alternative("<p>The Skua <b>leaks</b>.</p>", subtype="html")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="survey.pdf")
    return bytes(message)


def notebook():
    cells = [
        {"cell_type": "markdown", "source": ["# Landings\n", "by year"]},
        {"cell_type": "code", "source": "print(71)", "outputs": [{"output_type": "stream", "text": ["71\n"]}]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def lying_zip(name, size):
    """An archive with an entry that unpacks to `size` bytes but declares ten."""
    data = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = data.compress(b"\0" * size) + data.flush()
    head = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), 10, len(name), 0)
    local = b"PK\x03\x04" + head + name.encode() + packed
    central = b"PK\x01\x02" + struct.pack("<H", 20) + head + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name.encode()
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
