"""Write a GGUF with random weights: what the engine costs at a size, and whether it gets on with an architecture, needs no trained ones.

    python scripts/random_gguf.py VOCAB.gguf OUT.gguf                # the shape of a Qwen2 of 1.5 billion parameters, in Q8_0
    python scripts/random_gguf.py VOCAB.gguf OUT.gguf --architecture mamba --layers 2 --width 64 --ffn 128 --heads 4 --kv-heads 2

VOCAB.gguf is any GGUF with a tokenizer; the source distribution of llama-cpp-python has vendor/llama.cpp/models/ggml-vocab-qwen2.gguf.
"""

import argparse

import gguf
import numpy as np

CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
ARCHITECTURES = ("llama", "gemma2", "mamba", "lfm2")  # attention, with sliding windows, recurrent, hybrid
WINDOW, CONV, STATE, RANK = 32, 4, 16, 4  # gemma2's sliding window; mamba's convolution, state and time-step rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab")
    parser.add_argument("out")
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="llama")
    parser.add_argument("--type", choices=["q8_0", "f32"], default="q8_0")
    for name, default in {"layers": 28, "width": 1536, "ffn": 8960, "heads": 12, "kv_heads": 2, "context": 4096, "seed": 0}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    args = parser.parse_args()
    vocab = gguf.GGUFReader(args.vocab)
    writer = gguf.GGUFWriter(args.out, args.architecture)
    add_shape(writer, args)
    for name, field in vocab.fields.items():
        if name.startswith("tokenizer.") and not name.startswith("tokenizer.chat_template"):
            writer.add_key_value(name, field.contents(), field.types[0], *field.types[1:])
    writer.add_chat_template(CHAT)
    random = np.random.default_rng(args.seed)
    for name, shape in tensors(args, len(vocab.fields["tokenizer.ggml.tokens"].data)):
        add_tensor(writer, name, shape, random, blocks=args.type == "q8_0" and len(shape) == 2 and not shape[1] % 32 and "ssm" not in name)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_shape(writer: gguf.GGUFWriter, args: argparse.Namespace) -> None:
    writer.add_block_count(args.layers)
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.width)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if args.type == "q8_0" else gguf.LlamaFileType.ALL_F32)
    writer.add_feed_forward_length(args.ffn if args.architecture != "mamba" else 0)
    writer.add_head_count(args.heads if args.architecture != "mamba" else 0)
    if args.architecture == "lfm2":  # attention in every second layer
        writer.add_head_count_kv([args.kv_heads * (layer % 2) for layer in range(args.layers)])
        writer.add_shortconv_l_cache(CONV)
    elif args.architecture != "mamba":
        writer.add_head_count_kv(args.kv_heads)
    if args.architecture == "gemma2":
        writer.add_sliding_window(WINDOW)
        writer.add_key_length(args.width // args.heads)
        writer.add_value_length(args.width // args.heads)
    if args.architecture == "mamba":
        writer.add_ssm_conv_kernel(CONV)
        writer.add_ssm_inner_size(2 * args.width)
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_time_step_rank(RANK)


def tensors(args: argparse.Namespace, tokens: int) -> list[tuple[str, tuple[int, ...]]]:
    """Names and numpy shapes (rows, columns) of all tensors."""
    width, kv, head = args.width, args.width // args.heads * args.kv_heads, args.width // args.heads
    attention = {"attn_q": (width, width), "attn_k": (kv, width), "attn_v": (kv, width), "attn_output": (width, width)}
    feed = {"ffn_norm": (width,), "ffn_gate": (args.ffn, width), "ffn_up": (args.ffn, width), "ffn_down": (width, args.ffn)}
    inner, low = 2 * width, RANK + 2 * STATE
    recurrent = {"ssm_in": (2 * inner, width), "ssm_conv1d": (inner, CONV), "ssm_conv1d.bias": (inner,), "ssm_x": (low, inner)}
    recurrent |= {"ssm_dt": (inner, RANK), "ssm_dt.bias": (inner,), "ssm_a": (inner, STATE), "ssm_d": (inner,), "ssm_out": (width, inner)}
    conv = {"shortconv.conv": (width, CONV), "shortconv.in_proj": (3 * width, width), "shortconv.out_proj": (width, width)}
    normed = {"attn_q_norm": (head,), "attn_k_norm": (head,)}
    posts = {"post_attention_norm": (width,), "post_ffw_norm": (width,)}
    layers = {
        "llama": [attention | feed],
        "gemma2": [attention | posts | feed],
        "mamba": [recurrent],
        "lfm2": [conv | feed, attention | normed | feed],
    }[args.architecture]
    norm = "token_embd_norm" if args.architecture == "lfm2" else "output_norm"
    named = {"token_embd": (tokens, width), norm: (width,)}
    for layer in range(args.layers):
        named |= {f"blk.{layer}.{name}": shape for name, shape in ({"attn_norm": (width,)} | layers[layer % len(layers)]).items()}
    return [(name if name.endswith((".bias", "ssm_a", "ssm_d")) else f"{name}.weight", shape) for name, shape in named.items()]


def add_tensor(writer: gguf.GGUFWriter, name: str, shape: tuple[int, ...], random: np.random.Generator, *, blocks: bool) -> None:
    """Ones for norms; matrices with the variance 1 / columns, as at a usual initialisation, in float32 or as Q8_0 blocks."""
    if len(shape) == 1:
        writer.add_tensor(name, np.ones(shape, np.float32))
    elif not blocks:
        values = random.normal(0, shape[1] ** -0.5, shape).astype(np.float32)
        writer.add_tensor(name, -np.abs(values) if name.endswith("ssm_a") else values)
    else:
        packed = np.empty((shape[0], shape[1] // 32, 34), np.uint8)
        packed[..., :2] = np.array([1 / (shape[1] ** 0.5 * 73)], np.float16).view(np.uint8)  # int8 uniform in ±127: deviation 73
        packed[..., 2:] = random.integers(-127, 128, (shape[0], shape[1] // 32, 32), np.int8).view(np.uint8)
        writer.add_tensor(name, packed.reshape(shape[0], -1), raw_dtype=gguf.GGMLQuantizationType.Q8_0)


if __name__ == "__main__":
    main()
