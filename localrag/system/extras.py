"""Libraries that only some commands need: where one is missing, the command says which extra brings it before any work is done."""

from importlib.util import find_spec

from localrag.errors import LocalragError


def require(extra: str, *modules: str) -> None:
    """Raises LocalragError where a library of an extra is not installed."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise LocalragError(f"This needs {' and '.join(missing)}, not installed here.", f'Install it: pip install "localrag[{extra}]"')
