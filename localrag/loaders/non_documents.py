"""Files and folders that are no documents by their names: leftovers, conflicted copies, lock files, links, placeholders, dependencies."""

import re
from collections.abc import Set

TAKEN_WITH_ALL_FILES = "(taken with --all-files)"
_LEFTOVER = re.compile(r"~\$.|#.+#\Z|.+~\Z|.+\.(?:bak|bkp|backup|old|orig|rej|save|sw[nop]|te?mp|wbk)[-._]?\d*\Z", re.IGNORECASE)
_UNFINISHED = re.compile(r".\.(?:crdownload|part|partial|download|filepart|!ut)\Z", re.IGNORECASE)
# Dropbox, Nextcloud, Obsidian and pCloud name the copy in brackets, in the user's language; the others append a date or the computer.
_CONFLICT = "(?=[^()]{0,150}(?:confli|konfli|конфлик|конфлік|競合|冲突|衝突|충돌))"
_COPY = r"(?=[^()]{0,150}(?:\b(?:copy|kopi[ea]?|cop[ií]a|copie|cópia|копи[яї]|копія)\b|コピー|副本|复本|複本|사본))"
_CONFLICTED = re.compile(
    rf"\({_CONFLICT}{_COPY}[^()]{{1,200}}\)|\[conflicted[^\[\]]*\]|\(sfconflict |\(conflict on \d|\.sync-conflict-\d{{8}}-"
    r"|[-_. ]conflict[-_]\d{6,}|-\d{4}-\d{4}_conflict|_conf\(\d+\)|-(?-i:DESKTOP|LAPTOP)-(?-i:[A-Z0-9]{7})(?:-\d+)?(?=\.|\Z)",
    re.IGNORECASE,
)
_LOCK_FILES = frozenset(
    """
    package-lock.json npm-shrinkwrap.json pnpm-lock.yaml bun.lockb go.sum packages.lock.json gradle.lockfile cartfile.resolved
    package.resolved
    """.split()
)
_OF_SYSTEMS = frozenset({"desktop.ini", "thumbs.db", "ehthumbs.db", "icon\r"})
_MINIFIED = re.compile(r".[.-]min\.(?:[cm]?js|css)\Z|\.(?:[cm]?js|css)\.map\Z")
_OF_GOOGLE = re.compile(r".\.g(?:doc|sheet|slides|draw|form|jam|map|script|site|table|link|note)\Z")
_LINK = re.compile(r".\.(?:url|webloc|desktop|lnk|website|inetloc)\Z")
_PLACEHOLDER = re.compile(r".\.(?:icloud|nextcloud|owncloud|cloudf?)\Z")
_DEPENDENCIES = frozenset("node_modules bower_components jspm_packages site-packages dist-packages __pycache__".split())
_VENDORED = frozenset("vendor vendors third_party third-party pods carthage".split())  # where a program is built, else of a business
_MANIFESTS = frozenset("composer.json go.mod go.work gemfile cargo.toml package.json podfile cartfile cmakelists.txt makefile".split())


def reason_of_file(name: str) -> str:
    """Why a file of this name is no document; empty if it may be one."""
    lower = name.lower()
    reasons = {
        "a leftover of an editor or another program": _LEFTOVER.match(name),
        "a download that is not complete": _UNFINISHED.search(name),
        "a conflicted copy of a synchronized file": _CONFLICTED.search(name),
        "a lock file of a package manager": lower in _LOCK_FILES or re.search(r".\.lock\Z", lower),
        "minified code": _MINIFIED.search(lower),
        "a file of the system": lower in _OF_SYSTEMS,
        "an index of a mail program": lower.endswith(".msf"),
        "a link to a document of Google, not the document; export it": _OF_GOOGLE.search(lower),
        "a link, not a document": _LINK.search(lower),
        "a placeholder of a cloud drive, not the document; download it": _PLACEHOLDER.search(lower),
    }
    return next((f"{reason} {TAKEN_WITH_ALL_FILES}" for reason, is_so in reasons.items() if is_so), "")


def reason_of_folder(name: str, beside: Set[str]) -> str:
    """Why a folder has no documents of the user; empty if it may. `beside`: the names of what is in the folder above."""
    lower = name.lower()
    is_vendored = lower in _VENDORED and not _MANIFESTS.isdisjoint(map(str.lower, beside))
    return f"a folder of dependencies {TAKEN_WITH_ALL_FILES}" if is_vendored or lower in _DEPENDENCIES else ""
