"""On Windows, which has neither `fcntl` nor `resource`, everything can be imported, and indexing says that it does not run there."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"
BLOCKED = """
import builtins, sys
usual = builtins.__import__
def without(name, globals=None, *rest, **named):
    if name in ("fcntl", "resource") and (globals or {}).get("__name__", "").startswith("localrag"):  # other packages do without on Windows
        raise ImportError(name)
    return usual(name, globals, *rest, **named)
builtins.__import__ = without
"""


@pytest.mark.ci
def test_every_module_can_be_imported():
    """No module needs them at import."""
    names = sorted(
        ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for p in PACKAGE.rglob("*.py")
        if p.name != "__main__.py"
    )
    code = BLOCKED + f"import importlib\nfor name in {names!r}: importlib.import_module(name)\nprint('all')"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.stdout.strip() == "all", done.stderr


@pytest.mark.ci
def test_indexing_says_what_to_do_instead(tmp_path):
    """A clear error with its remedy, before anything is made."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Ruth Sand sailed.")
    code = BLOCKED + "import runpy\nsys.argv = ['localrag', 'index', 'docs']\nrunpy.run_module('localrag', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 1
    assert "Indexing does not run on Windows itself." in done.stderr
    assert "wsl --install" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["docs"]
