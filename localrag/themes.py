"""Themes: groups of passages from all documents that are about the same, with a label, their breadth and sentences that stand for them.

Passages are the windows whose vectors the index holds. Those near to the name of a common subject (`subjects.tsv`) are a theme of that
name, as topics are labelled by an ontology (Zosa et al. 2022). Each of the others is linked to its nearest ones, where both count each
other among their nearest and few are of one document; Leiden groups them, and each group of the whole into smaller ones. Labels of these
are headings and noun phrases of the passages, chosen by class-based TF-IDF (Grootendorst 2022) and nearness. The same passages always
give the same themes.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlite_utils import Database

from localrag.records import Chunk, Quote, content_id
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import runs
from localrag.store.database import caches_of, folder_of, is_cache
from localrag.store.filtered import FilteredDatabase
from localrag.store.graph import mentions_in_chunks
from localrag.store.passages import PassagePlace, PassageSet, load_passages, passage_texts
from localrag.store.vectors import Vectors, vectors_state
from localrag.system.files import atomic_file
from localrag.system.trust import is_recorded_cache_file, record_cache_file
from localrag.text.language import detect_language
from localrag.text.outline import Outline
from localrag.text.quotes import count_facts, informativeness, is_repetition, quote_text
from localrag.text.sentences import STOP_WORDS, cached_sentences, is_cjk, word_prefixes
from localrag.text.title_phrases import candidate_phrases, form_weight, is_readable, singular

NEIGHBORS, NEIGHBORS_PER_DOCUMENT = 8, 2
EXACT_UP_TO = 5_000  # passages; more are compared by way of lists, of which PROBED_LISTS are searched
PROBED_LISTS = 16
FORM_SHARE, FORM_DOCUMENTS = 0.5, 4  # a passage with this share of its letters in lines of so many documents is a form
MIN_GROUPED = 12  # passages; of fewer, each document is a theme of its own
MIN_PASSAGES = 3  # of a theme
MIN_DOCUMENTS = 3  # of a theme of many documents
MIN_DIVIDED = 24  # passages of a theme that is divided into smaller ones
MAX_LEVELS = 3
MIN_NEARNESS, MIN_MARGIN = 0.5, 0.15  # of a passage to its theme's center, and more than to any other center; others belong to no theme
REFINEMENTS = 3  # times that passages are assigned to the nearest center
LABELLED_PASSAGES = 50  # nearest to the center, from which labels and sentences are chosen
MAX_PHRASES = 4
MAX_QUOTES = 5
HEADING_WEIGHT, SINGLE_WORD_WEIGHT = 1.5, 0.3  # of a heading, and of a phrase of one word, relative to other noun phrases
MAX_LABEL_CHARS = 80
LABEL_WEIGHT = 3.0  # of a word of the label in a sentence
RESOLUTION = 1.6  # of the groups; the modularity of 1 puts two subjects of a small collection into one
MAX_HEADED_DOCUMENTS, MAX_HEADED_SHARE = 2, 0.05  # documents with a heading; one of more, such as "Agenda", names no theme
MIN_NAMED_DOCUMENTS, MAX_NAMED_SHARE = 5, 0.4  # documents with a name; one of more, such as a writer's own, names no theme
SPEECH_WEIGHT = 0.7  # of a sentence in direct speech
ITERATIONS = 10
# Cosine of a passage to the name of a subject from which on it is about it: with the words of the name in it, and without.
MIN_SUBJECT_NEARNESS, MIN_WORDLESS_NEARNESS = 0.25, 0.42
MIN_JOINED_NEARNESS = 0.45  # of the center of a group to the name of a subject, to which its passages belong then
MAX_WORD_SHARE = 0.3  # of the passages that have a word; one of more tells no subject
MAX_SHARED, MAX_ALIKE = 0.4, 0.6  # of two subjects' passages, and of their names' cosine
COUNTED_OF_DOCUMENT = 4  # in the order of themes
LANGUAGE_SAMPLE = 50  # passages whose language is that of the subjects
_AND = re.compile(r" (?:and|und|y|e|et) |[与和]")
_SPEECH = re.compile(r"^[\"'“‘「『]|[“”\"「」][^“”\"「」\n]*[“”\"「」]|(?<!\w)'.{0,400}'(?!\w)")

Members = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Theme:
    """A theme: its label, key phrases, passages and sentences, those nearest to its center first, and the themes it divides into.

    `named_in`: the ids of documents that have its name, where these were looked for.
    """

    label: str
    phrases: tuple[str, ...]
    passages: tuple[PassagePlace, ...]
    quotes: tuple[Quote, ...]
    parts: tuple["Theme", ...] = ()
    named_in: tuple[str, ...] = ()

    @property
    def documents(self) -> frozenset[str]:
        """The ids of the documents with a passage of the theme, or its name."""
        return frozenset(p.document for p in self.passages) | frozenset(self.named_in)


def stored_themes(db: Database, folder: Path) -> tuple[Theme, ...]:
    """The themes of the documents that the database shows: from memory, else from the cache file, else made anew."""
    if isinstance(db, FilteredDatabase):
        return find_themes(db, load_passages(db), subjects=load_subjects(db, folder))
    file, memory = themes_file(db, folder), caches_of(folder)
    name, *known = memory.get("themes", ("",))
    if name == file.name:
        return tuple(known)
    themes = _read_themes(file)
    if themes is None:
        themes = update_themes(db)
    memory["themes"] = (file.name, *themes)
    return themes


def update_themes(db: Database) -> tuple[Theme, ...]:
    """The themes of the documents that the graph covers, written to a cache file unless the current one is there."""
    file = themes_file(db, folder_of(db))
    if (known := _read_themes(file)) is not None:
        return known
    themes = find_themes(db, load_passages(db, in_graph=True), subjects=load_subjects(db, folder_of(db)))
    try:
        with atomic_file(file) as part:
            part.write_text(json.dumps([asdict(theme) for theme in themes], ensure_ascii=False), encoding="utf-8")
        record_cache_file(file)
        for old in {f for f in file.parent.glob("themes.*") if is_cache(f)} - {file}:
            old.unlink(missing_ok=True)
    except OSError:  # a read-only folder, or a full disk: the themes in memory are enough
        pass
    return themes


def themes_file(db: Database, folder: Path) -> Path:
    """The cache file of the present graph, embedder and titles."""
    settings = runs.load_settings(db)
    graph = settings.get("graph_hash") or vectors_state(db, "chunk")
    state = (graph, settings.get("embedder"), vectors_state(db, "title"), subjects_file(db, folder).exists())
    return folder / f"themes.{content_id('themes 5', *state)}.json"


def _read_themes(file: Path) -> tuple[Theme, ...] | None:
    if not is_recorded_cache_file(file):
        return None
    return tuple(map(_theme, json.loads(file.read_text(encoding="utf-8"))))


def _theme(row: Mapping[str, Any]) -> Theme:
    passages, quotes = (PassagePlace(**p) for p in row["passages"]), (Quote(**q) for q in row["quotes"])
    return Theme(row["label"], tuple(row["phrases"]), tuple(passages), tuple(quotes), tuple(map(_theme, row["parts"])))


@dataclass(frozen=True, slots=True)
class _Group:
    """Numbers of passages, nearest to the center first, the groups they divide into, and the name of their subject, if it has one."""

    members: Members
    parts: tuple["_Group", ...]
    subject: str = ""


@dataclass(frozen=True, slots=True)
class SubjectNames:
    """Names of common subjects in the language of the documents, with their vectors less their mean, (n, d), L2-normalised."""

    names: Sequence[str]
    vectors: Vectors


@cache
def subject_names(language: str) -> tuple[str, ...]:
    """The names of common subjects in a language; none in one that the table lacks."""
    table = Path(__file__).with_name("subjects.tsv").read_text(encoding="utf-8")
    languages, *rows = (line.split("\t") for line in table.splitlines())
    return tuple(row[languages.index(language)] for row in rows) if language in languages else ()


def missing_subject_names(db: Database) -> tuple[str, ...]:
    """The names of subjects in the language of the documents, unless their vectors by the index's embedder are stored."""
    folder = folder_of(db)
    if subjects_file(db, folder).exists() and is_recorded_cache_file(themes_file(db, folder)):
        return ()
    places = load_passages(db).places
    sample = passage_texts(db, places[:: 1 + len(places) // LANGUAGE_SAMPLE])
    languages = Counter(map(detect_language, sample)).most_common(1)
    names = subject_names(languages[0][0]) if languages else ()
    known = load_subjects(db, folder)
    if not names:
        save_subjects(db, (), np.empty((0, 1), np.float32))
    return () if known and tuple(known.names) == names else names


def save_subjects(db: Database, names: Sequence[str], vectors: Vectors) -> None:
    """Store the names of subjects with their vectors, (n, d), in a cache file, where there is room."""
    file = subjects_file(db, folder_of(db))
    with suppress(OSError):
        with atomic_file(file) as part, part.open("wb") as target:
            np.savez(target, names=np.array(names), vectors=_centered(vectors) if names else vectors)
        record_cache_file(file)


def load_subjects(db: Database, folder: Path) -> SubjectNames | None:
    """The subjects whose names this machine embedded for the index; None without them."""
    file = subjects_file(db, folder)
    if not is_recorded_cache_file(file):
        return None
    with np.load(file) as stored:
        return SubjectNames(stored["names"].tolist(), stored["vectors"]) if len(stored["names"]) else None


def subjects_file(db: Database, folder: Path) -> Path:
    """The cache file of the names of subjects, by the index's embedder."""
    return folder / f"subjects.{content_id('subjects 1', runs.load_settings(db).get('embedder'))}.npz"


def find_themes(db: Database, passages: PassageSet, *, levels: int = MAX_LEVELS, subjects: SubjectNames | None = None) -> tuple[Theme, ...]:
    """The themes of some passages, each divided `levels` - 1 times where it is large; first those of many documents and a telling label."""
    texts = passage_texts(db, passages.places)
    lines = [Counter(filter(None, map(_line_key, text.splitlines()))) for text in texts]
    common = _common_lines(passages, lines)
    kept = [n for n, own in enumerate(lines) if not _is_form(own, common)]
    passages = passages.some(kept)
    least = min(MIN_DOCUMENTS, len({p.document for p in passages.places}) // MIN_DOCUMENTS**2)
    if len(passages.places) < MIN_GROUPED:
        of_document = defaultdict[str, list[int]](list)
        for n, place in enumerate(passages.places):
            of_document[place.document].append(n)
        groups = [_Group(np.array(members), ()) for members in of_document.values()]
    else:
        groups = _on_subjects(passages, [texts[n] for n in kept], subjects, least, levels) if subjects else []
        rest = set(range(len(kept))).difference(*(group.members.tolist() for group in groups))
        others = _grouped(passages, np.array(sorted(rest), np.int64), levels)
        groups = _joined(groups, others, _centered(passages.vectors), subjects) if subjects and groups else [*others]
    described = _described(db, passages, groups, common, only_labelled=True)
    described.sort(key=lambda row: -_breadth(place.document for place in row[1].passages) * min(1.0, np.sqrt(row[0])))
    telling = dict[str, Theme]()
    for score, theme in described:
        if score > 0 and len(theme.documents) >= least:
            telling.setdefault(theme.label, theme)
    return tuple(telling.values()) or tuple(theme for _, theme in described)


def _breadth(documents: Iterable[str]) -> int:
    return sum(min(n, COUNTED_OF_DOCUMENT) for n in Counter(documents).values())


def _on_subjects(passages: PassageSet, texts: Sequence[str], subjects: SubjectNames, least: int, levels: int) -> list[_Group]:
    """The passages about common subjects, nearest first, by subject; of two subjects with nearly the same passages the broader one."""
    near = _centered(passages.vectors) @ subjects.vectors.T
    is_about = ((near >= MIN_SUBJECT_NEARNESS) & _has_words(texts, subjects.names)) | (near >= MIN_WORDLESS_NEARNESS)
    found: list[tuple[float, int, Members]] = []
    for number in np.flatnonzero(is_about.sum(axis=0) >= MIN_PASSAGES).tolist():
        members = np.flatnonzero(is_about[:, number])
        documents = [passages.places[n].document for n in members.tolist()]
        if len(set(documents)) >= max(2, least):
            found.append((_breadth(documents) * float(near[members, number].mean()), number, members))
    chosen: list[tuple[int, Members]] = []
    for _, number, members in sorted(found, key=lambda row: (-row[0], row[1])):
        shared = (len(np.intersect1d(members, own)) / min(len(members), len(own)) for _, own in chosen)
        alike = (float(subjects.vectors[number] @ subjects.vectors[other]) for other, _ in chosen)
        if max(shared, default=0.0) < MAX_SHARED and max(alike, default=0.0) < MAX_ALIKE:
            chosen.append((number, members[np.argsort(-near[members, number], kind="stable")]))
    return [_Group(own, _subgroups(passages, own, levels), subjects.names[number]) for number, own in chosen]


def _joined(groups: Sequence[_Group], others: Sequence[_Group], vectors: Vectors, subjects: SubjectNames) -> list[_Group]:
    """The groups of subjects, each with the others whose center is near to its name, and then the other ones."""
    found, names = list(groups), subjects.vectors[[subjects.names.index(group.subject) for group in groups]]
    for other in others:
        near = names @ _center(vectors[other.members])
        best = int(near.argmax())
        if near[best] < MIN_JOINED_NEARNESS:
            found.append(other)
        else:
            found[best] = replace(found[best], members=np.concatenate([found[best].members, other.members]))
    return found


def name_sides(name: str) -> list[str]:
    """What stands on the sides of the "and" in a name; the name if it has none."""
    return _AND.split(name)


def _has_words(texts: Sequence[str], names: Sequence[str]) -> NDArray[np.bool_]:
    """Whether a text has the words of a name, or of what stands on one side of its "and", some of which few texts have: (texts, names)."""
    keys = [word_prefixes(text) for text in texts]
    counts = Counter(key for own in keys for key in own)
    sides = [[word_prefixes(side) - STOP_WORDS for side in name_sides(name)] for name in names]
    rare = [[side for side in own if side and min(counts[key] for key in side) <= MAX_WORD_SHARE * len(texts)] for own in sides]
    return np.array([[any(side <= own for side in some) for some in rare] for own in keys], bool).reshape(len(texts), len(names))


def describe_groups(db: Database, passages: PassageSet, groups: Sequence[Sequence[int]]) -> tuple[Theme, ...]:
    """Given groups of passages, numbers best first, as themes, with their labels and sentences."""
    lines = [Counter(filter(None, map(_line_key, text.splitlines()))) for text in passage_texts(db, passages.places)]
    members = [np.asarray(group, np.int64) for group in groups if len(group)]
    return tuple(theme for _, theme in _described(db, passages, [_Group(group, ()) for group in members], _common_lines(passages, lines)))


def sentences_in(place: PassagePlace, chunk: Chunk) -> list[Quote]:
    """The sentences that begin in a passage."""
    spans = ((chunk.start + a, chunk.start + b) for a, b in cached_sentences(chunk.text))
    return [Quote(chunk.id, a, b, chunk.text[a - chunk.start : b - chunk.start]) for a, b in spans if place.start <= a < place.end]


def _common_lines(passages: PassageSet, lines: Sequence[Counter[str]]) -> dict[str, int]:
    """The lines that several documents have, such as those of a list of participants → the number of documents."""
    known = defaultdict[str, set[str]](set)
    for place, own in zip(passages.places, lines, strict=True):
        for line in own:
            known[line].add(place.document)
    return {line: len(documents) for line, documents in known.items() if len(documents) >= FORM_DOCUMENTS}


def _line_key(line: str) -> str:
    """What a line of a form says each time: its letters."""
    return " ".join(re.findall(r"[^\W\d_]+", line.lower()))


def _is_form(lines: Counter[str], common: Mapping[str, int]) -> bool:
    sizes = {line: len(line) * n for line, n in lines.items()}
    return sum(size for line, size in sizes.items() if line in common) >= FORM_SHARE * max(1, sum(sizes.values()))


def nearest_passages(vectors: Vectors, k: int) -> tuple[Members, Vectors]:
    """The numbers of the `k` vectors nearest to each, with their cosines, (n, k) each; -1 for none. It is among them itself."""
    import faiss

    n, k = len(vectors), min(k, len(vectors))
    if not n:
        return np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)
    if n <= EXACT_UP_TO:
        index: Any = faiss.IndexFlatIP(vectors.shape[1])
    else:
        lists = int(4 * np.sqrt(n))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1
        index.cp.niter, index.nprobe = 5, PROBED_LISTS
        index.train(vectors)
    index.add(vectors)
    cosines, numbers = index.search(vectors, k)
    return numbers, cosines


def _centered(vectors: Vectors) -> Vectors:
    """The vectors less their mean, L2-normalised: all passages of a collection have much in common."""
    rest = vectors - vectors.mean(axis=0)
    return np.ascontiguousarray(rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-9), np.float32)


def _grouped(passages: PassageSet, members: Members, levels: int) -> tuple[_Group, ...]:
    """The groups of some passages, those with more documents first; what is near to no other belongs to none."""
    if len(members) < MIN_PASSAGES:
        return ()
    vectors, documents = _centered(passages.vectors[members]), [passages.places[n].document for n in members]
    groups = []
    for own in _refined(vectors, _clusters(_mutual_neighbors(vectors, documents), len(members))):
        groups.append(_Group(members[own], _subgroups(passages, members[own], levels)))
    return tuple(sorted(groups, key=lambda g: (-len({passages.places[n].document for n in g.members}), -len(g.members), int(g.members[0]))))


def _subgroups(passages: PassageSet, members: Members, levels: int) -> tuple[_Group, ...]:
    inner = _grouped(passages, np.sort(members), levels - 1) if levels > 1 and len(members) >= MIN_DIVIDED else ()
    return inner if len(inner) > 1 else ()


def _mutual_neighbors(vectors: Vectors, documents: Sequence[str]) -> dict[tuple[int, int], float]:
    """The cosines of passages that are mutually among each other's nearest, few of one document."""
    numbers, cosines = nearest_passages(vectors, 4 * NEIGHBORS + 1)
    chosen: list[dict[int, float]] = []
    for n, (others, near) in enumerate(zip(numbers.tolist(), cosines.tolist(), strict=True)):
        row, of_document = dict[int, float](), Counter[str]()
        for other, cosine in zip(others, near, strict=True):
            if other not in (n, -1) and cosine > 0 and len(row) < NEIGHBORS and of_document[documents[other]] < NEIGHBORS_PER_DOCUMENT:
                of_document[documents[other]] += 1
                row[other] = cosine
        chosen.append(row)
    return {(n, other): cosine for n, row in enumerate(chosen) for other, cosine in row.items() if n < other and n in chosen[other]}


def _clusters(links: Mapping[tuple[int, int], float], n: int) -> list[Members]:
    import igraph

    igraph.set_random_number_generator(Random(0))
    network = igraph.Graph(n, list(links))
    found = (
        network.community_leiden("modularity", weights=list(links.values()), resolution=RESOLUTION, n_iterations=ITERATIONS)
        if links
        else ()
    )
    return [np.array(part) for part in found if len(part) >= MIN_PASSAGES]


def _refined(vectors: Vectors, parts: Sequence[Members]) -> list[Members]:
    """The vectors near to the center of a part and of no other, nearest first."""
    for _ in range(REFINEMENTS):
        if not parts:
            break
        near = vectors @ np.array([_center(vectors[part]) for part in parts]).T
        nearest, ordered = near.argmax(axis=1), np.sort(near, axis=1)
        others = ordered[:, -2] if len(parts) > 1 else np.zeros(len(near), np.float32)
        is_near = (ordered[:, -1] >= MIN_NEARNESS) & (ordered[:, -1] - others >= MIN_MARGIN)
        parts = [part for g in range(len(parts)) if len(part := np.flatnonzero(is_near & (nearest == g))) >= MIN_PASSAGES]
    return [part[np.argsort(-(vectors[part] @ _center(vectors[part])), kind="stable")] for part in parts]


# What a group is called, and what stands for it


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A name or heading, and the numbers of the passages that it is in or above."""

    text: str
    weight: float
    members: frozenset[int]

    @property
    def label(self) -> str:
        """Its text as the name of a theme: without an article, with a capital."""
        first, _, rest = self.text.partition(" ")
        text = rest if rest and first.lower() in ("the", "a", "an") else self.text
        return text.title() if text.isupper() and " " in text else text[:1].upper() + text[1:]


def _described(
    db: Database, passages: PassageSet, groups: Sequence[_Group], common: Mapping[str, int], *, only_labelled: bool = False
) -> list[tuple[float, Theme]]:
    """The themes of groups, each behind how telling its label is; `common` lines are no sentences.

    `only_labelled`: a group without a subject has only those of its nearest passages that have its label.
    """
    every = list(_all_groups(groups))
    shown = sorted({n for group in every for n in group.members[:LABELLED_PASSAGES].tolist()})
    chunks = {c.id: c for c in chunks_store.chunks_by_id(db, sorted({passages.places[n].chunk for n in shown}))}
    phrases = [*_headings(db, passages, shown, common), *_noun_phrases(db, passages, shown, common)]
    of_passage = defaultdict[int, list[int]](list)
    for number, phrase in enumerate(phrases):
        for n in phrase.members:
            of_passage[n].append(number)
    centered = _centered(passages.vectors) if shown else passages.vectors
    centers = {id(group): _center(centered[group.members[:LABELLED_PASSAGES]]) for group in every}

    def theme(group: _Group) -> tuple[float, Theme]:
        own = np.array([centers[id(group)], *(center for key, center in centers.items() if key != id(group))])
        ranked = _ranked(group, phrases, of_passage, centered, own, len(shown), passages.places)
        labels = [phrase.label for score, phrase in ranked if not group.subject or (score > 0 and phrase.label not in group.subject)]
        labels = [*filter(None, [group.subject]), *labels]
        members = group.members.tolist()
        if only_labelled and ranked and ranked[0][0] > 0 and not group.subject:
            members = [n for n in members if n in ranked[0][1].members]
        quotes = _quotes(members[:LABELLED_PASSAGES], passages.places, chunks, labels, common)
        label = labels[0] if labels else (quote_text(quotes[0]) if quotes else "")[:MAX_LABEL_CHARS]
        places = tuple(passages.places[n] for n in members)
        parts = tuple(part for score, part in map(theme, group.parts) if score > 0)
        return 1.0 if group.subject else ranked[0][0] if ranked else 0.0, Theme(label, tuple(labels[1:MAX_PHRASES]), places, quotes, parts)

    return list(map(theme, groups))


def _all_groups(groups: Sequence[_Group]) -> Iterable[_Group]:
    for group in groups:
        yield group
        yield from _all_groups(group.parts)


def _headings(db: Database, passages: PassageSet, shown: Sequence[int], common: Mapping[str, int]) -> list[_Phrase]:
    """The titles and headings above passages."""
    of_document = defaultdict[str, list[int]](list)
    for n in shown:
        of_document[passages.places[n].document].append(n)
    below = defaultdict[str, set[int]](set)
    for document, members in of_document.items():
        stored = documents_store.document_by_id(db, document)
        outline = Outline(stored.text, stored.blocks)
        for n in members:
            for heading in outline.headings_at(passages.places[n].start)[-2:]:
                below[heading].add(n)
    most = max(MAX_HEADED_DOCUMENTS, MAX_HEADED_SHARE * len({p.document for p in passages.places}))
    documents = defaultdict[str, set[str]](set)
    for title, numbers in below.items():
        documents[_line_key(title)] |= {passages.places[n].document for n in numbers}
    fitting = (title for title in below if is_readable(title) and max(len(documents[key := _line_key(title)]), common.get(key, 0)) <= most)
    return [_Phrase(title, HEADING_WEIGHT, frozenset(below[title])) for title in fitting]


def _noun_phrases(db: Database, passages: PassageSet, shown: Sequence[int], common: Mapping[str, int]) -> list[_Phrase]:
    """The noun phrases and names in passages, but for persons', as they are written most often."""
    within, spellings = defaultdict[str, set[int]](set), defaultdict[str, Counter[str]](Counter)
    in_chunk, persons = defaultdict[str, list[int]](list), Counter[str]()

    def add(phrase: str, n: int) -> None:
        within[singular(phrase)].add(n)
        spellings[singular(phrase)][phrase] += 1

    for n, text in zip(shown, passage_texts(db, [passages.places[n] for n in shown]), strict=True):
        in_chunk[passages.places[n].chunk].append(n)
        for sentence in (text[a:b] for a, b in cached_sentences(text)):
            for phrase in candidate_phrases(sentence) if _line_key(sentence) not in common else ():
                add(phrase, n)
    for _, kind, chunk, start, name in mentions_in_chunks(db, sorted(in_chunk)):
        persons.update(dict.fromkeys(_line_key(name).split(), 1 if kind == "person" else -1))
        for n in in_chunk[chunk]:
            if kind != "person" and passages.places[n].start <= start < passages.places[n].end and is_readable(name):
                add(name, n)
    documents = {key: len({passages.places[n].document for n in members}) for key, members in within.items()}
    most = max(MIN_NAMED_DOCUMENTS, MAX_NAMED_SHARE * len({p.document for p in passages.places}))
    found = []
    for key, members in sorted(within.items()):
        text = spellings[key].most_common(1)[0][0]
        capitals = [word for word in text.split() if word[0].isupper()]
        is_person = bool(capitals) and persons[_line_key(capitals[-1])] > 0  # "Ann Lee", and "Ann Lee writes" taken for nouns
        if len(members) > 1 and documents[key] <= most and not is_person and form_weight(text) > 0:
            weight = 1.0 if " " in text or is_cjk(text) else SINGLE_WORD_WEIGHT
            found.append(_Phrase(text, weight, frozenset(members)))
    return found


def _ranked(
    group: _Group,
    phrases: Sequence[_Phrase],
    of_passage: Mapping[int, Sequence[int]],
    vectors: Vectors,
    centers: Vectors,
    total: int,
    places: Sequence[PassagePlace],
) -> list[tuple[float, _Phrase]]:
    """The phrases that tell a group from the others, best first, with their scores; none has a word of one before it.

    A common noun alone, such as "room", comes last, with a score of 0. `centers`: of all groups, that of this one first.
    """
    members = group.members[:LABELLED_PASSAGES].tolist()
    counts = Counter(number for n in members for number in of_passage.get(n, ()))
    least = min(2, len({places[n].document for n in members}) - 1)
    scores: dict[int, float] = {}
    for number, count in counts.items():
        inside = list(phrases[number].members)
        near = centers @ _center(vectors[inside])
        n_documents = len({places[n].document for n in members if n in phrases[number].members})
        share, of_all = count / len(members), len(inside) / total
        if share > of_all and n_documents >= least and (count > 1 or len(members) <= MIN_PASSAGES):
            more = max(0.0, float(near[0] - near[1:].mean())) if len(near) > 1 else 1.0
            scores[number] = phrases[number].weight * share * np.log(share / of_all) * (1 + np.log(n_documents)) * more
    chosen, words = list[tuple[float, _Phrase]](), set[str]()
    for number in sorted(scores, key=lambda number: (-scores[number], phrases[number].text)):
        text = phrases[number].label
        own_words = {w.lower() for w in text.split()} - STOP_WORDS
        if own_words and not own_words & words and len(chosen) < MAX_PHRASES:
            is_telling = " " in text or is_cjk(text) or phrases[number].text[0].isupper()
            chosen.append((scores[number] if is_telling else 0.0, phrases[number]))
            words |= own_words
    return sorted(chosen, key=lambda row: row[0] == 0.0)


def _center(vectors: Vectors) -> Vectors:
    mean = vectors.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9), np.float32)


def _quotes(
    members: Sequence[int],
    places: Sequence[PassagePlace],
    chunks: Mapping[str, Chunk],
    phrases: Sequence[str],
    common: Mapping[str, int],
) -> tuple[Quote, ...]:
    """Sentences that can stand alone, from the passages nearest to the center, first one of each document."""
    words, label = ({w.lower() for phrase in some for w in phrase.split()} - STOP_WORDS for some in (phrases, phrases[:1]))
    found: list[tuple[float, Quote]] = []
    for rank, n in enumerate(members):
        for quote in sentences_in(places[n], chunks[places[n].chunk]):
            if _line_key(quote.text) not in common:
                form = informativeness(quote.text, count_facts(quote.text)) * (SPEECH_WEIGHT if _SPEECH.search(quote.text) else 1.0)
                low = quote.text.lower()
                on_label = min(3, sum(w in low for w in words)) + LABEL_WEIGHT * any(w in low for w in label)
                found.append((form + on_label - 2.0 * rank / len(members), quote) if form > 0 else (-9.0, quote))
    chosen, used = list[Quote](), Counter[str]()
    document_of = {places[n].chunk: places[n].document for n in members}
    while found and len(chosen) < MAX_QUOTES:
        best = max(found, key=lambda row: row[0] - 2.0 * used[document_of[row[1].chunk_id]])
        found.remove(best)
        if not any(is_repetition(quote_text(best[1]), quote_text(q)) for q in chosen):
            chosen.append(best[1])
            used[document_of[best[1].chunk_id]] += 1
    return tuple(chosen)
