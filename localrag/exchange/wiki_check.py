"""Checks of a wiki against its documents: dead quotes, edited pages, and a person's sentences, which are checked like an answer's."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from localrag.analysis.tables import OnWork, cite_document
from localrag.errors import UsageError
from localrag.exchange.obsidian import document_key, page_name_key
from localrag.exchange.wiki import WikiFolder, read_wiki
from localrag.exchange.wiki_pages import WikiPage
from localrag.project import Project
from localrag.query.answer_markdown import AnswerUnit, UnitKind, parse_units
from localrag.query.attribution import SupportCheck, alias_lookup, place_lookup, support_checker, unit_verdict
from localrag.query.retriever import retrieve
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Citation, Document, Quote
from localrag.store import documents
from localrag.text.outline import Outline
from localrag.text.sentences import collapse_whitespace, is_cjk, replace_control_characters

MAX_STATEMENTS = 200  # of a person that are checked; half a second each
PASSAGES_PER_STATEMENT = 6  # for a statement
MIN_WORDS, MIN_CJK_CHARS = 3, 6  # of a statement
MAX_CACHED_DOCUMENTS = 32
EDITED_TEXT = "the generated part is no longer as it was generated"
_QUOTED_FROM = re.compile(r"^>[ \t]*[—–-][ \t]*\[\[([^\[\]|#\n]{1,400})")
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|\n]{0,400})(?:\|([^\[\]\n]{0,400}))?\]\]")
_LINK = re.compile(r"\[([^\[\]\n]{0,400})\]\([^()\s]{1,400}\)")
_COMMENT = re.compile(r"%%.*?%%", re.DOTALL)
_NO_STATEMENT = re.compile(r"^[ \t]*(?:[-*+][ \t]+\[.\][ \t]|>).*$", re.MULTILINE)  # tasks, quotes, callouts
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


class WikiProblem(StrEnum):
    """What is wrong at a place of a wiki; the last three are of what a person wrote, with the names of an answer's sentences."""

    DEAD_QUOTE = "dead quote"
    EDITED = "edited"
    CONTRADICTED = CONTRADICTED_STATE
    UNSUPPORTED = UNSUPPORTED_STATE
    RELATED = RELATED_STATE


@dataclass(frozen=True, slots=True)
class WikiFinding:
    """A problem in a line of a page: the quote or statement; `citation`: the sentence that contradicts a statement or is nearest."""

    problem: WikiProblem
    path: str
    line: int
    text: str
    citation: Citation | None = None


@dataclass(frozen=True, slots=True)
class WikiCheckResult:
    """The problems of a wiki, by page and line; and counts of what was checked, and of statements that were not."""

    findings: tuple[WikiFinding, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WikiStatement:
    """A sentence, item or row that a person wrote in a line of a page; `antecedent`: the sentence that a pronoun in it may refer to."""

    path: str
    line: int
    subject: str
    unit: AnswerUnit
    antecedent: str


def check_wiki(project: Project, folder: Path, on_work: OnWork | None = None) -> WikiCheckResult:
    """Compare the pages of a wiki with the documents; `on_work` hears of the statements. Raises UsageError for a folder that is no wiki."""
    folder = folder.absolute()
    wiki = read_wiki(folder)
    if not wiki.pages:
        raise UsageError(f"{folder} holds no wiki.", f"Write one: localrag wiki {folder}")
    pages = sorted(wiki.pages.values(), key=lambda page: page.path)
    quotes = [(page, line, text, target) for page in pages for line, text, target in _page_quotes(page.text)]
    statements = [statement for page in pages for statement in _statements(page)]
    checked = statements[:MAX_STATEMENTS]
    check = support_checker(project.embedder.embed, alias_lookup(project.db), project.reader, place_lookup(project.db))
    found = [
        *_dead_quotes(quotes, wiki, project),
        *(WikiFinding(WikiProblem.EDITED, page.path, _edited_line(page), EDITED_TEXT) for page in pages if page.is_edited),
        *_unsupported(checked, check, project, on_work),
    ]
    counts = {"pages": len(pages), "quotes": len(quotes), "statements": len(checked)}
    counts["unchecked_statements"] = len(statements) - len(checked)
    return WikiCheckResult(tuple(sorted(found, key=lambda f: (f.path, f.line, f.problem, f.text))), counts)


def _edited_line(page: WikiPage) -> int:
    return page.text.count("\n", 0, page.block.start if page.block else 0) + 1


def _page_quotes(text: str) -> Iterator[tuple[int, str, str]]:
    """Number of the first line, text, and name of the source's page."""
    first, quoted = 0, list[str]()
    for n, line in enumerate(text.split("\n"), 1):
        if source := _QUOTED_FROM.match(line):
            if quoted:
                yield first, " ".join(quoted), source[1]
            quoted = []
        elif line.startswith(">"):
            first = first if quoted else n
            quoted.append(line[1:].strip())
        else:
            quoted = []


def _dead_quotes(quotes: list[tuple[WikiPage, int, str, str]], wiki: WikiFolder, project: Project) -> Iterator[WikiFinding]:
    """The quotes that do not stand in the document whose page they name."""
    by_name = {page_name_key(Path(page.path).stem): page for page in wiki.pages.values()}
    paths = {document_key(path): path for path in documents.document_paths(project.db).values()}

    @lru_cache(MAX_CACHED_DOCUMENTS)
    def text_of(key: str) -> str:
        return _one_line(documents.document_text(project.db, paths[key]) or "") if key in paths else ""

    for page, line, quote, target in sorted(quotes, key=lambda row: row[3]):
        source = by_name.get(page_name_key(target.strip().removesuffix("\\").rpartition("/")[2]))
        if source is None or not source.key.startswith("document:"):
            continue
        text, words = text_of(source.key), _one_line(quote)
        if not any(form in text for form in (words, _ESCAPED.sub(r"\1", words), words.strip("“”\"'"))):
            yield WikiFinding(WikiProblem.DEAD_QUOTE, page.path, line, _ESCAPED.sub(r"\1", words))


def _one_line(text: str) -> str:
    return collapse_whitespace(replace_control_characters(text))


def _statements(page: WikiPage) -> Iterator[WikiStatement]:
    if page.block is None:
        return
    heading = page.block.text.strip().partition("\n")[0].removeprefix("# ")
    subject = _ESCAPED.sub(r"\1", heading) if page.key.startswith("entity:") else ""
    for start, part in page.own_parts:
        yield from parse_statements(part, page.path, subject, page.text.count("\n", 0, start) + 1)


def parse_statements(text: str, path: str, subject: str, first_line: int) -> Iterator[WikiStatement]:
    """What a text states; not headings, tasks, code, comments, questions, and quotes with a source."""
    plain, position, previous = _plain(text), 0, ""
    for unit in parse_units(plain):
        position = max(position, plain.find(unit.text, position))
        if unit.kind in (UnitKind.SENTENCE, UnitKind.ROW) and _is_statement(unit.claim):
            antecedent = f"{subject} is here." if subject else previous  # a pronoun on the page of an entity means it
            yield WikiStatement(path, first_line + plain.count("\n", 0, position), subject, unit, antecedent)
            previous = unit.claim


def _is_statement(claim: str) -> bool:
    if claim.rstrip().endswith(("?", "？")):
        return False
    return len(claim) >= MIN_CJK_CHARS if is_cjk(claim) else len(claim.split()) >= MIN_WORDS


def _plain(text: str) -> str:
    """What a person wrote without comments, tasks and quotes; each line stays in its place."""
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), replace_control_characters(text))
    return _LINK.sub(r"\1", _WIKI_LINK.sub(lambda found: found[2] or found[1], _NO_STATEMENT.sub("", text)))


def _unsupported(statements: list[WikiStatement], check: SupportCheck, project: Project, on_work: OnWork | None) -> Iterator[WikiFinding]:
    """The statements that no passage of the documents proves, each with the sentence that contradicts it or is nearest."""

    @lru_cache(MAX_CACHED_DOCUMENTS)
    def opened(path: str) -> tuple[Document, Outline] | None:
        document = documents.find_document(project.db, path)
        return (document, Outline(document.text, document.blocks)) if document else None

    for n, statement in enumerate(statements, 1):
        state, quote = statement_verdict(statement, check, project)
        if on_work:
            on_work(n, len(statements))
        if state in (None, SUPPORTED_STATE):
            continue
        found = opened(documents.document_path(project.db, quote.chunk_id)) if quote else None
        citation = cite_document(*found, quote.start, quote.end, quote.chunk_id) if found and quote else None
        yield WikiFinding(WikiProblem(state), statement.path, statement.line, statement.unit.claim, citation)


def statement_verdict(statement: WikiStatement, check: SupportCheck, project: Project) -> tuple[str | None, Quote | None]:
    """The state of a statement, None if it claims nothing, and the quote that decides it."""
    claim, subject = statement.unit.claim, statement.subject
    question = claim if subject.casefold() in claim.casefold() else f"{subject}: {claim}"
    chunks = [chunk for chunk, _ in retrieve(question, project.embedder.embed([question])[0], project, PASSAGES_PER_STATEMENT)]
    passages = [Quote(chunk.id, chunk.start, chunk.end, chunk.text) for chunk in chunks]
    verdict = unit_verdict(statement.unit, (), passages, check, statement.antecedent)
    if verdict is None:
        return None, None
    return verdict.state, next(iter(verdict.quotes), None)
