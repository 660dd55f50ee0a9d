"""Community → the context of its report: what it is written from, within a budget of tokens (paper, section 3.1.5)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from localrag.records import Claim, Community, Entity, Finding, Quote, Relationship, Report
from localrag.text.quotes import claim_line

LEAST_TOKENS = 12  # of an entity and what relates it


@dataclass(frozen=True, slots=True)
class Element:
    """One line of a report's context: an entity, a claim, a relationship or a sub-community's report, with the passages behind it."""

    id: str
    text: str
    tokens: int
    quotes: tuple[Quote, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """A part of the graph by id, with the passages of its relationships, entities and claims: what contexts are built from."""

    entities: Mapping[str, Entity]
    relationships: Sequence[Relationship]
    claims_on: Mapping[str, Sequence[Claim]]  # entity → the claims it is the subject of
    leaving: Mapping[str, Sequence[int]]  # entity → the places in `relationships` of those it is the source of
    of_entity: Callable[[str], Sequence[Quote]]
    of_relationship: Callable[[str], Sequence[Quote]]
    of_claim: Callable[[Claim], Sequence[Quote]]
    named_in: Callable[[Quote], Collection[str]]  # a sentence → the entities it mentions
    whole: bool = True  # whether it is all of its community, or what leads in it

    @classmethod
    def of(
        cls,
        entities: Mapping[str, Entity],
        relationships: Iterable[Relationship],
        claims: Iterable[Claim] = (),
        *,
        of_entity: Callable[[str], Sequence[Quote]] = lambda _: (),
        of_relationship: Callable[[str], Sequence[Quote]] = lambda _: (),
        of_claim: Callable[[Claim], Sequence[Quote]] = lambda _: (),
        named_in: Callable[[Quote], Collection[str]] = lambda _: (),
        whole: bool = True,
    ) -> "Sources":
        """Relationships ordered by the combined degree of their ends, then by id (paper, section 3.1.5)."""
        ordered = sorted(relationships, key=lambda r: (-entities[r.source_id].degree - entities[r.target_id].degree, r.id))
        leaving: defaultdict[str, list[int]] = defaultdict(list)
        for place, r in enumerate(ordered):
            leaving[r.source_id].append(place)
        claims_on: defaultdict[str, list[Claim]] = defaultdict(list)
        for claim in claims:
            claims_on[claim.subject_id].append(claim)
        return cls(entities, ordered, claims_on, leaving, of_entity, of_relationship, of_claim, named_in, whole)

    def among(self, members: Set[str]) -> list[Relationship]:
        """The relationships between these entities, in their order."""
        places = (place for m in members for place in self.leaving.get(m, ()) if self.relationships[place].target_id in members)
        return [self.relationships[place] for place in sorted(places)]


def report_context(
    community: Community, below: Sequence[tuple[Community, Report]], sources: Sources, count: Callable[[str], int], budget: int
) -> list[Element]:
    """What a report is written from: by combined degree, each relationship's ends, the claims on them and the relationship.

    Over `budget` tokens, the sub-community with most tokens is replaced by its report, then the next, until it fits; one whose report is
    no shorter stays as it is. What is left of the budget is for the findings of those reports. Where even the reports do not fit, there
    are as many as do, largest sub-community first. Without sub-communities the list is cut.
    """
    elements = _elements(community, sources, count)
    passages = {id(element): quotes for element, _, quotes in elements}
    home = {entity: n for n, (sub, _) in enumerate(below) for entity in sub.entity_ids}
    inside: defaultdict[int, list[Element]] = defaultdict(list)
    for element, ends, _ in elements:
        homes = {home.get(end, -1) for end in ends}
        inside[homes.pop() if len(homes) == 1 else -1].append(element)
    replaced: dict[int, Element] = {}
    gone: set[int] = set()
    tokens = {n: sum(e.tokens for e in some) for n, some in inside.items()}
    if not sources.whole:  # of what is not read the least that it would take
        tokens |= {n: max(tokens.get(n, 0), LEAST_TOKENS * len(sub.entity_ids)) for n, (sub, _) in enumerate(below)}
    total = sum(tokens.values())
    for n in sorted(range(len(below)), key=lambda n: (-tokens.get(n, 0), n)):
        if total <= budget:
            break
        element = _report_element(n, *below[n], count)
        if element.tokens >= tokens.get(n, 0):
            continue
        gone.update(map(id, inside[n]))
        replaced[n] = element
        total += element.tokens - tokens[n]
    _add_findings(replaced, {n: below[n][1] for n in replaced}, tokens, budget - total, count)
    taken = _cut([*replaced.values(), *(e for e, *_ in elements if id(e) not in gone)], budget)
    return [replace(e, quotes=tuple(passages[id(e)]())) if id(e) in passages else e for e in taken]


def _add_findings(
    replaced: dict[int, Element], reports: Mapping[int, Report], most: Mapping[int, int], left: int, count: Callable[[str], int]
) -> None:
    """Give the reports in `replaced` their findings, each report its first before any its second, as long as so many tokens are left.

    No report becomes longer than what it stands for (`most`).
    """
    for place in range(max((len(r.findings) for r in reports.values()), default=0)):
        for n, report in reports.items():
            if place >= len(report.findings):
                continue
            element, finding = replaced[n], report.findings[place]
            text = f"{element.text} {_sentence(finding)}"
            more = count(text) - element.tokens
            if more <= left and element.tokens + more <= most[n]:
                replaced[n] = replace(element, text=text, tokens=element.tokens + more)
                left -= more


def _sentence(finding: Finding) -> str:
    return f"{finding.summary}: {finding.explanation}"


def _cut(elements: Sequence[Element], budget: int) -> list[Element]:
    taken: list[Element] = []
    used = 0
    for element in elements:
        used += element.tokens
        if used > budget and taken:
            break
        taken.append(element)
    return taken


Passages = Callable[[], Sequence[Quote]]  # they are looked up for what has room


def _elements(community: Community, sources: Sources, count: Callable[[str], int]) -> list[tuple[Element, tuple[str, ...], Passages]]:
    """Every element of a community once, each with the entities it is about and the passages behind it."""
    members = set(community.entity_ids)
    found: list[tuple[Element, tuple[str, ...], Passages]] = []
    seen: set[str] = set()
    new: list[str] = []  # entities whose claims come next
    numbers: Counter[str] = Counter()

    def add(kind: str, text: str, quotes: Passages, *ends: str) -> None:
        numbers[kind] += 1
        key = f"{kind[0].upper() if kind != 'claim' else 'K'}{numbers[kind]}"
        # In two parts: the second is the same in the communities above. No token of a byte-pair encoding spans ":" and the space.
        tokens = count(f"{kind} {key}:") + count(f" {text}")
        found.append((Element(key, f"{kind} {key}: {text}", tokens, ()), ends, quotes))

    def add_entity(entity_id: str) -> None:
        if entity_id not in seen:
            seen.add(entity_id)
            e = sources.entities[entity_id]
            add("entity", f"{e.name} ({e.type}): {e.description}", lambda: sources.of_entity(entity_id)[:2], entity_id)
            new.append(entity_id)

    def add_claims() -> None:
        for entity_id in new:
            for claim in sources.claims_on.get(entity_id, ()):
                add("claim", claim_line(claim, sources.entities), partial(sources.of_claim, claim), entity_id)
        new.clear()

    for r in sources.among(members):
        add_entity(r.source_id)
        add_entity(r.target_id)
        add_claims()
        ends = f"{sources.entities[r.source_id].name} – {sources.entities[r.target_id].name}"
        add("relationship", f"{ends}: {r.description}", partial(sources.of_relationship, r.id), r.source_id, r.target_id)
    for entity_id in (e for e in community.entity_ids if e in sources.entities):
        add_entity(entity_id)
        add_claims()
    return found


def _report_element(n: int, sub: Community, report: Report, count: Callable[[str], int]) -> Element:
    text = f"report C{n + 1} ({len(sub.entity_ids)} entities): {report.title}: {report.summary}"
    return Element(f"C{n + 1}", text, count(text), tuple(q for f in report.findings for q in f.quotes))
