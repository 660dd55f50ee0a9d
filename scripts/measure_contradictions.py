"""Plant contradictions into copies of real documents, search for them, and say how many of the first rows are planted ones.

    python -m scripts.measure_contradictions SHARED WORK CORPUS… [--rows N] [--contracts FILE]

SHARED holds `qa_spans`, `docs`, `train`, `extraction`, `retrieval` and `qmsum`; WORK is a folder for the copies and indexes, which are made
once. CORPUS is one of CORPORA; the last four were kept apart, were run once, and are no longer apart. FILE is ContractNLI's `test.json`.
The plantings are in tests/data/contradictions/planted.jsonl: `statement` is put into `document`, and contradicts a sentence that has the
words of `marker`, or `other` in `other_document`. Rows that are not planted are printed, because some of them are true.
"""

import argparse
import gzip
import json
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from localrag import Index
from localrag.analysis.contradictions import find_contradictions
from localrag.analysis.tables import ResultTable
from localrag.project import open_for_query
from localrag.settings import INDEX_FOLDER
from localrag.text.sentences import collapse_whitespace

PLANTED = Path("tests/data/contradictions/planted.jsonl")
CORPORA = ("xquad_en", "policyqa", "gum", "httpx", "mixed", "hotpot", "musique", "office")
PASSAGES = {"hotpot": "hotpot_dev100", "musique": "musique_dev100"}  # of Wikipedia
N_PASSAGES, N_NOTES, N_CONTRACTS = 400, 60, 10  # the first ones
FLASK_PAGES = ("async-await", "blueprints", "design", "errorhandling", "gevent", "logging", "testing", "web-security")
MEETINGS = ("education_0", "education_10", "education_22")
Planting = dict[str, str]


def copy_corpus(corpus: str, shared: Path, folder: Path, contracts: Path | None) -> None:
    """Write the documents of a corpus into a folder."""
    folder.mkdir(parents=True)
    if corpus == "httpx":
        shutil.copytree(shared / "docs" / "httpx", folder, dirs_exist_ok=True)
    elif corpus == "mixed":
        copy_mixed(shared, folder)
    elif corpus == "office" and contracts:
        copy_office(shared, folder, contracts)
    elif corpus in PASSAGES:
        rows = (shared / "retrieval" / PASSAGES[corpus] / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:N_PASSAGES]
        for row in map(json.loads, rows):
            with (folder / _file_name(row["title"])).open("a", encoding="utf-8") as file:
                file.write(f"{row['text']}\n")
    elif corpus == "gum":
        with gzip.open(shared / "train" / "gum_docs.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                text = " ".join(sentence["text"] for sentence in row["sentences"])
                (folder / f"{row['id']}.txt").write_text(f"{row['title']}\n\n{text}\n", encoding="utf-8")
    else:
        contexts: dict[str, dict[str, None]] = {}
        for line in (shared / "qa_spans" / f"{corpus}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            contexts.setdefault(row["title"], {})[row["context"]] = None
        for title, texts in contexts.items():
            (folder / _file_name(title)).write_text("\n\n".join(texts), encoding="utf-8")


def copy_mixed(shared: Path, folder: Path) -> None:
    """Write manuals (a part of Flask's), news and articles (re3d) and committee meetings (QMSum) into subfolders of a folder."""
    for name in ("patterns", "deploying"):
        shutil.copytree(shared / "docs" / "flask" / "docs" / name, folder / "flask" / name)
    for name in FLASK_PAGES:
        shutil.copy(shared / "docs" / "flask" / "docs" / f"{name}.rst", folder / "flask")
    texts = {}
    for file in sorted((shared / "extraction" / "re3d").glob("*/documents.json")):
        for row in map(json.loads, file.read_text(encoding="utf-8-sig").splitlines()):
            texts[f"re3d/{_file_name(row['title'])}"] = f"{row['title']}\n\n{row['text']}"
    for name in MEETINGS:
        turns = json.loads((shared / "qmsum" / f"{name}.json").read_text(encoding="utf-8"))["meeting_transcripts"]
        texts[f"meetings/{name}.txt"] = "\n\n".join(f"{turn['speaker']}: {turn['content']}" for turn in turns)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def copy_office(shared: Path, folder: Path, contracts: Path) -> None:
    """Write notes of a programmer (til) and non-disclosure agreements (ContractNLI) into subfolders of a folder."""
    notes = shared / "docs" / "til"
    texts = {f"til/{path.relative_to(notes)}": path.read_text(encoding="utf-8") for path in sorted(notes.rglob("*.md"))[:N_NOTES]}
    for row in json.loads(contracts.read_text(encoding="utf-8"))["documents"][:N_CONTRACTS]:
        texts[f"contracts/{Path(row['file_name']).with_suffix('.txt')}"] = row["text"]
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _file_name(title: str) -> str:
    return re.sub(r"[^\w.-]", "_", title) + ".txt"


def plant(folder: Path, plantings: Iterable[Planting]) -> None:
    """Put each planting's statements into its documents, behind their text."""
    for row in plantings:
        for document, statement in ((row["document"], row["statement"]), (row.get("other_document"), row.get("other"))):
            if document:
                path = folder / document if (folder / document).exists() else folder / f"{document}.txt"
                path.chmod(0o644)
                path.write_text(f"{path.read_text(encoding='utf-8').rstrip()}\n\n{statement}\n", encoding="utf-8")


def found_planting(texts: Iterable[str], plantings: Iterable[Planting]) -> Planting | None:
    """The planting that a pair of statements is; None if it is none."""
    first, second = map(collapse_whitespace, texts)
    for row in plantings:
        for a, b in ((first, second), (second, first)):
            if _same(a, row["statement"]) and (_same(b, row["other"]) if "other" in row else row["marker"] in b):
                return row
    return None


def _same(a: str, b: str) -> bool:
    return re.findall(r"\w+", a) == re.findall(r"\w+", b) or set(re.findall(r"\w+", b)) <= set(re.findall(r"\w+", a))


def report(corpus: str, table: ResultTable, plantings: list[Planting], seconds: float) -> None:
    """Print the rows that are not planted, precision of the first rows, and recall."""
    hits = [found_planting((row.cells[0].text, row.cells[1].text), plantings) for row in table.rows]
    for row, hit in zip(table.rows, hits, strict=True):
        if hit is None:
            a, b = row.cells[0].citations[0], row.cells[1].citations[0]
            print(
                f"  {row.cells[2].confidence:.2f} {row.cells[2].text}\n    {a.path}: {row.cells[0].text}\n    {b.path}: {row.cells[1].text}"
            )
        else:
            print(f"  {row.cells[2].confidence:.2f} planted, {hit['kind']}: {row.cells[2].text}")
    for row in plantings:
        if row not in hits:
            print(f"  missed, {row['kind']}: {row['statement']}")
    first = hits[:20]
    distinct = {row["statement"] for row in hits if row}
    print(
        f"{corpus}: {sum(map(bool, first))} of the first {len(first)} rows planted, {len(distinct)} of {len(plantings)} found"
        f" in {len(hits)} rows; {dict(table.figures)}; {seconds:.0f} s of processor time. {table.note}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("corpora", nargs="+", choices=CORPORA)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--contracts", type=Path)
    options = parser.parse_args()
    planted = [json.loads(line) for line in PLANTED.read_text(encoding="utf-8").splitlines()]
    for corpus in options.corpora:
        folder = options.work / corpus
        index = folder / INDEX_FOLDER
        mine = [row for row in planted if row["corpus"] == corpus]
        if not folder.exists():
            copy_corpus(corpus, options.shared, folder, options.contracts)
            plant(folder, mine)
        if not index.exists():
            with Index.create(folder, extractor="phrases") as made:
                made.add(folder)
        with open_for_query(index, logs=False) as project:
            started = time.process_time()
            table = find_contradictions(project, limit=options.rows)
            report(corpus, table, mine, time.process_time() - started)


if __name__ == "__main__":
    main()
