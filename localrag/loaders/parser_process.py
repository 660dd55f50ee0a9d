"""The parser process: receives open files one at a time through the socket at its stdin, parses them by suffix, and answers there.

It runs restricted (see `restrict_process`), so that a hostile file can affect this process only.
"""

import contextlib
import mimetypes
import os
import pkgutil
import resource
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from localrag.loaders.content import InnerBudget, LoadOptions, OpenFile, ParsedFile, Unreadable, normalize_typography
from localrag.loaders.encodings import looks_binary
from localrag.loaders.page_images import IMAGE_SUFFIXES, render_for_ocr, render_png
from localrag.loaders.quote_boxes import find_quote_boxes
from localrag.loaders.sandbox import apply_sandbox, shared_libraries
from localrag.system.child_process import ParentConnection
from localrag.text.sentences import sentences

# Suffix → its parser, imported with the first file of a kind: some imports take a quarter of a second.
PARSERS = {
    **dict.fromkeys((".txt", ".text", ".log"), "markup.parse_text"),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), "markup.parse_markdown"),
    **dict.fromkeys((".rst", ".rest"), "markup.parse_rst"),
    **dict.fromkeys((".adoc", ".asciidoc", ".asc"), "markup.parse_asciidoc"),
    ".org": "markup.parse_org",
    ".tex": "latex.parse_tex",
    ".rtf": "rtf.parse_rtf",
    **dict.fromkeys((".srt", ".vtt"), "subtitles.parse_subtitles"),
    **dict.fromkeys((".ics", ".ical", ".vcs"), "calendars.parse_calendar"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html.parse_html"),
    ".epub": "html.parse_epub",
    **dict.fromkeys((".xml", ".rss", ".atom", ".nxml", ".svg"), "xml_text.parse_xml"),
    **dict.fromkeys((".csv", ".tsv"), "tabular.parse_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".geojson"), "tabular.parse_json"),
    ".ipynb": "notebook.parse_notebook",
    ".eml": "mail.parse_mail",
    ".mbox": "mail.parse_mailbox",
    **dict.fromkeys((".mhtml", ".mht"), "mail.parse_web_archive"),
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), "word.parse_docx"),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppsm", ".potx", ".potm"), "presentation.parse_pptx"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xltm"), "spreadsheet.parse_xlsx"),
    **dict.fromkeys((".odt", ".ods", ".odp", ".ott", ".ots", ".otp", ".fodt", ".fods", ".fodp"), "opendocument.parse_opendocument"),
    **dict.fromkeys((".doc", ".dot"), "old_office.parse_doc"),
    **dict.fromkeys((".ppt", ".pps"), "old_office.parse_ppt"),
    **dict.fromkeys((".xls", ".xlt"), "old_office.parse_xls"),
    ".msg": "outlook.parse_msg",
    ".pdf": "pdf.parse_pdf",
    **dict.fromkeys(IMAGE_SUFFIXES, "pdf.parse_image"),
}
# Version of each parser's results. If it is raised, the files of that parser are read again.
_VERSIONS = {
    **dict.fromkeys(("markup", "subtitles", "calendars"), 2),
    "markup.parse_text": 3,
    **dict.fromkeys(("html", "mail", "outlook"), 5),
    "pdf.parse_pdf": 6,
}
PARSER_VERSIONS = {parser: _VERSIONS.get(parser, _VERSIONS.get(parser.partition(".")[0], 4)) for parser in PARSERS.values()}
OCR_SUFFIXES = IMAGE_SUFFIXES | {".pdf"}
_OFFICE_PARSERS = ("word.", "presentation.", "spreadsheet.", "opendocument.", "old_office.", "outlook.")
BINARY_SUFFIXES = OCR_SUFFIXES | {".epub"} | {suffix for suffix, parser in PARSERS.items() if parser.startswith(_OFFICE_PARSERS)}
TABULAR_SUFFIXES = frozenset(
    {".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".geojson", ".ipynb", ".xlsx", ".xlsm", ".xltx", ".xltm", ".xls", ".xlt"}
)
# Suffixes of documents that LibreOffice reads → what it should convert them to.
CONVERTIBLE = {
    **dict.fromkeys((".xlsb", ".numbers"), "xlsx"),
    **dict.fromkeys((".pages", ".wpd", ".wps"), "docx"),
    ".key": "pptx",
    ".sxw": "odt",
    ".sxc": "ods",
    ".sxi": "odp",
}
MAX_DIGITS = 100_000  # digits of an integer: converting it takes 0.2 s, and the time is quadratic
SNIFF_BYTES = 65_536  # bytes examined to decide whether a file of an unknown suffix is text


def parse_file(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a file by its suffix; other text files as plain text. Raises Unreadable, and any error of a parser on a damaged file."""
    suffix = file.suffix.lower()
    options = options if options.inner else replace(options, inner=InnerBudget(parse_file))
    if suffix not in BINARY_SUFFIXES:
        with file.open() as f:
            head = f.read(SNIFF_BYTES)
        if looks_binary(head):
            is_supported = suffix in PARSERS
            hint = f"; convert it: soffice --headless --convert-to {CONVERTIBLE[suffix]} FILE" if suffix in CONVERTIBLE else ""
            unsupported = f"format not supported: {file.suffix}{hint}"
            raise Unreadable("binary, not text" if is_supported or not suffix else unsupported, failed=is_supported)
    module, _, name = PARSERS.get(suffix, "markup.parse_text").partition(".")
    parser: Callable[[OpenFile, LoadOptions], ParsedFile] = getattr(import_module(f"localrag.loaders.{module}"), name)
    try:
        with _long_numbers():
            content = parser(file, options)
    except Unreadable as error:
        if str(error) == "binary, not text":
            raise Unreadable(str(error), failed=suffix in PARSERS) from error
        raise
    if content.pages_to_ocr:
        return content
    if suffix not in OCR_SUFFIXES:  # the places of quotes in pages are found by the letters that are there
        content = normalize_typography(content)
    if not content.text.strip("\ufeff \t\r\n\f\v"):
        raise Unreadable("only images, no text" if suffix in BINARY_SUFFIXES and _has_images(file) else "empty")
    return ParsedFile(
        _replace_surrogates(content.text),
        _replace_surrogates(" ".join(content.title.split())[:200]),
        tuple((_replace_surrogates(name), _replace_surrogates(value)) for name, value in content.metadata),
        tuple(replace(part, label=_replace_surrogates(part.label)) for part in content.parts),
        inner=tuple(
            replace(
                inner,
                name=_replace_surrogates(inner.name),
                title=_replace_surrogates(inner.title),
                metadata=tuple((_replace_surrogates(name), _replace_surrogates(value)) for name, value in inner.metadata),
            )
            for inner in content.inner
        ),
    )


@contextmanager
def _long_numbers() -> Iterator[None]:
    """Convert integers of up to MAX_DIGITS digits: by default Python raises ValueError beyond 4,300, and the file would be refused.

    The limit is global to the interpreter, which here only parses.
    """
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def _has_images(file: OpenFile) -> bool:
    with contextlib.suppress(BadZipFile), ZipFile(file.open()) as archive:
        return any(name.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".emf", ".wmf", ".svg", ".tiff")) for name in archive.namelist())
    return False


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates by question marks: some formats contain them, the store cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


_LIBRARY_FOLDERS = ("site-packages", "dist-packages")  # names of folders that contain only libraries


@cache
def readable_paths() -> tuple[str, ...]:
    """The resolved folders and files of Python, its libraries and the system, which the parser process may open.

    Of any other folder on sys.path only the modules.
    """
    python = (*map(sysconfig.get_path, ("stdlib", "platstdlib")), str(Path(sys.base_prefix) / "lib"), str(Path(sys.prefix) / "lib"))
    paths = [*shared_libraries(), *mimetypes.knownfiles, *filter(None, python)]
    for entry in filter(None, sys.path):
        if os.path.basename(entry) in _LIBRARY_FOLDERS or os.path.isfile(entry):  # noqa: PTH113, PTH119 - it is a string
            paths.append(entry)
        elif not Path(entry).is_relative_to(Path(python[0])):
            paths += _modules(entry)
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


def may_read(path: str) -> bool:
    """Whether a path is one of `readable_paths`, or below one."""
    real = os.path.realpath(path)
    return any(real == top or real.startswith(top + os.sep) for top in readable_paths())


def _modules(folder: str) -> list[str]:
    """The modules and packages in a folder, and the folders of shared libraries (`*.libs`) that wheels put beside them."""
    specs = (m.module_finder.find_spec(m.name, None) for m in pkgutil.iter_modules([folder]))
    origins = [spec.origin for spec in specs if spec and spec.origin]
    paths = [str(Path(o).parent) if Path(o).name.startswith("__init__.") else o for o in origins]
    return paths + [str(libraries) for libraries in Path(folder).glob("*.libs")]


_READS = ("open", "os.listdir", "os.scandir")  # audit events of opening by path; their argument may also be a descriptor
MAX_SPLIT_CHARS = 1_000_000  # characters; longer texts are not split into sentences here, because the time per file is limited
_FORBIDDEN = tuple(
    """
    socket. subprocess. os.system os.exec os.fork os.posix_spawn os.spawn pty. os.startfile os.kill os.remove os.rename os.rmdir os.mkdir
    os.link os.symlink os.truncate os.chmod os.chown os.lchown os.utime os.setxattr os.removexattr shutil.
    """.split()
)


def main(memory: int, seconds: int) -> None:
    """Parse files until stdin ends. `memory`: bytes of address space; `seconds`: CPU time per file."""
    parent = ParentConnection(at_stdin=True)
    sys.modules["numpy"] = None  # type: ignore[assignment]  # libraries that would import it need none, and it would start a hundred threads
    restrict_process(memory)
    sys.setrecursionlimit(8000)  # pages nest up to 2048 elements, each three calls
    while True:
        try:
            request, descriptor = parent.receive_with_file()
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds + 5)  # a fallback in case the parent is gone
        answer, exhausted = _answer_request(request, OpenFile(request["name"], descriptor))
        os.close(descriptor)
        parent.send(answer)
        if exhausted:
            return  # its memory is fragmented: the next file gets a new process


def restrict_process(memory: int) -> None:
    """Limit memory (bytes) and forbid connections, other processes, writing or removing files, and opening any but `readable_paths`.

    An audit hook enforces this for Python code everywhere; on Linux the kernel enforces it for native code too (`sandbox`). Elsewhere only
    the resource limits restrict native code that a hostile file has taken over.
    """
    readable = readable_paths()
    _limit(resource.RLIMIT_AS, memory, memory)
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC):
        _limit(limit, 0, 0)
    apply_sandbox(readable, receives=True)
    sys.addaudithook(_refuse)


def _limit(limit: int, value: int, hard: int | None = None) -> None:
    with contextlib.suppress(ValueError, OSError):  # some systems lack some limits
        resource.setrlimit(limit, (value, resource.getrlimit(limit)[1] if hard is None else hard))


def _refuse(event: str, args: Any) -> None:
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    reads = event in _READS and not isinstance(args[0], int) and not may_read(os.fsdecode(args[0] or "."))
    foreign = event == "ctypes.dlopen" and not str(args[0]).startswith(tuple(filter(None, sys.path)))  # not a library of a Python package
    if writes or reads or foreign or event.startswith(_FORBIDDEN):
        raise PermissionError(f"a file may not lead to {event}")


def _answer_request(request: dict[str, Any], file: OpenFile) -> tuple[dict[str, Any], bool]:
    """The answer to a request, or the reason of a failure; and whether memory was exhausted."""
    try:
        return _dispatch(request, file), False
    except Unreadable as error:
        return {"reason": _squeezed(str(error)), "failed": error.failed}, False
    except MemoryError:
        return {"reason": "memory", "failed": True}, True
    except RecursionError:
        return {"reason": "damaged: it is nested too deeply", "failed": True}, False
    except Exception as error:  # noqa: BLE001 - parsers of broken files raise anything
        return {"reason": _squeezed(_error_text(error)), "failed": True}, False


def _dispatch(request: dict[str, Any], file: OpenFile) -> dict[str, Any]:
    if "picture" in request:
        return render_png(file, *request["picture"])
    if "page" in request:
        return render_for_ocr(file, request["page"])
    read = dict(request.get("read", ()))
    if "places" in request:
        pages, words, before = request["places"]
        return find_quote_boxes(file, pages, words, before, read)
    columns = request["text_column"], tuple(request["metadata_columns"])
    options = LoadOptions(*columns, request.get("ocr", ""), pages=read, tex_definitions=request.get("tex_definitions", ""))
    content = parse_file(file, options)
    answer = asdict(content)
    if request.get("split") and len(content.text) <= MAX_SPLIT_CHARS:
        with contextlib.suppress(MemoryError, RecursionError):  # the text is complete: the parent splits it
            answer["sentences"] = sentences(content.text)
    return answer


def _error_text(error: Exception) -> str:
    """An error as a message for the user, with the error's type unless its message is meant for users."""
    if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    message = str(error) or "it ends too early"
    is_readable = isinstance(error, ValueError | SyntaxError | BadZipFile | EOFError)
    return f"damaged: {message}" if is_readable else f"damaged: {type(error).__name__}: {message}"


def _squeezed(text: str) -> str:
    return " ".join(text.split())[:200]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
