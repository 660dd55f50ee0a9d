"""Markdown on a terminal: printed line by line while it is written, tables when they are complete."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from localrag.cli.views.console import stdout_console
from localrag.cli.views.terminal import escape_controls, status_line
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, UNSUPPORTED_STATE
from localrag.text.markdown import MarkdownLines, markdown_lines

# Colours of the marks of unproved sentences.
STATE_COLORS = {RELATED_STATE: "cyan", CONTRADICTED_STATE: "bold red", UNSUPPORTED_STATE: "yellow"}
CODE_STYLE = "green"
MAX_INLINE_CHARS = 20_000  # of a line; a longer one is printed as it is
_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_HEADING = re.compile(r"[ \t>]*(#{1,6})[ \t]+")
_BULLET = re.compile(r"([ \t>]*)[-+*](?=[ \t])")
_QUOTE = re.compile(r"(?:[ \t]*>)+")
_FENCE_SIGNS = re.compile(r"\s*(?:`{3,}|~{3,})\s*")
_ESCAPED_MARK = re.compile(r"\\\[([0-9]+|related|contradicted|unsupported)\\\]")


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(["reference", "text_join"])


def mark_states(text: Text) -> Text:
    """Colour the marks of unproved sentences in a text."""
    for state, style in STATE_COLORS.items():
        text.highlight_words([f"[{state}]"], style)
    return text


def inline_text(source: str) -> Text:
    r"""Inline Markdown with styles. A link is shown with its address, a picture by its description; escaped marks `\[1\]` stay escaped."""
    if len(source) > MAX_INLINE_CHARS:
        return mark_states(Text(source))
    shown, styles, targets = Text(), [""], []
    for token in _parser().parseInline(source)[0].children or ():
        kind, _, end = token.type.rpartition("_")
        if token.type == "link_open":
            targets.append((str(token.attrs["href"]), len(shown)))
        elif token.type == "link_close":
            address, start = targets.pop()
            if address not in (label := shown.plain[start:], f"mailto:{label}"):
                shown.append(f" ({address})")
        elif kind in _STYLES:
            styles = [*styles, f"{styles[-1]} {_STYLES[kind]}".strip()] if end == "open" else styles[:-1] or [""]
        elif token.type == "code_inline":
            shown.append(_ESCAPED_MARK.sub(r"[\1]", token.content), f"{styles[-1]} {CODE_STYLE}".strip())
        elif token.type == "image":
            shown.append(f"[{token.content or token.attrs['src']}]", styles[-1])
        else:
            shown.append_text(mark_states(Text(_literal(token), styles[-1])))
    return shown


def _literal(token: Token) -> str:
    """The text of a token; brackets that were escaped stay so, since they may imitate a mark."""
    return token.markup if token.type == "text_special" and token.content in ("[", "]") else token.content


class MarkdownPrinter:
    """Prints Markdown that comes in parts, each once and as soon as its form is known: a row with its whole table. Wraps no line."""

    def __init__(self) -> None:
        self._text, self._shown = "", 0  # from the last top-level block on; how much of it is printed
        self.line = ""  # what stands on the last line of the terminal

    def write(self, part: str) -> None:
        """Print the next part, as far as its form is known."""
        self._text += escape_controls(part)
        self._show(is_last=False)

    def finish(self) -> None:
        """Print what was held back; what comes next is a text of its own."""
        self._show(is_last=True)
        self._text, self._shown = "", 0

    def print(self, shown: RenderableType, end: str = "") -> None:
        """Print something else than Markdown below it."""
        self.finish()
        self._print(shown, end)

    def _show(self, *, is_last: bool) -> None:
        lines = markdown_lines(self._text)
        while self._shown < len(self._text):
            number = bisect_right(lines.starts, self._shown) - 1
            end = lines.starts[number + 1]
            is_table = lines.kinds[number] == "table" and self._shown == lines.starts[number]
            if is_table:
                n_rows = sum(unit == lines.units[number] for unit in lines.units[number:])
                end = lines.starts[number + n_rows]
            if not is_last and end == len(self._text) and (is_table or _may_become_table(self._text, lines, number)):
                break
            if is_table:
                self._print_table(self._text[self._shown : end])
            else:
                self._print_line(self._text[self._shown : end], lines, number)
            self._shown = end
        cut = min(lines.last_block, self._shown)
        if cut == lines.last_block:
            self._text, self._shown = self._text[cut:], self._shown - cut

    def _print_line(self, piece: str, lines: MarkdownLines, number: int) -> None:
        text = piece.rstrip("\r\n")
        end = "\n" if text != piece else ""
        if lines.kinds[number] in ("fence", "code"):
            self._print(Text(text, "dim" if number in lines.openings or _FENCE_SIGNS.fullmatch(text) else CODE_STYLE), end)
            return
        before, style = "", ""
        if self._shown == lines.starts[number]:
            before, text, style = _line_start(text, is_item=number in lines.items)
        if lines.kinds[number] == "heading":
            style = style or "bold"
        shown = inline_text(text)
        shown.stylize(style)
        self._print(Text(before).append_text(shown), end)

    def _print_table(self, source: str) -> None:
        if rows := list(_table_rows(source)):
            self._print(_rich_table(rows), "")
        else:
            self._print(source, "")

    def _print(self, shown: RenderableType, end: str) -> None:
        is_text = isinstance(shown, str | Text)
        status_line.clear()
        stdout_console.print(shown, end=end, soft_wrap=is_text)
        printed = str(shown) + end if is_text else "\n"
        self.line = printed.rpartition("\n")[2] if "\n" in printed else self.line + printed


def _may_become_table(text: str, lines: MarkdownLines, number: int) -> bool:
    return lines.kinds[number] == "text" and "|" in text[lines.starts[number] :]


def _line_start(text: str, *, is_item: bool) -> tuple[str, str, str]:
    """How a line begins (signs of quotes and bullets), the rest, and the style of a heading."""
    if is_item and (bullet := _BULLET.match(text)):
        return f"{bullet[1].replace('>', '│')}•", text[bullet.end() :], ""
    if heading := _HEADING.match(text):
        return "", text[heading.end() :].rstrip("# \t"), "bold underline" if len(heading[1]) == 1 else "bold"
    if quote := _QUOTE.match(text):
        return quote[0].replace(">", "│"), text[quote.end() :], ""
    return "", text, ""


Align = Literal["left", "center", "right"]


def _table_rows(source: str) -> Iterator[list[tuple[Text, Align]]]:
    row: list[tuple[Text, Align]] = []
    align: Align = "left"
    for token in _parser().parse(source):
        if token.type in ("th_open", "td_open"):
            style = str(token.attrs.get("style", ""))
            align = "right" if style.endswith("right") else "center" if style.endswith("center") else "left"
        elif token.type == "inline" and token.level >= 4:
            row.append((inline_text(token.content), align))
        elif token.type == "tr_close":
            yield row
            row = []


def _rich_table(rows: Sequence[Sequence[tuple[Text, Align]]]) -> Table:
    """A table as wide as the terminal allows; lines between its rows where one does not fit on a line."""
    widths = [max(cell.cell_len for cell, _ in column) for column in zip(*rows, strict=True)]
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        show_lines=sum(widths) + 2 * len(widths) > stdout_console.width,
        header_style="bold",
        pad_edge=False,
    )
    for header, align in rows[0]:
        table.add_column(header, justify=align, overflow="fold")
    for row in rows[1:]:
        table.add_row(*(cell for cell, _ in row))
    return table
