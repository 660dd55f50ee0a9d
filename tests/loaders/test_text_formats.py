"""Text formats: encodings with errors in them, notebooks, Markdown, subtitles, calendars, TeX and RTF."""

import json

import pytest

from localrag.loaders.content import decode
from localrag.loaders.encodings import looks_binary
from localrag.records import SkippedFile
from tests.loaders.test_load import read, write

GERMAN = "Die Fähre gehört Jörg Müller, er übergab sie früh.\n"
RUSSIAN = "Корабль стоит в порту Мурманска, капитан на берегу.\n"


def text_of(tmp_path, name, source):
    data = source if isinstance(source, bytes) else source.encode()
    return read(write(tmp_path, {name: data}) / name).text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (GERMAN.encode() * 2 + "Grüße".encode("cp1252"), GERMAN * 2 + "Grüße"),
        ("Er sagte „nein“ – ".encode() + b"Preis: \xa3 40", "Er sagte „nein“ – Preis: £ 40"),
        (GERMAN.encode() + "“Smart” it’s 5 €".encode("cp1252"), GERMAN + "“Smart” it’s 5 €"),
        ((GERMAN * 30).encode()[:-2] + b"\xc3", GERMAN * 29 + GERMAN[:-2] + "\ufffd"),
        (RUSSIAN.encode() * 3 + "Порт".encode("cp1251"), RUSSIAN * 3 + "Порт"),
        ("渡辺さんは船を売りました。".encode() * 3 + b"\xe6\xb8", "渡辺さんは船を売りました。" * 3 + "\ufffd"),
        (b"\xef\xbb\xbfKaf\xe9 und Br\xc3\xb6tchen", "\ufeffKafé und Brötchen"),
        ("J\u00fcrgen; ".encode() + b"K\xf6ln", "Jürgen; Köln"),
    ],
    ids=["a word", "a symbol", "quotation marks", "cut", "Cyrillic", "Japanese", "byte-order mark", "half and half"],
)
def test_a_few_broken_bytes_do_not_spoil_utf_8(data, text):
    """The rest is read as UTF-8, and each of them as what it means in the encoding of such a text, else as U+FFFD."""
    assert decode(data) == text


@pytest.mark.parametrize(
    "parts",
    [
        [(GERMAN, "utf-8", 5), (GERMAN, "cp1252", 5)],
        [(GERMAN, "cp1252", 9), (GERMAN, "utf-8", 1)],
        [(RUSSIAN, "utf-8", 3), (RUSSIAN, "cp1251", 3)],
        [("王海明是海鸥号的轮机长。\n", "utf-8", 3), ("王海明是海鸥号的轮机长。\n", "gb18030", 3)],
    ],
)
def test_a_log_of_lines_in_two_encodings_is_read_by_line(parts):
    """Programs with other settings append to the same file; none of its lines is misread."""
    assert decode(b"".join(text.encode(name) * n for text, name, n in parts)) == "".join(text * n for text, _, n in parts)


@pytest.mark.parametrize("declared", ["utf-8", "iso-8859-1", "shift_jis", "no-such-name", ""])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_wrong_declaration_does_not_garble_a_text(encoding, declared):
    """What a file says of its encoding counts less than its bytes."""
    assert decode(GERMAN.encode(encoding), declared) == GERMAN


def test_letters_of_old_western_encodings_are_not_taken_for_another_script():
    """Accented letters within Latin words are neither Greek nor Central European."""
    assert decode("Käpt'n Brömel, Façade\n".encode("cp850")) == "Käpt'n Brömel, Façade\n"
    assert decode("“Café” – a naïve résumé…".encode("cp1252")) == "“Café” – a naïve résumé…"


@pytest.mark.parametrize("gap", [b"\0" * 37 + b"\n", b"\0" * 4096, b"\0"])
def test_zero_bytes_in_a_log_are_dropped(tmp_path, gap):
    """They are what a crash leaves; the lines around them are kept, and a file of even length with one is no UTF-16."""
    log = b"07:00 burner lit by Ruth Sand\n" + gap + b"07:05 valve opened, burner out\n" * 5
    for data in (log, log + b"\n"):
        assert not looks_binary(data)
        lines = [line for line in text_of(tmp_path, "a.log", data).split("\n") if line]
        assert lines[:2] == ["07:00 burner lit by Ruth Sand", "07:05 valve opened, burner out"]


def test_lines_of_utf_16_in_a_log_are_read(tmp_path):
    """As a shell of Windows appends them to a file of another encoding."""
    log = b"07:00 burner lit by Ruth Sand\n" * 5 + "07:05 valve opened\r\n".encode("utf-16-le")

    assert text_of(tmp_path, "a.log", log).rstrip().endswith("07:05 valve opened")


@pytest.mark.parametrize(
    "data", [bytes(range(256)) * 9, b"ab\0\x01\x02cd" * 99, b"\0" * 99, b"\x7fELF\0\0\0" + b"\1\0name" * 90, b"\x80\x81\xfe"]
)
def test_binary_data_are_still_refused(tmp_path, data):
    """Zero bytes among control characters are no damaged text."""
    found = read(write(tmp_path, {"a.txt": data}) / "a.txt")

    assert isinstance(found, SkippedFile)
    assert found.reason == "binary, not text"


def notebook(*outputs):
    return json.dumps({"cells": [{"cell_type": "code", "source": ["fit(catch)"], "outputs": list(outputs)}]})


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"output_type": "stream", "text": ["\x1b[32mok\x1b[0m\n", "10%\r 50%\r100%\n"]}, "ok\n100%"),
        (
            {"output_type": "error", "ename": "ValueError", "evalue": "\x1b[31mno catch", "traceback": ["\x1b[0;31m---"]},
            "ValueError: no catch",
        ),
        (
            {
                "data": {
                    "text/plain": "   a ...",
                    "text/html": "<table><tr><th>Boat</th><th>Cod</th></tr><tr><td>Skua</td><td>7</td></tr></table>",
                }
            },
            "Boat: Skua · Cod: 7",
        ),
        ({"data": {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": ["**Skua** leads"]}}, "**Skua** leads"),
        ({"data": {"text/plain": "<Figure size 640x480>", "image/png": "iVBOR"}}, "<Figure size 640x480>"),
    ],
    ids=["stream", "error", "table", "Markdown", "plain"],
)
def test_the_outputs_of_a_notebook_are_read(tmp_path, output, text):
    """Tables with their headers, errors by their message, nothing with the escapes of a terminal."""
    assert text_of(tmp_path, "a.ipynb", notebook(output)) == f"```\nfit(catch)\n```\n\n{text}"


def test_a_long_output_of_a_notebook_is_cut(tmp_path):
    """At the end of a line; the other outputs are kept."""
    text = text_of(tmp_path, "a.ipynb", notebook({"text": "tide 1\n" * 5000}, {"text": "end"}))

    assert len(text) < 2500
    assert text.endswith("tide 1\n\nend")
