"""The house rules that a machine can check: layers, file lengths, words, documentation."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "localrag"
MODULES = sorted(PACKAGE.rglob("*.py"))
# From the bottom up; a module imports only from rows below its own, or from its own row's package.
ROWS = [
    {"errors", "records"},
    {"system"},
    {"text"},
    {"filters", "gguf", "pagerank", "settings"},
    {"model_files"},
    {"engine", "store"},
    {"llm"},
    {"project"},
    {"entailment", "loaders"},
    {"dates", "themes"},
    {"indexing", "query"},
    {"analysis"},
    {"asking"},
    {"catalog", "demo", "serializers"},
    {"exchange"},
    {"eval"},
    {"bench"},
    {"doctor", "index", "serve"},
    {"cli", "integrations"},
    {"__init__", "__main__"},
]
# The files of a package, by the same rule.
ROOMS = {
    "analysis": [
        {"amounts", "list_request"},
        {"passage_alignment", "review_questions", "tables", "word_changes"},
        {"placed_sentences", "reading"},
        {"review_reading", "text_records"},
        {"comparable_passages", "request_words"},
        {"document_diff"},
        {"item_list", "review_cells", "timeline", "written_cells"},
        {"review"},
    ],
    "bench": [
        {"engine", "tasks"},
        {"measure"},
        {"runs"},
        {"report"},
    ],
    "catalog": [
        {"hub", "listing"},
    ],
    "cli": [
        {"views/terminal"},
        {"settings", "views/console"},
        {"options", "views/markdown", "views/progress"},
        {"views/answers"},
        {"commands/ask", "commands/exchange", "commands/serve", "views/contents", "views/tables"},
        {"commands/analysis", "commands/evaluate", "commands/index", "commands/inspect", "commands/prompts"},
        {"commands/chat", "commands/models", "commands/setup"},
    ],
    "dates": [
        {"date_words", "edtf"},
        {"date_patterns"},
        {"date_mentions"},
    ],
    "engine": [
        {"autotune/trial", "e5", "llama/template_process", "memory", "remote/refusals", "sampler", "settings", "weights"},
        {"llama/library", "remote/replies", "request"},
        {"llama/chat_template", "llama/weights", "prefix_cache", "remote/client", "remote/request_body", "scheduler"},
        {"llama/model"},
        {"engine"},
        {"autotune/measure", "llama/pooled"},
        {"autotune/search"},
        {"autotune/load"},
        {"embedder", "tokenizer"},
        {"remote/servers"},
        {"remote/remote_engine"},
    ],
    "entailment": [
        {"lexicon"},
        {"chinese", "english"},
        {"comparison", "english_clauses", "normalization"},
    ],
    "eval": [
        {"datasets"},
        {"metrics", "retrieval"},
        {"extraction", "qa"},
    ],
    "exchange": [
        {"cited_texts", "export_folder", "foreign", "formats", "html_page", "pack", "wiki_pages"},
        {"import_index", "obsidian", "word_file", "workbook"},
        {"table_files", "wiki"},
        {"export", "wiki_check"},
    ],
    "indexing": [
        {"extraction/names", "graph/communities", "tasks"},
        {"titles"},
        {"extraction/nlp", "reports"},
        {"method"},
        {"progress"},
        {"documents", "graph/entity_resolution", "graph/layout", "workers/worker"},
        {"extraction/extract", "graph/contributions", "workers/process_worker", "workers/ray_cluster"},
        {"extraction/prompt_tuning", "workers/pool"},
        {"extraction/stage", "graph/merge", "workers/ray_pool"},
        {"graph/clustering"},
        {"garbage", "graph/stage"},
        {"report_stage"},
        {"embeddings"},
        {"pipeline"},
    ],
    "llm": [
        {"budgets", "prompts", "tagger"},
        {"model"},
        {"repair"},
        {"grammar"},
        {"reader", "shapes"},
    ],
    "loaders": [
        {"column_labels", "encodings", "formulas", "line_numbers", "non_documents", "sandbox"},
        {"content", "delimited", "headers", "math_text", "page_lines"},
        {"discover", "file_kinds", "page_furniture"},
        {"code_pages", "inline_text", "latex_inputs", "number_formats", "numbering", "ocr", "page_images"},
        {"document_tree"},
        {"containers", "pdf_annotations", "tabular"},
        {"spans"},
        {"sheet_tables"},
        {"calendars", "html", "latex", "pdf", "rtf", "subtitles"},
        {"xml_text"},
        {"conversations"},
        {"mail", "markup", "notebook", "open_xml", "powerpoint97", "quote_boxes", "word97"},
        {"presentation", "spreadsheet", "word"},
        {"old_office", "opendocument", "outlook"},
        {"parser_process"},
        {"rapid_ocr"},
        {"reader"},
    ],
    "query": [
        {"answer_markdown"},
        {"question", "question_kind", "retriever", "support_score", "table_rows"},
        {"attribution", "passage_ranking", "reading_budget"},
        {"citations"},
        {"passages"},
        {"answerability"},
        {"extractive"},
        {"abstractive"},
        {"basic_search", "collection_questions", "conversation"},
        {"theme_answers"},
        {"global_search", "local_search"},
        {"drift_search"},
        {"modes"},
    ],
    "serve": [
        {"auth", "mcp_results", "prompt_parts", "query_worker", "values"},
        {"client_tasks", "context", "table_worker"},
        {"chat_request", "mcp_server"},
        {"chat"},
        {"api", "files", "mcp_http", "openai", "tables"},
        {"ollama", "runs"},
        {"app"},
    ],
    "store": [
        {"location"},
        {"collections", "layout", "reviews", "runs", "schema", "tombstones"},
        {"chunks", "database", "filtered", "llm_cache", "query_terms"},
        {"answers", "full_text", "retention", "staging"},
        {"documents", "graph"},
        {"browse", "vectors"},
        {"entity_network", "export_rows", "passages"},
        {"generations"},
        {"check"},
        {"opening"},
        {"erasure", "foreign"},
    ],
    "system": [
        {"installation"},
        {"files", "python_process", "resources"},
        {"child_process"},
        {"trust"},
    ],
    "text": [
        {"sentences"},
        {"hyphenation", "kinds", "language", "markdown", "outline", "parts_of_speech"},
        {"quotes", "title_phrases"},
    ],
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of a file's code."""
    return list(ast.walk(parsed(path)))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def row_of(name: str, rows: list[set[str]]) -> int:
    return next(n for n, row in enumerate(rows) if name in row)


def imports(path: Path, *, types: bool = True) -> list[str]:
    """Every localrag module that `path` imports anywhere, as a dotted name without the package's own; `types`: also for types alone."""
    found = []
    only_types = [node for node in parsed(path).body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    without = set() if types else {inner for node in only_types for inner in ast.walk(node)}
    for node in nodes(path):
        if node in without:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "localrag":
            found += [f"{node.module}.{a.name}".removeprefix("localrag.") for a in node.names]
        elif isinstance(node, ast.Import):
            found += [a.name.removeprefix("localrag.") for a in node.names if a.name.startswith("localrag.")]
    return found


def third_parties(path: Path) -> set[str]:
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[0] for a in node.names}
    return found


def check(mine: str, other: str, rows: list[set[str]], path: Path) -> None:
    assert other == mine or row_of(other, rows) < row_of(mine, rows), f"{path.relative_to(PACKAGE)} imports {other}, which is not below it"


def module_of(target: str) -> list[str]:
    """The parts of the module that an imported name is in, or is."""
    parts = target.split(".")
    while parts and not (PACKAGE.joinpath(*parts).with_suffix(".py").exists() or PACKAGE.joinpath(*parts, "__init__.py").exists()):
        parts.pop()
    return parts


def check_layers(path: Path) -> None:
    mine = name_of(path)
    if mine == "__main__":
        return
    inside = "/".join(path.relative_to(PACKAGE).parts[1:]).removesuffix(".py")
    for target in imports(path):
        other, *inner = module_of(target) or ["__init__"]
        if target != "__version__":
            check(mine, other, ROWS, path)
        if other == mine in ROOMS and inner and inside and not inside.endswith("__init__"):
            assert row_of("/".join(inner), ROOMS[mine]) < row_of(inside, ROOMS[mine]), f"{path.relative_to(PACKAGE)} imports {target}"
    assert mine not in {"llm", "entailment"} or not any(t.startswith("store") for t in imports(path))


def test_modules_import_only_from_rows_below():
    """Packages stand in rows, and so do their files; `llm` and `entailment` know no store, `engine` and `store` not each other."""
    for path in MODULES:
        check_layers(path)


def test_every_file_has_its_row():
    """A file that is new is given its place in ROWS and ROOMS."""
    for path in MODULES:
        name, *rest = path.relative_to(PACKAGE).with_suffix("").parts
        assert any(name in row for row in ROWS), path
        if name in ROOMS and rest[-1] != "__init__":
            assert any("/".join(rest) in row for row in ROOMS[name]), path


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


STAGES = {
    "documents",
    "embeddings",
    "extraction/stage",
    "garbage",
    "graph/clustering",
    "graph/contributions",
    "graph/merge",
    "graph/stage",
    "method",
    "pipeline",
    "progress",
    "report_stage",
    "workers/pool",
    "workers/ray_pool",
}


def test_stages_do_not_touch_the_store():
    """Of indexing, only the stages and the parts that update the graph row by row read and write the store.

    What they call takes and returns records.
    """
    using = set()
    for path in (PACKAGE / "indexing").rglob("*.py"):
        if any(t.startswith("store") for t in imports(path)):
            using.add(path.relative_to(PACKAGE / "indexing").with_suffix("").as_posix())
    assert using <= STAGES, using - STAGES


def test_one_package_knows_llama_cpp_and_the_terminal_stays_in_cli():
    """Only engine/llama/ imports llama_cpp; rich and typer stay in cli/."""
    for path in MODULES:
        used = third_parties(path)
        assert "llama_cpp" not in used or path.parent == PACKAGE / "engine" / "llama", path
        assert not used & {"rich", "typer"} or name_of(path) == "cli", path


# What the commands leave to the library, and the modules of commands that reach below it.
BENEATH = re.compile(
    r"asking\.answer_question|indexing\.(pipeline|garbage|documents)\b|query\.(modes|conversation|retriever|\w+_search)\b"
    r"|exchange\.export\.export_index|project\.open_|store\.opening\.open_index"
)
REACH_BENEATH = {
    "exchange.py": "takes over what another program extracted",
    "index.py": "decides which documents go, and tells what a plan costs",
    "inspect.py": "checks an index that may be damaged, and opens it for changes that need no model",
    "prompts.py": "tries prompts on chunks before it writes them",
    "serve.py": "hands a project to the server, which opens and closes it as it is asked",
}


def test_commands_are_users_of_the_library():
    """They index, ask, search, look, remove, embed and export by `localrag.Index`; those that reach below it are named, no others."""
    commands = sorted((PACKAGE / "cli" / "commands").glob("*.py"))

    assert {path.name for path in commands if any(map(BENEATH.match, imports(path, types=False)))} == REACH_BENEATH.keys()
    through = {path.name for path in commands if re.search(r"\blocalrag\.Index\b", path.read_text(encoding="utf-8"))}
    assert {"index.py", "ask.py", "chat.py", "inspect.py", "exchange.py", "setup.py"} <= through


def test_sql_stays_in_the_store():
    """No module outside store/ executes SQL."""
    for path in MODULES:
        if name_of(path) != "store":
            assert not re.search(r"\.(execute|query|executescript)\(", path.read_text(encoding="utf-8")), path


def test_nothing_sends_anything():
    """No module but the one that talks to model servers imports a client for the network, or anything of TLS.

    And the bridge to a `serve` of this machine, which asks none but loopback (tests/serve/test_mcp_server.py), the one that pulls models,
    and what works with a Ray cluster. Messages to child processes go through a socket pair without an address.
    """
    clients = {"requests", "httpx", "httpx2", "httpcore", "urllib", "urllib3", "aiohttp", "http", "socket", "ssl", "websockets"}
    allowed = {"engine/remote/client.py", "serve/mcp_server.py", "catalog/hub.py", "system/child_process.py"}
    assert {path.relative_to(PACKAGE).as_posix() for path in MODULES if third_parties(path) & clients} == allowed
    mcp = {p.relative_to(PACKAGE).as_posix() for p in MODULES if re.search(r"from mcp(\.client\S*)? import", p.read_text(encoding="utf-8"))}
    assert mcp == {"serve/mcp_server.py"}
    ray = {path.relative_to(PACKAGE).as_posix() for path in MODULES if "ray" in third_parties(path)}
    assert ray == {"indexing/workers/ray_cluster.py"}  # only where it is asked for, see tests/indexing/workers/test_ray_pool.py


def test_one_function_starts_python():
    """The command line of every Python process comes from one function, which keeps it from importing code of the working folder.

    But for programs that run a single file without any import path (`-I -S`), the settings that `localrag mcp` prints (`-P`), and hints.
    """
    starts = {p.relative_to(PACKAGE).as_posix(): p.read_text(encoding="utf-8") for p in MODULES}
    found = {name for name, text in starts.items() if re.search(r"sys\.executable|multiprocessing|ProcessPool|get_context\(", text)}
    assert found == {"system/python_process.py", "loaders/ocr.py", "cli/commands/serve.py", "system/installation.py"}
    assert all('sys.executable, "-I", "-S"' in starts[name] for name in ("loaders/ocr.py",))
    assert '[sys.executable, "-P", "-m", "localrag"]' in starts["cli/commands/serve.py"]


def test_files_stay_short():
    """No file of the package is longer than 900 lines."""
    assert not [(p.name, n) for p in MODULES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 900]


# They may only fall: joining lines gains nothing in characters, and moving code into long lines nothing in lines.
MAX_LINES, MAX_CHARS = 67_800, 3_313_500


def test_the_package_only_loses_weight():
    """The package has no more lines and characters of Python than it had: what is added has to replace something."""
    texts = [path.read_text(encoding="utf-8") for path in MODULES]

    assert sum(len(text.splitlines()) for text in texts) <= MAX_LINES
    assert sum(map(len, texts)) <= MAX_CHARS


def test_functions_fit_on_a_screen():
    """No function is longer than 60 lines."""
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, f"{path.name}: {node.name}"


# These are replaced by a trained reader next: only names that others use were changed.
TO_BE_REPLACED = ("query/answerability",)
OLD_NAMES = frozenset((Path(__file__).parent / "data" / "old_names.txt").read_text(encoding="utf-8").split())
PRIVATE_WORDS = frozenset("door crew bench parcel kit shop harvest mend anew lacking unsaid".split())
NAMED_BY_THE_COMMAND = {"bench_app", "bench_command", "bench_progress"}  # `localrag bench`


def defined_names(tree: ast.AST) -> set[str]:
    """What a tree defines, takes as an argument or assigns to."""
    found = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    found |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    found |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}


def kept_modules() -> list[Path]:
    return [path for path in MODULES if not path.relative_to(PACKAGE).as_posix().startswith(TO_BE_REPLACED)]


def test_no_module_defines_an_old_name():
    """What only this project understood was renamed; none of these names comes back at the top of a module."""
    for path in kept_modules():
        tree = parsed(path)
        inner = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        top = {node.name for node in tree.body if node not in inner}
        top |= {n.id for node in inner for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        assert not top & OLD_NAMES, f"{path.relative_to(PACKAGE)}: {sorted(top & OLD_NAMES)}"


def test_names_have_no_private_words():
    """Pools, policies and requests are called that, in arguments and variables too."""
    for path in kept_modules():
        for name in defined_names(parsed(path)) - NAMED_BY_THE_COMMAND:
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
            assert not words & PRIVATE_WORDS, f"{path.relative_to(PACKAGE)}: {name}"


def test_each_class_has_a_name_of_its_own():
    """A search finds one definition."""
    homes: dict[str, list[str]] = {}
    for path in kept_modules():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert not {name: files for name, files in homes.items() if len(files) > 1}


def test_the_words_of_the_field_are_used():
    """One concept has one word: the synonyms that peers use for ours do not occur."""
    banned = re.compile(r"text_unit|covariate|node_data|vertex_|knowledge base", re.IGNORECASE)
    for path in [*MODULES, *(ROOT / "prompts").rglob("*.md")]:
        assert not banned.search(path.read_text(encoding="utf-8")), path


def test_every_test_says_what_it_holds():
    """Every test has a docstring."""
    for path in Path(__file__).parent.rglob("test_*.py"):
        for node in nodes(path):
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
    "prompt_toolkit",
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
