"""On Windows the program says what to do instead."""

import subprocess
import sys


def test_the_program_names_the_subsystem():
    """A clear error with its remedy, before anything else is imported."""
    code = "import runpy, sys; sys.platform = 'win32'; runpy.run_module('localrag', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert done.returncode == 1
    assert "does not run on Windows itself" in done.stderr
    assert "wsl --install" in done.stderr
