"""LaTeX by Pandoc, where the extra is installed: what it makes of a file, its limits, and the file read without it where it fails."""

import sys

import pytest

from localrag.loaders import pandoc
from localrag.loaders.content import LoadOptions
from localrag.loaders.pandoc import convert_with_pandoc, find_pandoc
from localrag.loaders.pandoc_json import pandoc_content
from localrag.loaders.reader import content_hash_of
from tests.loaders.test_load import read, write

PROGRAM = find_pandoc()
needs_pandoc = pytest.mark.skipif(not PROGRAM, reason="the extra pandoc is not installed")
SOURCE = r"""\documentclass{article}\newcommand{\boat}{Skua}\title{On boats}\author{Ruth Sand \and Lars Holm}
\begin{document}\maketitle\begin{abstract}She leaks.\end{abstract}
\section{Boats} The \boat{} leaks\footnote{At \emph{the bow}.} since 1874\textsuperscript{2}, see \cite{holm}. $x^2$ \unknown{still}
\begin{tabular}{lrr} Boat & \multicolumn{2}{c}{Cod} \\ & 1973 & 1974 \\ \hline Skua & 7 & 8 \\ Tern & 9 & 10 \end{tabular}
\begin{enumerate}\item paint\item rope\end{enumerate}
\begin{description}\item[Keel] the lowest\end{description}
\input{SECRET}
\end{document}"""


def tex_file(tmp_path, source=SOURCE):
    return write(tmp_path, {"a.tex": source.encode()}) / "a.tex"


@needs_pandoc
def test_latex_is_read_by_pandoc(tmp_path):
    """Headings, notes, tables, lists, the abstract, and commands that Pandoc does not know; nothing that the file includes."""
    (tmp_path / "secret.tex").write_text("treasure")
    file = tex_file(tmp_path, SOURCE.replace("SECRET", str(tmp_path / "secret.tex")))
    found = read(file, LoadOptions(pandoc_program=PROGRAM))

    assert found.title == "On boats"
    assert dict(found.metadata)["author"] == "Ruth Sand, Lars Holm"
    for part in (
        "# On boats\n\nShe leaks.\n\n## Boats\n\nThe Skua leaks [1] since 1874^2, see [holm]. $x^2$ still",
        "Boat: Skua · Cod 1973: 7 · Cod 1974: 8\nBoat: Tern · Cod 1973: 9 · Cod 1974: 10",
        "1. paint\n2. rope\n\n- Keel: the lowest",
        "\n\n[1] At the bow.",
    ):
        assert part in found.text
    assert "treasure" not in found.text


@needs_pandoc
@pytest.mark.parametrize(
    "source", ["\\begin{document} It leaks. \\begin{x}{{{ end", "\\def\\a{\\a\\a}\\begin{document}\\a It leaks.\\end{document}"]
)
def test_what_pandoc_cannot_read_is_read_without_it(tmp_path, source):
    """Malformed LaTeX, and commands without end."""
    assert "It leaks." in read(tex_file(tmp_path, source), LoadOptions(pandoc_program=PROGRAM)).text


@pytest.mark.skipif(sys.platform != "linux", reason="Pandoc is confined on Linux only")
@pytest.mark.parametrize("program", ["#!/bin/sh\nsleep 60\n", "#!/bin/sh\nkill -9 $$\n", "#!/bin/sh\necho '{\"blocks\": 1}'\n"])
def test_a_file_does_not_depend_on_pandoc(tmp_path, program, monkeypatch):
    """If it hangs, crashes or writes anything else, the file is read as without it."""
    monkeypatch.setattr(pandoc, "_MAX_SECONDS", 1.0)
    (tmp_path / "pandoc").write_text(program)
    (tmp_path / "pandoc").chmod(0o755)
    file = tex_file(tmp_path)

    assert read(file, LoadOptions(pandoc_program=str(tmp_path / "pandoc"))).text == read(file).text


@needs_pandoc
def test_a_file_is_read_again_where_pandoc_comes_or_goes(tmp_path):
    """Its text differs; other files are not concerned."""
    file = tex_file(tmp_path)
    note = write(tmp_path, {"a.md": b"It leaks."}) / "a.md"

    assert content_hash_of(file, "digest", LoadOptions(pandoc_program=PROGRAM)) != content_hash_of(file, "digest")
    assert content_hash_of(note, "digest", LoadOptions(pandoc_program=PROGRAM)) == content_hash_of(note, "digest")
    assert convert_with_pandoc(PROGRAM, tex_file(tmp_path, "x" * 3_000_001)) == ""


@pytest.mark.parametrize("source", ["", "[]", '{"meta": {}}', '{"meta": {}, "blocks": [{"t": "Header", "c": 1}]}', "[" * 100_000])
def test_json_that_is_not_of_pandoc_is_refused(source):
    """The converter may have been taken over by the file."""
    assert pandoc_content(source, str) is None
