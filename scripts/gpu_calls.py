"""The calls of an index run as lengths: recorded once on a CPU, replayed where a model's real weights are not at hand.

    python scripts/gpu_calls.py TEXT OUT.json --model MODEL.gguf --words 3000 --title "A Christmas Carol"

A recorded call has no text: its task, the tokens of its prompt and of its answer, and how many tokens of its beginning an earlier call has
as well, so that a replay shares prefixes as the run did. `stage` rises where the run waited for all earlier calls.
"""

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

NO_SOURCE = -1
MIN_SHARED_TOKENS = 8  # shorter beginnings are a chat template's own


@dataclass(frozen=True)
class Call:
    """A call of a run: `source` is the number of the earlier call whose prompt and answer begin with the same `shared_tokens`."""

    task: str
    stage: int
    prompt_tokens: int
    output_tokens: int
    source: int = NO_SOURCE
    shared_tokens: int = 0


@dataclass(frozen=True)
class Recording:
    """The calls of the index run of a text of so many words; `model` computed them."""

    text: str
    words: int
    model: str
    calls: tuple[Call, ...]


def read_recording(path: Path) -> Recording:
    """Read a recording. Raises ValueError."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Recording(values["text"], values["words"], values["model"], tuple(Call(**call) for call in values["calls"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a recording of calls: {error}") from error


def shared_beginning(tokens: Sequence[int], earlier: Sequence[Sequence[int]]) -> tuple[int, int]:
    """The number of the earlier sequence with the longest common beginning, and its length; the first of equal ones."""
    best, longest = NO_SOURCE, MIN_SHARED_TOKENS - 1
    for number, other in enumerate(earlier):
        n = min(len(tokens), len(other))
        different = np.flatnonzero(np.asarray(tokens[:n]) != np.asarray(other[:n]))
        length = int(different[0]) if len(different) else n
        if length > longest:
            best, longest = number, length
    return (best, longest) if best != NO_SOURCE else (NO_SOURCE, 0)


def replay_prompts(calls: Sequence[Call], vocabulary: int, seed: int) -> list[list[int]]:
    """Random token ids for every call, as long as its sequence was, with the recorded common beginnings; prompts are their first part.

    The beginning that later prompts share with one that has no source, such as examples in a prompt, is the same for every `seed`.
    """
    random, common = np.random.default_rng(seed), np.random.default_rng(1 << 30)
    sequences: list[list[int]] = []
    for number, call in enumerate(calls):
        if call.source == NO_SOURCE:
            shared = [c.shared_tokens for c in calls if c.source == number and c.shared_tokens < call.prompt_tokens]
            beginning = common.integers(0, vocabulary, max(shared, default=0)).tolist()
        else:
            beginning = sequences[call.source][: call.shared_tokens]
        length = max(0, call.prompt_tokens + call.output_tokens - len(beginning))
        sequences.append([*beginning, *random.integers(0, vocabulary, length).tolist()])
    return sequences


def record(text: str, title: str, model: str, engine: str, out: Path, *, reports: bool = True) -> None:
    """Index a text in a temporary folder, with the chat model as the extractor, and write the calls to a file, again after each."""
    from localrag import Index
    from localrag.engine.engine import Engine
    from localrag.engine.request import Generation, Request
    from localrag.engine.settings import EngineOptions

    sequences: list[tuple[int, ...]] = []
    calls: list[Call] = []
    running, stage, tasks = 0, 0, set[str]()
    generate = Engine.generate

    async def recorded(self: Engine, request: Request) -> Generation:
        nonlocal running, stage
        if request.task not in tasks and tasks and not running:
            stage += 1
        tasks.add(request.task)
        mine, running = stage, running + 1
        try:
            generation = await generate(self, request)
        finally:
            running -= 1
        source, shared = shared_beginning(request.token_ids, sequences)
        sequences.append(generation.token_ids)
        calls.append(Call(request.task, mine, len(request.token_ids), generation.output_tokens, source, shared))
        write_recording(out, Recording(title, len(text.split()), Path(model).name, tuple(calls)))
        print(f"{len(calls)}: {request.task}, {len(request.token_ids)} + {generation.output_tokens} tokens", flush=True)
        return generation

    Engine.generate = recorded  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            document = Path(folder) / "text.txt"
            document.write_text(text, encoding="utf-8")
            index = Index.open(Path(folder) / "index", model=model, engine=EngineOptions.of(engine, notify=print), missing_ok=True)
            with index.write_session(extractor="model"):
                index.add([document], write_reports=reports)
    finally:
        Engine.generate = generate  # type: ignore[method-assign]


def write_recording(out: Path, recording: Recording) -> None:
    """Write a recording, a call a line."""
    rows = ",\n  ".join(json.dumps(asdict(call)) for call in recording.calls)
    head = json.dumps({"text": recording.text, "words": recording.words, "model": recording.model}, ensure_ascii=False)
    out.write_text(f'{head[:-1]}, "calls": [\n  {rows}\n]}}\n', encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--words", type=int, default=0, help="only so many words of it")
    parser.add_argument("--title", default="")
    parser.add_argument("--engine", default="", help="settings by hand, as in localrag index --engine")
    parser.add_argument("--no-reports", action="store_true", help="leave written reports out: small models write none")
    args = parser.parse_args()
    words = args.text.read_text(encoding="utf-8").split(" ")
    text, total = "", 0
    for word in words:
        if args.words and total >= args.words:
            break
        text, total = f"{text}{word} ", total + len(word.split())
    record(text, args.title or args.text.stem, args.model, args.engine, args.out, reports=not args.no_reports)


if __name__ == "__main__":
    main()
