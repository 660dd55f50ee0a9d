"""How good the reader's short answers are, and how often the gold answer stands in the first sentences shown with and without it.

    python -m scripts.short_answers DATA CACHE [--set xquad_en] [--most 100]

The questions are of the fifth that is kept from training. DATA and CACHE are those of scripts/rank_sentences.py, whose indexes are
used. One line for each question goes to CACHE/short_answers.jsonl.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from localrag.eval.metrics import exact_match, is_quoted, word_f1
from localrag.project import Project, open_for_query
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.extractive import SURE, read
from localrag.query.question import Question
from localrag.query.retriever import names_in
from localrag.query.sentence_ranking import chunk_quotes, drop_repetitions, rank_quotes, score_candidates
from scripts.rank_sentences import load

SETS = ("xquad_en", "xquad_zh", "hotpot_dev100", "musique_dev100", "zh_cmrc_trial")


async def asked(project: Project, text: str, answers: list[str]) -> dict[str, Any]:
    """The short answer to a question with its scores, and whether gold stands in the first sentence and in the first three."""
    question = Question(text, project.embedder.embed([text])[0], "extractive")
    passages = retrieve_two_hop(text, question.vector, project, 10)
    weight = {c.id: score for c, score in passages}
    found = score_candidates(text, chunk_quotes([c for c, _ in passages], text), names_in(text, project), weight)
    order = list(drop_repetitions(rank_quotes(text, question.vector, found, project, weight), found.texts))
    started = time.perf_counter()
    short = await read(question, found, order, project)
    seconds = time.perf_counter() - started
    own = [found.texts[n] for n in order]
    moved = [found.texts[short.sentence], *(found.texts[n] for n in order if n != short.sentence)] if short else own
    row = {"question": text, "answers": answers, "short": short.text if short else "", "p": short.log_probability if short else -99.0}
    row |= {f"rank{k}": is_quoted(own[:k], answers) for k in (1, 3)} | {f"read{k}": is_quoted(moved[:k], answers) for k in (1, 3)}
    return row | {"EM": exact_match(row["short"], answers), "F1": word_f1(row["short"], answers), "seconds": seconds}


def table(name: str, rows: list[dict[str, Any]]) -> str:
    """The set's scores, an answer below SURE counting as none; sentences in that case as they rank."""
    sure = [r["p"] >= SURE for r in rows]
    parts = [f"{name}: {len(rows)} questions, {np.mean(sure):.0%} with a short answer"]
    parts += [f"{k} {100 * np.mean([r[k] * s for r, s in zip(rows, sure, strict=True)]):.1f}" for k in ("EM", "F1")]
    for k in (1, 3):
        known = [(r, s) for r, s in zip(rows, sure, strict=True) if r[f"rank{k}"] is not None]
        ranked_, read_ = np.mean([r[f"rank{k}"] for r, _ in known]), np.mean([r[f"read{k}" if s else f"rank{k}"] for r, s in known])
        parts.append(f"gold in the first {k}: ranked {100 * ranked_:.1f}, read {100 * read_:.1f}")
    return ", ".join([*parts, f"{np.median([r['seconds'] for r in rows]):.2f} s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--most", type=int, default=100)
    args = parser.parse_args()
    with (args.cache / "short_answers.jsonl").open("w", encoding="utf-8") as out:
        for name in args.set or SETS:
            questions = [q for q in load(args.data, name)[1] if q[2]][: args.most]
            with open_for_query(args.cache / name / ".localrag") as project:
                rows = [asyncio.run(asked(project, text, answers)) for text, answers, _ in questions]
            for row in rows:
                out.write(json.dumps({"set": name} | row, ensure_ascii=False) + "\n")
            print(table(name, rows), flush=True)


if __name__ == "__main__":
    main()
