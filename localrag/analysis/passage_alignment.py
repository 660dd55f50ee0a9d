"""Alignment of the passages of two documents: equal ones in order, moved ones, then changed ones by their words and by their meaning.

Equal passages that occur once are matched first, as in a patience diff; the longest chain of matches in the order of both documents is
kept, and the other equal passages have moved. The passages between two matches form a gap. Within each gap changed passages are aligned by
the chain of pairs with the highest sum of similarities. No step compares every passage of a long document with every other one.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

Vectors = NDArray[np.float32]
EmbedTexts = Callable[[Sequence[str]], Vectors]
ScoredPair = tuple[int, int, float]
PassageKey = Callable[["ComparablePassage"], Hashable]

MIN_WORD_SIMILARITY = 0.4  # of two passages in one gap: 97 % of 1,000 revised sentences of papers reach it, 0.8 % of other pairs of a paper
MIN_MOVED_SIMILARITY = 0.6  # of two passages in different gaps
MAX_WEIGHING_WORDS = 20  # from which on a longer passage counts no more
MIN_MARGIN = 0.1  # by which a passage in another gap must be nearer than the second nearest
NEIGHBOR_BONUS = 0.15  # for a pair beside a pair
MAX_GAP_PAIRS = 10_000  # of one gap that are all compared; in a larger one each passage is compared with those that share rare words
MAX_SHARING_PASSAGES, SHORTLISTED = 50, 8  # passages that a rare word is in; candidates a passage
MAX_EMBEDDED_PASSAGES = 2_000  # a document
MIN_EMBEDDED_WORDS = 4
SAMPLED_PASSAGES = 64  # a document, whose cosines tell how near unrelated passages are
UNRELATED_SHARE = 0.1  # of all pairs, those with the lowest cosines
# How near a cosine must be to 1, as a share of the way from unrelated pairs: of the only pair of a gap, more for ten times as many pairs,
# and more for passages in different gaps.
MIN_NEARNESS, NEARNESS_PER_TENFOLD, MOVED_NEARNESS = 0.6, 0.03, 0.05


@dataclass(frozen=True, slots=True)
class ComparablePassage:
    """A passage for comparison. Passages with the same `key` are equal.

    `words`: numbers that stand for its words; `is_distinct`: whether it is long enough to be recognized elsewhere; `row`: column → value,
    of a row of a table.
    """

    key: str
    text: str
    words: tuple[int, ...]
    is_distinct: bool = True
    is_heading: bool = False
    row: Mapping[str, str] | None = None

    @property
    def has_meaning(self) -> bool:
        """Whether it can be compared by meaning."""
        return not self.is_heading and self.row is None


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """The numbers of two passages that belong together; None for a passage without a counterpart."""

    first: int | None
    second: int | None
    is_moved: bool = False


@dataclass(slots=True)
class _State:
    """The matches so far: `chain` is in the order of both documents, `moved` is not."""

    first: Sequence[ComparablePassage]
    second: Sequence[ComparablePassage]
    chain: list[tuple[int, int]] = field(default_factory=list)
    moved: list[tuple[int, int]] = field(default_factory=list)
    used: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))

    def gaps(self) -> Iterator[tuple[list[int], list[int]]]:
        """The unmatched passages of both documents between two matches of the chain, where both have some."""
        i = j = 0
        for last_i, last_j in [*self.chain, (len(self.first), len(self.second))]:
            a = [n for n in range(i, last_i) if n not in self.used[0]]
            b = [n for n in range(j, last_j) if n not in self.used[1]]
            if a and b:
                yield a, b
            i, j = last_i + 1, last_j + 1

    def unmatched(self) -> tuple[list[int], list[int]]:
        """The unmatched passages of both documents."""
        sides = zip((self.first, self.second), self.used, strict=True)
        a, b = ([n for n in range(len(passages)) if n not in used] for passages, used in sides)
        return a, b

    def extend_chain(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Add pairs that are in order with each other and with the chain."""
        self.chain = sorted([*self.chain, *self._use(pairs)])

    def add_moved(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Add pairs that are out of order."""
        self.moved += self._use(pairs)

    def _use(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        new = list(pairs)
        self.used[0].update(i for i, _ in new)
        self.used[1].update(j for _, j in new)
        return new


def align_passages(
    first: Sequence[ComparablePassage], second: Sequence[ComparablePassage], embed: EmbedTexts | None = None
) -> tuple[list[AlignedPair], int]:
    """Every passage of two documents exactly once, and how many were too many to be compared by meaning.

    The pairs come in the order of the second document; a passage that only the first has follows the passages before it. Exchanging the
    documents exchanges the pairs. Without `embed` no passages are compared by meaning.
    """
    if [p.key for p in second] < [p.key for p in first]:  # ties are decided alike in both directions
        state, n_skipped = _align(second, first, embed)
        chain, moved = ([(i, j) for j, i in pairs] for pairs in (state.chain, state.moved))
        return _in_order(chain, moved, len(first), len(second)), n_skipped
    state, n_skipped = _align(first, second, embed)
    return _in_order(state.chain, state.moved, len(first), len(second)), n_skipped


def _align(first: Sequence[ComparablePassage], second: Sequence[ComparablePassage], embed: EmbedTexts | None) -> tuple[_State, int]:
    state = _State(first, second)
    for _ in range(2):  # what occurs twice in a document may occur once in a gap
        _match_in_order(state, _distinct_key, is_unique=True)
    _match_moved(state, _distinct_key, is_unique=True)
    _match_similar_elsewhere(state, across_gaps=True)
    n_skipped = _match_in_gaps(state, embed)
    _match_in_order(state, _key, is_unique=False)
    _match_moved(state, _key, is_unique=False)
    _match_similar_elsewhere(state)
    return state, max(n_skipped, _match_meaning_elsewhere(state, embed))


def _key(p: ComparablePassage) -> Hashable:
    return p.key


def _distinct_key(p: ComparablePassage) -> Hashable:
    return p.key if p.is_distinct else None


def _in_order(chain: list[tuple[int, int]], moved: list[tuple[int, int]], n_first: int, n_second: int) -> list[AlignedPair]:
    """All passages in the order of the second document."""
    used = {i for i, _ in (*chain, *moved)}
    partner_of = {j: (i, is_moved) for pairs, is_moved in ((chain, False), (moved, True)) for i, j in pairs}
    pairs, i, j = list[AlignedPair](), 0, 0
    for last_i, last_j in [*sorted(chain), (n_first, n_second)]:
        pairs += [AlignedPair(n, None) for n in range(i, last_i) if n not in used]
        for n in range(j, min(last_j + 1, n_second)):
            partner, is_moved = partner_of.get(n, (None, False))
            pairs.append(AlignedPair(partner, n, is_moved))
        i, j = last_i + 1, last_j + 1
    return pairs


def best_chain(pairs: Iterable[ScoredPair]) -> list[tuple[int, int]]:
    """Of scored pairs of numbers those that rise in both and have the highest sum of scores, which are positive."""
    ordered = sorted(pairs, key=lambda p: (p[0], -p[1]))
    ranks = {j: n for n, j in enumerate(sorted({j for _, j, _ in ordered}), 1)}
    best: list[tuple[float, int]] = [(0.0, -1)] * (len(ranks) + 1)  # a Fenwick tree: best sum up to a rank, and the last pair of it
    before = list[int]()
    top = (0.0, -1)
    for n, (_, j, score) in enumerate(ordered):
        found, at = (0.0, -1), ranks[j] - 1
        while at:
            found = max(found, best[at], key=itemgetter(0))
            at &= at - 1
        before.append(found[1])
        total, at = (found[0] + score, n), ranks[j]
        while at < len(best):
            best[at] = max(best[at], total, key=itemgetter(0))
            at += at & -at
        top = max(top, total, key=itemgetter(0))
    chain, n = list[tuple[int, int]](), top[1]
    while n >= 0:
        chain.append(ordered[n][:2])
        n = before[n]
    return chain[::-1]


def _match_in_order(state: _State, key: PassageKey, *, is_unique: bool) -> None:
    """Match passages with equal keys within each gap: only keys that occur once in both, or the n-th with the n-th."""
    found = list[tuple[int, int]]()
    for a, b in state.gaps():
        places = _numbers_by_key(a, state.first, key), _numbers_by_key(b, state.second, key)
        pairs = list[ScoredPair]()
        for value, mine in places[0].items():
            others = places[1].get(value, [])
            if not is_unique or len(mine) == len(others) == 1:
                pairs += [(i, j, 1.0 + len(state.first[i].text)) for i, j in zip(mine, others, strict=False)]
        found += best_chain(pairs)
    state.extend_chain(found)


def _numbers_by_key(numbers: Iterable[int], passages: Sequence[ComparablePassage], key: PassageKey) -> dict[Hashable, list[int]]:
    """Key → the numbers of the passages with that key, which is not None."""
    places = defaultdict[Hashable, list[int]](list)
    for n in numbers:
        if (value := key(passages[n])) is not None:
            places[value].append(n)
    return dict(places)


def _match_moved(state: _State, key: PassageKey, *, is_unique: bool) -> None:
    """Match unmatched passages with equal keys anywhere: only keys that occur once in both, or also the n-th with the n-th long one."""
    counts = [Counter(map(key, passages)) for passages in (state.first, state.second)]
    unmatched = state.unmatched()
    places = _numbers_by_key(unmatched[0], state.first, key), _numbers_by_key(unmatched[1], state.second, key)
    state.add_moved(
        (i, j)
        for value, mine in places[0].items()
        if counts[0][value] == counts[1][value] == 1 or (not is_unique and state.first[mine[0]].is_distinct)
        for i, j in zip(mine, places[1].get(value, []), strict=False)
    )


def _match_in_gaps(state: _State, embed: EmbedTexts | None) -> int:
    """Align the passages of each gap by their words, and those without similar words by meaning; returns how many were too many."""
    gaps = [(_by_words(a, state.first), _by_words(b, state.second)) for a, b in state.gaps()]
    scored = [
        _all_similar(a, b, state) if len(a) * len(b) <= MAX_GAP_PAIRS else _shortlisted(a, b, state, MIN_WORD_SIMILARITY) for a, b in gaps
    ]
    similar = [{pair[side] for pairs in scored for pair in pairs} for side in (0, 1)]
    wanted = [[n for gap in gaps for n in gap[side] if n not in similar[side]] for side in (0, 1)]
    nearness, n_skipped = _nearness(wanted[0], wanted[1], state, embed)
    found = list[tuple[int, int]]()
    for gap, pairs in zip(gaps, scored, strict=True):
        candidates = [(i, j, _weight(state, i, j) * (score - MIN_WORD_SIMILARITY + 1e-6)) for i, j, score in pairs]
        near = [(i, j, _weight(state, i, j) * score) for i, j, score in nearness.near_pairs(*gap)]
        found += best_chain([*candidates, *near])
    state.extend_chain(found)
    return n_skipped


def _weight(state: _State, i: int, j: int) -> int:
    """How much a pair counts: a long one more than a short one, which may be equal by chance."""
    return min(MAX_WEIGHING_WORDS, 1 + len(state.first[i].words), 1 + len(state.second[j].words))


def _match_meaning_elsewhere(state: _State, embed: EmbedTexts | None) -> int:
    """Match passages that are nearest to each other by meaning, wherever they are; returns how many were too many."""
    unmatched = state.unmatched()
    a, b = _by_words(unmatched[0], state.first), _by_words(unmatched[1], state.second)
    nearness, n_skipped = _nearness(a, b, state, embed)
    state.add_moved(_mutually_nearest(nearness.near_pairs(a, b, MOVED_NEARNESS), 0.0))
    return n_skipped


def _by_words(numbers: Iterable[int], passages: Sequence[ComparablePassage]) -> list[int]:
    return [n for n in numbers if passages[n].words]


def _word_similarity(a: ComparablePassage, b: ComparablePassage, cutoff: float) -> float:
    """The share of the words of two passages that they have in common in the same order, 0 below `cutoff`."""
    if a.is_heading != b.is_heading:
        return 0.0
    return float(Indel.normalized_similarity(a.words, b.words, score_cutoff=cutoff))


def _all_similar(a: Sequence[int], b: Sequence[int], state: _State) -> list[ScoredPair]:
    if not (a and b):
        return []
    similarity = cdist(
        [state.first[i].words for i in a],
        [state.second[j].words for j in b],
        scorer=Indel.normalized_similarity,
        score_cutoff=MIN_WORD_SIMILARITY,
        dtype=np.float32,
    )
    similar = ((a[n], b[m], float(similarity[n, m])) for n, m in np.argwhere(similarity >= MIN_WORD_SIMILARITY).tolist())
    return [(i, j, score) for i, j, score in similar if state.first[i].is_heading == state.second[j].is_heading]


def _shortlisted(a: Sequence[int], b: Sequence[int], state: _State, cutoff: float) -> list[ScoredPair]:
    """The similar pairs of those that share most rare words: SHORTLISTED for each passage of `a`."""
    sharing = defaultdict[int, list[int]](list)
    for j in b:
        for word in set(state.second[j].words):
            sharing[word].append(j)
    scored = list[ScoredPair]()
    for i in a:
        shared = Counter[int]()
        for word in set(state.first[i].words):
            if len(others := sharing.get(word, ())) <= MAX_SHARING_PASSAGES:
                shared.update(others)
        nearest = sorted(shared, key=lambda j: (-shared[j], j))[:SHORTLISTED]
        similarities = ((j, _word_similarity(state.first[i], state.second[j], cutoff)) for j in nearest)
        scored += [(i, j, score) for j, score in similarities if score >= cutoff]
    return scored


def _match_similar_elsewhere(state: _State, *, across_gaps: bool = False) -> None:
    """Match passages that are nearest to each other by their words, wherever they are; `across_gaps`: only those of different gaps."""
    unmatched = state.unmatched()
    a, b = _by_words(unmatched[0], state.first), _by_words(unmatched[1], state.second)
    partners = dict((*state.chain, *state.moved))

    def bonus(i: int, j: int) -> float:
        return NEIGHBOR_BONUS if partners.get(i - 1) == j - 1 or partners.get(i + 1) == j + 1 else 0.0

    scored = [(i, j, score + bonus(i, j)) for i, j, score in _shortlisted(a, b, state, MIN_MOVED_SIMILARITY - NEIGHBOR_BONUS)]
    pairs = _mutually_nearest([p for p in scored if p[2] >= MIN_MOVED_SIMILARITY], MIN_MARGIN)
    gap_of_first, gap_of_second = ([pair[side] for pair in state.chain] for side in (0, 1))
    if across_gaps:
        pairs = [(i, j) for i, j in pairs if bisect_left(gap_of_first, i) != bisect_left(gap_of_second, j)]
    state.add_moved(pairs)


def _mutually_nearest(scored: Sequence[ScoredPair], margin: float) -> list[tuple[int, int]]:
    """The pairs of which each is the other's nearest, by at least `margin` before its second nearest."""
    nearest: list[dict[int, tuple[float, int]]] = [{}, {}]
    second: list[dict[int, float]] = [{}, {}]
    for i, j, score in scored:
        for side, (mine, other) in enumerate(((i, j), (j, i))):
            best = nearest[side].get(mine, (-1.0, -1))
            second[side][mine] = max(second[side].get(mine, -1.0), min(score, best[0]))
            if score > best[0]:
                nearest[side][mine] = (score, other)
    return [(i, j) for i, (score, j) in nearest[0].items() if nearest[1][j][1] == i and score - max(second[0][i], second[1][j]) >= margin]


@dataclass(frozen=True, slots=True)
class _Nearness:
    """How near passages `rows` of the first document and `columns` of the second are in meaning: unrelated ones 0, equal ones 1."""

    rows: dict[int, int]
    columns: dict[int, int]
    shares: Vectors

    def near_pairs(self, a: Iterable[int], b: Iterable[int], more: float = 0.0) -> list[ScoredPair]:
        """The pairs that are near, which means more the more pairs there are, with by how much they are nearer than that."""
        mine, others = [i for i in a if i in self.rows], [j for j in b if j in self.columns]
        if not (mine and others):
            return []
        part = self.shares[np.ix_([self.rows[i] for i in mine], [self.columns[j] for j in others])]
        part = part - (MIN_NEARNESS + NEARNESS_PER_TENFOLD * float(np.log10(part.size)) + more)
        return [(mine[n], others[m], float(part[n, m]) + 1e-6) for n, m in np.argwhere(part >= 0).tolist()]


def _nearness(first: Sequence[int], second: Sequence[int], state: _State, embed: EmbedTexts | None) -> tuple[_Nearness, int]:
    """The nearness of the passages that have a meaning, and how many of them were too many to be compared."""
    sides = zip((first, second), (state.first, state.second), strict=True)
    a, b = ([n for n in side if passages[n].has_meaning and len(passages[n].words) >= MIN_EMBEDDED_WORDS] for side, passages in sides)
    if embed is None or not (a and b):
        return _Nearness({}, {}, np.empty((0, 0), np.float32)), 0
    n_skipped = sum(max(0, len(side) - MAX_EMBEDDED_PASSAGES) for side in (a, b))
    a, b = a[:MAX_EMBEDDED_PASSAGES], b[:MAX_EMBEDDED_PASSAGES]
    samples = ([p.text for p in side[:: max(1, len(side) // SAMPLED_PASSAGES)][:SAMPLED_PASSAGES]] for side in (state.first, state.second))
    typical = embed(next(samples)) @ embed(next(samples)).T
    unrelated = float(np.quantile(typical, UNRELATED_SHARE))
    cosines = embed([state.first[i].text for i in a]) @ embed([state.second[j].text for j in b]).T
    rows, columns = ({n: at for at, n in enumerate(side)} for side in (a, b))
    return _Nearness(rows, columns, np.asarray((cosines - unrelated) / max(1 - unrelated, 0.01), np.float32)), n_skipped
