"""Office files written as their XML or their records, each with only what a test needs."""

import struct

from tests.indexing.files import zipped

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DGM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
CORE = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"
NAMES = (
    f'xmlns:w="{W}" xmlns:r="{R}" xmlns:a="{A}" xmlns:p="{P}" xmlns:dgm="{DGM}" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="urn:wps" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
)


EXTERNAL = ' TargetMode="External"'


def relationships(relations):
    """A .rels part of id → (kind or full type, target)."""
    rows = (
        f'<Relationship Id="{key}" Type="{kind if "/" in kind else f"{R}/{kind}"}" Target="{target}"'
        f"{EXTERNAL if kind == 'hyperlink' else ''}/>"
        for key, (kind, target) in relations.items()
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{"".join(rows)}</Relationships>'


def package(main, document, relations, parts, content_type="application/xml"):
    """An Open XML file; `parts`: name → text; relations without a part of that name have one in the folder of the main part."""
    folder, _, name = main.rpartition("/")
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{content_type}"/></Types>'
    )
    return zipped({
        "[Content_Types].xml": types,
        "_rels/.rels": relationships({"rId1": ("officeDocument", main)} | ({"c": (CORE, "core.xml")} if "core.xml" in parts else {})),
        main: document,
        f"{folder}/_rels/{name}.rels": relationships(relations),
        **parts,
    })  # fmt: skip


WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def docx(body, relations=None, parts=None, *, content_type=WORD):
    """A Word document of these blocks; `relations`: id → (kind, target in word/)."""
    document = f"<w:document {NAMES}><w:body>{body}</w:body></w:document>"
    found = relations or {}
    if "word/styles.xml" not in (parts or {}):
        parts = {"word/styles.xml": f"<w:styles {NAMES}/>"} | (parts or {})
    return package("word/document.xml", document, {"styles": ("styles", "styles.xml")} | found, parts, content_type)


def p(*runs, style="", number=None):
    """A paragraph of runs or texts; `number`: its list and depth."""
    listed = f'<w:numPr><w:ilvl w:val="{number[1]}"/><w:numId w:val="{number[0]}"/></w:numPr>' if number else ""
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{named}{listed}</w:pPr>{''.join(r if r.startswith('<') else run(r) for r in runs)}</w:p>"


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def cell(text, properties=""):
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"


def table(*rows):
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def numbering(*levels, nums):
    """A list definition of levels (format, text, start), and lists of it: id → XML of its overrides."""
    rows = (
        f'<w:lvl w:ilvl="{n}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for n, (form, text, start) in enumerate(levels)
    )
    lists = (f'<w:num w:numId="{key}"><w:abstractNumId w:val="0"/>{override}</w:num>' for key, override in nums.items())
    return f'<w:numbering {NAMES}><w:abstractNum w:abstractNumId="0">{"".join(rows)}</w:abstractNum>{"".join(lists)}</w:numbering>'


def pptx(*slides, relations=None, parts=None, content_type="application/xml"):
    """A presentation whose slides are the XML of their shapes; `relations`: of the first slide."""
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="s{n}"/>' for n in range(len(slides)))
    listed = f"<p:presentation {NAMES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    made = {
        f"ppt/slides/slide{n}.xml": f"<p:sld {NAMES}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        for n, shapes in enumerate(slides)
    }
    made["ppt/slides/_rels/slide0.xml.rels"] = relationships(relations or {})
    found = {f"s{n}": ("slide", f"slides/slide{n}.xml") for n in range(len(slides))}
    return package("ppt/presentation.xml", listed, found, made | (parts or {}), content_type)


def shape(*paragraphs, kind="", place=""):
    """A shape of a slide; `kind`: of its placeholder; `place`: "x y width height"."""
    holder = f'<p:nvSpPr><p:cNvPr id="1" name=""/><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>' if kind else ""
    x, y, width, height = place.split() if place else "0000"
    frame = f'<p:spPr><a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="{width}" cy="{height}"/></a:xfrm></p:spPr>' if place else ""
    return f"<p:sp>{holder}{frame}<p:txBody>{''.join(ap(text) for text in paragraphs)}</p:txBody></p:sp>"


def ap(text, properties=""):
    """A paragraph of a drawing, of text or runs."""
    runs = text if text.startswith("<") else f"<a:r><a:t>{text}</a:t></a:r>"
    return f"<a:p>{properties}{runs}</a:p>"


def raised(text, baseline):
    return f'<a:r><a:rPr baseline="{baseline}"/><a:t>{text}</a:t></a:r>'


def frame(content):
    """A table, chart or diagram of a slide."""
    return f"<p:graphicFrame><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic></p:graphicFrame>"


def slide_table(*rows):
    """A table of a slide; a cell is a text, or (text, attributes)."""
    cells = (
        "".join(f"<a:tc {c[1]}><a:txBody>{ap(c[0])}</a:txBody></a:tc>" for c in (c if isinstance(c, tuple) else (c, "") for c in row))
        for row in rows
    )
    return frame(f'<a:tbl><a:tblPr firstRow="1"/>{"".join(f"<a:tr>{c}</a:tr>" for c in cells)}</a:tbl>')


def xlsx(rows, after="", *, formats=(), relations=None, parts=None, strings=(), content_type="application/xml", book=""):
    """A workbook of one sheet; rows of texts, numbers or XML of cells; `formats`: style → format code; `strings`: XML of shared texts."""
    sheet = "".join(f'<row r="{n}">{"".join(map(_cell, row))}</row>' for n, row in enumerate(rows, 1))
    codes = "".join(f'<numFmt numFmtId="{200 + n}" formatCode="{code}"/>' for n, code in enumerate(formats))
    styles = "".join(f'<xf numFmtId="{200 + n}"/>' for n in range(len(formats)))
    made = {
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{S}" xmlns:r="{R}"><sheetData>{sheet}</sheetData>{after}</worksheet>',
        "xl/worksheets/_rels/sheet1.xml.rels": relationships(relations or {}),
        "xl/styles.xml": f'<styleSheet xmlns="{S}"><numFmts>{codes}</numFmts><cellXfs><xf numFmtId="0"/>{styles}</cellXfs></styleSheet>',
        "xl/sharedStrings.xml": f'<sst xmlns="{S}">{"".join(f"<si>{text}</si>" for text in strings)}</sst>',
    }
    listed = f'<workbook xmlns="{S}" xmlns:r="{R}">{book}<sheets><sheet name="Toll" sheetId="1" r:id="rId1"/></sheets></workbook>'
    found = {
        "rId1": ("worksheet", "worksheets/sheet1.xml"),
        "rId2": ("styles", "styles.xml"),
        "rId3": ("sharedStrings", "sharedStrings.xml"),
        "rId4": ("person", "persons/person.xml"),
    }
    return package("xl/workbook.xml", listed, found, made | (parts or {}), content_type)


def _cell(value):
    if isinstance(value, str) and value.startswith("<c"):
        return value
    return f"<c><v>{value}</v></c>" if isinstance(value, int | float) else f'<c t="inlineStr"><is><t>{value}</t></is></c>'


ODF = (
    " ".join(
        f'xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{u}:1.0"'
        for n, u in (
            *(("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"), ("style", "style"), ("form", "form")),
            *(("presentation", "presentation"), ("chart", "chart")),
        )
    )
    + ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" '
    'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
)


def odf(kind, body, automatic="", styles="", parts=None):
    """An OpenDocument file: its body, the automatic styles before it, and the content of styles.xml."""
    content = (
        f"<office:document-content {ODF}><office:automatic-styles>{automatic}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    return zipped({
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": content,
        "styles.xml": f"<office:document-styles {ODF}>{styles}</office:document-styles>",
        **(parts or {}),
    })  # fmt: skip


SUPER = '<style:style style:name="T1" style:family="text"><style:text-properties style:text-position="super 58%"/></style:style>'
LOW = '<style:style style:name="T2" style:family="text"><style:text-properties style:text-position="-33% 58%"/></style:style>'


def odf_cell(text, attributes="", inside=""):
    return f"<table:table-cell {attributes}>{inside}<text:p>{text}</text:p></table:table-cell>"


def odf_table(*rows, name="Toll"):
    return f'<table:table table:name="{name}">{"".join(f"<table:table-row>{row}</table:table-row>" for row in rows)}</table:table>'


COVERED = "<table:covered-table-cell/>"


def ole(streams):
    """An OLE file of path → bytes; streams are filled with zeros to the size that needs no table of small ones."""
    names = sorted({path[:n] for path in streams for n in range(1, len(path) + 1)})
    entries = [((), 5, b"")] + [(path, 2 if path in streams else 1, streams.get(path, b"")) for path in names]
    sectors, fat, starts = [], [], []
    for _, _, data in entries:
        padded = data.ljust(4096, b"\0") if data else b""
        starts.append(len(sectors) if data else 0xFFFFFFFE)
        parts = [padded[n : n + 512].ljust(512, b"\0") for n in range(0, len(padded), 512)]
        fat += [len(sectors) + n + 1 for n in range(len(parts))]
        sectors += parts
        if parts:
            fat[-1] = 0xFFFFFFFE
    index = {path: n for n, (path, *_) in enumerate(entries)}
    directory = b""
    for n, (path, kind, data) in enumerate(entries):
        children = [index[other] for other in names if other[:-1] == path]
        siblings = [index[other] for other in names if path and other[:-1] == path[:-1]]
        after = siblings.index(n) + 1 if n in siblings else 0
        right = siblings[after] if 0 < after < len(siblings) else 0xFFFFFFFF
        name = (path[-1] if path else "Root Entry").encode("utf-16-le")
        directory += name.ljust(64, b"\0") + struct.pack(
            "<HBBIII", len(name) + 2, kind, 1, 0xFFFFFFFF, right, (children or [0xFFFFFFFF])[0]
        )
        directory += bytes(36) + struct.pack("<IQ", starts[n], max(len(data), 4096) if data else 0)
    directory += b"".join(bytes(68) + b"\xff" * 12 + bytes(48) for _ in range(-len(entries) % 4))
    first = len(sectors)
    parts = [directory[n : n + 512] for n in range(0, len(directory), 512)]
    fat += [first + n + 1 for n in range(len(parts))]
    fat[-1] = 0xFFFFFFFE
    sectors += parts
    n_fat = -(-(len(fat) + 8) // 128)
    places = [len(sectors) + n for n in range(n_fat)]
    table = b"".join(struct.pack("<I", n) for n in fat + [0xFFFFFFFD] * n_fat).ljust(n_fat * 512, b"\xff")
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    head += struct.pack("<IIIIIIIII", 0, n_fat, first, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    head += b"".join(struct.pack("<I", n) for n in places).ljust(436, b"\xff")
    return head + b"".join(sectors) + table


def xls(rows, *, formats=(), merged=(), bold_rows=(), struck_rows=()):
    """A workbook of Excel 97: rows of texts or (number, index of its format); those whose texts are bold, and struck through."""

    def record(kind, data):
        return struct.pack("<HH", kind, len(data)) + data

    def string(text):
        return struct.pack("<HB", len(text), 1) + text.encode("utf-16-le")

    font, bold, struck = (
        record(0x31, struct.pack("<HHHHHBBBB", 200, options, 0x7FFF, weight, 0, 0, 0, 0, 0) + struct.pack("<BB", 5, 0) + b"Arial")
        for options, weight in ((0, 400), (0, 700), (8, 400))
    )
    styles = b"".join(record(0x41E, struct.pack("<H", 164 + n) + string(code)) for n, code in enumerate(formats))
    styles += b"".join(record(0xE0, struct.pack("<HHH", 0, key, 0) + bytes(14)) for key in (0, *(164 + n for n in range(len(formats)))))
    for number in (5, 6):  # of the bold and the struck font: there is none of number 4
        styles += record(0xE0, struct.pack("<HHH", number, 0, 0) + bytes(14))
    cells = b""
    for n, row in enumerate(rows):
        for column, value in enumerate(row):
            if isinstance(value, tuple):
                cells += record(0x203, struct.pack("<HHHd", n, column, value[1] + 1, value[0]))
            elif value:
                style = len(formats) + 1 if n in bold_rows else len(formats) + 2 if n in struck_rows else 0
                cells += record(0x204, struct.pack("<HHH", n, column, style) + string(value))
    ranges = record(0xE5, struct.pack("<H", len(merged)) + b"".join(struct.pack("<HHHH", *four) for four in merged))
    begin = (
        record(0x809, struct.pack("<HHHHII", 0x600, 5, 0, 1997, 0, 6))
        + record(0x42, struct.pack("<H", 1200))
        + font * 4
        + bold
        + struck
        + styles
    )
    sheet = record(0x809, struct.pack("<HHHHII", 0x600, 0x10, 0, 1997, 0, 6)) + cells + ranges + record(0x0A, b"")
    name = struct.pack("<BB", 4, 0) + b"Toll"
    size = len(begin) + 4 + 6 + len(name) + 4
    return ole({("Workbook",): begin + record(0x85, struct.pack("<IH", size, 0) + name) + record(0x0A, b"") + sheet})


def summary(title, author, seconds, code_page=1252):
    """The properties of an old document, saved so many seconds after 1970."""
    texts = [(key, struct.pack("<II", 30, len(value) + 1) + value + bytes(4 - len(value) % 4)) for key, value in ((2, title), (4, author))]
    values = [(1, struct.pack("<II", 2, code_page)), *texts, (13, struct.pack("<IQ", 64, (seconds + 11_644_473_600) * 10_000_000))]
    places, body = b"", b""
    for key, value in values:
        places += struct.pack("<II", key, 8 + 8 * len(values) + len(body))
        body += value
    section = struct.pack("<II", 8 + len(places) + len(body), len(values)) + places + body
    return struct.pack("<HHI", 0xFFFE, 0, 0) + bytes(16) + struct.pack("<I", 1) + bytes(16) + struct.pack("<I", 48) + section


def doc(text, properties=b""):
    """A document of Word 97; paragraphs end in a carriage return; `properties`: its summary."""
    data = text.encode("cp1252")
    head = struct.pack("<HHHHHHH", 0xA5EC, 0xC1, 0, 0x409, 0, 0x1200, 0xBF) + bytes(18)
    head += struct.pack("<H", 14) + bytes(28)
    head += struct.pack("<H", 22) + struct.pack("<IIII", 0, 0, 0, len(data)) + bytes(72)
    pieces = b"\x02" + struct.pack("<I", 16) + struct.pack("<II", 0, len(data)) + struct.pack("<HIH", 0, 0x40000000 | 2048 * 2, 0)
    places = [(0, 0)] * 93
    places[33] = (0, len(pieces))
    head += struct.pack("<H", 93) + b"".join(struct.pack("<II", *place) for place in places) + struct.pack("<H", 0)
    streams = {("WordDocument",): head.ljust(2048, b"\0") + data, ("1Table",): pieces}
    return ole(streams | ({("\x05SummaryInformation",): properties} if properties else {}))


def msg(subject, body, *, sender=("Iduna Kell", "iduna@ness.example"), headers="", attachments=()):
    """A message saved by Outlook; `attachments`: (name, bytes), or (name, path → bytes of a message)."""

    def message(subject, body):
        texts = {0x0037: subject, 0x1000: body, 0x0C1A: sender[0], 0x5D01: sender[1], 0x007D: headers}
        return {(f"__substg1.0_{key:04X}001F",): value.encode("utf-16-le") for key, value in texts.items()}

    stamp = (1_000_000_000 + 11_644_473_600) * 10_000_000
    streams = message(subject, body)
    streams["__properties_version1.0",] = bytes(32) + struct.pack("<HHIQ", 0x40, 0x39, 6, stamp)
    streams["__recip_version1.0_#00000000", "__substg1.0_3001001F"] = "Claus Dahlin".encode("utf-16-le")
    streams["__recip_version1.0_#00000000", "__substg1.0_39FE001F"] = "claus@ness.example".encode("utf-16-le")
    for n, (name, content) in enumerate(attachments):
        folder = f"__attach_version1.0_#{n:08}"
        streams[folder, "__substg1.0_3707001F"] = name.encode("utf-16-le")
        if isinstance(content, bytes):
            streams[folder, "__substg1.0_37010102"] = content
        else:
            inner = message(*content) | {("__properties_version1.0",): bytes(24)}
            streams |= {(folder, "__substg1.0_3701000D", *path): data for path, data in inner.items()}
    return ole(streams)


def ppt(*slides):
    """A presentation of PowerPoint 97; slides of a title and a text."""

    def record(kind, data, version=0, instance=0):
        return struct.pack("<HHI", version | instance << 4, kind, len(data)) + data

    texts = b""
    for n, (title, text) in enumerate(slides):
        texts += record(0x3F3, struct.pack("<IIIII", n + 2, 0, 1, 256 + n, 0))
        for kind, value in ((0, title), (1, text)):
            texts += record(0xF9F, struct.pack("<I", kind)) + record(0xFA0, value.encode("utf-16-le"))
    document = record(0x3E8, record(0x3E9, bytes(40), 1) + record(0xFF0, texts, 15), 15)
    shown = [record(0x3EE, record(0x3EF, bytes(24), 2), 15) for _ in slides]
    offsets = [0]
    for part in (document, *shown):
        offsets.append(offsets[-1] + len(part))
    stored = record(0x1772, struct.pack("<I", 1 | len(slides) + 1 << 20) + b"".join(struct.pack("<I", n) for n in offsets[:-1]))
    edit = record(0xFF5, struct.pack("<IIIIIIHH", 256, 0x3000000, 0, offsets[-1], 1, len(slides) + 2, 1, 0))
    user = record(0xFF6, struct.pack("<IIIHHBBH", 20, 0xE391C05F, offsets[-1] + len(stored), 4, 0x3F4, 3, 0, 0) + b"user")
    return ole({("Current User",): user, ("PowerPoint Document",): b"".join((document, *shown, stored, edit))})
