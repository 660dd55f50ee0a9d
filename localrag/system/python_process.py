"""Python processes that import nothing from the working folder: code that lies among documents is not run.

`python -m localrag` uses this before any other import, hence it imports only what Python itself has loaded by then.
"""

import os
import sys

PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
RUN_MODULE = "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"  # the first argument names it


def _is_working_folder(folder: str) -> bool:
    try:
        return os.path.samefile(folder or ".", ".")  # noqa: PTH121
    except OSError:
        return False


def import_path() -> list[str]:
    """`sys.path` without the working folder, but with the folder that localrag itself was imported from, as the last."""
    return [*(p for p in sys.path if not _is_working_folder(p) and p != PACKAGE_PARENT), PACKAGE_PARENT]


def python_process(code: str, *arguments: str, isolated: bool = False) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a process that finds what this one finds, the rest of `sys.path` last; `isolated`: of it only localrag."""
    env = dict(os.environ)
    if folders := [p for p in env.pop("PYTHONPATH", "").split(os.pathsep) if not _is_working_folder(p)]:
        env["PYTHONPATH"] = os.pathsep.join(folders)
    paths = [PACKAGE_PARENT] if isolated else import_path()
    code = f"import sys; sys.path += [p for p in {paths!a} if p not in sys.path]; {code}"
    return [sys.executable, "-P", "-c", code, *arguments], env
