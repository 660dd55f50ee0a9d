"""Measures the cells of reviews on labelled contracts, ContractNLI (Koreeda and Manning 2021), or policies, PolicyQA (Ahmad et al. 2020).

    python -m scripts.measure.review contract-nli/test.json --documents 12 --seed 1 [--model MODEL]
    python -m scripts.measure.review policyqa.jsonl

Each of the 17 hypotheses of ContractNLI is put to each contract as a question of yes or no. Printed are how often the quote is one of the
labelled sentences, how often "not stated" is right, and how often "Yes" and "No" are. The reader was not trained on the test part.

The 20 questions of PolicyQA that are answered for most policies are put to each policy, as far as its labelled paragraphs give it. Printed
is how often a quote holds a labelled answer, or most of the words of the shorter one, of those cells for which there is one.
"""

import argparse
import json
import random
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from localrag.analysis.written_cells import MODEL_ALONE
from localrag.index import Index

QUESTIONS = {
    "nda-11": "Is the receiving party forbidden to reverse engineer objects that embody the disclosing party's confidential information?",
    "nda-16": "Must the receiving party destroy or return confidential information when the agreement ends?",
    "nda-15": "Does the agreement grant the receiving party no right to confidential information?",
    "nda-10": "Is the receiving party forbidden to disclose that the agreement exists or is being negotiated?",
    "nda-2": "Is confidential information only technical information?",
    "nda-1": "Must all confidential information be expressly identified by the disclosing party?",
    "nda-19": "Do some obligations survive the end of the agreement?",
    "nda-12": "May the receiving party independently develop information similar to confidential information?",
    "nda-20": "May the receiving party retain some confidential information after returning or destroying it?",
    "nda-3": "Does confidential information include information that was conveyed orally?",
    "nda-18": "Is the receiving party forbidden to solicit the disclosing party's employees?",
    "nda-7": "May the receiving party share confidential information with consultants, agents or professional advisors?",
    "nda-17": "May the receiving party make copies of confidential information?",
    "nda-8": "Must the receiving party notify the disclosing party if it is required by law to disclose confidential information?",
    "nda-13": "May the receiving party acquire similar information from a third party?",
    "nda-5": "May the receiving party share confidential information with its employees?",
    "nda-4": "Is the use of confidential information limited to the purposes stated in the agreement?",
}
POLICY_QUESTIONS = 20
MIN_QUOTE_CHARS, MIN_SHARED_WORDS = 20, 0.6  # of a quote; of the shorter of a quote and an answer
ANSWERS = {"Entailment": "Yes", "Contradiction": "No", "NotMentioned": ""}


def share(part, whole):
    return f"{part} of {whole}" + f" ({part / whole:.0%})" * bool(whole)


def read_table(texts, questions, model=None):
    """The table of a review of these texts, by file name, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with Index.create(folder, extractor="phrases") as index:
            index.add(folder)
        with Index.open(folder, model=model) as index:
            started = time.perf_counter()
            return index.review(questions), time.perf_counter() - started


def measure_policies(path, model):
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    paragraphs, answers, asked = defaultdict(dict), defaultdict(list), defaultdict(set)
    for row in rows:
        name = f"{row['title']}.txt"
        paragraphs[name][row["context"]] = None
        answers[name, row["question"]] += row["answers"]
        asked[row["question"]].add(name)
    questions = sorted(asked, key=lambda q: (-len(asked[q]), q))[:POLICY_QUESTIONS]
    table, seconds = read_table({name: "\n\n".join(texts) for name, texts in paragraphs.items()}, questions, model)
    counts = Counter()
    for row in table.rows:
        for question, cell in zip(questions, row.cells[1:], strict=True):
            if wanted := answers.get((row.key, question)):
                counts["asked"] += 1
                counts["found"] += cell.state != "not stated"
                counts["quoted"] += any(is_same_text(c.quote, answer) for c in cell.citations for answer in wanted)
    print(f"{len(questions) * len(paragraphs)} cells in {seconds:.0f} s, {counts['asked']} with a labelled answer")
    print("found of those:", share(counts["found"], counts["asked"]))
    print("quote holds a labelled answer:", share(counts["quoted"], counts["found"]))


def is_same_text(quote, answer):
    shorter, longer = sorted((set(quote.casefold().split()), set(answer.casefold().split())), key=len)
    return len(quote) >= MIN_QUOTE_CHARS and len(shorter & longer) >= MIN_SHARED_WORDS * len(shorter)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", type=Path)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", help="a chat model that writes the cells")
    args = parser.parse_args()
    if args.labelled.suffix == ".jsonl":
        measure_policies(args.labelled, args.model)
    else:
        measure_contracts(args)


def measure_contracts(args):
    documents = random.Random(args.seed).sample(json.loads(args.labelled.read_text(encoding="utf-8"))["documents"], args.documents)
    labels = {f"{d['id']}.txt": (d["annotation_sets"][0]["annotations"], d["spans"]) for d in documents}
    counts = Counter()
    texts = {f"{d['id']}.txt": d["text"] for d in documents}
    table, seconds = read_table(texts, [f"yes/no: {q}" for q in QUESTIONS.values()], args.model)
    for row in table.rows:
        annotations, spans = labels[row.key]
        for key, cell in zip(QUESTIONS, row.cells[1:], strict=True):
            choice = annotations[key]["choice"]
            gold = [spans[i] for i in annotations[key]["spans"]]
            stated, is_found = choice != "NotMentioned", cell.state != "not stated"
            counts["cells"] += 1
            counts["stated"] += stated
            counts["found"] += is_found
            counts["found and stated"] += stated and is_found
            counts["quoted"] += is_found and any(a < c.end and c.start < b for c in cell.citations for a, b in gold)
            if cell.text in ("Yes", "No"):
                kind = "By the chat model alone" if cell.note == MODEL_ALONE else cell.text
                counts[kind] += 1
                counts[f"{kind} right"] += cell.text == ANSWERS[choice]
    print(f"{counts['cells']} cells in {seconds:.0f} s, {counts['stated']} stated")
    print("found of those stated:", share(counts["found and stated"], counts["stated"]))
    silent, rest = counts["cells"] - counts["found"], counts["stated"] - counts["found and stated"]
    print("not stated, and right:", share(silent - rest, silent))
    print("quote is a labelled sentence:", share(counts["quoted"], counts["found and stated"]))
    for answer in ("Yes", "No", *["By the chat model alone"] * bool(args.model)):
        print(f"{answer}, and right:", share(counts[f"{answer} right"], counts[answer]))


if __name__ == "__main__":
    main()
