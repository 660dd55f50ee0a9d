"""EngineSettings of one model on one machine, and the user's EngineOptions."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from localrag.errors import UsageError

WEIGHT_FORMATS = ("own", "q8_0", "bf16")
KV_CACHE_TYPES = ("f16", "f32", "bf16", "q8_0", "q8_0/f32", "q8_0/bf16")  # one type, or that of keys / that of values


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the engine, which affect its speed; only those marked * may change an answer, by rounding."""

    threads: int = 1
    slots: int = 8  # sequences under way at once
    n_ctx: int = 4096  # cells of one sequence, at most
    flash_attention: bool = False  # *
    kv_cache_type: str = "f16"  # *
    gpu_layers: int = -1  # * -1: all of them, where llama.cpp was built for a GPU
    extra_buffers: bool = True  # * rearrange weights for the CPU's own instructions (repacking, AMX)
    weights: str = "own"  # * compute with the file's own weights, or with a copy of them in a type that is faster here
    share_prefixes: bool = True  # copy the KV that an earlier prompt of the same beginning left
    prompt_lookup: bool = True  # guess tokens from the text so far and check several in one step
    min_rows: int = 2  # rows a sequence takes part with: on CPU two or more round alike, one does not
    row_multiple: int = 1  # rows of a step come in multiples of this, where kernels round the remainder differently

    def with_values(self, text: str) -> "EngineSettings":
        """These settings with `name=value,name=value` applied. Raises UsageError."""
        kinds = {f.name: type(getattr(self, f.name)) for f in fields(self)}
        values: dict[str, Any] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, _, value = part.partition("=")
            name = name.strip().replace("-", "_")
            if name not in kinds:
                raise UsageError(f"The engine has no setting {name!r}.", f"It has: {', '.join(kinds)}, adapter.")
            values[name] = _parse_value(name, value.strip(), kinds[name])
        return validate(replace(self, **values))

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON-ready values."""
        return asdict(self)


# The least and the most, beyond any machine; llama.cpp itself has at most 256 sequences.
VALUE_RANGES = {
    "threads": (1, 1024), "slots": (1, 256), "n_ctx": (256, 524_288), "gpu_layers": (-1, 4096), "min_rows": (1, 4096),
    "row_multiple": (1, 4096),
}  # fmt: skip
AUTOTUNE_HINT = "Let localrag choose (without --engine), or see what works here: localrag doctor"
# What native code depends on.
LAYOUT_FIELDS = ("weights", "extra_buffers", "kv_cache_type", "flash_attention", "gpu_layers")


def layout_key(s: EngineSettings) -> str:
    """The settings that native code depends on, as text: they may work on one machine and not on another."""
    return ",".join(f"{name}={_format_value(getattr(s, name))}" for name in LAYOUT_FIELDS)


def sized_layout_key(s: EngineSettings) -> str:
    """A layout with the size of its KV cache: this is tried before it is used."""
    return f"{layout_key(s)},slots={s.slots},n_ctx={s.n_ctx}"


def layout_summary(name: str) -> str:
    """The non-default values of a `layout_key` or `sized_layout_key`, for messages."""
    usual = {"weights=own", "extra_buffers=yes", "flash_attention=no", "gpu_layers=0"}
    return ", ".join(part for part in name.split(",") if part not in usual)


def _format_value(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _silent(_text: str) -> None:
    """Ignore a notification."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The user's engine options: settings by hand, whether to tune again, deterministic answers, servers."""

    overrides: str = ""
    retune: bool = False
    deterministic: bool = False
    notify: Callable[[str], None] = _silent
    allowed_hosts: tuple[str, ...] = ()  # beyond this machine, for a model behind a server
    parallel_requests: int = 0  # requests to each server at the same time; 0: as many as it tells
    use_adapters: bool = True  # the reader of passages, and the tagger of the bundled model
    measure_later: bool = False  # a model that was never measured here runs with usual settings
    prefix_files: bool = True  # keep the KV of beginnings that prompts share as files; they hold the tokens of those beginnings

    @classmethod
    def of(cls, text: str, **others: Any) -> "EngineOptions":
        """The options for settings by hand as `--engine` takes them; `adapter` is none of the chat model's. Raises UsageError."""
        parts = [part.strip() for part in text.split(",")]
        own = [part for part in parts if part.partition("=")[0].strip() == "adapter"]
        values = ",".join(part for part in parts if part not in own)
        EngineSettings().with_values(values)  # a mistake is said before anything is opened
        return cls(values, use_adapters=all(_parse_value("adapter", part.partition("=")[2].strip(), bool) for part in own), **others)


def validate(settings: EngineSettings) -> EngineSettings:
    """Check that llama.cpp supports the settings, and return them. Raises UsageError."""
    for name, (least, most) in VALUE_RANGES.items():
        if not least <= (value := getattr(settings, name)) <= most:
            bound = f"at least {least}" if value < least else f"at most {most:,}"
            raise UsageError(f"Engine setting {name} must be {bound}, not {value}.", "For example: --engine slots=16,n_ctx=8192")
    if settings.kv_cache_type == "q8_0" and not settings.flash_attention:
        raise UsageError(
            "Engine setting kv_cache_type=q8_0 keeps values in q8_0, which needs flash attention.",
            "Use kv_cache_type=q8_0/f32, or add flash_attention=yes.",
        )
    return settings


def _parse_value(name: str, value: str, kind: type) -> Any:
    if kind is bool:
        if value.lower() not in {"yes", "no", "true", "false", "1", "0", "on", "off"}:
            raise UsageError(f"Engine setting {name} is yes or no, not {value!r}.", f"For example: --engine {name}=yes")
        return value.lower() in {"yes", "true", "1", "on"}
    if known := {"kv_cache_type": KV_CACHE_TYPES, "weights": WEIGHT_FORMATS}.get(name):
        if value not in known:
            raise UsageError(f"Engine setting {name} cannot be {value!r}.", f"It can be: {', '.join(known)}.")
        return value
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"Engine setting {name} is a number, not {value!r}.", f"For example: --engine {name}=4") from None
