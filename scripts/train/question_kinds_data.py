"""The labelled questions that the head of question kinds learns from: written for this project, and taken from public sets.

A set that no folder holds is left out, which is said. Labels of public sets follow from what a set is (yes/no questions), its own classes,
the form of a templated question, or the length of its answer.
"""

import csv
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localrag.query.question_kind import QuestionKind, WholeForm
from localrag.text.language import FUNCTION_WORDS_BY_LANGUAGE
from localrag.text.sentences import is_cjk

WRITTEN = Path(__file__).with_name("question_kinds.txt")
FOLLOW_UPS = Path(__file__).with_name("follow_ups.txt")  # last lines of conversations, about the answer or the documents
PARTICULAR = "particular"  # of a question that is not global, and nothing more is known
KIND_LABELS = frozenset({kind.value for kind in QuestionKind} | {PARTICULAR})
MAX_FACT_WORDS, MAX_FACT_CHARS = 6, 12  # of a short answer; characters of a Chinese one
WRITTEN_WEIGHT = 24.0  # of a question written for this project, beside 1 of a public one
ALL_WEIGHT = 2.0  # of a question about everything, beside 1 of one of another form: few words such as "summary" must do
COLLECTION_QUESTIONS = Path(__file__).with_name("collection_questions.txt")  # about the files themselves, and others that resemble them
LEANING = ("how come?", "Go on.", "and after that?", "Which one?", "wieso?", "¿y luego?", "et ensuite ?", "为何？", "然后呢？")
TYPO_SHARE = 0.08  # of letters
_NO_FACT = re.compile(
    r"\b(?:why|how (?!many|much|long|old|far|often|big|large|tall|high|deep|fast|late))|为什么|为何|怎么|如何|怎样", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """A question, its kind or `PARTICULAR`, the set that it is from, how much it weighs, and its form if it is global and written."""

    text: str
    label: str
    source: str
    weight: float = 1.0
    form: str = ""


def written_questions(path: Path = WRITTEN) -> Iterator[LabelledQuestion]:
    """The questions written for this project, below `== KIND LANGUAGE`, or `== global LANGUAGE FORM`."""
    label = form = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            label, _, form = [*line.split()[1:], WholeForm.ALL.value][:3]
        elif line and not line.startswith("#"):
            found = form if label == QuestionKind.GLOBAL else ""
            weight = WRITTEN_WEIGHT * (ALL_WEIGHT if found == WholeForm.ALL else 1)
            yield LabelledQuestion(line, label, "written", weight, found)


def noise_questions(rng: random.Random) -> Iterator[LabelledQuestion]:
    """What asks for nothing, and so for nothing global: function words by chance, letters, names, and words that lean on a conversation."""
    for words in FUNCTION_WORDS_BY_LANGUAGE.values():
        for n in range(12):
            yield LabelledQuestion(" ".join(rng.sample(words.split(), 1 + n % 5)), PARTICULAR, "noise", WRITTEN_WEIGHT)
    for letter in "abcdehklmnopstwz":
        yield LabelledQuestion(letter * rng.randint(1, 300), PARTICULAR, "noise", WRITTEN_WEIGHT)
    for text in (*"Olav Mira Karl Anna Berlin Oslo Lund 小红 李四 Иван".split(), *LEANING):
        yield LabelledQuestion(text, PARTICULAR, "noise", WRITTEN_WEIGHT)


def varied(question: LabelledQuestion, rng: random.Random) -> Iterator[LabelledQuestion]:
    """The question as it is, in lower case without its signs, and with typing errors; the variants weigh half."""
    yield question
    bare = question.text.lower().strip(" ?？.。!¿¡")
    variants = [bare] if is_cjk(bare) else [bare, with_typos(bare, rng)]
    for text in dict.fromkeys(variants):
        if text != question.text:
            yield replace(question, text=text, weight=question.weight / 2)


def with_typos(text: str, rng: random.Random) -> str:
    """The text with some letters exchanged, dropped or doubled."""
    letters = list(text)
    for n in range(len(letters) - 1):
        if letters[n].isalpha() and rng.random() < TYPO_SHARE:
            change = rng.randrange(3)
            if change == 0:
                letters[n], letters[n + 1] = letters[n + 1], letters[n]
            else:
                letters[n] = "" if change == 1 else letters[n] * 2
    return "".join(letters)


def jsonl(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _short_answers(path: Path) -> Iterator[tuple[str, str]]:
    """Questions of spans that ask for a few words, by their source; of FairytaleQA those that ask why."""
    for row in jsonl(path):
        answer, question = row["answers"][0], row["question"].strip()
        is_short = len(answer) <= MAX_FACT_CHARS if is_cjk(answer) else len(answer.split()) <= MAX_FACT_WORDS
        if row["source"].startswith("FairytaleQA"):
            if question.lower().startswith("why"):
                yield "explanation", question
        elif is_short and not row["source"].startswith("QAMR") and not _NO_FACT.search(question):
            yield "fact", question


_MEDQUAD = {
    r"what is \(are\) (.+)\?": ("explanation", "what is {}?"),
    r"what causes (.+)\?": ("explanation", "What causes {}?"),
    r"what are the (symptoms|treatments|complications) (of|for) (.+)\?": ("list", "What are the {} {} {}?"),
    r"how to (diagnose|prevent|treat) (.+)\?": ("how_to", "How to {} {}?"),
    r"how many people are affected by (.+)\?": ("fact", "How many people are affected by {}?"),
    r"is (.+) inherited\?": ("yes_no", "Is {} inherited?"),
}


def _medquad(path: Path) -> Iterator[tuple[str, str]]:
    for row in jsonl(path):
        if row["source"].startswith("MedQuAD"):
            for pattern, (label, form) in _MEDQUAD.items():
                if m := re.fullmatch(pattern, row["question"].strip(), re.IGNORECASE):
                    yield label, form.format(*m.groups())


_NF_CATS = {"INSTRUCTION": "how_to", "COMPARISON": "comparison", "REASON": "explanation", "EVIDENCE-BASED": "explanation"}


def _nf_cats(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["category"] in _NF_CATS:
                yield _NF_CATS[row["category"]], row["question"].strip()


def _boolq(path: Path) -> Iterator[tuple[str, str]]:
    return (("yes_no", row["question"]) for row in jsonl(path))


def _comparative(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        masked, name, *_ = line.split("\t")
        text = masked.replace("[CLS]", "").replace("[SEP]", "").replace(" ##", "").replace("[MASK]", name)
        yield "comparison", " ".join(re.sub(r" ([?.,'!])", r"\1", text).split())


def _qmsum(path: Path) -> Iterator[tuple[str, str]]:
    meeting = json.loads(path.read_text(encoding="utf-8"))
    yield from (("global", query["query"]) for query in meeting["general_query_list"])
    yield from ((PARTICULAR, query["query"]) for query in meeting["specific_query_list"])


def _graphrag_bench(path: Path) -> Iterator[tuple[str, str]]:
    return ((PARTICULAR, row["question"]) for row in jsonl(path) if row["question_type"] != "Creative Generation")


Rows = Callable[[Path], Iterator[tuple[str, str]]]
# Where a set is in a folder, how it is read, and how many questions of each label are taken.
PUBLIC_SETS: dict[str, tuple[str, Rows, int]] = {
    "spans, English": ("train/reader_en_clear.jsonl.gz", _short_answers, 500),
    "spans, Chinese": ("train/reader_zh.jsonl.gz", _short_answers, 250),
    "MedQuAD": ("train/rank_question_passage.jsonl.gz", _medquad, 60),
    "NF-CATS": ("nf_cats/[tv][ra][al]i*.csv", _nf_cats, 400),
    "BoolQ": ("boolq/dev.jsonl", _boolq, 500),
    "comparative questions": ("comparative/*.tsv", _comparative, 100),
    "QMSum": ("qmsum/*.json", _qmsum, 10),
    "GraphRAG-Bench": ("graphrag_bench/novel_questions.jsonl", _graphrag_bench, 200),
}


def public_questions(folders: Sequence[Path], rng: random.Random, share: float = 1.0) -> Iterator[LabelledQuestion]:
    """Questions of the public sets that a folder has, by chance, of each file at most so many of a label."""
    for name, (pattern, read, most) in PUBLIC_SETS.items():
        paths = next((found for folder in folders if (found := sorted(folder.glob(pattern)))), [])
        if not paths:
            print(f"{name}: not there, and not learned from", flush=True)
        for path in paths:
            by_label: dict[str, list[str]] = {}
            for label, text in dict.fromkeys(read(path)):
                by_label.setdefault(label, []).append(text)
            for label, texts in by_label.items():
                count = min(len(texts), max(1, round(most * share)))
                yield from (LabelledQuestion(text, label, name) for text in rng.sample(texts, count))
