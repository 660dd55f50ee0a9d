"""Pages for Obsidian, linked like the graph; texts are escaped so that they cannot become markup, links, tags or comments."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.exchange.wiki_pages import GeneratedPage
from localrag.records import Report, content_id
from localrag.store import browse, export_rows, graph
from localrag.text.markdown import escape_markdown
from localrag.text.sentences import collapse_whitespace, replace_control_characters

_IN_LINK = str.maketrans({"[": "(", "]": ")", "|": "/", "\\": "/", "<": "‹", ">": "›"})


def wiki_link(note: str, text: str = "") -> str:
    """A link to a note by its name; shown as `text` if that differs."""
    shown = collapse_whitespace(replace_control_characters(text)).translate(_IN_LINK)
    return f"[[{note}|{shown}]]" if shown and shown != note else f"[[{note}]]"


def format_quote(text: str, source: str, part: str = "") -> str:
    """A quote of a document, with the link to it and the part (page, slide) it is in."""
    return f"> {escape_markdown(text)}\n> — {source}" + (f", {escape_markdown(part)}" if part else "")


def truncated_list(lines: Sequence[str], limit: int, total: int = 0) -> str:
    """A list of at most `limit` lines, followed by how many more there are of `total`."""
    remaining = max(total, len(lines)) - min(len(lines), limit)
    return "\n".join([*lines[:limit], *([f"- … and {remaining} more"] if remaining else [])])


MAX_NAME_CHARS = 120  # characters
MAX_NAME_BYTES = 200  # in UTF-8; file systems allow 255, of which the ending and a number need some
_BAD = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]+|%%')
_FILE_SUFFIX = re.compile(r"\.([A-Za-z0-9]{1,5})$")  # a link to `notes.md` or `plan.pdf` would lead to a file of that kind
_RESERVED_NAMES = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in "0123456789¹²³")}


def safe_file_name(text: str) -> str:
    """A file name without ending for a title: without anything that Windows, macOS, Linux or Obsidian forbid; never empty."""
    name = unicodedata.normalize("NFC", collapse_whitespace(_BAD.sub(" ", replace_control_characters(text))))
    name = _FILE_SUFFIX.sub(r" (\1)", name.strip(". "))
    name = name[:MAX_NAME_CHARS].encode()[:MAX_NAME_BYTES].decode("utf-8", "ignore").strip(". ")
    if name.partition(".")[0].strip().casefold() in _RESERVED_NAMES:
        name = f"_{name}"
    return name or "Unnamed"


def page_name_key(name: str) -> str:
    """The key that is equal for two names that are one file on some file system."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


class PageNames:
    """Assigns names to pages, distinct on every file system; `taken` are names in use."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.of: dict[str, str] = {}
        self._taken = {page_name_key(name) for name in taken}

    def reserve(self, key: str, name: str) -> None:
        """Reserve the name that a subject's page has already."""
        self.of[key] = name
        self._taken.add(page_name_key(name))

    def assign(self, key: str, title: str) -> str:
        """The name of a subject's page: its present one, or a new one from its title, with a number if that is taken."""
        if key not in self.of:
            wanted = name = safe_file_name(title)
            n = 2
            while page_name_key(name) in self._taken:
                name, n = f"{wanted} ({n})", n + 1
            self.reserve(key, name)
        return self.of[key]


MAX_QUOTES = 8  # of an entity
MAX_LINKS = 300  # in one list of a page, followed by how many more there are
HOME_PAGE = "home"
PageRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Vault:
    db: Database
    names: Mapping[str, str]
    communities: Mapping[str, PageRow]


def page_titles(db: Database) -> dict[str, str]:
    """The subject of every page, with the title that a new page is called by."""
    titles = {HOME_PAGE: "Start here"}
    titles |= {f"entity:{key}": title for key, title in export_rows.unique_entity_titles(db).items()}  # with the first choice of names
    titles |= {document_key(row["path"]): Path(row["path"]).name for row in export_rows.document_titles(db)}
    return titles | {f"community:{key}": row["title"] for key, row in _communities(db).items()}


def document_key(path: str) -> str:
    """Return the subject of a document's page; the id of a document changes with its text."""
    return f"document:{content_id(path)}"


def vault_pages(db: Database, names: Mapping[str, str]) -> Iterator[GeneratedPage]:
    """Every page; `names`: subject → name of its page."""
    vault = _Vault(db, names, _communities(db))
    yield GeneratedPage(HOME_PAGE, "", "", {"localrag": HOME_PAGE}, _home(vault))
    for row in export_rows.document_titles(db):
        yield _document(vault, row)
    reports = {place["id"]: report for place, report in export_rows.reports(db)}
    for row in (row for row in export_rows.communities(db) if row["id"] in vault.communities):
        yield _community(vault, row, reports.get(row["id"]))
    for row in export_rows.entities(db):
        yield _entity(vault, row)


def _communities(db: Database) -> dict[str, PageRow]:
    """The communities that differ from their parent."""
    rows: dict[str, PageRow] = {}
    shown: dict[str, str] = {}
    for row in browse.community_tree(db):
        parent = shown.get(row["parent"] or "")
        is_same = parent is not None and rows[parent]["entities"] == row["entities"]
        shown[row["id"]] = parent if parent is not None and is_same else row["id"]
        if not is_same:
            rows[row["id"]] = row | {"parent": parent}
    return rows


def _link_to(vault: _Vault, kind: str, key: str, text: str = "") -> str:
    return wiki_link(vault.names[f"{kind}:{key}"], text)


def _document_link(vault: _Vault, path: str, text: str) -> str:
    return wiki_link(vault.names[document_key(path)], text)


def _home(vault: _Vault) -> str:
    counts = graph.counts(vault.db)
    top = [f"- {_theme_link(vault, row)} ({row['entities']} entities)" for row in vault.communities.values() if row["level"] == 0]
    documents = [f"- {_document_link(vault, row['path'], row['path'])}" for row in export_rows.document_titles(vault.db)]
    counts_line = f"{counts['documents']} documents, {counts['entities']} entities, {counts['relationships']} relationships."
    parts = ["# Start here", counts_line, "## Communities", truncated_list(top, MAX_LINKS)]
    return "\n\n".join([*parts, "## Documents", truncated_list(documents, MAX_LINKS)])


def _theme_link(vault: _Vault, row: PageRow) -> str:
    return _link_to(vault, "community", row["id"], row["title"])


def _document(vault: _Vault, row: PageRow) -> GeneratedPage:
    front = {"localrag": document_key(row["path"]), "kind": "document", "source": row["path"]}
    front |= {name: value for name, value in row["metadata"] if name not in front}
    entities = export_rows.entities_of_document(vault.db, row["id"], MAX_LINKS)
    names = graph.entities(vault.db, [m["id"] for m in entities])
    lines = [f"- {_link_to(vault, 'entity', e.id, e.name)} ({m['mentions']})" for e, m in zip(names, entities, strict=True)]
    listed = truncated_list(lines, MAX_LINKS, entities[0]["total"] if entities else 0)
    text = "\n\n".join([f"# {escape_markdown(row['title'])}", f"Source: {escape_markdown(row['path'])}", "## Mentioned", listed])
    return GeneratedPage(front["localrag"], "documents", "Documents/", front, text)


def _community(vault: _Vault, row: PageRow, report: Report | None) -> GeneratedPage:
    title, parent = (vault.communities[row["id"]][name] for name in ("title", "parent"))
    front = {"localrag": f"community:{row['id']}", "kind": "community", "level": row["level"], "aliases": [title]}
    parts = [f"# {escape_markdown(title)}"]
    if parent:
        parts.append(f"Part of {_theme_link(vault, vault.communities[parent])}")
    if report:
        parts += [escape_markdown(report.summary), *_findings(vault, report)]
    inner = [f"- {_theme_link(vault, one)}" for one in vault.communities.values() if one["parent"] == row["id"]]
    members = graph.entities(vault.db, row["entity_ids"])
    entities = [f"- {_link_to(vault, 'entity', e.id, e.name)}" for e in sorted(members, key=lambda e: (-e.degree, e.name))]
    parts += ["## Parts", truncated_list(inner, MAX_LINKS)] if inner else []
    parts += ["## Entities", truncated_list(entities, MAX_LINKS)]
    return GeneratedPage(front["localrag"], "communities", "Communities/", front, "\n\n".join(parts))


def _findings(vault: _Vault, report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield f"## {escape_markdown(finding.summary)}"
        yield escape_markdown(finding.explanation)
        for place in browse.locate_quotes(vault.db, finding.quotes):
            if browse.text_window(vault.db, place["document"], place["start"], place["end"]) == place["text"]:
                yield _quoted(vault, place, place["text"])


def _quoted(vault: _Vault, place: PageRow, text: str) -> str:
    return format_quote(text, _document_link(vault, place["path"], Path(place["path"]).name), place["part"])


def _entity(vault: _Vault, row: PageRow) -> GeneratedPage:
    front = {"localrag": f"entity:{row['id']}", "kind": "entity", "type": row["type"], "aliases": sorted({row["name"], *row["names"]})}
    parts = [f"# {escape_markdown(row['name'])}"]
    parts += [escape_markdown(row["description"])] * bool(row["description"])
    related = browse.neighbours(vault.db, row["id"], MAX_LINKS)
    lines = [f"- {_link_to(vault, 'entity', r['entity']['id'], r['entity']['name'])}{_relationship_line(r)}" for r in related]
    parts += ["## Related", truncated_list(lines, MAX_LINKS, row["degree"])] if lines else []
    claims = [f"- {escape_markdown(c.description)} ({escape_markdown(c.type)}, {c.status})" for c in graph.claims(vault.db, [row["id"]])]
    parts += ["## Claims", truncated_list(claims, MAX_LINKS)] if claims else []
    quotes = export_rows.first_mention_quotes(vault.db, row["id"], MAX_QUOTES)
    parts += ["## Quotes", *(_quoted(vault, place, place["quote"]) for place in quotes)] if quotes else []
    inside = [vault.communities[c["id"]] for c in browse.communities_of(vault.db, row["id"]) if c["id"] in vault.communities]
    parts += ["## Communities", truncated_list([f"- {_theme_link(vault, one)}" for one in inside], MAX_LINKS)] if inside else []
    folder = f"Entities/{safe_file_name(row['type'] or 'other')}/"
    return GeneratedPage(f"entity:{row['id']}", "entities", folder, front | {"mentions": row["mentions"]}, "\n\n".join(parts))


def _relationship_line(relationship: PageRow) -> str:
    description = relationship["description"] or " ".join(relationship["descriptions"][:1])
    return f" ({relationship['weight']:g})" + (f": {escape_markdown(description)}" if description else "")
