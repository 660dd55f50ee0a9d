"""Chinese tokens, and the stretches between marks of punctuation as clauses."""

import re
from dataclasses import dataclass

from localrag.entailment.lexicon import Clause, ParsedSentence, ParsedWord, Quantity, chinese_entries, chinese_quantities

NEGATORS = frozenset(
    """
    不 没 没有 未 无 非 勿 别 莫 尚未 并未 从未 从来没有 未曾 不曾 从不 从没 并非 绝非 毫无 不再 不是 并不 并没有 未能 没能 决不 绝不 不必
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
POSSIBLE = frozenset(
    """
    可能 也许 或许 大概 恐怕 说不定 据说 传说 相传 疑似 如果 若 倘若 假如 要是 除非 计划 打算 预计 拟 准备 本来打算 原计划
    """.split()
)
REFUSALS = frozenset(
    """
    拒绝 不肯 不愿 未能 无法 禁止 停止 放弃 谢绝
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


def _stretches(toks: list[Token]) -> list[list[int]]:
    """The tokens between two marks of punctuation; what only says when belongs to the next stretch."""
    found: list[list[int]] = [[]]
    for k, token in enumerate(toks):
        found[-1].append(k)
        if token.text in CLAUSE_PUNCTUATION and not _says_when([toks[i] for i in found[-1][:-1]]):
            found.append([])
    return [part for part in found if part] or [[]]


def _says_when(part: list[Token]) -> bool:
    """Whether a stretch only says when or where: 三天后， 1368年， 十七世纪末，"""
    return len(part) <= 8 and all(t.amount or t.flag in ("t", "f", "m", "q", "s") or t.text in "年月日天末初中后前在于" for t in part)


def _clause(toks: list[Token], part: list[int]) -> Clause:
    """A stretch as a clause without a verb: whether it is denied, and whether it is only possible, wanted or planned."""
    said = [toks[k].text for k in part]
    modes = frozenset({"possible"} if not POSSIBLE.isdisjoint(said) else ())
    return Clause(None, negated=sum(word in NEGATORS | REFUSALS for word in said) % 2 == 1, modes=modes)


def parse_chinese(text: str) -> ParsedSentence:
    """The reading of a Chinese sentence."""
    toks = tokens(text)
    parts = _stretches(toks)
    places = {k: n for n, part in enumerate(parts) for k in part}
    number_of = {k: n for n, k in enumerate(k for k, token in enumerate(toks) if content(token))}
    words = tuple(_word(toks, k, places[k]) for k in number_of)
    spans = {n: (toks[k].start, toks[k].start + len(toks[k].text)) for k, n in number_of.items()}
    clauses = tuple(_clause(toks, part) for part in parts)
    kinds = {k: q for k, t in enumerate(toks) if (q := QUANTIFIER.get(t.text) or ("all" if t.text.startswith("每") else ""))}
    after = {k: next((j for j in range(k + 1, k + 4) if j in number_of and j not in kinds), 0) for k in kinds}
    quantified = tuple((number_of[j], kinds[k]) for k, j in after.items() if j)
    return ParsedSentence(text, words, clauses, frozenset(kinds.values()), quantified, chinese=True, spans=spans)


def _word(toks: list[Token], k: int, clause: int) -> ParsedWord:
    token = toks[k]
    if token.amount:
        return ParsedWord(
            token.amount.value, frozenset({token.amount.value}), "number", k, clause, before=_towards(toks, k), unit=token.amount.unit
        )
    soft = token.text in FUNCTION - TELLING or token.text in TURNING or QUANTIFIER.get(token.text) is not None
    kind = "name" if token.flag in ("nr", "ns", "nt", "nz", "nrt") and len(token.text) > 1 else "word"
    role = "noun" if token.flag[:1] in "nstr" or (k and toks[k - 1].text in ("把", "被")) else "other"
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
        when=token.flag == "t" or (kind == "word" and bool(_TIME.search(token.text))),
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
