"""Where the code and data of Python and its libraries are: the only paths that the process that parses may open."""

import mimetypes
import os
import pkgutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from localrag.index.documents.load.sandbox import shared_libraries

_LIBRARY_FOLDERS = ("site-packages", "dist-packages")  # names of folders that hold nothing but libraries


@cache
def readable_paths() -> tuple[str, ...]:
    """Folders and files of Python, its libraries and the system's, links resolved. Of any other folder on sys.path only the modules."""
    python = (*map(sysconfig.get_path, ("stdlib", "platstdlib")), str(Path(sys.base_prefix) / "lib"), str(Path(sys.prefix) / "lib"))
    found = [*shared_libraries(), *mimetypes.knownfiles, *filter(None, python)]
    for place in filter(None, sys.path):
        if os.path.basename(place) in _LIBRARY_FOLDERS or os.path.isfile(place):  # noqa: PTH113, PTH119 - it is a string
            found.append(place)
        elif not Path(place).is_relative_to(Path(python[0])):
            found += _modules(place)
    return tuple(dict.fromkeys(os.path.realpath(path) for path in found))


def may_read(path: str) -> bool:
    """Whether a path is one of `readable_paths`, or lies below one."""
    real = os.path.realpath(path)
    return any(real == top or real.startswith(top + os.sep) for top in readable_paths())


def _modules(place: str) -> list[str]:
    """The modules and packages in a folder, and the folders of shared libraries (`*.libs`) that wheels put beside them."""
    specs = (m.module_finder.find_spec(m.name, None) for m in pkgutil.iter_modules([place]))
    origins = [spec.origin for spec in specs if spec and spec.origin]
    paths = [str(Path(o).parent) if Path(o).name.startswith("__init__.") else o for o in origins]
    return paths + [str(found) for found in Path(place).glob("*.libs")]
