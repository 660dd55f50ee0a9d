"""Commands of LaTeX that another file of the folder defines."""

from localrag.loaders.latex_inputs import MAX_INPUT_BYTES, input_definitions
from localrag.loaders.reader import DEFAULT_OPTIONS, content_hash_of
from tests.loaders.test_load import read, write

MACRO = rb"\newcommand{\ship}{the ketch Skua}"


def document(*inputs):
    lines = "".join(f"\\input{{{name}}}" for name in inputs)
    return f"\\documentclass{{article}}{lines}\\begin{{document}}We saw \\ship.\\end{{document}}".encode()


def test_commands_of_an_input_file_are_expanded(tmp_path):
    """Also of one below the folder, and of a package beside the document."""
    sources = {
        "a.tex": document("macros"),
        "b.tex": document("parts/macros.tex"),
        "c.tex": document().replace(b"\\begin", b"\\usepackage{fleet}\\begin", 1),
        "macros.tex": MACRO,
        "parts/macros.tex": MACRO,
        "fleet.sty": MACRO,
    }
    (tmp_path / "parts").mkdir()
    folder = write(tmp_path, sources)

    for name in "abc":
        assert read(folder / f"{name}.tex").text == "We saw the ketch Skua.", name


def test_no_file_outside_the_folder_is_read(tmp_path):
    """Whether it is named by a path or a link, and whatever its size."""
    (tmp_path / "docs").mkdir()
    write(tmp_path, {"secret.tex": MACRO})
    folder = write(tmp_path / "docs", {"a.tex": document("../secret", str(tmp_path / "secret"), "link", "large", "docs", "\0")})
    (folder / "link.tex").symlink_to(tmp_path / "secret.tex")
    (folder / "large.tex").write_bytes(MACRO + b" " * MAX_INPUT_BYTES)

    assert input_definitions(folder / "a.tex") == ""


def test_a_changed_definition_changes_the_hash_of_the_document(tmp_path):
    """So that it is read again; a file without input files keeps its hash."""
    folder = write(tmp_path, {"a.tex": document("macros"), "b.tex": document(), "macros.tex": MACRO})

    def hashes():
        return [content_hash_of(folder / name, "digest", DEFAULT_OPTIONS) for name in ("a.tex", "b.tex")]

    before = hashes()
    (folder / "macros.tex").write_bytes(MACRO.replace(b"Skua", b"Tern"))
    after = hashes()

    assert before[0] != after[0]
    assert before[1] == after[1]
