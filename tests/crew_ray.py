"""A cluster of machines that are processes here, and what its workers work with in tests."""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from localrag.indexing.pipeline import build_index
from localrag.indexing.tasks import TaskContext
from localrag.indexing.workers.pool import in_process_pool
from localrag.indexing.workers.worker import WorkerConfig
from localrag.project import open_for_writing
from localrag.records import content_id
from localrag.store import runs
from tests.fakes import Scripted, example
from tests.hashed_embedder import HashedEmbedder

os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # as `cluster.connect` sets it; read when Ray is imported
ROOT = Path(__file__).parents[1]
EXPECTED = "Ingrid Holm bought the ferry Skua from the Northern Line. Lars Holm wrote to Ruth Sand that the Skua leaks."


WORDS = (b"Ingrid Holm", b"ferry Skua", b"Northern Line")  # that no file of a worker's machine may hold
NAMES = ("Ingrid Holm", "Lars Holm", "Skua", "Northern Line", "Ruth Sand")


def says(request):
    """A good answer to any request; a text with a word of its own ends the worker that reads it."""
    if any("POISON" in m["content"] for m in request.messages) and os.environ.get("LOCALRAG_TEST_WORKER"):
        os.kill(os.getpid(), signal.SIGKILL)
    said = request.messages[-1]["content"]
    if os.environ.get("LOCALRAG_TEST_WORKER"):
        with (Path(os.environ["LOCALRAG_HOME"]) / "asked").open("a") as f:
            f.write(f"{time.time()} {content_id(*(part for m in request.messages for part in (m['role'], m['content'])))}\n")
    if request.task == "entities":
        return {"items": [{"name": n, "type": "person", "description": f"{n} is in {len(said)}"} for n in NAMES if n in said]}
    return {"items": []} if request.task in ("claims", "relationships") else example(request.grammar.schema)


class Slow(Scripted):
    """A scripted model that takes so many seconds for an answer."""

    def __init__(self, says, takes):
        super().__init__(says)
        self.takes = takes

    async def generate(self, request):
        await asyncio.sleep(self.takes)
        return await super().generate(request)


@dataclass(frozen=True)
class ScriptedKit(WorkerConfig):
    """A kit whose chat model is scripted."""

    seconds: float = 0.0

    def open(self):
        os.environ["LOCALRAG_TEST_WORKER"] = "1"
        tools = WorkerConfig.open(self)
        tools.model._engine = Slow(says, self.seconds)
        return TaskContext(tools.model, HashedEmbedder(self.embedder), None, tools.settings, tools.text_of)


def scripted_kit(project, *, seconds=0.0):
    options = replace(project.model.options, notify=print)
    return ScriptedKit(project.model.file, project.embedder.file, False, project.settings, options, seconds=seconds)


def write_corpus(folder, n=24, *more):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        (folder / f"{i:03}.txt").write_text(f"Letter {i}. {EXPECTED} Street {i * 37} is closed.\n", encoding="utf-8")
    for i, text in enumerate(more):
        (folder / f"x{i}.txt").write_text(text, encoding="utf-8")
    return folder


def indexed(docs, index, hire=in_process_pool, said=None, hosts=(), model=None, **settings):
    """Index in the abstractive style with a scripted model; the outcome and every table but for times and row numbers."""
    with open_for_writing(index, model=model) as opened:
        options = replace(opened.model.options, notify=(said.append if said is not None else lambda _: None), allowed_hosts=tuple(hosts))
        opened.model.options = options
        settings = replace(opened.settings, style="abstractive", **settings)
        project = replace(opened, settings=settings, tagger=None, embedder=HashedEmbedder(opened.embedder.file))
        if not project.model.file.url:
            project.model._engine = Scripted(says)
        outcome = asyncio.run(build_index([docs], project, lambda _: None, hire=hire))
        return outcome, tables(project.db), runs.last_run(project.db)["figures"]


LEFT_OUT = {"created_at", "added_at", "failed_at", "seconds", "started_at", "ended_at", "rowid"}


def tables(db):
    """Every row of every table but for what two runs may differ in."""
    found = {}
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall():
        if name.startswith("_") or name in ("runs", "file_stats", "vector_versions", "index_settings", "table_checksums") or "_fts" in name:
            continue
        left_out = LEFT_OUT | ({"subject"} if name.startswith("llm_call") else set())
        rows = [{k: v for k, v in row.items() if k not in left_out} for row in db.query(f"SELECT * FROM [{name}]")]
        found[name] = Counter(json.dumps(row, sort_keys=True, default=lambda b: hashlib.sha256(b).hexdigest()) for row in rows)
    return found


QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


class Machines:
    """A head and machines that offer themselves, all processes here; folders of each below `folder`."""

    def __init__(self, folder, n=2, **system):
        from ray.cluster_utils import Cluster

        self.folder, self.names = Path(folder), iter(range(1000))
        # Ray's folder has sockets in it, whose paths must be short.
        self.ray = Path("/tmp") / f"lr{secrets.token_hex(3)}"
        self.ray.mkdir(mode=0o700)
        os.environ["RAY_TMPDIR"] = str(self.ray)  # where its own tool notes which cluster is the last; the folder must be there
        (self.ray / "ray").mkdir()
        self.cluster = Cluster(shutdown_at_exit=False)
        self.cluster.add_node(
            num_cpus=0, object_store_memory=10**8, include_dashboard=False, temp_dir=str(self.ray / "r"), _system_config=QUICK | system
        )
        self.nodes = [self.add() for _ in range(n)]

    @property
    def address(self):
        return self.cluster.address

    def add(self, **environment):
        """A machine with a home of its own."""
        home = Path(environment.pop("LOCALRAG_HOME", self.folder / f"home{next(self.names)}"))
        home.mkdir(parents=True, exist_ok=True)
        env = {"LOCALRAG_HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
        before = {k: os.environ.get(k) for k in env}
        os.environ.update(env)
        try:
            node = self.cluster.add_node(num_cpus=1, resources={"localrag": 1}, object_store_memory=10**8)
        finally:
            for k, v in before.items():
                os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v)
        node.home = home
        return node

    def kill(self, n):
        """End a machine, the n-th but for the one that this process itself belongs to, without a word."""
        import ray

        own = ray._private.worker._global_node
        others = [x for x in self.nodes if own is None or x._raylet_socket_name != own._raylet_socket_name]
        node = others[n % len(others)]
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self):
        with contextlib.suppress(Exception):
            self.cluster.shutdown()
        os.environ.pop("RAY_TMPDIR", None)
        time.sleep(0.2)
        shutil.rmtree(self.ray, ignore_errors=True)


def bench_processes(machines):
    """The process numbers of the workers of these machines."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            ours = process.environ().get("LOCALRAG_HOME", "").startswith(str(machines.folder))
            if ours and (process.info["cmdline"] or [""])[0].startswith("ray::run_on_machine"):
                found.append(process.pid)
    return found
