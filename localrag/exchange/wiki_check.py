"""Checks of a wiki against the documents of its index: dead quotes, links to missing pages, edited pages, and what a person wrote.

Nothing is written. Sentences of a person are checked like those of an answer: against the passages that retrieval finds for them. They are
also compared with each other, on all pages.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import numpy as np

from localrag.analysis.reading import entailments
from localrag.analysis.tables import OnWork, cite_document
from localrag.entailment import parse_sentence
from localrag.entailment.normalization import normalize_sentence
from localrag.errors import ModelError, UsageError
from localrag.exchange.obsidian import page_name_key
from localrag.exchange.wiki import WikiFolder, read_wiki
from localrag.exchange.wiki_pages import WikiPage
from localrag.project import Project
from localrag.query.answer_markdown import AnswerUnit, UnitKind, parse_units
from localrag.query.attribution import SupportCheck, alias_lookup, place_lookup, support_checker, unit_verdict
from localrag.query.retriever import retrieve
from localrag.records import CONTRADICTED_STATE, RELATED_STATE, SUPPORTED_STATE, UNSUPPORTED_STATE, Citation, Document, Quote
from localrag.store import documents
from localrag.text.outline import Outline
from localrag.text.sentences import cached_sentences, collapse_whitespace, is_cjk, replace_control_characters

MAX_STATEMENTS = 200  # of a person that are checked; half a second each
PASSAGES_PER_STATEMENT = 6  # for a statement
# What the rules do not prove is right if the reader is sure of it: on half of the statements of scripts/measure/wiki_check.py, from this
# probability on, it was right about one more and wrong about none, and on the other half right about two.
NEAREST_SENTENCES, MIN_ENTAILED = 8, 0.8
NEAREST_STATEMENTS = 5  # of the person's others, that a statement is compared with
MIN_WORDS, MIN_CJK_CHARS = 3, 6  # of a statement
MAX_CACHED_DOCUMENTS = 32
EDITED_TEXT = "the generated part is no longer as it was generated"
_QUOTED_FROM = re.compile(r"^>[ \t]*[—–-][ \t]*\[\[([^\[\]|#\n]{1,400})")
_WIKI_LINK = re.compile(r"(?<!\\)\[\[([^\[\]|#^\n]{0,400})(?:[#^][^\[\]|\n]{0,400})?(?:\|([^\[\]\n]{0,400}))?\]\]")
_LINK = re.compile(r"(?<!\\)\[([^\[\]\n]{0,400})\]\(<?([^()<>\s]{1,400})>?\)")
_COMMENT = re.compile(r"%%.*?%%", re.DOTALL)
_EMBED = re.compile(r"!\[\[[^\[\]\n]{0,800}\]\]")
_TAG = re.compile(r"(?<!\S)#[^\s#]{1,100}")
_BLOCK_ID = re.compile(r"[ \t]\^[\w-]{1,60}[ \t]*$", re.MULTILINE)
_TASK = re.compile(r"^[ \t>]*[-*+][ \t]+\[.\][ \t].*$", re.MULTILINE)
_CALLOUT = re.compile(r"^[ \t>]*>[ \t]*\[![^\]\n]{1,40}\].*$", re.MULTILINE)
_POSSESSIVES = ("His", "Her", "Its", "Their")
_PRONOUN = re.compile(rf"(?:He|She|It|They|{'|'.join(_POSSESSIVES)})\b")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


class WikiProblem(StrEnum):
    """What is wrong at a place of a wiki; the last four are of what a person wrote, three with the names of an answer's sentences."""

    DEAD_QUOTE = "dead quote"
    MISSING_PAGE = "missing page"
    EDITED = "edited"
    CONFLICTING = "conflicting"
    CONTRADICTED = CONTRADICTED_STATE
    UNSUPPORTED = UNSUPPORTED_STATE
    RELATED = RELATED_STATE


@dataclass(frozen=True, slots=True)
class WikiLine:
    """What a person wrote in a line of a page."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class WikiFinding:
    """A problem in a line of a page: the quote, link or statement.

    `citation`: the sentence of a document that contradicts a statement or is nearest; `other`: the statement of a person that conflicts
    with it.
    """

    problem: WikiProblem
    path: str
    line: int
    text: str
    citation: Citation | None = None
    other: WikiLine | None = None


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
    """Compare the pages of a wiki with the documents; `on_work` hears of the statements that are checked.

    Raises UsageError if the folder has no page of a wiki.
    """
    folder = folder.absolute()
    wiki = read_wiki(folder)
    if not wiki.pages:
        raise UsageError(f"{folder} holds no wiki.", f"Write one: localrag wiki {folder}")
    pages = sorted(wiki.pages.values(), key=lambda page: page.path)
    quotes = [(page, line, text, target) for page in pages for line, text, target in _page_quotes(page.text)]
    links = [(page, line, target) for page in pages for line, target in _page_links(page.text)]
    statements = [statement for page in pages for statement in _statements(page)]
    checked = statements[:MAX_STATEMENTS]
    check = support_checker(project.embedder.embed, alias_lookup(project.db), project.reader, place_lookup(project.db))
    found = [
        *_dead_quotes(quotes, wiki, project),
        *_missing_pages(links, folder),
        *(WikiFinding(WikiProblem.EDITED, page.path, _edited_line(page), EDITED_TEXT) for page in pages if page.is_edited),
        *_unsupported(checked, check, project, on_work),
        *conflicting_statements(checked, check, project),
    ]
    counts = {"pages": len(pages), "quotes": len(quotes), "links": len(links), "statements": len(checked)}
    counts["unchecked_statements"] = len(statements) - len(checked)
    return WikiCheckResult(tuple(sorted(found, key=lambda f: (f.path, f.line, f.problem, f.text))), counts)


def _edited_line(page: WikiPage) -> int:
    return page.text.count("\n", 0, page.block.start if page.block else 0) + 1


def _page_quotes(text: str) -> Iterator[tuple[int, str, str]]:
    """The quotes of a page that name their source: number of the first line, text, name of the page of the source."""
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
    paths = documents.document_paths(project.db)

    @lru_cache(MAX_CACHED_DOCUMENTS)
    def text_of(source: WikiPage) -> str:
        known = [*source.names, paths.get(source.key.partition(":")[2], "")]
        return _one_line(next(filter(None, (documents.document_text(project.db, path) for path in known)), ""))

    for page, line, quote, target in sorted(quotes, key=lambda row: row[3]):
        source = by_name.get(page_name_key(_last_part(target)))
        if source is None or not source.key.startswith("document:"):
            continue
        text, words = text_of(source), _one_line(quote)
        if not any(form in text for form in (words, _ESCAPED.sub(r"\1", words), words.strip("“”\"'"))):
            yield WikiFinding(WikiProblem.DEAD_QUOTE, page.path, line, _ESCAPED.sub(r"\1", words))


def _one_line(text: str) -> str:
    return collapse_whitespace(replace_control_characters(text))


def _last_part(target: str) -> str:
    return target.strip().removesuffix("\\").rpartition("/")[2].removesuffix(".md")


def _page_links(text: str) -> Iterator[tuple[int, str]]:
    """The links of a page to other files of the folder: number of the line, target."""
    for n, line in enumerate(text.split("\n"), 1):
        plain = re.sub(r"`[^`\n]*`", "", line)
        yield from ((n, target) for found in _WIKI_LINK.finditer(plain) if (target := found[1].strip()))
        for found in _LINK.finditer(plain):
            target = _percent_decoded(found[2]).partition("#")[0]
            if target and "://" not in target and not target.startswith(("mailto:", "/", "#")):
                yield n, target


def _percent_decoded(target: str) -> str:
    data = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), target.encode("utf-8", "replace"))
    return data.decode("utf-8", "replace")


def _missing_pages(links: list[tuple[WikiPage, int, str]], folder: Path) -> Iterator[WikiFinding]:
    """The links that lead to no file of the folder; as in Obsidian, the name of a file is enough, in whatever case."""
    files = [path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    names = {page_name_key(name) for path in files for name in (path.name, path.name.removesuffix(".md"))}
    for page, line, target in links:
        if page_name_key(_last_part(target)) not in names and page_name_key(target.rpartition("/")[2]) not in names:
            yield WikiFinding(WikiProblem.MISSING_PAGE, page.path, line, target)


def _statements(page: WikiPage) -> Iterator[WikiStatement]:
    """What a person states on a page outside of the generated part."""
    subject = page.names[0] if page.key.startswith("entity:") else ""
    for start, part in page.own_parts if page.block else ():
        yield from parse_statements(part, page.path, subject, page.text.count("\n", 0, start) + 1)


def parse_statements(text: str, path: str, subject: str, first_line: int) -> Iterator[WikiStatement]:
    """What a text states; not headings, tasks, code, comments, questions, and quotes with a source."""
    plain, position, previous = _plain(text), 0, ""
    for unit in parse_units(plain):
        position = max(position, plain.find(unit.text, position))
        if unit.kind in (UnitKind.SENTENCE, UnitKind.ROW) and _is_statement(unit.claim):
            antecedent = previous or (f"{subject} is here." if subject else "")  # a sentence whose subject it is
            yield WikiStatement(path, first_line + plain.count("\n", 0, position), subject, unit, antecedent)
            previous = "" if _PRONOUN.match(unit.claim) else unit.claim


def _is_statement(claim: str) -> bool:
    if claim.rstrip().endswith(("?", "？")):
        return False
    return len(claim) >= MIN_CJK_CHARS if is_cjk(claim) else len(claim.split()) >= MIN_WORDS


def _plain(text: str) -> str:
    """What a person wrote without what states nothing; each line stays in its place."""
    lines = replace_control_characters(text).split("\n")
    for first, _, _ in _page_quotes("\n".join(lines)):
        n = first - 1
        while n < len(lines) and lines[n].startswith(">"):
            is_source = _QUOTED_FROM.match(lines[n]) is not None
            lines[n], n = "", n + 1
            if is_source:
                break
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), "\n".join(lines))
    for pattern in (_TASK, _CALLOUT, _EMBED, _BLOCK_ID, _TAG):
        text = pattern.sub("", text)
    return _LINK.sub(r"\1", _WIKI_LINK.sub(lambda found: found[2] or found[1], text))


def _unsupported(statements: list[WikiStatement], check: SupportCheck, project: Project, on_work: OnWork | None) -> Iterator[WikiFinding]:
    """The statements that no passage of the documents proves, each with the sentence that contradicts it or is nearest."""

    @lru_cache(MAX_CACHED_DOCUMENTS)
    def opened(path: str) -> tuple[Document, Outline] | None:
        document = documents.find_document(project.db, path)
        return (document, Outline(document.text)) if document else None

    for n, statement in enumerate(statements, 1):
        state, quote = statement_verdict(statement, check, project)
        if on_work:
            on_work(n, len(statements))
        if state in (None, SUPPORTED_STATE):
            continue
        found = opened(documents.document_path(project.db, quote.chunk_id)) if quote else None
        citation = cite_document(*found, quote.start, quote.end, quote.chunk_id) if found and quote else None
        yield WikiFinding(WikiProblem(state), statement.path, statement.line, statement.unit.claim, citation)


def conflicting_statements(statements: Sequence[WikiStatement], check: SupportCheck, project: Project) -> Iterator[WikiFinding]:
    """The statements that an earlier one about the same names contradicts."""
    if len(statements) < 2:
        return
    texts = [_with_subject(statement.unit.claim, statement.subject) for statement in statements]
    names, vectors = [_names_of(text) for text in texts], project.embedder.embed(texts)
    for n, statement in enumerate(statements[1:], 1):
        for i in np.argsort(-(vectors[:n] @ vectors[n]), kind="stable")[:NEAREST_STATEMENTS]:
            if names[i].isdisjoint(names[n]):
                continue
            verdict = check(texts[n], (Quote("", 0, len(texts[i]), texts[i]),), ())
            # Another number, date or negation is no conflict if each sentence names somebody whom the other does not.
            is_about_same = names[i] <= names[n] or names[n] <= names[i] or verdict.why.startswith("name")
            if verdict.state == CONTRADICTED_STATE and is_about_same:
                other = statements[i]
                earlier = WikiLine(other.path, other.line, other.unit.claim)
                yield WikiFinding(WikiProblem.CONFLICTING, statement.path, statement.line, statement.unit.claim, other=earlier)
                break


def statement_verdict(statement: WikiStatement, check: SupportCheck, project: Project) -> tuple[str | None, Quote | None]:
    """The state of a statement, None if it claims nothing, and the quote that decides it."""
    claim, subject = statement.unit.claim, statement.subject
    question = claim if subject.casefold() in claim.casefold() else f"{subject}: {claim}"
    chunks = [chunk for chunk, _ in retrieve(question, project.embedder.embed([question])[0], project, PASSAGES_PER_STATEMENT)]
    passages = [Quote(chunk.id, chunk.start, chunk.end, chunk.text) for chunk in chunks]
    verdict = unit_verdict(statement.unit, (), passages, check, statement.antecedent)
    if verdict is None:
        return None, None
    if verdict.state in (RELATED_STATE, UNSUPPORTED_STATE) and _is_entailed(_with_subject(claim, subject), passages, project):
        return SUPPORTED_STATE, None
    return verdict.state, next(iter(verdict.quotes), None)


def _with_subject(claim: str, subject: str) -> str:
    """A sentence with the subject of its page in place of a pronoun at its beginning."""
    found = _PRONOUN.match(claim)
    if not subject or found is None:
        return claim
    return subject + "’s" * (found[0] in _POSSESSIVES) + claim[found.end() :]


def _is_entailed(claim: str, passages: Sequence[Quote], project: Project) -> bool:
    """Whether the reader is sure that one of the nearest sentences of some passages, which has all figures of a claim, entails it."""
    if project.reader is None:
        return False
    found = [p.text[start:end] for p in passages for start, end in cached_sentences(p.text)]
    sentences = list(dict.fromkeys(map(collapse_whitespace, found)))
    vectors = project.embedder.embed([claim, *sentences])
    nearest = (sentences[n] for n in np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")[:NEAREST_SENTENCES])
    figures = _numbers_of(claim)
    pairs = [(sentence, claim) for sentence in nearest if figures <= _numbers_of(sentence)]
    try:
        return any(e.entailed >= MIN_ENTAILED for e in entailments(pairs, project))
    except ModelError:  # then the rules alone decide, as for an answer
        return False


def _names_of(text: str) -> set[str]:
    return {word.text for word in parse_sentence(normalize_sentence(text)).words if word.kind == "name"}


def _numbers_of(text: str) -> set[str]:
    return {word.text for word in parse_sentence(normalize_sentence(text)).words if word.figure}
