"""What `localrag wiki --check` says of labelled statements about the demo corpus, for the even and the odd lines apart.

python -m scripts.measure.wiki_check INDEX, with INDEX the folder of an index of localrag/demo/corpus. The statements are those of
tests/data/wiki_statements.tsv: the page they stand on, the statement, and what the documents say of it.
"""

import csv
import sys
import time
from collections import Counter
from pathlib import Path

from localrag.exchange.wiki_check import WikiStatement, parse_statements, statement_verdict
from localrag.project import open_for_query
from localrag.query.attribution import alias_lookup, place_lookup, support_checker

STATEMENTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "wiki_statements.tsv"


def statement_of(page: str, text: str) -> WikiStatement:
    (statement,) = parse_statements(text, path="", subject=page, first_line=1)
    return statement


def main() -> None:
    rows = list(csv.reader(STATEMENTS.open(encoding="utf-8"), delimiter="\t"))
    started, counts = time.monotonic(), Counter()
    with open_for_query(Path(sys.argv[1])) as project:
        check = support_checker(project.embedder.embed, alias_lookup(project.db), project.reader, place_lookup(project.db))
        for n, (page, text, label) in enumerate(rows):
            counts[n % 2, label, statement_verdict(statement_of(page, text), check, project)[0]] += 1
    for half in (0, 1):
        for label in dict.fromkeys(label for _, _, label in rows):
            found = {state: n for (h, expected, state), n in sorted(counts.items()) if (h, expected) == (half, label)}
            print(f"{'even odd'.split()[half]} lines, {label}: {found}")
    print(f"{(time.monotonic() - started) / len(rows):.2f} s for each statement")


if __name__ == "__main__":
    main()
