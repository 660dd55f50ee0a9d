"""Which questions are not answered: without a model that writes, those to which the documents seem to say nothing.

A model that writes is asked every question; it declines itself, in its own words. Where none does, a question that has little in common
with its nearest passages is refused, unless it names a document, or the reader, which knows other words for the same thing, may have found
an answer in them. One whose names stand nowhere is refused whatever the reader says.
"""

import math

from localrag.llm.reader import NONE
from localrag.project import Project
from localrag.query.answering.quoted import windows_to_read
from localrag.query.question import Question
from localrag.query.retrieval.answerable import LOOKED_AT, confidence, floor, names_a_document, unnamed
from localrag.query.retrieval.retrieve import nearest_chunks
from localrag.text.plain import is_cjk

SURE = 0.9  # probability that a passage holds no answer, from which on the reader is believed


async def refused(question: Question, project: Project) -> tuple[bool, float | None]:
    """Whether a question is refused, and the probability that the documents answer it (None for one of the whole)."""
    sure = confidence(question, project)
    if sure is None or question.options.context_only or not question.extractive or sure >= floor(question.text):
        return False, sure
    if names_a_document(question.text, project):
        return False, sure
    if unnamed(question.text, project) == 1:  # a text about somebody else has an answer, too
        return True, sure
    return await _nothing_read(question, project), sure


async def _nothing_read(question: Question, project: Project) -> bool:
    """Whether the reader is sure that no passage holds an answer; yes, where there is no reader for the question."""
    if project.reader is None or is_cjk(question.text):
        return True
    texts = windows_to_read(question, nearest_chunks(question.text, question.vector, project, LOOKED_AT), project)
    said = await project.reader.read(question.text, texts, yes_or_no=False)
    return all(s.text == NONE and math.exp(s.log_probability) >= SURE for s in said)
