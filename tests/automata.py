"""Regular expressions as automata, and the strings on which a backtracking search with one may take more than linear time.

It may where two places of a pattern repeat the same string, and that string also leads from the first to the second: then each part of a
long text can be read by either. The search for a start counts as a place that repeats everything.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from re import _compiler as compiler
from re import _constants as op
from re import _parser as parser

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

UNROLLED = 3  # copies of what is repeated a few times
UNBOUNDED = 1_000  # repetitions that count as any number
MOST_STEPS = 3_000  # of one walk through an automaton
MOST_STEPS_IN_ALL = 100_000
SIGNS = "a1_ .,-:/[](){}\"'*`#<>|\\=中\u00e9\n\t\r\x00\ue123"
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
Node = tuple[object, object]
Place = tuple[int, int]  # where a pattern reads a character, and which


@dataclass
class Piece:
    """A part of an automaton: between which characters it may be empty, and its first and last places, with the same."""

    empty: int
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)


class Automaton:
    """The places at which a pattern reads a character. Place 0 is the search for a start, if there is any.

    `reads`: the characters of a place. `follow`: (place, next) → the pairs of characters between which that may happen, as bits: assertions
    forbid others. `twice`: steps that are possible in two ways. `end`: the whole.
    """

    def __init__(self, pattern: "re.Pattern[str] | re.Pattern[bytes]", *, searches: bool) -> None:
        self.is_bytes = isinstance(pattern.pattern, bytes)
        tree = parser.parse(pattern.pattern, pattern.flags & ~(re.UNICODE if self.is_bytes else 0))
        self.state = tree.state
        self.flags = pattern.flags
        self.leaves: dict[str, dict[str, bool]] = {}
        self.signs = self._alphabet(list(_leaves(list(tree), self.flags)))
        self.width = len(self.signs) + 1  # and the start, or the end, of a text
        self.every = (1 << self.width**2) - 1
        self.reads: list[frozenset[int]] = [frozenset(range(len(self.signs)))] if searches else [frozenset()]
        self.follow: dict[tuple[int, int], int] = {(0, 0): self.every} if searches else {}
        self.twice: set[tuple[int, int]] = set()
        self.end = self._sequence(list(tree), self.flags)
        for place, pairs in self.end.first.items():
            self._link(0, place, pairs)
        self.next: dict[int, list[int]] = {}
        for a, b in self.follow:
            self.next.setdefault(a, []).append(b)

    def _alphabet(self, leaves: "list[tuple[Node, int]]") -> list[str]:
        """One of all characters that the pattern treats alike."""
        found = dict.fromkeys(SIGNS)
        for (code, value), _ in leaves:
            for at in [value] if code in (op.LITERAL, op.NOT_LITERAL) else _ends(value) if code is op.IN else ():
                found |= dict.fromkeys(chr(c) for c in (at, at + 1, at - 1) if 0 <= c < (256 if self.is_bytes else 0x110000))
        chars = [c for c in found if not self.is_bytes or ord(c) < 256]
        for leaf, flags in leaves:
            if (key := f"{leaf} {flags}") not in self.leaves:
                one = compiler.compile(parser.SubPattern(self.state, [leaf]), flags)  # type: ignore[arg-type]
                self.leaves[key] = {c: bool(one.match(c.encode("latin-1") if self.is_bytes else c)) for c in chars}
        kinds = {(*(known[c] for known in self.leaves.values()), _is_word(c), c == "\n"): c for c in reversed(chars)}
        return list(kinds.values())

    def _between(self, allows: Callable[[str, str], bool]) -> int:
        """The pairs of characters, before and after, that an assertion allows; "" is the start or the end of the text."""
        signs = [*self.signs, ""]
        return sum(1 << (a * self.width + b) for (a, x), (b, y) in product(enumerate(signs), repeat=2) if allows(x, y))

    def _link(self, place: int, after: int, pairs: int) -> None:
        before = self.follow.get((place, after), 0)
        if before & pairs:
            self.twice.add((place, after))
        self.follow[place, after] = before | pairs

    def _sequence(self, nodes: "list[Node]", flags: int) -> Piece:
        whole = Piece(self.every)
        for node in nodes:
            whole = self._joined(whole, self._part(node, flags))
        return whole

    def _joined(self, a: Piece, b: Piece) -> Piece:
        for (p, one), (q, other) in product(a.last.items(), b.first.items()):
            if one & other:
                self._link(p, q, one & other)
        first = a.first | {q: pairs & a.empty for q, pairs in b.first.items() if pairs & a.empty}
        return Piece(a.empty & b.empty, first, b.last | {p: pairs & b.empty for p, pairs in a.last.items() if pairs & b.empty})

    def _either(self, pieces: Iterable[Piece]) -> Piece:
        whole = Piece(0)
        for piece in pieces:
            whole = Piece(whole.empty | piece.empty, whole.first | piece.first, whole.last | piece.last)
        return whole

    def _part(self, node: Node, flags: int) -> Piece:
        code, value = node
        if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            known = self.leaves[f"{node} {flags}"]
            self.reads.append(frozenset(n for n, c in enumerate(self.signs) if known[c]))
            place = len(self.reads) - 1
            return Piece(0, {place: self.every}, {place: self.every})
        if code is op.BRANCH:
            return self._either([self._sequence(list(branch), flags) for branch in value[1]])
        if code is op.SUBPATTERN:
            return self._sequence(list(value[3]), flags & ~value[2] | value[1])
        if code is op.ATOMIC_GROUP:
            inner = list(value)
            if len(inner) == 1 and inner[0][0] is op.MAX_REPEAT:
                return self._repeat(*inner[0][1], flags, keeps=True)
            return self._sequence(inner, flags)
        if code in REPEATS:
            return self._repeat(*value, flags, keeps=code is op.POSSESSIVE_REPEAT)
        if code is op.GROUPREF_EXISTS:
            return self._either([self._sequence(list(value[1]), flags), self._sequence(list(value[2] or []), flags)])
        return self._assertion(node, flags)

    def _assertion(self, node: Node, flags: int) -> Piece:
        code, value = node
        if code in (op.AT, op.ASSERT, op.ASSERT_NOT):
            pairs = self._allowed([node], 1, flags)
            if pairs is not None:
                return Piece(pairs)
            if value[0] > 0:  # looks ahead: the search goes that way too, which ends there
                return Piece(self.every, self._sequence(list(value[1]), flags).first)
        return Piece(0 if code is op.FAILURE else self.every)

    def _repeat(self, least: int, most: int, inner: "list[Node]", flags: int, *, keeps: bool) -> Piece:
        body, endless = list(inner), most >= UNBOUNDED
        whole = Piece(self.every)
        for _ in range(min(least - (endless and least > 0), UNROLLED)):
            whole = self._joined(whole, self._sequence(body, flags))
        for _ in range(1 if endless else min(most - least, UNROLLED)):
            part = self._sequence(body, flags)
            if endless:
                for (p, one), (q, other) in product(part.last.items(), part.first.items()):
                    if one & other:
                        self._link(p, q, one & other)
            whole = self._joined(whole, part if endless and least else Piece(self.every, part.first, part.last))
        if keeps and endless and (stays := self._allowed(body, 1, flags)) is not None:  # it goes on as long as it can
            leaves = self.every & ~stays
            return Piece(whole.empty & leaves, whole.first, {p: pairs & leaves for p, pairs in whole.last.items()})
        return whole

    def _allowed(self, nodes: "list[Node]", direction: int, flags: int) -> int | None:
        """The pairs of characters that an assertion about one of them allows; None for one about more than that."""
        if len(nodes) != 1:
            return None if nodes else self.every
        code, value = nodes[0]
        if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            known = self.leaves[f"{nodes[0]} {flags}"]
            return self._between(lambda x, y: known.get(y if direction > 0 else x, False))
        if code is op.AT:
            return self._between(_POSITIONS[value, bool(flags & re.MULTILINE)])
        if code in (op.ASSERT, op.ASSERT_NOT):
            inner = self._allowed(list(value[1]), value[0], flags)
            return inner if code is op.ASSERT or inner is None else self.every & ~inner
        if code is op.BRANCH:
            found = [self._allowed(list(branch), direction, flags) for branch in value[1]]
            return None if None in found else _union(found)  # type: ignore[arg-type]
        if code is op.SUBPATTERN:
            return self._allowed(list(value[3]), direction, flags & ~value[2] | value[1])
        return None

    def steps(self, at: Place) -> Iterator[Place]:
        """The places after one at which a character was read."""
        place, sign = at
        for after in self.next.get(place, ()):
            pairs = self.follow[place, after] >> (sign * self.width)
            for b in self.reads[after]:
                if pairs >> b & 1:
                    yield after, b

    def goes(self, place: int, sign: int, b: int) -> list[int]:
        """The places that read character `b` after a place that read `sign`."""
        bit = sign * self.width + b
        return [q for q in self.next.get(place, ()) if b in self.reads[q] and self.follow[place, q] >> bit & 1]


def _union(numbers: list[int]) -> int:
    whole = 0
    for number in numbers:
        whole |= number
    return whole


def _is_word(c: str) -> bool:
    return c.isalnum() or c == "_"


_POSITIONS: "dict[tuple[object, bool], Callable[[str, str], bool]]" = {
    (op.AT_BEGINNING, False): lambda x, _: not x,
    (op.AT_BEGINNING, True): lambda x, _: x in ("", "\n"),
    **{(op.AT_BEGINNING_STRING, m): lambda x, _: not x for m in (False, True)},
    **{(op.AT_END, m): lambda _, y: y in ("", "\n") for m in (False, True)},
    **{(op.AT_END_STRING, m): lambda _, y: not y for m in (False, True)},
    **{(op.AT_BOUNDARY, m): lambda x, y: _is_word(x) is not _is_word(y) for m in (False, True)},
    **{(op.AT_NON_BOUNDARY, m): lambda x, y: _is_word(x) is _is_word(y) for m in (False, True)},
}


def _leaves(nodes: "list[Node]", flags: int) -> "Iterator[tuple[Node, int]]":
    """The parts of a pattern that read one character, with their flags."""
    for code, value in nodes:
        if code in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            yield (code, value), flags
        elif code is op.SUBPATTERN:
            yield from _leaves(list(value[3]), flags & ~value[2] | value[1])
        elif code in REPEATS:
            yield from _leaves(list(value[2]), flags)
        elif code in (op.ASSERT, op.ASSERT_NOT):
            yield from _leaves(list(value[1]), flags)
        elif code in (op.BRANCH, op.GROUPREF_EXISTS):
            for branch in value[1] if code is op.BRANCH else [value[1], value[2] or []]:
                yield from _leaves(list(branch), flags)
        elif code is op.ATOMIC_GROUP:
            yield from _leaves(list(value), flags)


def _ends(items: "list[Node]") -> Iterator[int]:
    for code, value in items:
        if code is op.LITERAL:
            yield value
        elif code is op.RANGE:
            yield from value


def attacks(pattern: "re.Pattern[str] | re.Pattern[bytes]", *, searches: bool = True) -> dict[tuple[str, str, str], None]:
    """Strings for which a pattern may be slow: the beginning, what to repeat, and the end. `searches`: it is tried at every start."""
    automaton = Automaton(pattern, searches=searches)
    lead = _leads(automaton)
    found: dict[tuple[str, str, str], None] = {}
    for at, place, pump in _pumps(automaton, _circles(automaton, lead)):
        text = "".join(automaton.signs[n] for n in pump)
        barred = [c for n, c in enumerate(automaton.signs) if not automaton.goes(place, at[1], n)]  # after which nothing matches
        for end in ["", *barred[:2]]:
            found[lead[at], text, end] = None
    return found


def _pumps(automaton: Automaton, circles: dict[Place, int]) -> Iterator[tuple[Place, int, list[int]]]:
    """Places, others to which the same characters lead that lead back to either, and these."""
    for p, q in automaton.twice:  # back to the place by a step that is possible in two ways
        for b in automaton.reads[q]:
            if (q, b) in circles and (way := _way(automaton, (q, b), p)) and q in automaton.goes(p, way[-1], b):
                yield (q, b), q, [*way[1:], b]
    by_sign: dict[int, list[int]] = {}
    for place, sign in sorted(circles):
        by_sign.setdefault(sign, []).append(place)
    left = MOST_STEPS_IN_ALL
    for sign, alike in by_sign.items():
        for p, q in product(alike, repeat=2):
            if p != q and q != 0 and left > 0:
                pump, steps = _pump(automaton, circles, p, q, sign)
                left -= steps
                if pump:
                    yield (p, sign), q, pump


def _leads(automaton: Automaton) -> dict[Place, str]:
    """A short beginning after which the pattern is at a place, of each that can be reached."""
    start = automaton.width - 1
    todo: deque[Place] = deque()
    lead: dict[Place, str] = {}
    if automaton.reads[0]:
        lead = {(0, a): "" for a in automaton.reads[0]}
        todo += lead
    for q in automaton.next.get(0, ()):
        for b in automaton.reads[q]:
            if automaton.follow[0, q] >> (start * automaton.width + b) & 1 and (q, b) not in lead:
                lead[q, b] = automaton.signs[b]
                todo.append((q, b))
    while todo:
        at = todo.popleft()
        for after in automaton.steps(at):
            if after not in lead:
                lead[after] = lead[at] + (automaton.signs[at[1]] if at[0] == 0 else "") + automaton.signs[after[1]]
                todo.append(after)
    return lead


def _circles(automaton: Automaton, places: Iterable[Place]) -> dict[Place, int]:
    """The places that can be reached again from themselves, and the number of the circle."""
    order = list(places)
    number = {place: n for n, place in enumerate(order)}
    steps = [(number[a], number[b]) for a in order for b in automaton.steps(a)]
    graph = coo_array((np.ones(len(steps), bool), tuple(zip(*steps, strict=True)) or ([], [])), shape=(len(order), len(order)))
    _, circle = connected_components(graph, connection="strong")
    size = Counter(circle)
    loops = {a for a, b in steps if a == b}
    return {place: int(circle[n]) for n, place in enumerate(order) if size[circle[n]] > 1 or n in loops}


def _way(automaton: Automaton, start: Place, end: int) -> list[int]:
    """The characters from one place to another, both included; empty without a way."""
    before: dict[Place, Place | None] = {start: None}
    todo = deque([start])
    while todo:
        at = todo.popleft()
        if at[0] == end:
            way = []
            back: Place | None = at
            while back is not None:
                way.append(back[1])
                back = before[back]
            return way[::-1]
        for after in automaton.steps(at):
            if after not in before:
                before[after] = at
                todo.append(after)
    return []


def _pump(automaton: Automaton, circles: dict[Place, int], p: int, q: int, sign: int) -> tuple[list[int], int]:
    """The characters that lead from p to p, from p to q and from q to q, after `sign`; and how many steps it took to look."""
    start, goal = (p, p, q, sign), (p, q, q, sign)
    before: dict[tuple[int, int, int, int], tuple[int, int, int, int]] = {}
    todo, steps = deque([start]), 0
    first, last = circles[p, sign], circles[q, sign]
    while todo and steps < MOST_STEPS:
        at = todo.popleft()
        x, r, t, a = at
        for b in range(automaton.width - 1):
            xs = [n for n in automaton.goes(x, a, b) if circles.get((n, b)) == first]
            ts = [n for n in automaton.goes(t, a, b) if circles.get((n, b)) == last] if xs else []
            for after in ((n, m, k, b) for n in xs for k in ts for m in automaton.goes(r, a, b)):
                steps += 1
                if after not in before:
                    before[after] = at
                    todo.append(after)
                if after == goal:
                    pump = [b]
                    while at != start:
                        pump.append(at[3])
                        at = before[at]
                    return pump[::-1], steps
    return [], steps + 1
