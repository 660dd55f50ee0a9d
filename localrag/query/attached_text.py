"""Text that a program attached to a question: the passage in it that answers, read by the reader; nothing of it is stored."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from localrag.errors import ModelError
from localrag.project import Project
from localrag.query.passages import CONFIDENCE_WEIGHTS, SPAN_WEIGHT
from localrag.query.retriever import word_share

PIECE_CHARS = 1_000  # of a passage; several short paragraphs are one
MAX_PIECES_READ = 24  # those that share most words with the question
MAX_ATTACHED_CHARS = 400_000  # read of all attached texts
MIN_CONFIDENCE = 0.5  # from which on a passage is shown
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text that a program attached to a question, with the `name` and the `number` that it gave to it; empty and 0 if it gave none."""

    name: str
    text: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class AttachedPassage:
    """A passage of an attached text, and the probability that it answers the question; name and number as in AttachedText."""

    name: str
    text: str
    confidence: float
    number: int = 0


def find_attached_passage(question: str, attached: Sequence[AttachedText], project: Project) -> AttachedPassage | None:
    """The passage that answers best; None if the reader is not sure enough of it, or cannot read here."""
    pieces = list(_pieces_of(attached))
    if project.reader is None or not pieces:
        return None
    chosen = sorted(pieces, key=lambda piece: -word_share(question, piece.text))[:MAX_PIECES_READ]
    try:
        readings = project.reader.read(question, [piece.text for piece in chosen])
    except ModelError as error:
        project.reader.report(project.model.options.notify, error)
        return None
    best, reading = max(zip(chosen, readings, strict=True), key=lambda pair: pair[1].relevance + SPAN_WEIGHT * pair[1].score)
    log_odds = np.dot(CONFIDENCE_WEIGHTS, (reading.relevance, max(reading.score, -30.0), 1.0))
    confidence = float(1 / (1 + np.exp(-log_odds)))
    return AttachedPassage(best.name, best.text, confidence, best.number) if confidence >= MIN_CONFIDENCE else None


def _pieces_of(attached: Sequence[AttachedText]) -> Iterator[AttachedText]:
    """The texts in pieces of about PIECE_CHARS: paragraphs, several short ones together, a long one cut at a space."""
    room = MAX_ATTACHED_CHARS
    for text in attached:
        piece = ""
        for paragraph in _BLANK_LINES.split(text.text[:room]):
            if piece and len(piece) + len(paragraph) > PIECE_CHARS:
                yield AttachedText(text.name, piece, text.number)
                piece = ""
            piece = f"{piece}\n\n{paragraph.strip()}".strip()
            while len(piece) > PIECE_CHARS:
                cut = piece.rfind(" ", PIECE_CHARS // 2, PIECE_CHARS)
                cut = PIECE_CHARS if cut < 0 else cut
                yield AttachedText(text.name, piece[:cut].rstrip(), text.number)
                piece = piece[cut:].lstrip()
        if piece:
            yield AttachedText(text.name, piece, text.number)
        room -= len(text.text)
        if room <= 0:
            return
