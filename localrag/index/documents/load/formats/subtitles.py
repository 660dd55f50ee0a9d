"""SubRip and WebVTT: what is said, without its times; each minute is a part."""

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from localrag.index.documents.load.content import Content, Options, compose
from localrag.index.documents.load.encoding import decode
from localrag.index.documents.load.open_file import OpenFile

_CUE = re.compile(r"^[ \t]*(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}[ \t]*-->[^\n]*\n(.*?)(?=\n[ \t]*\n|\Z)", re.DOTALL | re.MULTILINE)
_SPEAKER = re.compile(r"<v(?:\.[^\s>]*+)?\s++([^>]++)>")
_TAG = re.compile(r"</?[^<>\n]*>|\{\\[^{}]*\}")
MINUTE = 60


class _Cue(NamedTuple):
    seconds: int
    speaker: str
    text: str


def parse_subtitles(file: OpenFile, _options: Options) -> Content:
    """The words of each minute as a paragraph, ended where a sentence does; a change of speaker begins a line."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    body, parts = compose(_minutes(list(_cues(text))))
    return Content(body, parts=parts) if parts else Content(text)


def _cues(text: str) -> Iterator[_Cue]:
    last = ""
    for found in _CUE.finditer(text):
        seconds = int(found[1] or 0) * 3600 + int(found[2]) * 60 + int(found[3])
        speaker = _SPEAKER.search(found[4])
        said = " ".join(unescape(_TAG.sub("", found[4])).split())
        if said and said != last:  # captions that roll say everything twice
            yield _Cue(seconds, speaker[1].strip() if speaker else "", said)
        last = said or last


def _minutes(cues: list[_Cue]) -> Iterator[tuple[str, str]]:
    """(label, text) for every minute or so."""
    text, began, speaker = "", 0, ""
    for cue in cues:
        over = cue.seconds - began
        if text and (over >= 2 * MINUTE or (over >= MINUTE and text.rstrip("\"'”’)").endswith((".", "!", "?", "…", "。")))):
            yield _label(began), text
            text, speaker = "", ""
        if not text:
            began = cue.seconds
        if cue.speaker and cue.speaker != speaker:
            text += ("\n" if text else "") + f"{cue.speaker}: "
            speaker = cue.speaker
        text += (" " if text and not text.endswith((" ", "\n")) else "") + cue.text
    yield _label(began), text


def _label(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}" if seconds >= 3600 else f"{seconds // 60}:{seconds % 60:02}"
