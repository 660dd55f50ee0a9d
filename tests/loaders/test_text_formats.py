"""Text formats: encodings with errors in them, notebooks, Markdown, subtitles, calendars, TeX and RTF."""

import json

import pytest

from localrag.loaders.content import decode
from localrag.loaders.discover import find_files
from localrag.loaders.encodings import looks_binary
from localrag.loaders.reader import Limits
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


ROLLING = """WEBVTT

00:00:00.500 --> 00:00:03.490 align:start position:0%
@
the<00:00:00.800><c> ferry</c><00:00:01.100><c> left</c>

00:00:03.490 --> 00:00:03.500 align:start position:0%
the ferry left
@

00:00:03.500 --> 00:00:06.490 align:start position:0%
the ferry left
for<00:00:03.800><c> Vardby</c>

00:00:06.490 --> 00:00:09.000 align:start position:0%
for Vardby
and Ruth stayed

00:00:09.000 --> 00:00:10.000
and Ruth stayed ashore
""".replace("@", " ")


def test_rolling_captions_are_read_once(tmp_path):
    """However often a line is shown, also where it grows by a word; what is said again later stays."""
    again = "\n\n00:00:20.000 --> 00:00:21.000\nthe ferry left\n"

    assert text_of(tmp_path, "a.vtt", ROLLING + again) == "the ferry left for Vardby and Ruth stayed ashore the ferry left"


@pytest.mark.parametrize(
    ("source", "metadata"),
    [
        (
            "title: The Skua: a history\ndate: 1974-03-04\ntags: [sea, log]",
            (("title", "The Skua: a history"), ("date", "1974-03-04"), ("tags", "sea, log")),
        ),
        ('title: @Skua\nauthor: Ruth "R" Sand: mate', (("title", "@Skua"), ("author", 'Ruth "R" Sand: mate'))),
        ("title: Skua\n\tbroken: [1\nauthor: Ruth Sand", (("title", "Skua"), ("author", "Ruth Sand"))),
        (
            "title: Skua\nrelated: [[Vardby]]\naliases:\n  - 'Old: Skua'",
            (("title", "Skua"), ("related", "Vardby"), ("aliases", "Old: Skua")),
        ),
    ],
)
def test_a_line_of_front_matter_that_is_no_yaml_spoils_no_other(tmp_path, source, metadata):
    """A colon in a title, a sign that YAML reserves, a link to another note."""
    found = read(write(tmp_path, {"a.md": f"---\n{source}\n---\n\nIt leaks.\n".encode()}) / "a.md")

    assert found.metadata == metadata
    assert found.text.endswith("It leaks.\n")


def test_a_section_of_a_note_is_not_its_title(tmp_path):
    """Headings that stand beside each other name sections; a single one, or one above them, names the note."""
    titles = {
        "1974-03-04.md": ("## To do\n\n- rope\n\n## Done\n\n- paint\n", "1974-03-04"),
        "a.md": ("# Skua\n\n## To do\n\n## Done\n\n# More\n", "Skua"),
        "b.md": ("text\n\n## Skua\n\n### To do\n", "Skua"),
    }
    for name, (source, title) in titles.items():
        assert read(write(tmp_path, {name: source.encode()}) / name).title == title


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv", "a.json", "a.srt"])
def test_words_are_found_whatever_invisible_marks_they_have(tmp_path, name):
    """Soft hyphens and spaces of no width are gone, ligatures are letters, and accents are in their letters."""
    words = "The re\u00adstored \ufb01rst o\ufb03ce of Rene\u0301e in bathy\u200bmetry"
    sources = {"a.html": f"<p>{words}</p>", "a.json": json.dumps({"a": words}), "a.srt": f"1\n00:00:01,000 --> 00:00:02,000\n{words}\n"}

    assert "The restored first office of Renée in bathymetry" in text_of(tmp_path, name, sources.get(name, words))


def test_parts_stay_where_they_are_when_marks_are_removed(tmp_path):
    """The places of cells move with the text before them."""
    cells = [{"cell_type": "markdown", "source": f"o\ufb03ce n\u00adu\u00admber {n}"} for n in range(3)]
    found = read(write(tmp_path, {"a.ipynb": json.dumps({"cells": cells}).encode()}) / "a.ipynb")

    assert [found.text[p.start : p.end] for p in found.parts] == ["office number 0", "office number 1", "office number 2"]


def test_joiners_of_scripts_and_emoji_are_kept(tmp_path):
    """Persian words and families of emoji need them."""
    source = "می\u200cخواهم 👩\u200d🚀 ភាសា\u200bខ្មែរ"

    assert text_of(tmp_path, "a.txt", source) == source


def test_words_divided_at_the_end_of_a_line_are_joined(tmp_path):
    """The line then ends after the word; compounds keep their hyphen, and so does everything in other formats."""
    source = "He in-\nherited the well-\nknown light-\nhouse, all well and known. Its com-\nmittee,\nof A-\nB, has a light-house.\n"

    assert text_of(tmp_path, "a.txt", source) == (
        "He inherited\nthe well-known\nlight-house,\nall well and known. Its committee,\nof A-\nB, has a light-house.\n"
    )
    assert text_of(tmp_path, "a.py", source) == source


CALENDAR = r"""BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART;TZID=Europe/Oslo:19740304T093000
SUMMARY:Launch of the fer
 ry Skua\, at no
 on
ORGANIZER;CN="Sand, Ruth":mailto:ruth@vardby.example
LOCATION:Quay 9
DESCRIPTION:Bring boots.\nTea.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
BEGIN:VTODO
SUMMARY:Buy rope
DUE;VALUE=DATE:19740305
END:VTODO
END:VCALENDAR
"""


def test_the_events_of_a_calendar_are_read(tmp_path):
    """Folded lines are joined, escapes resolved, people named; alarms are left out."""
    assert text_of(tmp_path, "a.ics", CALENDAR.replace("\n", "\r\n")) == (
        "Summary: Launch of the ferry Skua, at noon\nStart: 1974-03-04 09:30 Europe/Oslo\nLocation: Quay 9\n"
        "Organizer: Sand, Ruth <ruth@vardby.example>\nDescription: Bring boots.\nTea.\n\nSummary: Buy rope\nDue: 1974-03-05"
    )


def test_lock_files_of_office_are_no_documents(tmp_path):
    """They are left out as hidden files are, without a word."""
    write(tmp_path, {"~$letter.docx": b"\x08Ruth", "letter.txt": b"It leaks."})
    source = find_files([tmp_path])

    assert [file.name for file in source.files] == ["letter.txt"]
    assert not source.left_out


def test_the_colors_of_a_log_are_left_out(tmp_path):
    """Escape sequences of terminals stand in no word."""
    assert text_of(tmp_path, "a.log", "\x1b[1;31mERROR\x1b[0m no \x1b]0;title\x1b\\tide\n") == "ERROR no tide\n"


def test_a_single_line_of_any_length_is_read(tmp_path):
    """With and without spaces."""
    for source in ("x" * 400_000, "rope mast " * 60_000):
        assert text_of(tmp_path, "a.txt", source) == source


def rtf(body, head=""):
    return rf"{{\rtf1\ansi\ansicpg1252\deff0{head} {body}}}"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"It cost {\deleted 90}{\revised 150} crowns, \deleted no\deleted0 yes.", "It cost 150 crowns, yes."),
        (r"Built in 1874{\super 2}, 10{\super 6} bricks, H{\sub 2}O, 2\super nd\nosupersub .", "Built in 1874^2, 10^6 bricks, H2O, 2nd."),
        (r"It leaks.{\footnote \pard At the bow.} Badly.", "It leaks. [1] Badly.\n\n[1] At the bow."),
        (r"{\header File 7-B\par}{\footer Page {\field{\*\fldinst PAGE}{\fldrslt 1}}\par}It leaks.", "File 7-B\n\nIt leaks.\n\nPage 1"),
        (r"\u321?uk caf\'e9 \uc0\u8364 5 \uc1\u-10179?\u-8704? a\emdash b\~c", "Łuk café €5 😀 a—b\xa0c"),
        (r"{\v hidden}seen {\*\private gone}{\field{\*\fldinst{HYPERLINK x}}{\fldrslt link}}", "seen link"),
        (r"{\listtext\'b7\tab}rope\par {\listtext 2.\tab}paint\par", "- rope\n2. paint"),
        (r"\trowd Boat\cell Tons\cell\row\trowd\intbl Skua\par of 1974\cell 7\cell\row\pard end", "Boat: Skua of 1974 · Tons: 7\n\nend"),
        (r"\pard\outlinelevel1 Boats\par\pard It leaks.", "## Boats\n\nIt leaks."),
        (r"{\shp{\*\shpinst{\sp{\sn a}{\sv b}}{\shptxt In a box.\par}}} end{\pict\bin3 {{{ffd8}", "In a box.\nend"),
    ],
    ids=["revisions", "raised", "note", "margins", "characters", "hidden", "list", "table", "heading", "box"],
)
def test_rich_text_is_read_as_it_is_shown(tmp_path, body, text):
    """Without what was deleted or hidden, with notes, margins, lists, tables and headings, and with raised digits apart."""
    assert text_of(tmp_path, "a.rtf", rtf(body)) == text


def test_rich_text_is_decoded_by_its_fonts(tmp_path):
    """Each font has its encoding; styles name headings, and the particulars are metadata."""
    head = r"{\fonttbl{\f0\fcharset204 A;}{\f1\fcharset128 B;}}{\stylesheet{\s1\outlinelevel0 heading 1;}}"
    head += r"{\info{\title The log}{\author Ruth Sand}{\creatim\yr1974\mo3\dy4}}"
    found = read(write(tmp_path, {"a.rtf": rtf(r"\pard\s1\f0 \'ca\'ee\'f0\par\pard\f1 \'91\'44", head).encode()}) / "a.rtf")

    assert found.text == "# Кор\n\n船"
    assert found.metadata == (("title", "The log"), ("author", "Ruth Sand"), ("date", "1974-03-04"))


@pytest.mark.parametrize("source", ["{", "{\\footnote ", "\\trowd a\\cell\\row ", "\\'e9", "\\super x{"])
def test_rich_text_that_never_ends_costs_no_more_than_its_length(tmp_path, source):
    """However deeply it is nested."""
    assert text_of(tmp_path, "a.rtf", rtf("start " + source * 30_000 + " end")).startswith("start")


def tex(body, preamble=""):
    return rf"\documentclass{{article}}{preamble}\begin{{document}}{body}\end{{document}}"


MACROS = r"""
\newcommand\boat{Skua} \renewcommand{\weight}[2][7]{#1 tons of #2}\def\by#1{by \emph{#1}}
\newcommand{\whose}{\boat, \by{Lars}} \newcommand*{\firm}{Holm \& Sons\xspace} \newtheorem{lemma}{Lemma}
\newenvironment{aside}[1]{\begin{quote}#1}{\end{quote}} \newcommand{\loop}{\loop\loop}
"""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"The \boat{} took \weight{cod}, \weight[9]{eel}; \whose.", "The Skua took 7 tons of cod, 9 tons of eel; Skua, by Lars."),
        (r"Built by \firm in \boat\ bay. $\boat^2$ \loop end", "Built by Holm & Sons in Skua bay. $Skua^2$ end"),
        (r"It leaks.\footnote{At \textbf{the bow}.} Badly\footnote{Or not.}.", "It leaks. [1] Badly [2].\n\n[1] At the bow.\n[2] Or not."),
        (r"In 1874\textsuperscript{2} 10\textsuperscript{6} H\textsubscript{2}O, a 2\textsuperscript{nd}.", "In 1874^2 10^6 H2O, a 2nd."),
        (
            r"\begin{tabularx}{5cm}{l|rr}\toprule Boat & \multicolumn{2}{c}{Cod \& eel} \\ & 1973 & 1974 \\ \midrule "
            r"\emph{Skua} & 7 & 8 \\[2pt] \multirow{2}{*}{Tern} & 9 & 10\\ \bottomrule\end{tabularx}",
            "Boat: Skua · Cod & eel 1973: 7 · Cod & eel 1974: 8\nBoat: Tern · Cod & eel 1973: 9 · Cod & eel 1974: 10",
        ),
        (
            r"\begin{tabular}{ll}\toprule & \multirow{2}*{\textbf{Boat}} & Cod \\ & & tons \\ \midrule\rule{0pt}{2ex}"
            r"\multirow{2}{*}{North} & \cellcolor{red}Skua & 7 \\ & Tern & 9 \\ \addlinespace[2pt]\end{tabular}",
            "North · Boat: Skua · Cod tons: 7\nNorth · Boat: Tern · Cod tons: 9",
        ),
        (
            r"\begin{tabular}{ll}\hline\multirow{2}{*}{Boat} & \multirow{2}{*}{Kind} & Length \\ & & (m) \\ \hline Skua & keel & 9 \\"
            r"\hline \multirow{2}{*}{Tern} & flat & 7 \\ & keel & 8 \\ \hline\end{tabular}",
            "Boat: Skua · Kind: keel · Length (m): 9\nBoat: Tern · Kind: flat · Length (m): 7\nBoat: Tern · Kind: keel · Length (m): 8",
        ),
        (
            r"Set \texttt{keel\_1} or \verb|a_b%c| or \verb+%d+, \textsf{see} \mbox{\S\ref{mast}}"
            r" \href{http://x.example/\%20}{here} for \pounds5.",
            "Set keel_1 or a_b%c or %d, see §mast here for £5.",
        ),
        ("A\n\\begin{verbatim}\n  if {x} % y\n\\end{verbatim}\nB \\begin{comment}C\\end{comment}", "A\n\n  if {x} % y\n\nB"),
        (
            r"\begin{minipage}[t]{3cm}\resizebox{2cm}{!}{Skua}\end{minipage} \index{boat}\includegraphics{a}\caption[Sail]{The sail}",
            "Skua The sail",
        ),
        (r"\begin{description}\item[Keel] the lowest\item[Mast] the highest\end{description}", "- Keel: the lowest\n- Mast: the highest"),
    ],
    ids=["macros", "end of a macro", "notes", "raised", "table", "rules and rows", "lines", "commands", "verbatim", "arguments", "list"],
)
def test_tex_is_read_as_it_is_set(tmp_path, body, text):
    """With its own commands expanded, tables by row, notes at the end, and raised digits apart."""
    assert " ".join(text_of(tmp_path, "a.tex", tex(body, MACROS)).split()) == " ".join(text.split())


@pytest.mark.parametrize(
    "source",
    [
        "\\newcommand{",
        "\\footnote{",
        "\\begin{tabular}{l} ",
        "\\textsuperscript{",
        "\\newcommand{\\x}[9]{#1#1",
        "\\multicolumn{2}{c}{",
        "\\begin{verbatim}\\verb|\\iffalse ",
        "\\def\\y{\\y\\y}\\y ",
    ],
)
def test_tex_that_never_ends_costs_no_more_than_its_length(tmp_path, source):
    """Nor do commands that expand to themselves."""
    found = read(write(tmp_path, {"a.tex": f"start {source * 5_000} end".encode()}) / "a.tex", limits=Limits(seconds=30))

    assert found.text.startswith("start")
    assert len(found.text) < 500_000
