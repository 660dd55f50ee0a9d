"""A wiki that is kept up to date: a page says itself what is known of it, so it may be moved, and what a person wrote stays."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlite_utils import Database

from localrag.exchange.export_folder import (
    check_filled,
    check_folder,
    check_outside_index,
    move_into_place,
    staging_folder,
)
from localrag.exchange.obsidian import PageNames, page_titles, vault_pages
from localrag.exchange.wiki_pages import GeneratedPage, WikiPage, encode_text, new_page, parse_page, read_text, updated_page
from localrag.project import OpenIndex
from localrag.store.database import snapshot

PAGE_FOLDERS = ("Entities/", "Documents/", "Communities/")  # of new pages
GONE_TEXT = "> [!warning] No longer in the documents\n> This page is kept because you wrote in it."


@dataclass(frozen=True, slots=True)
class WikiResult:
    """The outcome of an update: counts of pages by kind, and paths of pages below the folder.

    `written`: new and changed ones. `deleted`: those whose subject is gone and that nobody wrote in; `gone`: those whose subject is gone
    and that were kept. `edited`: those whose generated part a person changed, so that it stays. `busy`: those that another program changed
    meanwhile; the next update writes them.
    """

    path: Path
    counts: Mapping[str, int]
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


@dataclass(slots=True)
class WikiFolder:
    """The pages in a folder by subject, the names of all other notes in it, and the state of each file when it was read."""

    pages: dict[str, WikiPage] = field(default_factory=dict)
    other_names: list[str] = field(default_factory=list)
    states: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_wiki(folder: Path) -> WikiFolder:
    """Read the pages of a folder, wherever they were moved to. Of two pages of one subject, that with a longer name is a copy."""
    wiki = WikiFolder()
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.md")] if folder.is_dir() else []
    for name in sorted(names, key=lambda name: (not name.startswith(PAGE_FOLDERS), len(name), name)):
        if any(part.startswith(".") for part in name.split("/")):
            continue
        try:
            wiki.states[name] = _file_state(folder / name)
            page = parse_page(name, read_text(folder / name))
        except OSError:
            page = None
        if page is None or page.key in wiki.pages:
            wiki.other_names.append(Path(name).stem)
        else:
            wiki.pages[page.key] = page
    return wiki


def _file_state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def update_wiki(opened: OpenIndex, folder: Path, *, force: bool = False) -> WikiResult:
    """Write the wiki of an index to a folder, or bring it up to date; another process may write to the index meanwhile.

    `force` writes into a folder with other files, none of which is changed. Raises UsageError for a folder that is no wiki and not empty,
    NoIndex, LocalragError.
    """
    folder = folder.absolute()
    check_outside_index(folder, opened.folder)
    wiki = read_wiki(folder)
    check_folder(folder, force=force or bool(wiki.pages))
    with snapshot(opened.folder) as db:
        check_filled(db)
        titles = page_titles(db)
        names = PageNames(wiki.other_names)
        for key, page in wiki.pages.items():
            names.reserve(key, Path(page.path).stem)
        for key, title in titles.items():
            names.assign(key, title)
        with staging_folder(folder) as inner:
            result = _write_pages(db, wiki, names, folder, inner)
            replaceable = [page.path for page in wiki.pages.values()]
            files = move_into_place(inner, folder, replaceable, result.deleted)
    return replace(result, written=tuple(files))


def _write_pages(db: Database, wiki: WikiFolder, names: PageNames, folder: Path, inner: Path) -> WikiResult:
    counts = {"documents": 0, "entities": 0, "communities": 0}
    edited, seen = [], set()
    for page in vault_pages(db, names.of):
        seen.add(page.key)
        if page.kind:
            counts[page.kind] += 1
        old = wiki.pages.get(page.key)
        if old is None:
            _write_page(inner / f"{page.folder}{names.of[page.key]}.md", new_page(page))
            continue
        _update(old, page, inner)
        edited += [old.path] * old.is_edited
    gone = [page for key, page in sorted(wiki.pages.items()) if key not in seen]
    deleted = [page.path for page in gone if page.is_only_generated]
    kept = [page for page in gone if page.path not in deleted]
    for old in kept:
        _update(old, GeneratedPage(old.key, "", "", None, GONE_TEXT), inner)
    touched = [page.path for page in wiki.pages.values() if page.path in deleted or (inner / page.path).exists()]
    busy = [name for name in touched if _is_changed(folder / name, wiki.states[name])]
    for name in busy:
        (inner / name).unlink(missing_ok=True)
    return WikiResult(
        folder,
        counts,
        deleted=tuple(name for name in deleted if name not in busy),
        gone=tuple(page.path for page in kept),
        edited=tuple(edited),
        busy=tuple(busy),
    )


def _update(old: WikiPage, page: GeneratedPage, inner: Path) -> None:
    text = updated_page(old, page)
    if text != old.text:
        _write_page(inner / old.path, text)


def _write_page(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_text(text))


def _is_changed(path: Path, state: tuple[int, int]) -> bool:
    try:
        return _file_state(path) != state
    except OSError:
        return True
