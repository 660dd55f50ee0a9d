"""Timelines: the dated statements of the documents in order, each with its quote; the same event told twice is one row."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from localrag.analysis.dates import DateMention, find_dates
from localrag.analysis.edtf import PartialDate, parse_edtf
from localrag.analysis.placed_sentences import OpenedDocument, PlacedSentence, opened_documents, sentences_of
from localrag.analysis.reading import read_passages
from localrag.analysis.tables import Cell, Column, OnWork, ResultTable, TableRow, make_table
from localrag.project import Project
from localrag.query.collection_questions import dated_files
from localrag.query.question_analysis import detect_language
from localrag.query.retriever import content_stems, named_entities, retrieve
from localrag.records import Citation, content_id, format_path
from localrag.store import graph
from localrag.text.kinds import TextKind, classify_sentence, strip_markup
from localrag.text.sentences import collapse_whitespace

LANGUAGE_CHARS = 3000  # of a document that tell its language
_NO_STATEMENTS = frozenset({TextKind.CODE, TextKind.CONTENTS, TextKind.LICENCE})
