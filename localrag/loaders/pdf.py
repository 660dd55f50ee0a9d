"""PDF and images: page lines in reading order, running heads removed, paragraphs joined, scanned pages by OCR; pages are parts."""

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, islice, pairwise, product
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from localrag.loaders.containers import InnerFiles
from localrag.loaders.content import (
    A_PICTURE,
    ONLY_IMAGES,
    UNKNOWN_CHARACTERS,
    UNKNOWN_FONTS,
    LoadOptions,
    OpenFile,
    ParsedFile,
    Unreadable,
    clean_text,
    metadata_pairs,
    superscript,
)
from localrag.loaders.document_tree import join_sections
from localrag.loaders.ocr import LOW_CONFIDENCE, mean_confidence
from localrag.loaders.page_images import frame_count
from localrag.loaders.page_lines import (
    BLANKS,
    CELL_SEPARATOR,
    HYPHEN,
    OMITTED,
    UNSPACED,
    PageLine,
    is_beside,
    join_paragraphs,
    line_words,
    page_sections,
    sentence_continues,
    split_columns,
    split_footnotes,
    strip_running_heads,
    with_fields,
    without_margin_numbers,
)
from localrag.loaders.pdf_annotations import DATE, Signs, page_annotations
from localrag.records import DocumentPart
from localrag.text.hyphenation import DocumentWords

MIN_CONFIDENCE = 40  # words of lower confidence are stains, lines of drawings, signatures
ILLEGIBLE = "no legible text"
_OCR_CELL_GAP = 2.0  # times the line height: a gap between cells of a row
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-‐¬]$")
OcrWord = Sequence[Any]


def unread_reason(page: Mapping[str, Any]) -> str:
    """The reason why an OCR page is not used; empty if it is used or blank."""
    if "why" in page:
        return str(page["why"])
    if page.get("blank"):
        return ""
    return ILLEGIBLE if mean_confidence(dict(page)) < LOW_CONFIDENCE or not legible_words(page) else ""


def legible_words(page: Mapping[str, Any]) -> list[OcrWord]:
    """The words of an OCR page with sufficient confidence."""
    return [word for word in page["words"] if word[5] >= MIN_CONFIDENCE]


def ocr_lines(page: Mapping[str, Any]) -> list[PageLine]:
    """The lines of an OCR page in reading order, with heights from the bottom as in a PDF."""
    if unread_reason(page) or page.get("blank"):
        return []
    line_words = [list(words) for _, words in groupby(legible_words(page), key=lambda word: word[6])]
    usual_height = median(max(w[4] for w in line) - min(w[2] for w in line) for line in line_words)
    lines = [_ocr_line(line, page["height"], usual_height) for line in line_words]
    is_divided = [bool(_HYPHEN.search(a.text)) and b.text[:1].islower() for a, b in pairwise(lines)] + [False]
    return [
        a._replace(text=_HYPHEN.sub(HYPHEN, a.text)) if is_hyphenated else a for a, is_hyphenated in zip(lines, is_divided, strict=True)
    ]


def _ocr_line(words: Sequence[OcrWord], page_height: float, usual_height: float) -> PageLine:
    """A line; if about as high as usual, it gets the usual height: a word without tall letters is not in smaller print."""
    top, bottom = min(w[2] for w in words), max(w[4] for w in words)
    height = float(bottom - top)
    if 0.6 * usual_height < height < 1.5 * usual_height:
        middle, height = (top + bottom) / 2, usual_height
        top, bottom = middle - usual_height / 2, middle + usual_height / 2
    text = "".join(_spaced(words, height))
    return PageLine(text, words[0][1], page_height - bottom, max(w[3] for w in words), page_height - top, CELL_SEPARATOR in text)


def _spaced(words: Sequence[OcrWord], height: float) -> Iterator[str]:
    yield words[0][0]
    for before, word in pairwise(words):
        close = UNSPACED.match(before[0][-1]) and UNSPACED.match(word[0][0])
        yield CELL_SEPARATOR if word[1] - before[3] > _OCR_CELL_GAP * height else "" if close else " "
        yield word[0]


def ocr_metadata(pages: Mapping[int, Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Metadata: OCR program, number of pages and confidence; and unused pages with their reasons."""
    used = {n: page for n, page in pages.items() if not unread_reason(page) and not page.get("blank")}
    words = [word for page in used.values() for word in page["words"]]
    confidence = mean_confidence({"words": words})
    count = f"{len(used)} page{'s' * (len(used) != 1)}"
    programs = sorted({str(page.get("by", "")) for page in used.values()})
    summary = f"{', '.join(programs)}; {count}, mean confidence of words {confidence:.0f} %" if used else ""
    return metadata_pairs(ocr=summary) + unread_page_metadata({n: reason for n, page in pages.items() if (reason := unread_reason(page))})


def unread_page_metadata(pages: Mapping[int, str]) -> tuple[tuple[str, str], ...]:
    """Metadata: unread pages with their reasons, those in a row with the same one together."""
    runs: list[tuple[int, int, str]] = []
    for n, reason in sorted(pages.items()):
        first = runs.pop()[0] if runs and runs[-1][1:] == (n - 1, reason) else n
        runs.append((first, n, reason))
    shown = (f"page {last}: {reason}" if first == last else f"pages {first} to {last}: {reason}" for first, last, reason in runs)
    return metadata_pairs(**{"not read": "; ".join(shown)})


_CELL_GAP = 1.3  # times the line height: a gap between cells, wider than the spaces of justified text
MAX_STAMP_CHARS = 40  # letters that scanners and their programs stamp on pages
_JUNK_TITLE = re.compile(
    r"^(?:untitled.*|microsoft \w+ - .*|.*\.(?:docx?|pptx?|xlsx?|indd|tex|dvi|qxp|pdf|rtf|odt|ps)|[\d\W_]{12,})$", re.IGNORECASE
)  # the last: numbers of filings and scans


def parse_pdf(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a PDF with a text layer or by OCR. Raises Unreadable for protected, damaged and unread ones."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file.read_bytes())
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("password-protected") from error
        raise Unreadable(f"damaged: {error}", failed=True) from error
    named = _document_properties(document)
    if document.get_formtype():
        logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # it warns of forms that it does not read
        document.init_forms()  # for the values of fields; no script of the file runs
    layers = [_page(document, n) for n in range(count)]
    if count == 1 and document.get_formtype() == pypdfium2.raw.FORMTYPE_XFA_FULL and not layers[0].fields:
        raise Unreadable("a form (XFA) that only Adobe Reader shows")
    scans = {n: page.unread for n, page in enumerate(layers, 1) if page.unread}
    if options.ocr and any(n not in options.pages for n in scans):
        return ParsedFile("", pages_to_ocr=tuple(scans))
    page_lines = [ocr_lines(options.pages[n]) or page.lines if n in options.pages else page.lines for n, page in enumerate(layers, 1)]
    page_lines = [
        with_fields(split_columns(lines), page.fields) for lines, page in zip(without_margin_numbers(page_lines), layers, strict=True)
    ]
    split = [split_footnotes(page) for page in strip_running_heads(page_lines)]
    known = line_words(page_lines)
    bodies, notes = ([_text(lines, known) for lines in part] for part in zip(*split, strict=True)) if split else ([], [])
    notes = ["\n\n".join(filter(None, (note, *page.comments))) for note, page in zip(notes, layers, strict=True)]
    inner = _attached_files(document, options)
    rendered = join_sections([*page_sections(bodies, notes, known), *inner.sections], sentence_continues)
    text, parts = rendered.text, rendered.parts
    if not text:
        raise Unreadable(UNKNOWN_FONTS if UNKNOWN_CHARACTERS in scans.values() and not options.pages else _empty(count, options))
    title = " ".join(clean_text(named.get("title", "")).split())
    title = "" if _JUNK_TITLE.match(title) else title
    created = DATE.match(named.get("creationdate", ""))
    date = "-".join(filter(None, created.groups())) if created else ""
    values = {key: clean_text(named.get(key, "")) for key in ("author", "subject", "keywords")}
    metadata = metadata_pairs(title=title, author=values.pop("author"), date=date, **values)
    metadata += ocr_metadata(options.pages) if options.pages else unread_page_metadata(scans)
    labelled = tuple(_with_printed_number(document, part) for part in parts)
    return ParsedFile(text, title, metadata + inner.metadata(), labelled, inner=inner.documents(parts))


def _with_printed_number(document: Any, part: DocumentPart) -> DocumentPart:
    """A part that is a page with the number that is printed on it, such as iv."""
    n = int(part.label.removeprefix("page ")) if re.fullmatch(r"page \d+", part.label) else 0
    printed = " ".join(clean_text(document.get_page_label(n - 1)).split())[:20] if n else ""
    return replace(part, label=f"page {printed}", number=n) if printed and printed != str(n) else part


def _text(lines: Sequence[PageLine], known: DocumentWords) -> str:
    return _NUMBER_SIGN.sub("\\1\u00a0", clean_text("\n".join(join_paragraphs(lines, known))))


_NUMBER_SIGN = re.compile(r"^(#{1,6})[ \t]", re.MULTILINE)  # with a space behind it, it would begin a heading of Markdown


def _attached_files(document: Any, options: LoadOptions) -> InnerFiles:
    """The files attached to a PDF."""
    import pypdfium2

    inner = InnerFiles(options)
    for n in range(document.count_attachments()):
        with suppress(pypdfium2.PdfiumError):
            attached = document.get_attachment(n)
            inner.read(" ".join(attached.get_name().split()) or f"unnamed {n + 1}", bytes(attached.get_data()))
    return inner


def _empty(count: int, options: LoadOptions) -> str:
    reasons = [value for name, value in ocr_metadata(options.pages) if name == "not read"]
    return f"only images, {reasons[0]}" if reasons else ONLY_IMAGES if count else "empty"


def _document_properties(document: Any) -> dict[str, str]:
    """The document properties of a PDF, by lower-case name."""
    try:
        return {key.lower(): str(value) for key, value in document.get_metadata_dict(skip_empty=True).items()}
    except UnicodeDecodeError:
        return {}  # the text may still be readable


class _PageContent(NamedTuple):
    """A page's lines, fields and comments, and why OCR must read it; empty if it need not."""

    lines: list[PageLine]
    fields: Sequence[PageLine] = ()
    comments: Sequence[str] = ()
    unread: str = ""


def _page(document: Any, n: int) -> _PageContent:
    """The text layer of a page with the fields of its form and what readers did to it."""
    import pypdfium2

    try:
        page = document[n]
        textpage = page.get_textpage()
    except pypdfium2.PdfiumError:
        return _PageContent([])  # a broken page must not affect the others
    try:
        if _has_unknown_characters(textpage):
            return _PageContent([], unread=UNKNOWN_CHARACTERS)
        text = _page_text(textpage)
        fields, comments, signs = page_annotations(page, textpage, text)
        return _PageContent(list(_lines(textpage, text, signs)), fields, comments, "a scan" if not fields and _is_scan(page, text) else "")
    finally:
        textpage.close()
        page.close()


def _has_unknown_characters(textpage: Any) -> bool:
    """Whether most characters of a page have no known meaning: text of a font without a map to Unicode is gibberish.

    Not always: the codes of many drawn fonts, such as those of plots, are those of the characters.
    """
    import pypdfium2.raw as pdfium

    count = textpage.count_chars()
    tried = range(0, count, max(1, count // 300))
    unknown = [n for n in tried if pdfium.FPDFText_HasUnicodeMapError(textpage, n) == 1]
    return len(unknown) > len(tried) / 2 and not reads_like_words("".join(chr(pdfium.FPDFText_GetUnicode(textpage, n)) for n in unknown))


def reads_like_words(text: str) -> bool:
    """Whether characters are those of words in Latin letters rather than the codes of unknown ones: nearly all plain, and half frequent."""
    letters = [c for c in text.lower() if "a" <= c <= "z"]
    is_plain = sum(c.isascii() and c.isprintable() for c in text) >= 0.9 * len(text)
    return is_plain and len(letters) >= 20 and sum(c in "etaoinsr" for c in letters) > 0.48 * len(letters)


def _is_scan(page: Any, text: str) -> bool:
    """Whether a page is a scan: no text but objects, or an image over half of it and no more text than a stamp."""
    import pypdfium2.raw as pdfium

    letters = sum(map(str.isalnum, text))
    if letters > MAX_STAMP_CHARS:
        return False
    if not letters:
        return any(True for _ in page.get_objects(max_depth=2))
    width, height = page.get_size()
    for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        left, bottom, right, top = image.get_bounds()
        if (right - left) * (top - bottom) > 0.5 * width * height:
            return True
    return False


def _lines(textpage: Any, text: str, signs: Signs) -> Iterator[PageLine]:
    """The lines of a page; a piece beside the one before (the next cell of a row, a superscript) belongs to its line."""
    before: PageLine | None = None
    for piece in _pieces(textpage, text, signs):
        merged = piece
        if before is not None and is_beside(before, piece):
            merged = _join_pieces(before, piece)
        elif before is not None:
            yield before
        before = merged
    if before is not None:
        yield before


def _pieces(textpage: Any, text: str, signs: Signs) -> list[PageLine]:
    """The stretches of text between line ends, in PDFium's order; on a page that lies on its side from top to bottom."""
    turn = _quarter_turns(textpage, len(text))
    position, pieces = 0, list[PageLine]()
    for raw in re.findall(rf"[^\r\n{HYPHEN}]*(?:\r\n|[\r\n{HYPHEN}]|$)", text):
        line = raw.strip(BLANKS)
        if line:
            start = position + raw.index(line[0])
            shown, before = line + HYPHEN * raw.endswith(HYPHEN), pieces[-1] if pieces else None
            piece = _vertical_line(textpage, line, start) or _pdf_line(textpage, shown, start, turn, before, signs)
            joined = piece.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            pieces.append(piece._replace(text=joined, has_space=raw.rstrip("\r\n").endswith(" ")))
        position += len(raw)
    return sorted(pieces, key=lambda piece: (-round(piece.bottom), piece.left)) if turn else pieces


def _page_text(textpage: Any) -> str:
    """The text of a page, in which each of PDFium's characters is one; those beyond the first 65,536 are two.

    PDFium leaves characters without a meaning out of its text, but counts them, and gives their places.
    """
    import pypdfium2.raw as pdfium

    count = textpage.count_chars()
    text = str(textpage.get_text_range(0, count)) if count else ""
    if len(text) != count:
        text = "".join(chr(pdfium.FPDFText_GetUnicode(textpage, n)) for n in range(count))
    return _without_hidden(textpage, _with_accents(textpage, text.replace("\x02", HYPHEN)))


def _without_hidden(textpage: Any, text: str) -> str:
    """A page's text without the words of lines that programs for OCR put, without ink, where others are seen."""
    lines = enumerate(re.finditer(r"[^\r\n]+", text))
    words = [(n, *word.span()) for n, line in lines for word in _SPACED_WORD.finditer(text, *line.span())]
    hidden = [word for word in words if _is_hidden(textpage, word[1])]
    if len(hidden) in (0, len(words)):
        return text
    characters, seen = list(text), set[tuple[int, int]]()  # cells of the page
    for _, start, end in set(words).difference(hidden):
        left, bottom, right, top = (int(edge // _CELL) for edge in _box(textpage, start, end - 1, 0))
        if max(right - left, top - bottom) < _MAX_CELLS:
            seen.update(product(range(left, right + 1), range(bottom, top + 1)))
    for _, group in groupby(hidden, key=itemgetter(0)):
        spans = [word[1:] for word in group]
        boxes = [_box(textpage, start, end - 1, 0) for start, end in spans]
        n_covered = sum(((a + c) // (2 * _CELL), (b + d) // (2 * _CELL)) in seen for a, b, c, d in boxes)
        for start, end in spans if n_covered * 2 > len(spans) else ():
            characters[start:end] = OMITTED * (end - start)
    return "".join(characters)


_SPACED_WORD = re.compile(rf"[^{BLANKS}]+ ?")
_CELL = 5.0  # points
_MAX_CELLS = 50  # larger words are watermarks


def _is_hidden(textpage: Any, n: int) -> bool:
    import pypdfium2.raw as pdfium

    drawn = pdfium.FPDFText_GetTextObject(textpage, n)
    return pdfium.FPDFTextObj_GetTextRenderMode(drawn) in (pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP)


_COMBINING = "\u0308\u0301\u0300\u0302\u0302\u0303\u0303\u0304\u0304\u030c\u0306\u0307\u030a\u0327\u0328\u030b"
_ACCENTS = dict(zip("¨´`^ˆ~˜¯ˉˇ˘˙˚¸˛˝", _COMBINING, strict=True))
_DOTLESS = {"ı": "i", "ȷ": "j"}
_MAX_ACCENTS = 3000  # of a page
_MAX_BEHIND, _MAX_BEFORE = 150, 12  # characters, that an accent may be behind its letter or before it
_WORD_GAP = 0.15  # times the line height: less than a space
_ACCENT = re.compile(f"[{re.escape(''.join(_ACCENTS))}\u0300-\u036f]")


def _with_accents(textpage: Any, text: str) -> str:
    """A page's text in which accents that are drawn over letters are part of them: LaTeX's old fonts have no letters with accents."""
    characters = list(text)
    for match in islice(_ACCENT.finditer(text), _MAX_ACCENTS):
        n = match.start()
        letter = _letter_below(textpage, text, n)
        base = _DOTLESS.get(characters[letter], characters[letter])
        composed = unicodedata.normalize("NFC", base + _ACCENTS.get(match[0], match[0]))
        if letter != n and len(composed) == 1:
            characters[letter], characters[n] = composed, OMITTED
            _close_gap(textpage, characters, n)
    return "".join(characters)


def _letter_below(textpage: Any, text: str, accent: int) -> int:
    """The letter whose box has the middle of an accent, the nearest one in the text; the accent itself without any."""
    left, bottom, right, top = textpage.get_charbox(accent, loose=True)
    x, y = (left + right) / 2, (bottom + top) / 2
    near = range(max(0, accent - _MAX_BEHIND), min(len(text), accent + _MAX_BEFORE))
    for n in sorted(near, key=lambda n: abs(n - accent)):
        if text[n].isalpha() and not _ACCENT.match(text[n]):
            a, b, c, d = textpage.get_charbox(n, loose=True)
            if a <= x <= c and b <= y <= d:
                return n
    return accent


def _close_gap(textpage: Any, characters: list[str], n: int) -> None:
    """Omit the blanks around an accent within a word."""
    before = next((m for m in range(n, -1, -1) if characters[m] not in BLANKS), n)
    behind = next((m for m in range(n, len(characters)) if characters[m] not in BLANKS), n)
    _, bottom, right, top = textpage.get_charbox(before, loose=True)
    left, low, _, high = textpage.get_charbox(behind, loose=True)
    if abs(left - right) < _WORD_GAP * (top - bottom) and low < (bottom + top) / 2 < high:
        characters[before + 1 : behind] = OMITTED * (behind - before - 1)


def _join_pieces(before: PageLine, line: PageLine) -> PageLine:
    """Two pieces of a line as one."""
    height = before.top - before.bottom
    gap = (line.left - before.right) / height
    if _is_raised_piece(line, before):
        mark = superscript(line.text, is_note=not _EXPONENT_BASE.search(before.text))
        return before._replace(text=before.text + mark, right=line.right, has_space=line.has_space)
    if _is_raised_piece(before, line):
        return line._replace(text=_marked_word(before.text, line.text, ""), left=before.left)
    space = CELL_SEPARATOR if gap > _CELL_GAP else " " if gap > 0.1 else ""
    is_row = before.is_row or line.is_row or gap > _CELL_GAP
    is_second = gap > _CELL_GAP and not before.is_row and not line.is_row
    edge = line.left if is_second else before.gap if not line.is_row and gap <= _CELL_GAP else 0.0
    text = before.text + space + line.text
    return PageLine(text, before.left, before.bottom, line.right, before.top, is_row, edge, line.has_space)


def _is_raised_piece(piece: PageLine, base: PageLine) -> bool:
    """Whether a piece of a line is a raised mark of another, which is near."""
    height = base.top - base.bottom
    is_near = max(base.left - piece.right, piece.left - base.right) < _RAISED_GAP * height
    is_small = piece.top - piece.bottom < _RAISED_SIZE * height
    return is_near and is_small and piece.bottom > base.bottom + _RAISED_SHIFT * height and bool(_RAISED_MARK.fullmatch(piece.text))


_RAISED_MARK = re.compile(r"[\d*†‡§]{1,3}")
_RAISED_GAP = 0.35  # times the line height, that a mark is near the word before


def _quarter_turns(textpage: Any, count: int) -> int:
    """By how many quarter turns, clockwise, most of a page's characters are turned."""
    import pypdfium2.raw as pdfium

    tried = range(0, count, max(1, count // 50))
    turns = Counter(round(pdfium.FPDFText_GetCharAngle(textpage, n) / (math.pi / 2)) % 4 for n in tried)
    return turns.most_common(1)[0][0] if turns else 0


def _vertical_line(textpage: Any, line: str, start: int) -> PageLine | None:
    """A column of Chinese or Japanese, from top to bottom, with its box as upright text has it; None for any other line."""
    if len(line) < 2 or not all(map(UNSPACED.match, line[:2])):
        return None
    left, bottom, right, top = textpage.get_charbox(start, loose=True)
    second = textpage.get_charbox(start + 1, loose=True)
    if not left < (second[0] + second[2]) / 2 < right or second[3] > top - (top - bottom) / 3:
        return None
    return PageLine(line, -top, left, -textpage.get_charbox(start + len(line) - 1, loose=True)[1], right)


def _pdf_line(textpage: Any, text: str, start: int, turn: int, before: PageLine | None, signs: Signs) -> PageLine:
    """A line with its box, as upright text has it; wide gaps become cell separators, raised digits marks of notes or exponents."""
    end = start + len(text.rstrip(HYPHEN))
    first_box = _char_box(textpage, start, turn)
    left = first_box[0]
    mark = "" if start in signs else _raised_start(textpage, text, start, turn)
    _, bottom, right, top = _box(textpage, start + len(mark), end - 1, turn)
    words = text.split(" ")
    position, gap_at = start, 0.0
    for n, word in enumerate(words):
        at, position = position, position + len(word) + 1
        if not signs.keys().isdisjoint(range(at, position)):
            signed = (signs.get(m, _NO_SIGNS) for m in range(at, position))
            words[n] = "".join(opening + c + closing for (opening, closing), c in zip(signed, word, strict=False))
            words[n] = words[n].replace(OMITTED, "")[len(mark) * (n == 0) :]
        elif not word.isalpha():
            raised = _with_raised(textpage, word[len(mark) :] if n == 0 else word, at + len(mark) if n == 0 else at, turn)
            words[n] = raised.replace(OMITTED, "")
        if n == len(words) - 1:
            break
        space = " "
        if word and words[n + 1] and position < end:
            before_gap, after = _char_box(textpage, position - 2, turn)[2], _char_box(textpage, position, turn)[0]
            if after - before_gap > _CELL_GAP * (top - bottom):
                space, gap_at = CELL_SEPARATOR, after
        words[n] += space
    if mark:
        words[0] = _marked_word(mark, words[0], before.text if before and _is_near(before, PageLine("", *first_box)) else "")
    joined = re.sub(r" {3,}", CELL_SEPARATOR, "".join(words))
    gap_at = gap_at if joined.count(CELL_SEPARATOR) == 1 else 0.0
    return PageLine(joined, left, bottom, right, top, CELL_SEPARATOR in joined, gap_at)


_NO_SIGNS = ("", "")
_MAYBE_RAISED = re.compile(r"(?<=\S)[\d*†‡§]+\)?")
_MAYBE_RAISED_START = re.compile(r"[\d*†‡§]{1,3}\)?(?=[^\s\d*†‡§/⁄])")
_RAISED_SIZE = 0.85  # of the size of the character before, below which a digit may be raised
_RAISED_SHIFT = 0.15  # of that size, that its foot is higher
_EXPONENT_BASE = re.compile(r"(?:\b(?:[kcdmµ]?m|ft|in|[a-zA-Z])|(?<!\d)10)\Z")


def _with_raised(textpage: Any, word: str, at: int, turn: int) -> str:
    """A word, whose first character is number `at` of its page, with its raised digits told apart."""

    def told_apart(match: re.Match[str]) -> str:
        base = at + match.start() - 1
        raised = [n for n in range(match.start(), match.end()) if _is_raised(textpage, at + n, base, turn)]
        if not raised:
            return match[0]
        start, end = raised[0], raised[-1] + 1
        mark = superscript(word[start:end], is_note=not _EXPONENT_BASE.search(word[:start]))
        return word[match.start() : start] + mark + word[end : match.end()]

    return _MAYBE_RAISED.sub(told_apart, word)


def _raised_start(textpage: Any, text: str, at: int, turn: int) -> str:
    """The raised mark that a text begins with: PDFium often ends a line before it."""
    mark = _MAYBE_RAISED_START.match(text)
    is_raised = mark is not None and all(_is_raised(textpage, at + n, at + mark.end(), turn) for n in range(mark.end()))
    return mark[0] if mark and is_raised else ""


def _marked_word(mark: str, word: str, before: str) -> str:
    """A word behind a raised mark, which belongs to the text before or is that of a note."""
    is_note = not _EXPONENT_BASE.search(before)
    return superscript(mark, is_note=is_note) + (" " if is_note and word[:1].isalnum() else "") + word


def _is_raised(textpage: Any, n: int, base: int, turn: int) -> bool:
    """Whether a character is smaller than another and stands higher."""
    size = _font_size(textpage, base)
    if _font_size(textpage, n) >= _RAISED_SIZE * size:
        return False
    return _char_box(textpage, n, turn)[1] > _char_box(textpage, base, turn)[1] + _RAISED_SHIFT * size


def _is_near(before: PageLine, line: PageLine) -> bool:
    """Whether a line follows another without a gap."""
    return is_beside(before, line) and line.left - before.right < _RAISED_GAP * (before.top - before.bottom)


def _font_size(textpage: Any, n: int) -> float:
    """The size of a character as it is drawn: many fonts of size 1 are enlarged."""
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(textpage, n, matrix)
    return float(pdfium.FPDFText_GetFontSize(textpage, n)) * math.hypot(matrix.c, matrix.d)


def _box(textpage: Any, first: int, last: int, turn: int) -> tuple[float, float, float, float]:
    left, bottom, _, top = _char_box(textpage, first, turn)
    _, end_bottom, right, end_top = _char_box(textpage, last, turn)
    return left, min(bottom, end_bottom), right, max(top, end_top)


def _char_box(textpage: Any, n: int, turn: int) -> tuple[float, float, float, float]:
    """The box of a character, as upright text has it: left, bottom, right, top."""
    left, bottom, right, top = box = textpage.get_charbox(n, loose=True)
    return box if not turn else ((-top, left, -bottom, right), (-right, -top, -left, -bottom), (bottom, -right, top, -left))[turn - 1]


def parse_image(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse an image by OCR; each page of a TIFF is a part. Raises Unreadable without OCR or without legible text."""
    if not options.ocr:
        raise Unreadable(A_PICTURE)
    numbers = range(1, frame_count(file) + 1)
    if missing := tuple(n for n in numbers if n not in options.pages):
        return ParsedFile("", pages_to_ocr=missing)
    pages = strip_running_heads([ocr_lines(options.pages[n]) for n in numbers])
    known = line_words(pages)
    rendered = join_sections(page_sections([_text(page, known) for page in pages], known=known), sentence_continues)
    if not rendered.text:
        reasons = [reason for n in numbers if (reason := unread_reason(options.pages[n]))]
        raise Unreadable(f"a picture: {reasons[0] if reasons else 'blank'}")
    return ParsedFile(rendered.text, metadata=ocr_metadata(options.pages), parts=rendered.parts)
