"""The page's files: complete, in every language, and without a way out of this computer."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[2] / "localrag" / "serve" / "static"
LANGUAGES = ("en", "de", "zh")
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
OWN = [path for path in FILES if path.suffix == ".js" and "vendor" not in path.parts]
ADDRESS = re.compile(r"https?://(?!www\.w3\.org/)\S+")  # the names of XML's vocabularies are no addresses
USED = re.compile(r'\bt\(\s*"([^"]+)"')
IMPORTED = re.compile(r"""(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


def name(path):
    return path.relative_to(STATIC).as_posix()


def without_comments(text):
    return re.sub(r"/\*.*?\*/|(?<![:\w])//[^\n]*|<!--.*?-->", "", text, flags=re.S)


@pytest.fixture(scope="module")
def strings(tmp_path_factory):
    """The texts of each language, as the page has them: read by Node, from the modules themselves."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    folder = tmp_path_factory.mktemp("strings")
    shutil.copytree(STATIC / "i18n", folder / "i18n")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    imported = "".join(f"import {language} from './i18n/{language}.js';" for language in LANGUAGES)
    (folder / "all.js").write_text(f"{imported} console.log(JSON.stringify({{{', '.join(LANGUAGES)}}}));", encoding="utf-8")
    done = subprocess.run([node, "all.js"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_language_has_the_same_texts(strings):
    """No language lacks a text, and each puts in the same values."""

    def values(text):
        forms = [text] if isinstance(text, str) else list(text.values())
        return [set(re.findall(r"\{(\w+)\}", form)) for form in forms]

    for language in LANGUAGES[1:]:
        assert set(strings[language]) == set(strings["en"])
        for key, text in strings["en"].items():
            assert set().union(*values(text)) == set().union(*values(strings[language][key])), (language, key)
    assert all(isinstance(text, str) or "other" in text for texts in strings.values() for text in texts.values())


def test_every_text_that_is_asked_for_is_there(strings):
    """A key that the page uses stands in the strings, and a key that begins one that is put together has several."""
    for path in OWN:
        text = path.read_text(encoding="utf-8")
        missing = [key for key in USED.findall(text) if key not in strings["en"]]
        assert not missing, (name(path), missing)
        for beginning in re.findall(r"\bt\(\s*`([\w.]+)\$\{", text):
            assert any(key.startswith(beginning) for key in strings["en"]), (name(path), beginning)


def test_nothing_names_another_computer():
    """No file that a browser runs or shows has an address of the net outside its comments."""
    for path in FILES:
        if path.name not in ("LICENSE", "SHA256") and path.suffix != ".png":
            found = ADDRESS.findall(without_comments(path.read_text(encoding="utf-8")))
            assert not found, (name(path), found)


def test_no_text_becomes_markup():
    """The page's own modules make no element from a string and run none."""
    for path in OWN:
        text = without_comments(path.read_text(encoding="utf-8"))
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySetInnerHTML", text)
        assert not found, (name(path), found)


def test_no_style_or_handler_stands_in_the_markup():
    """The policy of the page allows neither, so that they would be ignored without a word."""
    for path in [*OWN, STATIC / "index.html"]:
        text = without_comments(path.read_text(encoding="utf-8"))
        assert not re.search(r"<style|\sstyle=[\"$]", text), name(path)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=", page)


def test_imported_modules_are_there():
    """Every module that another imports by a fixed name is a file."""
    for path in OWN:
        for target in IMPORTED.findall(without_comments(path.read_text(encoding="utf-8"))):
            if "${" not in target:
                assert (path.parent / target).resolve().is_file(), (name(path), target)


def test_the_library_is_the_one_that_was_vendored():
    """A change of the vendored file by hand is noticed."""
    said, file = (STATIC / "vendor" / "SHA256").read_text(encoding="utf-8").split()
    assert hashlib.sha256((STATIC / "vendor" / file).read_bytes()).hexdigest() == said
    assert "MIT" in (STATIC / "vendor" / "LICENSE").read_text(encoding="utf-8")


def test_the_page_is_light():
    """What is loaded before the first picture stays below 200 KB, uncompressed."""
    shown = [
        p
        for p in FILES
        if p.suffix in (".html", ".css", ".js", ".svg") and not {"graph", "work", "de", "zh"} & set(p.relative_to(STATIC).parts)
    ]
    assert sum(p.stat().st_size for p in shown if p.parent.name != "views" or p.stem in ("ask", "source")) < 200_000


def test_the_wheel_has_every_file():
    """What the build takes into the wheel has every file of the page."""
    from hatchling.builders.wheel import WheelBuilder

    taken = {Path(file.path).resolve() for file in WheelBuilder(str(STATIC.parents[2])).recurse_included_files()}
    assert set(FILES) <= taken
