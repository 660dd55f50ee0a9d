"""Where the code and data of Python and its libraries are: all that the process that parses may still open."""

import mimetypes
import os
import pkgutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from localrag.index.documents.load.sandbox import shared_libraries

_WHOLE = ("site-packages", "dist-packages")  # hold nothing but libraries


@cache
def readable() -> tuple[str, ...]:
    """Folders and files, by the path they have without links. Of a folder that somebody put on the path, its modules alone."""
    python = (*map(sysconfig.get_path, ("stdlib", "platstdlib")), str(Path(sys.base_prefix) / "lib"), str(Path(sys.prefix) / "lib"))
    found = [*shared_libraries(), *mimetypes.knownfiles, *filter(None, python)]
    for place in filter(None, sys.path):
        if place.endswith(_WHOLE) or os.path.isfile(place):  # noqa: PTH113 - it is a string
            found.append(place)
        elif not Path(place).is_relative_to(Path(python[0])):
            found += _modules(place)
    return tuple(dict.fromkeys(os.path.realpath(path) for path in found))


def may_read(path: str) -> bool:
    """Whether a path is that of a library."""
    real = os.path.realpath(path)
    return any(real == top or real.startswith(top + os.sep) for top in readable())


def _modules(place: str) -> list[str]:
    """The modules and packages in a folder, and what wheels put beside them: shared libraries."""
    specs = (m.module_finder.find_spec(m.name, None) for m in pkgutil.iter_modules([place]))
    origins = [spec.origin for spec in specs if spec and spec.origin]
    paths = [str(Path(o).parent) if Path(o).name.startswith("__init__.") else o for o in origins]
    return paths + [str(found) for found in Path(place).glob("*.libs")]
