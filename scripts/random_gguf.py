"""Write a GGUF with random weights: what the engine costs at a size, and whether it gets on with an architecture, needs no trained ones.

    python scripts/random_gguf.py VOCAB.gguf OUT.gguf                # the shape of a Qwen2 of 1.5 billion parameters, in Q8_0
    python scripts/random_gguf.py VOCAB.gguf OUT.gguf --architecture mamba --layers 2 --width 64 --ffn 128 --heads 4 --kv-heads 2
    python scripts/random_gguf.py VOCAB.gguf OUT.gguf --template CHAT.jinja --control "[INST]" "[/INST]" --user-defined "<think>"

VOCAB.gguf is any GGUF with a byte-pair tokenizer; the source distribution of llama-cpp-python has
vendor/llama.cpp/models/ggml-vocab-qwen2.gguf.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import gguf
import numpy as np
from gguf.gguf_writer import GGUFValue

CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
WINDOW, CONV, STATE, RANK = 32, 4, 16, 4  # a sliding window; mamba's convolution, state and time-step rank
EXPERTS, USED = 4, 2
WORDS = 8000  # of a vocabulary made up in the manner of SentencePiece
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

Tensors = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Shape:
    layers: int = 28
    width: int = 1536
    ffn: int = 8960
    heads: int = 12
    kv_heads: int = 2
    head: int = 0  # the size of a head; 0: width / heads
    context: int = 4096

    @property
    def head_size(self) -> int:
        return self.head or self.width // self.heads


def nothing(_writer: gguf.GGUFWriter, _: Shape) -> None:
    """Its metadata need nothing more."""


@dataclass(frozen=True)
class Architecture:
    """`layers`: the tensors of a layer, by kind, the kinds in turn; `keys`: what its metadata need beyond the common."""

    layers: tuple[Callable[[Shape], Tensors], ...]
    keys: Callable[[gguf.GGUFWriter, Shape], None] = nothing
    norm: str = "output_norm"
    output: bool = False  # a matrix of its own for the output
    attends: bool = True


def attention(s: Shape) -> Tensors:
    queries, keys = s.heads * s.head_size, s.kv_heads * s.head_size
    return {"attn_norm": (s.width,), "attn_q": (queries, s.width), "attn_k": (keys, s.width), "attn_v": (keys, s.width),
            "attn_output": (s.width, queries)}  # fmt: skip


def biased(s: Shape) -> Tensors:
    return attention(s) | {f"{name}.bias": attention(s)[name][:1] for name in ("attn_q", "attn_k", "attn_v")}


def normed(s: Shape) -> Tensors:
    return attention(s) | {"attn_q_norm": (s.head_size,), "attn_k_norm": (s.head_size,)}


def posts(s: Shape) -> Tensors:
    return {"post_attention_norm": (s.width,), "post_ffw_norm": (s.width,)}


def feed(s: Shape) -> Tensors:
    return {"ffn_norm": (s.width,), "ffn_gate": (s.ffn, s.width), "ffn_up": (s.ffn, s.width), "ffn_down": (s.width, s.ffn)}


def fused(s: Shape) -> Tensors:
    keys = s.kv_heads * s.head_size
    return {"attn_norm": (s.width,), "attn_qkv": (s.width + 2 * keys, s.width), "attn_output": (s.width, s.width), "ffn_norm": (s.width,),
            "ffn_up": (2 * s.ffn, s.width), "ffn_down": (s.width, s.ffn)}  # fmt: skip


def experts(s: Shape) -> Tensors:
    wide, narrow = (EXPERTS, s.ffn, s.width), (EXPERTS, s.width, s.ffn)
    return {"ffn_gate_inp": (EXPERTS, s.width), "ffn_gate_exps": wide, "ffn_up_exps": wide, "ffn_down_exps": narrow}


def mixture(s: Shape) -> Tensors:
    return {"ffn_norm": (s.width,)} | experts(s)


def channelled(s: Shape) -> Tensors:
    """A layer of gpt-oss: sinks, and biases everywhere."""
    found = biased(s) | {"attn_output.bias": (s.width,), "attn_sinks": (s.heads,), "post_attention_norm": (s.width,)} | experts(s)
    return found | {f"{name}.bias": shape[:-1] for name, shape in experts(s).items()}


def recurrent(s: Shape) -> Tensors:
    inner, low = 2 * s.width, RANK + 2 * STATE
    return {"attn_norm": (s.width,), "ssm_in": (2 * inner, s.width), "ssm_conv1d": (inner, CONV), "ssm_conv1d.bias": (inner,),
            "ssm_x": (low, inner), "ssm_dt": (inner, RANK), "ssm_dt.bias": (inner,), "ssm_a": (inner, STATE), "ssm_d": (inner,),
            "ssm_out": (s.width, inner)}  # fmt: skip


def convolution(s: Shape) -> Tensors:
    return {"attn_norm": (s.width,), "shortconv.conv": (s.width, CONV), "shortconv.in_proj": (3 * s.width, s.width),
            "shortconv.out_proj": (s.width, s.width)}  # fmt: skip


def together(*kinds: Callable[[Shape], Tensors]) -> Callable[[Shape], Tensors]:
    return lambda s: {name: shape for kind in kinds for name, shape in kind(s).items()}


def sliding(writer: gguf.GGUFWriter, _: Shape) -> None:
    writer.add_sliding_window(WINDOW)


def mixed(writer: gguf.GGUFWriter, s: Shape) -> None:
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(s.ffn)


def sliding_and_mixed(writer: gguf.GGUFWriter, s: Shape) -> None:
    sliding(writer, s)
    mixed(writer, s)


def scaled(writer: gguf.GGUFWriter, _: Shape) -> None:
    writer.add_logit_scale(8.0)


def convolved(writer: gguf.GGUFWriter, _: Shape) -> None:
    writer.add_shortconv_l_cache(CONV)


def stateful(writer: gguf.GGUFWriter, s: Shape) -> None:
    writer.add_ssm_conv_kernel(CONV)
    writer.add_ssm_inner_size(2 * s.width)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)


PLAIN = (together(attention, feed),)
ARCHITECTURES = {
    "llama": Architecture(PLAIN),
    "mistral3": Architecture(PLAIN),
    "smollm3": Architecture(PLAIN),
    "granite": Architecture(PLAIN, scaled),
    "qwen2": Architecture((together(biased, feed),)),
    "qwen3": Architecture((together(normed, feed),)),
    "qwen3moe": Architecture((together(normed, mixture),), mixed),
    "gemma2": Architecture((together(attention, posts, feed),), sliding),
    "gemma3": Architecture((together(normed, posts, feed),), sliding),
    "phi3": Architecture((fused,)),
    "gpt-oss": Architecture((channelled,), sliding_and_mixed, output=True),
    "lfm2": Architecture((together(convolution, feed), together(normed, feed)), convolved, "token_embd_norm"),  # attention in every second
    "mamba": Architecture((recurrent,), stateful, attends=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab")
    parser.add_argument("out")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--type", choices=["q8_0", "f32"], default="q8_0")
    parser.add_argument("--template", type=Path, help="a file with the chat template to write")
    parser.add_argument("--control", nargs="*", default=[], help="control tokens to add to the vocabulary")
    parser.add_argument("--user-defined", nargs="*", default=[], help="user-defined tokens to add to the vocabulary")
    parser.add_argument("--sentencepiece", action="store_true", help="a vocabulary made up of VOCAB's words in the manner of SentencePiece")
    for name, default in vars(Shape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--output", action="store_true", help="a matrix of its own for the output, as large models have")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    shape = Shape(**{name: getattr(args, name) for name in vars(Shape())})
    template = args.template.read_text(encoding="utf-8") if args.template else CHAT
    added = {**dict.fromkeys(args.control, CONTROL), **dict.fromkeys(args.user_defined, USER_DEFINED)}
    vocabulary = with_tokens((sentencepiece if args.sentencepiece else same)(Path(args.vocab)), added)
    write(
        Path(args.out),
        args.architecture,
        shape,
        vocabulary,
        template,
        blocks=args.type == "q8_0",
        seed=args.seed,
        output=args.output,
    )


def write(
    out: Path,
    architecture: str,
    shape: Shape,
    vocabulary: dict[str, GGUFValue],
    template: str,
    *,
    blocks: bool,
    seed: int = 0,
    output: bool = False,
) -> None:
    """Write the model; `blocks`: in Q8_0, as far as its matrices can be, else in float32; `output`: with a matrix of its own for that."""
    writer = gguf.GGUFWriter(out, architecture)
    kind = replace(ARCHITECTURES[architecture], output=output or ARCHITECTURES[architecture].output)
    add_shape(writer, kind, shape)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if blocks else gguf.LlamaFileType.ALL_F32)
    for name, value in vocabulary.items():
        writer.add_key_value(name, value.value, value.type, value.sub_type)
    if template:
        writer.add_chat_template(template)
    random = np.random.default_rng(seed)
    for name, dimensions in tensors(kind, shape, len(vocabulary["tokenizer.ggml.tokens"].value)):
        packed = blocks and len(dimensions) == 2 and not dimensions[1] % 32 and not name.endswith(".bias") and "ssm" not in name
        add_tensor(writer, name, dimensions, random, blocks=packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_shape(writer: gguf.GGUFWriter, architecture: Architecture, s: Shape) -> None:
    writer.add_block_count(s.layers)
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.width)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_feed_forward_length(s.ffn if architecture.attends else 0)
    writer.add_head_count(s.heads if architecture.attends else 0)
    if architecture.attends:
        kinds = [kind(s) for kind in architecture.layers]
        each = [s.kv_heads * any("attn_k" in n or "qkv" in n for n in kinds[layer % len(kinds)]) for layer in range(s.layers)]
        writer.add_head_count_kv(each if 0 in each else s.kv_heads)
        writer.add_key_length(s.head_size)
        writer.add_value_length(s.head_size)
    architecture.keys(writer, s)


def tensors(architecture: Architecture, s: Shape, tokens: int) -> list[tuple[str, tuple[int, ...]]]:
    """Names and numpy shapes (…, rows, columns) of all tensors."""
    named: Tensors = {"token_embd": (tokens, s.width), architecture.norm: (s.width,)}
    named |= {"output": (tokens, s.width)} if architecture.output else {}
    for layer in range(s.layers):
        kind = architecture.layers[layer % len(architecture.layers)](s)
        named |= {f"blk.{layer}.{name}": shape for name, shape in kind.items()}
    return [(name if name.endswith((".bias", "ssm_a", "ssm_d")) else f"{name}.weight", shape) for name, shape in named.items()]


def add_tensor(writer: gguf.GGUFWriter, name: str, shape: tuple[int, ...], random: np.random.Generator, *, blocks: bool) -> None:
    """Ones for norms; matrices with the variance 1 / columns, as at a usual initialisation, in float32 or as Q8_0 blocks."""
    if len(shape) == 1:
        writer.add_tensor(name, np.ones(shape, np.float32))
    elif not blocks:
        values = random.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
        writer.add_tensor(name, -np.abs(values) if name.endswith("ssm_a") else values)
    else:
        packed = np.empty((shape[0], shape[1] // 32, 34), np.uint8)
        packed[..., :2] = np.array([1 / (shape[1] ** 0.5 * 73)], np.float16).view(np.uint8)  # int8 uniform in ±127: deviation 73
        packed[..., 2:] = random.integers(-127, 128, (shape[0], shape[1] // 32, 32), np.int8).view(np.uint8)
        writer.add_tensor(name, packed.reshape(shape[0], -1), raw_dtype=gguf.GGMLQuantizationType.Q8_0)


@lru_cache(maxsize=2)
def same(path: Path) -> dict[str, GGUFValue]:
    """The vocabulary of a GGUF, as its metadata."""
    found = {}
    for name, field in gguf.GGUFReader(path).fields.items():
        if name.startswith("tokenizer.") and not name.startswith("tokenizer.chat_template"):
            found[name] = GGUFValue(field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)
    return found


@lru_cache(maxsize=2)
def sentencepiece(path: Path) -> dict[str, GGUFValue]:
    """A vocabulary like SentencePiece's: bytes, and the words of another with their spaces written ▁, those merged first the likeliest."""
    words = [text.replace("Ġ", "▁") for text in same(path)["tokenizer.ggml.tokens"].value]
    words = [word for word in dict.fromkeys(words) if word.replace("▁", "a").isascii() and not word.startswith("<")]
    words = [*(f"<0x{byte:02X}>" for byte in range(256)), *words[:WORDS]]
    tokens = ["<unk>", "<s>", "</s>", *words]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * (len(words) - 256)]
    kind = gguf.GGUFValueType
    return {
        "tokenizer.ggml.model": GGUFValue("llama", kind.STRING),
        "tokenizer.ggml.tokens": GGUFValue(tokens, kind.ARRAY, kind.STRING),
        "tokenizer.ggml.scores": GGUFValue([-float(n) for n in range(len(tokens))], kind.ARRAY, kind.FLOAT32),
        "tokenizer.ggml.token_type": GGUFValue(types, kind.ARRAY, kind.INT32),
        "tokenizer.ggml.bos_token_id": GGUFValue(1, kind.UINT32),
        "tokenizer.ggml.eos_token_id": GGUFValue(2, kind.UINT32),
        "tokenizer.ggml.unknown_token_id": GGUFValue(0, kind.UINT32),
    }


def with_tokens(vocabulary: dict[str, GGUFValue], added: dict[str, int]) -> dict[str, GGUFValue]:
    """The vocabulary with more tokens at its end, by their texts and types."""
    more = {
        "tokenizer.ggml.tokens": list(added),
        "tokenizer.ggml.token_type": list(added.values()),
        "tokenizer.ggml.scores": [0.0] * len(added),
    }
    lists = {name: GGUFValue([*value.value, *more[name]], value.type, value.sub_type) for name, value in vocabulary.items() if name in more}
    return vocabulary | lists


if __name__ == "__main__":
    main()
