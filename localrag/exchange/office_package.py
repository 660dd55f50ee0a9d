"""Office files whose bytes depend on their content alone."""

import re
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_TIMES = re.compile(rb"<dcterms:(created|modified)[^<>]*>[^<]*</dcterms:\1>")
_PROPERTIES = "docProps/core.xml"


def write_package(source: IO[bytes], target: Path) -> None:
    """Copy an Office file without the times at which its library wrote it."""
    with ZipFile(source) as archive, ZipFile(target, "w", ZIP_DEFLATED) as copy:
        for item in archive.infolist():
            data = archive.read(item)
            entry = ZipInfo(item.filename)
            entry.compress_type = ZIP_DEFLATED
            copy.writestr(entry, _TIMES.sub(b"", data) if item.filename == _PROPERTIES else data)
