"""Documents as a BibTeX bibliography."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from localrag.query.collection_questions import own_date
from localrag.records import Document, content_id, format_path
from localrag.text.sentences import STOP_WORDS, collapse_whitespace, replace_control_characters

# Braces must balance even where they are escaped, so that commands stand for them.
_SPECIAL = str.maketrans(
    {c: f"\\{c}" for c in "$&#_%"}
    | {"{": r"\textbraceleft{}", "}": r"\textbraceright{}", "\\": r"\textbackslash{}"}
    | {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)
_URL = re.compile(r"https?://[^\s{}\\\"<>^`|]{1,2000}")
_YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d)(?!\d)")
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?")
_ADDRESS = re.compile(r"(?<!\s)\s*<[^<>@\s]{1,200}@[^<>\s]{1,200}>")
_KEY_WORD = re.compile(r"[a-z0-9]+")
MAX_KEY_PART_CHARS = 20


def escape_tex(text: str) -> str:
    """A text on one line that TeX prints unchanged."""
    return collapse_whitespace(replace_control_characters(text)).translate(_SPECIAL)


def sources_to_bibtex(documents: Iterable[Document]) -> str:
    """An entry for each document, by path: @article in a journal, @online with an address, else @misc.

    The key of an entry depends on its document alone, so that it stays the same when others are added.
    """
    entries: dict[str, str] = {}
    for document in sorted(documents, key=lambda d: d.path):
        key = citation_key(document)
        digest = content_id(document.path)
        while key in entries:  # another path with the same digits
            key, digest = key + digest[4], digest[1:]
        entries[key] = _entry(key, document)
    return "\n".join(entries.values())


def citation_key(document: Document) -> str:
    """Family name, year and first word of the title, as far as they are known, and four digits that the path gives: `holm1974ferry3fa2`."""
    values = dict(document.metadata)
    title_words = [w for w in _ascii_words(document.title or PurePosixPath(document.path).stem) if w not in STOP_WORDS]
    names = _authors(values.get("author", ""))
    family = _ascii_words(_family_name(names[0])) if names else []
    parts = ("".join(family)[:MAX_KEY_PART_CHARS], _year(document), (title_words or ["document"])[0][:MAX_KEY_PART_CHARS])
    return "".join(parts) + content_id(document.path)[:4]


def _ascii_words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return _KEY_WORD.findall(plain)


def _year(document: Document) -> str:
    found = _YEAR.search(_date(document))
    return found[1] if found else ""


def _date(document: Document) -> str:
    """The date of a document; not when its file was last changed, which is no year of publication."""
    own = own_date(document.path, document.title, document.date, document.date_source)
    return own or dict(document.metadata).get("date", "")


def _authors(text: str) -> list[str]:
    """The names in an author field: between semicolons, `and` or `&`; between commas, too, if each part has several words."""
    text = collapse_whitespace(_ADDRESS.sub("", replace_control_characters(text)))
    names = [name.strip(" ,") for name in re.split(r";| and | & | und ", text)]
    apart = [name.strip() for name in names[0].split(",")] if len(names) == 1 else []
    return apart if len(apart) > 1 and all(" " in name for name in apart) else [name for name in names if name]


def _family_name(name: str) -> str:
    return name.partition(",")[0] if "," in name else name.rpartition(" ")[2]


def _entry(key: str, document: Document) -> str:
    values = dict(document.metadata)
    url = next((found[0] for name in ("url", "source", "link") if (found := _URL.match(values.get(name, "")))), "")
    kind = "article" if values.get("journal") else "online" if url else "misc"
    date = _date(document)
    fields: Mapping[str, str] = {
        "title": f"{{{escape_tex(document.title or PurePosixPath(document.path).name)}}}",
        "author": " and ".join(escape_tex(name) for name in _authors(values.get("author", ""))),
        "journal": escape_tex(values.get("journal", "")),
        "year": _year(document),
        "date": date if _DATE.fullmatch(date) else "",
        "doi": escape_tex(values.get("doi", "")),
        "url": url,
        "howpublished": escape_tex(format_path(document.path)),
        "keywords": escape_tex(values.get("keywords", "")),
    }
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@{kind}{{{key},\n{lines}}}\n"
