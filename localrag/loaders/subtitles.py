"""Subtitles as paragraphs of about a minute, without times and repetitions."""

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode
from localrag.loaders.document_tree import join_sections

_CUE = re.compile(r"^[ \t]*(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}[ \t]*-->[^\n]*\n(.*?)(?=\n[ \t]*\n|\Z)", re.DOTALL | re.MULTILINE)
_SPEAKER = re.compile(r"<v(?:\.[^\s>]*+)?\s++([^>]++)>")
_TAG = re.compile(r"</?[^<>\n]*>|\{\\[^{}]*\}")
SECONDS_PER_MINUTE = 60
_MAX_SHOWN_LINES = 4  # lines on the screen


class _Cue(NamedTuple):
    seconds: int
    speaker: str
    text: str


def parse_subtitles(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """SubRip or WebVTT without times: a paragraph and part per minute, ended at a sentence; a new line per change of speaker."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    rendered = join_sections(_minutes(list(_cues(text))))
    return ParsedFile(rendered.text, parts=rendered.parts) if rendered.parts else ParsedFile(text)


def _cues(text: str) -> Iterator[_Cue]:
    """The cues, without the lines that they repeat: rolling captions show each line in up to three cues."""
    shown: list[str] = []  # the last lines
    for cue in _CUE.finditer(text):
        seconds = int(cue[1] or 0) * 3600 + int(cue[2]) * 60 + int(cue[3])
        speaker = _SPEAKER.search(cue[4])
        lines = [line for part in cue[4].split("\n") if (line := " ".join(unescape(_TAG.sub("", part)).split()))]
        n_repeated = next((n for n in range(min(len(lines), len(shown)), 0, -1) if lines[:n] == shown[-n:]), 0)
        new_lines = lines[n_repeated:]
        if new_lines:
            yield _Cue(seconds, speaker[1].strip() if speaker else "", " ".join(new_lines))
        shown = [*shown, *new_lines][-_MAX_SHOWN_LINES:]


def _minutes(cues: list[_Cue]) -> Iterator[tuple[str, str]]:
    text, start, speaker = "", 0, ""
    for cue in cues:
        elapsed = cue.seconds - start
        if text and (
            elapsed >= 2 * SECONDS_PER_MINUTE
            or (elapsed >= SECONDS_PER_MINUTE and text.rstrip("\"'”’)").endswith((".", "!", "?", "…", "。")))
        ):
            yield _label(start), text
            text, speaker = "", ""
        if not text:
            start = cue.seconds
        if cue.speaker and cue.speaker != speaker:
            text += ("\n" if text else "") + f"{cue.speaker}: "
            speaker = cue.speaker
        text += (" " if text and not text.endswith((" ", "\n")) else "") + cue.text
    yield _label(start), text


def _label(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}" if seconds >= 3600 else f"{seconds // 60}:{seconds % 60:02}"
