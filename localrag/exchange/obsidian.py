"""Export as an Obsidian vault that keeps the user's text: a note for every document, entity and community, linked like the graph.

The front matter of a note says what it is about. A line divides the generated part above it from the user's part below. The line has a hash
of the part above, so that the user's edits there are detected, and such a note is left unchanged.

Texts are escaped so that they cannot become markup, links, tags or comments, and note names are valid on every file system.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from localrag.records import Report, content_id
from localrag.serializers import community_number
from localrag.store import browse, export_rows, graph
from localrag.text.sentences import collapse_whitespace, replace_control_characters

_FRONT = re.compile(r"\A---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"""^localrag: *["']?([\w:]+)["']?\s*$""", re.MULTILINE)
_DIVIDER = re.compile(r"^%% localrag ([0-9a-f]{20}): [^\n]*%%(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class VaultNote:
    """A note of an earlier export: its subject, its path below the vault, the user's text, and whether the generated part is unedited."""

    key: str
    path: str
    text: str
    user_text: str
    is_unedited: bool


def join_note(above: str, below: str = "") -> str:
    """A note: the generated part, the line, the user's part."""
    line = f"%% localrag {_hash(above)}: the next export regenerates the part above; what you write below is kept %%\n"
    return f"{above.strip()}\n\n{line}{below}"


def _hash(above: str) -> str:
    return content_id(above.strip())


def read_note(path: str, text: str) -> VaultNote | None:
    """A note of an earlier export; None for any other text."""
    text = text.replace("\r\n", "\n")
    front = _FRONT.match(text)
    key = _KEY.search(front[1]) if front else None
    if key is None:
        return None
    line = _DIVIDER.search(text)
    if line is None:  # the user removed it: the whole note is the user's
        return VaultNote(key[1], path, text, text, False)
    return VaultNote(key[1], path, text, text[line.end() :], _hash(text[: line.start()]) == line[1])


def read_notes(vault: Path) -> tuple[dict[str, VaultNote], list[str]]:
    """The notes of earlier exports by subject, wherever they were moved to, and the names of all other notes."""
    notes: dict[str, VaultNote] = {}
    other_names: list[str] = []
    for path in sorted(_markdown(vault)):
        try:
            note = read_note(path.relative_to(vault).as_posix(), path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            note = None
        if note is None or note.key in notes:  # a second one is a copy by the user
            other_names.append(path.stem)
        else:
            notes[note.key] = note
    return notes, other_names


def _markdown(vault: Path) -> Iterator[Path]:
    """The notes of a vault, without hidden folders."""
    if vault.is_dir():
        for path in vault.rglob("*.md"):
            if not any(part.startswith(".") for part in path.relative_to(vault).parts):
                yield path


def orphan_notes(notes: dict[str, VaultNote], now: Iterable[str]) -> tuple[list[str], list[str]]:
    """Notes whose subject no longer exists: the unedited ones to delete, and the edited ones to keep."""
    old = [notes[key] for key in sorted(notes.keys() - set(now))]
    deleted = [note.path for note in old if note.is_unedited and not note.user_text.strip()]
    return deleted, [note.path for note in old if note.path not in deleted]


_MARKUP = re.compile(r"[\\`*_\[\]<>#|%^~$]|==|^[-+](?=\s)|^\d+[.)](?=\s)")
_IN_LINK = str.maketrans({"[": "(", "]": ")", "|": "/", "\\": "/", "<": "‹", ">": "›"})


def escape_markdown(text: str) -> str:
    """A text on one line that Markdown shows unchanged."""
    return _MARKUP.sub(
        lambda found: "".join(c if c.isdigit() else f"\\{c}" for c in found[0]), collapse_whitespace(replace_control_characters(text))
    )


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


def front_matter(values: Mapping[str, Any]) -> str:
    """Properties of a note, as YAML."""
    import yaml

    cleaned = {replace_control_characters(k): _cleaned(v) for k, v in values.items()}
    return f"---\n{yaml.safe_dump(cleaned, allow_unicode=True, sort_keys=False, width=10**9)}---"


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return replace_control_characters(value).replace("[[", "((").replace("]]", "))")  # Obsidian follows links in properties, too
    return [_cleaned(v) for v in value] if isinstance(value, list) else value


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


def _key(name: str) -> str:
    """The key that is equal for two names that are one file on some file system."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())


class NoteNames:
    """Assigns names to notes, distinct on every file system; `taken` are names in use."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.of: dict[str, str] = {}
        self._taken = {_key(name) for name in taken}

    def reserve(self, key: str, name: str) -> None:
        """Reserve the name that a subject's note has already."""
        self.of[key] = name
        self._taken.add(_key(name))

    def assign(self, key: str, title: str) -> str:
        """The name of a subject's note: its present one, or a new one from its title, with a number if that is taken."""
        if key not in self.of:
            wanted = name = safe_file_name(title)
            n = 2
            while _key(name) in self._taken:
                name, n = f"{wanted} ({n})", n + 1
            self.reserve(key, name)
        return self.of[key]


MAX_QUOTES = 8  # of an entity
MAX_LINKS = 300  # in one list of a note, followed by how many more there are
HOME_NOTE = "home"
VaultRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VaultResult:
    """Counts of notes by kind; and the files of the vault that are of earlier exports, that are deleted, and that stay unchanged."""

    counts: dict[str, int]
    previous_files: list[str]
    deleted_files: list[str]
    edited_files: list[str]


@dataclass(frozen=True, slots=True)
class _Vault:
    """The data that all notes need: the index, the depth, each subject's note name, titles and numbers of communities."""

    db: Database
    level: int | None
    names: Mapping[str, str]
    communities: Mapping[str, VaultRow]


def write_vault(db: Database, folder: Path, vault: Path, level: int | None = None) -> VaultResult:
    """Write the notes that are new or differ from those in `vault` to `folder`, each with the user's text."""
    notes, other_names = read_notes(vault)
    names = NoteNames(other_names)
    for key, note in notes.items():
        names.reserve(key, Path(note.path).stem)
    communities = {row["id"]: row for row in browse.community_tree(db) if level is None or row["level"] <= level}
    _name_all(db, names, communities.values())
    made = _Vault(db, level, names.of, communities)
    counts = {"documents": 0, "entities": 0, "communities": 0}
    kept, seen = [], set()
    for kind, key, place, text in _notes(made):
        seen.add(key)
        if kind:
            counts[kind] += 1
        old = notes.get(key)
        if old and not old.is_unedited:
            kept.append(old.path)
        elif old is None or (new := join_note(text, old.user_text)) != old.text:
            target = folder / (old.path if old else f"{place}{names.of[key]}.md")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(new if old else join_note(text), encoding="utf-8", newline="\n")
    deleted, stay = orphan_notes(notes, seen)
    return VaultResult(counts, [note.path for note in notes.values()], deleted, kept + stay)


def _name_all(db: Database, names: NoteNames, communities: Iterable[VaultRow]) -> None:
    names.assign(HOME_NOTE, "Start here")
    for row in export_rows.document_titles(db):
        names.assign(f"document:{row['id']}", Path(row["path"]).name)
    for row in communities:
        names.assign(f"community:{row['id']}", f"{community_number(row)} {row['title'] or ''}")
    for key, title in export_rows.unique_entity_titles(db).items():
        names.assign(f"entity:{key}", title)


def _notes(vault: _Vault) -> Iterator[tuple[str, str, str, str]]:
    """Every note: its kind, its subject, its folder, its generated text."""
    yield "", HOME_NOTE, "", _home(vault)
    for row in export_rows.document_titles(vault.db):
        yield "documents", f"document:{row['id']}", "Documents/", _document(vault, row)
    reports = dict(_vault_reports(vault))
    for row in export_rows.communities(vault.db, vault.level):
        yield "communities", f"community:{row['id']}", "Communities/", _community(vault, row, reports.get(row["id"]))
    for row in export_rows.entities(vault.db):
        yield "entities", f"entity:{row['id']}", f"Entities/{safe_file_name(row['type'] or 'other')}/", _entity(vault, row)


def _vault_reports(vault: _Vault) -> Iterator[tuple[str, Report]]:
    for place, report in export_rows.reports(vault.db, vault.level):
        yield place["id"], report


def _link_to(vault: _Vault, kind: str, key: str, text: str = "") -> str:
    return wiki_link(vault.names[f"{kind}:{key}"], text)


def _home(vault: _Vault) -> str:
    counts = graph.counts(vault.db)
    top = [f"- {_note_title(vault, row)} ({row['entities']} entities)" for row in vault.communities.values() if row["level"] == 0]
    documents = [f"- {_link_to(vault, 'document', row['id'], row['path'])}" for row in export_rows.document_titles(vault.db)]
    counts_line = f"{counts['documents']} documents, {counts['entities']} entities, {counts['relationships']} relationships."
    parts = [
        front_matter({"localrag": HOME_NOTE}),
        "# Start here",
        counts_line,
        "## Communities",
        truncated_list(top, MAX_LINKS),
        "## Documents",
        truncated_list(documents, MAX_LINKS),
    ]
    return "\n\n".join(parts)


def _note_title(vault: _Vault, row: VaultRow) -> str:
    return _link_to(vault, "community", row["id"], row["title"] or f"Community {community_number(row)}")


def _document(vault: _Vault, row: VaultRow) -> str:
    front = {"localrag": f"document:{row['id']}", "kind": "document", "source": row["path"]}
    front |= {name: value for name, value in row["metadata"] if name not in front}
    entities = export_rows.entities_of_document(vault.db, row["id"], MAX_LINKS)
    names = graph.entities(vault.db, [m["id"] for m in entities])
    lines = [f"- {_link_to(vault, 'entity', e.id, e.name)} ({m['mentions']})" for e, m in zip(names, entities, strict=True)]
    listed = truncated_list(lines, MAX_LINKS, entities[0]["total"] if entities else 0)
    return "\n\n".join(
        [front_matter(front), f"# {escape_markdown(row['title'])}", f"Source: {escape_markdown(row['path'])}", "## Mentioned", listed]
    )


def _community(vault: _Vault, row: VaultRow, report: Report | None) -> str:
    title = report.title if report else f"Community {community_number(row)}"
    front = {
        "localrag": f"community:{row['id']}",
        "kind": "community",
        "number": community_number(row),
        "level": row["level"],
        "aliases": [title],
    }
    parts = [front_matter(front), f"# {escape_markdown(title)}"]
    if row["parent_id"]:
        parts.append(f"Part of {_note_title(vault, vault.communities[row['parent_id']])}")
    if report:
        parts += [escape_markdown(report.summary), *_findings(vault, report)]
    inner = [f"- {_note_title(vault, one)}" for one in vault.communities.values() if one["parent"] == row["id"]]
    members = graph.entities(vault.db, row["entity_ids"])
    entities = [f"- {_link_to(vault, 'entity', e.id, e.name)}" for e in sorted(members, key=lambda e: (-e.degree, e.name))]
    parts += ["## Parts", truncated_list(inner, MAX_LINKS)] if inner else []
    return "\n\n".join([*parts, "## Entities", truncated_list(entities, MAX_LINKS)])


def _findings(vault: _Vault, report: Report) -> Iterator[str]:
    for finding in report.findings:
        yield f"## {escape_markdown(finding.summary)}"
        yield escape_markdown(finding.explanation)
        for place in browse.locate_quotes(vault.db, finding.quotes):
            yield _quoted(vault, place, place["text"])


def _quoted(vault: _Vault, place: VaultRow, text: str) -> str:
    return format_quote(text, _link_to(vault, "document", place["document"], Path(place["path"]).name), place["part"])


def _entity(vault: _Vault, row: VaultRow) -> str:
    front = {"localrag": f"entity:{row['id']}", "kind": "entity", "type": row["type"], "aliases": sorted({row["name"], *row["names"]})}
    parts = [front_matter(front | {"mentions": row["mentions"]}), f"# {escape_markdown(row['name'])}"]
    parts += [escape_markdown(row["description"])] * bool(row["description"])
    related = browse.neighbours(vault.db, row["id"], MAX_LINKS)
    lines = [f"- {_link_to(vault, 'entity', r['entity']['id'], r['entity']['name'])}{_relationship_line(r)}" for r in related]
    parts += ["## Related", truncated_list(lines, MAX_LINKS, row["degree"])] if lines else []
    claims = [f"- {escape_markdown(c.description)} ({escape_markdown(c.type)}, {c.status})" for c in graph.claims(vault.db, [row["id"]])]
    parts += ["## Claims", truncated_list(claims, MAX_LINKS)] if claims else []
    quotes = export_rows.first_mention_quotes(vault.db, row["id"], MAX_QUOTES)
    parts += ["## Quotes", *(_quoted(vault, place, place["quote"]) for place in quotes)] if quotes else []
    inside = [c for c in browse.communities_of(vault.db, row["id"]) if c["id"] in vault.communities]
    parts += (
        ["## Communities", truncated_list([f"- {_note_title(vault, vault.communities[c['id']])}" for c in inside], MAX_LINKS)]
        if inside
        else []
    )
    return "\n\n".join(parts)


def _relationship_line(relationship: VaultRow) -> str:
    description = relationship["description"] or " ".join(relationship["descriptions"][:1])
    return f" ({relationship['weight']:g})" + (f": {escape_markdown(description)}" if description else "")
