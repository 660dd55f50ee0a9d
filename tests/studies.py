"""Studies: folders of the user with a copy of an index, as earlier versions made them."""

import json

from localrag.store import llm_cache, runs
from localrag.store.database import copy_database, folder_of
from localrag.store.opening import open_index
from localrag.system.trust import remember_trust


def make_study(index, study):
    """Make a study of the index in a folder, noted in the index, in the study and on this machine."""
    (study / "index").mkdir(parents=True)
    db = open_index(index)
    record = {"index_id": llm_cache.identity(db), "index": str(folder_of(db).resolve())}
    (study / "study.json").write_text(json.dumps(record))
    remember_trust("study", record["index_id"], str(study.resolve()))
    runs.save_settings(db, studies=sorted({*runs.load_settings(db).get("studies", []), str(study.resolve())}))
    if (index / "domain.toml").exists():
        (study / "index" / "domain.toml").write_bytes((index / "domain.toml").read_bytes())
    copy_database(db, study / "index" / "index.db")
    db.close()
