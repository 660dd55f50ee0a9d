"""The page in the user's browser, by a file that only they may read: what stands on a command line every user of the machine can see."""

import html
import shutil
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localrag.serve.guard import CODE_LIVES
from localrag.system.files import private_file

SNAP = Path("/snap")  # browsers from there see neither the folder for temporary files nor what is hidden at home
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>localrag</title>
<meta http-equiv="refresh" content="0; url={link}"><a href="{link}">localrag</a></html>
"""


@contextmanager
def leading_to(link: str) -> Iterator[Path]:
    """A file, readable by its owner alone, that leads a browser to a link; it is gone when the link is of no use any more."""
    folder = Path(tempfile.mkdtemp(prefix="localrag-", dir=Path.home() if SNAP.is_dir() else None))  # mode 0700
    late = threading.Timer(CODE_LIVES, shutil.rmtree, [folder], {"ignore_errors": True})
    late.daemon = True
    try:
        page = private_file(folder / "open.html")
        page.write_text(_PAGE.format(link=html.escape(link)), encoding="utf-8")
        late.start()
        yield page
    finally:
        late.cancel()
        shutil.rmtree(folder, ignore_errors=True)


def show(page: Path) -> None:
    """Open a file in the user's browser."""
    webbrowser.open(page.absolute().as_uri())
