"""Chinese tokens, and the stretches between marks of punctuation as clauses."""

import re
from dataclasses import dataclass

from localrag.entailment.lexicon import Clause, ParsedSentence, ParsedWord, Quantity, chinese_quantities

NEGATORS = frozenset(
    """
    不 没 没有 未 无 非 勿 别 莫 尚未 并未 从未 从来没有 未曾 不曾 从不 从没 并非 绝非 毫无 不再 不是 并不 并没有 未能 没能 决不 绝不 不必
    还没有 还没 并没 还未 尚没有 没能够 无法 不能 不可 不可以 不得 不要 不许 不准 不应 不应该 不会 不须 禁止 严禁 不能够 无权
    """.split()
)
# Say nothing by themselves: a claim may hold them without a counterpart.
OPTIONAL_WORDS = frozenset(
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
REVERSIBLE_WORDS = frozenset("后 前 之后 之前 以前 以后 上 下".split())
# Function words whose exchange turns the meaning.
REQUIRED_FUNCTION_WORDS = frozenset(
    """
    最 更 后 前 之后 之前 以前 以后 上 下 内 年 月 日 天 岁 每年 每月 每天 每周 每日 里
    """.split()
)
POSSIBILITY_WORDS = frozenset(
    """
    可能 也许 或许 大概 恐怕 说不定 据说 传说 相传 疑似 如果 若 倘若 假如 要是 除非 计划 打算 预计 拟 准备 本来打算 原计划
    """.split()
)
REFUSALS = frozenset("拒绝 不肯 不愿 未能 无法 禁止 停止 放弃 谢绝".split())
_QUANTIFIERS = {
    "all": "全部 所有 全 一切 都 均 每 完全 整个 任何 皆 全都 悉数 统统",
    "most": "大多 大部分 多数 大多数 大都 多半 主要",
    "some": "部分 一些 有些 某些 若干 少数 有的 一部分",
    "only": "只 仅 唯一 只有 仅有 仅仅 只能 唯有",
    "half": "半数 一半",
    "almost": "几乎 将近 差点",
}
QUANTIFIER = {word: kind for kind, words in _QUANTIFIERS.items() for word in words.split()}
_TIME = re.compile(r"[年月周季日]|春|夏|秋|冬|早|晚|午")
CLAUSE_PUNCTUATION = "，。；：！？,;:!?"


@dataclass
class ChineseToken:
    """A word, number or mark while a sentence is read; `start` is its place in the text."""

    text: str
    flag: str
    start: int
    amount: Quantity | None = None


def tokens(text: str) -> list[ChineseToken]:
    """The words of a sentence; numbers are one token each."""
    from localrag.text.parts_of_speech import tag_chinese

    made: list[ChineseToken] = []
    at = 0
    for amount in [*chinese_quantities(text), None]:
        end = amount.start if amount else len(text)
        for word, flag in tag_chinese(text[at:end]):
            made.append(ChineseToken(word, flag, at))
            at += len(word)
        if amount:
            made.append(ChineseToken(text[amount.start : amount.end], "m", amount.start, amount))
            at = amount.end
    return made


def is_content_word(token: ChineseToken) -> bool:
    """Whether a word says something that a source has to hold."""
    if token.amount:
        return True
    if (
        not re.match(r"[\w]", token.text)
        or token.text in NEGATORS
        or re.fullmatch("[这那该此本各某][种个位名座条件只次家些类项一]", token.text)
    ):
        return False
    return token.text in REQUIRED_FUNCTION_WORDS or token.text not in OPTIONAL_WORDS


def _stretches(toks: list[ChineseToken]) -> list[list[int]]:
    """The tokens between two marks of punctuation; what only says when belongs to the next stretch."""
    found: list[list[int]] = [[]]
    for k, token in enumerate(toks):
        found[-1].append(k)
        if token.text in CLAUSE_PUNCTUATION and not _says_when([toks[i] for i in found[-1][:-1]]):
            found.append([])
    return [part for part in found if part] or [[]]


def _says_when(part: list[ChineseToken]) -> bool:
    """Whether a stretch only says when or where: 三天后， 1368年， 十七世纪末，"""
    return len(part) <= 8 and all(t.amount or t.flag in ("t", "f", "m", "q", "s") or t.text in "年月日天末初中后前在于" for t in part)


def _clause(toks: list[ChineseToken], part: list[int]) -> Clause:
    """A stretch as a clause without a verb: whether it is denied, and whether it is only possible, wanted or planned."""
    said = [toks[k].text for k in part]
    modes = frozenset({"possible"} if not POSSIBILITY_WORDS.isdisjoint(said) else ())
    return Clause(None, sum(word in NEGATORS | REFUSALS for word in said) % 2 == 1, modes)


def parse_chinese(text: str) -> ParsedSentence:
    """The reading of a Chinese sentence."""
    toks = tokens(text)
    parts = _stretches(toks)
    places = {k: n for n, part in enumerate(parts) for k in part}
    number_of = {k: n for n, k in enumerate(k for k, token in enumerate(toks) if is_content_word(token))}
    words = tuple(_word(toks, k, places[k]) for k in number_of)
    spans = {n: (toks[k].start, toks[k].start + len(toks[k].text)) for k, n in number_of.items()}
    clauses = tuple(_clause(toks, part) for part in parts)
    kinds = {k: q for k, t in enumerate(toks) if (q := QUANTIFIER.get(t.text) or ("all" if t.text.startswith("每") else ""))}
    after = {k: next((j for j in range(k + 1, k + 4) if j in number_of and j not in kinds), 0) for k in kinds}
    quantified = tuple((number_of[j], kinds[k]) for k, j in after.items() if j)
    return ParsedSentence(text, words, clauses, frozenset(kinds.values()), quantified, chinese=True, spans=spans)


def _word(toks: list[ChineseToken], k: int, clause: int) -> ParsedWord:
    token = toks[k]
    if token.amount:
        return ParsedWord(token.amount.value, frozenset({token.amount.value}), "number", k, clause, unit=token.amount.unit)
    soft = token.text in OPTIONAL_WORDS - REQUIRED_FUNCTION_WORDS or token.text in REVERSIBLE_WORDS or token.text in QUANTIFIER
    kind = "name" if token.flag in ("nr", "ns", "nt", "nz", "nrt") and len(token.text) > 1 else "word"
    role = "noun" if token.flag[:1] in "nstr" or (k and toks[k - 1].text in ("把", "被")) else "other"
    when = token.flag == "t" or (kind == "word" and bool(_TIME.search(token.text)))
    owner = kind == "name" and k + 1 < len(toks) and toks[k + 1].text in ("的", "之")
    return ParsedWord(token.text, frozenset({token.text}), kind, k, clause, role, soft=soft, when=when, owner=owner)
