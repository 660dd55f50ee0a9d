"""What runs tasks elsewhere: the same programs and models, tasks that end their workers, and one process beside this one."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import EngineError, ModelError, UsageError
from localrag.indexing.tasks import Task
from localrag.indexing.workers.worker import (
    TaskResult,
    WorkerConfig,
    WorkerLost,
    check_versions,
    local_model,
    model_to_send,
    run_divided,
    software_versions,
)
from localrag.model_files import find_embedder
from localrag.settings import IndexSettings

OURS = software_versions()


@pytest.mark.parametrize(
    ("theirs", "difference", "remedy"),
    [
        (OURS | {"localrag": "0.0.9"}, f"host has localrag 0.0.9 instead of {OURS['localrag']}.", "the same checkout or wheel"),
        (OURS | {"localrag's own files": "0"}, "localrag's own files 0 instead of", "the same checkout or wheel"),
        (OURS | {"llama.cpp": "0.1"}, "llama.cpp 0.1 instead of", "llama-cpp-python=="),
        ({k: v for k, v in OURS.items() if k != "localrag"}, "localrag none instead of", "the same checkout or wheel"),
    ],
)
def test_a_difference_is_named_with_what_mends_it(theirs, difference, remedy):
    """The machine, and localrag's version, its own files or llama.cpp: the first that differs."""
    check_versions(OURS, dict(OURS), "host")
    with pytest.raises(UsageError) as refused:
        check_versions(OURS, theirs, "host")

    assert difference in str(refused.value)
    assert remedy in refused.value.hint


def test_a_model_is_found_by_what_is_in_it(tiny, tmp_path):
    """Whatever its path here; one that is not here is named with what to do, and one of other content is not taken."""
    bundled, chat = model_to_send(find_embedder()), model_to_send(tiny("llama"))
    elsewhere = replace(bundled, path=tmp_path / "elsewhere")

    assert local_model(elsewhere).path == bundled.path
    assert local_model(chat).path == chat.path
    for wanted in (replace(chat, path=tmp_path / "gone.gguf"), replace(chat, path=tiny("mamba").path)):
        with pytest.raises(ModelError, match=f"does not have the model {chat.name}") as missing:
            local_model(wanted)
        assert "localrag models add" in missing.value.hint


def test_a_machine_keeps_no_prompts(tiny):
    """Beginnings of prompts may hold text of a document: the engine there writes none to its disk."""
    config = WorkerConfig(model_to_send(tiny("llama")), model_to_send(find_embedder()), True, IndexSettings(), EngineOptions())

    assert config.options.prefix_files
    assert not config.on_this_machine().options.prefix_files


@dataclass(frozen=True)
class Several(Task[tuple]):
    """A task about several things, one of which may be deadly."""

    numbers: tuple

    @property
    def parts(self):
        return [Several((n,)) for n in self.numbers]

    def join(self, results):
        return tuple(r for some in results for r in some)

    def on_failure(self, error):
        return tuple(f"{error.kind}: {error}" for _ in self.numbers)


def test_a_task_that_ends_its_workers_is_divided():
    """Only its deadly part is a failure, which says that it took three workers; an error of a task is raised."""

    async def run(task):
        if 3 in task.numbers:
            raise WorkerLost("its process was killed")
        return TaskResult(task.numbers) if 9 not in task.numbers else TaskResult(error=EngineError("no"))

    found = asyncio.run(run_divided(Several((1, 2, 3, 4)), run))

    assert found[:2] + found[3:] == (1, 2, 4)
    assert found[2].startswith(f"{WorkerLost.kind}: It took 3 workers down: its process was killed")
    with pytest.raises(EngineError, match="no"):
        asyncio.run(run_divided(Several((9,)), run))
