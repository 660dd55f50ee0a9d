"""The frozen records that stages exchange: document, chunk, extraction, entity, community, report, answer, LLM call; and content ids.

Offsets are in characters of the document's text; ids are content hashes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


# Proved by a quote; on the topic of a quote that does not prove it; contradicted by a quote; none of these.
SUPPORTED_STATE, RELATED_STATE, CONTRADICTED_STATE, UNSUPPORTED_STATE = SENTENCE_STATES = (
    "supported",
    "related",
    "contradicted",
    "unsupported",
)


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence at characters `start` to `end` of an answer, its state (one of SENTENCE_STATES), and the numbers of its citations."""

    start: int
    end: int
    state: str
    citations: tuple[int, ...] = ()


def content_id(*parts: object) -> str:
    """A 20-character id that depends only on `parts` (BLAKE2b, 80 bits)."""
    digest = blake2b(digest_size=10)
    for part in parts:
        data = str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def to_row(record: "DataclassInstance", keys: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a record for JSON; `keys` maps a field to its key where that is not the field's name."""
    return {keys.get(name, name): value for name, value in asdict(record).items()}


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A named span of a document's text: "page 3", "slide 2", "sheet Sales". `number`: of a page whose label is another one, from 1."""

    label: str
    start: int
    end: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A block of a document's text as its format marks it. `level`: of a heading, from 1; of an item of a list its depth, from 0.

    `kind`: a `text.outline.BlockKind`. `columns`: the labels of a table's columns in order; a row stands as `label: value · label: value`
    without its empty cells.
    """

    kind: str
    start: int
    end: int
    level: int = 0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """An indexed file. `path` is relative to the index's root if below it, absolute otherwise.

    `content_hash`: of its bytes and the loading options; `date_source`, `title_source`: the origin of `date` (YYYY-MM-DD) and title;
    `original_path`: the path the id was derived from, if not `path`: it stays when a file moves.
    """

    id: str
    path: str
    title: str
    text: str
    content_hash: str
    metadata: tuple[tuple[str, str], ...] = ()
    parts: tuple[DocumentPart, ...] = ()
    blocks: tuple[DocumentBlock, ...] = ()
    date: str = ""
    date_source: str = ""
    title_source: str = ""
    original_path: str = ""

    @property
    def header(self) -> str:
        """Title, date and author on one line, to precede a chunk that does not contain them."""
        values = {"title": self.title} | dict(self.metadata)
        return " · ".join(f"{name.title()}: {values[name][:200]}" for name in ("title", "date", "author") if values.get(name))


_INSIDE_FILE = re.compile(r"(?<=\w\.)(?:mbox|eml|msg|pdf)(?=/)", re.IGNORECASE)


def file_path(path: str) -> str:
    """The path of the file that a document is in: its own, or for a document within a file that of this file."""
    container = _INSIDE_FILE.search(path)
    return path[: container.end()] if container else path


def format_path(path: str) -> str:
    """A path as people read it: `archive.mbox › 2019-03-02 Re: bridge` for a document within a file."""
    file = file_path(path)
    return file + path[len(file) :].replace("/", " › ")


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not indexed. `is_failure`: its format is supported, so the run is only partly complete.

    `content_hash`: as of a document, if the file would be skipped for the same reason again; empty if unsure.
    """

    path: str
    reason: str
    is_failure: bool
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A text unit of a document: `text == document.text[start:end]`. `headings`: those above its first character, outermost first."""

    id: str
    document_id: str
    ordinal: int
    start: int
    end: int
    text: str
    tokens: int
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """An entity extracted from a chunk; `name` occurs verbatim in the chunk."""

    name: str
    type: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ExtractedRelationship:
    """Two different names that a chunk relates; `strength` 1 to 10."""

    source: str
    target: str
    description: str = ""
    strength: int = 5


@dataclass(frozen=True, slots=True)
class ExtractedClaim:
    """A claim of a chunk about `subject` (and `object`, which may be empty), in its sentence from `start` to `end`.

    `status` is TRUE, FALSE or SUSPECTED; `start_date` and `end_date` are ISO dates or empty.
    """

    subject: str
    object: str
    type: str
    status: str
    start_date: str
    end_date: str
    description: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of extracting one chunk; `extractor`: "model", "tagger", or "phrases" if no model has read it.

    `rejected_names`: the number of capitalized words and runs rejected as names: sentence starts, weekdays, page furniture.
    """

    chunk_id: str
    entities: tuple[ExtractedEntity, ...]
    relationships: tuple[ExtractedRelationship, ...]
    claims: tuple[ExtractedClaim, ...] = ()
    extractor: str = "model"
    rejected_names: int = 0


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity name at characters `start` to `end` of the document that `chunk_id` belongs to."""

    entity_id: str
    chunk_id: str
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of the graph. `descriptions`: the distinct extracted ones; `description`: the chosen or summarized one."""

    id: str
    name: str
    type: str
    descriptions: tuple[str, ...] = ()
    description: str = ""
    degree: int = 0


@dataclass(frozen=True, slots=True)
class NameMerge:
    """A name merged into an entity, or a candidate: `name` as written, the entity's key and name, reason, and score from 0 to 1."""

    name: str
    entity_key: str
    entity_name: str
    reason: str
    score: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """The text that supports a relationship: characters `start` to `end` of the document."""

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
    start_date: str
    end_date: str
    description: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The resolved graph of all extractions."""

    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    mentions: tuple[Mention, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Community:
    """A group of entities. Level 0 is the coarsest; at every level each entity is in exactly one community."""

    id: str
    level: int
    ordinal: int
    parent_id: str | None
    entity_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The circle of an entity or community in the layout."""

    id: str
    x: float
    y: float
    r: float


@dataclass(frozen=True, slots=True)
class CommunityEdge:
    """The weight of the relationships between two communities of a level; `a` is before `b`."""

    level: int
    a: str
    b: str
    weight: float


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The layout of a graph: positions of entities and communities, and the heaviest edges between communities."""

    entities: tuple[Position, ...] = ()
    communities: tuple[Position, ...] = ()
    edges: tuple[CommunityEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class Quote:
    """A verbatim span of a document: `text == document.text[start:end]`."""

    chunk_id: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a report, with the verbatim quotes it rests on."""

    summary: str
    explanation: str
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a community (paper, section 3.1.5).

    `rating`: the model's own, 0 to 10: the importance for a reader; None in an extractive report. The coverage of a report changes with
    every document, so it is not stored: see `store.graph.coverage_of`.
    """

    community_id: str
    input_hash: str
    title: str
    summary: str
    rating: float | None
    rating_explanation: str
    findings: tuple[Finding, ...] = ()

    @property
    def lead(self) -> str:
        """What of a report is embedded: title and summary."""
        return f"{self.title}\n{self.summary}"

    @property
    def markdown(self) -> str:
        """The report as text: title, summary, findings."""
        findings = (f"## {f.summary}\n\n{f.explanation}" for f in self.findings)
        return "\n\n".join([f"# {self.title}", self.summary, *findings])


@dataclass(frozen=True, slots=True)
class Citation:
    """The source of a sentence of an answer: `quote` is the document's text at `start` to `end`, in its `part` (such as a page).

    `headings`: those above it, outermost first.
    """

    n: int
    path: str
    start: int
    end: int
    quote: str
    chunk_id: str = ""
    part: str = ""
    headings: tuple[str, ...] = ()

    def place(self, path: str = "") -> str:
        """File (or the `path` to show instead), part and headings: `manual.pdf › page 3 › Setup › Linux`."""
        return " › ".join((format_path(path or self.path), *filter(None, (self.part,)), *self.headings))


@dataclass(frozen=True, slots=True)
class AnswerPassage:
    """A passage that answers a question, as it stands in the document at characters `start` to `end`; `n` is its citation.

    `headings`: the document's title and the headings above it. `marked`: the short answer in it, as characters of `text`; None without one.
    """

    n: int
    path: str
    headings: tuple[str, ...]
    start: int
    end: int
    text: str
    marked: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its sources and cost. `note`: what the reader should know about how it was made.

    `standalone_question`: the question rewritten without its context; `reason`: why the mode was chosen. `is_answerable`: False if the
    documents do not contain the answer; the citations are then the closest passages. `confidence`: the probability that what is shown
    answers the question, None for global questions. `passages`: those of an extractive answer, best first. `short_answer`: a few words of
    the documents. `id`: its number, 0 if not stored. `citation_marks`: (offset, n) of its `[n]`, because the documents' own text may
    contain such marks. `filter_text` and `collections`: the filter it was answered with; empty for all documents. `by_program`: a program
    asked, not a person. `unsupported_sentences`, `related`, `contradicted`: the sentences in each unproved state, also those left out.
    """

    question: str
    answer: str
    mode: str
    level: int | None = None
    citations: tuple[Citation, ...] = ()
    llm_calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    note: str = ""
    style: str = ""
    standalone_question: str = ""
    reason: str = ""
    conversation: int = 0
    is_answerable: bool = True
    confidence: float | None = None
    short_answer: str | None = None
    id: int = 0
    citation_marks: tuple[tuple[int, int], ...] = ()
    filter_text: str = ""
    collections: tuple[str, ...] = ()
    passages: tuple[AnswerPassage, ...] = ()
    by_program: bool = False
    sentences: tuple[AnswerSentence, ...] = ()
    unsupported_sentences: int = 0
    related: int = 0
    contradicted: int = 0

    @property
    def unproved(self) -> int:
        """The number of sentences that no quote proves."""
        return self.unsupported_sentences + self.related + self.contradicted

    def state_of(self, n: int) -> str:
        """The best state of the sentences that cite `n`; only "supported" is a proof. Also "supported" if no sentence is known."""
        states = {sentence.state for sentence in self.sentences if n in sentence.citations}
        return next((state for state in SENTENCE_STATES if state in states), SUPPORTED_STATE)


@dataclass(frozen=True, slots=True)
class CheckLine:
    """The result of a check: `state` is ok, warn or fail, `remedy` a command that fixes it."""

    name: str
    state: str
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed step: `stage` and `subject` identify it, `reason` explains it, `kind` is its class in a word or two."""

    stage: str
    subject: str
    reason: str
    kind: str = ""


# Config hash of imported extractions, and prefix of content and input hashes of imported rows, which are kept unchanged.
IMPORTED_MARK = "imported"
PENDING_IMPORT_HASH = f"{IMPORTED_MARK} "  # content hash of a document that must be imported again
QUERY_SUBJECT = "question"
# Subject of calls about several chunks after documents were erased: deleted unless used before the erasure ends.
IN_DOUBT_SUBJECT = "unsure"


@dataclass(frozen=True, slots=True)
class LlmCall:
    """A model answer with its request; `tokens` are its exact output tokens. `unused_since`: see `store/retention.py`.

    `subject`: the `content_id` of the chunk's text, a subject of the functions below, or QUERY_SUBJECT for a question. `config_hash`: the
    extraction config.
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
    subject: str = ""
    config_hash: str = ""
    unused_since: str | None = None


MULTI_CHUNK_PREFIX = "of "  # prefix of subjects about several chunks; of one chunk it is the content id of its text


@dataclass(frozen=True, slots=True)
class CallReference:
    """A use of a stored call (`key`) with another subject, or with one in doubt; fields as in `LlmCall`."""

    key: str
    subject: str
    config_hash: str


def description_subject(subject: str, descriptions: Iterable[str]) -> str:
    """The subject of calls that merge several descriptions into one."""
    return f"{MULTI_CHUNK_PREFIX}{content_id('description', subject, *sorted(set(descriptions)))}"


def report_subject(input_hash: str) -> str:
    """The subject of calls that write a report."""
    return f"{MULTI_CHUNK_PREFIX}{content_id('report', input_hash)}"


def clustered_key(key: str, about: str) -> str:
    """The storage key of a call. Keys of calls about the same text share a prefix, so they are on one or two database pages.

    A chunk has about 17 calls. With plain hashes as keys, each would change a different page.
    """
    is_about_chunk = about and about not in (QUERY_SUBJECT, IN_DOUBT_SUBJECT) and not about.startswith(MULTI_CHUNK_PREFIX)
    return about[:8] + key if is_about_chunk else key
