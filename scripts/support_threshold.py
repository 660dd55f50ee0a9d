"""How often statements in other words than the text's are near enough to it (`verify.SUPPORT`), and pass the check of answers.

    python scripts/support_threshold.py FOLDER [--statements N]

FOLDER is GraphRAG-Bench: novels, and questions with gold evidence in other words than the novel's. Each statement of the evidence is
checked against the passages found for it in its own novel (it should be supported), and against those found for another statement on
the same novel (it should not). The threshold, which measures use, is chosen on half of the novels and tried on the others; what answers
use asks more: one sentence must say the same (`verify.supporting`).
"""

import argparse
import random
import re
import sys
from pathlib import Path

import numpy as np

from localrag.engine.embedder import open_embedder
from localrag.eval.datasets import load_qa_dataset
from localrag.model_files import find_embedder
from localrag.query.attribution import similarity_matrix, supporting_quotes
from localrag.records import Quote
from localrag.text.sentences import collapse_whitespace, sentences

PASSAGES, LENGTH = 5, 12  # of so many sentences each


def passages_of(text):
    found = [collapse_whitespace(text[s.start : s.end]) for s in sentences(text)]
    return [found[i : i + LENGTH] for i in range(0, len(found), LENGTH)]


def scores_of(gold, embed, statements, rng):
    """(own passages, those of another statement of the novel) for each statement: the best sentence's score, and whether it is said."""
    blocks = passages_of(gold.documents[0][1])
    matrix = embed([" ".join(b) for b in blocks])
    chosen = rng.sample(statements, min(len(statements), ARGS.statements))
    near = {s: np.argsort(-(matrix @ embed([s])[0]))[:PASSAGES] for s in chosen}

    def best(statement, of):
        texts = [t for i in near[of] for t in blocks[i] if re.search(r"\w", t)]
        said = bool(supporting_quotes(statement, [Quote("", 0, len(t), t) for i in near[of] for t in [" ".join(blocks[i])]]))
        return float(similarity_matrix([statement], texts, embed).max()), said

    others = dict(zip(chosen, chosen[7:] + chosen[:7], strict=True))
    return [(best(s, s), best(s, others[s])) for s in chosen]


def rates(rows, at):
    """(share of the right ones supported, share of the wrong ones) at a threshold."""
    return np.array([[score >= at for score, _ in row] for row in rows]).mean(axis=0)


def main():
    rng = random.Random(0)
    embed = open_embedder(find_embedder(None)).embed
    sets = load_qa_dataset(Path(ARGS.folder))
    found = {g.name: scores_of(g, embed, sorted({e for q in g.questions for e in q.evidence if isinstance(e, str)}), rng) for g in sets}
    names = sorted(found)
    tuned, held_out = names[::2], names[1::2]
    for title, of in (("tuned", tuned), ("held out", held_out)):
        rows = [r for n in of for r in found[n]]
        print(f"\n{title}: {', '.join(of)}, {len(rows)} statements")
        print("threshold  right supported  wrong supported  balanced")
        for at in np.arange(0.3, 0.75, 0.05):
            right, wrong = rates(rows, at)
            print(f"{at:9.2f}  {100 * right:15.1f}  {100 * wrong:15.1f}  {50 * (right + 1 - wrong):8.1f}")
        right, wrong = np.array([[said for _, said in row] for row in rows]).mean(axis=0)
        print(f"the check of answers keeps {100 * right:.1f} % of the right and {100 * wrong:.1f} % of the wrong ones")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--statements", type=int, default=60, help="of each novel")
    ARGS = parser.parse_args()
    sys.exit(main())
