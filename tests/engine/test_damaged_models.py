"""Model files that were cut off or spoilt: said of the file, in words, by every command, before llama.cpp sees it."""

import struct
import subprocess
import sys

import gguf
import pytest

from localrag.engine.llama.model import LlamaModel
from localrag.engine.llama.pooled import PooledModel
from localrag.engine.memory import file_type, read_kv_shape
from localrag.engine.settings import EngineSettings
from localrag.engine.tokenizer import Tokenizer
from localrag.errors import ModelError
from localrag.gguf import is_complete, read_header
from localrag.model_files import ModelFile
from tests.conftest import run_localrag

CUTS = {
    "magic": (2, "is not a GGUF file"),
    "counts": (20, "ends within its beginning"),
    "metadata": (60, "ends within its metadata"),
    "vocabulary": (400_000, "ends within its vocabulary"),
    "tensors": (-1, "ends within its list of tensors"),
    "weights": (-2, "ends within its weights"),
    "last byte": (-3, "ends within its weights"),
}


@pytest.fixture(scope="module")
def cut(chat_file, tmp_path_factory):
    """A function that gives the bundled model cut off at a place."""
    whole, folder = chat_file.path.read_bytes(), tmp_path_factory.mktemp("cut")
    tensors = whole.index(b"blk.7.ffn_up.weight")
    at = {-1: tensors, -2: len(whole) // 2, -3: len(whole) - 1}

    def made(where):
        path = folder / f"{where.replace(' ', '-')}.gguf"
        if not path.exists():
            path.write_bytes(whole[: at.get(CUTS[where][0], CUTS[where][0])])
        return path

    return made


@pytest.mark.ci
def test_a_whole_file_is_read(chat_file):
    """Its metadata are those the gguf package reads, and it has just the bytes its header announces."""
    header, fields = read_header(chat_file.path), gguf.GGUFReader(chat_file.path).fields

    assert header.min_file_size == chat_file.path.stat().st_size
    assert header.values["general.architecture"] == "llama"
    for key, value in header.values.items():
        assert value is None or value == fields[key].contents(), key


@pytest.mark.parametrize("where", CUTS)
def test_a_file_that_was_cut_off_is_named_with_the_place(cut, where):
    """Whatever reads a model says which file is incomplete and where it ends: fingerprint, vocabulary, weights, type, memory."""
    path = cut(where)
    file = ModelFile("x", "chat", path)
    ways = [
        lambda: file.fingerprint,
        lambda: Tokenizer(file),
        lambda: LlamaModel(file, EngineSettings()),
        lambda: PooledModel(file, EngineSettings()),
        lambda: file_type(path),
        lambda: read_kv_shape(path),
    ]

    assert not is_complete(path)
    for way in ways:
        with pytest.raises(ModelError, match=CUTS[where][1]) as error:
            way()
        assert path.name in str(error.value)


def test_llama_cpp_refuses_what_was_cut_off_and_does_not_end_the_process(cut):
    """Should such a file change after it was looked at, loading it fails, wherever it ends, and the process goes on."""
    code = (
        "import sys; from pathlib import Path; import llama_cpp; from localrag.engine.llama.library import load_model\n"
        "from localrag.errors import ModelError\n"
        "for path in sys.argv[1:]:\n"
        "    for vocab in (False, True):\n"
        "        params = llama_cpp.llama_model_default_params(); params.vocab_only = vocab\n"
        "        try: load_model(Path(path), params)\n"
        "        except ModelError as error: print('refused', vocab, flush=True)\n"
        "        else: print('loaded', vocab, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, map(cut, CUTS))], check=False, capture_output=True, text=True)

    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.splitlines()[::2] == ["refused False"] * len(CUTS)


@pytest.mark.parametrize("command", [("index", "a.txt"), ("doctor",), ("bench", "--json")], ids=lambda c: c[0])
def test_every_command_says_it(tmp_path, cut, command):
    """On the command line: the file, where it ends, what to do; exit code as ever, no word of something unexpected."""
    (tmp_path / "a.txt").write_text("Lars Holm is the mate.")
    done = run_localrag(*command, "--model", str(cut("vocabulary")), cwd=tmp_path)

    assert done.returncode == {"index": 4, "doctor": 1, "bench": 4}[command[0]], done.stdout + done.stderr
    assert "vocabulary.gguf cannot be loaded: the file is incomplete" in done.stdout + done.stderr
    assert "unexpected" not in done.stdout + done.stderr
    assert not (tmp_path / ".localrag" / "index.db").exists()


SPOILT = {
    "version 1": struct.pack("<I", 1),
    "big-endian": struct.pack("<I", 3 << 24) + bytes(16),
    "dimensions": struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"t" + struct.pack("<I", 1 << 30),
    "kind": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 99),
    "nested": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, 1 << 60),
    "endless texts": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 1 << 60),
    "endless key": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 63) + b"k",
    "alignment": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 0),
    "endless text": struct.pack("<IQQ", 3, 0, 1)
    + struct.pack("<Q", 1)
    + b"k"
    + struct.pack("<IIQ", 9, 8, 2)
    + struct.pack("<QQ", 2**64 - 1, 0),
    "endless value": struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 2**64 - 1),
    "endless tensor": struct.pack("<IQQ", 3, 1, 0)
    + struct.pack("<Q", 1)
    + b"t"
    + struct.pack("<I", 8)
    + struct.pack("<Q", 2**64 - 1) * 9
    + bytes(9),
    "noise": b"\xff" * 100,
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_header_is_refused_at_once(tmp_path, spoilt):
    """Numbers that cannot be end the reading; nothing huge is tried."""
    path = tmp_path / "spoilt.gguf"
    path.write_bytes(b"GGUF" + spoilt)

    with pytest.raises(ModelError, match=r"spoilt\.gguf cannot be loaded: (its|the file)"):
        read_header(path)


def test_a_file_that_may_not_be_read_is_named(tmp_path):
    """A folder by that name, or a missing file: the reason in words."""
    (tmp_path / "folder.gguf").mkdir()

    for name in ("folder.gguf", "missing.gguf"):
        with pytest.raises(ModelError, match=rf"{name} cannot be read"):
            read_header(tmp_path / name)
