"""What the judge, and the score of support, say of labelled pairs, for a scorer of other people's benchmarks.

    python -m scripts.measure.judge GOLD OUT [--score]

GOLD has files of lines {"id", "set", "claim", "evidence" or "sentences"}. OUT gets {"id", "score", "label"} a line: the judge's probability
that the evidence entails the claim, the mean log odds of its views (`localrag.query.support_score`), and which of three classes is
likeliest; with --score, the score of support in place of the judge's.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from localrag.engine.embedder import open_embedder
from localrag.llm.reader import PassageReader
from localrag.model_files import find_embedder
from localrag.query.attribution import SentenceVectors, supporting_quotes
from localrag.query.support_score import SupportScorer, load_weights, log_odds
from localrag.records import Quote
from localrag.text.language import detect_language
from localrag.text.sentences import collapse_whitespace

CLASSES = ("entailment", "contradiction", "neutral")


def judged(row: dict[str, Any], scorer: SupportScorer, reader: PassageReader, *, whole: bool) -> dict[str, Any]:
    claim, evidence = collapse_whitespace(row["claim"]), row.get("evidence") or "\n".join(row["sentences"])
    passage = Quote("", 0, len(evidence), evidence)
    views = scorer.views(claim, [passage]) or ("", "")
    found = reader.entailments([(view, claim) for view in dict.fromkeys(views)])
    score = float(np.mean([log_odds(e.entailed) for e in found]))
    if whole:
        is_proved = bool(supporting_quotes(claim, [passage]))
        score = scorer.estimate(claim, [passage], is_proved=is_proved, language=detect_language(claim)) or score
    label = CLASSES[int(np.argmax(np.mean(found, axis=0)))]
    return {"id": row["id"], "score": round(float(1 / (1 + np.exp(-score))), 4), "label": label}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gold", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--score", action="store_true", help="the score of support")
    args = parser.parse_args()
    reader = PassageReader()
    scorer = SupportScorer(SentenceVectors(open_embedder(find_embedder()).embed).cosines, reader, load_weights())
    with args.out.open("w", encoding="utf-8") as out:
        for path in sorted(args.gold.glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                out.write(json.dumps(judged(json.loads(line), scorer, reader, whole=args.score)) + "\n")


if __name__ == "__main__":
    main()
