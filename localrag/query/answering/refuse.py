"""Which questions are refused because the documents do not seem to answer them.

A model that writes is asked every question, and declines in its own words. Extractive answers have no such model: a question that shares
little with its nearest passages is refused, unless it names an indexed file or the reader may have found an answer, since the reader also
recognises other words for the same thing. A question whose names all occur nowhere is refused whatever the reader says.
"""

import math

from localrag.llm.reader import NONE
from localrag.project import Project
from localrag.query.answering.quoted import windows_to_read
from localrag.query.question import Question
from localrag.query.retrieval.answerable import LOOKED_AT, confidence, floor, names_a_document, unnamed
from localrag.query.retrieval.retrieve import nearest_chunks
from localrag.text.plain import is_cjk

MIN_NONE_PROBABILITY = 0.9  # least probability of the reader that a passage holds no answer, at which it is believed


async def should_refuse(question: Question, project: Project) -> tuple[bool, float | None]:
    """Whether to refuse a question, and the probability that the documents answer it (None for a question about all of them)."""
    sure = confidence(question, project)
    if sure is None or question.options.context_only or not question.extractive or sure >= floor(question.text):
        return False, sure
    if names_a_document(question.text, project):
        return False, sure
    if unnamed(question.text, project) == 1:  # the reader would find an answer in a text about somebody else
        return True, sure
    return await _reader_finds_nothing(question, project), sure


async def _reader_finds_nothing(question: Question, project: Project) -> bool:
    """Whether the reader is sure that no passage holds an answer; True where there is no reader for the question."""
    if project.reader is None or is_cjk(question.text):
        return True
    texts = windows_to_read(question, nearest_chunks(question.text, question.vector, project, LOOKED_AT), project)
    said = await project.reader.read(question.text, texts, yes_or_no=False)
    return all(s.text == NONE and math.exp(s.log_probability) >= MIN_NONE_PROBABILITY for s in said)
