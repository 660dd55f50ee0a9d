"""Answers about the documents as a whole: by theme, with its breadth and sentences that stand for it.

Without a topic these are the themes of all documents. With one, the passages near it are grouped in the same way; a question for a change
groups them by date, one that compares periods has the themes of each. A single document is told along its parts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from localrag.project import Project
from localrag.query.collection_questions import ABOUT_FILES, dated_files
from localrag.query.question import AnswerDraft, AnswerPoint, Question, quote_point
from localrag.query.question_kind import WholeForm, whole_form
from localrag.query.retriever import content_stems
from localrag.records import Quote
from localrag.store import chunks as chunks_store
from localrag.store import documents as documents_store
from localrag.store import full_text, graph
from localrag.store.passages import PassagePlace, PassageSet, load_passages, passage_texts
from localrag.store.vectors import Vectors
from localrag.text.language import frame_text
from localrag.text.quotes import count_facts, informativeness, mmr, quote_text, sentence_quotes
from localrag.text.sentences import STOP_WORDS, collapse_whitespace, is_cjk
from localrag.themes import Theme, describe_groups, find_themes, load_subjects, name_sides, sentences_in, stored_themes

MAX_THEMES, MAX_GROUPS = 12, 6  # of everything, and of the passages about a topic
MAX_SENTENCES = 24  # of an answer
MAX_QUOTES_ON_TOPIC = 12  # of one group
MAX_MENTIONED_SHARE = 0.6  # of the documents that have the name of a theme
MAX_GROUP_LABEL_CHARS = 40  # a longer one is a sentence
DIVERSITY = 0.2  # of the sentences on a topic
FORM_WEIGHT = 0.05  # of a sentence's form, relative to its cosine to the question
MAX_SAID = 2  # times that a sentence is said in the passages near a topic; one of more is a form's
MAX_TOPIC_PASSAGES = 40  # that are grouped; more are further from the topic than they are worth
MIN_TOPIC_SHARE = 0.55  # of the best passage's nearness to the topic
MIN_TOPIC_NEARNESS = 0.25  # of a passage to a topic, its cosine and a share of words
WORDS_WEIGHT = 0.3  # of the question's words that a passage has, relative to its cosine
MIN_COMPARED_COSINE = 0.45  # of the passage nearest to a comparison of things
MAX_PERIODS = 8
MAX_PARTS = 8  # of a single document
MIN_NAME_SHARE, SENTENCES_READ, MAX_PERSONS = 0.2, 8, 8  # of mentions that have a name; compared; persons
# Words of questions that name the documents, or say that these tell something.
OFF_TOPIC = ABOUT_FILES | frozenset(
    """
    letter letters minutes diary reports say says said write writes written tell tells told describe described happens discussed compare
    summarise summarize give overview
    """.split()
)
_YEAR = re.compile(r"\b(1[5-9]\d\d|20\d\d)\b(?:\s*(?:-|–|—|to|bis|à|a|至|到)\s*(\d{4}|\d\d)\b)?")


def draft_by_theme(question: Question, project: Project) -> AnswerDraft:
    """The themes that a question about the whole asks for, each with sentences of several documents; no points without passages."""
    themes, note = themes_for(question, project)
    themes = themes[: 1 if question.wants_one_sentence else MAX_THEMES]
    most = 1 if question.wants_one_sentence else _sentences_each(themes)
    return AnswerDraft(
        tuple(theme_point(theme, question, project, most) for theme in themes), _collection_summary(question, project), note=note
    )


def _sentences_each(themes: Sequence[Theme]) -> int:
    return MAX_SENTENCES // len(themes) if len(themes) > MAX_GROUPS else MAX_QUOTES_ON_TOPIC


def _collection_summary(question: Question, project: Project) -> str:
    """How many documents there are, and from when most of them are."""
    rows = dated_files(project) if whole_form(question.text, project) is WholeForm.ALL else []
    dates = sorted(row.date for row in rows if row.is_own_date)
    days = f" ({dates[0]} – {dates[-1]})" if 2 * len(dates) > len(rows) else ""
    return frame_text("counted", question.text, n=len(rows)) + days if len(rows) > 1 else ""


def themes_for(question: Question, project: Project) -> tuple[Sequence[Theme], str]:
    """The themes that a question about the whole asks for, and how they were found."""
    form = whole_form(question.text, project)
    periods = named_periods(question.text)
    if form is WholeForm.COMPARISON and len(periods) > 1:
        found = _themes_of_periods(periods, project)
        if found:
            return found, "The themes of each period, by the dates of the documents."
    if form not in (WholeForm.ALL, WholeForm.PEOPLE):
        near = near_passages(question, project)
        if form is WholeForm.COMPARISON and not _names_topic(question, near):
            near = near.some([])
        if form is WholeForm.CHANGE and (told := _by_date(question, near, project)):
            return told, "The passages nearest to the question, in the order of their dates."
        if near.places or form is not WholeForm.COMPARISON:
            return group_topic(question, near, project), "The passages nearest to the question, grouped by what they are about."
    if form is WholeForm.PEOPLE and (people := _people(project)):
        return people, "The persons whom most documents mention."
    return _broadest(form, project)


def _broadest(form: WholeForm, project: Project) -> tuple[Sequence[Theme], str]:
    """The themes of all documents, by mentions for a question that compares how often they come; a single document's parts."""
    documents = documents_store.document_paths(project.db)
    if len(documents) == 1 and (parts := _outline(load_passages(project.db), project)):
        return parts, "The parts of the document, in its order."
    themes = stored_themes(project.db, project.folder)
    found = _with_mentions(themes[: 3 * MAX_THEMES if form is WholeForm.COMPARISON else MAX_THEMES], project)
    note = "Counted are documents with the words of a theme's name, or a passage about it."
    return sorted(found, key=lambda theme: -len(theme.documents))[:MAX_THEMES], note


def _with_mentions(themes: Sequence[Theme], project: Project) -> list[Theme]:
    """Themes with the documents that have their name, or one side of its "and", unless most documents have it."""
    ids = {path: document for document, path in documents_store.document_paths(project.db).items()}
    found = []
    for theme in themes:
        sides = (full_text.paths_with_phrase(project.db, side) & ids.keys() for side in name_sides(theme.label))
        named = set[str]().union(*(paths for paths in sides if len(paths) <= MAX_MENTIONED_SHARE * len(ids)))
        found.append(replace(theme, named_in=tuple(ids[path] for path in sorted(named))))
    return found


def _names_topic(question: Question, near: PassageSet) -> bool:
    """Whether a comparison is of things that a passage speaks of, unlike "which subject comes up most often"."""
    return float((near.vectors @ question.vector).max(initial=0.0)) >= MIN_COMPARED_COSINE


def theme_title(theme: Theme, question: Question, project: Project) -> str:
    """The label of a theme, its key phrases, and the number of its documents, unless there is a single document."""
    total, label = len(documents_store.document_paths(project.db)), [theme.label, ", ".join(theme.phrases)]
    breadth = frame_text("breadth", question.text, n=len(theme.documents), total=total)
    title = ": ".join(filter(None, label))
    return title + f" ({breadth})" * (total > 1) if title else breadth[:1].upper() + breadth[1:]


def theme_point(theme: Theme, question: Question, project: Project, n_quotes: int) -> AnswerPoint:
    """A theme as a point of an answer, with sentences in the script of the question if it has some."""
    return quote_point(*_fitting_quotes(theme, question)[:n_quotes], title=theme_title(theme, question, project))


def _fitting_quotes(theme: Theme, question: Question) -> list[Quote]:
    return [q for q in theme.quotes if is_cjk(q.text) == is_cjk(question.text)] or list(theme.quotes)


# Topics


def topic_themes(topic: str, project: Project) -> Sequence[Theme]:
    """The passages near a topic as themes; all themes without one. Empty where no passage is near it."""
    if not topic.strip():
        return stored_themes(project.db, project.folder)
    question = Question(topic, project.embedder.embed([topic])[0], "extractive")
    near = near_passages(question, project)
    return group_topic(question, near, project) if near.places else ()


def near_passages(question: Question, project: Project) -> PassageSet:
    """The passages nearest to a question in meaning and words, best first, at most MAX_TOPIC_PASSAGES; none if none is near."""
    passages = load_passages(project.db)
    if not passages.places:
        return passages
    near = passages.vectors @ _topic_vector(question, project) + WORDS_WEIGHT * _word_shares(
        question.text, passage_texts(project.db, passages.places)
    )
    order = np.argsort(-near, kind="stable")[:MAX_TOPIC_PASSAGES]
    return passages.some(order[near[order] >= max(MIN_TOPIC_NEARNESS, MIN_TOPIC_SHARE * near[order[0]])])


def _topic_vector(question: Question, project: Project) -> Vectors:
    """The vector of what a question is about: of its words that neither name the documents nor say that these tell something."""
    words = [word for word in re.findall(r"[\w'’-]+", question.text) if word.lower() not in OFF_TOPIC | STOP_WORDS]
    vector = question.vector + project.embedder.embed([" ".join(words) or question.text])[0]
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def _word_shares(question: str, texts: Sequence[str]) -> NDArray[np.float32]:
    """How much of the question's words each text has, rare ones counting more, 0 to 1."""
    words = sorted(content_stems(question) - content_stems(" ".join(OFF_TOPIC))) or sorted(content_stems(question))
    has = np.array([[word in stems for word in words] for stems in map(content_stems, texts)], np.float32).reshape(len(texts), len(words))
    rarity = np.log((1 + len(texts)) / (1 + has.sum(axis=0)))
    return np.asarray(has @ rarity / max(float(rarity.sum()), 1e-9), np.float32)


def _told_for(question: Question, near: PassageSet, groups: Sequence[Sequence[int]], project: Project) -> list[Theme]:
    """Groups of passages as themes, with what is nearly as near to the question as the nearest sentence."""
    themes = describe_groups(project.db, near, groups)
    chunks = {c.id: c for c in chunks_store.chunks_by_id(project.db, sorted({p.chunk for p in near.places}))}
    told = [(n, p, q) for n, theme in enumerate(themes) for p in theme.passages for q in sentences_in(p, chunks[p.chunk])]
    said = Counter(collapse_whitespace(q.text) for *_, q in told)
    told = [row for row in told if informativeness(row[2].text, 0) > 0 and said[collapse_whitespace(row[2].text)] <= MAX_SAID]
    matrix = project.embedder.embed([quote_text(q) for *_, q in told])
    form = np.array([FORM_WEIGHT * informativeness(q.text, count_facts(q.text)) for *_, q in told], np.float32)
    nearness = matrix @ _topic_vector(question, project) + form if told else form
    least = MIN_TOPIC_SHARE * float(nearness.max(initial=0.0))
    found = []
    for n, theme in enumerate(themes):
        rows = [row for row, (of, *_) in enumerate(told) if of == n and nearness[row] >= least]
        near_places = {told[row][1] for row in rows}
        new = list({text: row for row in reversed(rows) if said.pop(text := collapse_whitespace(told[row][2].text), 0)}.values())[::-1]
        chosen = mmr(nearness[new], matrix[new], MAX_QUOTES_ON_TOPIC, diversity=DIVERSITY) if new else []
        passages = tuple(p for p in theme.passages if p in near_places)
        found.append(replace(theme, quotes=tuple(told[new[k]][2] for k in chosen), passages=passages))
    return found


def group_topic(question: Question, near: PassageSet, project: Project) -> Sequence[Theme]:
    """Passages near a topic as themes, those nearest to the topic first; the last one, without a label, has those of no broad group."""
    number = {place: n for n, place in enumerate(near.places)}
    groups = sorted((sorted(number[p] for p in theme.passages) for theme in find_themes(project.db, near, levels=1)), key=np.mean)
    rest = sorted(set(range(len(near.places))).difference(*groups))
    told = [theme for theme in _told_for(question, near, [*groups, rest], project) if theme.quotes]
    least = min(2, len({place.document for place in near.places}))
    broad = [t for t in told if " " in t.label and len(t.label) <= MAX_GROUP_LABEL_CHARS and len(t.documents) >= least][:MAX_GROUPS]
    others = [theme for theme in told if theme not in broad]
    passages, quotes = (tuple(chain.from_iterable(getattr(t, of) for t in others)) for of in ("passages", "quotes"))
    return [*broad, Theme("", (), passages, quotes[:MAX_QUOTES_ON_TOPIC])] if others else broad


def _by_date(question: Question, near: PassageSet, project: Project) -> Sequence[Theme]:
    """Passages near a topic by the year of their document, else its month; else along the documents; nothing of a single document."""
    dates = documents_store.document_dates(project.db)
    paths = documents_store.document_paths(project.db)
    if len({p.document for p in near.places}) < 2:
        return ()
    keys = [dates.get(p.document, "")[:4] for p in near.places]
    if len(set(filter(None, keys))) < 2:
        keys = [dates.get(p.document, "")[:7] for p in near.places]
    if len(set(filter(None, keys))) < 2:
        keys = [paths[p.document] for p in near.places]
    of_period = defaultdict[str, list[int]](list)
    for n, key in enumerate(keys):
        if key:
            of_period[key].append(n)
    periods = sorted(of_period)
    step = -(-len(periods) // MAX_PERIODS)
    joined = [periods[at : at + step] for at in range(0, len(periods), step)]
    groups = [sorted(n for period in some for n in of_period[period]) for some in joined]
    titles = ["–".join(dict.fromkeys(PurePosixPath(period).stem for period in (some[0], some[-1]))) for some in joined]
    themes = _told_for(question, near, groups, project)
    named = (replace(t, label=title, phrases=(t.label, *t.phrases[:2])) for t, title in zip(themes, titles, strict=True))
    return [theme for theme in named if theme.quotes]


def named_periods(question: str) -> list[tuple[int, int]]:
    """The periods of years that a question names."""
    found = []
    for match in _YEAR.finditer(question):
        first, last = match[1], match[2] or match[1]
        found.append((int(first), int(first[: 4 - len(last)] + last)))
    return found


def _themes_of_periods(periods: Sequence[tuple[int, int]], project: Project) -> Sequence[Theme]:
    """The broadest themes of the documents of each period; nothing where a period has none."""
    dates = {d: int(day[:4]) for d, day in documents_store.document_dates(project.db).items() if day[:4].isdigit()}
    passages, subjects, found = load_passages(project.db), load_subjects(project.db, project.folder), list[Theme]()
    for first, last in periods[:2]:
        inside = [n for n, p in enumerate(passages.places) if first <= dates.get(p.document, 0) <= last]
        themes = find_themes(project.db, passages.some(inside), levels=1, subjects=subjects)[:MAX_GROUPS]
        if not themes:
            return ()
        years = str(first) if first == last else f"{first}–{last}"
        found += [replace(theme, label=f"{years}: {theme.label}") for theme in themes]
    return found


def _people(project: Project) -> list[Theme]:
    """The persons in sentences of most documents, with sentences that tell who they are; none where names have no types."""
    found = list[Theme]()
    for entity in graph.most_mentioned(project.db, "person", 3 * MAX_GROUPS):
        mentions = graph.mentions(project.db, [entity])
        chunks = {c.id: c for c in chunks_store.chunks_by_id(project.db, sorted({m.chunk_id for m in mentions}))}
        told = [(sentence_quotes(chunks[m.chunk_id], m.start, m.end)[0], m) for m in mentions]
        names = Counter(q.text[m.start - q.start : m.end - q.start] for q, m in told)
        name = max((n for n in names if names[n] >= MIN_NAME_SHARE * len(told)), key=lambda n: (not n.isupper(), len(n)), default="")
        form = {q: score + (q.start == m.start) for q, m in told if (score := informativeness(q.text, 0))}
        if not form or name[:1] != name[:1].title():
            continue
        best = sorted(form, key=lambda q: -form[q])[:SENTENCES_READ]
        nearness = project.embedder.embed([quote_text(q) for q in best]) @ project.embedder.embed([f"{name} is"])[0]
        best = [best[n] for n in np.argsort(-nearness, kind="stable")]
        first = {chunks[q.chunk_id].document_id: q for q in reversed(best)}.values()
        places = tuple(PassagePlace(chunks[q.chunk_id].document_id, q.chunk_id, q.start, q.end) for q in form)
        found.append(Theme(name, (), places, tuple(q for q in best if q in first)))
    return sorted(found, key=lambda theme: -len(theme.documents))[:MAX_PERSONS]


def _outline(passages: PassageSet, project: Project) -> Sequence[Theme]:
    order = sorted(range(len(passages.places)), key=lambda n: passages.places[n].start)
    groups = [part.tolist() for part in np.array_split(np.array(order), min(MAX_PARTS, max(1, len(order) // 3))) if len(part)]
    return describe_groups(project.db, passages, groups)
