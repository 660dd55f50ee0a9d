"""Subtitles and lyrics as paragraphs of about a minute, without times and repetitions."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import unescape
from typing import Any, NamedTuple

from localrag.loaders.content import LoadOptions, OpenFile, ParsedFile, decode, join_sections, number_in

_BLOCK = r"[^\n]*\n(?P<text>.*?)(?=\n[ \t]*\n|\Z)"
_TIME = r"(?:(?P<h>\d{1,4}):)?(?P<m>\d{1,2}):(?P<s>\d{2})"
_CUE = re.compile(rf"^[ \t]*{_TIME}[.,]\d{{1,3}}[ \t]*-->{_BLOCK}", re.DOTALL | re.MULTILINE)  # SubRip and WebVTT
_STUDIO = dict.fromkeys(
    (".ass", ".ssa"),
    re.compile(rf"^Dialogue:[^,\n]*,[ \t]*{_TIME}[.\d]*,[^,\n]*,[^,\n]*,(?P<speaker>[^,\n]*),(?:[^,\n]*,){{4}}(?P<text>.*)$", re.MULTILINE),
)
_CUES = _STUDIO | {
    ".sbv": re.compile(rf"^{_TIME}\.\d{{3}},\d+:{_BLOCK}", re.DOTALL | re.MULTILINE),
    ".lrc": re.compile(rf"^\[{_TIME}(?:[.:]\d+)?\](?:\[[\d:.]+\])*(?P<text>.*)$", re.MULTILINE),
}
_TITLE = re.compile(r"^(?:\[ti:([^\]\n]*)\]|Title:(.*))$", re.MULTILINE)
_STUDIO_BREAK, _DRAWING = re.compile(r"\\[Nnh]"), re.compile(r"\\p[1-9]")
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
    suffix = file.suffix.lower()
    cues = [_Cue(_seconds(match), match.groupdict().get("speaker", ""), match["text"]) for match in _CUES.get(suffix, _CUE).finditer(text)]
    if suffix in _STUDIO:  # not in the order of time, with drawings
        cues = sorted(
            (cue._replace(text=_STUDIO_BREAK.sub("\n", cue.text)) for cue in cues if not _DRAWING.search(cue.text)),
            key=lambda cue: cue.seconds,
        )
    content = _by_minute(cues)
    title = (field[1] or field[2] or "").strip() if suffix in _CUES and (field := _TITLE.search(text)) else ""
    return replace(content, title=title) if content.parts else ParsedFile(text)


def parse_timed_text(root: Any) -> ParsedFile:
    """Subtitles in XML (TTML)."""
    rate = next((value for key, value in root.attrib.items() if key.endswith("tickRate")), "1")
    cues = []
    for line in root.iter("{*}p"):
        begin = next(filter(None, (element.get("begin") for element in line.iter("*"))), "0s")
        for mark in line.iter("{*}br"):
            mark.tail = f"\n{mark.tail or ''}"
        cues.append(_Cue(_clock_time(begin, number_in(rate, 1)), "", "".join(line.itertext())))
    return _by_minute(cues)


def _clock_time(value: str, rate: int) -> int:
    """Seconds from `00:01:02.500`, `62.5s` and the like. `rate`: ticks a second."""
    parts = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", value)[:3]] or [0.0]
    if ":" in value:
        return int(sum(part * 60 ** (2 - n) for n, part in enumerate(parts)))
    units = {"h": 3600.0, "m": 60.0, "ms": 0.001, "t": 1 / max(rate, 1)}
    return int(parts[0] * units.get(value.strip().lstrip("0123456789."), 1.0))


def _by_minute(cues: Iterable[_Cue]) -> ParsedFile:
    body, parts = join_sections(_minutes(list(_without_repetitions(cues))))
    return ParsedFile(body, parts=parts)


def _seconds(cue: re.Match[str]) -> int:
    return int(cue["h"] or 0) * 3600 + int(cue["m"]) * 60 + int(cue["s"])


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
