"""Which Tesseract is used, in which languages, and what it cannot do: run, write, connect, take for ever."""

import os
import subprocess
import sys
import sysconfig
import threading
import time

import pytest

from localrag.errors import UsageError
from localrag.loaders import ocr, sandbox
from localrag.loaders.ocr import OcrReader, checked_languages, load_options, parse_tsv, tesseract_program
from localrag.settings import IndexSettings
from tests.indexing.scans import FOUND, TEXT, drawn, needs, saved

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")


def confined(program, *arguments, seconds=20):
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    command = [sys.executable, "-I", "-S", sandbox.__file__, str(2**31), str(seconds), library, program, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@linux
def test_the_confined_program_starts_no_other(tmp_path):
    """It runs; what it wants to run, write or reach is refused."""
    assert confined("/bin/echo", "here").stdout == "here\n"
    tried = confined("/bin/sh", "-c", f"echo a; exec /bin/echo b; echo c > {tmp_path}/made")
    assert tried.stdout == "a\n"
    assert confined("/bin/sh", "-c", "/bin/echo b; echo c").stdout == ""
    assert not list(tmp_path.iterdir())
    code = "import socket; socket.socket()"
    assert "PermissionError" in confined(os.path.realpath(sys.executable), "-S", "-c", code).stderr


@linux
@pytest.mark.ci
def test_the_confined_program_has_so_much_memory_and_time():
    """More memory fails, and an endless loop ends."""
    python = os.path.realpath(sys.executable)
    assert "MemoryError" in confined(python, "-S", "-c", "bytes(3 * 2**30)").stderr
    started = time.monotonic()
    assert confined(python, "-S", "-c", "while True: pass", seconds=1).returncode < 0
    assert time.monotonic() - started < 60


@linux
@pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock, which is what forbids reading")
def test_the_confined_program_reads_nothing_but_libraries(tmp_path):
    """Nor /proc; and it can neither set the owner of a descriptor nor a priority."""
    (tmp_path / "kept.txt").write_text("kept")
    python = os.path.realpath(sys.executable)
    for path in (tmp_path / "kept.txt", f"/proc/{os.getpid()}/environ", "/proc/self/environ", "/etc/passwd"):
        assert "PermissionError" in confined(python, "-S", "-c", f"open({str(path)!r}).read()").stderr
    assert "PermissionError" in confined(python, "-S", "-c", f"import os; os.listdir({str(tmp_path)!r})").stderr
    assert "PermissionError" in confined(python, "-S", "-c", f"import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, {os.getpid()})").stderr
    assert "PermissionError" in confined(python, "-S", "-c", "import os; os.setpriority(0, 0, 19)").stderr
    assert confined(python, "-S", "-c", "import ctypes; print('loaded')").stdout == "loaded\n"


@pytest.mark.ci
@needs("eng", "deu")
def test_the_languages_are_the_indexs_own_or_english():
    """German where the index is in German, English where nothing is known of it or its data is missing, else what was named."""
    assert load_options(IndexSettings()).ocr == "eng"
    assert load_options(IndexSettings(language="German")).ocr == "deu"
    assert load_options(IndexSettings(language="Klingon")).ocr == "eng"
    assert load_options(IndexSettings(language="Russian")).ocr == ("rus" if "rus" in FOUND.languages else "eng")
    assert load_options(IndexSettings(ocr_languages=("eng", "deu"))).ocr == "eng+deu"
    assert load_options(IndexSettings(ocr_languages=("tlh",))).ocr_unavailable_reason == "Tesseract has no data for tlh (localrag doctor)"


@pytest.mark.ci
@needs("eng")
def test_a_language_without_data_is_refused_at_the_command_line():
    """The error names those there are, and what to install."""
    assert checked_languages("eng, eng") == ("eng",)
    with pytest.raises(UsageError, match=r"no data for tlh; it has: .*eng") as raised:
        checked_languages("eng+tlh")
    assert "tesseract-ocr-tlh" in raised.value.hint


@pytest.mark.ci
@needs("eng")
def test_a_page_that_takes_too_long_is_given_up(monkeypatch):
    """It is ended, and the reason is told."""
    monkeypatch.setattr(ocr, "PAGE_TIMEOUT_S", 0.05)
    assert OcrReader(tesseract_program(FOUND, "eng")).read(saved(drawn(TEXT), "PPM"))["why"] == "took longer than 0.05 s"


@pytest.mark.ci
@needs("eng")
def test_what_runs_ends_when_it_is_stopped():
    """A page that takes seconds is given up at once, and nothing is started afterwards."""
    reader = OcrReader(tesseract_program(FOUND, "eng"))
    image = saved(drawn("\n".join([TEXT] * 8), size=(2480, 3508)), "PPM")
    found = []
    thread = threading.Thread(target=lambda: found.append(reader.read(image)))
    started = time.monotonic()
    thread.start()
    while not reader._running and time.monotonic() - started < 120:
        time.sleep(0.01)
    reader.stop()
    thread.join(60)

    assert found[0]["why"].startswith("Tesseract failed")
    assert reader.read(image)["why"] == "stopped"


@pytest.mark.ci
@needs("eng")
@pytest.mark.parametrize("image", [b"no picture", b"", b"P5\n100000 100000\n255\n"])
def test_what_tesseract_cannot_read_is_told(image):
    """A program that fails is a reason, no crash."""
    assert OcrReader(tesseract_program(FOUND, "eng")).read(image)["why"].startswith("Tesseract failed: ")


def test_a_tesseract_that_is_none_is_not_used():
    """A program that cannot be started is a reason on each page."""
    reader = OcrReader(tesseract_program(ocr.Tesseract("/nowhere/tesseract", "5", ("eng",)), "eng"))
    assert reader.read(b"")["why"].startswith("Tesseract failed: /nowhere")


@pytest.mark.parametrize(
    ("parse", "output"),
    [
        (parse_tsv, "head\nrow"),
        (parse_tsv, "head\n5\t1\t1\t1\t1\t1\tx\t5\t20\t8\t91\ta"),
        *((ocr.parse_json, output) for output in ("", "{}", "[" * 5000, '{"words": [1]}', '{"words": [["a", 1]]}', '{"words": 1}')),
    ],
)
def test_a_program_that_a_page_took_over_is_a_reason(parse, output):
    """Whatever it writes, the page is unread."""
    program = ocr.OcrProgram("it", "It", (sys.executable, "-c", f"print({output!r})"), dict(os.environ), parse)
    page = OcrReader(program).read(b"")
    assert (page["words"], page["why"]) == ([], "It failed: its output cannot be read")


def test_words_are_taken_from_the_table_as_they_stand():
    """A quotation mark or a tab's escape in a word does no harm to the others."""
    head = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
    rows = '1\t1\t0\t0\t0\t0\t0\t0\t100\t50\t-1\t\n5\t1\t1\t1\t1\t1\t10\t5\t20\t8\t91.6\t"so\n5\t1\t1\t1\t2\t1\t10\t15\t20\t8\t3\t \n'
    rows += "5\t1\t1\t1\t2\t2\t40\t15\t20\t8\t88\tthere\n"

    assert parse_tsv(head + rows) == {
        "width": 100,
        "height": 50,
        "words": [['"so', 10, 5, 30, 13, 92, 0], ["there", 40, 15, 60, 23, 88, 1]],
    }
