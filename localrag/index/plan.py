"""`localrag index --plan`: what a run would do and cost, without doing it. Part of the pipeline."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from localrag.config import Settings
from localrag.engine.tokens import Tokenizer
from localrag.index.documents.chunk import chunk
from localrag.index.documents.known import Look
from localrag.index.documents.load import Digests, is_there, load_all, stored_path
from localrag.index.documents.load.scans import Draw
from localrag.index.documents.load.tesseract import Page, reading_options
from localrag.index.documents.update import find_sources, to_read
from localrag.index.extraction.tagged import can_tag
from localrag.llm.speeds import speeds
from localrag.models import ModelFile
from localrag.records import Skipped
from localrag.store import corpus, generations, ledger
from localrag.store.seen import seen

# The bundled model on A Christmas Carol and the demo: calls and tokens computed (read or written, none from a cache) for a chunk.
CALLS, TOKENS = 15.0, 1200.0
SPREAD = 1.5  # a run may be that much faster or slower than others were: texts differ, machines are busy
SECONDS_A_PAGE = 4.0  # of a scan, on one core
BYTES = 25  # of the index for a byte of text: text, full-text index, vectors, graph, reports


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do. `seconds` is a range, None where this machine's speed with the model, `model`, is not known yet."""

    files: int
    unchanged: int
    to_read: int
    skipped: tuple[Skipped, ...]
    chunks: int
    calls: int
    tokens: int
    seconds: tuple[float, float] | None
    disk: int
    scans: int = 0  # pages that are read by OCR
    model: str = ""


def plan(paths: Sequence[Path], root: Path, settings: Settings, model: ModelFile, db: Database | None, *, tagged: bool = False) -> Plan:
    """Read what is new below the paths and count; nothing is stored. `db` is the index as it is, if there is one.

    `tagged`: the bundled tagger reads what it can, and the chat model is asked of the rest.
    """
    options = reading_options(settings)
    scanned: dict[Path, int] = {}

    def counted(file: Path, _hash: str, numbers: Sequence[int], _draw: Draw) -> dict[int, Page]:
        scanned[file] = len(numbers)
        return {n: {"words": [], "why": "to be read"} for n in numbers}

    with generations.next_in_view(db) if db else nullcontext():
        sources = find_sources(paths, root, settings, db)
        files = {stored_path(f, root): f for f in sources.files}
        look = _look(files, root, settings, db)
        stored = corpus.chunk_texts(db) if db else set()
    left, skipped = list(look.left.values()), look.skipped
    unchanged = len(files) - len(left) - len(skipped)
    skipped += [Skipped(stored_path(p, root), why, True) for p, why in sources.closed.items()]
    skipped += [Skipped(stored_path(p, root), why, False) for p, why in sources.left_out.items()]
    counts = Tokenizer(model).counts
    chunks, asked, size, read = 0, 0, 0, 0
    for found in load_all(left, root, options, scans=counted):
        if isinstance(found, Skipped):
            if root / found.path in scanned:
                read += 1
            else:
                skipped.append(found)
            continue
        made = chunk(found, counts, size=settings.chunk_tokens, overlap=settings.chunk_overlap)
        new = [c.text for c in made if c.text not in stored]
        chunks += len(new)
        asked += sum(not (tagged and can_tag(text, settings)) for text in new) if settings.extractor == "model" else 0
        size += len(found.text.encode())
        read += 1
    calls, tokens, known = _rates(model, db)
    seconds = (asked * tokens / max(known) / SPREAD, asked * tokens / min(known) * SPREAD) if known else None
    cost = (round(asked * calls), round(asked * tokens), seconds, size * BYTES)
    return Plan(len(files), unchanged, read, tuple(skipped), chunks, *cost, scans=sum(scanned.values()), model=model.name)


def _look(files: dict[str, Path], root: Path, settings: Settings, db: Database | None) -> Look:
    """What a run would read; documents of which a run may find that they moved are all those whose files are gone."""
    if db is None:
        return Look(files)
    gone = [path for path in corpus.document_hashes(db) if path not in files and not is_there(root / path)]
    return to_read(files, gone, db, settings, Digests(seen(db)))


def _rates(model: ModelFile, db: Database | None) -> tuple[float, float, list[float]]:
    """Calls and computed tokens for a chunk, from this index's own runs if it had any; tokens a second of this machine's last runs."""
    known = speeds().get(model.fingerprint, [])
    runs = [r for r in ledger.figures(db) if r.get("steps")] if db else []
    extracted = corpus.extracted_by_model(db) if db else 0
    if not runs or not extracted:
        return CALLS, TOKENS, known
    calls = sum(t["requests"] for r in runs for t in r["tasks"].values())
    return calls / extracted, sum(r["rows"] for r in runs) / extracted, known
