"""The sets that the reader is trained and measured on: labelled questions, and questions made of free text by rule.

    python scripts/training_data.py DATA OUT [--made 20000]

DATA holds `qa_spans/`, `retrieval/`, `graphrag_bench/` and `texts/`. OUT/reader.jsonl gets a question a line: `passages` and
`answer`, which is [passage, start, end], "yes", "no", or null where the passages do not say. A fifth of every labelled set, by article or
question, is `kept`: it is never trained on. DATA's licences: SQuAD's articles and XQuAD, HotpotQA, CMRC 2018: CC BY-SA 4.0; MuSiQue: CC BY
4.0; PolicyQA: MIT; the free texts: public domain and CC BY-SA 4.0 (Wikipedia).
"""

import argparse
import json
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from localrag.eval.datasets import as_markdown, load_rows
from localrag.text.sentences import cached_sentences, is_cjk
from scripts.questions_by_rule import comparisons, questions

Row = dict[str, Any]
POLICIES = 900  # their answers are whole sentences: more would teach that answers are
MOST = 4  # questions made of one passage
_ODD = re.compile(r"[`<>{}|_=\\#*“”\"\[\]]|--")  # code, markup and speech, of which no question is made
LONG = 900  # characters of a passage of free text
_ENDS = r"(?: (?:and|who|that|which|from|in|of|by|for|at|with|based|located)\b|[.,;])"
_IS = re.compile(rf"^[^.]{{2,80}}?\b(?:is|was) an? ([\w, -]{{3,60}}?){_ENDS}")


def part(group: str) -> str:
    """`kept` for a fifth of all groups, the same in every run."""
    return "kept" if blake2b(group.encode(), digest_size=1).digest()[0] % 5 == 0 else "train"


def rng_of(key: str) -> random.Random:
    return random.Random(blake2b(key.encode(), digest_size=8).digest())


def row(source: str, key: str, group: str, question: str, passages: Sequence[str], answer: Any) -> Row:
    found = {"id": f"{source}/{key}", "source": source, "part": part(group), "question": question}
    return found | {"passages": list(passages), "answer": answer}


def corpus(data: Path, name: str, without: Collection[str] = ()) -> dict[str, str]:
    """The passages of a set, by id, each under its title."""
    rows = load_rows(data / "retrieval" / name / "corpus.jsonl", "id", "text")
    return {r["id"]: as_markdown(r.get("title", ""), r["text"]) for r in rows if r["id"] not in without}


def asked_in(data: Path, name: str) -> Iterator[tuple[Row, str]]:
    """The questions of a set, each with the group that is kept or trained on as a whole."""
    for r in load_rows(data / "retrieval" / name / "queries.jsonl", "id", "question", "gold"):
        yield r, r["gold"][0] if name.startswith("zh") else r["id"]


def articles(data: Path) -> Iterator[Row]:
    """XQuAD and PolicyQA: with the paragraph, with it among others, and with others of the article alone."""
    for name in ("xquad_en", "xquad_de", "xquad_es", "xquad_zh", "policyqa"):
        rows = load_rows(data / "qa_spans" / f"{name}.jsonl", "id", "title", "context", "question")
        if name == "policyqa":
            rows = random.Random(1).sample(rows, min(POLICIES, len(rows)))
        others: dict[str, list[str]] = {}
        for r in rows:
            others.setdefault(r["title"], [])
            if r["context"] not in others[r["title"]]:
                others[r["title"]].append(r["context"])
        for r in rows:
            rng = rng_of(name + r["id"])
            start, text = r["starts"][0], r["answers"][0]
            if r["context"][start : start + len(text)] != text:
                continue
            rest = [c for c in others[r["title"]] if c != r["context"] and text.lower() not in c.lower()]
            far = rng.sample(rest, min(1, len(rest)))
            yield row(name, r["id"], r["title"], r["question"], [r["context"]], [0, start, start + len(text)])
            both = rng.sample([r["context"], *far], 1 + len(far))
            at = both.index(r["context"])
            if far:
                yield row(name, r["id"] + "/both", r["title"], r["question"], both, [at, start, start + len(text)])
                yield row(name, r["id"] + "/none", r["title"], r["question"], far, None)


def collection(data: Path, name: str) -> Iterator[Row]:
    """HotpotQA, MuSiQue (and the single steps its questions are made of), CMRC: a question's gold passages among others."""
    passages = corpus(data, name)
    ids = list(passages)
    for r, group in asked_in(data, name):
        at = ids.index(r["gold"][0])
        near = [i for i in ids[max(0, at - 8) : at + 8] if i not in r["gold"]]  # the passages of a question stand together
        for key, question, answers, gold in [("", r["question"], r["answers"], r["gold"]), *steps_of(r, passages)]:
            rng = rng_of(name + r["id"] + key)
            for kind in ("gold", "none"):
                chosen = [*(gold if kind == "gold" else []), *rng.sample(near, min(len(near), rng.randint(1, 2)))]
                rng.shuffle(chosen)
                texts = [passages[i] for i in chosen]
                answer: Any = None
                if kind == "gold":
                    yes_no = answers[0].lower() in ("yes", "no")
                    answer = answers[0].lower() if yes_no else place(texts, answers, [chosen.index(i) for i in gold])
                    if answer is None:
                        continue
                elif any(a in t for a in answers for t in texts):
                    continue
                yield row(name, f"{r['id']}{key}/{kind}", group, question, texts, answer)


def steps_of(r: Row, passages: Mapping[str, str]) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """The steps of a MuSiQue question that one passage answers: (key, question, answers, its passage)."""
    steps = r.get("decomposition", ())
    for n, step in enumerate(steps):
        text = step["question"]
        for k, before in enumerate(steps):
            text = text.replace(f"#{k + 1}", before["answer"])
        holding = [i for i in r["gold"] if step["answer"] in passages[i]]
        if ">>" not in text and len(holding) == 1:
            yield f"/{n}", text, [step["answer"]], holding


def place(texts: Sequence[str], answers: Sequence[str], among: Sequence[int]) -> list[int] | None:
    """Where the first answer that is found stands, in the last of the passages that have it."""
    for answer in answers:
        for n in reversed(among):
            if found := re.search(rf"(?<!\w){re.escape(answer)}(?!\w)" if not is_cjk(answer) else re.escape(answer), texts[n]):
                return [n, found.start(), found.end()]
    return None


def free_texts(data: Path) -> Iterator[tuple[str, list[str]]]:
    """(source, paragraphs) of what nobody labelled, without what a kept question is about."""
    for name in ("hotpot_dev100", "musique_dev100", "2wiki_fg101", "zh_cmrc_trial"):
        kept = {i for r, group in asked_in(data, name) if part(group) == "kept" for i in r["gold"]}
        yield name, list(corpus(data, name, without=kept).values())
    for source, pattern in (("novels", "graphrag_bench/novels/*.txt"), ("texts", "texts/*.*")):
        for file in sorted(data.glob(pattern)):
            if file.suffix in (".txt", ".md") and "carol" not in file.name and "dulce" not in file.name:
                yield f"{source}/{file.stem}", _paragraphs(file.read_text(encoding="utf-8", errors="replace"))


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of some length, short ones joined with the next, each on one line."""
    found, held = [], ""
    for block in re.split(r"\n\s*\n", text):
        held = f"{held} {' '.join(block.split())}".strip()
        if len(held) >= (120 if is_cjk(held) else 350):
            found.append(held[:LONG])
            held = ""
    return found


def made(data: Path, most: int) -> Iterator[Row]:
    """Questions made by rule: with their passage alone or beside a neighbour, and with the neighbour only."""
    pools = list(free_texts(data))
    places = [(s, n) for s, paragraphs in pools for n in range(len(paragraphs))]
    random.Random(2).shuffle(places)
    places.sort(key=lambda p: "/" in p[0])  # articles first: they say plainly what they say
    texts = dict(pools)
    count = {"zh": 0, "other": 0}
    share = {"zh": most // 5, "other": most - most // 5}
    for source, n in places:
        text = texts[source][n]
        kind = "zh" if is_cjk(text) else "other"
        if count[kind] >= share[kind]:
            continue
        rng = rng_of(f"{source}{n}")
        shortest = 12 if kind == "zh" else 40
        spans = [s for s in cached_sentences(text) if s.end - s.start > shortest and not _ODD.search(text[s.start : s.end])]
        found = [(s.start, m) for s in spans for m in questions(text[s.start : s.end], rng)]
        for at, m in rng.sample(found, min(MOST, len(found))):
            neighbour = texts[source][n + 1 if n + 1 < len(texts[source]) else n - 1]
            key, answer = f"{n}/{at + m.start}", text[at + m.start : at + m.end]
            both = rng.sample([text, neighbour], 2)
            count[kind] += 1
            shown = rng.random()
            if shown < 0.3 and answer not in neighbour:
                yield row("made", f"{source}/{key}/none", "", m.question, [neighbour], None) | {"part": "train"}
            else:
                passages = both if shown < 0.6 else [text]
                span = [passages.index(text), at + m.start, at + m.end]
                yield row("made", f"{source}/{key}", "", m.question, passages, span) | {"part": "train"}


def made_yes_no(data: Path, most: int) -> Iterator[Row]:
    """Whether two things are both of a kind, from the first sentences of two articles."""
    names = ("hotpot_dev100", "musique_dev100", "2wiki_fg101")
    rows = [r for name in names for r in load_rows(data / "retrieval" / name / "corpus.jsonl", "id", "text")]
    known = [(r, m[1].split(",")[-1].split()[-1].lower()) for r in rows if (m := _IS.match(r["text"]))]
    kinds = [(r["title"], kind) for r, kind in known]
    rng = random.Random(3)
    for n, (question, answer, one, other) in enumerate(comparisons(kinds, rng, most)):
        passages = [as_markdown(known[i][0]["title"], known[i][0]["text"]) for i in (one, other)]
        yield row("made_yes_no", str(n), "", question, passages, answer) | {"part": "train"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--made", type=int, default=20_000, help="questions made by rule")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [*articles(args.data)]
    for name in ("hotpot_dev100", "musique_dev100", "zh_cmrc_trial"):
        rows += collection(args.data, name)
    rows += made(args.data, args.made)
    rows += made_yes_no(args.data, args.made // 20)
    with (args.out / "reader.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    counts: dict[tuple[str, str, str], int] = {}
    for r in rows:
        key = (r["source"], r["part"], "none" if r["answer"] is None else "answered")
        counts[key] = counts.get(key, 0) + 1
    for key, n in sorted(counts.items()):
        print(*key, n)


if __name__ == "__main__":
    main()
