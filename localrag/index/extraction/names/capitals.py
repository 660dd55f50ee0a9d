"""Names in alphabets with capitals: runs of capitalised words, joined and cut as English writes names."""

import re
from collections.abc import Iterator

from localrag.index.extraction.names.case import ENDING, LINK, RUN, UPPER, Case, broken, plain
from localrag.index.extraction.names.noise import is_noise
from localrag.index.extraction.names.titles import TITLES
from localrag.text.plain import FUNCTION_WORDS, squeeze

_JOIN = re.compile(r"[ \n](?:(?:of|for|on|in|against)[ \n]the|for|on|and(?:[ \n]the)?)[ \n]")  # within one name or between two
_SHOUT = re.compile(rf"(?<=[a-z])[ \n](?=[{UPPER}]{{5}})|(?<=[{UPPER}]{{5}})[ \n](?=[{UPPER}][a-z])")  # Moscow PRAVDA: two names
_BODIES = frozenset(  # what a name like "Association for the Advancement of …" begins or ends with
    """
    academy administration agency alliance archive army assembly association authority bank battle board book brigade bureau
    cathedral center centre chamber church club coalition college commission committee community company conference confederation
    congress convention corporation council court department division faculty federation festival foundation front fund gallery
    guild house hospital institute institution journal kingdom laboratory league library ministry movement museum national office
    order organisation organization palace parliament party people's program programme project republic school
    service society state summit temple theatre treaty tribunal trust union university war workers
    """.split()
)


def capitalised(text: str, case: Case) -> Iterator[str]:
    """The names in `text`, one for each place, whitespace squeezed."""
    text = broken(text)
    runs = list(RUN.finditer(text))
    at = 0
    while at < len(runs):
        last = at
        while last + 1 < len(runs) and _JOIN.fullmatch(text, runs[last].end(), runs[last + 1].start()):
            last += 1
        parts = [run.group() for run in runs[at : last + 1]]
        links = [text[a.end() : b.start()] for a, b in zip(runs[at:last], runs[at + 1 : last + 1], strict=True)]
        for joined in (piece for whole in _joined(parts, links) for piece in _SHOUT.split(whole)):
            if name := _trimmed(joined, case):
                yield name
        at = last + 1


def _joined(parts: list[str], links: list[str]) -> list[str]:
    """Parts put together where the first is the beginning of a body's name, or "and" stands before the end of one."""
    names = [parts[0]]
    for link, part in zip(links, parts[1:], strict=True):
        head, joiner = names[-1], link.split()[0]
        if plain(part.split()[0]) in FUNCTION_WORDS:  # on January 29
            names.append(part)
            continue
        begun = not _BODIES.isdisjoint(map(plain, head.split())) and (joiner != "and" or " of " in head or " for " in head)
        ends = joiner == "and" and len(part.split()) > 1 and plain(part.split()[-1]) in _BODIES and plain(head.split()[-1]) not in _BODIES
        if (begun and joiner != "in") or ends:
            names[-1] = head + link + part
        else:
            names.append(part)
    return names


def _trimmed(run: str, case: Case) -> str:
    """A run without what only stands at the sentence's beginning or is no name by itself; empty where nothing is left."""
    words = run.split()
    while words and case.is_plain(words[0], alone=len(words) == 1) and not (len(words) > 1 and plain(words[0]) in TITLES):
        words = words[1:]
    while words and (plain(words[-1]) in FUNCTION_WORDS or re.fullmatch(LINK, words[-1]) or (words[-1].isdigit() and len(words) == 1)):
        words = words[:-1]
    while words and (re.fullmatch(LINK, words[0]) or (is_noise(words[0]) and plain(words[0]) not in TITLES)):
        words = words[1:]
    name = squeeze(ENDING.sub("", " ".join(words)))
    if len(name) < 2 or not any(c.isupper() for c in name) or plain(name) in TITLES or is_noise(name):
        return ""
    return name
