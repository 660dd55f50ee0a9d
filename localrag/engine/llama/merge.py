"""A chat model merged with an adapter: a GGUF file of its own in the user cache."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag.engine.adapter import Adapter, fingerprint_of, read_adapter
from localrag.errors import ModelError
from localrag.gguf_header import is_whole
from localrag.models import ModelFile
from localrag.system.files import cache_dir, new_file, private_folder, was_used

Q8_0 = 7  # llama_ftype


def merged(file: ModelFile, adapter: Path, say: Callable[[str], None]) -> ModelFile:
    """The model of one GGUF file with an adapter's differences added, its changed weights in Q8_0; made if it is missing or damaged.

    Raises ModelError.
    """
    target = cache_dir() / "models" / f"{file.path.stem}.{file.fingerprint}-{fingerprint_of(adapter)}.gguf"
    if not is_whole(target):
        say("Preparing the reader of short answers; it is done once.")
        try:
            private_folder(target.parent)
            with new_file(target) as part:
                _write(file.path, part, read_adapter(adapter))
        except OSError as error:
            raise ModelError(
                f"{file.path.name} cannot be merged with its adapter in {target.parent}: {error.strerror or error}.",
                "Make room there.",
            ) from error
    was_used(target)
    return replace(file, path=target)


def _write(source: Path, target: Path, adapter: Adapter) -> None:
    import gguf
    from gguf.quants import dequantize, quantize

    reader = gguf.GGUFReader(source)
    fields: dict[str, Any] = dict(reader.fields)
    writer = gguf.GGUFWriter(target, fields.pop("general.architecture").contents())
    for name, field in fields.items():
        if name.startswith("GGUF.") or name == "general.file_type":
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    writer.add_file_type(Q8_0)
    for tensor in reader.tensors:
        if not adapter.changes(tensor.name):
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        weights = adapter.merged(tensor.name, dequantize(tensor.data, tensor.tensor_type))
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(tensor.name, quantize(np.ascontiguousarray(weights), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
