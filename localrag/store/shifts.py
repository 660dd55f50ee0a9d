"""Chunks that an edit only shifts: their text is stored again in the document's next content, under another id and at another place."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlite_utils import Database

from localrag.records import Quote, Report
from localrag.store.staged import Row, Staged

_ENDING = "main.documents d JOIN next_gone g ON g.path = d.path"


@dataclass(frozen=True, slots=True)
class Shift:
    """The id that a chunk's text has now, and by how many characters it stands further on in its document."""

    chunk_id: str
    by: int


def shifts(db: Database) -> dict[str, Shift]:
    """Published chunk → what became of it, of those whose path has a chunk of the same text in the next generation as well."""
    number = "row_number() OVER (PARTITION BY d.path, c.text ORDER BY c.ordinal) AS n"
    before = f"SELECT d.path, c.text, {number}, c.id, c.start FROM {_ENDING} JOIN main.chunks c ON c.document_id = d.id"
    now = f"SELECT d.path, c.text, {number}, c.id, c.start FROM main.next_documents d JOIN main.next_chunks c ON c.document_id = d.id"
    rows = db.execute(f"SELECT b.id, a.id, a.start - b.start FROM ({before}) b JOIN ({now}) a USING (path, text, n)")
    return {key: Shift(new, by) for key, new, by in rows}


def others(staged: Staged, table: str, shifted: Mapping[str, Shift]) -> set[str]:
    """The subjects (first column) of which `mentions` or `evidence` have other rows than before, not counting a chunk that was shifted."""
    before, now = staged.turnover(table)
    count = Counter(_shifted(row, shifted) for row in before)
    count.subtract(Counter(now))
    return {row[0] for row, n in count.items() if n}


def _shifted(row: Row, shifted: Mapping[str, Shift]) -> Row:
    """A row (subject, chunk, start, end, …) as it is after the shift."""
    found = shifted.get(row[1])
    return row if found is None else (row[0], found.chunk_id, row[2] + found.by, row[3] + found.by, *row[4:])


def quoting(db: Database) -> dict[str, set[str]]:
    """Community → the chunks that its published report quotes and that end with this generation, of those that quote any."""
    quotes = "main.reports r, json_each(r.findings) f, json_each(f.value, '$.quotes') q"
    key = "json_extract(q.value, '$.chunk_id')"
    ending = f"SELECT c.id FROM {_ENDING} JOIN main.chunks c ON c.document_id = d.id WHERE c.id NOT IN (SELECT id FROM next_chunks)"
    of = "SELECT q.community_id FROM quoted q JOIN main.documents d ON d.id = q.document_id WHERE d.path IN (SELECT path FROM next_gone)"
    found: dict[str, set[str]] = {}
    where = f"r.community_id IN ({of}) AND json_valid(r.findings) AND {key} IN ({ending})"
    for community, chunk in db.execute(f"SELECT DISTINCT r.community_id, {key} FROM {quotes} WHERE {where}"):
        found.setdefault(community, set()).add(chunk)
    return found


def shifted_report(report: Report, shifted: Mapping[str, Shift]) -> Report:
    """A report with its quotes where their chunks are now."""

    def placed(quote: Quote) -> Quote:
        found = shifted.get(quote.chunk_id)
        return quote if found is None else replace(quote, chunk_id=found.chunk_id, start=quote.start + found.by, end=quote.end + found.by)

    return replace(report, findings=tuple(replace(f, quotes=tuple(map(placed, f.quotes))) for f in report.findings))
