"""Indexing with workers on the machines of a Ray cluster: the same index as alone, whatever is lost, and nothing left behind."""

import json
import os
import platform
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial

import pytest

from localrag.errors import LocalragError, ModelError
from tests.crew_ray import NAMES, ROOT, WORDS, Machines, bench_processes, indexed, scripted_kit, write_corpus
from tests.fakes import example
from tests.servers import Server

pytest.importorskip("ray")
pytestmark = [pytest.mark.ci, pytest.mark.ray, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True, scope="module")
def token():
    """The token that the tests' clusters ask for."""
    from ray._private.authentication_test_utils import reset_auth_token_state

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        reset_auth_token_state()
        yield


@pytest.fixture(scope="module")
def machines(token, tmp_path_factory):
    """Two machines; what a test loses it puts back."""
    with closing(Machines(tmp_path_factory.mktemp("machines"))) as made:
        yield made


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Documents, and the tables of the index that this process makes of them alone."""
    folder = tmp_path_factory.mktemp("corpus")
    docs = write_corpus(folder / "docs")
    return docs, indexed(docs, folder / "alone")[1]


def on_ray(machines, seconds=0.0, **options):
    from localrag.indexing.workers.ray_pool import ray_pool

    return ray_pool(machines.address, **{"every": 0.5, "pack": partial(scripted_kit, seconds=seconds)} | options)


def committed(index):
    """The prompts whose answers are committed at this moment."""
    if not (index / "index.db").exists():
        return set()
    with closing(sqlite3.connect(f"file:{index}/index.db?mode=ro", uri=True)) as db:
        try:
            return {row[0] for row in db.execute("SELECT prompt_hash FROM llm_calls")}
        except sqlite3.OperationalError:
            return set()


class When:
    """Does something in the middle of a run: when so many answers are committed."""

    def __init__(self, index, n, act):
        self.index, self.n, self.act, self.known, self.at = index, n, act, set(), 0.0
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while len(committed(self.index)) < self.n:
            time.sleep(0.02)
        self.known, self.at = committed(self.index), time.time()
        self.act()


def some_moment(seed, expected):
    """When so many answers are committed."""
    return int(len(expected["llm_calls"]) * random.Random(seed).uniform(0.1, 0.8))


def asked_after(machines, moment):
    """The prompts that any worker's model was asked after a moment."""
    rows = [line.split() for file in machines.folder.glob("home*/asked") for line in file.read_text().splitlines()]
    return {prompt for at, prompt in rows if float(at) > moment}


def served(said, schema):
    """What a model server answers: the names that stand in what it is asked about, where it is asked for names."""
    items = schema["properties"].get("items")
    if items is None:
        return {"line": "The Skua is a ferry"} if "line" in schema["properties"] else example(schema)
    if "name" not in items["items"].get("properties", {}):
        return {"items": []}
    return {
        "items": [example(items["items"]) | {"name": name, "description": f"{name} is in {len(said)}"} for name in NAMES if name in said]
    }


def left_on(machines):
    """The files of the machines that hold words of the corpus: homes, logs, Ray's folder."""
    files = [p for folder in (machines.folder, machines.ray) for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]
    return [p for p in files if any(w in p.read_bytes() for w in WORDS)]


@pytest.mark.slow
def test_the_index_is_the_one_made_alone(machines, corpus, tmp_path):
    """Every table is equal but for times; both machines did some of it; no word of a document stands in any of their files."""
    docs, expected = corpus
    said = []
    outcome, found, figures = indexed(docs, docs.parent / tmp_path.name, on_ray(machines, 0.02), said)

    assert outcome.failures == ()
    assert found == expected
    assert [row["units"] > 0 for row in figures["workers"]] == [True, True], ([(r["units"], r["state"]) for r in figures["workers"]], said)
    assert left_on(machines) == []


@pytest.mark.slow
@pytest.mark.parametrize(("how", "seed"), [("machine", 1), ("machine", 2), ("process", 3), ("process", 4)])
def test_what_is_lost_is_done_by_others(machines, corpus, tmp_path, how, seed):
    """A machine or a worker's process is killed at some moment: the index is the same, and no committed call is asked for again."""
    docs, expected = corpus
    index, moment = docs.parent / tmp_path.name, some_moment(seed, expected)

    def kill():
        if how == "machine":
            machines.kill(seed)
            machines.nodes.append(machines.add())
        else:
            os.kill(bench_processes(machines)[seed % 2], signal.SIGKILL)

    when = When(index, moment, kill)
    outcome, found, _ = indexed(docs, index, on_ray(machines, 0.05))
    when.thread.join(30)

    assert when.known
    assert outcome.failures == ()
    assert found == expected
    assert not when.known & asked_after(machines, when.at)


RUN = """
import sys
from functools import partial
from pathlib import Path
from localrag.indexing.workers.ray_pool import ray_pool
from tests.crew_ray import indexed, scripted_kit
address, docs, index = sys.argv[1:]
indexed(Path(docs), Path(index), ray_pool(address, every=0.5, pack=partial(scripted_kit, seconds=0.1)))
"""


@pytest.mark.ci
def test_a_worker_does_not_import_from_the_working_folder_of_the_run(machines, tmp_path):
    """Ray would put it first in the import path of every worker; they still find localrag."""
    code = """
import sys, ray
from localrag.indexing.workers import ray_cluster
ray_cluster.connect(sys.argv[1])
def path():
    import localrag
    return sys.path
print(ray.get(ray.remote(num_cpus=0)(path).remote()))
"""
    command = [sys.executable, "-P", "-c", code, machines.address]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert "site-packages" in done.stdout, done.stderr
    assert str(tmp_path) not in done.stdout


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(machines, corpus, tmp_path):
    """The workers end with it; the same command makes the same index, and asks for nothing that was committed."""
    docs, expected = corpus
    index = docs.parent / tmp_path.name
    run = subprocess.Popen([sys.executable, "-c", RUN, machines.address, docs, index], env=os.environ | {"PYTHONPATH": str(ROOT)})
    When(index, some_moment(5, expected), run.kill).thread.join(120)
    assert run.wait(10) == -signal.SIGKILL
    until = time.monotonic() + 30
    while bench_processes(machines):
        assert time.monotonic() < until
        time.sleep(0.1)
    known, at = committed(index), time.time()
    outcome, found, _ = indexed(docs, index, on_ray(machines))

    assert known
    assert outcome.failures == ()
    assert found == expected
    assert not known & asked_after(machines, at)


@pytest.mark.slow
def test_a_machine_that_joins_late_works_too(token, tmp_path):
    """The run waits for the first one and says so; a second one gets its part; where one is silent for seconds, the other does it all."""
    docs = write_corpus(tmp_path / "docs", 120)
    expected, said = indexed(docs, tmp_path / "alone")[1], []
    with closing(Machines(tmp_path / "machines", 0)) as machines:
        threading.Timer(4, lambda: machines.nodes.append(machines.add())).start()
        index = tmp_path / "index"
        When(index, 1, lambda: machines.nodes.append(machines.add()))
        _, found, figures = indexed(docs, index, on_ray(machines, 1.5), said)

        assert found == expected
        assert "waiting" in said[0]
        assert [row["units"] > 0 for row in figures["workers"]] == [True, True], (figures["workers"], said)

        raylet = machines.nodes[1].all_processes["raylet"][0].process.pid
        parted = tmp_path / "parted"
        When(parted, 5, lambda: [os.kill(raylet, signal.SIGSTOP), time.sleep(8), os.kill(raylet, signal.SIGCONT)])
        _, found, figures = indexed(docs, parted, on_ray(machines, 1.5), said)
        assert found == expected, said
        assert any("gone" in row["state"] for row in figures["workers"]), figures


@pytest.mark.slow
def test_where_the_head_ends_the_run_says_so_and_goes_on_with_another(token, corpus, tmp_path):
    """A clear error within seconds; the same command makes the same index with a new cluster, and asks for nothing that was committed."""
    docs, expected = corpus
    index = docs.parent / tmp_path.name
    with closing(Machines(tmp_path / "first", 1)) as machines:
        When(index, some_moment(6, expected), machines.cluster.head_node.kill_gcs_server)
        with pytest.raises(ModelError, match="has ended") as ended:
            indexed(docs, index, on_ray(machines, 0.1))
        assert "run the same command again" in ended.value.hint
    known = committed(index)
    with closing(Machines(tmp_path / "second", 1)) as machines:
        at = time.time()
        outcome, found, _ = indexed(docs, index, on_ray(machines))
        assert known
        assert outcome.failures == ()
        assert found == expected
        assert not known & asked_after(machines, at)


@pytest.mark.slow
def test_a_document_that_ends_three_workers_is_left_out(machines, tmp_path):
    """It is noted as a failure; all the others are indexed."""
    docs = write_corpus(tmp_path / "docs", 6, "POISON. Ingrid Holm bought the Skua.")
    outcome, found, _ = indexed(docs, docs.parent / tmp_path.name, on_ray(machines))

    assert [(f.stage, f.kind) for f in outcome.failures] == [("extraction", "took its worker down")]
    assert sum(found["documents"].values()) == 7


@pytest.mark.slow
def test_a_model_server_is_asked_by_this_machine(machines, tmp_path):
    """The workers do what needs no chat model, this machine asks the server; the index is the one made alone."""
    docs, said, at = write_corpus(tmp_path / "docs"), [], time.time()

    def answer(body):
        return json.dumps(served(body["messages"][-1]["content"], body["response_format"]["json_schema"]["schema"]))

    with Server(answer, gets={"/v1/models": {"data": [{"id": "m"}]}}) as server:
        model = f"{server.url}#m"
        outcome, expected, _ = indexed(docs, tmp_path / "alone", model=model)
        alone = len(server.bodies)
        assert outcome.failures == ()
        outcome, found, _ = indexed(docs, tmp_path / "index", on_ray(machines), said, model=model)
        assert outcome.failures == ()
        assert found == expected
        assert len(server.bodies) == 2 * alone
        assert sum(expected["llm_calls"].values()) == alone
        assert not asked_after(machines, at)


HIDDEN_MODEL = """
from localrag import model_files
own = model_files.has_fingerprint
model_files.has_fingerprint = lambda path, expected: path.name != "mine.gguf" and own(path, expected)
"""
OTHER_PROMPTS = """
from pathlib import Path
from localrag.system import files
files.shipped_data_path = lambda name, own=files.shipped_data_path: Path(__file__).parent / name if name == "prompts" else own(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lacks", ["the model", "the prompts"])
def test_what_a_machine_lacks_is_named(token, corpus, tmp_path, tiny, lacks):
    """The run ends with the machine and the remedy where one has other prompts, or not the model."""
    docs, _ = corpus
    chat = tmp_path / "mine.gguf"
    shutil.copy(tiny("llama").path, chat)
    other = tmp_path / "other"
    shutil.copytree(ROOT / "prompts", other / "prompts")
    prompt = other / "prompts" / "abstractive" / "entities.md"
    prompt.write_text(prompt.read_text() + "\nBe brief.\n")
    shutil.copy(ROOT / "models.toml", other)
    (other / "sitecustomize.py").write_text(HIDDEN_MODEL if lacks == "the model" else OTHER_PROMPTS)
    with closing(Machines(tmp_path / "machines", 0)) as machines, pytest.raises(LocalragError) as refused:
        machines.add(PYTHONPATH=f"{other}{os.pathsep}{ROOT}")
        indexed(docs, docs.parent / tmp_path.name, on_ray(machines, 0.02), model=str(chat))

    expected = "does not have the model mine" if lacks == "the model" else "has localrag's own files"
    assert platform.node() in str(refused.value)
    assert expected in str(refused.value)
    assert refused.value.hint
