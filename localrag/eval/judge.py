"""Which of two answers is better: a model's verdicts by the paper's four criteria, in both orders (paper, section 4.1.3)."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from localrag.engine.sampler import GREEDY, Sampling
from localrag.errors import LocalragError
from localrag.eval.activities import Asked
from localrag.eval.bundled_judge import NAME, Prefers, choice
from localrag.eval.conditions import as_read
from localrag.eval.row_file import Row
from localrag.llm.grammar import json_object, object_schema
from localrag.llm.model import Model, in_window
from localrag.llm.prompts import load_prompt

CRITERIA = {
    "comprehensiveness": "which answer covers more of the aspects of the question, in more detail?",
    "diversity": "which answer is richer in different perspectives and insights?",
    "empowerment": "which answer does more to help the reader understand the matter and judge it well?",
    "directness": "which answer says more plainly and specifically what was asked?",
}
REASON, MAX_TOKENS = 200, 260  # characters of a reason, and tokens that hold a verdict in any script
TOGETHER = 64  # verdicts under way


@dataclass(frozen=True, slots=True)
class Pairing:
    """One verdict to be given: conditions `first` and `second`, whose answers are shown in that order."""

    question: Asked
    first: str
    second: str
    criterion: str
    repeat: int

    def key(self, judge: str) -> tuple[str | int, ...]:
        """What identifies the verdict among rows."""
        return (self.question.id, self.first, self.second, self.criterion, self.repeat, judge)


def key_of(row: Row) -> tuple[str | int, ...]:
    """The key of a row of verdicts."""
    return tuple(row[name] for name in ("question", "first", "second", "criterion", "repeat", "judge"))


def pairings(question: Asked, names: Sequence[str], repeats: int) -> Iterator[Pairing]:
    """Every two conditions in both orders by every criterion, `repeats` times; prompts that share most of their text stand together."""
    for first in names:
        for second in (n for n in names if n != first):
            for repeat in range(repeats):
                for criterion in CRITERIA:
                    yield Pairing(question, first, second, criterion, repeat)


async def give_verdicts(wanted: Sequence[Pairing], answers: dict[str, str], judge: Model | Prefers, keep: Callable[[Row], None]) -> None:
    """Hand `keep` a row for every pairing as it is known; `answers` are those to its question by condition.

    A failure is a row with its error.
    """

    async def one(pairing: Pairing) -> None:
        keep(await _verdict(pairing, answers, judge))

    await in_window((one(p) for p in wanted), TOGETHER)


def name_of(judge: Model | Prefers) -> str:
    """How rows name a judge."""
    return judge.file.name if isinstance(judge, Model) else NAME


async def _verdict(pairing: Pairing, answers: dict[str, str], judge: Model | Prefers) -> Row:
    names = ("question", "first", "second", "criterion", "repeat", "judge")
    row: Row = dict(zip(names, pairing.key(name_of(judge)), strict=True))
    first, second = as_read(answers[pairing.first]), as_read(answers[pairing.second])
    if first == second:
        return row | {"winner": "tie", "reason": "The answers are the same.", "same": True}
    places = {"1": pairing.first, "2": pairing.second, "tie": "tie"}
    if not isinstance(judge, Model):
        p = judge(pairing.question.text, first, second, pairing.criterion)
        return row | {"winner": places[choice(p)], "reason": f"The first is better with a probability of {p:.2f}."}
    criterion = f"{pairing.criterion}: {CRITERIA[pairing.criterion]}"
    messages = load_prompt("eval/judge").fill(question=pairing.question.text, first=first, second=second, criterion=criterion)
    sampling = Sampling(temperature=0.7, seed=pairing.repeat) if pairing.repeat else GREEDY
    try:
        reply = await judge.ask("judge", messages, max_tokens=MAX_TOKENS, grammar=json_object(_SCHEMA), sampling=sampling)
    except LocalragError as error:
        return row | {"error": str(error)}
    said = json.loads(reply.text)
    return row | {"winner": places[said["winner"]], "reason": said["reason"]}


_SCHEMA = object_schema(reason={"type": "string", "minLength": 10, "maxLength": REASON}, winner={"enum": ["1", "2", "tie"]})
