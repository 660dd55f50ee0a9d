"""Renders chat templates in a process of its own: they are somebody else's programs, which may run for ever or take all memory."""

import json
import signal
import threading
from functools import lru_cache
from typing import Any

from localrag.system.child_process import ChildProcess, ParentConnection, isolated_environment

RENDER_TIMEOUT_S = 10.0  # the first time with the start of the process
MAX_MEMORY_BYTES = 1 << 30  # of address space
MAX_OUTPUT_CHARS = 10_000_000
_child: ChildProcess | None = None
_lock = threading.Lock()
_endless: set[str] = set()  # templates that were stopped: a model is tried with several variables
_ENVIRONMENT_NAMES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def render_template(template: str, variables: dict[str, Any]) -> str:
    """What a template makes of some variables, in the process, which is started when first needed. Raises ValueError with the reason."""
    global _child  # noqa: PLW0603 - one process for all models
    with _lock:
        if template in _endless:
            raise ValueError(f"it takes longer than {RENDER_TIMEOUT_S:g} s")
        env = isolated_environment(_ENVIRONMENT_NAMES)
        _child = child = _child or ChildProcess("localrag.engine.llama.template_process", environment=env, isolated=True)
        try:
            child.send([template, variables], timeout=RENDER_TIMEOUT_S)
            text, reason = child.receive(RENDER_TIMEOUT_S)
        except BaseException as error:  # also an interrupt: the answer would be taken for that to the next request
            child.close()
            _child = None
            if isinstance(error, TimeoutError):
                _endless.add(template)
                raise ValueError(f"it takes longer than {RENDER_TIMEOUT_S:g} s") from error
            if isinstance(error, EOFError | OSError):
                raise ValueError("it ends its process") from error
            raise
    if reason:
        raise ValueError(reason)
    return str(text)


def reason_of(error: Exception) -> str:
    """The template's error in one line."""
    line = getattr(error, "lineno", None)
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return f"line {line}: {words}" if line else words


def main() -> None:
    """Render what the parent sends until it ends."""
    import resource

    from jinja2 import BaseLoader
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationTag(Extension):
        """The tag with which transformers marks answers: what it encloses stays."""

        tags = frozenset({"generation"})  # type: ignore[assignment]

        def parse(self, parser: Any) -> Any:
            parser.stream.skip(1)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    def refuse(message: str) -> None:
        raise ValueError(message)

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    # With the extensions and filters of transformers, with which templates are tested.
    environment = ImmutableSandboxedEnvironment(
        loader=BaseLoader(), trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    # No date: the current date in the prefix would invalidate cached answers every day.
    functions = {"raise_exception": refuse, "strftime_now": lambda _format: ""}
    compiled, parent = lru_cache(maxsize=4)(environment.from_string), ParentConnection()
    while True:
        try:
            template, variables = parent.receive()
        except EOFError:
            return
        signal.alarm(int(RENDER_TIMEOUT_S) + 1)  # the parent may be gone
        try:
            text = compiled(template).render(**variables, **functions)
            answer = ("", "it writes too much") if len(text) > MAX_OUTPUT_CHARS else (text, "")
        except Exception as error:  # noqa: BLE001 - it is somebody else's program
            answer = ("", reason_of(error))
        signal.alarm(0)
        parent.send(answer)


if __name__ == "__main__":
    main()
