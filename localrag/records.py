"""The frozen records that stages take and return. Offsets are in characters of the document's text; ids are content hashes."""

from dataclasses import dataclass
from hashlib import blake2b

from localrag.states import CheckedSentences


def content_id(*parts: object) -> str:
    """A 20-character id that is a pure function of `parts` (BLAKE2b, 80 bits)."""
    digest = blake2b(digest_size=10)
    for part in parts:
        data = str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Part:
    """A named stretch of a document's text: "page 3", "slide 2", "sheet Sales"."""

    label: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read. `path` is relative to the index's root where it lies below it, absolute otherwise.

    `content_hash` is of its bytes and of how it was read; `dated_by`, `titled_by`: where `date` (YYYY-MM-DD) and title are from.
    `first_path` is what the id was made of, where that is not `path`: it stays when a file moves.
    """

    id: str
    path: str
    title: str
    text: str
    content_hash: str
    metadata: tuple[tuple[str, str], ...] = ()
    parts: tuple[Part, ...] = ()
    date: str = ""
    dated_by: str = ""
    titled_by: str = ""
    first_path: str = ""

    @property
    def header(self) -> str:
        """Title, date and author on one line, to stand before a chunk that does not say them."""
        known = {"title": self.title} | dict(self.metadata)
        return " · ".join(f"{name.title()}: {known[name][:200]}" for name in ("title", "date", "author") if known.get(name))


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not indexed. `failed`: it should have been possible, so the run is only partly done.

    `content_hash`, as of a document, is that of a file which would be skipped for the same reason again; empty where that is not sure.
    """

    path: str
    reason: str
    failed: bool
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document, `text == document.text[start:end]`: the paper's text unit."""

    id: str
    document_id: str
    ordinal: int
    start: int
    end: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """An entity as one chunk names it; `name` occurs verbatim in the chunk."""

    name: str
    type: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ExtractedRelationship:
    """Two different names of one chunk that the text relates; `strength` 1 to 10."""

    source: str
    target: str
    description: str = ""
    strength: int = 5


@dataclass(frozen=True, slots=True)
class ExtractedClaim:
    """Something a chunk says of `subject` (to or about `object`, which may be empty), in its sentence from `start` to `end`.

    `status` is TRUE, FALSE or SUSPECTED; `since` and `until` are ISO dates or empty.
    """

    subject: str
    object: str
    type: str
    status: str
    since: str
    until: str
    description: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was found in one chunk; `by` says by whom: "model", or "phrases" where no model has read it yet.

    `noise` is the number of capitalised words and runs of the chunk that are no names: sentence beginnings, weekdays, page furniture.
    """

    chunk_id: str
    entities: tuple[ExtractedEntity, ...]
    relationships: tuple[ExtractedRelationship, ...]
    claims: tuple[ExtractedClaim, ...] = ()
    by: str = "model"
    noise: int = 0


@dataclass(frozen=True, slots=True)
class Mention:
    """One entity name at one place: characters `start` to `end` of the document that `chunk_id` belongs to."""

    entity_id: str
    chunk_id: str
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of the graph. `descriptions` are the distinct ones extracted, `description` the one kept or summarised."""

    id: str
    name: str
    type: str
    descriptions: tuple[str, ...] = ()
    description: str = ""
    degree: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """A name that was made part of an entity, or might be: `name` as it is written, the entity's key and name, why, how surely (0 to 1)."""

    name: str
    key: str
    into: str
    reason: str
    score: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where the text supports a relationship: characters `start` to `end` of the document."""

    relationship_id: str
    chunk_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Relationship:
    """An undirected edge; `weight` is the number of chunks that state it, `strength` the mean of the model's ratings."""

    id: str
    source_id: str
    target_id: str
    descriptions: tuple[str, ...] = ()
    description: str = ""
    weight: float = 1.0
    strength: float = 5.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about an entity, resolved from an `ExtractedClaim`; characters `start` to `end` of the document."""

    id: str
    chunk_id: str
    subject_id: str
    object_id: str | None
    type: str
    status: str
    since: str
    until: str
    description: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The resolved graph: what `resolve` makes of all extractions. `similar` are names it left apart although they are spelt alike."""

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    mentions: tuple[Mention, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    claims: tuple[Claim, ...] = ()
    merges: tuple[Merge, ...] = ()
    similar: tuple[Merge, ...] = ()


@dataclass(frozen=True, slots=True)
class Community:
    """A group of entities. Level 0 is the coarsest; at every level each entity is in exactly one community."""

    id: str
    level: int
    ordinal: int
    parent_id: str | None
    entity_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entity or a community lies in the picture of the graph: a circle."""

    id: str
    x: float
    y: float
    r: float


@dataclass(frozen=True, slots=True)
class CommunityLink:
    """How strongly relationships join two communities of a level; `a` comes before `b`."""

    level: int
    a: str
    b: str
    weight: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The picture of a graph: places of its entities and communities, and the heaviest links between communities.

    `vectors`, where they were asked for: entity id → what its relationships say of it, little-endian float32, L2-normalised.
    """

    entities: tuple[Place, ...] = ()
    communities: tuple[Place, ...] = ()
    links: tuple[CommunityLink, ...] = ()
    vectors: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Quote:
    """A verbatim stretch of a document: `text == document.text[start:end]`."""

    chunk_id: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One insight of a report, with the verbatim passages it rests on."""

    summary: str
    explanation: str
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a community is about (paper, section 3.1.5).

    `rating` is the model's own, 0 to 10: how much this matters to a reader; None in a report that no model wrote. How much of the
    documents a report covers changes with every other document, so it is not kept here: see `store.extent.coverage_of`.
    """

    community_id: str
    input_hash: str
    title: str
    summary: str
    rating: float | None
    rating_explanation: str
    findings: tuple[Finding, ...] = ()

    @property
    def markdown(self) -> str:
        """The report as text: title, summary, findings."""
        findings = (f"## {f.summary}\n\n{f.explanation}" for f in self.findings)
        return "\n\n".join([f"# {self.title}", self.summary, *findings])


@dataclass(frozen=True, slots=True)
class Citation:
    """Where a sentence of an answer comes from: `quote` is verbatim in the document's text at `start` to `end`, in its `part` (a page)."""

    n: int
    path: str
    start: int
    end: int
    quote: str
    chunk_id: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class Answer(CheckedSentences):
    """An answer with its sources and what it cost. `note` says what the reader should know of how it came about.

    `asked` is the question made to stand on its own, `reason` why its mode was chosen. `answerable` is False where the documents do not
    say it; the citations are then of the closest passages. `confidence` is the probability that they answer the question; None for one
    about everything. `short` is the answer in a few words of the documents, or yes or no. `id` is its number, 0 while it is not kept.
    `marks` are the places of its `[n]`, each with its n: the documents' own text may have such marks, too.
    `where` and `collections` say from which documents it was answered; from all of them where both are empty.
    """

    question: str
    answer: str
    mode: str
    level: int | None = None
    citations: tuple[Citation, ...] = ()
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    note: str = ""
    style: str = ""
    asked: str = ""
    reason: str = ""
    conversation: int = 0
    answerable: bool = True
    confidence: float | None = None
    short: str | None = None
    id: int = 0
    marks: tuple[tuple[int, int], ...] = ()
    where: str = ""
    collections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at: `state` is ok, warn or fail, `remedy` the command that mends it."""

    name: str
    state: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that could not be done: `stage` and `subject` name it, `reason` says why, `kind` in a word or two."""

    stage: str
    subject: str
    reason: str
    kind: str = ""


IMPORTED = "imported"  # the recipe of extractions, the beginning of content and input hashes: made by another program, and kept as it is
TO_IMPORT = f"{IMPORTED} "  # the content hash of a document that is to be imported again
OF_A_QUESTION = "question"
UNSURE = "unsure"  # an answer about several chunks, since documents were erased: it goes if nothing asks for it before the erasure ends


@dataclass(frozen=True, slots=True)
class Call:
    """One model answer with what produced it; `tokens` are its exact output tokens. `unused_since`: see `store/growth.py`.

    `about` is the `content_id` of its chunk's text, or what `about.py` makes of what is asked; OF_A_QUESTION where somebody asked.
    `recipe` is what a chunk is read by. `arithmetic` is the class of what answered, where machines of several classes worked.
    """

    key: str
    task: str
    model: str
    prompt_hash: str
    grammar: str
    sampling: str
    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    output_tokens: int
    seconds: float
    about: str = ""
    arithmetic: str = ""
    recipe: str = ""
    unused_since: str | None = None
