"""Measures of answers that need no judge: the statements they make, how many different ones, and how far repeated answers agree.

The paper counts claims (section 4.1.4); here they are called statements, for a claim is something else in the graph.
"""

from collections.abc import Sequence

import numpy as np

from localrag.errors import LocalragError
from localrag.eval.answer_scores import plain, rouge
from localrag.eval.conditions import as_read
from localrag.eval.row_file import Row
from localrag.llm.grammar import short_lines
from localrag.llm.model import Model
from localrag.llm.prompts import load_prompt
from localrag.query.answering.verify import SUPPORT, support
from localrag.text.plain import chunk_sentences, squeeze
from localrag.text.quotes import Embed

THRESHOLDS = (0.5, 0.6, 0.7, 0.8)  # distances, one less ROUGE-L, up to which statements are one cluster
MOST, LONGEST, MAX_TOKENS = 40, 240, 2400


def sentences_of(answer: str) -> list[str]:
    """The different sentences of an answer, without titles and citations."""
    return list(dict.fromkeys(squeeze(part[a:b]) for part in [plain(answer)] for a, b in chunk_sentences(part)))


async def statements_of(answer: str, model: Model | None) -> list[str]:
    """The statements of an answer as a model splits them; without a model, its sentences. Raises what `Model.ask` raises."""
    sentences = sentences_of(answer)
    if model is None or not sentences:
        return sentences
    most = min(MOST, 4 * len(sentences))
    messages = load_prompt("eval/statements").fill(answer=as_read(answer))
    reply = await model.ask("statements", messages, max_tokens=MAX_TOKENS, grammar=short_lines(1, most, LONGEST))
    return reply.text.splitlines()


async def statements_row(row: Row, model: Model | None) -> Row:
    """The statements of a row's answer, how many there are, and their clusters at every threshold. A failure is a row with its error."""
    found: Row = {"question": row["question"], "condition": row["condition"], "by": model.file.name if model else "sentences"}
    try:
        said = await statements_of(row["answer"], model)
    except LocalragError as error:
        return found | {"error": str(error)}
    return found | {"statements": said, "clusters": {str(t): n for t, n in zip(THRESHOLDS, clusters(said), strict=True)}}


def clusters(statements: Sequence[str]) -> tuple[int, ...]:
    """How many groups of statements there are at each threshold: agglomerative, complete linkage, distance one less ROUGE-L's F."""
    if len(statements) < 2:
        return (len(statements),) * len(THRESHOLDS)
    from scipy.cluster.hierarchy import fcluster, linkage

    pairs = [(a, b) for n, a in enumerate(statements) for b in statements[n + 1 :]]
    tree = linkage(np.array([1 - rouge(a, [b])["R-L"] for a, b in pairs]), "complete")
    return tuple(int(fcluster(tree, t, "distance").max()) for t in THRESHOLDS)


def agreement(answer: str, others: Sequence[str], embed: Embed) -> float | None:
    """The share of an answer's sentences that answers drawn anew support, the mean over these (after SelfCheckGPT, Manakul et al. 2023).

    None where there is nothing to compare.
    """
    said = sentences_of(answer)
    texts = [found for other in others if (found := sentences_of(other))]
    if not said or not texts:
        return None
    return float(np.mean([(support(said, text, embed).max(axis=1) >= SUPPORT).mean() for text in texts]))
