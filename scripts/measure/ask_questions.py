"""Ask the questions of a file, and write each answer as `localrag ask --json` prints it, a line each.

    python -m scripts.measure.ask_questions INDEX QUESTIONS.jsonl OUT.jsonl [--most N] [--model NAME]

A question has `id` and `question`. A line has also the first RETRIEVED passages that mode `mix` finds, as `retrieved`. Prints the median
time and the longest, in seconds, and how many questions were refused: of those that are `answerable` and of the others. Nothing is
stored in the index.
"""

import argparse
import asyncio
import json
from pathlib import Path
from statistics import median

from localrag.asking import answer_question
from localrag.cli.views.answers import answer_json
from localrag.project import open_for_query
from localrag.query.basic_search import retrieve_two_hop
from localrag.query.question import QueryOptions
from localrag.store import documents

RETRIEVED = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--most", type=int)
    parser.add_argument("--model", help="the chat model that answers; the index's own without it")
    args = parser.parse_args()
    questions = [json.loads(line) for line in args.questions.read_text(encoding="utf-8").splitlines()][: args.most]
    seconds, refused = [], {True: 0, False: 0}
    with open_for_query(args.index, model=args.model, logs=False) as project, args.out.open("w", encoding="utf-8") as out:
        paths = documents.document_paths(project.db)
        for n, question in enumerate(questions):
            answer = asyncio.run(answer_question(question["question"], project, QueryOptions()))
            seconds.append(answer.seconds)
            refused[bool(question.get("answerable", True))] += not answer.is_answerable
            print(f"{answer.seconds:5.1f} s  {question['question'][:80]}", flush=True)
            row = answer_json(answer, project.root) | {"id": question.get("id", n), "passages": [p.text for p in answer.passages]}
            vector = project.embedder.embed([question["question"]])[0]
            found = asyncio.run(retrieve_two_hop(question["question"], vector, project, RETRIEVED))
            row["retrieved"] = [{"path": paths[chunk.document_id], "text": chunk.text} for chunk in found]
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    counts = {True: sum(bool(q.get("answerable", True)) for q in questions)}
    counts[False] = len(questions) - counts[True]
    print(f"median {median(seconds):.2f} s, longest {max(seconds):.2f} s")
    print(f"refused: {refused[True]} of {counts[True]} answerable, {refused[False]} of {counts[False]} others")


if __name__ == "__main__":
    main()
