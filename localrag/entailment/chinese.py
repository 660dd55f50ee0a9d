"""Chinese tokens, predicates and clauses: the roles around each verb, by word order and by 把, 被, 由."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from localrag.entailment.lexicon import Clause, ParsedSentence, ParsedWord, Quantity, chinese_entries, chinese_quantities, synonyms_of

NEGATORS = frozenset(
    """
    不 没 没有 未 无 非 勿 别 莫 尚未 并未 从未 未曾 不曾 从不 从没 并非 绝非 毫无 不再 不是 并不 并没有 未能 没能 决不 绝不 不必
    还没有 还没 并没 还未 尚没有 没能够 无法 不能 不可 不可以 不得 不要 不许 不准 不应 不应该 不会 不须 禁止 严禁 不能够 无权
    """.split()
)
# Say nothing by themselves: a claim may hold them without a counterpart.
FUNCTION = frozenset(
    """
    后 前 之后 之前 以前 以后 随后 后来 书中 文中 会上 信中 第 得了 起 以来 时候 消息 使用 用 实行 问题 方式 结果 名义 这样 那样
    之中 当中 目的 数量 共 总共 一共 仍然 仍 依然 至今 的 了 着 过 地 得 之 所 而 且 并 并且 而且 但 但是 却 也 又 还 就 便 才 再
    已 已经 曾 曾经 将 会 要 在 于 从 自 到 向 往 对 对于 与 和 同 跟 及 以及 或 或者 以 为 被 把 由 让 给 比 按 因 因为 由于 所以
    因此 如果 若 虽然 尽管 即使 当 时 是 有 这 那 这些 那些 其 其中 此 该 本 各 某 们 呢 吗 吧 啊 等 等等 很 非常 十分 极 最 更 较
    比较 太 都 均 只 仅 正 正在 一直 始终 中 里 内 上 下 间 来 去 起来 出来 下来 上来 下去 出 进 入 能 能够 可 可以 应 应该 应当
    必须 须 需 需要 得以 可能 也许 或许 大概 大约 约 左右 据 根据 关于 至 至于 直到 随着 通过 经 经过 当时 目前 现在 一 一个 一种
    一些 个 位 名 座 条 件 次 年 月 日 天 元 岁 米 公里 人 者 他 她 它 他们 她们 它们 我 我们 你 你们 自己 称 说 表示 指出 认为
    写道 告诉 叫 叫做 名为 成为 作为 属于 位于 做 进行 受 受到 得到 获 获得 即 则 连忙 于是 其后 接着 同时 另外 此外 那里 这里 当地
    票 球 册 家 级 期间 方面 情况 事情 过程 途中 奉 身 点 处
    """.split()
)
# Of these, only the opposite speaks against a claim.
TURNING = frozenset(
    """
    后 前 之后 之前 以前 以后 上 下
    """.split()
)
# Function words whose exchange turns the meaning.
TELLING = frozenset(
    """
    最 更 后 前 之后 之前 以前 以后 上 下 内 年 月 日 天 岁 每年 每月 每天 每周 每日 里
    """.split()
)
# Stand before the verb proper.
MODALS = frozenset(
    """
    能 能够 可 可以 会 要 应 应该 应当 必须 须 需 需要 得以 可能 愿 愿意 想 敢 肯 将 来 去 得 进行 开始 继续 予以 加以
    """.split()
)
POSSIBLE = frozenset(
    """
    可能 也许 或许 大概 恐怕 说不定 据说 传说 相传 疑似 如果 若 倘若 假如 要是 除非 计划 打算 预计 拟 准备 本来打算 原计划
    """.split()
)
# What they govern has not happened by that.
UNREAL = frozenset(
    """
    要求 命令 希望 想 建议 计划 打算 准备 企图 试图 威胁 答应 承诺 提议 请求 申请 认为 相信 怀疑 声称 担心 预计 下令 吩咐 责令 呼吁
    拟 认定 叫 让 请
    """.split()
)
REPORTS = frozenset(
    """
    说 表示 认为 指出 宣布 宣告 发现 显示 表明 知道 声称 证实 承认 否认 看到 听说 告诉 透露 强调 称 是 使 说明 得知
    """.split()
)
BRINGS = frozenset(
    """
    引起 导致 造成 引发 致使
    """.split()
)
# Their object does what follows.
CAUSES = frozenset(
    """
    命令 要求 让 叫 派 请 使 劝 逼 允许 禁止 邀请 吩咐 责令 令 命 派遣 委托 带领 率领 带 指派 之命
    """.split()
)
REFUSALS = frozenset(
    """
    拒绝 不肯 不愿 未能 无法 禁止 停止 放弃 谢绝
    """.split()
)
PREPOSITIONS = frozenset(
    """
    在 于 从 自 到 向 往 对 对于 以 为 比 按 按照 根据 给 跟 用 因 因为 由于 当 至 自从 随 经 受 除了 关于
    """.split()
)
# Mean what stands elsewhere.
LEANS = frozenset(
    """
    他 她 它 他们 她们 它们 其 自己 该书 书中
    """.split()
)
# Begin with a negation and deny nothing.
KEPT = frozenset(
    """
    不过 不仅 不但 不久 不断 不同 未来 无论 不满 不足 不少 不超过 不到 不锈钢 无线 无锡 非洲 非常 无限 不得不 不幸 无数 未婚 非法
    不安 不错 不便 别人 别墅 特别 别的 没收 不止 不法 未必 莫斯科 别名 莫言 无神论 不丹 不许 不准 不得
    """.split()
)
_QUANTIFIERS = {
    "all": "全部 所有 全 一切 都 均 每 完全 整个 任何 皆 全都 悉数 统统",
    "most": "大多 大部分 多数 大多数 大都 多半 主要",
    "some": "部分 一些 有些 某些 若干 少数 有的 一部分",
    "only": "只 仅 唯一 只有 仅有 仅仅 只能 唯有",
    "half": "半数 一半",
    "almost": "几乎 将近 差点",
}
QUANTIFIER = {word: kind for kind, words in _QUANTIFIERS.items() for word in words.split()}
CLAUSE_PUNCTUATION = "，。；：！？,;:!?"
TO = tuple("到至往入向给")  # at the end of a verb, or alone: whither


@dataclass
class Token:
    """A word, number or mark while a sentence is read; `start` is its place in the text."""

    text: str
    flag: str
    start: int
    amount: Quantity | None = None


def tokens(text: str) -> list[Token]:
    """The words of a sentence; numbers are one token each, words of the tables are put together, negations stand alone."""
    made: list[Token] = []
    at = 0
    for amount in [*chinese_quantities(text), None]:
        end = amount.start if amount else len(text)
        if end > at:
            made += _words(text[at:end], at)
        if amount:
            made.append(Token(text[amount.start : amount.end], "m", amount.start, amount))
            at = amount.end
    return _joined(made)


def _words(part: str, at: int) -> list[Token]:
    from localrag.text.parts_of_speech import tag_chinese

    made = []
    for word, flag in tag_chinese(part):
        for piece in _without_negation(word):
            made.append(Token(piece, flag if piece == word else "d" if piece in NEGATORS else "v" if len(word) > len(piece) else flag, at))
            at += len(piece)
    return made


def _without_negation(word: str) -> list[str]:
    if word in NEGATORS or word in KEPT or word in chinese_entries() or len(word) < 2 or word[0] not in "不没未无":
        return [word]
    head = "没有" if word.startswith("没有") else word[0]
    return [head, word[len(head) :]] if len(word) > len(head) else [word]


def _joined(made: list[Token]) -> list[Token]:
    out: list[Token] = []
    i = 0
    while i < len(made):
        length = next((n for n in (4, 3, 2) if _known(made[i : i + n], n)), 1)
        first = made[i]
        run = next(
            (
                n
                for n in range(0, 5)
                if i + n >= len(made) or len(made[i + n].text) != 1 or made[i + n].amount or made[i + n].flag in ("x", "uj", "ul")
            ),
            5,
        )
        if run == 4 and not any(t.text in (NEGATORS | FUNCTION) - {"从"} for t in made[i : i + 4]):
            out.append(Token("".join(t.text for t in made[i : i + 4]), "l", first.start))
            i += 4
            continue
        if (
            length == 1
            and first.text in ("小", "老", "阿")
            and i + 1 < len(made)
            and made[i + 1].flag == "nr"
            and len(made[i + 1].text) == 1
        ):
            out.append(Token(first.text + made[i + 1].text, "nr", first.start))
            i += 2
            continue
        if length > 1:
            flags = [t.flag for t in made[i : i + length]]
            flag = next((f for f in flags if f.startswith("v")), first.flag)
            first = Token("".join(t.text for t in made[i : i + length]), flag, first.start)
        out.append(first)
        i += length
    return out


def _known(part: list[Token], n: int) -> bool:
    if len(part) < n or any(t.amount for t in part) or part[0].text in NEGATORS:
        return (
            "".join(t.text for t in part[:n]) in chinese_entries()
            and len(part) >= n
            and not any(t.amount for t in part)
            and sum(len(t.text) for t in part) > 3
        )
    return "".join(t.text for t in part) in chinese_entries()


def content(token: Token) -> bool:
    """Whether a word says something that a source has to hold."""
    if token.amount:
        return True
    if (
        not re.match(r"[\w]", token.text)
        or token.text in NEGATORS
        or re.fullmatch("[这那该此本各某][种个位名座条件只次家些类项一]", token.text)
    ):
        return False
    return token.text in TELLING or token.text not in FUNCTION


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
        return not (after in CLAUSE_PUNCTUATION or after in ("是", "为", "由", "被", "和", "与") or verb_follows)
    return not (after in ("是", "为") and token.flag in ("v", "vn") and token.text not in VERBS)  # 预算为三十万元


def _noun_by_form(word: str) -> bool:
    """Whether a word that the tables do not have looks like a person, an office, an amount or a place: 对手, 镇上."""
    if len(word) < 2 or word in chinese_entries():
        return False
    return word[-1] in "手员者人家师生会局部厂院馆校社票费率量" or (word[-1] in "上里中边" and word[0] in "镇村街路船岛山河海桌墙地车")


@lru_cache(maxsize=10_000)
def _verbal(word: str) -> bool:
    """Whether most words that mean the same are verbs: jieba calls 命令 and 称帝 nouns."""
    from localrag.text.parts_of_speech import tag_chinese

    others = [w for w in synonyms_of(word, "zh") if len(w) <= 3]
    verbs = sum(next(iter(tag_chinese(w)))[1].startswith("v") for w in others)
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
    for k in [*[i for i, t in enumerate(toks) if t.text in CLAUSE_PUNCTUATION], len(toks)]:
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
            and toks[of + 1].text not in CLAUSE_PUNCTUATION
            and not (of + 1 < end and toks[of + 1].flag[:1] in "vp" and toks[of + 1].text not in NOUNS and not _after_of(toks, of))
        ):
            first = verb
            while (
                first > start
                and toks[first - 1].text not in CLAUSE_PUNCTUATION
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


def parse_chinese(text: str) -> ParsedSentence:
    """The reading of a Chinese sentence."""
    toks = tokens(text)
    parts = clause_parts(toks)
    places = {k: n for n, p in enumerate(parts) for k in p.region}
    words: list[ParsedWord] = []
    number_of: dict[int, int] = {}
    for k, token in enumerate(toks):
        if content(token) or any(p.verb == k for p in parts):
            number_of[k] = len(words)
            words.append(_word(toks, k, places.get(k, 0)))
    spans = {n: (toks[k].start, toks[k].start + len(toks[k].text)) for k, n in number_of.items()}
    particles = frozenset((t.start, t.start + len(t.text)) for k, t in enumerate(toks) if k not in number_of)
    clauses = tuple(
        Clause(
            None if p.verb is None else number_of[p.verb],
            frozenset(number_of[k] for k in p.subject if k in number_of),
            frozenset(number_of[k] for k in p.objects if k in number_of),
            p.negations % 2 == 1,
            frozenset(p.modes),
            p.within,
            p.passive,
            leans=any(toks[k].text in LEANS for k in p.region if p.verb is not None and k > p.verb),
        )
        for p in parts
    )
    kinds = {k: q for k, t in enumerate(toks) if (q := QUANTIFIER.get(t.text) or ("all" if t.text.startswith("每") else ""))}
    after = {k: next((j for j in range(k + 1, k + 4) if j in number_of and j not in kinds), 0) for k in kinds}
    quantified = tuple((number_of[j], kinds[k]) for k, j in after.items() if j)
    return ParsedSentence(
        text, tuple(words), clauses, frozenset(kinds.values()), quantified, chinese=True, spans=spans, particles=particles
    )


def _word(toks: list[Token], k: int, clause: int) -> ParsedWord:
    token = toks[k]
    if token.amount:
        return ParsedWord(
            token.amount.value, frozenset({token.amount.value}), "number", k, clause, before=_towards(toks, k), unit=token.amount.unit
        )
    soft = token.text in FUNCTION - TELLING or token.text in TURNING or QUANTIFIER.get(token.text) is not None
    kind = "name" if token.flag in ("nr", "ns", "nt", "nz", "nrt") and len(token.text) > 1 else "word"
    role = "noun" if token.flag[:1] in "nstr" and not is_verb(toks, k) else "other"
    keys = frozenset({token.text, root(token.text, token.flag)})
    return ParsedWord(
        token.text,
        keys,
        kind,
        k,
        clause,
        role,
        _towards(toks, k),
        soft,
        when=token.flag == "t" or bool(_TIME.search(token.text)),
        owner=kind == "name" and k + 1 < len(toks) and toks[k + 1].text in ("的", "之"),
    )


_TIME = re.compile(r"[年月周季日]|春|夏|秋|冬|早|晚|午")


def _towards(toks: list[Token], k: int) -> str:
    """ "from" or "to", where a word says whence or whither: 从深圳迁往成都."""
    before = toks[k - 1] if k else None
    if before is None:
        return ""
    if before.text in ("从", "自", "由") and toks[k].flag != "nr":
        return "from"
    if before.text in TO or (len(before.text) > 1 and before.text.endswith(TO)):
        return "to"
    return ""


_COMPLEMENT = re.compile(r"(?:出来|起来|下来|下去|上去|回来|回去|了|过|着|到|出|来|去|掉|完|下|上|住|给|在|于|成|为|起|开|入|进|好)$")


def root(word: str, flag: str = "v") -> str:
    """A verb without its complement: 揭掉 → 揭."""
    bare = _COMPLEMENT.sub("", word) if flag.startswith("v") and len(word) > 1 else word
    return bare or word
