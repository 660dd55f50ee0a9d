"""Reports as a selection of documents lets them be read: what they say by passages inside, and nothing else.

A report may speak of several documents. It stands as it is only where all that it was made from is inside: every mention of an entity of
its community. Else a finding stands that quotes passages inside alone; of one that quotes others too, the sentences inside stand for it;
the rest goes. Title and summary, which speak of all, give way to a title that stands inside, or names, and to the first sentences left.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from localrag.records import Finding, Quote, Report
from localrag.store.selection import Selected
from localrag.text.plain import enumeration, is_cjk, squeeze

NAMES = 3  # of a title


def narrowed_reports(db: Selected, reports: Sequence[Report]) -> list[Report]:
    """The reports in their order, without those of which nothing is left."""
    inside = _inside(db, {q.chunk_id for r in reports for f in r.findings for q in f.quotes})
    mixed = _mixed(db, [r.community_id for r in reports])
    found = []
    for report in reports:
        findings = tuple(f for f in (_narrowed(f, inside) for f in report.findings) if f is not None)
        if findings and report.community_id not in mixed and findings == report.findings:
            found.append(report)
        elif findings:
            title = _title(db, report, findings)
            summary = " ".join(f.explanation for f in findings[:2])
            found.append(replace(report, title=title, summary=summary, rating=None, rating_explanation="", findings=findings))
    return found


def _title(db: Selected, report: Report, findings: Sequence[Finding]) -> str:
    """The report's own title where it stands in a passage that is left, which is so where no model wrote it; else names."""
    ids = json.dumps(sorted({q.chunk_id for f in findings for q in f.quotes}))
    rows = db.execute("SELECT text FROM chunks WHERE id IN (SELECT value FROM json_each(?))", [ids])
    if any(report.title.casefold() in squeeze(text).casefold() for (text,) in rows):
        return report.title
    return enumeration(_names(db, report.community_id)) or findings[0].explanation


def _narrowed(finding: Finding, inside: set[str]) -> Finding | None:
    quotes = tuple(q for q in finding.quotes if q.chunk_id in inside)
    if not quotes:
        return None
    return finding if quotes == finding.quotes else Finding("", _said(quotes), quotes)


def _said(quotes: Sequence[Quote]) -> str:
    texts = list(dict.fromkeys(squeeze(q.text) for q in quotes))
    return ("" if all(map(is_cjk, texts)) else " ").join(texts)


def _inside(db: Selected, chunks: set[str]) -> set[str]:
    rows = db.execute("SELECT id FROM chunks WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(sorted(chunks))])
    return {key for (key,) in rows}


def _mixed(db: Selected, communities: Sequence[str]) -> set[str]:
    """Those of the communities whose entities are mentioned in other documents as well."""
    home = "SELECT 1 FROM main.chunks c WHERE c.id = m.chunk_id AND c.document_id IN (SELECT id FROM temp.selected)"
    mentioned = "SELECT 1 FROM main.members b JOIN main.mentions m ON m.entity_id = b.entity_id WHERE b.community_id = value"
    elsewhere = f"{mentioned} AND NOT EXISTS ({home})"
    rows = db.execute(f"SELECT value FROM json_each(?) WHERE EXISTS ({elsewhere})", [json.dumps(list(communities))])
    return {key for (key,) in rows}


def _names(db: Selected, community: str) -> list[str]:
    """The entities of a community that the selected documents mention most, people and places before things."""
    rows = db.execute(
        "SELECT e.name FROM main.members b JOIN entities e ON e.id = b.entity_id WHERE b.community_id = ? ORDER BY e.type = 'thing',"
        " (SELECT count(*) FROM mentions m WHERE m.entity_id = e.id) DESC, e.name LIMIT ?",
        [community, NAMES],
    )
    return [str(name) for (name,) in rows]
