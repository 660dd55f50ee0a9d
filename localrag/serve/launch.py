"""Opens the page in the user's browser by way of a private file, since every user of the machine can see a browser's command line."""

import html
import shutil
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localrag.serve.guard import CODE_LIFETIME
from localrag.system.files import private_file

SNAP = Path("/snap")  # browsers installed by snap see neither the folder for temporary files nor hidden folders at home
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>localrag</title>
<meta http-equiv="refresh" content="0; url={link}"><a href="{link}">localrag</a></html>
"""


@contextmanager
def redirect_file(link: str) -> Iterator[Path]:
    """A file that redirects a browser to a link and that only its owner may read; removed at the end, or once the link has expired."""
    folder = Path(tempfile.mkdtemp(prefix="localrag-", dir=Path.home() if SNAP.is_dir() else None))  # mode 0700
    expiry = threading.Timer(CODE_LIFETIME, shutil.rmtree, [folder], {"ignore_errors": True})
    expiry.daemon = True
    try:
        page = private_file(folder / "open.html")
        page.write_text(_PAGE.format(link=html.escape(link)), encoding="utf-8")
        expiry.start()
        yield page
    finally:
        expiry.cancel()
        shutil.rmtree(folder, ignore_errors=True)


def open_in_browser(page: Path) -> None:
    """Open a file in the user's browser."""
    webbrowser.open(page.absolute().as_uri())
