"""Presentations of PowerPoint 97 to 2003 (MS-PPT): the texts of each slide in the order of its shapes, and its speaker notes."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from localrag.loaders.content import Unreadable
from localrag.loaders.document_tree import TextBlock, heading_block, paragraph

_ENCRYPTED = 0xF3D1C4DF
_DOCUMENT, _SLIDE, _NOTES, _SLIDE_LIST, _PERSIST, _TEXTBOX = 0x03E8, 0x03EE, 0x03F0, 0x0FF0, 0x03F3, 0xF00D
_NOTES_ATOM, _USER_EDIT, _DIRECTORY, _OUTLINE_REFERENCE = 0x03F1, 0x0FF5, 0x1772, 0x0F9E
_HEADER, _CHARS, _BYTES = 0x0F9F, 0x0FA0, 0x0FA8
_TITLES = frozenset({0, 6})
_NOTES_TEXT = 2
_NOT_TITLE = 4
_MAX_DEPTH = 30  # nested records
_MAX_EDITS = 10_000  # times that a presentation was saved


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int
    instance: int
    start: int
    end: int
    is_container: bool


class PowerPoint97Presentation:
    """The slides of a presentation. Raises Unreadable for an encrypted or damaged one."""

    def __init__(self, data: bytes, user: bytes) -> None:
        if len(user) < 20:
            raise Unreadable("damaged: it is no presentation of PowerPoint 97 or later", failed=True)
        token, last_edit = struct.unpack_from("<II", user, 12)
        if token == _ENCRYPTED:
            raise Unreadable("password-protected")
        self._data = data
        self._objects = self._directory(last_edit)
        self._document = self._object(self._document_id)
        if self._document is None or self._document.kind != _DOCUMENT:
            raise Unreadable("damaged: its slides cannot be found", failed=True)

    def slides(self) -> Iterator[list[TextBlock]]:
        """The title and paragraphs of each slide."""
        notes = {slide: text for slide, text in self._notes()}
        for persist_id, slide_id, outline in self._listed(0):
            record = self._object(persist_id)
            texts = list(self._shape_texts(record, outline)) if record else []
            shown = [text for _, text in texts]
            texts = texts + [pair for pair in outline if pair[1] not in shown]
            title = next((n for n, (kind, text) in enumerate(texts) if kind in _TITLES and text.strip()), None)
            blocks = [heading_block(1, texts[title][1])] if title is not None else []
            blocks += [paragraph(line) for n, (_, text) in enumerate(texts) if n != title for line in _paragraphs(text)]
            yield blocks + [paragraph(f"Notes: {note}") for note in [notes.get(slide_id, "")] if note]

    def _directory(self, offset: int) -> dict[int, int]:
        places: dict[int, int] = {}
        self._document_id = 0
        seen = set[int]()
        while offset and offset not in seen and len(seen) < _MAX_EDITS:
            seen.add(offset)
            edit = self._record(offset, len(self._data))
            if edit is None or edit.kind != _USER_EDIT or edit.end - edit.start < 20:
                break
            offset, directory, document = struct.unpack_from("<III", self._data, edit.start + 8)
            self._document_id = self._document_id or document
            table = self._record(directory, len(self._data))
            if table is not None and table.kind == _DIRECTORY:
                for key, place in self._directory_entries(table):
                    places.setdefault(key, place)
        return places

    def _directory_entries(self, table: _Record) -> Iterator[tuple[int, int]]:
        n = table.start
        while n + 4 <= table.end:
            packed = struct.unpack_from("<I", self._data, n)[0]
            count = min(packed >> 20, (table.end - n - 4) // 4)
            places = struct.unpack_from(f"<{count}I", self._data, n + 4)
            yield from (((packed & 0xFFFFF) + k, place) for k, place in enumerate(places))
            n += 4 + 4 * count

    def _object(self, key: int) -> _Record | None:
        return self._record(self._objects[key], len(self._data)) if key in self._objects else None

    def _record(self, offset: int, end: int) -> _Record | None:
        if offset + 8 > end:
            return None
        packed, kind, size = struct.unpack_from("<HHI", self._data, offset)
        return _Record(kind, packed >> 4, offset + 8, min(offset + 8 + size, end), packed & 0xF == 0xF)

    def _children(self, parent: _Record) -> Iterator[_Record]:
        n = parent.start
        while (record := self._record(n, parent.end)) is not None:
            yield record
            n = record.end

    def _listed(self, instance: int) -> Iterator[tuple[int, int, list[tuple[int, str]]]]:
        """Of the slides (instance 0) or notes (2), in order: the id of the object, the id of the slide, and the texts of the outline."""
        for child in self._children(self._document) if self._document else ():
            if child.kind == _SLIDE_LIST and child.instance == instance:
                listed: list[tuple[int, int, list[tuple[int, str]]]] = []
                kind = _NOT_TITLE
                for record in self._children(child):
                    if record.kind == _PERSIST and record.end - record.start >= 16:
                        persist_id, slide_id = (struct.unpack_from("<I", self._data, record.start + n)[0] for n in (0, 12))
                        listed.append((persist_id, slide_id, []))
                    elif listed:
                        kind = self._add_text(record, kind, listed[-1][2])
                yield from listed

    def _add_text(self, record: _Record, kind: int, texts: list[tuple[int, str]]) -> int:
        """Add the text of a record to `texts`; the kind of the texts that follow it."""
        data = self._data[record.start : record.end]
        if record.kind == _HEADER and len(data) >= 4:
            return int(struct.unpack_from("<I", data)[0])
        if record.kind in {_CHARS, _BYTES}:
            texts.append((kind, data.decode("utf-16-le" if record.kind == _CHARS else "latin-1", "replace")))
        return kind

    def _shape_texts(self, parent: _Record, outline: list[tuple[int, str]], depth: int = 0) -> Iterator[tuple[int, str]]:
        for record in self._children(parent):
            if record.kind == _TEXTBOX:
                kind = _NOT_TITLE
                texts: list[tuple[int, str]] = []
                for inner in self._children(record):
                    if inner.kind == _OUTLINE_REFERENCE and inner.end - inner.start >= 4:
                        index = struct.unpack_from("<I", self._data, inner.start)[0]
                        texts += outline[index : index + 1]
                    else:
                        kind = self._add_text(inner, kind, texts)
                yield from texts
            elif record.is_container and depth < _MAX_DEPTH:
                yield from self._shape_texts(record, outline, depth + 1)

    def _notes(self) -> Iterator[tuple[int, str]]:
        for persist_id, _, outline in self._listed(2):
            record = self._object(persist_id)
            if record is None or record.kind != _NOTES:
                continue
            atom = next((child for child in self._children(record) if child.kind == _NOTES_ATOM and child.end - child.start >= 4), None)
            texts = [text for kind, text in self._shape_texts(record, outline) if kind == _NOTES_TEXT]
            if atom is not None and (shown := "\n".join(line for text in texts for line in _paragraphs(text))):
                yield struct.unpack_from("<I", self._data, atom.start)[0], shown


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\r") if (line := " ".join(part.replace("\x0b", " ").split())) and line != "*"]
