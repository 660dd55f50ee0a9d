"""The verbs of a Chinese sentence with what stands before and behind them: who does what to whom, by order and by 把, 被, 由."""

from dataclasses import dataclass, field
from functools import lru_cache

from localrag.query.reading.lexicon import chinese_words_known, synonyms_of
from localrag.query.reading.particles import (
    BRINGS,
    CAUSES,
    FUNCTION,
    LEANS,
    MODALS,
    NEGATORS,
    POSSIBLE,
    PREPOSITIONS,
    REFUSALS,
    REPORTS,
    STOP,
    TO,
    UNREAL,
)
from localrag.query.reading.segment import Token, content


@dataclass
class Part:
    """A clause while it is built; the numbers are those of tokens."""

    verb: int | None
    subject: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    region: list[int] = field(default_factory=list)
    negations: int = 0
    modes: set[str] = field(default_factory=set)
    within: int | None = None
    passive: bool = False
    heads: bool = False  # the first verb of its stretch


def is_verb(toks: list[Token], k: int) -> bool:
    """Whether a word is the verb of a clause: by jieba's tag, by the tables, and by what stands beside it."""
    token = toks[k]
    if token.text in NEGATORS or token.text in MODALS or token.amount or token.text in NOUNS:
        return False
    after = toks[k + 1].text if k + 1 < len(toks) else "。"
    described = k > 0 and toks[k - 1].text in ("的", "之")
    aspect = after in ("了", "过", "着")
    known = (token.text in CAUSES | UNREAL | REPORTS and token.text not in ("说明", "担心")) or (aspect and token.flag != "nr")
    if known and not described and after not in ("的", "之", "是", "为"):
        return True
    if _noun_by_form(token.text) and not aspect:
        return False
    if not (token.flag in ("v", "vn", "vg", "vi", "vd", "vq", "zg") or token.text in VERBS or (token.flag in "na" and _verbal(token.text))):
        return False
    if described:  # 修缮码头的提案
        verb_follows = k + 1 < len(toks) and toks[k + 1].flag[:1] == "v"
        return not (after in STOP or after in ("是", "为", "由", "被", "和", "与") or verb_follows)
    return not (after in ("是", "为") and token.flag in ("v", "vn") and token.text not in VERBS)  # 预算为三十万元


def _noun_by_form(word: str) -> bool:
    """Whether a word that the tables do not have looks like a person, an office, an amount or a place: 对手, 镇上."""
    if len(word) < 2 or word in chinese_words_known():
        return False
    return word[-1] in "手员者人家师生会局部厂院馆校社票费率量" or (word[-1] in "上里中边" and word[0] in "镇村街路船岛山河海桌墙地车")


@lru_cache(maxsize=10_000)
def _verbal(word: str) -> bool:
    """Whether most words that mean the same are verbs: jieba calls 命令 and 称帝 nouns."""
    from localrag.text.words import chinese_words

    others = [w for w in synonyms_of(word, "zh") if len(w) <= 3]
    verbs = sum(next(iter(chinese_words(w)))[1].startswith("v") for w in others)
    return len(others) > 2 and verbs * 2 > len(others)


# Verbs that jieba takes for something else, and nouns it takes for verbs.
VERBS = frozenset(
    """
    新建 改建 扩建 重建 通过 称帝 登基 即位 连任 兼任 驳回 注入 发源 发源于 获胜 战胜 击败 否决 教 学过 退休 去世 出生 生于 叫做
    攻破
    """.split()
)
NOUNS = frozenset(
    """
    有关 提案 预算 判决 报告 申请费 工作 活动 影响 研究 建议 任期 设计 规定 调查 投资 贸易 教育 执照 位于 直到 出来 起来 下来 下去
    上来 符咒 有
    """.split()
)


def is_noun(token: Token) -> bool:
    """Whether a word can be a subject or an object."""
    if token.text in MODALS or token.text in NEGATORS or (token.text in FUNCTION and token.flag[:1] != "r"):
        return False
    return token.flag[:1] in "nr" or token.flag in ("j", "l", "i", "vn", "eng", "s", "an", "b") or token.text in NOUNS


def clause_parts(toks: list[Token]) -> list[Part]:
    """The clauses of a sentence, one a verb."""
    parts: list[Part] = []
    start = adjunct = 0
    for k in [*[i for i, t in enumerate(toks) if t.text in STOP], len(toks)]:
        if k > start and not _says_when(toks[start:k]):
            _segment(toks, adjunct, k, parts)
            adjunct = k + 1
        start = k + 1
    if adjunct < len(toks) and parts:
        parts[-1].region += range(adjunct, len(toks))
    return parts or [Part(None, region=list(range(len(toks))))]


def _says_when(part: list[Token]) -> bool:
    """Whether a stretch only says when or where: 三天后， 1368年， 十七世纪末，"""
    return len(part) <= 8 and all(t.amount or t.flag in ("t", "f", "m", "q", "s") or t.text in "年月日天末初中后前在于" for t in part)


def _segment(toks: list[Token], start: int, end: int, parts: list[Part]) -> None:
    """The clauses of a stretch between two marks: one a verb."""
    verbs = [k for k in range(start, end) if is_verb(toks, k)]
    spans = _relative(toks, start, end, verbs)
    hidden = {k for a, b, _ in spans for k in range(a, b)}
    main = [k for k in verbs if k not in hidden]
    if not main and spans and any(is_noun(toks[k]) for k in range(start, spans[0][0])):
        main, spans = [spans[0][2]], spans[1:]
        hidden = {k for a, b, _ in spans for k in range(a, b)}
    if not main and (marks := [k for k in range(start, end) if toks[k].text in ("把", "被")]):
        stops = [k for k in range(marks[0] + 2, end) if toks[k].text in PREPOSITIONS or toks[k].text in ("了", "到", "过")]
        main = [(stops[0] if stops else end) - 1] if (stops[0] if stops else end) - 1 > marks[0] else []
    if not main:
        part = Part(
            None, region=list(range(start, end)), subject=[k for k in range(start, end) if is_noun(toks[k]) and k not in hidden][:1]
        )
        part.negations = sum(toks[k].text in NEGATORS for k in part.region)
        parts.append(part)
    last = start
    for n, verb in enumerate(main):
        until = main[n + 1] if n + 1 < len(main) else end
        part = Part(verb, region=[*range(last, verb + 1)])
        _arguments(toks, part, [k for k in range(last, verb) if k not in hidden], [k for k in range(verb + 1, until) if k not in hidden])
        part.heads = n == 0
        _of_before(toks, part, parts, n)
        zone = [toks[k].text for k in range(last, verb) if k not in hidden]
        part.negations += sum(t in NEGATORS for t in zone)
        part.modes |= {"possible"} if set(zone) & POSSIBLE else set()
        parts.append(part)
        last = verb + 1
    tail = [k for k in range(last, end) if k not in parts[-1].region]
    parts[-1].region += tail
    parts[-1].negations += sum(toks[k].text in NEGATORS for k in tail if main)
    _add_relatives(toks, spans, parts, len(parts) - 1)


def _relative(toks: list[Token], start: int, end: int, verbs: list[int]) -> list[tuple[int, int, int]]:
    """Verbs that describe a noun (修缮码头的提案): from, up to behind 的, and the verb."""
    found = []
    for verb in verbs:
        following = next((v for v in verbs if v > verb), end)
        of = next((k for k in range(verb + 1, min(following, end - 1)) if toks[k].text in ("的", "之")), 0)
        if verb + 1 < end and toks[verb + 1].text in ("了", "过"):
            continue
        if (
            of
            and toks[of + 1].text not in STOP
            and not (of + 1 < end and toks[of + 1].flag[:1] in "vp" and toks[of + 1].text not in NOUNS and not _after_of(toks, of))
        ):
            first = verb
            while (
                first > start
                and toks[first - 1].text not in STOP
                and is_noun(toks[first - 1])
                and first - 1 > start
                and toks[first - 2].text in ("是", "把", "在", "了")
            ):
                first -= 1
            found.append((first, of + 1, verb))
    return found


def _after_of(toks: list[Token], of: int) -> bool:
    return not is_verb(toks, of + 1)


def _add_relatives(toks: list[Token], spans: list[tuple[int, int, int]], parts: list[Part], main: int) -> None:
    for first, of, verb in spans:
        part = Part(verb, region=list(range(first, of)), within=main)
        part.subject = [k for k in range(first, verb) if is_noun(toks[k])]
        part.objects = [k for k in range(verb + 1, of) if is_noun(toks[k])]
        part.negations = sum(toks[k].text in NEGATORS for k in part.region)
        parts.append(part)


_ENDS = frozenset("中 里 上 下 内 后 前 时 之后 之前 起 以来 期间 以后 以前 为止".split())  # of what a preposition governs
_OBJECT = ("把", "将", "对")  # before an object that stands before its verb


def _arguments(toks: list[Token], part: Part, before: list[int], after: list[int]) -> None:
    """Finds the subject and the objects of a verb among the words before and behind it."""
    marker = ""
    for n, k in enumerate(before):
        token = toks[k]
        following = toks[before[n + 1]].text if n + 1 < len(before) else ""
        mark = _marker(toks, part, before[n:])
        if mark == "由":
            part.passive = True
            part.objects, part.subject = part.objects + part.subject, []
        if mark or (token.text in _ENDS and marker == "在"):
            marker = mark
        elif marker != "在" and _argument(token, marker) and following not in ("的", "之"):
            (part.objects if marker in _OBJECT else part.subject).append(k)
    for n, k in enumerate(after):
        following = toks[after[n + 1]].text if n + 1 < len(after) else ""
        if toks[k].text in PREPOSITIONS or toks[k].text in ("把", "被", "由"):
            break
        if is_noun(toks[k]) and following not in ("的", "之"):
            part.objects.append(k)


def _marker(toks: list[Token], part: Part, rest: list[int]) -> str:
    """What the first word of the rest makes of those behind it: 把 objects, 由 the subject, 在 neither; empty if it is no such word."""
    k, text = rest[0], toks[rest[0]].text
    if text in ("由于", "因", "因为") and any(toks[j].text in BRINGS for j in [*rest, part.verb or 0]):
        return "由"
    if text == "由" and any(t.text.endswith(TO) for t in toks[k + 2 : k + 6]) and toks[k + 1].flag != "nr":
        return "在"  # 由深圳迁往成都
    if text in ("被", "由"):
        return "由"
    if text == "把" or (text == "将" and len(rest) > 1 and is_noun(toks[rest[1]])):
        return "把"
    if text in ("对", "对于"):
        return "对"
    return "在" if text in PREPOSITIONS else ""


def _argument(token: Token, marker: str) -> bool:
    """Whether a word can be subject or object; behind a marker any word that says something is."""
    if marker in ("把", "由"):
        return content(token) and token.amount is None and (token.flag not in ("d", "t") or len(token.text) > 2)
    return (
        (is_noun(token) or (token.flag == "d" and len(token.text) > 2)) and token.flag != "t" and token.text not in "年月日内外中前后里天"
    )


def _of_before(toks: list[Token], part: Part, parts: list[Part], n: int) -> None:
    """What a verb takes from the one before it: its subject, its denial, its mode. `n` counts the verbs of its stretch."""
    if not parts:
        return
    before = parts[-1]
    verb = toks[before.verb].text if before.verb is not None else ""
    if n:
        part.within = len(parts) - 1
        if not part.passive:
            reported = verb in CAUSES or verb in UNREAL or verb in REPORTS
            between = part.subject or list(before.objects)
            if verb in REPORTS:
                before.objects = []
            own = [] if verb in REPORTS else list(before.subject)
            part.subject = (between or own) if reported else list(before.subject)
        part.modes |= ({"possible"} if verb in UNREAL else set()) | before.modes
        part.negations += verb in REFUSALS
        return
    first = next((p for p in reversed(parts) if p.heads), before)
    earlier = first.objects if first.passive else first.subject
    if part.passive and not part.objects:
        part.objects = list(earlier)
    elif not part.passive and all(toks[k].text in LEANS for k in part.subject):
        part.subject = list(earlier)
        part.objects += earlier if first.passive else []
