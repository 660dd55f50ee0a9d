"""The parser process: receives open files one at a time through the socket at its stdin, parses them by what they are, and answers there.

It runs restricted (see `restrict_process`), so that a hostile file can affect this process only.
"""

import contextlib
import json
import mimetypes
import os
import pkgutil
import resource
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from localrag.loaders import file_kinds
from localrag.loaders.content import InnerBudget, LoadOptions, OpenFile, ParsedFile, Unreadable, normalize_typography
from localrag.loaders.encodings import looks_binary
from localrag.loaders.page_images import IMAGE_SUFFIXES, render_for_ocr, render_png
from localrag.loaders.quote_boxes import find_quote_boxes
from localrag.loaders.sandbox import apply_sandbox, shared_libraries
from localrag.system.child_process import Codec, ParentConnection

# Suffix → its parser, imported with the first file of a kind: some imports take a quarter of a second.
PARSERS = {
    **dict.fromkeys((".txt", ".text", ".log"), "markup.parse_text"),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".qmd", ".rmd"), "markup.parse_markdown"),
    **dict.fromkeys((".rst", ".rest"), "markup.parse_rst"),
    **dict.fromkeys((".adoc", ".asciidoc", ".asc"), "markup.parse_asciidoc"),
    ".org": "markup.parse_org",
    ".tex": "latex.parse_tex",
    ".rtf": "rtf.parse_rtf",
    ".bib": "latex.parse_bibliography",
    ".properties": "markup.parse_properties",
    **dict.fromkeys((".srt", ".vtt", ".ass", ".ssa", ".sbv", ".ttml", ".dfxp", ".lrc"), "subtitles.parse_subtitles"),
    **dict.fromkeys((".ics", ".ical", ".vcs", ".vcf"), "calendars.parse_calendar"),
    ".ldif": "calendars.parse_ldif",
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html.parse_html"),
    ".epub": "html.parse_epub",
    **dict.fromkeys((".xml", ".rss", ".atom", ".nxml", ".svg", ".enex", ".opml", ".dita", ".dbk"), "xml_text.parse_xml"),
    **dict.fromkeys((".kml", ".xlf", ".xliff", ".fb2"), "xml_text.parse_xml"),
    **dict.fromkeys((".csv", ".tsv"), "tabular.parse_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson", ".geojson"), "conversations.parse_json"),
    ".ipynb": "notebook.parse_notebook",
    ".canvas": "notebook.parse_canvas",
    ".eml": "mail.parse_mail",
    ".emlx": "mail.parse_apple_mail",
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
    ".hwpx": "xml_text.parse_hwpx",
    ".pdf": "pdf.parse_pdf",
    **dict.fromkeys(IMAGE_SUFFIXES, "pdf.parse_image"),
}
# Version of each parser's results, by parser or module. If it is raised, the files of that parser are read again.
_VERSIONS: dict[str, int] = {}
PARSER_VERSIONS = {parser: _VERSIONS.get(parser, _VERSIONS.get(parser.partition(".")[0], 1)) for parser in PARSERS.values()}
OCR_SUFFIXES = IMAGE_SUFFIXES | {".pdf"}
_OFFICE_PARSERS = ("word.", "presentation.", "spreadsheet.", "opendocument.", "old_office.", "outlook.", "xml_text.parse_hwpx")
BINARY_SUFFIXES = OCR_SUFFIXES | {".epub"} | {suffix for suffix, parser in PARSERS.items() if parser.startswith(_OFFICE_PARSERS)}
TABULAR_SUFFIXES = frozenset(
    {".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".geojson", ".ipynb", ".xlsx", ".xlsm", ".xltx", ".xltm", ".xls", ".xlt"}
)
# Suffixes of documents that LibreOffice reads → what it should convert them to.
CONVERTIBLE = {
    **dict.fromkeys((".xlsb", ".numbers"), "xlsx"),
    **dict.fromkeys((".pages", ".wpd", ".wps"), "docx"),
    ".key": "pptx",
}
MAX_DIGITS = 100_000  # digits of an integer: converting it takes 0.2 s, and the time is quadratic


def detect_kind(file: OpenFile, options: LoadOptions) -> str:
    """The suffix by which a file is to be read: its own, unless its content is of another kind. Raises Unreadable."""
    suffix = file.suffix.lower()
    head = file.read_bytes(file_kinds.SNIFF_BYTES)
    file_kinds.refuse_pointer(head)
    if not options.all_files:
        file_kinds.refuse_minified_code(head, suffix)
    is_binary = looks_binary(head)
    told = file_kinds.binary_kind(file, head) or ("" if is_binary else _text_kind(head, suffix))
    kind = told if told and PARSERS.get(told) != PARSERS.get(suffix, "") else suffix
    if kind not in PARSERS if told else is_binary and kind not in BINARY_SUFFIXES:
        hint = f"; convert it: soffice --headless --convert-to {CONVERTIBLE[kind]} FILE" if kind in CONVERTIBLE else ""
        unsupported = f"format not supported: {kind}{hint}"
        raise Unreadable("binary, not text" if kind in PARSERS or not kind else unsupported, failed=kind in PARSERS)
    return kind


def _text_kind(head: bytes, suffix: str) -> str:
    """The kind of a text; empty for a suffix that decides: of code, and of a format of text, which may begin like another."""
    if suffix in file_kinds.CODE_SUFFIXES or suffix in PARSERS.keys() - BINARY_SUFFIXES - file_kinds.PLAIN_SUFFIXES:
        return ""
    is_office = PARSERS.get(suffix, "").startswith(_OFFICE_PARSERS) and suffix != ".msg"
    otherwise = "" if not is_office else ".csv" if suffix in TABULAR_SUFFIXES else ".txt"
    kind = file_kinds.text_kind(head, is_plain=suffix in file_kinds.PLAIN_SUFFIXES) or otherwise
    return ".html" if kind == ".xml" and otherwise == ".txt" else kind  # of Word 2003: its paragraphs, not its elements


def parse_file(file: OpenFile, options: LoadOptions) -> ParsedFile:
    """Parse a file by its kind, see `detect_kind`. Raises Unreadable, and any error of a parser on a damaged file."""
    options = options if options.inner else replace(options, inner=InnerBudget(parse_file))
    kind, suffix = detect_kind(file, options), file.suffix.lower()
    try:
        return replace(_parse_as(kind, file, options), kind=kind)
    except Unreadable as error:
        error.kind, error.failed = kind, error.failed and kind in PARSERS
        if kind != ".xml" or suffix == kind or not error.failed:
            raise
    return replace(_parse_as(suffix, file, options), kind=suffix)  # a text with some XML in it


def _parse_as(kind: str, file: OpenFile, options: LoadOptions) -> ParsedFile:
    module, _, name = PARSERS.get(kind, "markup.parse_text").partition(".")
    parser: Callable[[OpenFile, LoadOptions], ParsedFile] = getattr(import_module(f"localrag.loaders.{module}"), name)
    sys.set_int_max_str_digits(MAX_DIGITS)  # of this interpreter, which only parses; by default Python raises ValueError beyond 4,300
    content = parser(file, options)
    if content.pages_to_ocr:
        return content
    if kind not in OCR_SUFFIXES:  # the places of quotes in pages are found by the letters that are there
        content = normalize_typography(content)
    if not content.text.strip("\ufeff \t\r\n\f\v"):
        raise Unreadable("no text" if kind in BINARY_SUFFIXES else "empty")
    return replace(content, title=" ".join(content.title.split())[:200])


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
_FORBIDDEN = tuple(
    """
    socket. subprocess. os.system os.exec os.fork os.posix_spawn os.spawn pty. os.startfile os.kill os.remove os.rename os.rmdir os.mkdir
    os.link os.symlink os.truncate os.chmod os.chown os.lchown os.utime os.setxattr os.removexattr shutil.
    """.split()
)


# Some formats contain lone surrogates, which the store cannot.
_CODEC = Codec(lambda answer: json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"), json.loads)


def main(memory: int, seconds: int) -> None:
    """Parse files until stdin ends. `memory`: bytes of address space; `seconds`: CPU time per file."""
    parent = ParentConnection(_CODEC, at_stdin=True)
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
        answer = _answer_request(request, OpenFile(request["name"], descriptor))
        os.close(descriptor)
        parent.send(answer)
        if answer.get("reason") == "memory":
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


def _answer_request(request: dict[str, Any], file: OpenFile) -> dict[str, Any]:
    try:
        return _dispatch(request, file)
    except Unreadable as error:
        return {"reason": _squeezed(str(error)), "failed": error.failed, "kind": error.kind}
    except MemoryError:
        return {"reason": "memory", "failed": True}
    except RecursionError:
        return {"reason": "damaged: it is nested too deeply", "failed": True}
    except Exception as error:  # noqa: BLE001 - parsers of broken files raise anything
        return {"reason": _squeezed(_error_text(error)), "failed": True}


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
    options = LoadOptions(*columns, request.get("ocr", ""), pages=read, definitions=request.get("definitions", ""))
    content = parse_file(file, replace(options, all_files=request.get("all_files", False)))
    return asdict(content)


def _error_text(error: Exception) -> str:
    """An error as a message for the user, with the error's type unless its message is meant for users."""
    message = str(error) or "it ends too early"
    is_readable = isinstance(error, ValueError | SyntaxError | BadZipFile | EOFError)
    return f"damaged: {message}" if is_readable else f"damaged: {type(error).__name__}: {message}"


def _squeezed(text: str) -> str:
    return " ".join(text.split())[:200]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
