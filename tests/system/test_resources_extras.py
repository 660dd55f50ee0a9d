"""Commands that need a library of an extra say so, at once, where it is not installed."""

import sys

import pytest
from typer.testing import CliRunner

from localrag.cli import app
from localrag.errors import LocalragError
from localrag.system.installation import EXTRAS, install_hint


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        (["import", "graphrag", "docs"], "pyarrow", "export"),
        (["index", "docs", "--ray", "127.0.0.1:1"], "ray", "ray"),
        (["worker", "--ray", "127.0.0.1:1"], "ray", "ray"),
        (["worker", "--head"], "ray", "ray"),
    ],
)
def test_a_missing_library_is_said_before_anything_is_done(command, module, extra, tmp_path, monkeypatch):
    """The error names the library and how to install all of that extra; nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("Ruth Sand steers the Skua.")
    monkeypatch.setitem(sys.modules, module, None)
    ended = CliRunner().invoke(app, command)

    assert isinstance(ended.exception, LocalragError), ended.output
    assert module in str(ended.exception)
    assert ended.exception.hint == install_hint(*EXTRAS[extra])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["docs"]
