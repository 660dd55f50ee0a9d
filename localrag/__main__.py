"""The program: the command `localrag`, and `python -m localrag`, for which Python puts the working folder first in `sys.path`."""

import sys

from localrag.system.python_process import import_path

if sys.platform == "win32":
    sys.exit("localrag does not run on Windows itself. Use the Windows Subsystem for Linux: wsl --install")
sys.path[:] = import_path()

from localrag.cli import main  # noqa: E402 — nothing else is imported before

if __name__ == "__main__":
    main()
