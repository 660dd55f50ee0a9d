"""A Chinese sentence → its words and clauses, by jieba's words and the markers 把, 被, 由."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from localrag.query.reading.amounts import Amount, chinese_amounts
from localrag.query.reading.lexicon import chinese_words_known, opposed, synonyms_of
from localrag.query.reading.record import Clause, Reading, Word

NEGATORS = frozenset(
    "不 没 没有 未 无 非 勿 别 莫 尚未 并未 从未 未曾 不曾 从不 从没 并非 绝非 毫无 不再 不是 并不 并没有 未能 没能 决不 绝不 不必 还没有 还没 并没 还未 尚没有 没能够 无法 不能 不可 不可以 不得 不要 不许 不准 不应 不应该 不会 不须 禁止 严禁 不能够 无权".split()
)
_FUNCTION = frozenset(
    """
    后 前 之后 之前 以前 以后 随后 后来 书中 文中 会上 信中 第 得了 起 以来 时候 消息 使用 用 实行 问题 方式 结果 名义 这样 那样 之中 当中 目的 数量 共 总共 一共 仍然 仍 依然 至今 
    的 了 着 过 地 得 之 所 而 且 并 并且 而且 但 但是 却 也 又 还 就 便 才 再 已 已经 曾 曾经 将 会 要 在 于 从 自 到 向 往 对 对于 与 和 同 跟 及 以及 或
    或者 以 为 被 把 将 由 让 给 比 按 因 因为 由于 所以 因此 如果 若 虽然 尽管 即使 当 时 是 有 这 那 这些 那些 其 其中 此 该 本 各 某 们 呢 吗 吧 啊 等 等等
    很 非常 十分 极 最 更 较 比较 太 都 均 只 仅 正 正在 一直 始终 后 前 中 里 内 上 下 间 来 去 起 起来 出来 下来 上来 下去 出 进 入 能 能够 可 可以 应 应该
    应当 必须 须 需 需要 得以 可能 也许 或许 大概 大约 约 左右 据 根据 关于 至 至于 直到 随着 通过 经 经过 后来 之后 以后 随后 之前 以前 当时 目前 现在 一
    一个 一种 一些 个 位 名 座 条 件 只 次 年 月 日 天 元 岁 米 公里 人 者 他 她 它 他们 她们 它们 我 我们 你 你们 自己 称 说 表示 指出 认为 写道 告诉 叫
    叫做 名为 成为 作为 属于 位于 做 进行 受 受到 得到 获 获得 即 则 连忙 于是 其后 接着 同时 另外 此外 那里 这里 当地 票 球 册 家 所 级 期间 方面 情况
    事情 过程 途中 奉 身 点 处
    """.split()
)
# Function words whose exchange turns the meaning: they need a counterpart.
_TURNING = frozenset("后 前 之后 之前 以前 以后 上 下".split())
_TELLING = frozenset("最 更 后 前 之后 之前 以前 以后 上 下 内 年 月 日 天 岁 每年 每月 每天 每周 每日 里".split())
_MODALS = frozenset(
    "能 能够 可 可以 会 要 应 应该 应当 必须 须 需 需要 得以 可能 愿 愿意 想 敢 肯 将 来 去 得 进行 开始 继续 予以 加以".split()
)
_POSSIBLE = frozenset(
    "可能 也许 或许 大概 恐怕 说不定 据说 传说 相传 疑似 如果 若 倘若 假如 要是 除非 计划 打算 预计 拟 准备 本来打算 原计划".split()
)
_UNREAL = frozenset(
    "要求 命令 希望 想 建议 计划 打算 准备 企图 试图 威胁 答应 承诺 提议 请求 申请 认为 相信 怀疑 声称 担心 预计 下令 吩咐 责令 呼吁 拟 认定 叫 让 请".split()
)
_REPORTS = frozenset(
    "说 表示 认为 指出 宣布 宣告 发现 显示 表明 知道 声称 证实 承认 否认 看到 听说 告诉 透露 强调 称 是 使 说明 得知".split()
)
_BRINGS = frozenset("引起 导致 造成 引发 致使".split())
_CAUSES = frozenset("命令 要求 让 叫 派 请 使 劝 逼 允许 禁止 邀请 吩咐 责令 令 命 派遣 委托 带领 率领 带 指派 之命".split())
_REFUSALS = frozenset("拒绝 不肯 不愿 未能 无法 禁止 停止 放弃 谢绝".split())
_PREPOSITIONS = frozenset("在 于 从 自 到 向 往 对 对于 以 为 比 按 按照 根据 给 跟 用 因 因为 由于 当 至 自从 随 经 受 除了 关于".split())
_QUANTIFIERS = {
    "all": "全部 所有 全 一切 都 均 每 完全 整个 任何 皆 全都 悉数 统统",
    "most": "大多 大部分 多数 大多数 大都 多半 主要",
    "some": "部分 一些 有些 某些 若干 少数 有的 一部分",
    "only": "只 仅 唯一 只有 仅有 仅仅 只能 唯有",
    "half": "半数 一半",
    "almost": "几乎 将近 差点",
}
_QUANTIFIER = {w: kind for kind, words in _QUANTIFIERS.items() for w in words.split()}
_KEPT = frozenset(
    "不过 不仅 不但 不久 不断 不同 未来 无论 不满 不足 不少 不超过 不到 不锈钢 无线 无锡 非洲 非常 无限 不得不 不幸 无数 未婚 非法 不安 不满 不错 不便 别人 别墅 "
    "特别 别的 没收 不止 不法 未必 莫斯科 别名 莫言 无神论 不丹 不许 不准 不得 非法".split()
)
_COMPLEMENT = re.compile(r"(?:出来|起来|下来|下去|上去|回来|回去|了|过|着|到|出|来|去|掉|完|下|上|住|给|在|于|成|为|起|开|入|进|好)$")
_STOP = "，。；：！？,;:!?"


@dataclass
class Token:
    """A word, number or mark while a sentence is read; `start` is its place in the text."""

    text: str
    flag: str
    start: int
    amount: Amount | None = None


@dataclass
class _Part:
    verb: int | None
    subject: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    region: list[int] = field(default_factory=list)
    negations: int = 0
    modes: set[str] = field(default_factory=set)
    within: int | None = None
    passive: bool = False
    heads: bool = False  # the first verb of its stretch


def tokens(text: str) -> list[Token]:
    """The words of a sentence; numbers are one token each, words of the tables are put together, negations stand alone."""
    made: list[Token] = []
    at = 0
    for amount in [*chinese_amounts(text), None]:
        end = amount.start if amount else len(text)
        if end > at:
            made += _words(text[at:end], at)
        if amount:
            made.append(Token(text[amount.start : amount.end], "m", amount.start, amount))
            at = amount.end
    return _joined(made)


def _words(part: str, at: int) -> list[Token]:
    from localrag.index.nouns import chinese_words

    made = []
    for word, flag in chinese_words(part):
        for piece in _without_negation(word):
            made.append(Token(piece, flag if piece == word else "d" if piece in NEGATORS else "v" if len(word) > len(piece) else flag, at))
            at += len(piece)
    return made


def _without_negation(word: str) -> list[str]:
    if word in NEGATORS or word in _KEPT or word in chinese_words_known() or len(word) < 2 or word[0] not in "不没未无":
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
        if run == 4 and not any(t.text in (NEGATORS | _FUNCTION) - {"从"} for t in made[i : i + 4]):
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
            "".join(t.text for t in part[:n]) in chinese_words_known()
            and len(part) >= n
            and not any(t.amount for t in part)
            and sum(len(t.text) for t in part) > 3
        )
    return "".join(t.text for t in part) in chinese_words_known()


def read(text: str) -> Reading:
    """The reading of a Chinese sentence."""
    toks = tokens(text)
    parts = _parts(toks)
    places = {k: n for n, p in enumerate(parts) for k in p.region}
    words: list[Word] = []
    number_of: dict[int, int] = {}
    for k, token in enumerate(toks):
        if _content(token) or any(p.verb == k for p in parts):
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
            leans=any(toks[k].text in _LEANS for k in p.region if p.verb is not None and k > p.verb),
        )
        for p in parts
    )
    quantifiers = {q for t in toks if (q := _QUANTIFIER.get(t.text) or ("all" if t.text.startswith("每") else ""))}
    return Reading(text, tuple(words), clauses, frozenset(quantifiers), chinese=True, spans=spans, particles=particles)


def _word(toks: list[Token], k: int, clause: int) -> Word:
    token = toks[k]
    if token.amount:
        return Word(
            token.amount.value, frozenset({token.amount.value}), "number", k, clause, before=_towards(toks, k), unit=token.amount.unit
        )
    soft = token.text in _FUNCTION - _TELLING or token.text in _TURNING or _QUANTIFIER.get(token.text) is not None
    kind = "name" if token.flag in ("nr", "ns", "nt", "nz", "nrt") and len(token.text) > 1 else "word"
    role = "noun" if token.flag[:1] in "nstr" and not _is_verb(toks, k) else "other"
    keys = frozenset({token.text, root(token.text, token.flag)})
    return Word(
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
_TO = tuple("到至往入向给")


def _towards(toks: list[Token], k: int) -> str:
    """ "from" or "to", where a word says whence or whither: 从深圳迁往成都."""
    before = toks[k - 1] if k else None
    if before is None:
        return ""
    if before.text in ("从", "自", "由") and toks[k].flag != "nr":
        return "from"
    if before.text in _TO or (len(before.text) > 1 and before.text.endswith(_TO)):
        return "to"
    return ""


def root(word: str, flag: str = "v") -> str:
    """A verb without its complement: 揭掉 → 揭."""
    bare = _COMPLEMENT.sub("", word) if flag.startswith("v") and len(word) > 1 else word
    return bare or word


def _content(token: Token) -> bool:
    if token.amount:
        return True
    if (
        not re.match(r"[\w]", token.text)
        or token.text in NEGATORS
        or re.fullmatch("[这那该此本各某][种个位名座条件只次家些类项一]", token.text)
    ):
        return False
    return token.text in _TELLING or token.text not in _FUNCTION


def _is_verb(toks: list[Token], k: int) -> bool:
    token = toks[k]
    if token.text in NEGATORS or token.text in _MODALS or token.amount or token.text in _NOUNS:
        return False
    after = toks[k + 1].text if k + 1 < len(toks) else "。"
    if (
        len(token.text) > 1
        and token.text[-1] in "手员者人家师生会局部厂院馆校社票费率量"
        and token.text not in chinese_words_known()
        and after not in ("了", "过", "着")
    ):
        return False
    known = (
        (token.text in _CAUSES | _UNREAL | _REPORTS
        and token.text not in ("说明", "担心"))
        or (after in ("了", "过", "着") and token.flag != "nr")
    )
    if known and not (k and toks[k - 1].text in ("的", "之")) and after not in ("的", "之", "是", "为"):
        return True
    if not (
        token.flag in ("v", "vn", "vg", "vi", "vd", "vq", "zg") or token.text in _VERBS or (token.flag in "na" and _verbal(token.text))
    ):
        return False
    if (
        len(token.text) > 1
        and token.text[-1] in "上里中边"
        and token.text not in chinese_words_known()
        and token.text[0] in "镇村街路船岛山河海桌墙地车"
    ):
        return False
    if k and toks[k - 1].text in ("的", "之"):  # 修缮码头的提案
        return not (
            after in _STOP or after in ("是", "为", "由", "被", "和", "与", "，") or (k + 1 < len(toks) and toks[k + 1].flag[:1] == "v")
        )
    return not (after in ("是", "为") and token.flag in ("v", "vn") and token.text not in _VERBS)  # 预算为三十万元


@lru_cache(maxsize=10_000)
def _verbal(word: str) -> bool:
    """Whether most words that mean the same are verbs: jieba calls 命令 and 称帝 nouns."""
    from localrag.index.nouns import chinese_words

    others = [w for w in synonyms_of(word, "zh") if len(w) <= 3]
    verbs = sum(next(iter(chinese_words(w)))[1].startswith("v") for w in others)
    return len(others) > 2 and verbs * 2 > len(others)


# Verbs that jieba takes for something else, and nouns it takes for verbs.
_VERBS = frozenset(
    "新建 改建 扩建 重建 通过 称帝 登基 即位 连任 兼任 驳回 注入 发源 发源于 获胜 战胜 击败 否决 教 学过 退休 去世 出生 生于 叫做 攻破".split()
)
_NOUNS = frozenset(
    "有关 提案 预算 判决 报告 申请费 工作 活动 影响 研究 建议 任期 设计 规定 调查 投资 贸易 教育 执照 位于 直到 出来 起来 下来 下去 上来 符咒 有".split()
)


def _is_noun(token: Token) -> bool:
    if token.text in _MODALS or token.text in NEGATORS or (token.text in _FUNCTION and token.flag[:1] != "r"):
        return False
    return token.flag[:1] in "nr" or token.flag in ("j", "l", "i", "vn", "eng", "s", "an", "b") or token.text in _NOUNS


def _parts(toks: list[Token]) -> list[_Part]:
    parts: list[_Part] = []
    start = adjunct = 0
    for k in [*[i for i, t in enumerate(toks) if t.text in _STOP], len(toks)]:
        if k > start and not _says_when(toks[start:k]):
            _segment(toks, adjunct, k, parts)
            adjunct = k + 1
        start = k + 1
    if adjunct < len(toks) and parts:
        parts[-1].region += range(adjunct, len(toks))
    return parts or [_Part(None, region=list(range(len(toks))))]


def _says_when(part: list[Token]) -> bool:
    """Whether a stretch only says when or where: 三天后， 1368年， 十七世纪末，"""
    return len(part) <= 8 and all(t.amount or t.flag in ("t", "f", "m", "q", "s") or t.text in "年月日天末初中后前在于" for t in part)


def _segment(toks: list[Token], start: int, end: int, parts: list[_Part]) -> None:
    """The clauses of a stretch between two marks: one a verb."""
    verbs = [k for k in range(start, end) if _is_verb(toks, k)]
    spans = _relative(toks, start, end, verbs)
    hidden = {k for a, b, _ in spans for k in range(a, b)}
    main = [k for k in verbs if k not in hidden]
    if not main and spans and any(_is_noun(toks[k]) for k in range(start, spans[0][0])):
        main, spans = [spans[0][2]], spans[1:]
        hidden = {k for a, b, _ in spans for k in range(a, b)}
    if not main and (marks := [k for k in range(start, end) if toks[k].text in ("把", "被")]):
        stops = [k for k in range(marks[0] + 2, end) if toks[k].text in _PREPOSITIONS or toks[k].text in ("了", "到", "过")]
        main = [(stops[0] if stops else end) - 1] if (stops[0] if stops else end) - 1 > marks[0] else []
    if not main:
        part = _Part(
            None, region=list(range(start, end)), subject=[k for k in range(start, end) if _is_noun(toks[k]) and k not in hidden][:1]
        )
        part.negations = sum(toks[k].text in NEGATORS for k in part.region)
        parts.append(part)
    last = start
    for n, verb in enumerate(main):
        until = main[n + 1] if n + 1 < len(main) else end
        part = _Part(verb, region=[*range(last, verb + 1)])
        _arguments(toks, part, [k for k in range(last, verb) if k not in hidden], [k for k in range(verb + 1, until) if k not in hidden])
        part.heads = n == 0
        _of_before(toks, part, parts, n)
        zone = [toks[k].text for k in range(last, verb) if k not in hidden]
        part.negations += sum(t in NEGATORS for t in zone)
        part.modes |= {"possible"} if set(zone) & _POSSIBLE else set()
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
            and toks[of + 1].text not in _STOP
            and not (of + 1 < end and toks[of + 1].flag[:1] in "vp" and toks[of + 1].text not in _NOUNS and not _after_of(toks, of))
        ):
            first = verb
            while (
                first > start
                and toks[first - 1].text not in _STOP
                and _is_noun(toks[first - 1])
                and first - 1 > start
                and toks[first - 2].text in ("是", "把", "在", "了")
            ):
                first -= 1
            found.append((first, of + 1, verb))
    return found


def _after_of(toks: list[Token], of: int) -> bool:
    return not _is_verb(toks, of + 1)


def _add_relatives(toks: list[Token], spans: list[tuple[int, int, int]], parts: list[_Part], main: int) -> None:
    for first, of, verb in spans:
        part = _Part(verb, region=list(range(first, of)), within=main)
        part.subject = [k for k in range(first, verb) if _is_noun(toks[k])]
        part.objects = [k for k in range(verb + 1, of) if _is_noun(toks[k])]
        part.negations = sum(toks[k].text in NEGATORS for k in part.region)
        parts.append(part)


def _arguments(toks: list[Token], part: _Part, before: list[int], after: list[int]) -> None:
    marker = ""
    for n, k in enumerate(before):
        token = toks[k]
        following = toks[before[n + 1]].text if n + 1 < len(before) else ""
        if token.text in ("把", "被", "由") or (token.text == "将" and n + 1 < len(before) and _is_noun(toks[before[n + 1]])):
            marker = token.text
            if marker == "由" and any(t.text in _TO or t.text.endswith(_TO) for t in toks[k + 2 : k + 6]) and toks[k + 1].flag != "nr":
                marker = "在"
            if marker in ("被", "由"):
                part.passive = True
                part.objects += part.subject
                part.subject = []
        elif token.text in ("由于", "因", "因为") and any(toks[j].text in _BRINGS for j in before[n:] + [part.verb or 0]):
            part.passive, marker = True, "由"
            part.objects, part.subject = part.objects + part.subject, []
        elif token.text in ("对", "对于"):
            marker = "对"
        elif token.text in _PREPOSITIONS:
            marker = "在"
        elif (
            token.text in ("中", "里", "上", "下", "内", "后", "前", "时", "之后", "之前", "起", "以来", "期间", "以后", "以前", "为止")
            and marker == "在"
        ):
            marker = ""
        elif _argument(token, marker) and following not in ("的", "之"):
            (part.objects if marker in ("把", "将", "对") else part.subject).append(k) if marker != "在" else None
    for n, k in enumerate(after):
        token = toks[k]
        following = toks[after[n + 1]].text if n + 1 < len(after) else ""
        if token.text in _PREPOSITIONS or token.text in ("把", "被", "由"):
            break
        if _is_noun(token) and following not in ("的", "之"):
            part.objects.append(k)


def _argument(token: Token, marker: str) -> bool:
    """Whether a word can be subject or object; behind a marker any word that says something is."""
    if marker in ("把", "被", "由", "将"):
        return _content(token) and token.amount is None and (token.flag not in ("d", "t") or len(token.text) > 2)
    return (
        (_is_noun(token) or (token.flag == "d" and len(token.text) > 2)) and token.flag != "t" and token.text not in "年月日内外中前后里天"
    )


_FROM = frozenset("向 跟 从".split())
_TAKES = frozenset("借 买 学 租 讨 购 借了 买了 学了 学过 学习 购买".split())


def _of_before(toks: list[Token], part: _Part, parts: list[_Part], n: int) -> None:
    """What a verb takes from the one before it: its subject, its denial, its mode. `n` counts the verbs of its stretch."""
    if not parts:
        return
    before = parts[-1]
    verb = toks[before.verb].text if before.verb is not None else ""
    if n:
        part.within = len(parts) - 1
        if not part.passive:
            reported = verb in _CAUSES or verb in _UNREAL or verb in _REPORTS
            between = part.subject or list(before.objects)
            if verb in _REPORTS:
                before.objects = []
            own = [] if verb in _REPORTS else list(before.subject)
            part.subject = (between or own) if reported else list(before.subject)
        part.modes |= ({"possible"} if verb in _UNREAL else set()) | before.modes
        part.negations += verb in _REFUSALS
        return
    first = next((p for p in reversed(parts) if p.heads), before)
    earlier = first.objects if first.passive else first.subject
    if part.passive and not part.objects:
        part.objects = list(earlier)
    elif not part.passive and all(toks[k].text in _LEANS for k in part.subject):
        part.subject = list(earlier)
        part.objects += earlier if first.passive else []


@lru_cache(maxsize=20_000)
def _ways(word: str) -> tuple[str, ...]:
    """A word and what may stand for it in a source, longest first."""
    return tuple(sorted({word, *synonyms_of(word, "zh")}, key=len, reverse=True))


def counterparts(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> tuple[dict[int, int], set[int]]:
    """The words of the source that answer to a word of a claim (with how closely), and those that say the opposite."""
    alike: dict[int, int] = {}
    for way in _ways(word.text) if word.kind == "word" else (word.text,):
        for m in re.finditer(re.escape(way), source.text):
            for j, (a, b) in starts.items():
                if a < m.end() and m.start() < b and not (len(way) == 1 and b - a > 1 and way != word.text):
                    alike[j] = max(alike.get(j, 0), 3 if way == word.text else 2)
            if m.span() in source.particles and not alike:
                alike[_nearest(m.start(), starts)] = 2
    opposite = set()
    for j, other in enumerate(source.words):
        if j in alike or other.kind != "word":
            continue
        if opposed(word.keys, other.keys, "zh"):
            opposite.add(j)
        elif word.kind == "word" and (word.keys & other.keys or _contains(word, other)):
            alike[j] = 2
    if not alike and not opposite:
        alike = {j: 2 for j, other in enumerate(source.words) if _composed(word.text, other.text)}
    if not alike and not opposite:
        alike = {j: 2 for j, other in enumerate(source.words) if _kindred(word, other)} or _spread(word, source, starts)
    if not alike and not opposite and len(word.text) > 1 and word.kind == "word":
        alike = _pieces(word, source, starts)
    return alike, opposite


def _nearest(at: int, starts: dict[int, tuple[int, int]]) -> int:
    """The word nearest to a place where a particle stands that says the same: 仍 for 继续."""
    return min(starts, key=lambda j: abs(starts[j][0] - at), default=0)


def _composed(a: str, b: str) -> bool:
    """Two words of two characters that share one, the others meaning the same: 喝酒 and 饮酒."""
    if len(a) != 2 or len(b) != 2:
        return False
    return any(a[i] == b[i] and a[1 - i] != b[1 - i] and b[1 - i] in synonyms_of(a[1 - i], "zh") for i in (0, 1))


def _kindred(word: Word, other: Word) -> bool:
    """Verbs and the like that share a character (焚烧, 烧掉); nouns of which one is the other with something before or behind it."""
    if "word" not in (word.kind, other.kind) or "number" in (word.kind, other.kind) or word.when or other.when:
        return False
    short, long = sorted((word.text, other.text), key=len)
    if word.role == other.role == "noun":
        return len(short) < len(long) and len(long) < 5 and (long.startswith(short) or long.endswith(short)) and short not in _VAGUE
    if word.text in chinese_words_known() and not word.text.startswith(other.text):
        return False  # what means the same is in the tables
    shared = set(word.text) & set(other.text) - set(_VAGUE) - _LINKS - _FUNCTION
    apart = (frozenset(set(word.text) - shared), frozenset(set(other.text) - shared))
    return bool(shared) and len(long) < 4 and not opposed(*apart, "zh")


def _spread(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """A word whose characters stand in this order close together in the source: 降血压 in 降低血压."""
    if len(word.text) < 2 or word.kind == "number" or word.when:
        return {}
    pattern = ".{0,2}?".join(map(re.escape, word.text))
    found = re.search(pattern, source.text)
    if found is None or any(c in found[0] for c in _STOP):
        return {}
    return {j: 2 for j, (a, b) in starts.items() if a < found.end() and found.start() < b}


def _contains(word: Word, other: Word) -> bool:
    """A verb of two characters and one of them alone: 购买 and 买."""
    short, long = sorted((word.text, other.text), key=len)
    return len(short) == 1 and len(long) == 2 and short in long and short not in _FUNCTION and short not in _VAGUE


_VAGUE = frozenset("大小多少高低长短上下前后新老南北东西男女省市县年月日人有无心力气水火山")


_LEANS = frozenset("他 她 它 他们 她们 它们 其 自己 该书 书中".split())
_LINKS = frozenset("的了着过在于和与已要还就也之再又才都会能将被把从到向对所以为很更")


def _pieces(word: Word, source: Reading, starts: dict[int, tuple[int, int]]) -> dict[int, int]:
    """A long word that stands in the source in pieces: of two characters or more, or single words of it, particles aside."""
    single = {source.text[a:b] for a, b in starts.values() if b - a == 1}
    found: dict[int, int] = {}
    at = 0
    text = word.text
    while at < len(text):
        for end in range(len(text), at, -1):
            piece = text[at:end]
            if (len(piece) > 1 and piece in source.text and end - at < len(text)) or piece in single:
                place = source.text.find(piece)
                found |= {j: 2 for j, (a, b) in starts.items() if a < place + len(piece) and place < b}
                at = end
                break
            if piece in _LINKS:
                at = end
                break
        else:
            return {}
    return found
