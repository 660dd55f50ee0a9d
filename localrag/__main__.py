"""The program: the command `localrag`, and `python -m localrag`, for which Python puts the working folder first in `sys.path`."""

import sys

from localrag.system.python_process import import_path

sys.path[:] = import_path()

from localrag.cli import main  # noqa: E402 — nothing else is imported before

if __name__ == "__main__":
    main()
