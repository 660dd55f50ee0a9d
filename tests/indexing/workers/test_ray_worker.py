"""Models for a worker: found by what is in them, sent in pieces, and whole or not there at all."""

from hashlib import sha256

import pytest

from localrag.engine.settings import EngineOptions
from localrag.errors import LocalragError
from localrag.indexing.workers import ray_worker
from localrag.indexing.workers.ray_worker import IncomingModel, ModelManifest, find_model
from localrag.indexing.workers.worker import WorkerConfig
from localrag.model_files import ModelFile, find_embedder, fingerprint
from localrag.settings import IndexSettings
from localrag.system.files import cache_dir


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The home of another machine."""
    monkeypatch.setenv("LOCALRAG_HOME", str(tmp_path / "other"))
    return tmp_path / "other"


def send(wanted, arriving, damaged=False):
    digests = {}
    for name, at, piece in wanted.pieces():
        digests.setdefault(name, sha256()).update(piece)
        arriving.write_chunk(name, at, piece[:-1] + b"?" if damaged else piece)
    return arriving.verify({name: digest.hexdigest() for name, digest in digests.items()})


def left():
    return [p.name for p in (cache_dir() / ray_worker.SENT_MODELS_FOLDER).glob("*")]


def test_a_model_comes_in_pieces_and_is_found_from_then_on(tiny, elsewhere, monkeypatch):
    """It has the same bytes and fingerprint, for the owner alone; the next time nothing is sent."""
    monkeypatch.setattr(ray_worker, "FILE_CHUNK_BYTES", 1 << 20)
    file = tiny("llama")
    wanted = ModelManifest.of(file)
    assert find_model(wanted) is None
    path = send(wanted, IncomingModel(wanted))

    assert path.read_bytes() == file.path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert find_model(wanted) == path
    assert left() == [wanted.fingerprint]


def test_a_folder_comes_with_all_its_files(elsewhere, tmp_path):
    """Also with those that its fingerprint is not of; the bundled one is found without being sent."""
    bundled = find_embedder()
    assert find_model(ModelManifest.of(bundled)) == bundled.path
    folder = tmp_path / "mine"
    for name, text in {"config.json": "{}", "model.safetensors": "w", "1_Pooling/config.json": "{1}", "vocab.txt": "a b"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    wanted = ModelManifest.of(ModelFile("mine", "embedder", folder))
    path = send(wanted, IncomingModel(wanted))

    assert fingerprint(path) == wanted.fingerprint
    assert {p.relative_to(path).as_posix(): p.read_text() for p in path.rglob("*") if p.is_file()} == {
        p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()
    }


def test_what_does_not_come_whole_leaves_nothing(tiny, elsewhere):
    """Neither a damaged piece, nor one of a file that does not belong to the model, nor what a process that is gone began."""
    wanted = ModelManifest.of(tiny("llama"))
    with pytest.raises(LocalragError, match="arrived damaged"):
        send(wanted, IncomingModel(wanted), damaged=True)
    arriving = IncomingModel(wanted)
    with pytest.raises(LocalragError, match="does not belong to the model"):
        arriving.write_chunk("../elsewhere", 0, b"x")
    dead = cache_dir() / ray_worker.SENT_MODELS_FOLDER / f"{wanted.fingerprint}.4194305.part"
    dead.mkdir()
    IncomingModel(wanted).discard()

    assert left() == []
    assert find_model(wanted) is None


def test_a_disk_without_room_is_said_before_anything_is_sent(tiny, elsewhere, monkeypatch):
    """With the model, its size, the folder and what to do."""
    wanted = ModelManifest.of(tiny("llama"))
    monkeypatch.setattr(ray_worker.shutil, "disk_usage", lambda _: type("U", (), {"free": 5_000_000})())
    with pytest.raises(LocalragError, match="There is no room for the model llama") as full:
        IncomingModel(wanted)

    assert "5 MB are free" in str(full.value)
    assert "LOCALRAG_HOME" in full.value.hint


def test_a_kit_elsewhere_has_other_paths_and_keeps_no_prompts(tiny, tmp_path):
    """The models of a kit are where they were found on that machine; the engine writes no beginnings of prompts."""
    worker_config = WorkerConfig(tiny("llama"), find_embedder(), True, IndexSettings(), EngineOptions())
    there = worker_config.with_files({"chat": tmp_path / "a.gguf", "embedder": tmp_path / "b"})

    assert (there.chat.path, there.embedder.path) == (tmp_path / "a.gguf", tmp_path / "b")
    assert there.chat.name == worker_config.chat.name
    assert not there.options.prefix_files
