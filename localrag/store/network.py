"""The network of entities and chunks that questions walk over, read from the tables and kept beside the database as a cache."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from scipy.sparse import load_npz, save_npz
from sqlite_utils import Database

from localrag.pagerank import Network, make_network
from localrag.records import content_id
from localrag.store import ledger
from localrag.store.vectors import state_of
from localrag.system.files import new_file

_MATRICES = ("to_chunks", "to_entities", "to_related")
_kept: dict[Path, tuple[str, Network]] = {}  # of this process, which may ask many questions


def load_network(db: Database, folder: Path) -> Network:
    """The network of the stored graph: from memory, else from its files where they are of this graph, else built anew."""
    state, files = _files(db, folder)
    if folder in _kept and _kept[folder][0] == state:
        return _kept[folder][1]
    net = _read(files) or _build(db)
    _kept[folder] = (state, net)
    if not files["nodes"].exists():
        _write(net, files, folder)
    return net


def same(db: Database, folder: Path) -> bool | None:
    """Whether the kept files of the present graph hold just that; None where there are none."""
    _, files = _files(db, folder)
    if not files["nodes"].exists():
        return None
    try:
        kept, made = _read(files), _build(db)
    except KeyError:  # the tables do not fit each other
        return False
    if kept is None or (kept.entities, kept.chunks) != (made.entities, made.chunks) or not np.array_equal(kept.rarity, made.rarity):
        return False
    pairs = [(getattr(kept, name), getattr(made, name)) for name in _MATRICES]
    return all(a.shape == b.shape and (a != b).nnz == 0 for a, b in pairs)


def files(db: Database, folder: Path) -> list[Path]:
    """Where the network of the present graph is kept."""
    return list(_files(db, folder)[1].values())


def _files(db: Database, folder: Path) -> tuple[str, dict[str, Path]]:
    """Which graph there is, and where its network is kept."""
    state = content_id("network 2", ledger.settings(db).get("graph"), state_of(db, "chunk"))
    return state, {name: folder / f"network.{state}.{name}.npz" for name in (*_MATRICES, "nodes")}


def _build(db: Database) -> Network:
    """Of the tables themselves (`main`), also where the connection shows a part of them: the network is kept for every question."""
    entities = [r["id"] for r in db.query("SELECT id FROM main.entities ORDER BY id")]
    chunks = [r["id"] for r in db.query("SELECT id FROM main.chunks ORDER BY id")]
    number, place = {e: n for n, e in enumerate(entities)}, {c: n for n, c in enumerate(chunks)}
    rows = list(
        db.execute(
            "SELECT m.entity_id, m.chunk_id, count(*), max(CASE WHEN instr(lower(d.title), lower(m.name)) THEN"
            " min(1.0, 1.0 * length(m.name) / length(d.title)) ELSE 0 END)"
            " FROM main.mentions m JOIN main.chunks c ON c.id = m.chunk_id JOIN main.documents d ON d.id = c.document_id GROUP BY 1, 2"
        )
    )
    related = list(db.execute("SELECT source_id, target_id, weight FROM main.relationships"))
    return make_network(
        entities,
        chunks,
        np.array([(number[e], place[c]) for e, c, *_ in rows], np.int64),
        np.array([n for *_, n, _ in rows], np.float32),
        np.array([t for *_, t in rows], np.float32),
        np.array([(number[a], number[b]) for a, b, _ in related], np.int64),
        np.array([w for *_, w in related], np.float32),
    )


def _read(files: dict[str, Path]) -> Network | None:
    try:
        with np.load(files["nodes"]) as nodes:
            entities, chunks, rarity = tuple(nodes["entities"].tolist()), tuple(nodes["chunks"].tolist()), nodes["rarity"]
        return Network(entities, chunks, **{name: load_npz(files[name]) for name in _MATRICES}, rarity=rarity)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):  # missing or torn: the tables have it all
        return None


def _write(net: Network, files: dict[str, Path], folder: Path) -> None:
    try:
        for old in set(folder.glob("network.*.npz")) - set(files.values()):
            old.unlink(missing_ok=True)
        for name in _MATRICES:
            with new_file(files[name]) as part, part.open("wb") as f:
                save_npz(f, getattr(net, name), compressed=False)
        with new_file(files["nodes"]) as part, part.open("wb") as f:  # last: with it the files are whole
            np.savez(f, entities=np.array(net.entities, "U20"), chunks=np.array(net.chunks, "U20"), rarity=net.rarity)
    except OSError:  # a folder that cannot be written to: the network in memory serves as well
        return
