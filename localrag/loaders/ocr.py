"""OCR of scanned pages by Tesseract, or by RapidOCR where Tesseract or its data is missing, with a store of the results.

Either runs in one process per page under the limits of the parser process (`sandbox`), and may open only its own data and libraries.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b, file_digest
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrag.errors import UsageError
from localrag.loaders.content import LoadOptions
from localrag.records import content_id
from localrag.settings import IndexSettings
from localrag.system.child_process import isolated_environment
from localrag.system.python_process import RUN_MODULE, python_process
from localrag.system.resources import available_cores, available_memory

if TYPE_CHECKING:
    from localrag.store.documents import OcrPages as OcrPageStore

# "width", "height" in pixels; "words": [text, left, top, right, bottom, confidence, line]; "why": the reason for no words.
OcrPage = dict[str, Any]
PAGE_TIMEOUT_S = 120.0  # per page; a newspaper page takes Tesseract 40 s
FILE_TIMEOUT_S = 3_600.0  # per file and run; a book of 2,000 pages takes two cores as long
OUT_OF_TIME = "its file took longer than an hour; this command reads on: localrag index"
MAX_MEMORY = 2 * 2**30
RAPIDOCR_MEMORY, RAPIDOCR_RESIDENT_BYTES = 6 * 2**30, 1_300_000_000  # address space; what a page really takes
DEFAULT_LANGUAGE = "eng"
NO_OCR = "neither Tesseract nor RapidOCR is installed"
NOT_INSTALLED = f"{NO_OCR} (localrag doctor)"
RAPIDOCR = "rapidocr"  # stands for the languages of a page
# Tesseract's codes of languages whose letters the models know.
RAPIDOCR_LANGUAGES = frozenset(
    """
    afr aze cat ces chi_sim chi_tra cym dan deu ell eng epo est eus fin fra gle glg hrv hun ind isl ita jpn lat lav lit mlt msa nld nor
    oci pol por que ron slk slv spa spa_old sqi swa swe tur
    """.split()
)
_SANDBOX = str(Path(__file__).with_name("sandbox.py"))
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TESSDATA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")  # of the libraries of RapidOCR
_CODES = {
    "eng": "english en", "deu": "german deutsch de", "chi_sim": "chinese zh zh-cn 中文", "fra": "french français fr", "ita": "italian it",
    "spa": "spanish español es", "por": "portuguese pt", "nld": "dutch nl", "pol": "polish pl", "ces": "czech cs", "rus": "russian ru",
    "ukr": "ukrainian uk", "swe": "swedish sv", "dan": "danish da", "nor": "norwegian no nb", "fin": "finnish fi", "tur": "turkish tr",
    "jpn": "japanese ja 日本語", "kor": "korean ko 한국어", "chi_tra": "zh-tw", "ell": "greek el", "hun": "hungarian hu",
    "ron": "romanian ro",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tesseract:
    """An installed Tesseract: path, version, languages with data, and the folder of that data."""

    program: str
    version: str
    languages: tuple[str, ...]
    data: str = ""


def find_tesseract() -> Tesseract | None:
    """The working Tesseract on the path; None if there is none."""
    program = shutil.which("tesseract")
    if program is None:
        return None
    try:
        version, listed = (
            subprocess.run([program, option], capture_output=True, text=True, timeout=20, check=True)
            for option in ("--version", "--list-langs")
        )
    except (OSError, subprocess.SubprocessError):
        return None
    head = version.stdout.split()
    first, *lines = listed.stdout.splitlines() or [""]
    languages = tuple(sorted(line.strip() for line in lines if line.strip()))
    data = re.search(r'"([^"]+)"', first)  # List of available languages in "/usr/share/tesseract-ocr/5/tessdata/" (4):
    return Tesseract(os.path.realpath(program), head[1] if len(head) > 1 else "", languages, data[1] if data else "")


def rapidocr_version() -> str:
    """The version of RapidOCR; empty if it is not installed."""
    return importlib.metadata.version("rapidocr") if importlib.util.find_spec("rapidocr") else ""


def load_options(settings: IndexSettings) -> LoadOptions:
    """The options for reading files with these settings on this machine; `ocr_unavailable_reason` says why scans cannot be read."""
    options = LoadOptions(settings.text_column, settings.metadata_columns, all_files=settings.all_files)
    if not settings.ocr:
        return replace(options, ocr_unavailable_reason="--no-ocr", is_ocr_disabled=True)
    named = settings.ocr_languages or _index_language(settings.language)
    installed = installed_languages(find_tesseract())
    default = named or tuple(sorted(installed, key=lambda code: code != DEFAULT_LANGUAGE)[:1])
    if default and installed.issuperset(default):
        return replace(options, ocr="+".join(default))
    if rapidocr_version() and RAPIDOCR_LANGUAGES.issuperset(named):
        return replace(options, ocr=RAPIDOCR)
    if installed and not settings.ocr_languages:  # no data for the index's language
        return replace(options, ocr=DEFAULT_LANGUAGE if DEFAULT_LANGUAGE in installed else min(installed))
    return replace(options, ocr_unavailable_reason=_why_unavailable(named or (DEFAULT_LANGUAGE,)))


def _why_unavailable(languages: Sequence[str]) -> str:
    if tesseract := find_tesseract():
        missing = ", ".join(code for code in languages if code not in tesseract.languages)
        return f"Tesseract has no data for {missing} (localrag doctor)"
    if rapidocr_version():
        unknown = ", ".join(code for code in languages if code not in RAPIDOCR_LANGUAGES)
        return f"RapidOCR does not read {unknown}, which needs Tesseract (localrag doctor)"
    return NOT_INSTALLED


def installed_languages(tesseract: Tesseract | None) -> frozenset[str]:
    """The languages that Tesseract has data of; none without Tesseract."""
    return frozenset(tesseract.languages if tesseract else ()) - {"osd"}  # which finds out how a page is rotated


def checked_languages(text: str) -> tuple[str, ...]:
    """Parse a list of Tesseract's language codes, `eng,deu` or `eng+deu`. Raises UsageError if they cannot be read here."""
    codes = tuple(dict.fromkeys(code.strip() for code in text.replace("+", ",").split(",") if code.strip()))
    tesseract = find_tesseract()
    installed = installed_languages(tesseract)
    if installed.issuperset(codes) or (rapidocr_version() and RAPIDOCR_LANGUAGES.issuperset(codes)):
        return codes
    if tesseract:
        missing = [code for code in codes if code not in installed]
        packages = " ".join("tesseract-ocr-" + code.replace("_", "-") for code in missing)
        raise UsageError(
            f"Tesseract has no data for {', '.join(missing)}; it has: {', '.join(sorted(installed)) or 'none'}.",
            f"Install it (on Debian: apt-get install {packages}), or see localrag doctor.",
        )
    if rapidocr_version():
        raise UsageError(f"{_why_unavailable(codes)}.", "Install Tesseract with these languages: localrag doctor shows how.")
    return codes


def _index_language(language: str) -> tuple[str, ...]:
    named = language.strip().lower()
    return tuple(code for code, names in _CODES.items() if named and (named == code or named in names.split()))[:1]


@dataclass(frozen=True, slots=True)
class OcrProgram:
    """A program that reads a page: its name for people, a command that takes an image (PGM, 300 dpi) on stdin, and how to read its stdout.

    `turned_command` finds out how a page is rotated; None if `command` does. `resident_bytes`: memory of one page; `seconds`: its time on
    one core.
    """

    by: str
    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    parse: Callable[[str], OcrPage]
    turned_command: tuple[str, ...] | None = None
    resident_bytes: int = 100_000_000
    seconds: float = 4.0


def find_ocr(languages: str) -> OcrProgram | None:
    """The program that reads pages in languages of `LoadOptions.ocr`; None if there are none, or it is not installed."""
    if languages == RAPIDOCR:
        return rapidocr_program() if rapidocr_version() else None
    tesseract = find_tesseract() if languages else None
    return tesseract_program(tesseract, languages) if tesseract else None


def tesseract_program(tesseract: Tesseract, languages: str) -> OcrProgram:
    """Tesseract with these languages, within the sandbox."""
    limits = str(MAX_MEMORY), str(int(PAGE_TIMEOUT_S) + 5), tesseract.data

    def command(layout: str) -> tuple[str, ...]:
        arguments = "-", "-", "-l", languages, "--dpi", "300", "--psm", layout, "tsv"
        return sys.executable, "-I", "-S", _SANDBOX, *limits, tesseract.program, *arguments

    # With several threads Tesseract is three times slower: its loops are shorter than a thread's start.
    env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"OMP_THREAD_LIMIT": "1"}
    turned = command("1") if "osd" in tesseract.languages else None
    return OcrProgram(f"Tesseract {tesseract.version}, {languages}", "Tesseract", command("3"), env, parse_tsv, turned)


def rapidocr_program() -> OcrProgram:
    """RapidOCR, which restricts itself once it is loaded."""
    limits = str(RAPIDOCR_MEMORY), str(int(PAGE_TIMEOUT_S) + 5)
    command, _ = python_process(RUN_MODULE, "localrag.loaders.rapid_ocr", *limits, isolated=True)
    env = isolated_environment(_PASSED_ON) | dict.fromkeys(_THREAD_COUNTS, "1")
    return OcrProgram(
        f"RapidOCR {rapidocr_version()}", "RapidOCR", tuple(command), env, parse_json, resident_bytes=RAPIDOCR_RESIDENT_BYTES, seconds=10.0
    )


class OcrReader:
    """Reads pages with a program, from several threads; `stop` kills the running processes."""

    def __init__(self, program: OcrProgram) -> None:
        self._program = program
        self._lock, self._running, self._stopped = threading.Lock(), set[subprocess.Popen[bytes]](), False

    def read(self, image: bytes) -> OcrPage:
        """The words of a page image (PGM, 300 dpi)."""
        page = self._words(image, self._program.command)
        if self._program.turned_command and not page.get("why") and mean_confidence(page) < LOW_CONFIDENCE:  # the page may be rotated
            turned = self._words(image, self._program.turned_command)
            page = turned if mean_confidence(turned) >= LOW_CONFIDENCE else page
        return page | {"by": self._program.by}

    def _words(self, image: bytes, command: Sequence[str]) -> OcrPage:
        with self._lock:
            if self._stopped:
                return _unread("stopped")
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(self._program.environment),
                process_group=0,  # not interrupted by the terminal; `stop` kills it
            )
            self._running.add(process)
        try:
            output, errors = process.communicate(image, timeout=PAGE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return _unread(f"took longer than {PAGE_TIMEOUT_S:g} s")
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode:
            last_line = (errors.decode("utf-8", "replace").strip().splitlines() or ["it crashed"])[-1]
            return _unread(f"{self._program.name} failed: {' '.join(last_line.split())[:150]}")
        try:
            return self._program.parse(output.decode("utf-8", "replace"))
        except (ValueError, TypeError, LookupError, RecursionError):  # a page may have taken the program over
            return _unread(f"{self._program.name} failed: its output cannot be read")

    def stop(self) -> None:
        """Kill the running processes and start no further ones."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()


def parse_tsv(table: str) -> OcrPage:
    """The words of Tesseract's TSV table in reading order, each with the number of its line."""
    page: OcrPage = {"width": 0, "height": 0, "words": []}
    lines: dict[tuple[str, ...], int] = {}
    for row in table.splitlines()[1:]:
        level, *location, left, top, width, height, confidence, text = row.split("\t", 11)
        x, y, w, h = int(left), int(top), int(width), int(height)
        if level == "1":
            page["width"], page["height"] = w, h
        elif level == "5" and text.strip():
            line = lines.setdefault(tuple(location[:-1]), len(lines))
            page["words"].append([" ".join(text.split()), x, y, x + w, y + h, round(float(confidence)), line])
    return page


def parse_json(text: str) -> OcrPage:
    """The page that `rapid_ocr` writes. Raises ValueError, TypeError, LookupError for anything else."""
    page = json.loads(text)
    words = [[str(word), *map(int, (left, top, right, bottom, conf, line))] for word, left, top, right, bottom, conf, line in page["words"]]
    return {"width": int(page["width"]), "height": int(page["height"]), "words": words}


def mean_confidence(page: OcrPage) -> float:
    """Tesseract's mean confidence in a page's words, weighted by their letters, 0 to 100."""
    weights = [(sum(map(str.isalnum, w[0])), w[5]) for w in page["words"]]
    letters = sum(n_letters for n_letters, _ in weights)
    return sum(n_letters * confidence for n_letters, confidence in weights) / letters if letters else 0.0


LOW_CONFIDENCE = 60.0  # rendered and scanned text has 85 to 96; noise, photos and rotated pages up to 50


def _unread(reason: str) -> OcrPage:
    return {"width": 0, "height": 0, "words": [], "why": reason}


OCR_VERSION = 1  # version of stored OCR results: a change makes all scans be read again
MAX_PARALLEL_PAGES = 8  # pages in memory, 25 MB each; one core renders as fast as eight read
RenderPage = Callable[[int], dict[str, Any]]  # page number → the result of `render_for_ocr`, or a reason
# (file, content hash, page numbers, renderer) → OCR pages by number.
OcrPages = Callable[[Path, str, Sequence[int], RenderPage], Mapping[int, OcrPage]]


def scan_id(file: Path, languages: str) -> str:
    """The id under which the OCR pages of a file in these languages are stored. Raises OSError."""
    with file.open("rb") as f:
        digest = file_digest(f, lambda: blake2b(digest_size=20)).hexdigest()
    return content_id("scan", OCR_VERSION, digest, languages)


def ocr_pages_reader(program: OcrProgram, languages: str, store: "OcrPageStore", on_progress: Callable[[int, int], None]) -> OcrPages:
    """A function that reads and stores the missing OCR pages of a file; `on_progress` gets the numbers of finished and of all pages."""

    def read(file: Path, content_hash: str, numbers: Sequence[int], draw: RenderPage) -> Mapping[int, OcrPage]:
        scan = scan_id(file, languages)
        pages = {n: page for n, page in store.pages(scan).items() if n in numbers}
        on_progress(len(pages), len(numbers))
        deadline = time.monotonic() + FILE_TIMEOUT_S
        in_time = takewhile(lambda _: time.monotonic() < deadline, [n for n in numbers if n not in pages])
        for n, image_hash, page in _ocr_pages(in_time, draw, program, languages, store):
            store.save(scan, n, image_hash, page)
            pages[n] = page
            on_progress(len(pages), len(numbers))
        pages |= {n: _unread(OUT_OF_TIME) for n in numbers if n not in pages}
        store.link_document(read_hash(content_hash, pages), scan, languages)
        return pages

    return read


def read_hash(content_hash: str, pages: Mapping[int, OcrPage]) -> str:
    """The content hash of a document with these OCR pages: another one while the time was too short, so that the next run reads on."""
    return content_id("unfinished", content_hash) if any(page.get("why") == OUT_OF_TIME for page in pages.values()) else content_hash


def _ocr_pages(
    numbers: Iterable[int], draw: RenderPage, program: OcrProgram, languages: str, store: "OcrPageStore"
) -> Iterator[tuple[int, str, OcrPage]]:
    """Render and read pages, in order, one per core at a time, as far as there is memory. Closing the generator stops the processes."""
    n_parallel = max(1, min(MAX_PARALLEL_PAGES, available_cores(), (available_memory() or 0) // program.resident_bytes))
    reader = OcrReader(program)
    running: deque[tuple[int, str, Future[OcrPage]]] = deque()
    with ThreadPoolExecutor(n_parallel) as pool:
        try:
            for n in numbers:
                drawn = draw(n)
                image = drawn.get("image", b"")
                image_hash = content_id("page", OCR_VERSION, languages, blake2b(image).hexdigest()) if image else ""
                running.append((n, image_hash, _submit_page(drawn, store.find_similar(image_hash) if image_hash else None, reader, pool)))
                while len(running) > n_parallel or (running and running[0][2].done()):
                    yield _wait_for_first(running)
            while running:
                yield _wait_for_first(running)
        finally:
            reader.stop()


def _wait_for_first(running: deque[tuple[int, str, Future[OcrPage]]]) -> tuple[int, str, OcrPage]:
    number, image_hash, future = running.popleft()
    return number, image_hash, future.result()


def _submit_page(drawn: dict[str, Any], stored: OcrPage | None, reader: OcrReader, pool: ThreadPoolExecutor) -> "Future[OcrPage]":
    if "image" in drawn and stored is None:
        return pool.submit(reader.read, drawn["image"])
    done: Future[OcrPage] = Future()
    unread = {"blank": True} if drawn.get("blank") else {"why": drawn.get("reason", "")}
    done.set_result(stored or {"width": 0, "height": 0, "words": []} | unread)
    return done
