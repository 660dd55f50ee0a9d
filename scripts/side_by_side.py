"""localrag, nano-graphrag, LightRAG and Microsoft GraphRAG on the same text, questions, chat model and embedder, side by side.

    python -m scripts.metered_server MODEL.gguf 8123 --log OUT/calls.jsonl      # in one terminal
    python scripts/side_by_side.py vocabulary MODEL.gguf --out OUT
    python scripts/side_by_side.py TOOL --text FILE --out OUT                   # for each tool, in the environment that has it
    python scripts/side_by_side.py hide --out OUT                               # then write a verdict on each pair into OUT/verdicts.jsonl
    python scripts/side_by_side.py table --out OUT

TOOL is nano, lightrag, graphrag, localrag, or localrag-model, which leaves extraction to the chat model (`--extractor model`). Each tool
has its own defaults, but for the window of this model where its own would not fit. No named encoding of tiktoken can be fetched offline,
so the model's own vocabulary stands in for it.

`hide` writes OUT/pairs.md: for each question the answers of localrag and of each peer as A and B, without citations and states, in a
random order that OUT/key.json keeps. A verdict is {"pair": N, "better": "A" | "B" | "equal"}; a second pass writes OUT/verdicts2.jsonl.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERVER = "http://127.0.0.1:8123"
MODEL = "qwen"
GLOBAL_QUESTIONS = (
    "What are the main themes of this story?",
    "How do the relationships within the team change as the mission goes on?",
    "How does the story contrast protocol with adaptability?",
    "What role does trust play among the agents?",
    "What does the team fear or expect to find at Dulce?",
    "How is Taylor Cruz portrayed as a leader?",
    "How does Alex Mercer change over the story?",
    "What signs are there that something unusual is happening at the base?",
    "What different attitudes towards the unknown do the characters have?",
    "Summarize the story in one paragraph.",
)
LOCAL_QUESTIONS = (
    "Who are the four agents that enter the base?",
    "What did Jordan Hayes say about the panel in the corridor?",
    "How was the drone dealt with?",
    "How often does Cruz order comms checks?",
    "What did Sam Rivera say about the signal patterns?",
    "What does Jordan say about the unknown variables?",
    "What joke does Sam make in the elevator?",
    "What equipment does Taylor Cruz check in the equipment bay?",
    "What did the crew find when they reached the mainframe room?",
    "Where did the alien circuitry that Jordan studied come from?",
)
COSTS = ("calls", "prompt_tokens", "output_tokens", "seconds", "wall")
QUESTIONS = [(q, "global") for q in GLOBAL_QUESTIONS] + [(q, "local") for q in LOCAL_QUESTIONS]


def call(path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request to the metered server."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(SERVER + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        value: dict[str, Any] = json.load(answer)
        return value


def write_vocabulary(model: str, out: Path) -> None:
    """The byte-level vocabulary of a model, as tiktoken wants it."""
    import gguf

    field = gguf.GGUFReader(model).fields
    tokens, kinds = field["tokenizer.ggml.tokens"].contents(), field["tokenizer.ggml.token_type"].contents()
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in visible)}
    ranks = [base64.b64encode(bytes(letters[c] for c in token)).decode() for token, kind in zip(tokens, kinds, strict=True) if kind == 1]
    (out / "vocabulary.json").write_text(json.dumps(ranks))


def use_vocabulary(out: Path) -> Any:
    """Make tiktoken return the model's encoding, whichever is asked for."""
    import tiktoken

    ranks = {base64.b64decode(token): n for n, token in enumerate(json.loads((out / "vocabulary.json").read_text()))}
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    encoding = tiktoken.Encoding(MODEL, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *_: encoding
    return encoding


async def chat(prompt: str, system_prompt: str | None = None, history_messages: Any = (), **wanted: Any) -> str:
    """One answer of the chat model."""
    system = [{"role": "system", "content": system_prompt}] if system_prompt else []
    messages = [*system, *(history_messages or ()), {"role": "user", "content": prompt}]
    form = {k: wanted[k] for k in ("response_format", "max_tokens") if wanted.get(k)}
    answer = await asyncio.to_thread(call, "/v1/chat/completions", {"model": MODEL, "messages": messages} | form)
    text: str = answer["choices"][0]["message"]["content"]
    return text


async def embed(texts: list[str], **_: Any) -> Any:
    """Vectors of texts, (texts, 384)."""
    import numpy as np

    answer = await asyncio.to_thread(call, "/v1/embeddings", {"input": list(texts)})
    return np.array([row["embedding"] for row in answer["data"]], np.float32)


class Progress:
    """Writes what each step of a tool took, and each answer, to a file."""

    def __init__(self, tool: str, out: Path) -> None:
        self._file = out / f"{tool}.jsonl"
        self._file.write_text("")
        self._at, self._spent = time.perf_counter(), call("/spent")

    def done(self, step: dict[str, Any]) -> None:
        """Note the end of a step."""
        now, spent = time.perf_counter(), call("/spent")
        cost = {k: round(v - self._spent[k], 1) for k, v in spent.items()} | {"wall": round(now - self._at, 1)}
        self._at, self._spent = now, spent
        with self._file.open("a") as f:
            f.write(json.dumps(step | cost, ensure_ascii=False) + "\n")
        print(step.get("question", step), cost, flush=True)


def run_nano(text: str, work: Path, progress: Progress) -> None:
    """nano-graphrag: its own modes `global` and `local`."""
    from nano_graphrag import GraphRAG, QueryParam
    from nano_graphrag._utils import EmbeddingFunc

    wanted = {"best_model_max_async": 2, "cheap_model_max_async": 2, "best_model_max_token_size": 8192, "cheap_model_max_token_size": 8192}
    embedding = EmbeddingFunc(embedding_dim=384, max_token_size=8192, func=embed)
    rag = GraphRAG(working_dir=str(work), best_model_func=chat, cheap_model_func=chat, embedding_func=embedding, **wanted)
    asyncio.run(rag.ainsert(text))
    progress.done({"step": "index"})
    for question, kind in QUESTIONS:
        answer = asyncio.run(rag.aquery(question, QueryParam(mode=kind, local_max_token_for_text_unit=3000)))
        progress.done({"question": question, "answer": answer})


def run_lightrag(text: str, work: Path, progress: Progress) -> None:
    """LightRAG in its default mode, which its makers advise for every question."""
    from lightrag import LightRAG, QueryParam
    from lightrag.utils import EmbeddingFunc

    async def run() -> None:
        embedding = EmbeddingFunc(embedding_dim=384, max_token_size=8192, func=embed)
        rag = LightRAG(working_dir=str(work), llm_model_func=chat, llm_model_name=MODEL, embedding_func=embedding, llm_model_max_async=2)
        await rag.initialize_storages()
        await rag.ainsert(text)
        progress.done({"step": "index"})
        for question, _ in QUESTIONS:
            param = QueryParam(mode="mix", max_total_tokens=8000, max_entity_tokens=2000, max_relation_tokens=2500, enable_rerank=False)
            progress.done({"question": question, "answer": str(await rag.aquery(question, param))})
        await rag.finalize_storages()

    asyncio.run(run())


def run_graphrag(text: str, work: Path, progress: Progress) -> None:
    """Microsoft GraphRAG: its own modes `global` and `local`, with windows of 8,000 tokens; in this process, for the vocabulary."""
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "GRAPHRAG_API_KEY": "none"}
    from graphrag.cli.index import index_cli
    from graphrag.cli.initialize import initialize_project_at
    from graphrag.cli.query import run_global_search, run_local_search
    from graphrag.config.enums import IndexingMethod

    initialize_project_at(work, force=True, model=MODEL, embedding_model="minilm")
    (work / "input").mkdir(exist_ok=True)
    (work / "input" / "text.txt").write_text(text)
    settings = (work / "settings.yaml").read_text()
    for old, new in (
        ("    auth_method: api_key", f"    api_base: {SERVER}/v1\n    auth_method: api_key"),
        ("  type: lancedb", "  type: lancedb\n  vector_size: 384"),
        ('_search_system_prompt.txt"', '_search_system_prompt.txt"\n  max_context_tokens: 8000'),
        ("  map_prompt:", "  max_context_tokens: 8000\n  data_max_tokens: 8000\n  map_prompt:"),
    ):
        settings = settings.replace(old, new)
    (work / "settings.yaml").write_text(f"concurrent_requests: 2\n{settings}")
    (work / ".env").write_text("GRAPHRAG_API_KEY=none\n")
    with contextlib.suppress(SystemExit):
        index_cli(work, IndexingMethod.Standard, verbose=False, cache=True, dry_run=False, skip_validation=False)
    progress.done({"step": "index"})
    for question, kind in QUESTIONS:
        try:
            if kind == "global":
                answer, _ = run_global_search(None, work, 2, False, "Multiple Paragraphs", False, question, False)
            else:
                answer, _ = run_local_search(None, work, 2, "Multiple Paragraphs", False, question, False)
        except Exception as error:  # noqa: BLE001 — a question that fails is an answer of this tool
            answer = f"{type(error).__name__}: {error}"
        progress.done({"question": question, "answer": str(answer)})


def run_localrag(text: str, work: Path, progress: Progress, extractor: str = "auto") -> None:
    """localrag in its default mode, `auto`."""
    (work / "docs").mkdir(parents=True)
    (work / "docs" / "text.md").write_text(text)
    tool = [sys.executable, "-m", "localrag"]
    subprocess.run([*tool, "index", "docs", "--model", SERVER, "--extractor", extractor], cwd=work, check=True)
    progress.done({"step": "index"})
    for question, _ in QUESTIONS:
        asked = subprocess.run(
            [*tool, "ask", question, "--model", SERVER, "--json", "--yes"], cwd=work, capture_output=True, text=True, check=False
        )
        answer = json.loads(asked.stdout)["answer"] if asked.returncode == 0 else asked.stderr[-300:]
        progress.done({"question": question, "answer": answer})


def run_localrag_model(text: str, work: Path, progress: Progress) -> None:
    """localrag with extraction by the chat model."""
    run_localrag(text, work, progress, "model")


TOOLS: dict[str, Callable[[str, Path, Progress], None]] = {
    "nano": run_nano,
    "lightrag": run_lightrag,
    "graphrag": run_graphrag,
    "localrag": run_localrag,
    "localrag-model": run_localrag_model,
}


def answers_of(tool: str, out: Path) -> dict[str, str]:
    """The answers of a tool by question; empty if it has not run."""
    file = out / f"{tool}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {row["question"]: row["answer"] for row in rows if "question" in row}


_MARKS = re.compile(r"\s*(?:≠ “[^”]*” )?\[(?:\d+|related|contradicted|unsupported|Data: [^\]]*)\]")


def hide(out: Path) -> None:
    """Write each pair of answers without the names of the tools, shuffled."""
    rng = random.Random(out.name)
    mine = answers_of("localrag", out)
    pairs = [(q, peer, theirs) for peer in TOOLS if not peer.startswith("localrag") for q, theirs in answers_of(peer, out).items()]
    rng.shuffle(pairs)
    key, lines = [], []
    for n, (question, peer, theirs) in enumerate(pairs, 1):
        is_first = rng.random() < 0.5
        a, b = (_MARKS.sub("", text) for text in ((mine[question], theirs) if is_first else (theirs, mine[question])))
        key.append({"pair": n, "question": question, "peer": peer, "localrag": "A" if is_first else "B"})
        lines.append(f"# {n}. {question}\n\n## A\n\n{a}\n\n## B\n\n{b}\n")
    (out / "pairs.md").write_text("\n".join(lines))
    (out / "key.json").write_text(json.dumps(key))


def table(out: Path) -> None:
    """Print costs of every tool, and how often localrag's answer was better, equal and worse, in each pass."""
    for tool in TOOLS:
        file = out / f"{tool}.jsonl"
        if file.exists():
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            for name, part in (("index", rows[:1]), ("20 questions", rows[1:])):
                print(
                    tool, name, {k: round(sum(r[k] for r in part)) for k in ("calls", "prompt_tokens", "output_tokens", "seconds", "wall")}
                )
    key = {row["pair"]: row for row in json.loads((out / "key.json").read_text())}
    passes = [{v["pair"]: v["better"] for v in map(json.loads, p.read_text().splitlines())} for p in sorted(out.glob("verdicts*.jsonl"))]
    kinds = dict(QUESTIONS)
    for number, verdicts in enumerate(passes, 1):
        for peer in sorted({row["peer"] for row in key.values()}):
            for kind in ("global", "local"):
                judged = [
                    (key[n], better) for n, better in verdicts.items() if key[n]["peer"] == peer and kinds[key[n]["question"]] == kind
                ]
                won = sum(better == row["localrag"] for row, better in judged)
                equal = sum(better == "equal" for _, better in judged)
                print(f"pass {number}: against {peer}, {kind}: better {won}, equal {equal}, worse {len(judged) - won - equal}")
    if len(passes) > 1:
        both = set(passes[0]) & set(passes[1])
        print(f"the passes agree on {sum(passes[0][n] == passes[1][n] for n in both)} of {len(both)}")


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["vocabulary", *TOOLS, "hide", "table"])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.step == "vocabulary":
        write_vocabulary(args.model, args.out)
    elif args.step in TOOLS:
        if not args.step.startswith("localrag"):
            use_vocabulary(args.out)
        work = args.out / f"{args.step}.work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        TOOLS[args.step](args.text.read_text(), work, Progress(args.step, args.out))
    else:
        {"hide": hide, "table": table}[args.step](args.out)


if __name__ == "__main__":
    main()
