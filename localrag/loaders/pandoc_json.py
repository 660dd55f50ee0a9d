"""Pandoc's JSON as text: headings, lists, tables by row, notes at the end, formulas unchanged."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localrag.loaders.content import ParsedFile, clean_text, metadata_pairs, subscript, superscript
from localrag.loaders.tabular import table_lines

_MAX_SPANNED_CELLS = 200
_SPACES = {"Space": " ", "SoftBreak": " ", "LineBreak": "\n"}
_QUOTES = {"SingleQuote": "‘’", "DoubleQuote": "“”"}


@dataclass(slots=True)
class _PandocText:
    """Renders blocks and inlines. `raw_text`: the text of what Pandoc left as it is; `notes`: the texts of the notes so far."""

    raw_text: Callable[[str], str]
    notes: list[str] = field(default_factory=list)

    def inlines(self, elements: Sequence[Mapping[str, Any]]) -> str:
        """The text of inline elements."""
        return "".join(map(self.inline, elements))

    def inline(self, element: Mapping[str, Any]) -> str:
        """The text of an inline element."""
        kind: str = element["t"]
        content: Any = element.get("c")
        if kind in _SPACES:
            return _SPACES[kind]
        if kind == "Str":
            return str(content)
        if kind == "Note":
            self.notes.append("")
            number = len(self.notes)
            self.notes[number - 1] = " ".join(self.blocks(content).split())
            return f" [{number}]"
        if kind in {"Superscript", "Subscript"}:
            return (superscript if kind == "Superscript" else subscript)(self.inlines(content))
        return self._other(kind, content)

    def _other(self, kind: str, content: Any) -> str:
        match kind:
            case "Math":
                mark = "$$" if content[0]["t"] == "DisplayMath" else "$"
                text = f"{mark}{content[1]}{mark}"
            case "Cite":
                text = "[" + ", ".join(citation["citationId"] for citation in content[0]) + "]"
            case "Quoted":
                text = self.inlines(content[1]).join(_QUOTES[content[0]["t"]])
            case "RawInline":
                text = self.raw_text(content[1]) if content[0] in {"latex", "tex"} else ""
            case "Code":
                text = str(content[1])
            case "Strikeout":
                text = ""
            case "Link" | "Image" | "Span":
                text = self.inlines(content[1])
            case _:
                text = self.inlines(content)
        return text

    def blocks(self, elements: Sequence[Mapping[str, Any]]) -> str:
        """The text of blocks."""
        return "\n\n".join(text for element in elements if (text := self._block(element["t"], element.get("c")).strip("\n")))

    def _block(self, kind: str, content: Any) -> str:
        match kind:
            case "Header":
                text = f"{'#' * min(content[0] + 1, 6)} {' '.join(self.inlines(content[2]).split())}"
            case "Para" | "Plain":
                text = self.inlines(content)
            case "LineBlock":
                text = "\n".join(map(self.inlines, content))
            case "CodeBlock":
                text = f"```\n{content[1]}\n```"
            case "RawBlock":
                text = self.raw_text(content[1]) if content[0] in {"latex", "tex"} else ""
            case "BlockQuote":
                text = self.blocks(content)
            case "Div" | "Figure":
                text = self._boxed(kind, content)
            case "BulletList" | "OrderedList" | "DefinitionList":
                text = "\n".join(self._items(kind, content))
            case "Table":
                text = "\n".join(self._table(content))
            case _:
                text = ""
        return text

    def _boxed(self, kind: str, content: Any) -> str:
        caption = self.blocks(content[1][1]) if kind == "Figure" else ""
        return "\n\n".join(filter(None, (self.blocks(content[-1]), caption)))

    def _items(self, kind: str, content: Any) -> Iterator[str]:
        """The lines of a list."""
        if kind == "DefinitionList":
            for term, definitions in content:
                yield f"- {self.inlines(term)}: {' '.join(self.blocks([b for blocks in definitions for b in blocks]).split())}"
            return
        start = content[0][0] if kind == "OrderedList" else 0
        for n, blocks in enumerate(content[1] if kind == "OrderedList" else content, start):
            lines = self.blocks(blocks).split("\n")
            yield f"{n}. {lines[0]}" if kind == "OrderedList" else f"- {lines[0]}"
            yield from (f"  {line}" for line in lines[1:] if line)

    def _table(self, content: Any) -> Iterator[str]:
        """The caption and rows of a table; cells that span rows or columns are in each."""
        _, caption, _, head, bodies, foot = content
        yield from filter(None, [self.blocks(caption[1])])
        rows = [*head[1], *(row for body in bodies for row in (*body[2], *body[3])), *foot[1]]
        grid = [[" ".join(cell.split()) for cell in row] for row in self._grid(rows)]
        yield from table_lines((row for row in grid if any(row)), likely=True, header_rows=len(head[1]) or None)

    def _grid(self, rows: Sequence[Any]) -> Iterator[list[str]]:
        spanning: dict[int, tuple[int, str]] = {}  # column → (remaining rows, text)
        for _, cells in rows:
            line: list[str] = []
            for _, _, n_rows, n_columns, blocks in cells:
                text = self.blocks(blocks)
                self._fill(line, spanning)
                for _ in range(min(n_columns, _MAX_SPANNED_CELLS)):
                    if n_rows > 1:
                        spanning[len(line)] = (n_rows - 1, text)
                    line.append(text)
            self._fill(line, spanning)
            yield line

    @staticmethod
    def _fill(line: list[str], spanning: dict[int, tuple[int, str]]) -> None:
        while len(line) in spanning:
            n_rows, text = spanning.pop(len(line))
            if n_rows > 1:
                spanning[len(line)] = (n_rows - 1, text)
            line.append(text)

    def meta(self, value: Mapping[str, Any] | None) -> str:
        """The text of a value of the metadata; several authors with commas."""
        if not value:
            return ""
        kind, content = value["t"], value["c"]
        if kind == "MetaList":
            return ", ".join(filter(None, map(self.meta, content)))
        return self.blocks(content) if kind == "MetaBlocks" else self.inlines(content) if kind == "MetaInlines" else str(content)


def pandoc_content(source: str, raw_text: Callable[[str], str]) -> ParsedFile | None:
    """The document in Pandoc's JSON; None if it is not what Pandoc writes or has no text."""
    try:
        document = json.loads(source)
        writer = _PandocText(raw_text)
        values = {name: " ".join(writer.meta(document["meta"].get(name)).split()) for name in ("title", "author", "date")}
        abstract = writer.meta(document["meta"].get("abstract"))
        body = writer.blocks(document["blocks"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return None
    if not body.strip():
        return None
    title = f"# {values['title']}" if values["title"] else ""
    notes = "\n".join(f"[{n}] {note}" for n, note in enumerate(writer.notes, 1))
    text = clean_text("\n\n".join(filter(None, (title, abstract, body, notes))))
    return ParsedFile(text, values["title"], metadata_pairs(**values))
