"""Models cut into several files, `name-00001-of-00003.gguf` and so on."""

import asyncio
import re
import shutil

import gguf
import pytest

from localrag.doctor import run_checks
from localrag.engine.engine import Engine
from localrag.engine.llama.model import LlamaModel
from localrag.engine.request import Request
from localrag.engine.settings import EngineOptions, EngineSettings
from localrag.errors import ModelError
from localrag.llm.grammar import choice_of
from localrag.llm.model import ChatModel
from localrag.model_files import find_chat_model, shard_paths, total_size
from localrag.store.llm_cache import SqliteLlmCache
from localrag.store.opening import open_index


@pytest.fixture(scope="module")
def three(tiny, tmp_path_factory):
    """A small model in three files: everything it says of itself in the first, its tensors in all."""
    whole = gguf.GGUFReader(tiny("llama").path)
    writer = gguf.GGUFWriter(tmp_path_factory.mktemp("shards") / "tiny.gguf", "llama", split_max_tensors=len(whole.tensors) // 3 + 1)
    for name, field in whole.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            writer.add_key_value(name, field.contents(), field.types[0], *field.types[1:])
    for tensor in whole.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file(writer.path)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    files = sorted(writer.path.parent.iterdir())
    assert [f.name for f in files] == [f"tiny-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    return files


@pytest.fixture
def copies(three, tmp_path):
    return [shutil.copy(file, tmp_path / file.name) for file in three]


@pytest.mark.ci
def test_any_of_its_files_stands_for_the_model(three):
    """Whichever is given, the first is loaded and all are counted; the name is that of the model."""
    found = [find_chat_model(str(file)) for file in three]

    assert found == [found[0]] * 3
    assert found[0].path == three[0]
    assert found[0].name == "tiny"
    assert shard_paths(three[0]) == three
    assert total_size(three[0]) == sum(f.stat().st_size for f in three)


def test_it_answers_like_the_model_in_one_file(three, tiny):
    """llama.cpp finds the other files by itself; the tokens are those of the whole."""

    def answer(file):
        engine = Engine(lambda: LlamaModel(file, EngineSettings(slots=1, n_ctx=256)))
        try:
            return asyncio.run(engine.generate(Request((5, 6, 7), 8))).token_ids
        finally:
            engine.close()

    assert answer(find_chat_model(str(three[1]))) == answer(tiny("llama"))


def test_every_file_counts_for_the_fingerprint(copies):
    """A byte changed in the last file is another model."""
    before = find_chat_model(str(copies[0])).fingerprint
    data = bytearray(copies[2].read_bytes())
    data[-9] ^= 1
    copies[2].write_bytes(data)

    assert find_chat_model(str(copies[0])).fingerprint != before


def test_a_missing_file_is_named(copies):
    """One that is missing, and the first of them, end in words; nothing is loaded."""
    copies[1].unlink()
    file = find_chat_model(str(copies[2]))
    for way in (lambda: file.fingerprint, lambda: LlamaModel(file, EngineSettings()), lambda: total_size(file.path)):
        with pytest.raises(ModelError, match=r"of which tiny-00002-of-00003\.gguf is missing"):
            way()

    copies[0].unlink()
    with pytest.raises(ModelError, match=r"no model file at .*tiny-00001-of-00003\.gguf"):
        find_chat_model(str(copies[2]))


def test_a_file_cut_off_in_the_middle_is_named(copies):
    """The shard that is incomplete, not the first."""
    copies[1].write_bytes(copies[1].read_bytes()[:-100])

    with pytest.raises(ModelError, match=r"tiny-00002-of-00003\.gguf cannot be loaded: the file is incomplete"):
        _ = find_chat_model(str(copies[0])).fingerprint


def test_the_sizes_shown_count_every_file(three):
    """`doctor` shows the whole model, not its first file."""
    (line,) = (line for line in run_checks(None, EngineOptions(), chat=str(three[0])) if line.name == "chat model")

    assert re.search(r", (\d+) MB", line.text)[1] == f"{sum(f.stat().st_size for f in three) / 1e6:.0f}"


def test_links_keep_their_names(three, tmp_path):
    """Download caches keep files under their digests and link to them by name: the name counts, also of a single file."""
    for n, file in enumerate(three):
        shutil.copy(file, tmp_path / f"blob{n}")
        (tmp_path / file.name).symlink_to(f"blob{n}")
    (tmp_path / "single.gguf").symlink_to("blob0")
    file = find_chat_model(str(tmp_path / three[0].name))
    backend = LlamaModel(file, EngineSettings(slots=1, n_ctx=256))
    backend.close()

    assert file.fingerprint == find_chat_model(str(three[0])).fingerprint
    assert find_chat_model(str(tmp_path / "single.gguf")).path.suffix == ".gguf"


@pytest.mark.ci
def test_a_replaced_file_is_noticed(copies, tmp_path):
    """A file that changes under a running engine ends the run in words, before another answer is committed under its name."""
    cache = SqliteLlmCache(open_index(tmp_path / "index", create=True))
    model = ChatModel(cache, find_chat_model(str(copies[0])), EngineOptions("slots=1,n_ctx=256"))

    async def ask(text):
        return await model.ask("t", [{"role": "user", "content": text}], max_tokens=30, grammar=choice_of(["yes", "no"]))

    assert asyncio.run(ask("Hello"))
    copies[1].touch()
    with pytest.raises(ModelError, match="was replaced while it was in use"):
        asyncio.run(ask("Again"))
    model.close()
