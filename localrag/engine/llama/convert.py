"""BERT models of sentence-transformers as GGUF files: llama.cpp has one ready in a fifth of a second, torch in two seconds."""

from dataclasses import replace
from pathlib import Path

from localrag.engine.adapter import Adapter
from localrag.engine.bert_folder import is_bert, pooling, read, tensors, window
from localrag.gguf_header import is_whole
from localrag.models import ModelFile
from localrag.system.files import cache_dir, new_file, private_folder, was_used


def as_gguf(file: ModelFile, adapter: Adapter | None = None) -> ModelFile | None:
    """The same model as a GGUF file of 16-bit floats in the user cache, made if it is missing or damaged; None where it cannot be one.

    With an `adapter` it is the model merged with it, and gives the state of every token instead of a text's vector.

    It can if it is a BERT with mean or first-token pooling, as most small embedding models are. Cosine to the vectors of
    sentence-transformers over 0.9998 (measured with all-MiniLM-L6-v2 and 16-bit floats on both sides).
    """
    from safetensors import SafetensorError

    try:
        name = f"{file.fingerprint}-{adapter.fingerprint}" if adapter else file.fingerprint
        target = cache_dir() / "embedders" / f"{name}.gguf"
        if not is_whole(target):
            if not is_bert(file.path):
                return None
            private_folder(target.parent)
            with new_file(target) as part:
                _write(file.path, part, adapter)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):  # no place to write to, or not laid out as expected: torch loads it
        return None
    was_used(target)
    return replace(file, path=target)


def _write(folder: Path, target: Path, adapter: Adapter | None) -> None:
    import gguf
    import numpy as np

    config, most = read(folder / "config.json"), window(folder, of_states=adapter is not None)
    writer = gguf.GGUFWriter(target, "bert")
    writer.add_context_length(most)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType["NONE" if adapter else str(pooling(folder))])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("no_vocab")  # texts come as tokens: llama.cpp's own would split some writings otherwise
    writer.add_vocab_size(config["vocab_size"])
    for name, full in tensors(folder, adapter):
        weights = full[:most] if name.startswith("position_embd") else full
        small = weights.ndim == 1 or name.startswith(("position_embd", "token_types"))
        writer.add_tensor(name, weights.astype(np.float32 if small else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
