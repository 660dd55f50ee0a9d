"""Names a text might hold, found without a model: capitalised runs, and what a Chinese dictionary marks as names.

A small model lists few names unasked and never knows when to stop; shown candidates it types them well. Measured with the bundled model,
entity spans of CoNLL04: listing freely from the text's spans F1 0.17 (40 sentences), typing candidates F1 0.70 (200). It cannot reject:
allowed to call a capitalised candidate no entity, it was wrong 33 times of 49. Of noun phrases it can: those it called things were no
mention of LitBank's 9 times in 10, definite ones it called persons or places were 6 times in 10.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from localrag.index.extraction.names.noise import is_noise
from localrag.index.extraction.passage import Passage
from localrag.text.plain import CJK, squeeze

_QUOTED_CJK = re.compile(rf"[《“「『]([{CJK}A-Za-z0-9·]{{2,12}})[》”」』]")
_NAME_FLAGS = ("nr", "ns", "nt", "nz")
_CJK_SUFFIX = frozenset(
    """
    港 岛 镇 市 县 省 村 路 街 巷 河 山 湖 号 学校 公司 委员会 银行 教堂 医院 合作社 报 周报 灯塔 码头 沙洲 协会 法庭 船长 杂货店
    """.split()
)
_ARTICLE = re.compile(r"\b[Tt]he\s$")
ENOUGH = 12  # names of a chunk; where there are fewer, noun phrases fill up
LIMIT = 24  # names offered for one chunk: the most frequent


def candidates(passage: Passage) -> list[str]:
    """The likely names in a passage, in the order of their first occurrence; each, whitespace squeezed, is a stretch of it."""
    found: dict[str, Counter[str]] = {}
    for name in [*passage.capitalised, *(_chinese(passage) if passage.cjk else ())]:
        if not is_noise(name):
            found.setdefault(name.casefold(), Counter())[name] += 1
    kept = sorted(found, key=lambda n: -found[n].total())[:LIMIT]
    return [found[n].most_common(1)[0][0] for n in found if n in kept]


def concepts(passage: Passage, names: Sequence[str]) -> list[str]:
    """Noun phrases of a passage that recur in its document, those that recur most, where it holds few names; verbatim stretches of it.

    A "the" before one belongs to it: "the surgeon" stands for somebody as a name does, "a surgeon" for anybody.
    """
    text, case = passage.plain, passage.case
    found: dict[str, str] = {}
    words = {word for name in names for word in name.lower().split()}
    for start, end in passage.noun_phrases:
        phrase = squeeze(text[start:end])
        if case.phrases[phrase.lower()] > 1 and words.isdisjoint(phrase.lower().split()):
            article = _ARTICLE.search(text, 0, start)
            written = squeeze(text[article.start() if article else start : end])
            if article or phrase.lower() not in found:
                found[phrase.lower()] = "the " + written[4:] if article else written
    ranked = sorted(found, key=lambda p: -case.phrases[p] * (1 + p.count(" ")))[: max(0, ENOUGH - len(names))]
    return [found[p] for p in found if p in ranked]


def _chinese(passage: Passage) -> Iterator[str]:
    yield from _QUOTED_CJK.findall(passage.plain)
    run: list[tuple[str, bool]] = []
    for word, flag in [*passage.chinese_words, ("\n", "x")]:
        named = flag.startswith(_NAME_FLAGS)
        if named or (run and (word == "·" or word in _CJK_SUFFIX)):
            run.append((word, named))
            continue
        name = squeeze("".join(w for w, _ in run).strip("·"))
        if 2 <= len(name) <= 12:
            yield name
        run = []
