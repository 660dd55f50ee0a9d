"""Tables and answers as Word documents, with the quotes and places of their sources at the end."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from localrag.analysis.tables import Cell, ResultTable
from localrag.errors import UsageError
from localrag.exchange.cited_texts import (
    STATE_FILLS,
    answer_source,
    cell_text,
    marked_answer,
    remark,
    source,
    split_marks,
)
from localrag.records import Answer
from localrag.system.files import write_atomically
from localrag.text.markdown import neutralize
from localrag.text.sentences import collapse_whitespace, replace_control_characters

MAX_COLUMNS = 63  # of a table in Word
PORTRAIT_COLUMNS = 4  # more stand on a page in landscape
_ESCAPED_MARK = re.compile(r"\\\[([^\[\]\\]{1,20})\\\]")  # as `escape_marks` writes it
BULLET, BULLET_STYLES = "•", ("List Bullet", "List Bullet 2", "List Bullet 3")

MAX_TITLE_CHARS = 255  # of a document's properties
CODE_FONT = "Consolas"
_NAMESPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


class WordRun(NamedTuple):
    """A stretch of text, or the number of a citation as `note`."""

    text: str = ""
    is_bold: bool = False
    is_italic: bool = False
    is_code: bool = False
    note: int = 0


class TableCell(NamedTuple):
    """A cell of a table, and the color behind it, as six hexadecimal digits."""

    runs: Sequence[WordRun]
    fill: str = ""


class WordDocument:
    """A Word document that is written from its beginning to its end; the numbers of citations are raised."""

    def __init__(self, title: str, *, is_wide: bool = False) -> None:
        from docx import Document
        from docx.enum.section import WD_ORIENT

        self._document = Document()
        properties = self._document.core_properties
        properties.title = collapse_whitespace(replace_control_characters(title))[:MAX_TITLE_CHARS]
        properties.author, properties.comments = "localrag", ""
        if is_wide:
            page = self._document.sections[0]
            page.orientation, page.page_width, page.page_height = WD_ORIENT.LANDSCAPE, page.page_height, page.page_width

    def add_paragraph(self, runs: Iterable[WordRun], style: str = "Normal", indent: int = 0) -> None:
        """Add a paragraph; `indent`: from the left, in steps of a quarter of an inch."""
        from docx.shared import Inches

        paragraph = self._document.add_paragraph(style=style)
        if indent:
            paragraph.paragraph_format.left_indent = Inches(indent / 4)
        self._fill(paragraph, runs)

    def add_heading(self, text: str, level: int) -> None:
        """Add a heading; `level` 1 is the outermost."""
        self.add_paragraph([WordRun(text)], f"Heading {min(level, 9)}")

    def add_table(self, n_columns: int, rows: Iterable[Sequence[TableCell]]) -> None:
        """Add a table, whose first row is repeated on every page."""
        from docx.oxml import parse_xml

        table = self._document.add_table(0, n_columns, style="Table Grid")
        for n, row in enumerate(rows):
            added = table.add_row()
            properties = added._tr.get_or_add_trPr()
            properties.append(parse_xml(f"<w:cantSplit {_NAMESPACE}/>"))
            if n == 0:
                properties.append(parse_xml(f"<w:tblHeader {_NAMESPACE}/>"))
            for written, cell in zip(added.cells, row, strict=True):
                self._fill(written.paragraphs[0], cell.runs)
                if cell.fill:
                    shade = parse_xml(f'<w:shd {_NAMESPACE} w:val="clear" w:color="auto" w:fill="{cell.fill}"/>')
                    written._tc.get_or_add_tcPr().append(shade)
        self._document.add_paragraph()  # Word joins tables that follow one another

    def _fill(self, paragraph: Any, runs: Iterable[WordRun]) -> None:
        for run in runs:
            if run.note:
                paragraph.add_run(f"[{run.note}]").font.superscript = True
            elif run.text:
                added = paragraph.add_run(replace_control_characters(run.text))
                added.bold, added.italic = run.is_bold or None, run.is_italic or None
                if run.is_code:
                    added.font.name = CODE_FONT

    def add_sources(self, lines: Iterable[str]) -> None:
        """Add the list of sources below a heading, if there are any."""
        listed = list(lines)
        if listed:
            self.add_heading("Sources", 2)
        for line in listed:
            self.add_paragraph([WordRun(line)])

    def save(self, path: Path) -> None:
        """Write the document in one step. Raises OSError."""
        buffer = BytesIO()
        self._document.save(buffer)
        write_atomically(path, buffer.getvalue())


def write_word_table(table: ResultTable, path: Path) -> None:
    """Write a table below its title, with its note. Raises UsageError if it has too many columns."""
    if len(table.columns) > MAX_COLUMNS:
        raise UsageError(f"A table in Word has at most {MAX_COLUMNS} columns.", "Write a workbook: name a file that ends with .xlsx")
    document = WordDocument(table.title, is_wide=len(table.columns) > PORTRAIT_COLUMNS)
    if table.title:
        document.add_heading(table.title, 1)
    if table.columns:
        document.add_table(len(table.columns), _table_rows(table))
    if table.note:
        document.add_paragraph([WordRun(table.note)])
    document.add_sources(f"[{c.n}] {source(c)}" for c in table.citations)
    document.save(path)


def _table_rows(table: ResultTable) -> Iterator[list[TableCell]]:
    yield [TableCell([WordRun(column.title, is_bold=True)]) for column in table.columns]
    for row in table.rows:
        yield [TableCell(_cell_runs(cell), STATE_FILLS.get(cell.state, "")) for cell in row.cells]


def _cell_runs(cell: Cell) -> list[WordRun]:
    state = f" ({remark(cell)})" if remark(cell) else ""
    return [WordRun(cell_text(cell)), WordRun(state, is_italic=True), *(WordRun(note=c.n) for c in cell.citations)]


def write_word_answer(answer: Answer, path: Path) -> None:
    """Write a question and its answer."""
    document = WordDocument(answer.question)
    document.add_heading(answer.question, 1)
    if answer.passages:
        _add_passages(document, marked_answer(answer))
    else:
        add_markdown(document, neutralize(marked_answer(answer)).text)
    if answer.note:
        document.add_paragraph([WordRun(answer.note, is_italic=True)])
    document.add_sources(f"[{c.n}] {answer_source(answer, c)}" for c in answer.citations)
    document.save(path)


def _add_passages(document: WordDocument, text: str) -> None:
    for line in filter(str.strip, text.split("\n")):
        is_title = len(line) > 4 and line.startswith("**") and line.endswith("**")
        document.add_paragraph(_text_runs(line[2:-2] if is_title else _ESCAPED_MARK.sub(r"[\1]", line), is_bold=is_title))


def _text_runs(text: str, *, is_bold: bool = False, is_italic: bool = False) -> list[WordRun]:
    pieces = split_marks(text)
    return [WordRun(note=piece) if isinstance(piece, int) else WordRun(piece, is_bold, is_italic) for piece in pieces]


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def add_markdown(document: WordDocument, text: str) -> None:
    """Add Markdown: headings, paragraphs, lists, quotes, tables and code."""
    lists = _OpenLists()
    rows: list[list[TableCell]] = []
    for before, token in pairwise([Token("", "", 0), *_parser().parse(text)]):
        lists.read(token)
        if token.type in ("fence", "code_block"):
            document.add_paragraph([WordRun(token.content.rstrip("\n"), is_code=True)], indent=lists.depth)
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "table_close":
            document.add_table(len(rows[0]), rows)
            rows = []
        elif token.type == "inline" and rows:
            rows[-1].append(TableCell(inline_runs(token, is_bold=before.type == "th_open")))
        elif token.type == "inline" and before.type == "heading_open":
            document.add_paragraph(inline_runs(token), f"Heading {min(int(before.tag[1]) + 1, 9)}")  # below the question
        elif token.type == "inline":
            sign = lists.take_sign()
            style = BULLET_STYLES[min(lists.depth, len(BULLET_STYLES)) - 1] if sign == BULLET else "Normal"
            runs = inline_runs(token) if sign in ("", BULLET) else [WordRun(sign), *inline_runs(token)]
            document.add_paragraph(runs, style, 0 if sign == BULLET else lists.depth)


class _OpenLists:
    """The lists and quotes that are open at a token of Markdown."""

    def __init__(self) -> None:
        self.depth = 0
        self._numbers: list[int | None] = []  # of the next item of each list; None in one without numbers
        self._sign = ""

    def read(self, token: Token) -> None:
        """Take the next token."""
        if token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            self.depth += 1
        if token.type in ("bullet_list_close", "ordered_list_close", "blockquote_close"):
            self.depth -= 1
        if token.type == "ordered_list_open":
            self._numbers.append(int(token.attrs.get("start", 1)))
        elif token.type == "bullet_list_open":
            self._numbers.append(None)
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            self._numbers.pop()
        elif token.type == "list_item_open":
            number = self._numbers[-1]
            self._sign = BULLET if number is None else f"{number}. "
            self._numbers[-1] = None if number is None else number + 1

    def take_sign(self) -> str:
        """The sign or number of the item that begins here; empty further down in it."""
        sign, self._sign = self._sign, ""
        return sign


def inline_runs(inline: Token, *, is_bold: bool = False) -> list[WordRun]:
    """The runs of a paragraph of neutralized Markdown, which has neither links nor pictures."""
    runs = []
    bold, italic = int(is_bold), 0
    for token in inline.children or ():
        bold += token.nesting * (token.type in ("strong_open", "strong_close"))
        italic += token.nesting * (token.type in ("em_open", "em_close"))
        text = {"softbreak": " ", "hardbreak": "\n"}.get(token.type, token.content)
        if token.type == "code_inline":
            runs.append(WordRun(text, bold > 0, italic > 0, is_code=True))
        else:
            runs += _text_runs(text, is_bold=bold > 0, is_italic=italic > 0)
    return runs
