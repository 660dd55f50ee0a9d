"""What takes minutes: a whole novel, killed processes, the wheel. Run by `make test-all`."""

import json
import os
import sqlite3
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from localrag import __version__
from tests.cli.test_index import check_citations, rows, wait_for_calls
from tests.conftest import DATA, TOWN, run_process, write_town

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent
GRAPH = {
    "entities": "SELECT * FROM entities ORDER BY id",
    "relationships": "SELECT * FROM relationships ORDER BY id",
    "mentions": "SELECT * FROM mentions ORDER BY entity_id, chunk_id, start",
    "evidence": "SELECT * FROM evidence ORDER BY relationship_id, chunk_id, start",
    "members": "SELECT * FROM members ORDER BY community_id, entity_id",
    "reports": "SELECT * FROM reports ORDER BY community_id",
    "answers of the model": "SELECT key, text FROM llm_calls ORDER BY key",
}


def many_documents(folder):
    write_town(folder / "docs")
    for n in range(12):
        people = f"Ada Quist met Number{n} Berg in Port{n} after the Harvest Fair. Number{n} Berg owns the Hotel Polar with Ada Quist."
        (folder / "docs" / f"more{n}.txt").write_text(f"{people} {TOWN['b.txt']}", encoding="utf-8")


def test_killed_at_any_moment_it_ends_with_the_same_graph(tmp_path):
    """SIGKILL after different numbers of calls: the rerun's graph equals an undisturbed one's, no committed call is repeated."""
    undisturbed = tmp_path / "undisturbed"
    many_documents(undisturbed)
    assert run_process("index", "docs", cwd=undisturbed).returncode == 0
    for calls in (1, 9, 25):
        folder = tmp_path / f"killed{calls}"
        many_documents(folder)
        process = subprocess.Popen(
            [sys.executable, "-m", "localrag", "index", "docs"], cwd=folder, stderr=subprocess.DEVNULL, env=os.environ
        )
        wait_for_calls(folder, calls)
        process.kill()
        process.wait()
        committed = rows(folder, "SELECT rowid, * FROM llm_calls ORDER BY rowid")

        done = run_process("index", "docs", cwd=folder)

        assert done.returncode == 0, done.stderr
        assert rows(folder, "SELECT rowid, * FROM llm_calls ORDER BY rowid")[: len(committed)] == committed
        for name, sql in GRAPH.items():
            assert rows(folder, sql) == rows(undisturbed, sql), name


@pytest.mark.skipif(not DATA.exists(), reason="A Christmas Carol is not here")
def test_a_christmas_carol(tmp_path):
    """The novel's people are persons connected to each other, its index is whole, and the themes are cited."""
    book = DATA / "texts" / "christmas_carol.txt"
    started = time.monotonic()
    done = run_process("index", str(book), cwd=tmp_path, timeout=3000)
    assert done.returncode == 0, done.stderr
    sys.stderr.write(f"A Christmas Carol: {time.monotonic() - started:.0f} s\n")

    people = {"Scrooge", "Bob Cratchit", "Marley", "Fezziwig", "Tiny Tim", "Belle"}
    named = dict(rows(tmp_path, "SELECT alias, e.name FROM entity_aliases JOIN entities e ON e.id = entity_id WHERE type = 'person'"))
    assert people <= named.keys()
    assert {named[p] for p in people} <= connected(tmp_path, named["Scrooge"])
    shown = "SELECT 1 FROM mentions m JOIN chunks c ON c.id = m.chunk_id WHERE m.entity_id = e.id AND instr(c.text, e.name)"
    assert rows(tmp_path, f"SELECT name FROM entities e WHERE NOT EXISTS ({shown})") == []
    homes = "SELECT 1 FROM members m JOIN communities c ON c.id = m.community_id GROUP BY level, entity_id HAVING count(*) <> 1"
    assert rows(tmp_path, homes) == []
    assert rows(tmp_path, "SELECT count(*) FROM communities WHERE id NOT IN (SELECT community_id FROM reports)") == [(0,)]
    answer = json.loads(run_process("ask", "--mode", "global", "What are the main themes?", "--json", cwd=tmp_path).stdout)
    assert len(answer["citations"]) >= 3
    check_citations(tmp_path, answer)


def connected(folder, start):
    """The names that can be reached from `start` over relationships."""
    edges = rows(
        folder, "SELECT a.name, b.name FROM relationships r JOIN entities a ON a.id = r.source_id JOIN entities b ON b.id = r.target_id"
    )
    found, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        for pair in edges:
            if here in pair:
                new = set(pair) - found
                found |= new
                waiting += new
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of the programs of a clean environment with localrag from its wheel; what it depends on is seen where it is."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, ROOT], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", system_site_packages=False, with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True, capture_output=True)
    (own,) = (folder / "env").rglob("site-packages")
    others = [p for p in sys.path if p.endswith("site-packages")]
    (own / "others.pth").write_text("\n".join(others))  # only paths: an editable localrag there is not taken up
    return python.parent


def test_the_wheel_carries_prompts_models_and_the_demo(installed, tmp_path):
    """Installed from a wheel into a clean environment, localrag finds its prompts, models.toml and demo corpus."""
    code = (
        "from localrag.system.files import data_path; from localrag.model_table import known_models; from localrag.demo import CORPUS; "
        "import localrag; from localrag.catalog.curated import curated; "
        "print(localrag.__file__, (data_path('prompts') / 'abstractive' / 'report.md').is_file(), known_models()['default_chat'], "
        "len([p for p in CORPUS.rglob('*') if p.is_file()]), len(curated()) > 20)"
    )
    done = subprocess.run([installed / "python", "-P", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)

    assert str(installed.parent) in done.stdout
    assert done.stdout.split()[1:] == ["True", "smollm2-135m", "17", "True"]


def test_the_installed_command_works_in_an_empty_home(installed, tmp_path):
    """`localrag` from the wheel, for a user without any file: version, models, an index of two files, and a search in it."""
    write_town(tmp_path / "work" / "docs")
    (tmp_path / "home").mkdir()
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}

    def run(*args):
        done = subprocess.run([installed / "localrag", *args], check=False, capture_output=True, text=True, cwd=tmp_path / "work", env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("--version") == f"localrag {__version__}\n"
    assert "smollm2-135m" in run("models", "list")
    run("index", "docs/a.md", "docs/b.txt", "--extractor", "phrases")
    assert "docs/a.md" in run("search", "Who bought the ferry?")
    assert "Hierarchical Leiden" in " ".join(run("help", "pipeline").split())


def test_the_ledger_survives_a_torn_faiss_file(tmp_path):
    """A broken vector file is built again from the database; the answer is the same."""
    write_town(tmp_path / "docs")
    run_process("index", "docs", cwd=tmp_path)
    first = json.loads(run_process("ask", "Who is the mate of the Skua?", "--json", cwd=tmp_path).stdout)
    for file in (tmp_path / ".localrag").glob("*.faiss"):
        file.write_bytes(b"torn")
    second = json.loads(run_process("ask", "Who is the mate of the Skua?", "--json", cwd=tmp_path).stdout)

    assert first["answer"] == second["answer"]
    assert sqlite3.connect(tmp_path / ".localrag" / "index.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)
