"""Subtitles and lyrics as paragraphs of about a minute, without times and repetitions."""

import re
from collections.abc import Iterable, Iterator
from html import unescape
from operator import itemgetter
from typing import NamedTuple

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode
from localrag.loaders.document_tree import join_sections

_BLOCK = r"[^\n]*\n(?P<text>.*?)(?=\n[ \t]*\n|\Z)"
_TIME = r"(?:(?P<h>\d{1,4}):)?(?P<m>\d{1,2}):(?P<s>\d{2})"
_CUES = (  # SubRip and WebVTT, SubStation Alpha without drawings, SubViewer, TTML, lyrics
    re.compile(rf"^[ \t]*{_TIME}[.,]\d{{1,3}}[ \t]*-->{_BLOCK}", re.DOTALL | re.MULTILINE),
    re.compile(
        rf"^Dialogue:[^,\n]*,[ \t]*{_TIME}[^,\n]*(?:,[^,\n]*){{2}},(?P<speaker>[^,\n]*)(?:,[^,\n]*){{4}},(?P<text>(?!.*\\p[1-9]).*)",
        re.MULTILINE,
    ),
    re.compile(rf"^{_TIME}\.\d{{3}},\d+:{_BLOCK}", re.DOTALL | re.MULTILINE),
    re.compile(rf"<(?:\w+:)?p\b[^<>]*?\bbegin=[\"'](?:{_TIME})?[^<>]*>(?P<text>.*?)</(?:\w+:)?p>", re.DOTALL),
    re.compile(rf"^\[{_TIME}(?:[.:]\d+)?\](?:\[[\d:.]+\])*(?P<text>.*)", re.MULTILINE),
)
_BREAK = re.compile(r"\\[Nnh]|<(?:\w+:)?br\b[^<>]*>")
_SPEAKER = re.compile(r"<v(?:\.[^\s>]*+)?\s++([^>]++)>")
_TAG = re.compile(r"</?[^<>\n]*>|\{\\[^{}]*\}")
SECONDS_PER_MINUTE = 60
_MAX_SHOWN_LINES = 4  # lines on the screen
_MIN_GROWING_WORDS = 2  # of a line that the next cue shows with more words


class _Cue(NamedTuple):
    seconds: int
    speaker: str
    text: str


def parse_subtitles(file: OpenFile, _options: LoadOptions) -> ParsedFile:
    """Subtitles or lyrics without times: a paragraph and part per minute, ended at a sentence; a new line per change of speaker."""
    text = decode(file.read_bytes()).lstrip("\ufeff")
    pattern = next((pattern for pattern in _CUES if pattern.search(text)), _CUES[0])
    cues = sorted(map(_cue, pattern.finditer(text)), key=itemgetter(0))
    rendered = join_sections(_minutes(list(_without_repetitions(cues))))
    return ParsedFile(rendered.text, parts=rendered.parts) if rendered.parts else ParsedFile(text)


def _cue(match: re.Match[str]) -> _Cue:
    found = match.groupdict()
    seconds = int(found["h"] or 0) * 3600 + int(found["m"] or 0) * 60 + int(found["s"] or 0)
    return _Cue(seconds, found.get("speaker", ""), _BREAK.sub("\n", found["text"]))


def _without_repetitions(cues: Iterable[_Cue]) -> Iterator[_Cue]:
    """The cues, without the lines that they repeat: rolling captions show each line in up to three cues, or longer in each."""
    shown: list[str] = []  # the last lines
    for cue in cues:
        speaker = _SPEAKER.search(cue.text)
        lines = [line for part in cue.text.split("\n") if (line := " ".join(unescape(_TAG.sub("", part)).split()))]
        n_repeated = next((n for n in range(min(len(lines), len(shown)), 0, -1) if lines[:n] == shown[-n:]), 0)
        new_lines = lines[n_repeated:]
        if new_lines and shown and new_lines[0].startswith(f"{shown[-1]} ") and shown[-1].count(" ") >= _MIN_GROWING_WORDS - 1:
            shown[-1], grown = new_lines[0], new_lines[0].removeprefix(shown[-1])
            words = " ".join([grown.strip(), *new_lines[1:]])
            shown += new_lines[1:]
        else:
            words = " ".join(new_lines)
            shown += new_lines
        if words:
            yield _Cue(cue.seconds, speaker[1].strip() if speaker else cue.speaker, words)
        del shown[:-_MAX_SHOWN_LINES]


def _minutes(cues: list[_Cue]) -> Iterator[tuple[str, str]]:
    """(label, text) for about every minute."""
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
