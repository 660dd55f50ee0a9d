"""Tesseract, the program that reads pictures: which one is installed, for which languages, and one page read by it.

It runs apart from everything, a process a page, under the limits of the process that parses (`sandbox`): the picture comes on its stdin,
the words go to its stdout, and it may open only its own data and shared libraries.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.config import Settings
from localrag.errors import UsageError
from localrag.index.documents.load.content import Options

Page = dict[str, Any]  # "width", "height" in pixels; "words": [text, left, top, right, bottom, confidence, line]; "why" it is not read
SECONDS = 120.0  # for a page; a newspaper's takes 40
MEMORY = 2 * 2**30
USUAL_LANGUAGE = "eng"
MISSING = "Tesseract is not installed (localrag doctor)"
_SANDBOX = str(Path(__file__).with_name("sandbox.py"))
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TESSDATA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_CODES = {
    "eng": "english en", "deu": "german deutsch de", "chi_sim": "chinese zh zh-cn 中文", "fra": "french français fr", "ita": "italian it",
    "spa": "spanish español es", "por": "portuguese pt", "nld": "dutch nl", "pol": "polish pl", "ces": "czech cs", "rus": "russian ru",
    "ukr": "ukrainian uk", "swe": "swedish sv", "dan": "danish da", "nor": "norwegian no nb", "fin": "finnish fi", "tur": "turkish tr",
    "jpn": "japanese ja 日本語", "kor": "korean ko 한국어", "chi_tra": "zh-tw", "ell": "greek el", "hun": "hungarian hu",
    "ron": "romanian ro",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tesseract:
    """An installed Tesseract: its path, version, the languages it has data for, and the folder of that data, empty if it names none."""

    program: str
    version: str
    languages: tuple[str, ...]
    data: str = ""


def find_tesseract() -> Tesseract | None:
    """The one on the path, if it works."""
    program = shutil.which("tesseract")
    if program is None:
        return None
    try:
        version, listed = (
            subprocess.run([program, what], capture_output=True, text=True, timeout=20, check=True)
            for what in ("--version", "--list-langs")
        )
    except (OSError, subprocess.SubprocessError):
        return None
    head = (version.stdout or version.stderr).split()
    first, *lines = (listed.stdout or listed.stderr).splitlines() or [""]
    languages = tuple(sorted(line.strip() for line in lines if line.strip()))
    data = re.search(r'"([^"]+)"', first)  # List of available languages in "/usr/share/tesseract-ocr/5/tessdata/" (4):
    return Tesseract(os.path.realpath(program), head[1] if len(head) > 1 else "", languages, data[1] if data else "")


def _data_folders(tesseract: Tesseract) -> list[str]:
    """Folders that may hold its data: the one it names, else the usual ones of installations."""
    if tesseract.data:
        return [tesseract.data]
    share = Path(tesseract.program).parent.parent / "share"
    return [*filter(None, [os.environ.get("TESSDATA_PREFIX")]), str(share / "tessdata"), str(share / "tesseract-ocr")]


def reading_options(settings: Settings) -> Options:
    """How files are read with these settings on this machine: where scans cannot be read, `no_ocr` says why."""
    options = Options(settings.text_column, settings.metadata_columns)
    if not settings.ocr:
        return replace(options, no_ocr="--no-ocr", ocr_refused=True)
    found = find_tesseract()
    if found is None:
        return replace(options, no_ocr=MISSING)
    languages = settings.ocr_languages or _usual(settings.language, found.languages)
    if missing := [name for name in languages if name not in found.languages] or ([] if languages else [USUAL_LANGUAGE]):
        return replace(options, no_ocr=f"Tesseract has no data for {', '.join(missing)} (localrag doctor)")
    return replace(options, ocr="+".join(languages))


def checked_languages(given: str) -> tuple[str, ...]:
    """A list of Tesseract's codes, `eng,deu` or `eng+deu`. Raises UsageError where this machine's Tesseract has not all of them."""
    codes = tuple(dict.fromkeys(code.strip() for code in given.replace("+", ",").split(",") if code.strip()))
    found = find_tesseract()
    missing = [code for code in codes if found and code not in found.languages]
    if found and missing:
        there = ", ".join(code for code in found.languages if code != "osd") or "none"
        how = f"apt-get install {' '.join(map(package_of, missing))}"
        raise UsageError(
            f"Tesseract has no data for {', '.join(missing)}; it has: {there}.", f"Install it (on Debian: {how}), or see localrag doctor."
        )
    return codes


def package_of(code: str) -> str:
    """Debian's package of a language."""
    return f"tesseract-ocr-{code.replace('_', '-')}"


def _usual(language: str, installed: Sequence[str]) -> tuple[str, ...]:
    """The language of the index where its data is installed, else English, else whatever there is."""
    named = language.strip().lower()
    own = next((code for code, names in _CODES.items() if named and (named == code or named in names.split())), "")
    others = [code for code in installed if code != "osd"]
    return next(((code,) for code in (own, USUAL_LANGUAGE, *others) if code in installed), ())


class Reader:
    """Reads pages with Tesseract; several threads may ask at once. `stop` ends what runs."""

    def __init__(self, tesseract: Tesseract, languages: str) -> None:
        self.by = f"Tesseract {tesseract.version}, {languages}"
        self._tesseract, self._languages = tesseract, languages
        self._lock, self._running, self._stopped = threading.Lock(), set[subprocess.Popen[bytes]](), False

    def read(self, image: bytes) -> Page:
        """The words of a picture (PGM of 300 dots an inch)."""
        page = self._words(image, upright=True)
        if "osd" in self._tesseract.languages and not page.get("why") and _is_doubtful(page):  # it may lie on its side
            turned = self._words(image, upright=False)
            page = turned if not turned.get("why") and not _is_doubtful(turned) else page
        return page | {"by": self.by}

    def _words(self, image: bytes, *, upright: bool) -> Page:
        asked = ["-", "-", "-l", self._languages, "--dpi", "300", "--psm", "3" if upright else "1", "tsv"]
        limits = [str(MEMORY), str(int(SECONDS) + 5), os.pathsep.join(_data_folders(self._tesseract))]
        # With more than one thread Tesseract is three times slower: its loops are shorter than a thread's start.
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"OMP_THREAD_LIMIT": "1"}
        with self._lock:
            if self._stopped:
                return _unread("stopped")
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _SANDBOX, *limits, self._tesseract.program, *asked],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                process_group=0,  # an interrupt at the terminal is for us; we end it
            )
            self._running.add(process)
        try:
            told, said = process.communicate(image, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return _unread(f"took longer than {SECONDS:g} s")
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode:
            last = (said.decode("utf-8", "replace").strip().splitlines() or ["it crashed"])[-1]
            return _unread(f"Tesseract failed: {' '.join(last.split())[:150]}")
        return words_of(told.decode("utf-8", "replace"))

    def stop(self) -> None:
        """End what runs; nothing is started any more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()


def words_of(table: str) -> Page:
    """The words in Tesseract's table (TSV), in reading order, each with the number of its line."""
    page: Page = {"width": 0, "height": 0, "words": []}
    lines: dict[tuple[str, ...], int] = {}
    for row in table.splitlines()[1:]:
        level, *place, left, top, width, height, confidence, text = row.split("\t", 11)
        x, y, w, h = int(left), int(top), int(width), int(height)
        if level == "1":
            page["width"], page["height"] = w, h
        elif level == "5" and text.strip():
            line = lines.setdefault(tuple(place[:-1]), len(lines))
            page["words"].append([" ".join(text.split()), x, y, x + w, y + h, round(float(confidence)), line])
    return page


def confidence(page: Page) -> float:
    """How sure Tesseract is of a page's words on average, by their letters, 0 to 100."""
    weights = [(sum(map(str.isalnum, w[0])), w[5]) for w in page["words"]]
    letters = sum(n for n, _ in weights)
    return sum(n * sure for n, sure in weights) / letters if letters else 0.0


DOUBTFUL = 60.0  # drawn and scanned text has 85 to 96; noise, photos and pages on their side up to 50


def _is_doubtful(page: Page) -> bool:
    return confidence(page) < DOUBTFUL


def _unread(why: str) -> Page:
    return {"width": 0, "height": 0, "words": [], "why": why}
