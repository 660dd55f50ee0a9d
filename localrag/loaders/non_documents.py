"""Files and folders that are no documents by their names: leftovers, conflicted copies, lock files, links, placeholders, dependencies."""

import re
from collections.abc import Set

TAKEN_WITH_ALL_FILES = "(taken with --all-files)"
# Dropbox, Nextcloud and Obsidian name a copy in brackets, in the user's language; other programs append a date or the computer.
_CONFLICT = "(?=[^()]{0,150}(?:confli|konfli|конфлик|конфлік|競合|冲突|衝突|충돌))"
_COPY = r"(?=[^()]{0,150}(?:\b(?:copy|kopi[ea]?|cop[ií]a|copie|cópia|копи[яї]|копія)\b|コピー|副本|复本|複本|사본))"
_COMPUTER = r"-(?-i:DESKTOP|LAPTOP)-(?-i:[A-Z0-9]{7})(?:-\d+)?(?=\.|\Z)"
_LOCK_FILES = "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml bun.lockb go.sum packages.lock.json gradle.lockfile"
_REASONS = {
    "a leftover of a program": r"\A~\$|\A#.+#\Z|.~\Z|\.(?:bak|bkp|backup|old|orig|rej|save|sw[nop]|te?mp|wbk|xlk)[-._]?\d*\Z",
    "an incomplete download": r"\.(?:crdownload|part|partial|download|filepart)\Z",
    "a conflicted copy of a synchronized file": rf"(?:\({_CONFLICT}{_COPY}[^()]{{1,200}}\)|\[conflicted[^\[\]]*\]|\(sfconflict "
    r"|\(conflict(?: \d+| on \d[^()]*)?\)|\.conflict(?=\.|\Z)|\.sync-conflict-\d{8}-|[-_. ]conflict[-_]\d{6,}|-\d{4}-\d{4}_conflict"
    rf"|_conf\(\d+\)|{_COMPUTER})",
    "a lock file of a package manager": rf"\.lock\Z|\A(?:{'|'.join(map(re.escape, _LOCK_FILES.split()))})\Z",
    "minified code": r"(?:[.-]min\.(?:[cm]?js|css)|\.(?:[cm]?js|css)\.map)\Z",
    "generated code": r"(?:\.(?:generated|designer)\.(?:cs|dart|go|java|[jt]sx?|py)|\.g\.dart|\.pb\.go|_pb2(?:_grpc)?\.py)\Z",
    "a file of a program, not of a person": r"\A(?:desktop\.ini|(?:eh)?thumbs\.db|icon\r)\Z|\.msf\Z",
    "a link to a document of Google; export that": r"\.g(?:doc|sheet|slides|draw|form|jam|map|script|site|table|link|note)\Z",
    "a link, not a document": r"\.(?:url|webloc|desktop|lnk|website|inetloc)\Z",
    "not downloaded from the cloud; download it": r"\.(?:icloud|nextcloud|owncloud|cloudf?)\Z",
}
_PATTERNS = {reason: re.compile(pattern, re.IGNORECASE) for reason, pattern in _REASONS.items()}
_DEPENDENCIES = frozenset("node_modules bower_components jspm_packages site-packages dist-packages __pycache__".split())
_VENDORED = frozenset("vendor vendors third_party third-party pods carthage".split())  # where a program is built, else of a business
_MANIFESTS = frozenset("composer.json go.mod go.work gemfile cargo.toml package.json podfile cartfile cmakelists.txt makefile".split())


def reason_of_file(name: str) -> str:
    """Why a file of this name is no document; empty if it may be one."""
    return next((f"{reason} {TAKEN_WITH_ALL_FILES}" for reason, pattern in _PATTERNS.items() if pattern.search(name)), "")


def reason_of_folder(name: str, beside: Set[str]) -> str:
    """Why a folder has no documents of the user; empty if it may. `beside`: the names of what is in the folder above."""
    lower = name.lower()
    is_vendored = lower in _VENDORED and not _MANIFESTS.isdisjoint(map(str.lower, beside))
    return f"a folder of dependencies {TAKEN_WITH_ALL_FILES}" if is_vendored or lower in _DEPENDENCIES else ""
