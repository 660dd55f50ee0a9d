"""Pictures: the text on them, read by OCR; each page of a TIFF is a part."""

from localrag.index.documents.load.content import A_PICTURE, Content, Options, Unreadable, clean, compose
from localrag.index.documents.load.formats.pages import goes_on, sections, without_running
from localrag.index.documents.load.formats.paragraphs import paragraphs
from localrag.index.documents.load.formats.scan import lines, told, why_unread
from localrag.index.documents.load.open_file import OpenFile
from localrag.index.documents.load.pixels import frames


def parse_image(file: OpenFile, options: Options) -> Content:
    """A picture. Raises Unreadable where nothing on it can be read, or nobody may."""
    if not options.ocr:
        raise Unreadable(A_PICTURE)
    numbers = range(1, frames(file) + 1)
    if wanted := tuple(n for n in numbers if n not in options.pages):
        return Content("", scans=wanted)
    pages = without_running([lines(options.pages[n]) for n in numbers])
    text, parts = compose(sections([clean("\n".join(paragraphs(page))) for page in pages]), goes_on)
    if not text:
        reasons = [why for n in numbers if (why := why_unread(options.pages[n]))]
        raise Unreadable(f"a picture: {reasons[0] if reasons else 'blank'}")
    return Content(text, metadata=told(options.pages), parts=parts)
