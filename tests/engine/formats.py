"""The kinds of chat models there are: an architecture with random weights, a short template that behaves like theirs, its marks."""

import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "random_gguf.py"
MISUSED = "{{ raise_exception('Conversation roles must alternate') }}"
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
ALTERNATE = f"{{% for m in messages %}}{{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}}{MISUSED}{{% endif %}}{{% endfor %}}"
ASKED = "{% if add_generation_prompt %}"
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
CHATML += ASKED + "<|im_start|>assistant\n{% endif %}"
THINKING_OFF = CHATML.removesuffix("{% endif %}") + "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
LLAMA_3 = """{{ bos_token }}<|start_header_id|>system<|end_header_id|>

Today Date: {{ strftime_now('%d %b %Y') }}
{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}{% set messages = messages[1:] %}{% endif %}<|eot_id|>
{%- for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""
GEMMA = "{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n"
GEMMA += "{% endfor %}" + ASKED + "<start_of_turn>model\n{% endif %}"
GEMMA_3 = "{% if messages[0].role == 'system' %}{% set first = messages[0].content ~ '\n\n' %}{% set messages = messages[1:] %}{% endif %}"
GEMMA_3 += ALTERNATE + GEMMA.replace("{{ m.content | trim }}", "{{ first if loop.first else '' }}{{ m.content | trim }}")
MISTRAL = "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}"
MISTRAL = "{{ bos_token }}" + NO_SYSTEM + ALTERNATE + MISTRAL + "{% endif %}{% endfor %}"
MINISTRAL = "{% if messages[0].role == 'system' %}[SYSTEM_PROMPT]{{ messages[0].content }}[/SYSTEM_PROMPT]{% set messages = messages[1:] %}"
MINISTRAL += "{% endif %}" + ALTERNATE + "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
MINISTRAL += "{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"
PHI_3 = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}" + ASKED + "<|assistant|>\n{% endif %}"
PHI_4 = "{% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}"
PHI_4 += ASKED + "<|im_start|>assistant<|im_sep|>{% endif %}"
GRANITE = "{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>\n{% endfor %}"
GRANITE += ASKED + "<|start_of_role|>assistant{% if thinking %} thinking{% endif %}<|end_of_role|>{% endif %}"
GPT_OSS = "<|start|>system<|message|>Reasoning: {{ reasoning_effort | default('medium') }}<|end|>{% for m in messages %}<|start|>"
GPT_OSS += "{{ 'developer' if m.role == 'system' else m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>"
GPT_OSS += "{{ m.content }}<|end|>{% endfor %}" + ASKED + "<|start|>assistant{% endif %}"
R1 = "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}<｜User｜>{{ m.content }}"
R1 += "{% else %}<｜Assistant｜>{{ m.content.split('</think>')[-1] }}<｜end▁of▁sentence｜>{% endif %}{% endfor %}"
R1 += ASKED + "<｜Assistant｜><think>\n{% endif %}"
SEED = "{% for m in messages %}<seed:bos>{{ m.role }}\n{{ m.content }}<seed:eos>{% endfor %}" + ASKED
SEED += "<seed:bos>assistant\n<seed:think>{% endif %}"
EXAONE = "{% for m in messages %}[|{{ m.role }}|]{{ m.content }}[|endofturn|]\n{% endfor %}" + ASKED + "[|assistant|]{% endif %}"


@dataclass(frozen=True)
class Kind:
    """`marks`: its control tokens; `user`: those of the user-defined type; `head`: the size of a head; `begins`: how an answer does."""

    architecture: str
    template: str
    begins: str
    marks: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    system: bool = True
    sentencepiece: bool = False
    head: int = 0


THOUGHTS = ("<think>", "</think>")
KINDS = {
    "Llama 3": Kind("llama", LLAMA_3, "assistant<|end_header_id|>\n\n", ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    "Qwen 2.5": Kind("qwen2", CHATML, "<|im_start|>assistant\n"),
    "Qwen 3": Kind("qwen3", THINKING_OFF, "assistant\n<think>\n\n</think>\n\n", user=THOUGHTS, head=64),
    "Qwen3-MoE": Kind("qwen3moe", THINKING_OFF, "assistant\n<think>\n\n</think>\n\n", user=THOUGHTS, head=64),
    "Gemma 2": Kind("gemma2", NO_SYSTEM + ALTERNATE + GEMMA, "<start_of_turn>model\n", ("<start_of_turn>", "<end_of_turn>"), system=False),
    "Gemma 3": Kind("gemma3", GEMMA_3, "<start_of_turn>model\n", ("<start_of_turn>", "<end_of_turn>"), head=64),
    "Mistral 7B": Kind("llama", MISTRAL, "[/INST]", system=False, sentencepiece=True),
    "Ministral": Kind("mistral3", MINISTRAL, "[/INST]", ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "</s>"), head=64),
    "Phi-3": Kind("phi3", PHI_3, "<|assistant|>\n", ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")),
    "Phi-4": Kind("phi3", PHI_4, "assistant<|im_sep|>", ("<|im_sep|>",)),
    "Granite": Kind("granite", GRANITE, "assistant<|end_of_role|>", ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>")),
    "gpt-oss": Kind(
        "gpt-oss",
        GPT_OSS,
        "<|start|>assistant<|channel|>final<|message|>",
        ("<|start|>", "<|end|>", "<|message|>", "<|channel|>"),
        head=64,
    ),
    "SmolLM3": Kind("smollm3", THINKING_OFF, "assistant\n<think>\n\n</think>\n\n", user=THOUGHTS),
    "LFM2": Kind("lfm2", CHATML, "<|im_start|>assistant\n"),
    "Mamba": Kind("mamba", CHATML, "<|im_start|>assistant\n"),
    "DeepSeek R1": Kind(
        "qwen2", R1, "<｜Assistant｜><think>\n\n</think>\n\n", ("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"), THOUGHTS
    ),
    "Seed-OSS": Kind(
        "llama", SEED, "assistant\n<seed:think></seed:think>", ("<seed:bos>", "<seed:eos>"), ("<seed:think>", "</seed:think>")
    ),
    "EXAONE": Kind("llama", EXAONE, "[|assistant|]", ("[|system|]", "[|user|]", "[|assistant|]", "[|endofturn|]")),
    "Gemma's template, another's vocabulary": Kind("llama", NO_SYSTEM + ALTERNATE + GEMMA, "<start_of_turn>model\n", system=False),
}


@cache
def script():
    """scripts/random_gguf.py as a module."""
    spec = importlib.util.spec_from_file_location("random_gguf", SCRIPT)
    sys.modules["random_gguf"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path: Path, vocabulary: Path, kind: Kind, *, template: str | None = None, context: int = 4096) -> Path:
    """A small model of that kind with random weights."""
    random = script()
    tokens = (random.sentencepiece if kind.sentencepiece else random.same)(vocabulary)
    added = {**dict.fromkeys(kind.marks, random.CONTROL), **dict.fromkeys(kind.user, random.USER_DEFINED)}
    shape = random.Shape(layers=4, width=64, ffn=128, heads=2, kv_heads=1, head=kind.head, context=context)
    random.write(
        path,
        kind.architecture,
        shape,
        random.with_tokens(tokens, added),
        kind.template if template is None else template,
        blocks=False,
    )
    return path
