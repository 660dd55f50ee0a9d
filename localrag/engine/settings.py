"""How the engine is set up for one model on one machine: measured (`hardware/`), or given by hand."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from localrag.errors import UsageError

WEIGHTS = ("own", "q8_0", "bf16")
KV_TYPES = ("f16", "f32", "bf16", "q8_0", "q8_0/f32", "q8_0/bf16")  # one type, or that of keys / that of values


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Everything about a run of the engine that may change its speed; only those marked * may change an answer, by rounding."""

    threads: int = 1
    slots: int = 8  # sequences under way at once
    context: int = 4096  # cells of one sequence, at most
    unified: bool = False  # * one KV buffer for all sequences instead of one each
    flash_attention: bool = False  # *
    kv: str = "f16"  # *
    gpu_layers: int = -1  # * -1: all of them, where llama.cpp was built for a GPU
    cpu_experts: int = 0  # * of so many layers offloaded to a GPU the experts (of a mixture-of-experts model) stay on the CPU
    extra_buffers: bool = True  # * rearrange weights for the CPU's own instructions (repacking, AMX)
    weights: str = "own"  # * compute with the file's own weights, or with a copy of them in a type that is faster here
    share_prefixes: bool = True  # copy the KV that an earlier prompt of the same beginning left
    drafts: bool = True  # guess tokens from the text so far and check several in one step
    pass_rows: float = 8.0  # what a step costs besides its rows, counted in rows
    slot_rows: float = 2.0  # and what every sequence in it costs besides its rows
    least_rows: int = 2  # rows a sequence takes part with: on CPU two or more round alike, one does not
    row_multiple: int = 1  # rows of a step come in multiples of this, where kernels round the remainder differently
    exact: bool = True  # measured: an answer does not depend on what else runs

    def with_values(self, text: str) -> "EngineSettings":
        """These settings with `name=value,name=value` applied. Raises UsageError."""
        kinds = {f.name: type(getattr(self, f.name)) for f in fields(self)}
        values: dict[str, Any] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, _, value = part.partition("=")
            name = name.strip().replace("-", "_")
            if name not in kinds:
                raise UsageError(f"The engine has no setting {name!r}.", f"It has: {', '.join(kinds)}, adapter.")
            values[name] = _read(name, value.strip(), kinds[name])
        return checked(replace(self, **values))

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON-ready values."""
        return asdict(self)


LEAVE = "Leave the choice to localrag (without --engine), or see what works here: localrag doctor"
LAYOUT = ("weights", "extra_buffers", "kv", "unified", "flash_attention", "gpu_layers", "cpu_experts")  # what native code depends on


def layout(s: EngineSettings) -> str:
    """What may work on one machine and not on another, as settings are written."""
    return ",".join(f"{name}={_written(getattr(s, name))}" for name in LAYOUT)


def sized(s: EngineSettings) -> str:
    """A layout with the size of its KV: what is tried before it is used."""
    return f"{layout(s)},slots={s.slots},context={s.context}"


def brief(name: str) -> str:
    """What is special about a layout as `layout` or `sized` wrote it."""
    usual = {"weights=own", "extra_buffers=yes", "unified=no", "flash_attention=no", "gpu_layers=0", "cpu_experts=0"}
    return ", ".join(part for part in name.split(",") if part not in usual)


def _written(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _silent(_text: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a user asks of the engine: settings by hand, to measure anew, answers that are functions of their requests alone."""

    values: str = ""
    remeasure: bool = False
    deterministic: bool = False
    say: Callable[[str], None] = _silent
    allowed_hosts: tuple[str, ...] = ()  # beyond this machine, for a model behind a server
    at_once: int = 0  # requests to each server at the same time; 0: as many as it tells
    adapter: bool = True  # let the bundled model that was taught to read look for short answers
    prefix_files: bool = True  # keep the KV of beginnings that prompts share as files; they hold the tokens of those beginnings

    @classmethod
    def of(cls, text: str, **others: Any) -> "EngineOptions":
        """The options for settings by hand as `--engine` takes them; `adapter` is none of the chat model's. Raises UsageError."""
        parts = [part.strip() for part in text.split(",")]
        own = [part for part in parts if part.partition("=")[0].strip() == "adapter"]
        values = ",".join(part for part in parts if part not in own)
        EngineSettings().with_values(values)  # a mistake is said before anything is opened
        return cls(values, adapter=all(_read("adapter", part.partition("=")[2].strip(), bool) for part in own), **others)


def checked(settings: EngineSettings) -> EngineSettings:
    """The settings, if llama.cpp can carry them out. Raises UsageError."""
    for name in ("threads", "slots", "least_rows", "row_multiple"):
        if getattr(settings, name) < 1:
            raise UsageError(f"Engine setting {name} must be at least 1, not {getattr(settings, name)}.", f"For example: --engine {name}=2")
    if settings.slots > 256:
        raise UsageError(f"Engine setting slots={settings.slots}: llama.cpp has at most 256 sequences.", "For example: --engine slots=16")
    if settings.context < 256:
        raise UsageError(
            f"Engine setting context={settings.context}: at least 256 tokens are needed.", "For example: --engine context=4096"
        )
    if settings.kv == "q8_0" and not settings.flash_attention:
        raise UsageError(
            "Engine setting kv=q8_0 keeps values in q8_0, which needs flash attention.", "Use kv=q8_0/f32, or add flash_attention=yes."
        )
    return settings


def _read(name: str, value: str, kind: type) -> Any:
    if kind is bool:
        if value.lower() not in {"yes", "no", "true", "false", "1", "0", "on", "off"}:
            raise UsageError(f"Engine setting {name} is yes or no, not {value!r}.", f"For example: --engine {name}=yes")
        return value.lower() in {"yes", "true", "1", "on"}
    if known := {"kv": KV_TYPES, "weights": WEIGHTS}.get(name):
        if value not in known:
            raise UsageError(f"Engine setting {name} cannot be {value!r}.", f"It can be: {', '.join(known)}.")
        return value
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"Engine setting {name} is a number, not {value!r}.", f"For example: --engine {name}=4") from None
