"""A Chinese sentence → its reading."""

import re

from localrag.query.reading.particles import FUNCTION, LEANS, QUANTIFIER, TELLING, TO, TURNING
from localrag.query.reading.predicates import clause_parts, is_verb
from localrag.query.reading.record import Clause, Reading, Word
from localrag.query.reading.segment import Token, content, tokens


def read(text: str) -> Reading:
    """The reading of a Chinese sentence."""
    toks = tokens(text)
    parts = clause_parts(toks)
    places = {k: n for n, p in enumerate(parts) for k in p.region}
    words: list[Word] = []
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
    return Reading(text, tuple(words), clauses, frozenset(kinds.values()), quantified, chinese=True, spans=spans, particles=particles)


def _word(toks: list[Token], k: int, clause: int) -> Word:
    token = toks[k]
    if token.amount:
        return Word(
            token.amount.value, frozenset({token.amount.value}), "number", k, clause, before=_towards(toks, k), unit=token.amount.unit
        )
    soft = token.text in FUNCTION - TELLING or token.text in TURNING or QUANTIFIER.get(token.text) is not None
    kind = "name" if token.flag in ("nr", "ns", "nt", "nz", "nrt") and len(token.text) > 1 else "word"
    role = "noun" if token.flag[:1] in "nstr" and not is_verb(toks, k) else "other"
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
