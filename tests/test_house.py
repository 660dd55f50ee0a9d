"""The house rules that a machine can check: layers, file lengths, words, documentation."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "localrag"
MODULES = sorted(PACKAGE.rglob("*.py"))
# From the bottom up; a module imports only from rows below its own, or from its own row's package.
ROWS = [
    {"states"},
    {"errors", "records"},
    {"system", "about"},
    {"text"},
    {"linear"},
    {"config", "gguf_header", "pagerank", "where"},
    {"model_table"},
    {"models"},
    {"engine", "store"},
    {"llm"},
    {"project"},
    {"index", "query"},
    {"opening", "demo", "contents", "catalog", "picture"},
    {"exchange"},
    {"eval"},
    {"bench"},
    {"doctor", "serve", "library"},
    {"integrations", "cli"},
    {"__init__", "__main__"},
]
# The rooms of the large packages, by the same rule.
ROOMS = {
    "engine": [
        {"settings", "adapter", "draft", "kv", "usage"},
        {"bert_folder"},
        {"sampler", "shape"},
        {"request"},
        {"llama"},
        {"hardware"},
        {"tokens", "embedding", "sequence"},
        {"prefixes", "slots", "remote"},
        {"batch"},
        {"engine"},
    ],
    "index": [
        {"estimate"},
        {"progress", "jobs"},
        {"documents"},
        {"extraction"},
        {"graph"},
        {"reports"},
        {"crew"},
        {"embed", "traces", "collect"},
        {"pipeline"},
        {"erase", "plan"},
    ],
    "query": [
        {"draft", "reading", "questions"},
        {"question"},
        {"retrieval"},
        {"cost", "answering", "route"},
        {"modes", "converse"},
        {"answer"},
    ],
    "cli": [{"views", "completion"}, {"options"}, {"settings"}, {"commands"}],
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def row_of(name: str, rows: list[set[str]]) -> int:
    return next(n for n, row in enumerate(rows) if name in row)


def imports(path: Path, *, types: bool = True) -> list[str]:
    """Every localrag module that `path` imports anywhere, as a dotted name without the package's own; `types`: also for types alone."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not types:
        tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "localrag":
            found += [f"{node.module}.{a.name}".removeprefix("localrag.") for a in node.names]
        elif isinstance(node, ast.Import):
            found += [a.name.removeprefix("localrag.") for a in node.names if a.name.startswith("localrag.")]
    return found


def third_parties(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[0] for a in node.names}
    return found


def check(mine: str, other: str, rows: list[set[str]], path: Path) -> None:
    assert other == mine or row_of(other, rows) < row_of(mine, rows), f"{path.relative_to(PACKAGE)} imports {other}, which is not below it"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_from_rows_below(path):
    """Packages stand in rows, and so do the rooms of the large ones; `llm` knows no store, and `engine` and `store` not each other."""
    mine = name_of(path)
    if mine == "__main__":
        return
    for target in imports(path):
        other, *inner = target.split(".")
        if other != "__version__":
            check(mine, other, ROWS, path)
        if other == mine in ROOMS and inner and len(rest := path.relative_to(PACKAGE).parts[1:]) and rest != ("__init__.py",):
            check(rest[0].removesuffix(".py"), inner[0], ROOMS[mine], path)
    assert mine != "llm" or not any(t.startswith("store") for t in imports(path))


def test_no_modules_import_each_other_in_a_circle():
    """Also within a room, and also by imports inside functions."""
    named = {path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path for path in MODULES}
    graph = {
        name: {t for x in imports(path) for t in (x, x.rpartition(".")[0]) if t in named and t != name} for name, path in named.items()
    }
    while leaves := [name for name, below in graph.items() if not below & graph.keys()]:
        for name in leaves:
            del graph[name]

    assert not graph


STAGES = (
    "pipeline.py",
    "plan.py",
    "erase.py",
    "traces.py",
    "collect.py",
    "progress.py",
    "embed.py",
    "reports/sources.py",
    "documents/update.py",
    "crew/hire.py",
    "crew/on_ray.py",
)


def test_stages_do_not_touch_the_store():
    """Of indexing, only the pipeline and its parts read and write the store, and what brings the graph up to date row by row.

    What they call takes and returns records.
    """
    for path in (PACKAGE / "index").rglob("*.py"):
        if (
            path.parent.name not in {"merging", "clustering"}
            and path.name != "stage.py"
            and path.relative_to(PACKAGE / "index").as_posix() not in STAGES
        ):
            assert not [t for t in imports(path) if t.startswith("store")], path


def test_one_package_knows_llama_cpp_and_the_terminal_stays_in_cli():
    """Only engine/llama/ imports llama_cpp; rich and typer stay in cli/."""
    for path in MODULES:
        used = third_parties(path)
        assert "llama_cpp" not in used or path.parent == PACKAGE / "engine" / "llama", path
        assert not used & {"rich", "typer"} or name_of(path) == "cli", path


# What the commands leave to the library, and the modules of commands that reach below it.
BENEATH = re.compile(
    r"index\.(pipeline|erase|traces|documents\.update\.update_documents)|index\.plan\.plan|query\.(answer|converse|modes|retrieval)\b"
    r"|exchange\.export\.export_index|opening\.(open_for_|open_to_look|settings_for)|store\.schema\.open_index"
)
REACH_BENEATH = {
    "check.py": "looks into an index that may be damaged",
    "collections.py": "renames and forgets names of collections, which opens no model",
    "sessions.py": "deletes conversations, which opens no model",
    "imports.py": "takes over what another program extracted",
    "layout.py": "chooses how the picture of the graph is made",
    "merges.py": "decides which names are one entity",
    "tune.py": "tries prompts on chunks before it writes them",
    "mcp.py": "hands a project to the server, which opens and closes it as it is asked",
    "serve.py": "hands a project to the server, which opens and closes it as it is asked",
}


def test_commands_are_users_of_the_library():
    """They index, ask, search, look, remove, embed and export by `localrag.library`; those that reach below it are named, no others."""
    commands = sorted((PACKAGE / "cli" / "commands").glob("*.py"))

    assert {path.name for path in commands if any(map(BENEATH.match, imports(path, types=False)))} == REACH_BENEATH.keys()
    through = {path.name for path in commands if any(target.startswith("library") for target in imports(path, types=False))}
    assert {"index.py", "ask.py", "chat.py", "look.py", "rm.py", "export.py", "demo.py"} <= through


def test_sql_stays_in_the_store():
    """No module outside store/ executes SQL."""
    for path in MODULES:
        if name_of(path) != "store":
            assert not re.search(r"\.(execute|query|executescript)\(", path.read_text(encoding="utf-8")), path


def test_nothing_sends_anything():
    """No module but the one that talks to model servers imports a client for the network, or anything of TLS.

    And the bridge to a `serve` of this machine, which asks none but loopback (tests/serve/test_bridge.py), the one that pulls models,
    and what works with a Ray cluster. Messages to the process that parses go through a socket pair without an address.
    """
    clients = {"requests", "httpx", "httpx2", "httpcore", "urllib", "urllib3", "aiohttp", "http", "socket", "ssl", "websockets"}
    allowed = {"engine/remote/server.py", "serve/bridge.py", "catalog/hub.py", "index/documents/load/messages.py"}
    assert {path.relative_to(PACKAGE).as_posix() for path in MODULES if third_parties(path) & clients} == allowed
    mcp = {p.relative_to(PACKAGE).as_posix() for p in MODULES if re.search(r"from mcp(\.client\S*)? import", p.read_text(encoding="utf-8"))}
    assert mcp == {"serve/bridge.py"}
    ray = {path.relative_to(PACKAGE).as_posix() for path in MODULES if "ray" in third_parties(path)}
    assert ray == {"index/crew/cluster.py", "index/crew/ray_worker.py"}  # only where it is asked for, see tests/index/crew/test_on_ray.py


def test_files_stay_short():
    """No file of the package is longer than 900 lines."""
    assert not [(p.name, n) for p in MODULES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 900]


def test_functions_fit_on_a_screen():
    """No function is longer than 60 lines."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path.name}: {node.name}"


def test_the_words_of_the_field_are_used():
    """One concept has one word: the synonyms that peers use for ours do not occur."""
    banned = re.compile(r"text_unit|covariate|node_data|vertex_|knowledge base", re.IGNORECASE)
    for path in [*MODULES, *(ROOT / "prompts").rglob("*.md")]:
        assert not banned.search(path.read_text(encoding="utf-8")), path


def test_every_test_says_what_it_holds():
    """Every test has a docstring."""
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                assert ast.get_docstring(node), f"{path.name}: {node.name}"


HEAVY = (
    "torch",
    "llama_cpp",
    "faiss",
    "igraph",
    "sentence_transformers",
    "rich",
    "numpy",
    "sqlite_utils",
    "httpx",
    "tomlkit",
    "psutil",
    "ray",
)


def test_help_is_quick():
    """The `--help` of no command, nor of the program, loads a heavy library."""
    code = f"""import sys, typer, localrag.cli
from typer.testing import CliRunner
def all_of(command, path=()):
    yield path
    for name, one in getattr(command, "commands", {{}}).items():
        yield from all_of(one, (*path, name))

program = typer.main.get_command(localrag.cli.app)
for path in all_of(program):
    assert CliRunner().invoke(localrag.cli.app, [*path, "--help"]).exit_code == 0, path
    loaded = [m for m in {HEAVY} if m in sys.modules]
    assert not loaded, (path, loaded)
print(sum(1 for _ in all_of(program)))"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30
