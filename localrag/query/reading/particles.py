"""Chinese words by what they do in a sentence."""

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
STOP = "，。；：！？,;:!?"
TO = tuple("到至往入向给")  # at the end of a verb, or alone: whither
